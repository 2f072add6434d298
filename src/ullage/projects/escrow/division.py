"""Who is to have how much of one resource: a division of the whole over the seeds that hold parts of it. Pure.

What is used comes first, then what is asked for, and what is left is spread evenly: a seed that is cut off can go on for a
while, and most machines find room without asking for it. Nothing moves while everybody has what he asks for. Room moves only
if it is not used, and then as much as makes the free room of all seeds equal, so that a seed that grows asks ever more seldom
and not for each machine. Amounts are whole numbers of nano-units; None is no limit.

Whoever asks comes from a tenant. So a demand counts for the whole at most; one that does not fit goes behind those that do; and
whoever has room that he does not use comes after those who have none. Whoever had his turn is left alone for a while (`held`),
or two who want the same last room would take it from each other before either has used it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

NEVER: Final = datetime(1, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A seed, as far as one resource goes."""

    granted: int | None
    target: int | None
    used: int | None  # with what is reserved; None: it was not seen
    wanted: int = 0  # the limit with which everything would fit that was asked for; never more than the whole
    waiting: datetime = NEVER  # since when: it asked, or last had its turn
    held: bool = False
    first: bool = False  # in line for all resources (`first_in_line`)
    leaving: bool = False  # keeps what it uses, and gets no more
    had: int | None = None  # the limit that its ledger was told under another record; None: it was told none
    has_target: bool = False  # its ledger has the limit that it is told, whether or not it is known to keep to it

    @property
    def start(self) -> int:
        """What it is told now. One that has no limit yet begins with none of the room."""
        target = self.target or 0
        return min(target, self.used) if self.leaving and self.used is not None else target

    @property
    def use(self) -> int:
        """A seed that nobody sees may use all that it has."""
        return self.start if self.used is None else self.used

    @property
    def on_its_way(self) -> bool:
        """It was told to keep to less, and has not been seen to do so."""
        return self.target is not None and self.granted != self.target

    @property
    def fixed(self) -> bool:
        """Nothing is taken away for others. To ask for more back while some is on its way would put off both."""
        return self.used is None or self.held or self.first or self.on_its_way

    @property
    def asks(self) -> bool:
        return self.open and self.wanted > self.start

    @property
    def open(self) -> bool:
        """Whether it may get more."""
        return self.used is not None and not self.leaving


def first_in_line(wholes: Sequence[int], holders: Sequence[Sequence[Holder]]) -> int | None:
    """Which seed goes before all others, whatever it asks for: of those whose demands can all be met, who waits longest. One
    that was just given a part of what it asked for keeps its place until it has the rest.

    A machine takes several resources at once. Without this, of two seeds that each have what the other lacks, each would get
    that and lose the rest, again and again. `holders` are by resource, and in each the same seeds in the same order.
    """
    waiting = []
    for index in range(len(holders[0]) if holders else 0):
        asked = [(whole, some) for whole, some in zip(wholes, holders, strict=True) if some[index].asks]
        if asked and all(_can_be_met(whole, some, index) for whole, some in asked):
            has_part = any(some[index].held and some[index].start > some[index].use for some in holders)
            waiting.append((not has_part, min(some[index].waiting for _, some in asked), index))
    return min(waiting)[2] if waiting else None


def _can_be_met(whole: int, holders: Sequence[Holder], index: int) -> bool:
    return holders[index].wanted + sum(one.use for one in holders) - holders[index].use <= whole


def divided(whole: int, holders: Sequence[Holder], *, step: int) -> list[tuple[int | None, int]]:
    """What is granted to each and what it is told, by what they show. `step` is the least that is worth spreading."""
    return _within(whole, holders, _wished(whole, holders, step=step))


def _wished(whole: int, holders: Sequence[Holder], *, step: int) -> list[int]:
    """The targets, were they reached at once. Together no more than the whole."""
    starts = [one.start for one in holders]
    if sum(one.use for one in holders) > whole:
        return _shrunk(whole, holders, step=step)
    room = whole - sum(starts)
    bases = [max(one.start, one.use) for one in holders]
    asked = [max(0, one.wanted - base) if one.open else 0 for one, base in zip(holders, bases, strict=True)]
    left = room - sum(base - start for base, start in zip(bases, starts, strict=True)) - sum(asked)
    if left < 0:
        return _evened(whole, holders, step=step)
    wished = [base + more for base, more in zip(bases, asked, strict=True)]
    if any(one.on_its_way for one in holders):
        return wished  # what comes back was asked for by somebody: it is spread when it is here
    return _spread(left, holders, wished, step=step)


def _shrunk(whole: int, holders: Sequence[Holder], *, step: int) -> list[int]:
    """More is used than there is. Nobody gets room to grow; what has to go is cut in proportion to what is used."""
    used = sum(one.use for one in holders)
    cuts = [one.use * whole // used // step * step for one in holders]
    bases = [cut if one.target is None else one.start for one, cut in zip(holders, cuts, strict=True)]
    ceilings = cuts if sum(bases) > whole else [one.use for one in holders]
    return [min(pair) for pair in zip(bases, ceilings, strict=True)]


def _evened(whole: int, holders: Sequence[Holder], *, step: int) -> list[int]:
    """What is free anywhere goes to those who ask, and the rest is spread."""
    wished = [max(one.start, one.use) if one.fixed else one.use for one in holders]
    if sum(wished) > whole:  # what is used goes before what is only kept
        wished = [one.use for one in holders]
    room = whole - sum(wished)
    unmet = []
    for index in _in_turn(holders):
        more = holders[index].wanted - wished[index]
        if more > room:
            unmet.append(index)
        elif more > 0:
            wished[index] += more
            room -= more
    if unmet:  # to one of them: halves may be of use to nobody
        wished[unmet[0]] += room
        return wished
    return _spread(room, holders, wished, step=step)


def _in_turn(holders: Sequence[Holder]) -> list[int]:
    """Those who may ask. Whoever has just had his turn comes last, or he who gave way would be the next to get it back. Those
    who have room that they do not use come after those who have none: more of the same does not help them."""

    def rank(index: int) -> tuple[bool, bool, bool, datetime, int]:
        one = holders[index]
        return not one.first, one.held, one.start > one.use, one.waiting, index

    return sorted((index for index, one in enumerate(holders) if one.open), key=rank)


def _spread(room: int, holders: Sequence[Holder], wished: Sequence[int], *, step: int) -> list[int]:
    """Room that nobody asked for, to those who have the least free room; in steps, since no machine fits into less."""
    made = list(wished)
    open = sorted(
        (index for index, one in enumerate(holders) if one.open), key=lambda index: made[index] - _need(holders[index])
    )
    if not open:
        return made
    free = [made[index] - _need(holders[index]) for index in open]
    level = _level(free, room)
    for index, had in zip(open, free, strict=True):
        more = max(0, level - had) // step * step
        made[index] += more
        room -= more
    for index in open:  # what rounding has left
        more = min(room, step)
        made[index] += more
        room -= more
    made[open[0]] += room
    return made


def _need(holder: Holder) -> int:
    return max(holder.use, holder.wanted)


def _level(free: Sequence[int], room: int) -> int:
    """How high all can be filled up, the lowest first."""
    for count in range(len(free), 0, -1):
        level = (sum(free[:count]) + room) // count
        if level >= free[count - 1]:
            return level
    return 0


def _within(whole: int, holders: Sequence[Holder], wished: Sequence[int]) -> list[tuple[int | None, int]]:
    """What of the wishes may be recorded now. A target rises to what the seed may have anyway, and beyond that only by what
    nobody may have: the sum of what is granted never passes the whole by a raise."""
    bounds = [one.granted for one in holders]
    room = whole - sum((one.target or 0) if one.granted is None else one.granted for one in holders)
    frozen = None in bounds
    made: list[tuple[int | None, int]] = [(bound, wish) for bound, wish in zip(bounds, wished, strict=True)]
    order = [*_in_turn(holders), *(index for index, one in enumerate(holders) if not one.open)]
    for index in order:
        bound, wish = made[index]
        if bound is None:
            target = _for_unbounded(wish, holders, index, room=max(room, 0))
            room -= max(0, target - (holders[index].target or 0))
            made[index] = (None, target)
        elif wish > bound:
            more = 0 if frozen else min(wish - bound, max(room, 0))
            room -= more
            made[index] = (bound + more, bound + more)
    return made


def _for_unbounded(wish: int, holders: Sequence[Holder], index: int, *, room: int) -> int:
    """What a seed is told that may be without a limit. Once it keeps to that it is granted to it, so it rises like a grant:
    only by what nobody else may have, which is what is granted to them, or what their ledgers are seen to have."""
    one = holders[index]
    if one.target is None:  # no raise: it has no limit now and uses that anyway, or has one from before
        most = max(one.use, room)
        return min(wish, most if one.had is None else min(most, one.had))
    others = (other for place, other in enumerate(holders) if place != index)
    if any(other.granted is None and not other.has_target for other in others):
        return min(wish, one.target)
    return min(wish, one.target + room)
