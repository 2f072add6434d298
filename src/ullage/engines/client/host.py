"""The calls to a host of embedded engines that no real engine has: volumes come and go, are attached, read and written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ullage.engines.chain import Entry, Limits, PollResult, PurgeProgress
from ullage.engines.client.calls import HOST, VolumeCalls
from ullage.engines.client.channels import Channels
from ullage.engines.client.longhorn import ASKING_SECONDS, CHANGING_SECONDS, LonghornClient
from ullage.engines.protocol import host_pb2 as hosts

PIECE: Final = 1 << 20  # bytes in one call


@dataclass(frozen=True, slots=True, kw_only=True)
class HostVolume:
    """A volume, attached or not."""

    name: str
    size: int  # bytes
    attached: bool
    frontend: str  # empty: nobody can write
    damage: str  # what is wrong with its files; its size is not known then


class HostClient:
    """One host. Every call may be repeated."""

    def __init__(self, channels: Channels, address: str) -> None:
        self.address = address
        self._channels = channels

    def engine(self, volume: str) -> LonghornClient:
        """For the volume while it is attached."""
        return LonghornClient(self._channels, self.address, volume=volume)

    async def create(self, name: str, *, size: int) -> HostVolume:
        """Makes an empty volume of so many bytes, or finds the one that has this name and size."""
        request = hosts.VolumeCreateRequest(name=name, size=size)
        made = self._calls(name).call(
            HOST,
            self.address,
            lambda stub: stub.VolumeCreate,
            request,
            what=f"VolumeCreate, {size} bytes",
            seconds=CHANGING_SECONDS,
        )
        return _volume(await made)

    async def delete(self, name: str) -> None:
        """With all its snapshots, attached or not. One that is not there is deleted already."""
        request = hosts.VolumeDeleteRequest(name=name)
        await self._calls(name).call(
            HOST, self.address, lambda stub: stub.VolumeDelete, request, what="VolumeDelete", seconds=CHANGING_SECONDS
        )

    async def list(self) -> tuple[HostVolume, ...]:
        asked = self._calls("").call(
            HOST,
            self.address,
            lambda stub: stub.VolumeList,
            hosts.VolumeListRequest(),
            what="VolumeList",
            seconds=CHANGING_SECONDS,
        )
        return tuple(map(_volume, (await asked).volumes))

    async def attach(self, name: str, *, frontend: bool = True) -> HostVolume:
        """Without a frontend nobody can write, and the volume can be reverted."""
        request = hosts.VolumeAttachRequest(name=name, frontend=frontend)
        attached = self._calls(name).call(
            HOST, self.address, lambda stub: stub.VolumeAttach, request, what="VolumeAttach", seconds=CHANGING_SECONDS
        )
        return _volume(await attached)

    async def detach(self, name: str) -> HostVolume:
        """Stops what works on it."""
        request = hosts.VolumeDetachRequest(name=name)
        detached = self._calls(name).call(
            HOST, self.address, lambda stub: stub.VolumeDetach, request, what="VolumeDetach", seconds=CHANGING_SECONDS
        )
        return _volume(await detached)

    async def poll(self, name: str, *, detached: bool = False) -> PollResult:
        """For the volume while it is attached: what its engine says in several calls, in one. `detached`: also while it is
        not."""
        request = hosts.VolumeLookRequest(name=name, detached=detached)
        asked = self._calls(name).call(
            HOST, self.address, lambda stub: stub.VolumeLook, request, what="VolumeLook", seconds=ASKING_SECONDS
        )
        return _poll_result(await asked)

    async def read(self, name: str, *, offset: int, length: int) -> bytes:
        """Through the frontend, piece by piece: of a volume that is written to meanwhile, not of one moment."""
        parts = []
        for start in range(offset, offset + length, PIECE):
            size = min(PIECE, offset + length - start)
            request = hosts.VolumeReadRequest(name=name, offset=start, length=size)
            asked = self._calls(name).call(
                HOST,
                self.address,
                lambda stub: stub.VolumeRead,
                request,
                what=f"VolumeRead of {size} bytes at {start}",
                seconds=ASKING_SECONDS,
            )
            parts.append((await asked).data)
        return b"".join(parts)

    async def write(self, name: str, *, offset: int, data: bytes, sync: bool = False) -> None:
        """Through the frontend, piece by piece. It survives the end of the host's process, with `sync` a power cut too."""
        for start in range(0, len(data), PIECE):
            piece = data[start : start + PIECE]
            last = start + PIECE >= len(data)
            request = hosts.VolumeWriteRequest(name=name, offset=offset + start, data=piece, sync=sync and last)
            await self._calls(name).call(
                HOST,
                self.address,
                lambda stub: stub.VolumeWrite,
                request,
                what=f"VolumeWrite of {len(piece)} bytes at {offset + start}",
                seconds=CHANGING_SECONDS,
            )

    def _calls(self, volume: str) -> VolumeCalls:
        return VolumeCalls(self._channels, volume=volume)


def _volume(given: hosts.HostVolume) -> HostVolume:
    return HostVolume(name=given.name, size=given.size, attached=given.attached, frontend=given.frontend, damage=given.damage)


def _poll_result(given: hosts.VolumeLookReply) -> PollResult:
    purge = given.purge
    status = PurgeProgress(purging=purge.purging, progress=purge.progress, state=purge.state, error=purge.error)
    entries = {layer.name: _entry(layer) for layer in given.layers}
    return PollResult(entries, {given.replica: status}, Limits.told(max_count=given.max_count, max_size=given.max_size))


def _entry(layer: hosts.Layer) -> Entry:
    return Entry(
        name=layer.name,
        parent=layer.parent,
        children=frozenset(layer.children),
        removed=layer.removed,
        user_created=layer.user_created,
        created=layer.created,
        size=layer.size,
        merged=layer.merged if layer.HasField("merged") else None,
        labels=dict(layer.labels),
    )
