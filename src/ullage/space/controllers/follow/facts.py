"""Gathers the facts: every cut of a volume, or of one snapshot, with all who stand for it.

The caches hear of things one after the other, so what is missing in one may be there: before somebody is booked in the place of
another who seems to be gone, the API itself is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ullage.engines.api import ENGINE_SNAPSHOTS
from ullage.engines.api import Snapshot as EngineSnapshot
from ullage.engines.handles import DRIVER, engine_volume
from ullage.engines.model import belongs_to, head_size
from ullage.kube.cache.indexer import Key
from ullage.kube.client.interface import Finder
from ullage.kube.kinds import Kind, Meta
from ullage.kube.objects import is_deleting
from ullage.ledger.amounts import BadAmount
from ullage.ledger.charging.methods import CAPACITY, ENGINE_HEAD, ENGINE_SIZE
from ullage.ledger.charging.plans import read_plan
from ullage.ledger.charging.stamps import CHARGED_NAMESPACE, FREE, BadStamp, Stamp, stamp_of
from ullage.snapshots.model import SHARED_BY, Record, Snapshot
from ullage.space.controllers.follow.lookup import Lookup, Side, claim_of, entry_of, owner_of
from ullage.space.controllers.follow.model import (
    NOT_KNOWN,
    BackupSide,
    Bearer,
    Cut,
    EngineSide,
    Pair,
    RecordSide,
    SnapshotSide,
    Trace,
    measured,
    size_of,
    view_of,
)
from ullage.space.estimates import Estimate
from ullage.vms.api.backups import VM_BACKUPS, VirtualMachineBackup
from ullage.vms.model import size_of as size_of_claim

Payers = Callable[[str, str], tuple[str, ...]]
"""The virtual machines whose accounts the snapshots of a claim are charged to; by namespace and claim."""
_OF_A_SNAPSHOT = "snapshot-"  # and its uid: what every snapshotter calls what it makes for a VolumeSnapshot


class Facts:
    def __init__(self, client: Finder, lookup: Lookup, payers: Payers) -> None:
        self._client = client
        self._lookup = lookup
        self._payers = payers

    # --- of an engine's volume ---

    async def of_volume(self, name: str) -> list[Cut]:
        """All snapshots of a volume of Longhorn's."""
        lookup = self._lookup
        volume, view = lookup.engine_volume(name), view_of(lookup.engines_of(name))
        found = [one for one in lookup.engine_snapshots_of(name) if volume is None or belongs_to(one, volume)]
        objects = {one.metadata.name: one for one in found}
        claim = self._claim_of_volume(name)
        # Also those of which neither engine nor record is left: a purge may be done before anybody has seen the mark.
        asked = (f"{_OF_A_SNAPSHOT}{one.meta.uid}" for side in lookup.sides for one in side.of_claim(claim or Key("", "")))
        pairs = await self._pairs_in(name, {*objects, *(view.entries if view is not None else ()), *asked})
        vms = self._vms(claim)
        traces = [
            self._trace(entry, objects.get(entry), pairs.get(entry, ()), claim=claim, vms=vms)
            for entry in dict.fromkeys((*objects, *pairs))
        ]
        return measured(traces, view, has_volume=volume is not None and not is_deleting(volume.metadata))

    async def _pairs_in(self, volume: str, names: Iterable[str]) -> dict[str, tuple[Pair, ...]]:
        """By the name of the snapshot, who asked for it or imports it."""
        found: dict[str, list[tuple[tuple[str, str], Pair]]] = {}
        seen: set[str] = set()
        for side in self._lookup.sides:
            for record in side.records_in(volume):
                entry = entry_of(record)
                pair = await self._pair(side, record)
                if entry is not None and pair is not None:
                    found.setdefault(entry.name, []).append((_age(record.meta), pair))
                    seen |= {pair.snapshot.bearer.uid} if pair.snapshot is not None else set()
            for name in names:
                for snapshot in side.by_uid(name.removeprefix(_OF_A_SNAPSHOT)) if name.startswith(_OF_A_SNAPSHOT) else ():
                    if snapshot.meta.uid not in seen and self._is_of_volume(snapshot, volume):
                        pair = await self._without_record(side, snapshot)
                        found.setdefault(name, []).append((_age(snapshot.meta), pair))
        return {name: tuple(pair for _, pair in sorted(pairs, key=lambda one: one[0])) for name, pairs in found.items()}

    def _is_of_volume(self, snapshot: Snapshot, volume: str) -> bool:
        """Names of engine snapshots are anybody's in the engine's namespace: the snapshot must be of a claim of the volume."""
        claim = self._claim_of_volume(volume)
        return claim is not None and claim == (snapshot.meta.namespace, snapshot.claim)

    def _trace(
        self,
        name: str,
        found: EngineSnapshot | None,
        pairs: tuple[Pair, ...],
        *,
        claim: Key | None,
        vms: dict[str, tuple[str, ...]],
    ) -> Trace:
        engine = self._engine_side(found, claim) if found is not None else None
        was_cut = any(pair.record is not None and pair.record.cut for pair in pairs)
        return Trace(name=name, cut=Cut(pairs=pairs, engine=engine, vms=vms), snapshot=found, was_cut=was_cut)

    def _engine_side(self, snapshot: EngineSnapshot, claim: Key | None) -> EngineSide:
        bearer = _bearer(ENGINE_SNAPSHOTS, snapshot.metadata, snapshot.metadata.annotations.get(CHARGED_NAMESPACE, ""))
        is_cut = bool(snapshot.status.creation_time) or not snapshot.spec.create_snapshot
        # A volume that lost its claim is paid for as it was: its snapshots are there because of that claim.
        namespace = claim.namespace if claim is not None else bearer.namespace
        return EngineSide(bearer=bearer, cut=is_cut, namespace=namespace, estimate=self._estimate(snapshot, is_cut=is_cut))

    def _estimate(self, snapshot: EngineSnapshot, *, is_cut: bool) -> Estimate:
        if is_cut:
            size = snapshot.status.size
            return Estimate(size, ENGINE_SIZE) if isinstance(size, int) else NOT_KNOWN
        heads = [head for one in self._lookup.engines_of(snapshot.spec.volume) if (head := head_size(one)) is not None]
        return Estimate(max(heads), ENGINE_HEAD) if heads else NOT_KNOWN

    def _claim_of_volume(self, name: str) -> Key | None:
        for volume in self._lookup.persistent_volumes_of(name):
            if (found := claim_of(volume, self._lookup.claims)) is not None:
                return found
        return None

    # --- of a snapshot of any other driver ---

    async def of_snapshot(self, side: Side, key: Key) -> list[Cut]:
        """All that stands for a snapshot of one name, and for the same handle."""
        cuts: list[Cut] = []
        seen: set[str] = set()
        for record in side.records_for(key):
            if record.driver == DRIVER:
                continue
            pair = await self._pair(side, record)
            if pair is not None:
                cuts.append(await self._cut(side, record, pair))
                seen |= {pair.snapshot.bearer.uid} if pair.snapshot is not None else set()
        snapshot = side.snapshot(key)
        if snapshot is not None and snapshot.meta.uid not in seen and not self._is_engines(side, snapshot):
            pair = await self._without_record(side, snapshot)
            cuts.append(Cut(pairs=(pair,), vms=self._vms(Key(key.namespace, snapshot.claim))))
        return cuts

    async def _cut(self, of: Side, record: Record, pair: Pair) -> Cut:
        """With all who name the same handle, in an order that is the same for each of them."""
        found = [(_age(record.meta), pair)]
        for side in self._lookup.sides:
            for one in side.records_with(record.driver, record.handle):
                own = side is of and one.meta.uid == record.meta.uid
                if not own and (other := await self._pair(side, one)) is not None:
                    found.append((_age(one.meta), other))
        pairs = tuple(pair for _, pair in sorted(found, key=lambda one: one[0]))
        size, vms = size_of(record), self._vms(self._claim_of(record, pair))
        return Cut(pairs=pairs, vms=vms) if size is None else Cut(pairs=pairs, vms=vms, size=size.bytes, by=size.by)

    def _claim_of(self, record: Record, pair: Pair) -> Key | None:
        """The claim of what was snapshotted, as long as it has the same volume."""
        volume = self._lookup.volumes.get(Key("", record.volume_name)) if record.volume_name else None
        if volume is not None:
            return claim_of(volume, self._lookup.claims)
        claim = pair.snapshot.claim if pair.snapshot is not None else ""
        return Key(record.ref.namespace, claim) if claim and not record.volume_name else None

    def _is_engines(self, side: Side, snapshot: Snapshot) -> bool:
        """Whether an engine has it: then the volume is asked for, not the snapshot."""
        return self.volume_of(side, snapshot) != ""

    def volume_of(self, side: Side, snapshot: Snapshot) -> str:
        """The volume of Longhorn's that a snapshot is of; empty: it is none of those, or not known yet."""
        for record in side.records_for(Key(snapshot.meta.namespace, snapshot.meta.name)):
            if record.ref.uid == snapshot.meta.uid:
                entry = entry_of(record)
                return entry.volume if entry is not None else ""
        claim = self._lookup.claims.get(Key(snapshot.meta.namespace, snapshot.claim)) if snapshot.claim else None
        volume = self._lookup.volumes.get(Key("", claim.spec.volume_name)) if claim is not None else None
        return engine_volume(volume) if volume is not None else ""

    # --- of both ---

    async def _pair(self, side: Side, record: Record) -> Pair | None:
        """None: nobody has ever bound it."""
        if not record.ref.uid:
            return None
        snapshot = side.snapshot_of(record)
        if snapshot is None:
            ref = record.ref
            found = await self._live(side.dialect.snapshots, ref.name, ref.namespace, uid=ref.uid)
            snapshot = side.dialect.read_snapshot(found) if found is not None else None
        bearer = _bearer(side.dialect.records, record.meta, record.meta.annotations.get(CHARGED_NAMESPACE, ""))
        return Pair(
            snapshot=await self._snapshot_side(side, snapshot, record) if snapshot is not None else None,
            record=RecordSide(bearer=bearer, policy=record.policy, namespace=record.ref.namespace, cut=record.is_cut),
            imported=bool(record.imported),
            shared=SHARED_BY in record.meta.annotations,
        )

    async def _without_record(self, side: Side, snapshot: Snapshot) -> Pair:
        """A snapshot whose record is not there yet, or is gone."""
        record: Record | None = None
        if is_deleting(snapshot.meta):
            name = snapshot.imported_record or snapshot.state.record or side.dialect.record_name(snapshot)
            found = await self._live(side.dialect.records, name)
            record = side.dialect.read_record(found) if found is not None else None
        if record is not None and record.ref.uid == snapshot.meta.uid and (pair := await self._pair(side, record)) is not None:
            return pair
        return Pair(snapshot=await self._snapshot_side(side, snapshot, None), imported=bool(snapshot.imported_record))

    async def _snapshot_side(self, side: Side, snapshot: Snapshot, record: Record | None) -> SnapshotSide:
        """Whether it is cut its record tells, which belongs to administrators: its own status may be anybody's writing."""
        bearer = _bearer(side.dialect.snapshots, snapshot.meta, snapshot.meta.namespace)
        return SnapshotSide(
            bearer=bearer,
            cut=record is not None and record.is_cut,
            told=snapshot.state.ready,
            claim=snapshot.claim,
            backup=await self._paid_by(snapshot, bearer),
            estimate=self._capacity(snapshot),
        )

    async def _paid_by(self, snapshot: Snapshot, bearer: Bearer) -> str:
        """The uid of the backup that pays for it: one that is there, and whose plan has the claim. An owner is anybody's
        writing, a stamp is Ullage's: who only says that he is a member has accounts on his own, and pays himself."""
        owner = owner_of(snapshot)
        if owner is None or bearer.stamp != FREE or self._lookup.backups is None:
            return ""
        name, uid = owner
        found = self._lookup.backup(Key(snapshot.meta.namespace, name)) or await self._live(
            VM_BACKUPS, name, snapshot.meta.namespace
        )
        return uid if found is not None and found.metadata.uid == uid and snapshot.claim in read_plan(found.metadata) else ""

    def _capacity(self, snapshot: Snapshot) -> Estimate:
        """An upper bound for one that nobody has stamped and nobody has cut."""
        claim = self._lookup.claims.get(Key(snapshot.meta.namespace, snapshot.claim)) if snapshot.claim else None
        return Estimate(size_of_claim(claim), CAPACITY) if claim is not None else NOT_KNOWN

    def _vms(self, claim: Key | None) -> dict[str, tuple[str, ...]]:
        return {claim.namespace: self._payers(claim.namespace, claim.name)} if claim is not None and claim.name else {}

    async def _live(self, kind: Kind[Any], name: str, namespace: str = "", *, uid: str = "") -> Any:
        found = await self._client.find(kind, name, namespace)
        return found if found is not None and (not uid or found.metadata.uid == uid) else None

    # --- backups ---

    def backup_side(self, backup: VirtualMachineBackup, *, all_cut: bool) -> BackupSide:
        status = backup.status
        settled = is_deleting(backup.metadata) or status.ready_to_use is True or _has_failed(backup) or all_cut
        bearer = _bearer(VM_BACKUPS, backup.metadata, backup.metadata.namespace)
        return BackupSide(bearer=bearer, plan=read_plan(backup.metadata), settled=settled)


def _has_failed(backup: VirtualMachineBackup) -> bool:
    return any(one.type == "Failed" and one.status == "True" for one in backup.status.conditions)


def _age(meta: Meta) -> tuple[str, str]:
    return meta.creation_timestamp or "", meta.uid


def _bearer(kind: Kind[Any], meta: Meta, namespace: str) -> Bearer:
    return Bearer(kind=kind, meta=meta, stamp=_stamp(meta), namespace=namespace)


def _stamp(meta: Meta) -> Stamp | None:
    try:
        return stamp_of(meta)
    except (BadStamp, BadAmount):
        return None
