"""What a project uses on all seeds, as far as they can be asked. Pure.

A seed that is out of reach keeps the figures that it said last. One that has said nothing yet is unknown, and not empty: while
there is such a seed the total never falls below what was said before. So it may be too large for a while, and never too small.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec

from ullage.kube.objects import find_condition
from ullage.ledger.amounts import Amounts, BadAmount
from ullage.projects.api.amounts import ResourceDetails
from ullage.projects.api.quotas import LOCAL_USAGE_FRESH, ResourceQuota, ResourceQuotaStatus, SeedUsage
from ullage.projects.quota import amounts_of, is_counted, same_limits, usage_of
from ullage.times import read_time, timestamp

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
