"""What is to be done next about the grants of a project: steps as values, worked out anew from what is seen. Pure.

Either the record is written, or what it says is carried to seeds: never both at once. So no seed hears of a limit that is not
recorded, and whoever stops between two steps, or takes them on an old view, does no harm: the record is written on condition
that it is the one that was read, and a seed takes a change only if its number is higher than the one that it has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from ullage.ledger.amounts import Amounts, Cell, Limits, refuse_negative
from ullage.projects.escrow.division import NEVER, Holder, divided, first_in_line
from ullage.projects.escrow.seeds import SeedLedger
from ullage.projects.escrow.terms import Escrow, Part, Share
from ullage.projects.names import ACCOUNT, CPU, MEMORY, STORAGE
from ullage.quantity import Format, Quantity

HOLD: Final = timedelta(minutes=1)
"""For so long nothing more is taken from a seed that has had its turn. Whoever asked tries again meanwhile; a demand that
nobody renews is gone from the ledger by then, too."""

_GIB: Final = Quantity.of(2**30, Format.BINARY_SI)
STEPS: Final[Mapping[str, Quantity]] = {CPU: Quantity.of(1), MEMORY: _GIB, STORAGE: _GIB}
"""The least that is spread: machines are no smaller. Of other resources it is one."""


@dataclass(frozen=True, slots=True)
class Record:
    """Write the master's record, on condition that it is still the one that was read. Then look again."""

    escrow: Escrow


@dataclass(frozen=True, slots=True, kw_only=True)
class Carry:
    """Set the limits of a seed's ledger, as the change with this number: `set_limits(…, about=ACCOUNT)`. That it is outdated is
    no error: somebody else was quicker, and whoever looks again sees it."""

    seed: str
    number: int
    limits: Limits
    grants: Limits


Step = Record | Carry
Quota = Mapping[str, Quantity]  # by resource; one that is absent has no limit
Seeds = Mapping[str, SeedLedger | None]  # all that there are; None: it is not seen now


def next_steps(
    escrow: Escrow, quota: Quota, seeds: Seeds, *, now: datetime, draining: Collection[str] = ()
) -> tuple[Step, ...]:
    """What to do now; nothing where all is as it should be. `escrow` is the record as it was read.

    A seed that is in the record and not among `seeds` was removed: it keeps what it has like one that is not seen, and is
    forgotten once it has nothing. One that was never seen is not recorded, and holds up nobody.
    """
    refuse_negative(quota)
    known = {seed: seen for seed, seen in seeds.items() if seen is not None}
    shares = {seed: _noticed(share, known.get(seed)) for seed, share in escrow.shares.items() if seed in seeds or _has(share)}
    shares |= {
        seed: _first(seen) for seed, seen in known.items() if seed not in shares and (quota or seen.limits or seen.grants)
    }
    new = _divided(shares, quota, known, now=now, draining=draining)
    made = Escrow({seed: _numbered(share, new[seed], quota, known.get(seed)) for seed, share in shares.items()})
    if made != escrow:
        return (Record(made),)
    return tuple(
        Carry(seed=seed, number=share.change, limits=share.limits, grants=_grants(share.parts, quota))
        for seed, share in sorted(made.shares.items())
        if seed in known and known[seed].change < share.change
    )


def look_again(escrow: Escrow, *, now: datetime) -> datetime | None:
    """When a seed is next no longer left alone with what it got: somebody who asks may get it then, and no event tells."""
    ends = (share.turn + HOLD for share in escrow.shares.values() if share.turn)
    return min((end for end in ends if now < end <= now + HOLD), default=None)


def drained(escrow: Escrow, seed: str, *, taken: Amounts, gone: bool = False) -> Escrow:
    """The record after somebody has said that a seed is gone for good: it keeps what it took when it was last seen, and the
    rest is free at once. Should it come back, what its ledger allows is counted again, and it is told the lower limits.

    That is done once: whoever comes later may know less of what was reserved there. Only where its machines are `gone`, too,
    which somebody has to say, it gives back the rest."""
    share = escrow.shares.get(seed)
    if share is None or not share.parts:
        return escrow
    settled = share.drained and not gone
    parts = {
        name: part if settled and part.granted is not None else _left(part, taken[name]) for name, part in share.parts.items()
    }
    change = share.change if parts == share.parts else share.change + 1
    return escrow.having(seed, replace(share, change=change, parts=parts, drained=True))


def with_taken(escrow: Escrow, seeds: Seeds) -> Escrow:
    """The record with what each seed takes that is seen; of the others it has what they took last."""
    shares = dict(escrow.shares)
    for seed, share in escrow.shares.items():
        if (seen := seeds.get(seed)) is not None:
            shares[seed] = replace(share, taken={resource: seen.taken[resource] for resource in share.parts})
    return Escrow(shares)


def _left(part: Part, taken: Quantity) -> Part:
    """A part that gives back nothing stays as it is, with what it is told."""
    if part.granted is not None and part.granted <= taken:
        return part
    return Part(taken, taken)


# --- what a seed shows about what it was told ------------------------------------------------------------------------


def _first(seen: SeedLedger) -> Share:
    """A seed that comes into the record. It may have admitted anything under the limits that it has, or without any."""
    return Share(seen.change)


def _has(share: Share) -> bool:
    return any(part.granted is None or part.granted.nanos for part in share.parts.values())


def _noticed(share: Share, seen: SeedLedger | None) -> Share:
    if seen is None:
        return share
    share = replace(share, drained=False) if share.drained else share
    if is_reached(share, seen):
        return _settled(share)
    return _adopted(share, seen) if _is_strange(share, seen) else share


def is_reached(share: Share, seen: SeedLedger) -> bool:
    """Whether the seed keeps to what it is told now. The number is not enough: after a backup was restored, another change may
    have the same."""
    return seen.change == share.change and seen.limits == share.limits and not seen.unreached


def _settled(share: Share) -> Share:
    """What was on its way back is here."""
    if all(part.settled for part in share.parts.values()):
        return share
    parts = {resource: replace(part, granted=part.target) for resource, part in share.parts.items()}
    return replace(share, reached=share.change, parts=parts)


def _is_strange(share: Share, seen: SeedLedger) -> bool:
    """Whether the seed has limits that the record cannot explain: the seed or the master was restored from a backup, the ledger
    was deleted, or somebody wrote it by hand."""
    if seen.change > share.change or seen.change < share.reached:
        return True
    if seen.change == share.change:
        return seen.limits != share.limits
    return any(_exceeds(seen, resource, part) for resource, part in share.parts.items())


def _exceeds(seen: SeedLedger, resource: str, part: Part) -> bool:
    limit = seen.limits.get(Cell(ACCOUNT, resource))
    return part.granted is not None and (limit is None or limit > part.granted)


def _adopted(share: Share, seen: SeedLedger) -> Share:
    """What the seed was found to have is granted to it, whatever the quota says. It gets a new number: the one that it had may
    be among what was undone, and an old view must not be taken for an answer to the new change."""
    parts = {
        resource: replace(part, granted=seen.limits.get(Cell(ACCOUNT, resource))) if _exceeds(seen, resource, part) else part
        for resource, part in share.parts.items()
    }
    return replace(share, change=max(share.change, seen.change) + 1, reached=seen.change, parts=parts)


# --- what a seed is to be told ---------------------------------------------------------------------------------------


def _divided(
    shares: Mapping[str, Share], quota: Quota, known: Mapping[str, SeedLedger], *, now: datetime, draining: Collection[str]
) -> dict[str, Share]:
    """The shares with new parts, and the numbers that they had."""
    seeds = sorted(shares)
    holders = [
        [_holder(shares[seed], resource, whole, known.get(seed), now=now, leaving=seed in draining) for seed in seeds]
        for resource, whole in quota.items()
    ]
    first = first_in_line([whole.nanos for whole in quota.values()], holders)
    parts: dict[str, dict[str, Part]] = {seed: {} for seed in seeds}
    turns = {seed: shares[seed].turn for seed in seeds}
    for (resource, whole), some in zip(quota.items(), holders, strict=True):
        ranked = [replace(one, first=index == first) for index, one in enumerate(some)]
        step = STEPS.get(resource, Quantity.of(1)).nanos
        for seed, holder, (granted, target) in zip(seeds, ranked, divided(whole.nanos, ranked, step=step), strict=True):
            bound = None if granted is None else Quantity(granted, whole.format)
            parts[seed][resource] = Part(bound, Quantity(target, whole.format))
            if holder.target is not None and target != holder.target and holder.wanted > holder.target:
                turns[seed] = now
    return {seed: replace(shares[seed], parts=parts[seed], turn=turns[seed]) for seed in seeds}


def _holder(share: Share, resource: str, whole: Quantity, seen: SeedLedger | None, *, now: datetime, leaving: bool) -> Holder:
    part, demand = share.parts.get(resource), seen.demand.get(resource) if seen else None
    had = seen.limits.get(Cell(ACCOUNT, resource)) if seen and seen.change and part is None else None
    return Holder(
        granted=part.granted.nanos if part and part.granted is not None else None,
        target=part.target.nanos if part else None,
        used=seen.taken[resource].nanos if seen else None,
        wanted=min(demand.limit, whole).nanos if demand else 0,
        waiting=max(demand.since, share.turn or NEVER) if demand else NEVER,
        held=share.turn is not None and share.turn <= now < share.turn + HOLD,
        leaving=leaving,
        had=None if had is None else had.nanos,
        has_target=part is not None and seen is not None and seen.change >= share.change,
    )


def _numbered(had: Share, new: Share, quota: Quota, seen: SeedLedger | None) -> Share:
    """With a new number where the seed is to be told something else, or that the whole is another."""
    another = new.limits != had.limits
    if seen is not None and seen.change >= had.change:
        another = another or seen.grants != _grants(new.parts, quota)
    return replace(new, change=had.change + 1) if another else new


def _grants(parts: Collection[str], quota: Quota) -> Limits:
    return {Cell(ACCOUNT, resource): quota[resource] for resource in parts}
