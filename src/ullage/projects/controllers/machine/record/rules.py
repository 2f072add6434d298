"""What a cluster's record says next: which Machines are there, the most that each has counted, and which went. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from ullage.ledger.amounts import Amounts
from ullage.projects.api.machines import MACHINES
from ullage.projects.machines.vanished import Vanished, bounded, still_counts
from ullage.projects.records import Remembrance

NO_SERVERS: Final = frozenset({"fake"})  # providers whose machines are none: what went is gone at once


@dataclass(frozen=True, slots=True)
class RecordFacts:
    """`remembered` and `vanished` are what the record has. `present` are the Machines that are there, by uid, each with what
    its valid stamp says, None where it has none; it is None itself where nobody can say now. `lost` are those that came and
    went before they were recorded, with what they took."""

    remembered: Remembrance
    vanished: tuple[Vanished, ...]
    present: Mapping[str, Amounts | None] | None
    lost: Remembrance


@dataclass(frozen=True, slots=True)
class NextRecord:
    """`until` is when one of the vanished is the next not to count any more; None: there is none."""

    remembered: dict[str, Amounts]
    vanished: tuple[Vanished, ...]
    until: datetime | None


def next_record(cluster: str, facts: RecordFacts, *, now: datetime, keep: timedelta) -> NextRecord:
    """`keep` is how long a Machine that went counts on."""
    present = facts.present
    if present is None:
        remembered, gone = dict(facts.remembered), {}
    else:
        remembered = _remembered(facts.remembered, present)
        gone = {uid: one for uid, one in {**facts.lost, **facts.remembered}.items() if uid not in present}
    new = [Vanished(key=key_of(cluster, uid), amounts=amounts, since=now) for uid, amounts in sorted(gone.items())]
    known = {one.key for one in facts.vanished}
    away = (*facts.vanished, *(one for one in new if one.key not in known))
    back = {key_of(cluster, uid) for uid in present or ()} if away else set()
    kept = [one for one in away if one.key not in back]
    counting = [one for one in kept if still_counts(one, now=now, keep=keep)]
    vanished = bounded(counting, rest=key_of(cluster, "rest"))
    return NextRecord(remembered, vanished, min((one.since + keep for one in vanished), default=None))


def keep_for(provider: str, keep: timedelta) -> timedelta:
    """How long a Machine of a cluster counts on. The provider is the Cluster's, on the seed: what a Machine says may be made
    up."""
    return timedelta() if provider in NO_SERVERS else keep


def key_of(cluster: str, uid: str) -> str:
    return f"{MACHINES.name}/{cluster}/{uid}"


def _remembered(before: Remembrance, present: Mapping[str, Amounts | None]) -> dict[str, Amounts]:
    """The most that each has ever counted. One without a valid stamp that was never seen to have one is not among them."""
    made: dict[str, Amounts] = {}
    for uid, amounts in present.items():
        known = before.get(uid)
        if known is not None and (amounts is None or amounts == known):
            made[uid] = known  # as nearly always; and of those that are alike this is one and the same value
        elif amounts is not None:
            made[uid] = known | amounts if known is not None else amounts
    return made
