"""Snapshots of several volumes in one call: all of them, or none."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Any

import grpc
from google.protobuf.timestamp_pb2 import Timestamp

from ullage.snapshots.backends.csi import csi_pb2 as csi
from ullage.snapshots.backends.csi.csi_pb2_grpc import GroupControllerServicer

from .asking import Turns, found, invalid, required, short
from .controller import snapshot_message
from .faults import Faults, Refusal
from .store import Group, Snapshot, Store

GROUPS = "GROUP_CONTROLLER_SERVICE"


class GroupController(GroupControllerServicer):
    def __init__(self, store: Store, faults: Faults) -> None:
        self._store = store
        self._faults = faults
        self._turns = Turns()

    async def GroupControllerGetCapabilities(
        self, request: csi.GroupControllerGetCapabilitiesRequest, context: Any
    ) -> csi.GroupControllerGetCapabilitiesResponse:
        rpc = csi.GroupControllerServiceCapability.RPC
        can = csi.GroupControllerServiceCapability(rpc=rpc(type=rpc.CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT))
        return csi.GroupControllerGetCapabilitiesResponse(capabilities=[can])

    async def CreateVolumeGroupSnapshot(
        self, request: csi.CreateVolumeGroupSnapshotRequest, context: Any
    ) -> csi.CreateVolumeGroupSnapshotResponse:
        required(name=request.name)
        short(request.name)
        volumes = list(request.source_volume_ids)
        if not volumes:
            raise invalid("source_volume_ids is missing")
        with self._turns.take(request.name):
            group = self._store.groups.named(request.name)
            if group is not None and sorted(group.volumes) != sorted(volumes):
                raise Refusal(grpc.StatusCode.ALREADY_EXISTS, f"group {request.name} is one of other volumes")
            if group is None:
                group = await self._new_group(request.name, volumes)
            return csi.CreateVolumeGroupSnapshotResponse(group_snapshot=self._message(group))

    async def DeleteVolumeGroupSnapshot(
        self, request: csi.DeleteVolumeGroupSnapshotRequest, context: Any
    ) -> csi.DeleteVolumeGroupSnapshotResponse:
        required(group_snapshot_id=request.group_snapshot_id)
        with self._turns.take(request.group_snapshot_id):
            group = self._store.groups.get(request.group_snapshot_id)
            if group is not None:
                self._must_be_members(group, list(request.snapshot_ids))
                await asyncio.to_thread(self._remove, group)
        return csi.DeleteVolumeGroupSnapshotResponse()

    async def GetVolumeGroupSnapshot(
        self, request: csi.GetVolumeGroupSnapshotRequest, context: Any
    ) -> csi.GetVolumeGroupSnapshotResponse:
        required(group_snapshot_id=request.group_snapshot_id)
        group = found(self._store.groups.get(request.group_snapshot_id), f"group {request.group_snapshot_id}")
        self._must_be_members(group, list(request.snapshot_ids))
        return csi.GetVolumeGroupSnapshotResponse(group_snapshot=self._message(group))

    async def _new_group(self, name: str, volumes: list[str]) -> Group:
        """One moment for all. The group's own description comes last: without it members are nobody's, and go."""
        for one in volumes:
            found(self._store.volumes.get(one), f"volume {one}")
        now = time.time_ns()
        ready = now + int(self._faults.control.upload_seconds * 1e9)
        group = Group(id=f"group-{uuid.uuid4().hex}", name=name, volumes=volumes, members=[], created=now)
        members: list[Snapshot] = []
        try:
            for number, one in enumerate(volumes):
                members.append(await self._member(one, name=f"{name}/{number}", group=group.id, times=(now, ready)))
        except BaseException:
            for member in members:
                self._store.snapshots.remove(member.id)
            raise
        group = Group(id=group.id, name=name, volumes=volumes, members=[one.id for one in members], created=now)
        await asyncio.to_thread(self._store.groups.put, group, None)
        return group

    async def _member(self, volume_id: str, *, name: str, group: str, times: tuple[int, int]) -> Snapshot:
        volume = found(self._store.volumes.get(volume_id), f"volume {volume_id}")
        created, ready = times
        snapshot = Snapshot(
            id=f"snap-{uuid.uuid4().hex}",
            name=name,
            volume=volume.id,
            size=volume.capacity,
            created=created,
            ready=ready,
            block=volume.block,
            group=group,
        )
        await asyncio.to_thread(self._store.snapshots.put, snapshot, self._store.volumes.data(volume.id))
        return snapshot

    def _remove(self, group: Group) -> None:
        """Members first: a group that was begun to be removed is still there to be asked for."""
        for one in group.members:
            if self._store.snapshots.get(one) is not None:
                self._store.snapshots.remove(one)
        self._store.groups.remove(group.id)

    def _must_be_members(self, group: Group, given: list[str]) -> None:
        if not given:
            raise invalid("snapshot_ids is missing")
        if sorted(given) != sorted(group.members):
            raise invalid(f"snapshot_ids: group {group.id} has other members")

    def _message(self, group: Group) -> csi.VolumeGroupSnapshot:
        members = [found(self._store.snapshots.get(one), f"snapshot {one}") for one in group.members]
        return csi.VolumeGroupSnapshot(
            group_snapshot_id=group.id,
            snapshots=[snapshot_message(one) for one in members],
            creation_time=Timestamp(seconds=group.created // 10**9, nanos=group.created % 10**9),
            ready_to_use=all(one.ready <= time.time_ns() for one in members),
        )
