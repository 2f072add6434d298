"""The kinds: explained to the last field, readable as Longhorn writes them, and small in memory."""

from __future__ import annotations

import tracemalloc
from typing import Any

import msgspec
import pytest

from ullage.engines.api import ENGINE_SNAPSHOTS, ENGINES, KINDS, VOLUMES, Engine, Snapshot, Volume, to_bytes
from ullage.engines.chain import HEAD
from ullage.kube.cache.interning import Pool
from ullage.kube.crds.definitions import crd_of, undocumented
from ullage.kube.kinds import Kind

CREATED = "2026-05-01T11:59:58Z"


@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.plural) for kind in KINDS])
def test_every_field_is_explained(kind: Kind[Any]) -> None:
    assert undocumented(crd_of(kind)) == []


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        pytest.param(
            ENGINE_SNAPSHOTS,
            {"spec": {"volume": "v", "labels": None}, "status": {"children": None, "labels": None}},
            id="snapshot",
        ),
        pytest.param(VOLUMES, {"spec": {"size": "1", "attachmentTickets": None}, "status": {}}, id="volume"),
        pytest.param(ENGINES, {"spec": {}, "status": {"snapshots": None, "purgeStatus": None}}, id="engine"),
        pytest.param(
            ENGINES, {"status": {"snapshots": {HEAD: {"children": None, "labels": None, "size": "5"}}}}, id="an entry"
        ),
        pytest.param(ENGINE_SNAPSHOTS, {"spec": {}}, id="nothing in it"),
    ],
)
def test_nulls_are_read_as_longhorn_writes_them(kind: Kind[Any], body: dict[str, Any]) -> None:
    msgspec.json.decode(msgspec.json.encode({"metadata": {"name": "a"}, **body}), type=kind.type)


@pytest.mark.parametrize(("text", "count"), [("0", 0), ("4096", 4096), ("", 0), ("1Gi", 0), ("-1", 0), ("²", 0)])
def test_amounts(text: str, count: int) -> None:
    assert to_bytes(text) == count


def test_names_on_the_wire_are_longhorns() -> None:
    found = msgspec.to_builtins(
        msgspec.convert({"spec": {"nodeID": "n"}, "status": {"currentNodeID": "n", "ownerID": "o"}}, type=Volume)
    )
    assert found == {"spec": {"nodeID": "n"}, "status": {"currentNodeID": "n", "ownerID": "o"}}


def test_a_snapshot_and_its_entry_fit_into_three_kibibytes() -> None:
    """30,000 of both are 90 MB then, whatever the process takes besides."""
    volumes, each = 20, 30
    snapshots = [_snapshot(volume, number) for volume in range(volumes) for number in range(each)]
    engines = [_engine(volume, each) for volume in range(volumes)]
    pool = Pool()
    tracemalloc.start()
    try:
        held: list[Any] = [msgspec.json.decode(one, type=Snapshot) for one in snapshots]
        held += [msgspec.json.decode(one, type=Engine) for one in engines]
        for one in held:
            pool.compact(one)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size / len(snapshots) < 3 * 1024


def _snapshot(volume: int, number: int) -> bytes:
    name, owner = f"{volume:04}-c4f2b5d6-0b1e-4c5e-9d3b-{number:012}", f"pvc-{volume:036}"
    reference = {"apiVersion": "longhorn.io/v1beta2", "kind": "Volume", "name": owner, "uid": f"{volume:036}"}
    meta = {
        "name": name,
        "namespace": "longhorn-system",
        "uid": f"{volume:04}{number:032}",
        "resourceVersion": str(1000 + number),
        "generation": 1,
        "creationTimestamp": CREATED,
        "finalizers": ["longhorn.io"],
        "labels": {"longhornvolume": owner},
        "ownerReferences": [reference],
        "managedFields": [{"manager": "ullage", "operation": "Update", "fieldsV1": {"f:status": {}}}] * 3,
    }
    status = {
        "parent": f"{name}-before",
        "children": {f"{name}-after": True},
        "creationTime": CREATED,
        "requestedTime": CREATED,
        "size": 4096 * number,
        "restoreSize": 1 << 30,
        "readyToUse": True,
        "userCreated": True,
    }
    return msgspec.json.encode({"metadata": meta, "spec": {"volume": owner, "createSnapshot": True}, "status": status})


def _engine(volume: int, each: int) -> bytes:
    entries = {}
    for number in range(each):
        name = f"{volume:04}-c4f2b5d6-0b1e-4c5e-9d3b-{number:012}"
        entry = {"name": name, "parent": f"{name}-before", "children": {f"{name}-after": True}, "created": CREATED}
        entries[name] = {**entry, "size": str(4096 * number), "usercreated": True, "removed": False, "labels": None}
    meta = {"name": f"pvc-{volume:036}-e-0", "namespace": "longhorn-system", "uid": str(volume)}
    status = {"currentState": "running", "snapshots": entries}
    return msgspec.json.encode({"metadata": meta, "spec": {"volumeName": f"pvc-{volume:036}"}, "status": status})
