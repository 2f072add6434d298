"""Whether two records name one snapshot of a storage system, by the word of the API itself."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from tests.unit.snapshots.memory_api import Json, MemoryApi
from tests.unit.snapshots.objects import record
from ullage.kube.client.client import Client, Listing
from ullage.kube.errors import NotFound, Unavailable
from ullage.kube.kinds import Kind
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.prototype.translation import PROTOTYPE
from ullage.snapshots.live_records import LiveRecords
from ullage.snapshots.model import State

DRIVER = "csi.example.com"
OURS = record(state=State(handle="shot-1"))


class Api(MemoryApi):
    """Counts what is read, and lets a test answer first."""

    def __init__(self) -> None:
        super().__init__()
        self.lists = 0
        self.begun = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self.missing: Kind[Any] | None = None
        self.defined = False

    async def list(self, kind: Kind[Any], namespace: str = "", **_: Any) -> Listing[Any]:
        if kind is self.missing:
            raise NotFound("the server has no such resource", code=404)
        self.lists += 1
        self.begun.set()
        found = await super().list(kind, namespace)
        await self.gate.wait()
        return found

    async def absent(self, kind: Kind[Any]) -> str:
        return "" if self.defined else "100"


def content(api: Api, name: str, *, handle: str = "shot-1", driver: str = DRIVER, going: bool = False) -> None:
    spec: Json = {"volumeSnapshotRef": {"namespace": "team", "name": name}, "deletionPolicy": "Delete", "driver": driver}
    meta: Json = {"name": name, "uid": f"uid-{name}"}
    if going:
        meta |= {"deletionTimestamp": "2026-01-01T00:05:00Z", "finalizers": ["held"]}
    api.put(GA.records, {"metadata": meta, "spec": {**spec, "source": {"snapshotHandle": handle}}})


def live(api: Api) -> LiveRecords:
    return LiveRecords(cast(Client, api), (GA, PROTOTYPE))


@pytest.mark.parametrize(
    ("other", "shared"),
    [
        pytest.param({}, True, id="another record with the handle"),
        pytest.param({"handle": "shot-2"}, False, id="another handle"),
        pytest.param({"driver": "other.example.com"}, False, id="the handle of another driver"),
        pytest.param({"going": True}, False, id="a record that is going too"),
    ],
)
async def test_who_else_names_it(other: dict[str, Any], shared: bool) -> None:
    api = Api()
    content(api, "theirs", **other)
    assert bool(await live(api).others(OURS)) is shared


async def test_a_record_does_not_share_with_itself() -> None:
    api = Api()
    content(api, "record")
    assert not await live(api).others(record(meta={"uid": "uid-record"}, state=State(handle="shot-1")))


async def test_many_who_ask_at_a_time_share_a_read_that_began_after_they_asked() -> None:
    api = Api()
    records = live(api)
    api.gate.clear()
    first = asyncio.create_task(records.others(OURS))
    await api.begun.wait()
    content(api, "theirs")  # after the first read, and before the others ask
    rest = [asyncio.create_task(records.others(OURS)) for _ in range(20)]
    await asyncio.sleep(0)
    api.gate.set()
    assert await first == []
    assert [one.record.meta.name for found in await asyncio.gather(*rest) for one in found] == ["theirs"] * 20
    assert api.lists == 4  # two kinds, twice


async def test_an_api_that_is_not_installed_has_no_records() -> None:
    api = Api()
    api.missing = PROTOTYPE.records
    assert not await live(api).others(OURS)


async def test_a_kind_that_is_defined_and_not_served_is_no_proof() -> None:
    api = Api()
    api.missing, api.defined = PROTOTYPE.records, True
    with pytest.raises(NotFound):
        await live(api).others(OURS)


async def test_after_an_error_the_next_one_who_asks_reads_anew() -> None:
    api = Api()
    records, real = live(api), Api.list

    async def away(self: Api, kind: Kind[Any], namespace: str = "", **_: Any) -> Listing[Any]:
        raise Unavailable("away")

    Api.list = away  # type: ignore[method-assign]
    try:
        with pytest.raises(Unavailable):
            await records.others(OURS)
    finally:
        Api.list = real  # type: ignore[method-assign]
    assert not await records.others(OURS)
