"""Who pays for a cut, and what everybody else who stands for it takes: nothing. Pure.

The first of these that is there: the backup of its VolumeSnapshot, the VolumeSnapshot, the record, the engine Snapshot, whoever
imports it. One that goes and leaves the data behind does not count: whoever remains pays. A namespace that was given the
snapshot of another one pays for itself, beside these, from the beginning: nobody's usage rises when the other deletes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ullage.ledger.charging.methods import is_better, weakest
from ullage.ledger.charging.stamps import FREE, Stamp
from ullage.ledger.charging.waiting import waits
from ullage.space.accounts import bytes_of, stamp_for
from ullage.space.controllers.follow.model import (
    NOT_KNOWN,
    BackupSide,
    Change,
    Cut,
    EngineSide,
    Pair,
    RecordSide,
    SnapshotSide,
)
from ullage.space.estimates import Estimate

Side = SnapshotSide | RecordSide | EngineSide


@dataclass(frozen=True, slots=True)
class ByBackup:
    """A member of a backup: the backup pays."""

    uid: str
    claim: str


Payer = Side | ByBackup


def payer_of(cut: Cut) -> Payer | None:
    """Besides those that it was given to. None: nobody is left who could, or only those."""
    for pair in cut.pairs:
        if not pair.imported and (found := _of_pair(pair, cut)) is not None:
            return found
    if cut.engine is not None and cut.engine.namespace and not _given(cut):
        return cut.engine
    plain = (pair for pair in cut.pairs if pair.imported and not pair.shared)
    return next((found for pair in plain if (found := _of_pair(pair, cut)) is not None), None)


def _given(cut: Cut) -> list[Payer]:
    """Those that it was given to, and that pay for themselves."""
    return [found for pair in cut.pairs if pair.shared and (found := _of_pair(pair, cut)) is not None]


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
    payers = [payer_of(cut), *_given(cut)]
    for side in _sides(cut):
        if any(side is payer for payer in payers):
            yield from _paying(cut, side)
        elif side.bearer.stamp != FREE and (side.bearer.namespace or not isinstance(side, RecordSide | EngineSide)):
            yield Change(bearer=side.bearer, stamp=FREE, arrived=_arrives(side))
        elif _arrives(side):
            yield Change(bearer=side.bearer, stamp=FREE, arrived=True)


def _arrives(side: Side) -> bool:
    """Whether another controller has cut a snapshot that is still marked as one that waits for its source."""
    return isinstance(side, SnapshotSide) and side.cut and waits(side.bearer.meta)


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
    stamp, arrives = FREE if bearer.going and not amount.bytes else stamp_for(amount.bytes, vms), _arrives(side)
    if stamp != bearer.stamp or namespace != bearer.namespace or arrives or is_better(amount.by, bearer.method):
        own = isinstance(side, SnapshotSide)
        yield Change(bearer=bearer, stamp=stamp, namespace="" if own else namespace, by=amount.by, arrived=arrives)


def _amount(cut: Cut, side: Side) -> Estimate | None:
    """None: its stamp stays as it is. Before the cut that is the business of whoever admitted it, and of whoever takes it."""
    if cut.gone:
        return Estimate(0, "")
    known = Estimate(cut.size, cut.by) if cut.size is not None else None
    is_cut = isinstance(side, RecordSide) or side.cut
    if is_cut and known is not None:
        return known
    booked = _booked(cut)
    if side.bearer.stamp is None:
        found = (known, booked, NOT_KNOWN if isinstance(side, RecordSide) else side.estimate)
        return next((one for one in found if one is not None and one.bytes), NOT_KNOWN)
    return booked if is_cut or booked.bytes > bytes_of(side.bearer.stamp) else None


def _booked(cut: Cut) -> Estimate:
    """What was last booked for it, by whoever paid then: what is not known any better is handed on as it is."""
    found = (Estimate(bytes_of(one.stamp), one.method) for side in _sides(cut) if (one := side.bearer).stamp is not None)
    return max(found, key=lambda one: one.bytes, default=NOT_KNOWN)


# --- backups ---------------------------------------------------------------------------------------------------------


def wanted_of_backup(backup: BackupSide, cuts: Iterable[Cut]) -> Change | None:
    """What a backup takes for its members: of `cuts`, which are those of all its members, it pays for its own. While it is
    being made that is the business of whoever makes it."""
    bearer = backup.bearer
    if not backup.settled and bearer.stamp is not None:
        return None
    members = [
        (_member_amount(cut, backup, payer.claim), cut.vms.get(bearer.namespace, ()))
        for cut in cuts
        if isinstance(payer := payer_of(cut), ByBackup) and payer.uid == bearer.uid
    ]
    stamp = added(stamp_for(amount.bytes, vms) for amount, vms in members)
    methods = {amount.by for amount, _ in members if amount.by}
    by = weakest(methods) if methods else ""
    if not backup.settled:
        stamp, by = stamp_for(sum(backup.plan.values())), ""
    if bearer.going and not stamp.takes:
        stamp = FREE
    return Change(bearer=bearer, stamp=stamp, by=by) if stamp != bearer.stamp or is_better(by, bearer.method) else None


def _member_amount(cut: Cut, backup: BackupSide, claim: str) -> Estimate:
    if cut.gone:
        return Estimate(0, "")
    return Estimate(backup.plan.get(claim, 0), backup.bearer.method) if cut.size is None else Estimate(cut.size, cut.by)


def added(stamps: Iterable[Stamp]) -> Stamp:
    """All of them together. The namespace's account is there whatever they are."""
    cells = dict(stamp_for(0).cells)
    for stamp in stamps:
        for cell, amount in stamp.cells.items():
            cells[cell] = cells[cell] + amount if cell in cells else amount
    return Stamp(cells)
