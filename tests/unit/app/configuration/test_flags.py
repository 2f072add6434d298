"""Flags and the Configuration say the same: each flag has one field with the same default, and each field its flag."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer
from msgspec import inspect as shapes

import ullage
import ullage.app.commands.root
from ullage.app import drivers, project_options, vm_options
from ullage.app.configuration.flags import COMMANDS, FLAGS_ONLY, SETTINGS, settings_of, values_of
from ullage.app.configuration.types import DEFAULT, Configuration
from ullage.cli.common import shell

SOURCE = Path(ullage.__file__).parents[1]
KUBECONFIG = Path(__file__).parents[1] / "commands" / "kubeconfig.yaml"

# Lists that say what an absent flag means.
SPELLED_OUT: dict[str, Callable[[Any], object]] = {
    "--role": project_options.roles_of,
    "--kubevirt-namespace": lambda given: vm_options.headroom_of(drivers.Chosen(kubevirt_namespaces=tuple(given or ()))),
}


def parameters(command: str) -> dict[str, Any]:
    """The parameters of a command, by flag."""
    group: Any = typer.main.get_command(shell.app)
    return {parameter.opts[0]: parameter for parameter in group.commands[command].params}


FLAGS = [(command, flag) for command in COMMANDS for flag in parameters(command) if flag not in FLAGS_ONLY]


def fields(shape: shapes.Type, path: str = "") -> Iterator[tuple[str, shapes.Type]]:
    """The fields that are no sections, by path."""
    assert isinstance(shape, shapes.StructType)
    for field in shape.fields:
        at = f"{path}.{field.encode_name}".removeprefix(".")
        if isinstance(field.type, shapes.StructType):
            yield from fields(field.type, at)
        else:
            yield at, field.type


FIELDS = dict(fields(shapes.type_info(type(DEFAULT.spec))))


@pytest.mark.parametrize(("command", "flag"), FLAGS, ids=[f"{command} {flag}" for command, flag in FLAGS])
def test_a_flag_has_exactly_one_field_with_the_same_default(command: str, flag: str) -> None:
    assert [setting.path for setting in SETTINGS if (setting.flag, command in setting.commands) == (flag, True)] != []
    assert Counter(setting.flag for setting in SETTINGS if command in setting.commands)[flag] == 1
    default, value = parameters(command)[flag].default, values_of(DEFAULT, command).get(flag)
    if flag in SPELLED_OUT:
        assert default is None
        assert SPELLED_OUT[flag](value) == SPELLED_OUT[flag](None)
    else:
        assert (type(value), value) == (type(default), default)


def test_every_field_has_its_flag_and_no_flag_is_made_up() -> None:
    assert Counter(setting.path for setting in SETTINGS) == Counter(FIELDS.keys())
    named = {(command, setting.flag) for setting in SETTINGS for command in setting.commands}
    assert named == set(FLAGS)


def test_flags_without_a_field_are_those_of_a_process_or_a_call() -> None:
    without = {flag for command in COMMANDS for flag in parameters(command)} - {flag for _, flag in FLAGS}
    assert without == FLAGS_ONLY


def bare(shape: shapes.Type) -> Any:
    if isinstance(shape, shapes.Metadata):
        return bare(shape.type)
    if isinstance(shape, shapes.UnionType):
        return bare(next(one for one in shape.types if not isinstance(one, shapes.NoneType)))
    return shape


@pytest.mark.parametrize(("command", "flag"), FLAGS, ids=[f"{command} {flag}" for command, flag in FLAGS])
def test_a_field_has_the_type_and_the_limits_of_its_flag(command: str, flag: str) -> None:
    parameter, shape = parameters(command)[flag], bare(FIELDS[settings_of(command)[flag].path])
    assert parameter.multiple == isinstance(shape, shapes.VarTupleType | shapes.DictType)
    kinds = {bool: shapes.BoolType, int: shapes.IntType, float: shapes.FloatType}
    kind = kinds.get(parameter.type_descriptor.annotation)
    assert kind is None or isinstance(shape, kind)
    for end, limit in (("ge", parameter.min), ("le", parameter.max)):
        assert limit is None or getattr(shape, end) == limit, "the command would refuse what the file may say"


@pytest.mark.parametrize("command", COMMANDS)
def test_what_a_file_may_say_is_taken_by_the_flag(command: str) -> None:
    """Every field that differs from its default reaches the command as the flag would."""
    changed = changed_configuration()
    group: Any = typer.main.get_command(shell.app)
    found = group.commands[command].make_context(command, [], default_map=as_parameters(changed, command))
    for flag, parameter in parameters(command).items():
        if flag not in FLAGS_ONLY:
            assert found.params[parameter.name] != parameter.default, flag


def as_parameters(configuration: Configuration, command: str) -> dict[str, Any]:
    names = {flag: parameter.name for flag, parameter in parameters(command).items()}
    return {names[flag]: value for flag, value in values_of(configuration, command).items()}


def changed_configuration() -> Configuration:
    plain = msgspec.to_builtins(DEFAULT)
    for path, shape in FIELDS.items():
        *sections, name = path.split(".")
        place = plain["spec"]
        for section in sections:
            place = place[section]
        place[name] = changed(shape, place[name])
    return msgspec.convert(plain, Configuration)


def changed(shape: shapes.Type, value: Any) -> Any:
    """A value that is allowed, and another one than the default."""
    match inner := bare(shape):
        case shapes.BoolType():
            return not value
        case shapes.IntType() | shapes.FloatType():
            return value + 1 if value is not None else 1.5
        case shapes.LiteralType():
            return next(one for one in inner.values if one != value)
        case shapes.VarTupleType():
            return [changed(inner.item_type, next(iter(value), ""))]
        case shapes.DictType():
            return {"csi.example.com": "sidecar"}
    options = ("/x", "https://host", "a/b", "x", "7Mi")
    return next(one for one in options if one != value and fits(shape, one))


def fits(shape: shapes.Type, text: str) -> bool:
    return re.search(bare(shape).pattern or "", text) is not None


# --- a command with a file -------------------------------------------------------------------------------------------


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": str(SOURCE), "COLUMNS": "200", "HOME": "/nonexistent"}
    return subprocess.run(
        [sys.executable, "-m", "ullage", *arguments], capture_output=True, text=True, env=environ, timeout=60, check=False
    )


def written(directory: Path, spec: str) -> str:
    file = directory / "c.yaml"
    file.write_text(f"apiVersion: config.ullage.io/v1alpha1\nkind: Configuration\nspec: {spec}\n")
    return str(file)


@pytest.mark.parametrize(
    ("command", "spec", "flags", "message"),
    [
        pytest.param(
            "controller",
            "{drivers: {hostPath: {volumes: [/v]}}}",
            (),
            "{file}: spec.drivers.hostPath.snapshots (absent): hostPath volumes need spec.drivers.hostPath.volumes, "
            "spec.drivers.hostPath.snapshots and spec.drivers.hostPath.node",
            id="fields that need each other",
        ),
        pytest.param(
            "controller",
            "{userClusters: {memory: 1Ki}}",
            (),
            "{file}: spec.userClusters.memory 1Ki: an amount of bytes from 1Mi to 1Ti is allowed, such as 256Mi",
            id="a value that only the command can judge",
        ),
        pytest.param(
            "controller",
            "{drivers: {longhorn: true, csi: {driver.longhorn.io: /s}}}",
            (),
            "{file}: spec.drivers.longhorn with spec.drivers.csi driver.longhorn.io: only one of them is allowed; a driver has "
            "one owner",
            id="fields that exclude each other",
        ),
        pytest.param(
            "webhook",
            "{webhook: {service: a/b}}",
            ("--url", "https://a"),
            "--url https://a: not allowed with spec.webhook.service; an API server calls one of them",
            id="a flag that goes not with the file",
        ),
        pytest.param(
            "api",
            "{api: {tlsKeyFile: /k}}",
            (),
            "{file}: spec.api.tlsCertificateFile (absent): goes with /k: both are needed, or neither",
            id="a key without its certificate",
        ),
        pytest.param(
            "install",
            "{roles: [master, seed]}",
            (),
            "{file}: spec.roles master, seed: one of them is allowed in a process: run a second one for the other",
            id="roles that do not go together",
        ),
        pytest.param(
            "install",
            "{roles: [master, seed]}",
            ("--role", "tenant"),
            "--role tenant: cluster, master, seed or user-cluster is allowed",
            id="a flag wins, and is named as a flag",
        ),
        pytest.param(
            "csi-sidecar",
            "{csiSidecar: {address: /csi/csi.sock, metrics: {port: 70000}}}",
            (),
            "{file}: spec.csiSidecar.metrics.port 70000: a whole number from 0 to 65535 is allowed",
            id="a value that no process may have",
        ),
        pytest.param(
            "csi-sidecar",
            "{csiSidecar: {address: /" + "x" * 120 + "}}",
            (),
            "{file}: spec.csiSidecar.address /" + "x" * 120 + ": the path of a socket has",
            id="an option that is needed may stand in the file",
        ),
        pytest.param(
            "csi-sidecar",
            "{}",
            (),
            "{file}: spec.csiSidecar.address (absent): is needed there, or as --csi-address",
            id="an option that is needed and stands nowhere",
        ),
    ],
)
def test_a_refusal_names_the_field_and_not_the_flag(
    command: str, spec: str, flags: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    file = written(tmp_path, spec)
    done = call(command, "--kubeconfig", str(KUBECONFIG), "--config", file, *flags)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.startswith(f"ullage: {message.format(file=file)}"), done.stderr
    assert done.stderr.count("\n") == 1


def test_a_flag_that_cannot_be_is_named_as_a_flag(tmp_path: Path) -> None:
    done = call("controller", "--config", written(tmp_path, "{}"), "--metrics-port", "many")
    assert done.returncode == 2
    assert "'--metrics-port'" in done.stderr
    assert "spec." not in done.stderr


def test_install_takes_the_values_of_a_file_and_a_flag_wins(tmp_path: Path) -> None:
    file = written(tmp_path, "{roles: [master]}")
    by_flag, by_file = call("install", "--role", "master", "-o", "yaml"), call("install", "--config", file, "-o", "yaml")
    assert by_flag.returncode == by_file.returncode == 0
    assert by_file.stdout == by_flag.stdout
    both = call("install", "--config", file, "--role", "cluster", "-o", "yaml")
    assert both.stdout == call("install", "-o", "yaml").stdout != by_file.stdout
