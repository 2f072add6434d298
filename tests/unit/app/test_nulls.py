"""Programs in Go write null for zero values. Every kind that Ullage reads is read as Go reads it: null is the zero value."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any, cast

import msgspec
import msgspec.inspect
import pytest

import ullage
from tests.unit.admission.builders import review
from ullage.kube.client import codec
from ullage.kube.errors import Undecodable
from ullage.kube.kinds import Kind, Object

Json = dict[str, Any]
Path = tuple[str | int, ...]


def _kinds() -> list[Kind[Any]]:
    """Every kind that a module of the package declares."""
    found: dict[tuple[str, type], Kind[Any]] = {}
    for module in pkgutil.walk_packages(ullage.__path__, "ullage."):
        if "__main__" in module.name or "_pb2" in module.name:
            continue
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, Kind) and issubclass(value.type, Object):
                found[value.name, value.type] = value
    return sorted(found.values(), key=lambda kind: (kind.name, kind.type.__name__))


KINDS = _kinds()


def _sample(shape: msgspec.inspect.Type) -> Any:
    """A value that decodes: every field of every type that it consists of, one item in each list."""
    if isinstance(shape, msgspec.inspect.Metadata):
        return _sample(shape.type)
    if isinstance(shape, msgspec.inspect.StructType):
        return {field.encode_name: _sample(field.type) for field in shape.fields}
    if isinstance(shape, msgspec.inspect.UnionType):
        return _sample(next(one for one in shape.types if not isinstance(one, msgspec.inspect.NoneType)))
    if isinstance(shape, msgspec.inspect.DictType):
        # A map of anything (`spec` of a backup) is kept as it is, its nulls too.
        return {} if isinstance(shape.value_type, msgspec.inspect.AnyType) else {"key": _sample(shape.value_type)}
    if isinstance(shape, msgspec.inspect.VarTupleType | msgspec.inspect.ListType):
        return [_sample(shape.item_type)]
    if isinstance(shape, msgspec.inspect.LiteralType):
        return shape.values[0]
    if isinstance(shape, msgspec.inspect.EnumType):
        return next(iter(shape.cls)).value
    if isinstance(shape, msgspec.inspect.BoolType):
        return True
    if isinstance(shape, msgspec.inspect.IntType | msgspec.inspect.FloatType):
        return 1
    return "1"


def _fields(value: Any, path: Path = ()) -> Iterator[Path]:
    """The path of every field of a JSON value."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield (*path, key)
            yield from _fields(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _fields(item, (*path, index))


def _edited(value: Any, path: Path, *, to_null: bool) -> Any:
    copy = msgspec.json.decode(msgspec.json.encode(value))
    holder = copy
    for step in path[:-1]:
        holder = holder[step]
    if to_null:
        holder[path[-1]] = None
    else:
        del holder[path[-1]]
    return copy


def _read(kind: Kind[Any], body: Json) -> Any:
    """The object, as a cache and as a hook reads it."""
    cached = codec.decode(kind, msgspec.json.encode(body))
    gvk = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    admitted = review(kind=gvk, object=body).object(kind)
    assert admitted == cached
    return cached


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.name} {kind.type.__name__}")
def test_a_field_that_is_null_is_a_field_that_is_absent(kind: Kind[Any]) -> None:
    whole = cast(Json, _sample(msgspec.inspect.type_info(kind.type)))
    assert _read(kind, whole) is not None
    for path in _fields(whole):
        absent = _edited(whole, path, to_null=False)
        try:
            expected = _read(kind, absent)
        except Undecodable:  # a field that the type demands: null is as wrong as absent
            continue
        found = _read(kind, _edited(whole, path, to_null=True))
        assert msgspec.json.encode(found) == msgspec.json.encode(expected), path


def test_the_table_has_the_kinds_of_every_neighbour() -> None:
    groups = {kind.group for kind in KINDS}
    assert {
        "kubevirt.io",
        "longhorn.io",
        "harvesterhci.io",
        "kubermatic.k8c.io",
        "cluster.k8s.io",
        "snapshot.storage.k8s.io",
    } <= groups


def test_what_kubevirts_own_webhook_sends_is_admitted() -> None:
    """KubeVirt's mutating webhooks write /metadata and /status anew, with Go's encoder."""
    machine = next(kind for kind in KINDS if kind.kind == "VirtualMachine" and kind.type.__name__ == "VirtualMachine")
    body = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": "db", "namespace": "team-a", "creationTimestamp": None, "finalizers": None},
        "spec": {"runStrategy": "Always", "dataVolumeTemplates": None, "template": {"metadata": {"creationTimestamp": None}}},
        "status": {
            "conditions": [{"type": "HotVCPUChange", "status": "True", "lastProbeTime": None, "lastTransitionTime": None}],
            "volumeRequests": None,
        },
    }
    read = _read(machine, body)
    assert (read.metadata.name, read.metadata.creation_timestamp, read.metadata.finalizers) == ("db", "", ())
    assert [one.type for one in read.status.conditions] == ["HotVCPUChange"]
