"""Drivers that answer with success and yet do not keep to the interface."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from google.protobuf.wrappers_pb2 import BoolValue

from tests.unit.snapshots.backends.csi.drivers import backend_at, creation, restoration
from ullage.errors import Impossible, NotNow, UllageError, Uncertain
from ullage.snapshots.backends.csi import csi_pb2 as csi
from ullage.snapshots.backends.csi import csi_pb2_grpc as services
from ullage.snapshots.backends.csi.backend import CsiBackend

CAN = ("CREATE_DELETE_SNAPSHOT", "LIST_SNAPSHOTS", "CREATE_DELETE_VOLUME")


class Rogue(services.IdentityServicer, services.ControllerServicer, services.SnapshotMetadataServicer):
    """Answers as it was told to, and remembers what was deleted."""

    def __init__(
        self, *, ready: bool = True, controller: bool = True, placed: bool = False, can: tuple[int, ...] = (), **answers: Any
    ) -> None:
        self._ready = ready
        self._placed = placed
        self._controller = controller
        self._can = [*(csi.ControllerServiceCapability.RPC.Type.Value(name) for name in CAN), *can]
        self._answers = answers
        self.deleted: list[str] = []
        self.asked: list[Any] = []

    async def GetPluginInfo(self, request: Any, context: Any) -> csi.GetPluginInfoResponse:
        return csi.GetPluginInfoResponse(name="rogue", vendor_version="0")

    async def Probe(self, request: Any, context: Any) -> csi.ProbeResponse:
        return csi.ProbeResponse(ready=BoolValue(value=self._ready))

    async def GetPluginCapabilities(self, request: Any, context: Any) -> csi.GetPluginCapabilitiesResponse:
        service = csi.PluginCapability.Service
        kinds = [service.CONTROLLER_SERVICE] if self._controller else []
        kinds += [service.SNAPSHOT_METADATA_SERVICE] if "blocks" in self._answers else []
        kinds += [service.VOLUME_ACCESSIBILITY_CONSTRAINTS] if self._placed or not self._controller else []
        capabilities = [csi.PluginCapability(service=service(type=kind)) for kind in kinds]
        return csi.GetPluginCapabilitiesResponse(capabilities=capabilities)

    async def ControllerGetCapabilities(self, request: Any, context: Any) -> csi.ControllerGetCapabilitiesResponse:
        answer = csi.ControllerGetCapabilitiesResponse()
        for kind in self._can:
            answer.capabilities.add().rpc.type = kind  # type: ignore[assignment]  # one of them may be newer than we are
        return answer

    async def CreateSnapshot(self, request: Any, context: Any) -> csi.CreateSnapshotResponse:
        return csi.CreateSnapshotResponse(snapshot=self._answers["snapshot"])

    async def DeleteSnapshot(self, request: Any, context: Any) -> csi.DeleteSnapshotResponse:
        self.deleted.append(request.snapshot_id)
        return csi.DeleteSnapshotResponse()

    async def ListSnapshots(self, request: Any, context: Any) -> csi.ListSnapshotsResponse:
        entries = [csi.ListSnapshotsResponse.Entry(snapshot=one) for one in self._answers["listed"]]
        return csi.ListSnapshotsResponse(entries=entries, next_token=self._answers.get("token", ""))

    async def CreateVolume(self, request: csi.CreateVolumeRequest, context: Any) -> csi.CreateVolumeResponse:
        self.asked.append(request)
        return csi.CreateVolumeResponse(volume=self._answers["volume"])

    async def DeleteVolume(self, request: Any, context: Any) -> csi.DeleteVolumeResponse:
        self.deleted.append(request.volume_id)
        return csi.DeleteVolumeResponse()

    async def GetMetadataAllocated(self, request: Any, context: Any) -> AsyncIterator[csi.GetMetadataAllocatedResponse]:
        self.asked.append(request)
        for answer in self._answers["blocks"].pop(0):
            if isinstance(answer, grpc.StatusCode):
                await context.abort(answer, "on purpose")
            yield answer
        while self._answers.get("endless"):
            yield csi.GetMetadataAllocatedResponse(volume_capacity_bytes=100)


def a_rogue(**nature: Any) -> Rogue:
    return Rogue(**nature)  # type: ignore[abstract]  # what it lacks is never called


@asynccontextmanager
async def backend_of(rogue: Rogue, *, timeout: float = 30.0) -> AsyncIterator[CsiBackend]:
    with tempfile.TemporaryDirectory(prefix="csi-") as directory:
        path = Path(directory) / "csi.sock"
        server = grpc.aio.server()
        services.add_IdentityServicer_to_server(rogue, server)
        services.add_ControllerServicer_to_server(rogue, server)
        services.add_SnapshotMetadataServicer_to_server(rogue, server)
        server.add_insecure_port(f"unix:{path}")
        await server.start()
        try:
            async with backend_at(path, driver="rogue", timeout=timeout) as backend:
                yield backend
        finally:
            await server.stop(grace=None)


def snapshot(handle: str, volume: str = "vol") -> csi.Snapshot:
    return csi.Snapshot(snapshot_id=handle, source_volume_id=volume, creation_time=Timestamp(seconds=1), ready_to_use=True)


def volume(*, source: str, size: int) -> csi.Volume:
    made = csi.Volume(volume_id="made", capacity_bytes=size)
    if source:
        made.content_source.snapshot.snapshot_id = source
    return made


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        pytest.param(csi.Snapshot(creation_time=Timestamp(seconds=1)), "answered without an id", id="no id"),
        pytest.param(csi.Snapshot(snapshot_id="s"), "snapshot s has no creation_time", id="no time of the cut"),
    ],
)
async def test_a_snapshot_that_is_not_described_is_not_certain(answer: csi.Snapshot, problem: str) -> None:
    async with backend_of(a_rogue(snapshot=answer)) as backend:
        with pytest.raises(Uncertain, match=problem):
            await backend.create(creation("vol"))


async def test_a_snapshot_without_a_time_can_still_be_undone() -> None:
    rogue = a_rogue(snapshot=csi.Snapshot(snapshot_id="s"))
    async with backend_of(rogue) as backend:
        await backend.undo(creation("vol"))
    assert rogue.deleted == ["s"]


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        pytest.param(volume(source="", size=100), "made from nothing, not from s", id="it overlooked the source"),
        pytest.param(volume(source="t", size=100), "made from t, not from s", id="it took another source"),
        pytest.param(volume(source="s", size=99), "99 bytes large, not 100", id="it is too small"),
    ],
)
async def test_a_volume_that_is_not_what_was_asked_for_is_deleted_again(made: csi.Volume, problem: str) -> None:
    rogue = a_rogue(volume=made)
    async with backend_of(rogue) as backend:
        with pytest.raises(Impossible, match=problem):
            await backend.restore(restoration("s", size=100))
    assert rogue.deleted == ["made"]


async def test_a_size_that_is_not_told_is_the_one_that_was_asked_for() -> None:
    async with backend_of(a_rogue(volume=volume(source="s", size=0))) as backend:
        assert (await backend.restore(restoration("s", size=100))).size == 100


A, B = {"zone": "a"}, {"zone": "b"}


@pytest.mark.parametrize(
    ("placed", "wanted", "asked"),
    [
        pytest.param(True, {"node": "n", "topologies": (A,)}, [A], id="the place of the chosen node"),
        pytest.param(True, {"topologies": (A, B)}, [A, B], id="the places that the class allows"),
        pytest.param(True, {}, [], id="wherever it likes"),
        pytest.param(False, {"node": "n", "topologies": (A,)}, [], id="a driver that knows no places is told of none"),
    ],
)
async def test_what_a_driver_is_told_of_places(placed: bool, wanted: dict[str, Any], asked: list[dict[str, str]]) -> None:
    made = volume(source="s", size=100)
    made.accessible_topology.extend([csi.Topology(segments=A), csi.Topology()])
    rogue = a_rogue(placed=placed, volume=made)
    async with backend_of(rogue) as backend:
        restored = await backend.restore(replace(restoration("s", size=100), **wanted))
    needs = rogue.asked[0].accessibility_requirements
    assert [dict(one.segments) for one in needs.requisite] == asked
    assert [dict(one.segments) for one in needs.preferred] == asked
    assert restored.topologies == (A,)


async def test_a_node_that_the_driver_has_not_registered_on_is_waited_for() -> None:
    rogue = a_rogue(placed=True, volume=volume(source="s", size=100))
    async with backend_of(rogue) as backend:
        with pytest.raises(NotNow, match="driver rogue has to know where node n is, and CSINode n does not tell"):
            await backend.restore(replace(restoration("s", size=100), node="n"))
    assert rogue.asked == []


async def test_pages_that_lead_to_themselves_end() -> None:
    async with backend_of(a_rogue(listed=[snapshot("a")], token="again")) as backend:
        with pytest.raises(NotNow, match="page again comes again and again"):
            assert [shot async for shot in backend.list()]


async def test_a_filter_that_the_driver_overlooks_is_applied_here() -> None:
    async with backend_of(a_rogue(listed=[snapshot("a"), snapshot("b", "other")])) as backend:
        assert [shot.handle async for shot in backend.list("other")] == ["b"]
        found = await backend.find("b")
        assert found is not None
        assert found.handle == "b"
        assert await backend.find("c") is None


@pytest.mark.parametrize(
    ("rogue", "meaning", "problem"),
    [
        pytest.param(a_rogue(ready=False), Uncertain, "driver rogue is not ready yet", id="it is not ready"),
        pytest.param(
            a_rogue(controller=False), Impossible, "lacks CREATE_DELETE_SNAPSHOT; .*: none", id="it has no controller"
        ),
    ],
)
async def test_a_driver_that_is_of_no_use_says_why(rogue: Rogue, meaning: type[UllageError], problem: str) -> None:
    async with backend_of(rogue) as backend:
        with pytest.raises(meaning, match=problem):
            await backend.create(creation("vol"))


async def test_a_capability_that_is_newer_than_we_are_does_no_harm() -> None:
    async with backend_of(a_rogue(can=(999,), snapshot=snapshot("s"))) as backend:
        assert (await backend.create(creation("vol"))).handle == "s"


@pytest.mark.parametrize(
    ("can", "modes"),
    [
        pytest.param((), ["SINGLE_NODE_WRITER", "SINGLE_NODE_WRITER"], id="a driver that knows one kind of single node"),
        pytest.param((13,), ["SINGLE_NODE_MULTI_WRITER", "SINGLE_NODE_SINGLE_WRITER"], id="a driver that knows two"),
    ],
)
async def test_access_modes_are_put_in_the_words_that_the_driver_knows(can: tuple[int, ...], modes: list[str]) -> None:
    rogue = a_rogue(can=can, volume=volume(source="s", size=100))
    wanted = restoration("s", size=100)
    async with backend_of(rogue) as backend:
        for mode in ("ReadWriteOnce", "ReadWriteOncePod"):
            await backend.restore(type(wanted)(name="v", snapshot="s", size=100, access_modes=(mode,)))
    names = csi.VolumeCapability.AccessMode.Mode.Name
    assert [names(asked.volume_capabilities[0].access_mode.mode) for asked in rogue.asked] == modes


def blocks(*ranges: tuple[int, int], capacity: int = 100) -> csi.GetMetadataAllocatedResponse:
    listed = [csi.BlockMetadata(byte_offset=start, size_bytes=size) for start, size in ranges]
    return csi.GetMetadataAllocatedResponse(volume_capacity_bytes=capacity, block_metadata=listed)


@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        pytest.param([blocks((0, 10), (5, 10))], "10 bytes at 5, after a range that ends at 10", id="ranges that overlap"),
        pytest.param([blocks((20, 10)), blocks((0, 10))], "10 bytes at 0, after a range that ends at 30", id="in no order"),
        pytest.param([blocks((0, 10), (0, 10))], "10 bytes at 0, after a range that ends at 10", id="the same one twice"),
        pytest.param([blocks((0, 0))], "0 bytes at 0, of a volume of 100 bytes", id="an empty range"),
        pytest.param([blocks((-5, 10))], "10 bytes at -5, of a volume of 100 bytes", id="before the beginning"),
        pytest.param([blocks((95, 10))], "10 bytes at 95, of a volume of 100 bytes", id="beyond the end"),
        pytest.param([blocks((0, 10), capacity=0)], "the volume has 0 bytes", id="of a volume without a size"),
        pytest.param(
            [blocks((0, 10)), blocks((10, 10), capacity=200)], "the volume has 200 bytes by now, not 100", id="that grows"
        ),
        pytest.param(
            [blocks(*((number, 1) for number in range(10_001)), capacity=20_000)],
            "10001 ranges in a message; 10000 at most were asked for",
            id="more at once than was asked for",
        ),
    ],
)
async def test_blocks_that_cannot_be_say_nothing_about_a_size(answers: list[Any], problem: str) -> None:
    async with backend_of(a_rogue(blocks=[answers])) as backend:
        with pytest.raises(NotNow) as caught:
            await backend.size("s")
    assert str(caught.value) == f"driver rogue: GetMetadataAllocated s: {problem}"


async def test_a_driver_that_breaks_off_goes_on_where_it_was() -> None:
    """The first range of the second call may have begun before: what was counted already is not counted again."""
    first = [blocks((0, 10), (20, 10)), grpc.StatusCode.UNAVAILABLE]
    rogue = a_rogue(blocks=[first, [blocks((20, 15), (50, 5))]])
    async with backend_of(rogue) as backend:
        assert await backend.size("s") == 10 + 15 + 5
    assert [one.starting_offset for one in rogue.asked] == [0, 30]


async def test_a_driver_that_does_not_get_on_is_not_asked_again_and_again() -> None:
    broken = [grpc.StatusCode.UNAVAILABLE]
    rogue = a_rogue(blocks=[[blocks((0, 10)), *broken], broken, []])
    async with backend_of(rogue) as backend:
        with pytest.raises(Uncertain, match="GetMetadataAllocated s: UNAVAILABLE: on purpose"):
            await backend.size("s")
    assert len(rogue.asked) == 2


async def test_blocks_without_an_end_are_given_up() -> None:
    async with backend_of(a_rogue(blocks=[[]], endless=True), timeout=0.5) as backend:
        with pytest.raises(Uncertain, match=r"GetMetadataAllocated s: DEADLINE_EXCEEDED: no answer within 0\.5 s"):
            await backend.size("s")


@pytest.mark.parametrize(
    "code", [grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.INVALID_ARGUMENT], ids=lambda one: str(one.name)
)
async def test_a_driver_that_does_not_tell_of_this_snapshot_leaves_its_size_open(code: grpc.StatusCode) -> None:
    async with backend_of(a_rogue(blocks=[[code]])) as backend:
        assert await backend.size("s") is None
