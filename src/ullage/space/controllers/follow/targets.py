"""What is reconciled together, and what wakes it.

A volume of Longhorn's is one target: a purge moves bytes between its snapshots. So is a snapshot of any other driver, and so is
a backup. Whatever is reconciled, the backups that it touches are looked at with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from ullage.engines.api import Engine, Volume
from ullage.engines.api import Snapshot as EngineSnapshot
from ullage.engines.chain import HEAD
from ullage.engines.handles import DRIVER
from ullage.engines.handles import NAMESPACE as ENGINE_NAMESPACE
from ullage.engines.model import comes_or_goes, is_purging
from ullage.kube.builtin import core
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.controller.controller import Source
from ullage.ledger.charging.plans import read_plan
from ullage.snapshots.model import Snapshot
from ullage.space.controllers.follow.facts import Facts
from ullage.space.controllers.follow.lookup import Lookup, Side, engine_volumes, entry_of, owner_of
from ullage.vms.api.backups import VirtualMachineBackup
from ullage.vms.api.machines import VirtualMachine
from ullage.vms.claims import claims_of

VOLUME: Final = "volume"
BACKUP: Final = "backup"


class Target(NamedTuple):
    """`what` is VOLUME, BACKUP, or the name of an API: then it is a snapshot of that."""

    what: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.what} {self.namespace}/{self.name}" if self.namespace else f"{self.what} {self.name}"


class Targets:
    def __init__(self, lookup: Lookup, facts: Facts) -> None:
        self._lookup = lookup
        self._facts = facts

    def of_snapshot(self, side: Side, snapshot: Snapshot) -> Target:
        volume = self._facts.volume_of(side, snapshot)
        if volume:
            return Target(VOLUME, "", volume)
        return Target(side.dialect.name, snapshot.meta.namespace, snapshot.meta.name)

    def of_claim(self, claim: Key) -> Iterator[Target]:
        """All snapshots of a claim, and of the volume that it has."""
        for side in self._lookup.sides:
            for snapshot in side.of_claim(claim):
                yield self.of_snapshot(side, snapshot)
        found = self._lookup.claims.get(claim)
        volume = self._lookup.volumes.get(Key("", found.spec.volume_name)) if found is not None else None
        for name in engine_volumes(volume) if volume is not None else ():
            yield Target(VOLUME, "", name)

    def of_backups(self, backups: Iterable[VirtualMachineBackup]) -> Iterator[Target]:
        """Whatever may pay for something instead of a backup, or did before. Most backups of a VM are of the same claims, and
        each of these has a snapshot for every backup."""
        claims: dict[Key, None] = {}
        for backup in backups:
            for side in self._lookup.sides:
                for snapshot in side.of_backup(backup.metadata.uid):
                    yield self.of_snapshot(side, snapshot)
            claims |= dict.fromkeys(Key(backup.metadata.namespace, claim) for claim in read_plan(backup.metadata))
        for claim in claims:
            yield from self.of_claim(claim)

    # --- what wakes them ---

    def sources(self) -> list[Source[Any, Target]]:
        lookup = self._lookup
        made: list[Source[Any, Target]] = []
        for side in lookup.sides:
            made.append(Source(side.snapshots, _snapshots(self, side)))
            made.append(Source(side.records, _records(side)))
        return [
            *made,
            Source(lookup.engine_snapshots, _engine_snapshots),
            Source(lookup.engines, _engines, when=_says_something_new),
            Source(lookup.engine_volumes, _engine_volumes, when=comes_or_goes),
            Source(lookup.claims, lambda one: self.of_claim(key_of(one)), when=_binds),
            Source(lookup.volumes, self._of_volume, when=_changes_hands),
            Source(lookup.machines, self._of_machine, when=_plugs),
            *([Source(lookup.backups, _backups)] if lookup.backups is not None else ()),
        ]

    def _of_volume(self, volume: core.PersistentVolume) -> Iterator[Target]:
        for name in engine_volumes(volume):
            yield Target(VOLUME, "", name)
        if volume.spec.claim_ref is not None:
            yield from self.of_claim(volume.spec.claim_ref.key)

    def _of_machine(self, machine: VirtualMachine) -> Iterator[Target]:
        for claim in claims_of(machine):
            yield from self.of_claim(Key(machine.metadata.namespace, claim))


def _snapshots(targets: Targets, side: Side) -> Any:
    def keys(obj: Any) -> Iterator[Target]:
        snapshot = side.dialect.read_snapshot(obj)
        yield targets.of_snapshot(side, snapshot)
        owner = owner_of(snapshot)
        if owner is not None:
            yield Target(BACKUP, snapshot.meta.namespace, owner[0])

    return keys


def _records(side: Side) -> Any:
    def keys(obj: Any) -> Iterator[Target]:
        record = side.dialect.read_record(obj)
        entry = entry_of(record)
        if entry is not None:
            yield Target(VOLUME, "", entry.volume)
        elif record.ref.name and record.driver != DRIVER:
            yield Target(side.dialect.name, record.ref.namespace, record.ref.name)

    return keys


def _engine_snapshots(snapshot: EngineSnapshot) -> Iterable[Target]:
    return (Target(VOLUME, "", snapshot.spec.volume),) if snapshot.metadata.namespace == ENGINE_NAMESPACE else ()


def _backups(backup: VirtualMachineBackup) -> Iterable[Target]:
    return (Target(BACKUP, backup.metadata.namespace, backup.metadata.name),)


def _engines(engine: Engine) -> Iterable[Target]:
    return (Target(VOLUME, "", engine.spec.volume_name),) if engine.metadata.namespace == ENGINE_NAMESPACE else ()


def _engine_volumes(volume: Volume) -> Iterable[Target]:
    return (Target(VOLUME, "", volume.metadata.name),) if volume.metadata.namespace == ENGINE_NAMESPACE else ()


def _says_something_new(old: Engine | None, new: Engine | None) -> bool:
    """That its head grows is nobody's business here: with the disks of a busy cluster it happens all the time."""
    if old is None or new is None or old.spec.active != new.spec.active:
        return True
    before, after = old.status.snapshots or {}, new.status.snapshots or {}
    changed = any(before.get(name) != after.get(name) for name in before.keys() | after.keys() if name != HEAD)
    return changed or bool(before) != bool(after) or is_purging(old) != is_purging(new)


def _binds(old: core.PersistentVolumeClaim | None, new: core.PersistentVolumeClaim | None) -> bool:
    return old is None or new is None or old.spec.volume_name != new.spec.volume_name


def _changes_hands(old: core.PersistentVolume | None, new: core.PersistentVolume | None) -> bool:
    return old is None or new is None or old.spec.claim_ref != new.spec.claim_ref


def _plugs(old: VirtualMachine | None, new: VirtualMachine | None) -> bool:
    """A VM that comes, goes, or has other volumes than before."""
    return old is None or new is None or claims_of(old) != claims_of(new)
