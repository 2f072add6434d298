"""Processes that are started with `--config FILE` work as the file says, and a flag on the command line wins over it."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ullage.app.configuration.reading import read
from ullage.app.installer.roles import CONTROLLER, WEBHOOK
from ullage.app.up.components import configuration_of
from ullage.app.up.setup import CONFIGURATION
from ullage.standalone.world.model import NODE

from .apart import IS_BORROWED
from .snapshot_scene import GA, Scene, eventually, scene
from .test_up import Up

WEBHOOK_SECTION = {"port": 0, "drainSeconds": 0}

pytestmark = pytest.mark.skipif(IS_BORROWED, reason="the cluster's own snapshot controller would answer too")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("configuration")) as made, made.running(made.world()):
        yield made


def written(stage: Scene, name: str, **spec: Any) -> str:
    file = stage.directory / name
    file.write_text(yaml.safe_dump({"apiVersion": "config.ullage.io/v1alpha1", "kind": "Configuration", "spec": spec}))
    return str(file)


@pytest.mark.parametrize("kept", [pytest.param("file", id="as the file says"), pytest.param("flag", id="where a flag wins")])
def test_snapshots_are_kept_where_the_controller_was_told(stage: Scene, kept: str) -> None:
    directories = {name: stage.directory / f"{kept}-{name}" for name in ("file", "flag")}
    file = written(
        stage,
        f"{kept}.yaml",
        drivers={
            "hostPath": {
                "volumes": [str(stage.volumes)],
                "snapshots": str(directories["file"]),
                "node": NODE,
                "singleNode": True,
            },
            "onlySnapshotter": True,
        },
        controller={"leaderElect": False, "metrics": {"port": 0}},
        webhook=WEBHOOK_SECTION,
    )
    flags = ["--hostpath-snapshots", str(directories["flag"])] if kept == "flag" else []
    controller = ["controller", *stage.login(CONTROLLER), "--config", file, *flags]
    webhook = ["webhook", *stage.login(WEBHOOK), "--config", file]
    namespace = stage.namespace()
    with stage.running(webhook, controller):
        stage.files(stage.claim(namespace, "data"))
        stage.api.create(GA.snapshots(namespace), GA.of_claim("snap", "data"))
        path = f"{GA.snapshots(namespace)}/snap"
        eventually("the snapshot is ready", lambda: GA.ready(stage.api.get(path).obj))
        assert snapshots_in(directories[kept]) == 1
        assert sum(snapshots_in(directory) for directory in directories.values()) == 1
        stage.api.delete(path)
        eventually("the snapshot is gone", lambda: stage.api.get(path).code == 404)
        eventually("so is its data", lambda: snapshots_in(directories[kept]) == 0)


def snapshots_in(directory: Path) -> int:
    return len(list(directory.glob("snapshot-*")))


def test_a_driver_that_the_file_does_not_name_is_not_set_up(stage: Scene) -> None:
    """hostPath volumes are absent from the file, and this controller answers for volumes of every driver."""
    own = {"drivers": {"onlySnapshotter": True}, "controller": {"leaderElect": False}, "webhook": WEBHOOK_SECTION}
    file = written(stage, "none.yaml", **own)
    namespace = stage.namespace()
    controller = ["controller", *stage.login(CONTROLLER), "--config", file, "--metrics-port", "0"]
    with stage.running(["webhook", *stage.login(WEBHOOK), "--config", file], controller):
        stage.files(stage.claim(namespace, "data"))
        stage.api.create(GA.snapshots(namespace), GA.of_claim("snap", "data"))
        path = f"{GA.snapshots(namespace)}/snap"
        eventually("the snapshot has an error", lambda: "error" in stage.api.get(path).obj.get("status", {}))
        assert "no backend is set up for driver" in stage.api.get(path).obj["status"]["error"]["message"]


def test_up_writes_the_configuration_that_its_processes_run_with(tmp_path: Path) -> None:
    data = tmp_path / "data"
    running = Up("--data-dir", str(data), "--port", "0")
    try:
        assert read(data / CONFIGURATION) == configuration_of(data)
        started = [line.split(b"\0") for line in command_lines() if str(data).encode() in line]
        told = {words[index + 1].decode() for words in started for index, word in enumerate(words) if word == b"--config"}
        names = {word.decode() for words in started if b"--config" in words for word in words}
        assert told == {str(data / CONFIGURATION)}
        assert {"controller", "webhook", "api"} <= names
    finally:
        running.end(signal.SIGTERM)


def command_lines() -> Iterator[bytes]:
    """Of the processes of this machine. One that ends meanwhile has none."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield path.read_bytes()
