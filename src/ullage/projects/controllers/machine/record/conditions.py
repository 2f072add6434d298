"""What a cluster's record tells people: whether stamps stay where they are put, and whether all Machines are remembered. Pure.

A Machine that came past the webhook, or was there before us, is stamped within a second, and nobody is told of that here. One
that is without a stamp for longer has somebody who takes it off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ullage.kube.kinds import Meta
from ullage.kube.objects import Condition, find_condition, set_condition
from ullage.projects.api.records import REMEMBERED, STAMPED, MachineRecordStatus
from ullage.projects.machines.texts import machines
from ullage.projects.records import MOST_REMEMBERED

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
