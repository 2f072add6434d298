"""Which snapshots are deleted to make room, and whether that would do at all. Pure.

The oldest first, of those that may be deleted and would help: a limit on a claim takes nothing from other claims. Never more
than is lacking once those have gone that are going already, and nothing at all for somebody whom it would not help.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from typing import Final

from ullage.ledger.amounts import Cell, Takings, Waiter, limit_on, total
from ullage.ledger.book import Book
from ullage.quantity import ZERO, Quantity

Lack = Mapping[Cell, Quantity]  # how much has to go, of each account that is in the way

# Why a snapshot is kept: for each, what is said of one, and of several.
PROTECTED: Final = "protected by the annotation ullage.io/protected"
IN_USE: Final = "in use: a claim is being filled from it"
OWNED: Final = "part of a group, a backup or something else that owns it"
HELD: Final = "held by somebody's finalizer"
UNFINISHED: Final = "not finished yet"
IMPORTED: Final = "imported by an administrator"
SHARED: Final = "the same data as another one"
UNREADABLE: Final = "not readable"
HELD_UP: Final = "being deleted, and held by claims that are filled from it or by finalizers"
STUCK: Final = "being deleted, and not gone after 5 minutes"
SPARED: Final = "left alone, since others that were deleted do not go"
MOST_STUCK: Final = 1  # that do not go, in a namespace, while others are deleted all the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A VolumeSnapshot, as a choice sees it."""

    key: str  # of the ledger
    name: str
    uid: str
    version: str  # its resourceVersion: of what was looked at
    created: str  # its creationTimestamp
    takes: Takings  # what is free once it has gone
    going: bool = False  # it makes room already; one that is deleted and does not go is one that is kept
    kept: str = ""  # why it is not deleted; empty: it may be

    @property
    def age(self) -> tuple[str, str]:
        return self.created, self.key


@dataclass(frozen=True, slots=True)
class Choice:
    """What is deleted, the oldest first. `short`: accounts in which no deletion would make enough room."""

    delete: tuple[Candidate, ...] = ()
    going: tuple[Candidate, ...] = ()  # those that make room already
    short: tuple[Cell, ...] = ()

    @property
    def helps(self) -> bool:
        return not self.short


def spared(candidates: Sequence[Candidate]) -> list[Candidate]:
    """As they are, and where several do not go, without any that may. Their storage system may be away: then no other would go
    either, and one after the other would be lost for somebody who gets nothing by it."""
    if sum(one.kept == STUCK for one in candidates) <= MOST_STUCK:
        return list(candidates)
    return [replace(one, kept=SPARED) if not one.going and one.kept in ("", UNFINISHED) else one for one in candidates]


class Ranked:
    """Candidates by age, and by the accounts that they take from. Made once for all who wait: there may be thousands, and a
    choice needs to see few of them."""

    def __init__(self, candidates: Iterable[Candidate]) -> None:
        going: list[Candidate] = []
        self.free: dict[Cell, list[tuple[int, Candidate]]] = {}  # by account, with its place in the order of all
        for place, one in enumerate(sorted(candidates, key=lambda one: one.age)):
            if one.going:
                going.append(one)
            elif not one.kept:
                for cell in one.takes:
                    self.free.setdefault(cell, []).append((place, one))
        self.going = tuple(going)
        self.room = total(one.takes for one in going)  # that is being made already


def choose(lack: Lack, candidates: Sequence[Candidate]) -> Choice:
    """Those that make up for what is lacking, with those that are going; nothing is deleted where that would not do."""
    return _choose(lack, Ranked(candidates))


def _choose(lack: Lack, ranked: Ranked) -> Choice:
    going = tuple(one for one in ranked.going if _part(one, lack))
    before = _less(lack, ranked.room)
    chosen, missing = _oldest(before, ranked)
    if missing:
        return Choice((), going, tuple(sorted(missing)))
    return Choice(_needed(before, chosen), going)


def _oldest(lack: Lack, ranked: Ranked) -> tuple[list[Candidate], Lack]:
    """The oldest that take from accounts in which something is still lacking, until nothing is; and what is all the same. The
    candidates of an account are not looked at any further than it takes."""
    chosen: dict[str, Candidate] = {}
    missing = lack
    heads = [(ranked.free[cell][0][0], cell, 0) for cell in lack if cell in ranked.free]  # the next of each account
    heapify(heads)
    while heads:
        _, cell, at = heappop(heads)
        if cell not in missing:
            continue
        of_cell = ranked.free[cell]
        if at + 1 < len(of_cell):
            heappush(heads, (of_cell[at + 1][0], cell, at + 1))
        one = of_cell[at][1]
        if one.key not in chosen:
            chosen[one.key] = one
            missing = _less(missing, one.takes)
    return list(chosen.values()), missing


def _needed(lack: Lack, chosen: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Without those that others have made superfluous, the youngest of them first: who is taken for one account may have made
    enough room in another, too."""
    freed = total(one.takes for one in chosen)
    spare = {cell: freed[cell] - amount for cell, amount in lack.items()}
    kept: list[Candidate] = []
    for one in reversed(chosen):
        part = _part(one, lack)
        if all(spare[cell] >= amount for cell, amount in part.items()):
            spare |= {cell: spare[cell] - amount for cell, amount in part.items()}
        else:
            kept.append(one)
    return tuple(reversed(kept))


def _part(one: Candidate, lack: Lack) -> dict[Cell, Quantity]:
    """What it takes of what is lacking. Of many claims something may lack; one snapshot takes from few accounts."""
    return {cell: amount for cell, amount in one.takes.cells.items() if cell in lack}


def _less(lack: Lack, freed: Takings) -> dict[Cell, Quantity]:
    left = dict(lack)
    for cell, amount in freed.cells.items():
        if cell in left and (rest := left[cell] - amount) > ZERO:
            left[cell] = rest
        else:
            left.pop(cell, None)
    return left


# --- for those who wait ----------------------------------------------------------------------------------------------


def lacking(book: Book, wanted: Takings) -> dict[Cell, Quantity]:
    """By how much each limit would be passed, by what is there. What is reserved for other requests is no reason to delete
    anything: nothing may come of them, and then the room is free again."""
    found = ((cell, limit_on(book.limits, cell)) for cell in wanted)
    return {
        cell: over for cell, limit in found if limit is not None and (over := book.used[cell] + wanted[cell] - limit) > ZERO
    }


def choose_for(book: Book, waiting: Mapping[str, Waiter], candidates: Sequence[Candidate]) -> tuple[Choice, tuple[str, ...]]:
    """For those who wait, in the order in which they came; and the keys of those whom it serves. Of each limit that is in the
    way one is served, and the next once that one is there: nothing may come of a request (another webhook may refuse it), and
    what was deleted for it is room for the next. Nothing is deleted for one whom it would not help."""
    choice, served, wanted, ranked, taken = Choice(), [], Takings(), Ranked(candidates), set[Cell]()
    for key, waiter in sorted(waiting.items(), key=lambda item: (item[1].since, item[0])):
        limited = {cell for cell in waiter.takes if limit_on(book.limits, cell) is not None}
        if limited & taken or any(book.reserved[cell].nanos for cell in limited):
            continue
        found = _choose(lacking(book, wanted + waiter.takes), ranked)
        if found.helps:
            choice, wanted = found, wanted + waiter.takes
            taken |= limited
            served.append(key)
    return choice, tuple(served)


# --- for people ------------------------------------------------------------------------------------------------------


def why_kept(candidates: Iterable[Candidate], cells: Iterable[Cell]) -> str:
    """`3 are protected by the annotation ullage.io/protected, 1 is not finished yet`; of those in some accounts."""
    wanted = set(cells)
    reasons = Counter(one.kept for one in candidates if one.kept and not one.going and wanted & set(one.takes))
    return ", ".join(f"{count} {'is' if count == 1 else 'are'} {reason}" for reason, count in sorted(reasons.items()))
