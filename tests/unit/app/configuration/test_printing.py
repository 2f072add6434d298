"""What `ullage config` prints: the whole Configuration, which can be fed back, and its JSON schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from typer.testing import CliRunner

import ullage.app.commands.root  # noqa: F401  adds the commands
from tests.unit.app.configuration.test_flags import changed_configuration
from tools.configuration import FOLDER, files
from ullage.app.configuration.printing import json_schema, to_yaml
from ullage.app.configuration.reading import parse
from ullage.app.configuration.types import DEFAULT, Configuration
from ullage.cli.common import shell
from ullage.errors import BadInput

HEAD: dict[str, Any] = {"apiVersion": "config.ullage.io/v1alpha1", "kind": "Configuration"}


@pytest.mark.parametrize("name", sorted(files()))
def test_a_file_is_as_it_is_generated(name: str) -> None:
    assert (FOLDER / name).read_text() == files()[name], "stale: run `make generate`, and commit what it wrote"


def test_nothing_else_is_there() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(files())


@pytest.mark.parametrize(
    "configuration",
    [pytest.param(DEFAULT, id="the default"), pytest.param(changed_configuration(), id="every field set to something else")],
)
def test_what_is_printed_is_read_as_the_same(configuration: Configuration) -> None:
    text = to_yaml(configuration)
    assert parse("c.yaml", text) == configuration
    assert to_yaml(parse("c.yaml", text)) == text
    jsonschema.validate(yaml.safe_load(text), json_schema())


def test_strings_that_look_like_something_else_come_back_as_strings() -> None:
    spec = {"drivers": {"hostPath": {"node": "07"}, "provision": ["true", "null", "1e3", "~", "#a", "a:b"]}}
    configuration = parse("c.yaml", json.dumps({**HEAD, "spec": spec}))
    assert parse("c.yaml", to_yaml(configuration)) == configuration


def test_every_field_has_a_comment() -> None:
    lines = to_yaml(DEFAULT).splitlines()
    fields = [number for number, line in enumerate(lines) if ":" in line and not line.strip().startswith(("#", "-"))]
    assert len(fields) > 60
    bare = [lines[number] for number in fields[3:] if not lines[number - 1].strip().startswith("#")]
    assert bare == []
    assert "    # Default: 600. Flag of controller, csi-sidecar: --audit-interval.\n    auditIntervalSeconds: 600" in "\n".join(
        lines
    )


def test_the_schema_is_one_and_every_field_in_it_is_described() -> None:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert [path for path, found in properties(schema, "") if not found.get("description")] == []


def properties(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, found in schema.get("properties", {}).items():
        yield f"{path}.{name}", found
        yield from properties(found, f"{path}.{name}")


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        pytest.param(None, True, id="a section that is commented out"),
        pytest.param({"engines": {"socket": None}}, True, id="a value that is not set"),
        pytest.param({"drivers": {"csi": {"a": "sidecar", "b": "unix:///s"}}}, True, id="drivers"),
        pytest.param({"drivers": {"csi": {"a": "s"}}}, False, id="a relative socket"),
        pytest.param({"drivers": {"csi": {"a=b": "sidecar"}}}, False, id="a name with an equals sign"),
        pytest.param({"drivers": {"longhorn": None}}, False, id="null for a flag"),
        pytest.param({"drivers": {"long": True}}, False, id="an unknown field"),
        pytest.param({"roles": []}, False, id="no role"),
        pytest.param({"roles": ["tenant"]}, False, id="an unknown role"),
        pytest.param({"api": {"port": 65535}}, True, id="the largest port"),
        pytest.param({"api": {"port": 65536}}, False, id="a port that is too large"),
        pytest.param({"projects": {"seedNamespace": "a" * 64}}, False, id="a name that is too long"),
    ],
)
def test_schema_and_reader_agree(spec: Any, allowed: bool) -> None:
    document = {**HEAD, "spec": spec}
    assert jsonschema.Draft202012Validator(json_schema()).is_valid(document) == allowed
    if allowed:
        parse("c.yaml", json.dumps(document))
    else:
        with pytest.raises(BadInput):
            parse("c.yaml", json.dumps(document))


def test_the_command_prints_the_default_and_merges_a_file(tmp_path: Path) -> None:
    run = CliRunner()
    assert run.invoke(shell.app, ["config", "print"]).stdout == to_yaml(DEFAULT)
    assert json.loads(run.invoke(shell.app, ["config", "schema"]).stdout) == json.loads(json.dumps(json_schema()))
    file = tmp_path / "c.yaml"
    file.write_text(json.dumps({**HEAD, "spec": {"drivers": {"longhorn": True}}}))
    merged = run.invoke(shell.app, ["config", "print", "--config", str(file)]).stdout
    assert merged == to_yaml(DEFAULT).replace("longhorn: false", "longhorn: true")
