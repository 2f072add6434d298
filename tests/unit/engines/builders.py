"""Objects for tables: each as it is when all is well, and what differs as arguments."""

from __future__ import annotations

from typing import Any

from ullage.engines import model
from ullage.engines.api import (
    AttachmentTicket,
    Engine,
    EngineSpec,
    EngineStatus,
    Snapshot,
    SnapshotInfo,
    SnapshotSpec,
    SnapshotStatus,
    TicketOwner,
    Volume,
    VolumeSpec,
)
from ullage.kube.kinds import Meta, OwnerReference

NS = "longhorn-system"
DELETED = "2026-01-01T00:05:00Z"
CREATED = "2026-01-01T00:00:05Z"
GIB = 1024**3


def volume(*, uid: str = "uid-vol", going: bool = False, ticket: bool = False, **spec: Any) -> Volume:
    if ticket:
        owner = TicketOwner(kind="Snapshot", name="snap", uid="uid-snap")
        held = AttachmentTicket(owner=owner, since=CREATED, until="2099-01-01T00:00:00Z")
        spec["attachment_tickets"] = {"snapshot-uid-snap": held}
    meta = Meta(name="vol", namespace=NS, uid=uid, deletion_timestamp=DELETED if going else None)
    return Volume(metadata=meta, spec=VolumeSpec(size=str(GIB), **spec))


def snapshot(
    *, name: str = "snap", create: bool = True, going: bool = False, stamped: bool = True, labels: Any = None, **status: Any
) -> Snapshot:
    meta = Meta(name=name, namespace=NS, uid=f"uid-{name}", deletion_timestamp=DELETED if going else None)
    if stamped:
        meta = model.stamped(meta, volume())
    spec = SnapshotSpec(volume="vol", create_snapshot=create, labels=labels)
    return Snapshot(metadata=meta, spec=spec, status=SnapshotStatus(**status))


def info(name: str, *, parent: str = "", children: tuple[str, ...] = (), **rest: Any) -> SnapshotInfo:
    given: dict[str, Any] = {"created": CREATED, "size": "4096", "usercreated": True} | rest
    return SnapshotInfo(name=name, parent=parent, children=dict.fromkeys(children, True) or None, **given)


def engine(*entries: SnapshotInfo, state: str = "running", **rest: Any) -> Engine:
    return Engine(
        metadata=Meta(name="vol-e-0", namespace=NS, uid="uid-e"),
        spec=EngineSpec(volume_name="vol", volume_size=str(GIB)),
        status=EngineStatus(current_state=state, snapshots={one.name: one for one in entries} or None, **rest),
    )


def other_owner() -> OwnerReference:
    return OwnerReference(api_version="longhorn.io/v1beta2", kind="Volume", name="vol", uid="another")
