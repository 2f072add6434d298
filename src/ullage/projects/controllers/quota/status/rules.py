"""What the status of a quota on the master says: usage, whether it is within the quota, whether it is of now. Pure.

A quota below present use is nothing wrong: no machine is removed. That more is used than is allowed is said with the numbers of
every resource, so that administrators get to know.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from ullage.kube.objects import Conditions, find_condition, set_condition
from ullage.ledger.amounts import Amounts, spell
from ullage.projects.api.quotas import READY, USAGE_FRESH, WITHIN_QUOTA, ResourceQuota, ResourceQuotaStatus, UsageForPeople
from ullage.projects.controllers.quota.status.totals import Totals, with_totals
from ullage.projects.names import RESOURCES
from ullage.projects.quota import excesses, faults, for_people, is_counted, limits_of

OVER_QUOTA: Final = "OverQuota"
INVALID: Final = "InvalidQuota"  # an amount of it cannot be
UNKNOWN: Final = "unknown"  # what is used, while no seed has said anything
LISTED: Final = 5  # seeds or faults that a message spells out


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusFacts:
    """A quota and what is known about it. `problem` is a reason and a sentence why it limits nobody, `pending` one why it is
    not in force on all seeds yet; both are empty where all is well."""

    quota: ResourceQuota
    totals: Totals
    problem: tuple[str, str] = ("", "")
    pending: str = ""
    left: str = ""  # what seeds keep that there are not any more


class Said(NamedTuple):
    """One condition: None is Unknown."""

    status: bool | None
    reason: str
    message: str


def status_of(facts: StatusFacts, *, now: datetime) -> ResourceQuotaStatus:
    """The very same value where there is nothing new. What a seed writes (`localUsage`, where the master is one) stays."""
    old, generation = facts.quota.status, facts.quota.metadata.generation
    said = {READY: _ready(facts), WITHIN_QUOTA: _within(facts), USAGE_FRESH: _fresh(facts)}
    conditions: Conditions = old.conditions
    for type, (status, reason, message) in said.items():
        conditions = set_condition(
            conditions, type, status=status, reason=reason, message=message, generation=generation, now=now
        )
    new = msgspec.structs.replace(
        with_totals(old, facts.totals),
        observed_generation=generation,
        shown=_shown(facts),
        conditions=conditions,
    )
    return old if new == old else new


def _shown(facts: StatusFacts) -> UsageForPeople:
    limits = limits_of(facts.quota.spec.quota)
    if facts.totals.usage is not None:
        return for_people(facts.totals.usage, limits)
    allowed = for_people(Amounts(), limits)
    return UsageForPeople(**{one: f"{UNKNOWN}/{getattr(allowed, one).partition('/')[2]}" for one in RESOURCES})


# --- conditions ------------------------------------------------------------------------------------------------------


def _ready(facts: StatusFacts) -> Said:
    """Whether the quota is in force."""
    reason, problem = facts.problem
    if problem:
        return Said(False, reason, problem)
    if wrong := list(faults(facts.quota)):
        return Said(False, INVALID, f"these allow nothing until they are corrected: {_few(map(str, wrong))}")
    if facts.pending:
        return Said(False, "Pending", f"{facts.pending}; {facts.left}" if facts.left else facts.pending)
    limits = limits_of(facts.quota.spec.quota)
    said = ", ".join(f"{one} {spell(one, limits[one], down=True)}" for one in RESOURCES if one in limits)
    message = f"in force: {said}" if said else "there is no limit"
    return Said(True, "InForce", f"{message}; {facts.left}" if facts.left else message)


def _within(facts: StatusFacts) -> Said:
    used, limits = facts.totals.usage, limits_of(facts.quota.spec.quota)
    if used is None:
        return Said(None, "NotCounted", "what the project uses is not known yet")
    project = facts.quota.spec.subject.name
    if over := excesses(used, limits):
        said = "; ".join(map(str, over))
        step = f"no machine is removed, and new ones are refused; see `ullage usage --group-by cluster` for project {project}"
        return Said(False, OVER_QUOTA, f"{said}; {step}")
    if not limits:
        return Said(True, "NoLimit", f"project {project} has no limit")
    if silent := [seed.name for seed in facts.totals.seeds if not is_counted(seed.usage)]:
        return Said(None, "NotCounted", f"what project {project} uses is not known on every seed: {_few(silent)}")
    if facts.totals.unknown:
        return Said(None, "NotOfNow", f"project {project} may use more than its figures say: {_few(facts.totals.unknown)}")
    return Said(True, "WithinQuota", f"project {project} uses no more than it may")


def _fresh(facts: StatusFacts) -> Said:
    """Whether the figures of all seeds are there, and of now."""
    found = facts.totals
    if found.usage is None and not found.stale:
        return Said(None, "NotCounted", _few(found.unknown))
    if found.stale:
        return Said(False, "SeedUnreachable", _few((*found.stale, *found.unknown)))
    if found.unknown:
        return Said(False, "Incomplete", _few(found.unknown))
    count = len(found.seeds)
    return Said(True, "Fresh", f"counted on {count} seed{'' if count == 1 else 's'}" if count else "there is no seed")


def invalid_note(old: ResourceQuotaStatus, new: ResourceQuotaStatus) -> str:
    """What an Event tells when an amount of a quota turns out to be faulty, or another one does; empty: nothing new."""
    before, after = find_condition(old.conditions, READY), find_condition(new.conditions, READY)
    if after is None or after.reason != INVALID or (before is not None and before.message == after.message):
        return ""
    return after.message


def over_quota_note(old: ResourceQuotaStatus, new: ResourceQuotaStatus) -> str:
    """What an Event tells when a project has come to use more than it may; empty: nothing new. Not for every figure that moves
    after that: those are in the status."""
    before, after = find_condition(old.conditions, WITHIN_QUOTA), find_condition(new.conditions, WITHIN_QUOTA)
    if after is None or after.reason != OVER_QUOTA or (before is not None and before.reason == OVER_QUOTA):
        return ""
    return after.message


def _few(said: Iterable[str]) -> str:
    every = list(said)
    more = f"; and {len(every) - LISTED} more" if len(every) > LISTED else ""
    return f"{'; '.join(every[:LISTED])}{more}"
