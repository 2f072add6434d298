"""Who pays for a cut, and what everybody else who stands for it takes: nothing. Pure.

The first of these that is there: the backup of its VolumeSnapshot, the VolumeSnapshot, the record, the engine Snapshot, whoever
imports it. One that goes and leaves the data behind does not count: whoever remains pays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ullage.ledger.charging.stamps import FREE, Stamp
from ullage.space.accounts import bytes_of, stamp_for
from ullage.space.controllers.follow.model import BackupSide, Change, Cut, EngineSide, Pair, RecordSide, SnapshotSide

Side = SnapshotSide | RecordSide | EngineSide


@dataclass(frozen=True, slots=True)
class ByBackup:
    """A member of a backup: the backup pays."""

    uid: str
    claim: str


Payer = Side | ByBackup


def payer_of(cut: Cut) -> Payer | None:
    """None: nobody is left who could."""
    for pair in cut.pairs:
        if not pair.imported and (found := _of_pair(pair, cut)) is not None:
            return found
    if cut.engine is not None and cut.engine.namespace:
        return cut.engine
    return next((found for pair in cut.pairs if pair.imported and (found := _of_pair(pair, cut)) is not None), None)


def _of_pair(pair: Pair, cut: Cut) -> Payer | None:
    """What goes is paid for until its data are gone, unless it leaves them behind."""
    snapshot, record = pair.snapshot, pair.record
    stays = record is not None and (record.policy == "Retain" or _is_shared(pair, cut))
    if snapshot is not None and not (snapshot.bearer.going and (record is None or stays)):
        return ByBackup(snapshot.backup, snapshot.claim) if snapshot.backup else snapshot
    if record is not None and not (record.bearer.going and stays):
        return record
    return None


def _is_shared(pair: Pair, cut: Cut) -> bool:
    """Whether another record stands for the same data: then they are not deleted with this one."""
    return any(one is not pair and one.record is not None and not one.record.bearer.going for one in cut.pairs)


# --- what each takes -------------------------------------------------------------------------------------------------


def wanted(cut: Cut) -> Iterator[Change]:
    """The stamps of all who stand for a cut, but for backups."""
    payer = payer_of(cut)
    for side in _sides(cut):
        if side is payer:
            yield from _paying(cut, side)
        elif side.bearer.stamp != FREE and (side.bearer.namespace or not isinstance(side, RecordSide | EngineSide)):
            yield Change(bearer=side.bearer, stamp=FREE)


def _sides(cut: Cut) -> Iterator[Side]:
    for pair in cut.pairs:
        if pair.snapshot is not None:
            yield pair.snapshot
        if pair.record is not None:
            yield pair.record
    if cut.engine is not None:
        yield cut.engine


def _paying(cut: Cut, side: Side) -> Iterator[Change]:
    bearer = side.bearer
    namespace = bearer.namespace if isinstance(side, SnapshotSide) else side.namespace
    vms = cut.vms.get(namespace, ())
    amount = _amount(cut, side)
    if amount is None:
        return
    stamp = FREE if bearer.going and not amount else stamp_for(amount, vms)
    if stamp != bearer.stamp or namespace != bearer.namespace:
        yield Change(bearer=bearer, stamp=stamp, namespace="" if isinstance(side, SnapshotSide) else namespace)


def _amount(cut: Cut, side: Side) -> int | None:
    """None: its stamp stays as it is. Before the cut that is the business of whoever admitted it, and of whoever takes it."""
    if cut.gone:
        return 0
    is_cut = isinstance(side, RecordSide) or side.cut
    if is_cut and cut.size is not None:
        return cut.size
    booked = _booked(cut)
    if side.bearer.stamp is None:
        return cut.size or booked or (0 if isinstance(side, RecordSide) else side.estimate)
    return booked if is_cut or booked > bytes_of(side.bearer.stamp) else None


def _booked(cut: Cut) -> int:
    """What was last booked for it, by whoever paid then: what is not known any better is handed on as it is."""
    return max((bytes_of(side.bearer.stamp) for side in _sides(cut) if side.bearer.stamp is not None), default=0)


# --- backups ---------------------------------------------------------------------------------------------------------


def wanted_of_backup(backup: BackupSide, cuts: Iterable[Cut]) -> Change | None:
    """What a backup takes for its members: of `cuts`, which are those of all its members, it pays for its own. While it is
    being made that is the business of whoever makes it."""
    bearer = backup.bearer
    if not backup.settled and bearer.stamp is not None:
        return None
    stamp = added(
        stamp_for(_member_amount(cut, backup, payer.claim), cut.vms.get(bearer.namespace, ()))
        for cut in cuts
        if isinstance(payer := payer_of(cut), ByBackup) and payer.uid == bearer.uid
    )
    if not backup.settled:
        stamp = stamp_for(sum(backup.plan.values()))
    if bearer.going and not stamp.takes:
        stamp = FREE
    return Change(bearer=bearer, stamp=stamp) if stamp != bearer.stamp else None


def _member_amount(cut: Cut, backup: BackupSide, claim: str) -> int:
    if cut.gone:
        return 0
    return backup.plan.get(claim, 0) if cut.size is None else cut.size


def added(stamps: Iterable[Stamp]) -> Stamp:
    """All of them together. The namespace's account is there whatever they are."""
    cells = dict(stamp_for(0).cells)
    for stamp in stamps:
        for cell, amount in stamp.cells.items():
            cells[cell] = cells[cell] + amount if cell in cells else amount
    return Stamp(cells)
