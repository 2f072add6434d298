"""What the status of a quota on the master says: usage, whether it is within the quota, whether it is of now. Pure.

A quota below present use is nothing wrong: no machine is removed. That more is used than is allowed is said with the numbers of
every resource, so that administrators get to know.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from ullage.kube.objects import Conditions, find_condition, set_condition
from ullage.ledger.amounts import Amounts, BadAmount, spell
from ullage.projects.api.amounts import ResourceDetails
from ullage.projects.api.quotas import (
    LOCAL_USAGE_FRESH,
    READY,
    USAGE_FRESH,
    WITHIN_QUOTA,
    ResourceQuota,
    ResourceQuotaStatus,
    SeedUsage,
    UsageForPeople,
)
from ullage.projects.names import RESOURCES
from ullage.projects.quota import amounts_of, excesses, faults, for_people, is_counted, limits_of, same_limits, usage_of
from ullage.times import read_time, timestamp

# What a project uses on all seeds, as far as they can be asked.


# The age of figures is said in steps, each longer than the one before: a status is written at each, and not every second.
_STEPS: Final = (
    (timedelta(hours=12), "12 hours"),
    (timedelta(hours=6), "6 hours"),
    (timedelta(hours=3), "3 hours"),
    (timedelta(hours=1), "1 hour"),
    (timedelta(minutes=30), "30 minutes"),
    (timedelta(minutes=10), "10 minutes"),
    (timedelta(minutes=5), "5 minutes"),
    (timedelta(minutes=1), "1 minute"),
)
_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class SeedReport:
    """What is seen of a quota on a seed. `copy` is None where there is none yet; while the seed is out of reach it says
    nothing."""

    name: str
    reachable: bool
    copy: ResourceQuota | None = None


@dataclass(frozen=True, slots=True)
class Totals:
    """`usage` is None while no seed has said anything. What is not of now is said, a sentence for each seed."""

    usage: Amounts | None
    seeds: tuple[SeedUsage, ...]
    stale: tuple[str, ...] = ()  # out of reach: the last figures count
    unknown: tuple[str, ...] = ()  # not counted there yet, not readable, or not of now by the seed's own word


def totals(quota: ResourceQuota, reports: Iterable[SeedReport], *, now: datetime) -> Totals:
    """A seed that was removed on purpose is in no report, and counts no more."""
    before = {seed.name: seed for seed in quota.status.seeds}
    known: list[Amounts] = []
    seeds: list[SeedUsage] = []
    stale: list[str] = []
    unknown: list[str] = []
    lost = False
    for report in sorted(reports, key=lambda one: one.name):
        seed, problem = _heard(report, quota, before.get(report.name), now=now)
        seeds.append(seed)
        if problem:
            (unknown if report.reachable else stale).append(f"seed {report.name}: {problem}")
        if is_counted(seed.usage):
            known.append(amounts_of(seed.usage, field="status.seeds"))
        else:
            lost = True
    usage = None if lost and not known else Amounts.total(known)
    said = _last_total(quota.status)
    if lost and said is not None:
        usage = said if usage is None else usage | said
    return Totals(usage, tuple(seeds), tuple(stale), tuple(unknown))


def _heard(report: SeedReport, quota: ResourceQuota, old: SeedUsage | None, *, now: datetime) -> tuple[SeedUsage, str]:
    """What is to be remembered of a seed, and why it is not of now."""
    last = old.usage if old is not None and _is_readable(old.usage) else ResourceDetails()
    if not report.reachable:
        since = old.stale_since if old is not None and read_time(old.stale_since) else timestamp(now)
        seed = SeedUsage(name=report.name, usage=last, stale_since=since)
        return seed, f"out of reach for {age_of(since, now=now)} (since {since}); {_last_said(last)}"
    if problem := _unusable(report.copy, quota):
        return SeedUsage(name=report.name, usage=last), f"{problem}; {_last_said(last)}"
    assert report.copy is not None
    found = report.copy.status.local_usage
    usage = last if is_counted(last) and same_limits(last, found) else usage_of(amounts_of(found, field="status.localUsage"))
    fresh = find_condition(report.copy.status.conditions, LOCAL_USAGE_FRESH)
    if fresh is None or fresh.status == "True":
        return SeedUsage(name=report.name, usage=usage), ""
    return SeedUsage(name=report.name, usage=usage, incomplete_since=fresh.last_transition_time), fresh.message


def _unusable(copy: ResourceQuota | None, quota: ResourceQuota) -> str:
    if copy is None:
        return "the quota is not there yet"
    if copy.spec.subject != quota.spec.subject:
        return f"the quota there is about {copy.spec.subject.kind} {copy.spec.subject.name}"
    if not is_counted(copy.status.local_usage):
        return "nobody has counted there yet"
    try:
        amounts_of(copy.status.local_usage, field="status.localUsage")
    except BadAmount as error:
        return str(error)
    return ""


def _is_readable(usage: ResourceDetails) -> bool:
    try:
        amounts_of(usage, field="")
    except BadAmount:
        return False
    return True


def _last_total(status: ResourceQuotaStatus) -> Amounts | None:
    found = status.global_usage
    return amounts_of(found, field="status.globalUsage") if is_counted(found) and _is_readable(found) else None


def _last_said(last: ResourceDetails) -> str:
    return "its last figures count" if is_counted(last) else "what it uses is not known"


def age_of(since: str, *, now: datetime) -> str:
    """How long ago that was, in steps: `under a minute`, `10 minutes`, `3 hours`, `2 days`."""
    moment = read_time(since)
    passed = now - moment if moment is not None else timedelta()
    if passed >= _DAY:
        return f"{passed // _DAY} day{'' if passed < 2 * _DAY else 's'}"
    return next((said for step, said in _STEPS if passed >= step), "under a minute")


def next_step(seeds: Iterable[SeedUsage], *, now: datetime) -> timedelta | None:
    """After how long an age is to be said anew; None: none is said."""
    found = (_until_next(moment, now=now) for seed in seeds if (moment := read_time(seed.stale_since)) is not None)
    return min(found, default=None)


def _until_next(moment: datetime, *, now: datetime) -> timedelta:
    passed = max(now - moment, timedelta())
    steps = (*(step for step, _ in reversed(_STEPS)), (passed // _DAY + 1) * _DAY)
    return next(step for step in steps if step > passed) - passed


def with_totals(status: ResourceQuotaStatus, found: Totals) -> ResourceQuotaStatus:
    """The status with what is used; an amount that has not changed stays as it is written."""
    usage = status.global_usage if found.usage is None else usage_of(found.usage)
    if is_counted(status.global_usage) and same_limits(status.global_usage, usage):
        usage = status.global_usage
    return msgspec.structs.replace(status, global_usage=usage, seeds=found.seeds)


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
