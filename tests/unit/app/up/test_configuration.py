"""What the processes of `ullage up` run with, in the words of flags, and where it is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ullage.app.configuration.flags import values_of
from ullage.app.configuration.printing import to_yaml
from ullage.app.configuration.reading import parse
from ullage.app.configuration.types import DEFAULT, Configuration
from ullage.app.up.components import configuration_of
from ullage.app.up.seeds import seed_configuration

DATA = Path("/data")
KINDS = {"--longhorn": True, "--manage-engines": True, "--manage-vm-backups": True, "--manage-vm-restores": True}


@pytest.mark.parametrize(
    ("configuration", "command", "flags"),
    [
        pytest.param(configuration_of(DATA), "webhook", {**KINDS, "--drain": 0}, id="webhook"),
        pytest.param(
            configuration_of(DATA),
            "controller",
            {
                **KINDS,
                "--hostpath-volumes": ("/data/volumes",),
                "--hostpath-snapshots": "/data/snapshots",
                "--hostpath-single-node": True,
                "--node": "ullage",
                "--only-snapshotter": True,
                "--engines": "/data/engines.sock",
                "--provision": ("driver.longhorn.io",),
            },
            id="controller",
        ),
        pytest.param(configuration_of(DATA), "api", {"--drain": 0, "--client-files": "/data"}, id="API"),
        pytest.param(
            configuration_of(DATA, seeds=1),
            "api",
            {"--drain": 0, "--client-files": "/data", "--role": ("cluster", "master")},
            id="API of a master",
        ),
        pytest.param(configuration_of(DATA), "install", KINDS, id="what is installed"),
        pytest.param(seed_configuration(), "webhook", {"--drain": 0, "--role": ("seed",)}, id="webhook of a seed"),
        pytest.param(seed_configuration(), "controller", {"--role": ("seed",)}, id="controller of a seed"),
    ],
)
def test_a_process_is_told_what_differs_from_the_default(
    configuration: Configuration, command: str, flags: dict[str, Any]
) -> None:
    default = values_of(DEFAULT, command)
    found = {flag: value for flag, value in values_of(configuration, command).items() if default.get(flag) != value}
    assert found == flags


def test_the_files_can_be_read() -> None:
    for configuration in (configuration_of(DATA), configuration_of(DATA, seeds=2), seed_configuration()):
        assert parse("configuration.yaml", to_yaml(configuration)) == configuration
