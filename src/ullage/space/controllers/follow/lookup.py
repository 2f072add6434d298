"""The caches, read in the terms of this controller: whatever stands for the snapshots of a volume, or for one snapshot.

Indexes have names of their own, since other slices look into the same caches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ullage.engines.api import ENGINE_SNAPSHOTS, ENGINES, Engine, Volume
from ullage.engines.api import VOLUMES as ENGINE_VOLUMES
from ullage.engines.api import Snapshot as EngineSnapshot
from ullage.engines.handles import DRIVER, SnapshotHandle, engine_volume
from ullage.engines.handles import NAMESPACE as ENGINE_NAMESPACE
from ullage.kube.builtin import core
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.kinds import Kind
from ullage.kube.slices import Wiring
from ullage.ledger.charging.plans import read_plan
from ullage.snapshots.model import Dialect, Record, Snapshot
from ullage.space.charges import DIALECTS
from ullage.vms.api.backups import VM_BACKUPS, VirtualMachineBackup
from ullage.vms.api.machines import VIRTUAL_MACHINES, VirtualMachine
from ullage.vms.claims import claims_of

WATCHES: Final[tuple[Kind[Any], ...]] = (
    *(kind for dialect in DIALECTS for kind in (dialect.snapshots, dialect.records)),
    ENGINE_SNAPSHOTS,
    ENGINE_VOLUMES,
    ENGINES,
    core.CLAIMS,
    core.PERSISTENT_VOLUMES,
    VIRTUAL_MACHINES,
)


def watches(*, backups: bool) -> tuple[Kind[Any], ...]:
    """`backups`: those of virtual machines are ours, and pay for their members."""
    return (*WATCHES, *((VM_BACKUPS,) if backups else ()))


_UID: Final = "follow: uid"
_CLAIM: Final = "follow: claim"
_OWNER: Final = "follow: backup"
_REF: Final = "follow: snapshot of a record"
_HANDLE: Final = "follow: handle"
_VOLUME: Final = "follow: volume"


class Entry(NamedTuple):
    """A snapshot of Longhorn's: in which volume, under which name."""

    volume: str
    name: str


@dataclass(frozen=True, slots=True)
class Side:
    """The caches of one API."""

    dialect: Dialect[Any, Any]
    snapshots: Cache[Any]
    records: Cache[Any]

    def snapshot(self, key: Key) -> Snapshot | None:
        found = self.snapshots.get(key)
        return self.dialect.read_snapshot(found) if found is not None else None

    def snapshot_of(self, record: Record) -> Snapshot | None:
        """The very one that it was made for."""
        found = self.snapshot(Key(record.ref.namespace, record.ref.name))
        return found if found is not None and found.meta.uid == record.ref.uid else None

    def by_uid(self, uid: str) -> list[Snapshot]:
        return [self.dialect.read_snapshot(one) for one in self.snapshots.by(_UID, uid)]

    def of_claim(self, claim: Key) -> list[Snapshot]:
        return [self.dialect.read_snapshot(one) for one in self.snapshots.by(_CLAIM, str(claim))]

    def of_backup(self, uid: str) -> list[Snapshot]:
        return [self.dialect.read_snapshot(one) for one in self.snapshots.by(_OWNER, uid)]

    def records_for(self, snapshot: Key) -> list[Record]:
        return [self.dialect.read_record(one) for one in self.records.by(_REF, str(snapshot))]

    def records_with(self, driver: str, handle: str) -> list[Record]:
        return [self.dialect.read_record(one) for one in self.records.by(_HANDLE, f"{driver} {handle}")] if handle else []

    def records_in(self, volume: str) -> list[Record]:
        return [self.dialect.read_record(one) for one in self.records.by(_VOLUME, volume)]


@dataclass(frozen=True, slots=True)
class Lookup:
    sides: Sequence[Side]
    engine_snapshots: Cache[EngineSnapshot]
    engine_volumes: Cache[Volume]
    engines: Cache[Engine]
    claims: Cache[core.PersistentVolumeClaim]
    volumes: Cache[core.PersistentVolume]
    machines: Cache[VirtualMachine]
    backups: Cache[VirtualMachineBackup] | None = None

    def engine_snapshots_of(self, volume: str) -> list[EngineSnapshot]:
        return self.engine_snapshots.by(_VOLUME, volume)

    def engine_volume(self, name: str) -> Volume | None:
        return self.engine_volumes.get(Key(ENGINE_NAMESPACE, name))

    def engines_of(self, volume: str) -> list[Engine]:
        return self.engines.by(_VOLUME, volume)

    def persistent_volumes_of(self, volume: str) -> list[core.PersistentVolume]:
        """Those of a volume of Longhorn's. Those that a claim is bound to first."""
        return sorted(self.volumes.by(_VOLUME, volume), key=lambda one: (one.spec.claim_ref is None, one.metadata.name))

    def machines_using(self, claim: Key) -> list[VirtualMachine]:
        return self.machines.by(_CLAIM, str(claim))

    def backups_planning(self, claim: Key) -> list[VirtualMachineBackup]:
        """The backups whose plan has a claim."""
        return self.backups.by(_CLAIM, str(claim)) if self.backups is not None else []

    def backup(self, key: Key) -> VirtualMachineBackup | None:
        return self.backups.get(key) if self.backups is not None else None


def owner_of(snapshot: Snapshot) -> tuple[str, str] | None:
    """Name and uid of the backup that controls it, as it says itself. Anybody may write that."""
    for one in snapshot.meta.owner_references:
        if one.controller and one.kind == VM_BACKUPS.kind and one.api_version.rpartition("/")[0] == VM_BACKUPS.group:
            return one.name, one.uid
    return None


def entry_of(record: Record) -> Entry | None:
    """What a record stands for in an engine. A backup that lies elsewhere was made of a snapshot that has the record's name."""
    if record.driver != DRIVER:
        return None
    handle = SnapshotHandle.parse(record.handle)
    if handle is not None:
        return Entry(handle.volume, handle.snapshot)
    return Entry(record.volume, record.backend_name) if record.volume and record.ref.uid else None


def make_lookup(wiring: Wiring, *, backups: bool) -> Lookup:
    """Once for each wiring, since indexes have names."""
    sides = [_side(dialect, wiring.cache(dialect.snapshots), wiring.cache(dialect.records)) for dialect in DIALECTS]
    found = Lookup(
        sides,
        wiring.cache(ENGINE_SNAPSHOTS),
        wiring.cache(ENGINE_VOLUMES),
        wiring.cache(ENGINES),
        wiring.cache(core.CLAIMS),
        wiring.cache(core.PERSISTENT_VOLUMES),
        wiring.cache(VIRTUAL_MACHINES),
        wiring.cache(VM_BACKUPS) if backups else None,
    )
    found.engine_snapshots.index(_VOLUME, lambda one: (one.spec.volume,) if _is_engines(one) else ())
    found.engines.index(_VOLUME, lambda one: (one.spec.volume_name,) if _is_engines(one) else ())
    found.volumes.index(_VOLUME, engine_volumes)
    found.machines.index(_CLAIM, lambda one: (str(Key(one.metadata.namespace, claim)) for claim in claims_of(one)))
    if found.backups is not None:
        found.backups.index(_CLAIM, lambda one: (str(Key(one.metadata.namespace, claim)) for claim in read_plan(one.metadata)))
    return found


def _is_engines(obj: EngineSnapshot | Engine) -> bool:
    """Elsewhere anybody may make such objects: no engine looks there."""
    return obj.metadata.namespace == ENGINE_NAMESPACE


def engine_volumes(volume: core.PersistentVolume) -> Iterable[str]:
    return filter(None, (engine_volume(volume),))


def _side(dialect: Dialect[Any, Any], snapshots: Cache[Any], records: Cache[Any]) -> Side:
    def claims(obj: Any) -> Iterable[str]:
        claim = dialect.read_snapshot(obj).claim
        return (str(Key(obj.metadata.namespace, claim)),) if claim else ()

    def owners(obj: Any) -> Iterable[str]:
        owner = owner_of(dialect.read_snapshot(obj))
        return (owner[1],) if owner is not None else ()

    def refs(obj: Any) -> Iterable[str]:
        ref = dialect.read_record(obj).ref
        return (str(Key(ref.namespace, ref.name)),) if ref.name else ()

    def handles(obj: Any) -> Iterable[str]:
        record = dialect.read_record(obj)
        return (f"{record.driver} {record.handle}",) if record.handle else ()

    def entries(obj: Any) -> Iterable[str]:
        entry = entry_of(dialect.read_record(obj))
        return (entry.volume,) if entry is not None else ()

    snapshots.index(_UID, lambda obj: (obj.metadata.uid,))
    snapshots.index(_CLAIM, claims)
    snapshots.index(_OWNER, owners)
    records.index(_REF, refs)
    records.index(_HANDLE, handles)
    records.index(_VOLUME, entries)
    return Side(dialect, snapshots, records)


def claim_of(volume: core.PersistentVolume, claims: Cache[core.PersistentVolumeClaim]) -> Key | None:
    """The claim behind a volume, also one that is gone. A later claim of the name is another one's, unless the volume is its
    own."""
    ref = volume.spec.claim_ref
    if ref is None or not ref.namespace:
        return None
    key = Key(ref.namespace, ref.name)
    found = claims.get(key)
    if found is not None and found.spec.volume_name and found.spec.volume_name != volume.metadata.name:
        return None
    return key
