"""The calls to a CSI driver, each bounded in time, with the driver's refusals translated into our errors.

Which driver it is and what it can do is asked once, and again after the connection broke: a restarted driver may be another
version. Requests carry secrets, so neither they nor gRPC's own errors are ever logged or chained.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import grpc
import grpc.aio

from ullage.errors import Impossible, NotNow, UllageError, Uncertain
from ullage.snapshots.backends.base import NO_SECRETS, Secrets
from ullage.snapshots.backends.csi import csi_pb2 as csi
from ullage.snapshots.backends.csi.channel import Channel
from ullage.snapshots.backends.csi.csi_pb2_grpc import ControllerStub, GroupControllerStub, IdentityStub, SnapshotMetadataStub
from ullage.snapshots.backends.csi.errors import Incapable, Refused, translated

if TYPE_CHECKING:
    from ullage.snapshots.backends.csi.csi_pb2_grpc import ControllerAsyncStub, GroupControllerAsyncStub

# Which blocks of a snapshot have data, as the service SnapshotMetadata tells it: ranges in order, message by message.


MOST: Final = 10_000  # ranges that are asked for in a message: as many as are added up before others get their turn


class BadRanges(Exception):
    """Not what the interface allows: nothing can be concluded from it."""


class AllocatedBlocks:
    """Adds them up. `end` is how far it has come: a call that broke off is gone on with from there."""

    def __init__(self) -> None:
        self.total = 0  # bytes
        self.end = 0
        self._capacity = 0
        self._first = True

    def resume(self) -> None:
        """Another call begins at `end`. Its first range may have begun before."""
        self._first = True

    def add(self, message: csi.GetMetadataAllocatedResponse) -> None:
        if len(message.block_metadata) > MOST:
            raise BadRanges(f"{len(message.block_metadata)} ranges in a message; {MOST} at most were asked for")
        capacity = message.volume_capacity_bytes
        if capacity <= 0 or capacity != (self._capacity or capacity):
            raise BadRanges(f"the volume has {capacity} bytes" + (f" by now, not {self._capacity}" if self._capacity else ""))
        self._capacity = capacity
        for one in message.block_metadata:
            self._add(one.byte_offset, one.size_bytes)

    def _add(self, start: int, size: int) -> None:
        end = start + size
        if start < 0 or size <= 0 or end > self._capacity:
            raise BadRanges(f"{size} bytes at {start}, of a volume of {self._capacity} bytes")
        if end <= self.end or (start < self.end and not self._first):
            raise BadRanges(f"{size} bytes at {start}, after a range that ends at {self.end}")
        self.total += end - max(start, self.end)
        self.end, self._first = end, False


TIMEOUT_SECONDS = 60.0
_IDENTITY_SECONDS = 10.0  # these calls touch no storage
_PAGE = 500
_LONGEST_NAME = 128  # bytes
_RPC = csi.ControllerServiceCapability.RPC

Request = TypeVar("Request")
Response = TypeVar("Response")


@dataclass(frozen=True, slots=True)
class Driver:
    """The driver behind the socket, and the names of its capabilities: `CREATE_DELETE_SNAPSHOT`."""

    name: str
    version: str
    capabilities: frozenset[str]
    topology: bool = False  # its volumes cannot be reached from everywhere
    metadata: bool = False  # it tells which blocks of a snapshot have data
    groups: bool = False  # it cuts several volumes in one call


class CsiClient:
    """Calls one driver. `name` is the driver that has to be there; empty: any."""

    def __init__(self, channel: Channel, *, name: str = "", timeout: float = TIMEOUT_SECONDS) -> None:
        self._channel = channel
        self._name = name
        self._timeout = timeout
        self._driver: Driver | None = None
        self._introduction: asyncio.Task[Driver] | None = None

    async def close(self) -> None:
        if self._introduction is not None:
            self._introduction.cancel()
        await self._channel.close()

    async def driver(self) -> Driver:
        """The driver. Uncertain while none answers, or it is not ready. All who ask meanwhile wait for one answer."""
        await self._channel.opened(driver=self._who())
        if self._driver is not None and not self._channel.changed:
            return self._driver
        if self._introduction is None or self._introduction.done():
            self._introduction = asyncio.create_task(self._introduced())
            self._introduction.add_done_callback(_retrieve)
        return await asyncio.shield(self._introduction)

    async def needs(self, *capabilities: str) -> Driver:
        """The driver, which can do all of these."""
        driver = await self.driver()
        missing = [capability for capability in capabilities if capability not in driver.capabilities]
        if missing:
            has = ", ".join(sorted(driver.capabilities)) or "none"
            raise Incapable(f"driver {driver.name} {driver.version} lacks {', '.join(missing)}; its capabilities: {has}")
        return driver

    async def create_snapshot(self, request: csi.CreateSnapshotRequest) -> csi.Snapshot:
        await self.needs("CREATE_DELETE_SNAPSHOT")
        what = f"CreateSnapshot {checked_name(request.name)} of volume {request.source_volume_id}"
        answer = await self._controller(lambda stub: stub.CreateSnapshot, request, what=what)
        return self._with_id(answer.snapshot, answer.snapshot.snapshot_id, what)

    async def delete_snapshot(self, handle: str, *, secrets: Secrets) -> None:
        await self.needs("CREATE_DELETE_SNAPSHOT")
        request = csi.DeleteSnapshotRequest(snapshot_id=handle, secrets=secrets.values)
        await self._controller(lambda stub: stub.DeleteSnapshot, request, what=f"DeleteSnapshot {handle}")

    async def list_snapshots(self, *, volume: str = "", handle: str = "", secrets: Secrets) -> AsyncIterator[csi.Snapshot]:
        """Page by page; pages that lead to themselves are a driver's fault, and an end."""
        await self.needs("LIST_SNAPSHOTS")
        what, token, seen = f"ListSnapshots {handle or volume}".rstrip(), "", set[str]()
        while True:
            request = csi.ListSnapshotsRequest(
                max_entries=_PAGE, starting_token=token, source_volume_id=volume, snapshot_id=handle, secrets=secrets.values
            )
            answer = await self._controller(lambda stub: stub.ListSnapshots, request, what=what)
            for entry in answer.entries:
                yield entry.snapshot
            token = answer.next_token
            if not token:
                return
            if token in seen:
                raise NotNow(f"{self._who()}: {what}: page {token} comes again and again")
            seen.add(token)

    async def allocated_bytes(self, handle: str, *, secrets: Secrets) -> int:
        """Of a snapshot's blocks, those that have data. A driver that is restarted meanwhile goes on where it was; all of it is
        bounded by the time of one call, and so is what is kept of it: a sum."""
        what, blocks = f"GetMetadataAllocated {handle}", AllocatedBlocks()
        deadline = asyncio.get_running_loop().time() + self._timeout
        while True:
            begun = blocks.end
            request = csi.GetMetadataAllocatedRequest(
                snapshot_id=handle, starting_offset=begun, max_results=MOST, secrets=secrets.values
            )
            stub = SnapshotMetadataStub(await self._channel.opened(driver=self._who()))
            call = stub.GetMetadataAllocated(request, timeout=deadline - asyncio.get_running_loop().time())
            try:
                blocks.resume()
                async for message in call:
                    blocks.add(message)
                return blocks.total
            except BadRanges as problem:
                raise NotNow(f"{self._who()}: {what}: {problem}") from None
            except grpc.aio.AioRpcError as error:
                code, words = error.code().name, error.details() or ""
            finally:
                call.cancel()
            if code != "UNAVAILABLE" or blocks.end == begun:
                raise self._error(code, words, what=what, secrets=secrets, timeout=self._timeout)

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.Volume:
        await self.needs("CREATE_DELETE_VOLUME")
        what = f"CreateVolume {checked_name(request.name)} from snapshot {request.volume_content_source.snapshot.snapshot_id}"
        answer = await self._controller(lambda stub: stub.CreateVolume, request, what=what)
        return self._with_id(answer.volume, answer.volume.volume_id, what)

    async def delete_volume(self, handle: str, *, secrets: Secrets) -> None:
        await self.needs("CREATE_DELETE_VOLUME")
        request = csi.DeleteVolumeRequest(volume_id=handle, secrets=secrets.values)
        await self._controller(lambda stub: stub.DeleteVolume, request, what=f"DeleteVolume {handle}")

    async def _introduced(self) -> Driver:
        stub = IdentityStub(await self._channel.opened(driver=self._who()))
        self._driver, self._channel.changed = None, False
        info = await self._call(stub.GetPluginInfo, csi.GetPluginInfoRequest(), what="GetPluginInfo")
        if self._name and info.name != self._name:
            raise Impossible(f"socket {self._channel.path} belongs to driver {info.name}, not to {self._name}")
        probe = await self._call(stub.Probe, csi.ProbeRequest(), what="Probe")
        if probe.HasField("ready") and not probe.ready.value:
            raise Uncertain(f"driver {info.name} is not ready yet, as it says on socket {self._channel.path}")
        asked = csi.GetPluginCapabilitiesRequest()
        plugin = await self._call(stub.GetPluginCapabilities, asked, what="GetPluginCapabilities")
        services = {capability.service.type for capability in plugin.capabilities if capability.HasField("service")}
        can = await self._capabilities() if csi.PluginCapability.Service.CONTROLLER_SERVICE in services else frozenset[str]()
        self._name = info.name  # from now on no other driver will do
        placed = csi.PluginCapability.Service.VOLUME_ACCESSIBILITY_CONSTRAINTS in services
        metadata = csi.PluginCapability.Service.SNAPSHOT_METADATA_SERVICE in services
        groups = csi.PluginCapability.Service.GROUP_CONTROLLER_SERVICE in services and await self._knows_groups()
        self._driver = Driver(info.name, info.vendor_version, can, topology=placed, metadata=metadata, groups=groups)
        return self._driver

    async def _capabilities(self) -> frozenset[str]:
        stub = ControllerStub(await self._channel.opened(driver=self._who()))
        asked = csi.ControllerGetCapabilitiesRequest()
        answer = await self._call(stub.ControllerGetCapabilities, asked, what="ControllerGetCapabilities")
        known = set(_RPC.Type.values())  # a newer driver may have some that we have no name for
        return frozenset(_RPC.Type.Name(one.rpc.type) for one in answer.capabilities if one.rpc.type in known)

    async def _knows_groups(self) -> bool:
        stub = GroupControllerStub(await self._channel.opened(driver=self._who()))
        asked = csi.GroupControllerGetCapabilitiesRequest()
        answer = await self._call(stub.GroupControllerGetCapabilities, asked, what="GroupControllerGetCapabilities")
        wanted = csi.GroupControllerServiceCapability.RPC.CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT
        return any(one.rpc.type == wanted for one in answer.capabilities)

    async def group_call(
        self,
        method: Callable[[GroupControllerAsyncStub], grpc.aio.UnaryUnaryMultiCallable[Request, Response]],
        request: Request,
        *,
        what: str,
    ) -> Response:
        """A call to the part of the driver that knows groups; Incapable where it has none."""
        driver = await self.driver()
        if not driver.groups:
            raise Incapable(f"driver {driver.name} {driver.version} takes no snapshots of several volumes in one call")
        stub = GroupControllerStub(await self._channel.opened(driver=self._who()))
        return await self._call(method(stub), request, what=what, timeout=self._timeout)

    async def _controller(
        self,
        method: Callable[[ControllerAsyncStub], grpc.aio.UnaryUnaryMultiCallable[Request, Response]],
        request: Request,
        *,
        what: str,
    ) -> Response:
        stub = ControllerStub(await self._channel.opened(driver=self._who()))
        return await self._call(method(stub), request, what=what, timeout=self._timeout)

    async def _call(
        self,
        method: grpc.aio.UnaryUnaryMultiCallable[Request, Response],
        request: Request,
        *,
        what: str,
        timeout: float = _IDENTITY_SECONDS,
    ) -> Response:
        timeout = min(timeout, self._timeout)
        try:
            return await method(request, timeout=timeout)
        except grpc.aio.AioRpcError as error:
            code, words = error.code().name, error.details() or ""
        # Out here, so that no traceback leads to gRPC's error: it may quote the secrets that we sent.
        raise self._error(code, words, what=what, secrets=_secrets_of(request), timeout=timeout)

    def _error(self, code: str, words: str, *, what: str, secrets: Secrets, timeout: float) -> UllageError:
        if code == "UNIMPLEMENTED":
            self._driver = None  # not what it said when it introduced itself
        if code == "DEADLINE_EXCEEDED":
            words = f"no answer within {timeout:g} s"
        return translated(code, words, what=f"{self._who()}: {what}", secrets=secrets)

    def _who(self) -> str:
        return f"driver {self._name}" if self._name else "the CSI driver"

    def _with_id(self, made: Response, handle: str, what: str) -> Response:
        if not handle:
            raise Uncertain(f"{self._who()}: {what}: it answered without an id")
        return made


def checked_name(name: str) -> str:
    size = len(name.encode())
    if not 0 < size <= _LONGEST_NAME:
        raise Refused(f"name {name!r}: it has {size} bytes; CSI allows 1 to {_LONGEST_NAME}")
    return name


def _retrieve(task: asyncio.Task[Driver]) -> None:
    """Whoever asked may have gone; asyncio would complain about an error that nobody saw."""
    if not task.cancelled():
        task.exception()


def _secrets_of(request: Any) -> Secrets:
    return Secrets(dict(request.secrets)) if hasattr(request, "secrets") else NO_SECRETS
