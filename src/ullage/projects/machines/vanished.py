"""Machines whose object is gone while their server may still run. Pure.

Who administers a user cluster can take the finalizers off a Machine: then the object goes, the server stays, and there would be
room for another one. How an object went cannot be told from it, nor from who did it, since an administrator there can be
anybody. So every Machine that goes counts on, until the provider says that the server is gone, or for a set time where it
cannot be asked. After an orderly deletion the provider says so at once.

The provider id in the object may be made up, so that the provider says "gone" of a server that never was. One that the provider
itself has named for this Machine while it was there is believed, and no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Literal

from ullage.ledger.amounts import Amounts

MOST: Final = 500  # of one cluster; they are kept in one object

State = Literal["gone", "there", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vanished:
    """A Machine that went: what it counted, and since when it is away. `key` is its ledger's, with the uid behind it: several
    of one name may have gone. `provider_id` is as the provider named it for this Machine; empty: it never did."""

    key: str
    amounts: Amounts
    since: datetime
    provider_id: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a provider said of a server, and when it was asked."""

    state: State
    asked: datetime


UNKNOWN: Final[State] = "unknown"


def still_counts(vanished: Vanished, *, now: datetime, keep: timedelta, answer: Answer | None = None) -> bool:
    """Whether its server may still run. `keep` is how long that is assumed where nobody can be asked.

    A provider that says "gone" is believed if it was asked after the Machine went: before that, the server may not have been
    there yet. One that says "there" is believed for as long as the answer is not older than `keep`.
    """
    said = _word(vanished, answer)
    if said == "gone":
        return False
    since = answer.asked if answer is not None and said == "there" else vanished.since
    return now < max(since, vanished.since) + keep


def _word(vanished: Vanished, answer: Answer | None) -> State:
    if answer is None or not vanished.provider_id or answer.asked < vanished.since:
        return UNKNOWN
    return answer.state


def sum_of(
    vanished: Iterable[Vanished], *, now: datetime, keep: timedelta, answers: Mapping[str, Answer] | None = None
) -> Amounts:
    """What all of them count together; `answers` by key."""
    said = answers or {}
    return Amounts.total(one.amounts for one in vanished if still_counts(one, now=now, keep=keep, answer=said.get(one.key)))


def bounded(vanished: Iterable[Vanished], *, most: int = MOST, rest: str) -> tuple[Vanished, ...]:
    """As many as may be kept, in order of time. Those beyond are made one, under the key `rest`: it counts what they count, for
    as long as the latest of them would, and no provider is asked about it. So whoever has Machines made and lost by the
    thousand fills no object, and loses the room for a longer time."""
    ordered = sorted(vanished, key=lambda one: (one.since, one.key))
    if len(ordered) <= most:
        return tuple(ordered)
    kept, beyond = ordered[: most - 1], ordered[most - 1 :]
    total = Amounts.total(one.amounts for one in beyond)
    return tuple(sorted((*kept, replace(beyond[-1], key=rest, amounts=total, provider_id="")), key=lambda one: one.since))
