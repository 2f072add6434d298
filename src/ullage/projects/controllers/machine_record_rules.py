"""What a cluster's record says next: which Machines are there, the most that each has counted, and which went. Pure.

A Machine whose stamp is missing, wrong or an earlier one is written down with what it was sized to, as one that counts without
a stamp: the controller stamps it anew, and whoever undoes that each time gains nothing. It counts by its stamp again when that
is good.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from ullage.kube.kinds import Meta
from ullage.kube.objects import Condition, find_condition, set_condition
from ullage.ledger.amounts import Amounts
from ullage.projects.api.machines import MACHINES
from ullage.projects.api.records import REMEMBERED, STAMPED, MachineRecordStatus
from ullage.projects.machines.texts import machines
from ullage.projects.machines.vanished import Vanished, bounded, counts_until, still_counts
from ullage.projects.records import MOST_REMEMBERED, Remembrance

# What a cluster's record tells people: whether stamps stay where they are put, and whether all Machines are remembered.


NAMED: Final = 5  # machines that a message spells out


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordNews:
    """`unstamped` are the Machines that count without a stamp, by namespace and name; `lasting`: for so long that it is told.
    `beyond` is how many are not remembered."""

    unstamped: Sequence[str]
    lasting: bool
    beyond: int


def conditions_of(before: MachineRecordStatus, news: RecordNews, *, meta: Meta, now: datetime) -> tuple[Condition, ...]:
    stamped = not (news.unstamped and news.lasting)
    found = set_condition(
        before.conditions,
        STAMPED,
        status=stamped,
        reason="Stamped" if stamped else "StampsTakenOff",
        message="the stamps of all machines can be believed" if stamped else unstamped_text(news.unstamped),
        generation=meta.generation,
        now=now,
    )
    return set_condition(
        found,
        REMEMBERED,
        status=not news.beyond,
        reason="TooManyMachines" if news.beyond else "Remembered",
        message=beyond_text(news.beyond) if news.beyond else "what all machines have counted is remembered",
        generation=meta.generation,
        now=now,
    )


def newly_false(before: MachineRecordStatus, after: MachineRecordStatus) -> list[Condition]:
    """What somebody is to be told of, once."""
    return [one for one in after.conditions if one.status == "False" and not is_false(before, one.type)]


def is_false(status: MachineRecordStatus, type: str) -> bool:
    found = find_condition(status.conditions, type)
    return found is not None and found.status == "False"


def unstamped_text(names: Sequence[str]) -> str:
    named = "; ".join(sorted(names)[:NAMED])
    more = f"; and {len(names) - NAMED} more" if len(names) > NAMED else ""
    have = "has" if len(names) == 1 else "have"
    return (
        f"{machines(len(names))} {have} no stamp that can be believed, however often one is written: {named}{more}. What was"
        " found out about them counts, whatever the quota is. Next: find out who changes Machines in this cluster, or takes the"
        " webhook out"
    )


def beyond_text(number: int) -> str:
    are = "is" if number == 1 else "are"
    return (
        f"{machines(number)} beyond {MOST_REMEMBERED} {are} not remembered: each counts as its stamp says, and not for a while"
        " after it went. Next: divide the machines among several clusters"
    )


NO_SERVERS: Final = frozenset({"fake"})  # providers whose machines are none: what went is gone at once


@dataclass(frozen=True, slots=True)
class RecordFacts:
    """`remembered`, `held` and `vanished` are what the record has. `present` are the Machines that are there, by uid, each with
    what its valid stamp says, None where it has none; it is None itself where nobody can say now. `lost` are those that came
    and went before they were recorded, with what they took. `sizes` are of those that need one (`needs_size`), by what their
    specs cost; where nobody knows that they are left out. `created` is when Machines that went were made, where it was
    seen."""

    remembered: Remembrance
    vanished: tuple[Vanished, ...]
    present: Mapping[str, Amounts | None] | None
    lost: Remembrance
    held: frozenset[str] = frozenset()
    sizes: Remembrance = field(default_factory=dict)
    created: Mapping[str, datetime] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NextRecord:
    """`until` is when one of the vanished is the next not to count any more; None: there is none. `held` are those that count
    without a stamp."""

    remembered: dict[str, Amounts]
    vanished: tuple[Vanished, ...]
    until: datetime | None
    held: frozenset[str] = frozenset()


def next_record(cluster: str, facts: RecordFacts, *, now: datetime, keep: timedelta) -> NextRecord:
    """`keep` is how long a Machine that went counts on."""
    present = facts.present
    if present is None:
        remembered, held, gone = dict(facts.remembered), facts.held, {}
    else:
        remembered, held = _remembered(facts, present)
        gone = {uid: one for uid, one in {**facts.lost, **facts.remembered}.items() if uid not in present}
    new = [
        Vanished(key=key_of(cluster, uid), amounts=amounts, since=now, created=facts.created.get(uid))
        for uid, amounts in sorted(gone.items())
    ]
    known = {one.key for one in facts.vanished}
    away = (*facts.vanished, *(one for one in new if one.key not in known))
    back = {key_of(cluster, uid) for uid in present or ()} if away else set()
    kept = [one for one in away if one.key not in back]
    counting = [one for one in kept if still_counts(one, now=now, keep=keep)]
    vanished = bounded(counting, rest=key_of(cluster, "rest"))
    return NextRecord(remembered, vanished, min((counts_until(one, keep=keep) for one in vanished), default=None), held)


def keep_for(provider: str, keep: timedelta) -> timedelta:
    """How long a Machine of a cluster counts on. The provider is the Cluster's, on the seed: what a Machine says may be made
    up."""
    return timedelta() if provider in NO_SERVERS else keep


def key_of(cluster: str, uid: str) -> str:
    return f"{MACHINES.name}/{cluster}/{uid}"


def needs_size(stamped: Amounts | None, known: Amounts | None) -> bool:
    """Whether the stamp of a Machine says nothing, or less than was recorded of it."""
    return stamped is None or (known is not None and known != stamped and not known <= stamped)


def _remembered(facts: RecordFacts, present: Mapping[str, Amounts | None]) -> tuple[dict[str, Amounts], frozenset[str]]:
    """The most that each has ever counted, and those that count by that for want of a stamp. One of which neither a stamp nor a
    size was ever known is not among them."""
    made: dict[str, Amounts] = {}
    held: list[str] = []
    for uid, stamped in present.items():
        known = facts.remembered.get(uid)
        if known is not None and stamped is not None and known == stamped:
            made[uid] = known  # as nearly always; and of those that are alike this is one and the same value
            continue
        amounts = _most(known, stamped, facts.sizes.get(uid))
        if amounts is None:
            continue
        made[uid] = amounts
        if needs_size(stamped, known):
            held.append(uid)
    return made, frozenset(held)


def _most(known: Amounts | None, *more: Amounts | None) -> Amounts | None:
    found = known
    for one in more:
        if one is not None:
            found = one if found is None else found if one <= found else found | one
    return found
