"""Snapshots of several volumes that a CSI driver takes in one call, where it can.

As with single snapshots, the driver keeps what it makes under the names that we give, and does not tell names: to undo a
creation of unknown outcome, the group is asked for once more and deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from pathlib import Path
from types import TracebackType
from typing import Self

from ullage.errors import Impossible, Uncertain
from ullage.snapshots.backends.base import NO_SECRETS, BackendGroup, BackendSnapshot, GroupCreation, Secrets

from . import csi_pb2 as csi
from .channel import Channel
from .client import TIMEOUT_SECONDS, CsiClient, checked_name
from .errors import Refused, made_again


class CsiGroupBackend:
    """`base.GroupBackend` over one driver's socket."""

    def __init__(self, client: CsiClient, *, driver: str) -> None:
        self._client = client
        self._name = driver

    @classmethod
    def at(cls, path: Path, *, driver: str, timeout: float = TIMEOUT_SECONDS) -> Self:
        """Nothing is asked yet, and the driver may come later."""
        return cls(CsiClient(Channel(path), name=driver, timeout=timeout), driver=driver)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.close()

    @property
    def driver(self) -> str:
        return self._name

    async def knows_groups(self) -> bool:
        return (await self._client.driver()).groups

    async def create_group(self, creation: GroupCreation) -> BackendGroup:
        made = await self._created(creation)
        found = self._group(made)
        missing = set(creation.volumes) - {one.volume for one in found.members}
        if missing:
            await self.delete_group(found.handle, [one.handle for one in found.members], secrets=creation.secrets)
            shown = ", ".join(sorted(missing)[:5])
            raise Impossible(f"driver {self._name}: group {creation.name} has no snapshot of {shown}; it was deleted again")
        return found

    async def undo_group(self, creation: GroupCreation) -> None:
        made = await made_again(self._created(creation), creation.name)
        if made is not None:
            members = [one.snapshot_id for one in made.snapshots]
            await self.delete_group(made.group_snapshot_id, members, secrets=creation.secrets)

    async def delete_group(self, handle: str, members: Sequence[str], *, secrets: Secrets = NO_SECRETS) -> None:
        request = csi.DeleteVolumeGroupSnapshotRequest(group_snapshot_id=handle, snapshot_ids=members, secrets=secrets.values)
        what = f"DeleteVolumeGroupSnapshot {handle}"
        try:
            await self._client.group_call(lambda stub: stub.DeleteVolumeGroupSnapshot, request, what=what)
        except Refused as problem:
            if problem.code != "NOT_FOUND":  # some drivers say this where the interface asks for success
                raise

    async def find_group(self, handle: str, members: Sequence[str], *, secrets: Secrets = NO_SECRETS) -> BackendGroup | None:
        request = csi.GetVolumeGroupSnapshotRequest(group_snapshot_id=handle, snapshot_ids=members, secrets=secrets.values)
        what = f"GetVolumeGroupSnapshot {handle}"
        try:
            answer = await self._client.group_call(lambda stub: stub.GetVolumeGroupSnapshot, request, what=what)
        except Refused as problem:
            if problem.code != "NOT_FOUND":
                raise
            return None
        return self._group(answer.group_snapshot)

    async def _created(self, creation: GroupCreation) -> csi.VolumeGroupSnapshot:
        request = csi.CreateVolumeGroupSnapshotRequest(
            name=checked_name(creation.name),
            source_volume_ids=creation.volumes,
            secrets=creation.secrets.values,
            parameters=creation.parameters,
        )
        what = f"CreateVolumeGroupSnapshot {creation.name} of {len(creation.volumes)} volumes"
        answer = await self._client.group_call(lambda stub: stub.CreateVolumeGroupSnapshot, request, what=what)
        if not answer.group_snapshot.group_snapshot_id:
            raise Uncertain(f"driver {self._name}: {what}: it answered without an id")
        return answer.group_snapshot

    def _group(self, one: csi.VolumeGroupSnapshot) -> BackendGroup:
        if not one.HasField("creation_time"):
            raise Uncertain(f"driver {self._name}: group {one.group_snapshot_id} has no creation_time, so its cut is not known")
        cut = one.creation_time.ToDatetime(tzinfo=UTC)
        members = tuple(
            BackendSnapshot(
                handle=member.snapshot_id,
                volume=member.source_volume_id,
                cut=member.creation_time.ToDatetime(tzinfo=UTC) if member.HasField("creation_time") else cut,
                ready=member.ready_to_use,
                restore_size=member.size_bytes or None,
            )
            for member in one.snapshots
        )
        return BackendGroup(handle=one.group_snapshot_id, cut=cut, ready=one.ready_to_use, members=members)
