"""Machines whose object is gone while their server may still run. Pure.

Who administers a user cluster can take the finalizers off a Machine: then the object goes, the server stays, and there would be
room for another one. How an object went cannot be told from it, nor from who did it, since an administrator there can be
anybody. So every Machine that goes counts on, until the provider says that the server is gone, or for a set time where it
cannot be asked. After an orderly deletion the provider says so at once. One whose server is there counts until that is gone,
however long it takes: it costs what it cost before. Should the provider be out of reach meanwhile, it counts for an hour.

A server may take minutes from when it is asked for until a provider knows it by its marks. So "gone" is not believed of a
Machine that was made a moment before, unless the provider has said "there" of it: then the set time counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Literal

from ullage.ledger.amounts import Amounts

MOST: Final = 500  # of one cluster; they are kept in one object
SETTLED: Final = timedelta(minutes=10)  # from the making of a Machine until a provider knows its server for sure
BELIEVED: Final = timedelta(hours=1)  # that "there" is believed where the provider cannot be asked again

State = Literal["gone", "there"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vanished:
    """A Machine that went: what it counted, and since when it is away. `key` has its cluster and its uid: several of one name
    may have gone. `created` is when it was made; None: that was not seen. `there` is when its provider last said that its
    server is there; None: it never did."""

    key: str
    amounts: Amounts
    since: datetime
    created: datetime | None = None
    there: datetime | None = None


def counts_until(vanished: Vanished, *, keep: timedelta) -> datetime:
    """`keep` is how long its server is assumed to run where nobody can be asked."""
    end = vanished.since + keep
    return end if vanished.there is None else max(end, vanished.there + max(keep, BELIEVED))


def still_counts(vanished: Vanished, *, now: datetime, keep: timedelta) -> bool:
    """Whether its server may still run."""
    return now < counts_until(vanished, keep=keep)


def answered(vanished: Vanished, state: State, *, asked: datetime) -> Vanished | None:
    """What an answer makes of it; None: it counts no more. An answer from before the Machine went says nothing: its server may
    not have been there yet."""
    if asked < vanished.since:
        return vanished
    if state == "there":
        return replace(vanished, there=asked)
    settled = vanished.created is not None and asked - vanished.created >= SETTLED
    return None if settled or vanished.there is not None else vanished


def sum_of(vanished: Iterable[Vanished], *, now: datetime, keep: timedelta) -> Amounts:
    """What all of them count together."""
    return Amounts.total(one.amounts for one in vanished if still_counts(one, now=now, keep=keep))


def bounded(vanished: Iterable[Vanished], *, most: int = MOST, rest: str) -> tuple[Vanished, ...]:
    """As many as may be kept, in order of time; those whose servers are there before all others. Those beyond are made one,
    under the key `rest`: it counts what they count, for as long as the latest of them would, and no provider is asked about it.
    So whoever has Machines made and lost by the thousand fills no object, and loses the room for a longer time."""
    ordered = sorted(vanished, key=lambda one: (one.there is None, one.since, one.key))
    if len(ordered) > most:
        kept, beyond = ordered[: most - 1], ordered[most - 1 :]
        total, latest = Amounts.total(one.amounts for one in beyond), max(one.since for one in beyond)
        theres = [one.there for one in beyond if one.there is not None]
        ordered = [*kept, Vanished(key=rest, amounts=total, since=latest, there=max(theres, default=None))]
    return tuple(sorted(ordered, key=lambda one: (one.since, one.key)))
