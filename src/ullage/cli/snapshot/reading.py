"""What the commands of `ullage snapshot` read from a cluster, and how the answers that are no answer are told.

A user of a namespace may see snapshots and claims, and neither records nor volumes. What may not be read is left out and said
so; it never keeps a command from doing what it can do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ullage.cli.common.session import Dialect, Missing, NotInstalled, Session, readable
from ullage.cli.snapshot.found import Found
from ullage.cli.snapshot.selection import Everything, OfClaims, OfVolume, Selection, of_pod, of_stateful_set
from ullage.kube.builtin import core
from ullage.kube.builtin.apps import STATEFUL_SETS
from ullage.kube.builtin.core import PODS
from ullage.kube.client.client import Client
from ullage.kube.errors import Forbidden, NotFound
from ullage.kube.kinds import Kind, Object
from ullage.snapshots.data_source import RESTORED_FROM_UID, DataSource, data_source_of
from ullage.snapshots.model import Record, Ref

T = TypeVar("T", bound=Object)
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Listed:
    found: Sequence[Found]
    served: Sequence[Dialect]
    notes: Sequence[str] = ()  # what could not be read


# --- snapshots -------------------------------------------------------------------------------------------------------


async def find(session: Session, name: str) -> Found:
    """The snapshot of this name in the first API that has it."""
    forbidden: Forbidden | None = None
    for dialect in session.among:
        try:
            obj = await session.client.find(dialect.snapshots, name, session.namespace)
        except Forbidden as error:
            forbidden = forbidden or error
            continue
        except NotFound:  # this cluster does not serve that API
            continue
        if obj is not None:
            return Found(dialect, obj)
    if forbidden is not None:
        raise forbidden
    await require_served(session)
    where = " or ".join(f"{one.snapshots.group} ({one.name})" for one in session.among)
    raise Missing(f"snapshot {name} does not exist in namespace {session.namespace}, in {where}")


async def require_served(session: Session) -> None:
    for dialect in session.among:
        if await session.client.served(dialect.snapshots):
            return
    kinds = " and ".join(dialect.snapshots.name for dialect in session.among)
    raise NotInstalled(f"this cluster does not serve {kinds}; is Ullage installed on it? ullage install")


async def list_snapshots(session: Session, selection: Selection, *, labels: str = "") -> Listed:
    """Of the session's namespace, or of all where that is "". An API that is not served, or may not be read, is left out where
    the other is."""
    found: list[Found] = []
    served: list[Dialect] = []
    refused: list[Forbidden] = []
    for dialect in session.among:
        try:
            found += await _selected(session, dialect, selection, labels)
        except NotFound:
            continue
        except Forbidden as error:
            refused.append(error)
            continue
        served.append(dialect)
    if not served and refused:
        raise refused[0]
    if not served:
        await require_served(session)
    return Listed(found, served, notes=[str(error) for error in refused])


async def _selected(session: Session, dialect: Dialect, selection: Selection, labels: str) -> Iterable[Found]:
    by_uid: dict[str, Found] = {}
    for own in selection.selectors:
        both = ",".join(one for one in (own, labels) if one)
        listing = await session.client.list(dialect.snapshots, session.namespace, labels=both)
        for obj in listing.items:
            one = Found(dialect, obj)
            if selection.takes(one.snapshot):
                by_uid[obj.metadata.uid] = one
    return by_uid.values()


# --- what a selection is about ---------------------------------------------------------------------------------------


async def selection_of(session: Session, what: str, name: str) -> Selection:
    """`what` is pvc, pv, pod, statefulset, or nothing for everything."""
    if what == "pvc":
        return OfClaims(names=frozenset({name}))
    if what == "pv":
        return await of_volume(session.client, name)
    if what == "pod":
        return of_pod(await _get(session, PODS, name))
    if what == "statefulset":
        return of_stateful_set(await _get(session, STATEFUL_SETS, name))
    return Everything()


async def of_volume(client: Client, name: str) -> OfVolume:
    """The labels find the snapshots of a volume that is gone, or that may not be read; its claim finds those without."""
    volume = await readable(client.find(core.PERSISTENT_VOLUMES, name))
    ref = volume.spec.claim_ref if isinstance(volume, core.PersistentVolume) else None
    return OfVolume(name, Ref(ref.namespace, ref.name, ref.uid) if ref else None)


async def _get(session: Session, kind: Kind[T], name: str) -> T:
    found = await session.client.find(kind, name, session.namespace)
    if found is None:
        raise Missing(f"{kind.kind} {name} does not exist in namespace {session.namespace}")
    return found


# --- what belongs to a snapshot --------------------------------------------------------------------------------------


async def record_of(client: Client, found: Found) -> Record | Forbidden | None:
    name = found.snapshot.state.record or found.snapshot.imported_record
    obj = await readable(client.find(found.dialect.records, name)) if name else None
    return obj if obj is None or isinstance(obj, Forbidden) else found.dialect.read_record(obj)


async def restored_claims(client: Client, found: Found) -> list[core.PersistentVolumeClaim]:
    """The claims that are filled from a snapshot, or were."""
    claims = await readable(client.list(core.CLAIMS, found.obj.metadata.namespace))
    return [] if isinstance(claims, Forbidden) else [one for one in claims.items if is_from(one, found)]


def is_from(claim: core.PersistentVolumeClaim, found: Found) -> bool:
    """Whether a claim's data is, or will be, that of this very snapshot, and not of an earlier one of the name. Where another
    provisioner fills claims, nothing tells the uid: then a claim counts that waits, or was made after the snapshot."""
    meta = found.obj.metadata
    if data_source_of(claim) != DataSource(found.dialect.snapshots.group, meta.namespace, meta.name):
        return False
    uid = claim.metadata.annotations.get(RESTORED_FROM_UID)
    if uid is not None:
        return bool(uid == meta.uid)
    return not claim.spec.volume_name or bool(claim.metadata.creation_timestamp >= meta.creation_timestamp)
