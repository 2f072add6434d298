"""The server's answers: values as messages of the protocol, with snapshots named as their files are."""

from __future__ import annotations

from ullage.engines.chain import HEAD, Entry, snapshot_file
from ullage.engines.local.server.attached import FRONTEND, AttachedVolume
from ullage.engines.local.server.host import VolumeSummary
from ullage.engines.local.server.jobs import Job
from ullage.engines.local.store.record import BLOCK
from ullage.engines.local.store.views import View
from ullage.engines.protocol import controller_pb2 as controller
from ullage.engines.protocol import host_pb2 as hosts
from ullage.engines.protocol import replica_pb2 as replicas
from ullage.engines.protocol import syncagent_pb2 as syncagent


def volume(attached: AttachedVolume, view: View, *, address: str) -> controller.Volume:
    return controller.Volume(
        name=view.name,
        size=view.size,
        replicaCount=1,
        endpoint=address if attached.frontend_up else "",
        frontend=FRONTEND,
        frontendState="up" if attached.frontend_up else "down",
        snapshot_max_count=view.max_count,
        snapshot_max_size=view.max_size,
    )


def replica_list(address: str) -> controller.ReplicaListReply:
    """One: the machine's own files."""
    place = controller.ReplicaAddress(address=address)
    return controller.ReplicaListReply(replicas=[controller.ControllerReplica(address=place, mode=controller.RW)])


def replica(view: View) -> replicas.Replica:
    disks = {_file(name, view): _disk(entry, view) for name, entry in view.entries.items()}
    return replicas.Replica(
        head=view.head_file,
        parent=_file(view.parent, view),
        size=str(view.size),
        sector_size=BLOCK,
        state="open",
        chain=[_file(name, view) for name in view.chain],
        disks=disks,
        remain_snapshots=view.remaining,
        revision_counter_disabled=True,
        head_file_size=view.usage.head,
        snapshot_count_usage=view.usage.count,
        snapshot_size_usage=view.usage.size,
        snapshot_count_total=view.usage.total,
    )


def purge_status(job: Job) -> syncagent.SnapshotPurgeStatusResponse:
    return syncagent.SnapshotPurgeStatusResponse(
        is_purging=job.running, error=job.error, progress=job.progress, state=job.state
    )


def clone_status(attached: AttachedVolume) -> syncagent.SnapshotCloneStatusResponse:
    job, (snapshot, origin) = attached.clone, attached.cloned
    return syncagent.SnapshotCloneStatusResponse(
        is_cloning=job.running,
        error=job.error,
        progress=job.progress,
        state=job.state,
        from_replica_address=origin,
        snapshot_name=snapshot,
    )


def host_volume(known: VolumeSummary) -> hosts.HostVolume:
    return hosts.HostVolume(
        name=known.name, size=known.size, attached=known.attached, frontend=known.frontend, damage=known.damage
    )


def poll_result(view: View, purge: Job | None, *, address: str) -> hosts.VolumeLookReply:
    """Without a job nothing works on the volume."""
    return hosts.VolumeLookReply(
        layers=map(_layer, view.entries.values()),
        max_count=view.max_count,
        max_size=view.max_size,
        replica=address,
        purge=hosts.Purge(purging=purge.running, progress=purge.progress, state=purge.state, error=purge.error)
        if purge is not None
        else None,
    )


def _layer(entry: Entry) -> hosts.Layer:
    return hosts.Layer(
        name=entry.name,
        parent=entry.parent,
        children=entry.children,
        removed=entry.removed,
        user_created=entry.user_created,
        created=entry.created,
        size=entry.size,
        labels=entry.labels,
        merged=entry.merged,
    )


def _disk(entry: Entry, view: View) -> replicas.DiskInfo:
    return replicas.DiskInfo(
        name=_file(entry.name, view),
        parent=_file(entry.parent, view),
        children={_file(child, view): True for child in entry.children},
        removed=entry.removed,
        user_created=entry.user_created,
        created=entry.created,
        size=str(entry.size),
        labels=entry.labels,
    )


def _file(layer: str, view: View) -> str:
    if layer == HEAD:
        return view.head_file
    return snapshot_file(layer) if layer else ""
