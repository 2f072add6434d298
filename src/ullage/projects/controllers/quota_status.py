"""Keeps the status of quotas on the master true: what the seeds say, whether that is within the quota, whether it is of now.
Keys are quotas.

Woken by the quotas, by what the seeds say in their copies, and by seeds that come into reach or fall out of it. A seed may
count many times a second: what is shown follows within the second that lies between two writes of one quota.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from ullage.clock import Clock
from ullage.errors import BadInput
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.conditional import patch_status
from ullage.kube.client.interface import Patcher
from ullage.kube.controller.controller import Controller, Requeue, Source
from ullage.kube.errors import NotFound
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import EventRecorder
from ullage.kube.kinds import Kind
from ullage.kube.metrics import Metrics
from ullage.kube.objects import find_condition, is_deleting
from ullage.kube.slices import Write
from ullage.projects.api.amounts import ResourceDetails
from ullage.projects.api.kkp import PROJECTS, SEEDS, SETTINGS, Project
from ullage.projects.api.quotas import LOCAL_USAGE_FRESH, PROJECT_QUOTAS, WITHIN_QUOTA, ResourceQuota, ResourceQuotaStatus
from ullage.projects.controllers.quota_status_rules import (
    INVALID,
    OVER_QUOTA,
    SeedReport,
    StatusFacts,
    invalid_note,
    next_step,
    over_quota_note,
    status_of,
    totals,
)
from ullage.projects.escrow.divisions import DIVISIONS
from ullage.projects.escrow.progress import away_since, handing_over, left_behind, not_in_force, out_of_reach
from ullage.projects.escrow.record import heir, leading, read_record
from ullage.projects.metrics import ProjectMetrics
from ullage.projects.seed_marks import is_dead
from ullage.projects.seeds import Seeds
from ullage.projects.subjects import Defaults, QuotaLookup

WATCHES: Final[tuple[Kind[Any], ...]] = (PROJECT_QUOTAS, PROJECTS, SEEDS, SETTINGS)
ELSEWHERE: Final[tuple[Kind[Any], ...]] = (PROJECT_QUOTAS,)
WRITES: Final = (Write(PROJECT_QUOTAS, ("patch",), ("status",)),)
BETWEEN: Final = 1.0  # seconds, at least, between two writes of one quota
PASSED: Final = Reason("OverQuota", type="Warning")
UNREADABLE: Final = Reason(INVALID, type="Warning")
WITHIN: Final = Reason("WithinQuota")

Problem = Callable[[ResourceQuota], tuple[str, str]]
"""Why a quota limits nobody, as a reason and a sentence; empty where it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusCaches:
    lookup: QuotaLookup
    projects: Cache[Project]
    seeds: Seeds
    defaults: Defaults


@dataclass(frozen=True, slots=True)
class _Written:
    """What was wanted, and what the API made of it: KKP's definition drops what it does not know."""

    at: float
    wanted: ResourceQuotaStatus
    kept: ResourceQuotaStatus


class QuotaStatuses:
    """The controller of statuses."""

    def __init__(
        self,
        client: Patcher,
        caches: StatusCaches,
        *,
        problem: Problem,
        recorder: EventRecorder,
        metrics: ProjectMetrics,
        clock: Clock,
    ) -> None:
        self._client = client
        self._lookup = caches.lookup
        self._projects = caches.projects
        self._seeds = caches.seeds
        self._problem_of = problem
        self._defaults = caches.defaults
        self._recorder = recorder
        self._metrics = metrics
        self._clock = clock
        self._written: dict[str, _Written] = {}  # by uid

    def controller(self, *, metrics: Metrics | None = None) -> Controller[Key]:
        quotas = self._lookup.quotas
        sources: list[Source[Any, Key]] = [
            Source(quotas, lambda quota: self._of(quota.spec.subject.name)),  # one may be in the way of another
            Source(self._projects, lambda one: self._of(one.metadata.name), when=lambda old, new: old is None or new is None),
            self._seeds.source(self._every),
            *self._defaults.sources(self._going),
        ]
        found = Controller("project-quota-status", sources, self.reconcile, clock=self._clock, metrics=metrics)
        quotas.handle(self._forget)
        self._metrics.show(quotas)
        self._seeds.wake_by_reach(found.queue, self._every)
        self._seeds.wake_by_copies(found.queue, self._of_copy, when=_says_otherwise)
        return found

    def _of(self, project: str) -> Iterable[Key]:
        return map(key_of, self._lookup.of(project))

    def _going(self, project: str) -> Iterable[Key]:
        """What holds after them is another."""
        return [key_of(quota) for quota in self._lookup.of(project) if is_deleting(quota.metadata)]

    def _every(self, seed: str) -> Iterable[Key]:
        return map(key_of, self._lookup.quotas.items())

    def _of_copy(self, seed: str, copy: ResourceQuota) -> Iterable[Key]:
        return (key_of(copy),)

    def _forget(self, old: ResourceQuota | None, new: ResourceQuota | None) -> None:
        if old is not None and new is None:
            self._written.pop(old.metadata.uid, None)

    async def reconcile(self, key: Key) -> Requeue | None:
        quota = self._lookup.quotas.get(key)
        if quota is None:
            return None
        last = self._written.get(quota.metadata.uid)
        if last is not None and (wait := last.at + BETWEEN - self._clock.monotonic()) > 0:
            return Requeue(wait)
        said = last.wanted if last is not None and quota.status == last.kept else quota.status
        now = self._clock.now()
        new = status_of(self._facts(self._in_force(quota, said)), now=now)
        if new != said:
            await self._write(quota, said, new)
        again = next_step(new.seeds, now=now)  # the age of figures is part of what is said
        return None if again is None else Requeue(again.total_seconds())

    # --- gather ---

    def _in_force(self, quota: ResourceQuota, said: ResourceQuotaStatus) -> ResourceQuota:
        """With the limits that hold: while a quota is being deleted those of whoever comes after it."""
        spec = quota.spec
        if is_deleting(quota.metadata):
            after = self._heir(quota)
            spec = msgspec.structs.replace(spec, quota=ResourceDetails() if after is None else after.spec.quota)
        return msgspec.structs.replace(quota, status=said, spec=spec)

    def _heir(self, quota: ResourceQuota) -> ResourceQuota | None:
        project = quota.spec.subject.name
        return heir(quota, self._lookup.of(project), self._defaults.limits(project))

    def _facts(self, quota: ResourceQuota) -> StatusFacts:
        reports = [self._report(seed, quota) for seed in self._seeds.names]
        problem, pending = self._problem_of(quota), ""
        if not problem[1]:
            problem, pending = self._grants(quota, reports)
        found = totals(quota, reports, now=self._clock.now())
        return StatusFacts(quota=quota, totals=found, problem=problem, pending=pending, left=self._left(quota))

    def _left(self, quota: ResourceQuota) -> str:
        try:
            records = [read_record(quota.metadata, one.annotation) for one in DIVISIONS]
        except BadInput:
            return ""  # which is said already
        return "; ".join(filter(None, (left_behind(record, self._seeds.names) for record in records)))

    def _report(self, seed: str, quota: ResourceQuota) -> SeedReport:
        copies = self._seeds.copies(seed)
        return SeedReport(seed, copies is not None, None if copies is None else copies.get(key_of(quota)))

    def _grants(self, quota: ResourceQuota, reports: Iterable[SeedReport]) -> tuple[tuple[str, str], str]:
        """What keeps the quota from being in force, and what it waits for."""
        subject, name = quota.spec.subject.name, quota.metadata.name
        leader = leading(self._lookup.of(subject))
        if leader is not None and leader.metadata.name != name:
            said = f"project {subject} has the quota {leader.metadata.name} too, which is in force; delete one of them"
            return ("AnotherQuota", said), ""
        try:
            records = [(one, read_record(quota.metadata, one.annotation)) for one in DIVISIONS]
        except BadInput as error:
            step = "nothing is granted or taken back until it can be read; without it every seed is asked anew"
            return ("EscrowUnreadable", f"{error}; {step}"), ""
        seen = {one.name: one.reachable for one in reports}
        if is_deleting(quota.metadata):
            return ("", ""), self._handing_over(quota, seen) if any(record.shares for _, record in records) else ""
        waits = (not_in_force(record, division.wanted(quota), seen) for division, record in records)
        return ("", ""), "; ".join(dict.fromkeys(filter(None, waits)))

    def _handing_over(self, quota: ResourceQuota, seen: Mapping[str, bool]) -> str:
        given_up = {seed.metadata.name for seed in self._seeds.objects.items() if is_dead(seed)}
        away = [seed for seed, reachable in sorted(seen.items()) if not reachable and seed not in given_up]
        said = f"it is being deleted: {handing_over(quota, self._heir(quota))}"
        return f"{said}; {out_of_reach(away, away_since(quota))}" if away else said

    # --- act ---

    async def _write(self, quota: ResourceQuota, said: ResourceQuotaStatus, new: ResourceQuotaStatus) -> None:
        try:
            written = await patch_status(self._client, PROJECT_QUOTAS, quota, old=quota.status, new=new)
        except NotFound:
            return
        if written is None:
            return
        self._written[quota.metadata.uid] = _Written(self._clock.monotonic(), new, written.status)
        self._metrics.writes.inc()
        if note := invalid_note(said, new):
            self._recorder.record(PROJECT_QUOTAS, quota, UNREADABLE, note=note)
        if note := over_quota_note(said, new):
            self._metrics.changes.labels("over").inc()
            self._recorder.record(PROJECT_QUOTAS, quota, PASSED, note=note)
        elif note := within_note(said, new):
            self._metrics.changes.labels("within").inc()
            self._recorder.record(PROJECT_QUOTAS, quota, WITHIN, note=note)


def within_note(old: ResourceQuotaStatus, new: ResourceQuotaStatus) -> str:
    """What an Event tells when a project that used more than it may fits its quota again; empty: nothing new."""
    before, after = find_condition(old.conditions, WITHIN_QUOTA), find_condition(new.conditions, WITHIN_QUOTA)
    if before is None or before.reason != OVER_QUOTA or after is None or after.status != "True":
        return ""
    return after.message


def _says_otherwise(old: ResourceQuota | None, new: ResourceQuota | None) -> bool:
    """A seed counts, and what we write there ourselves is no news."""
    if old is None or new is None:
        return True
    one, other = old.status, new.status
    fresh = (find_condition(status.conditions, LOCAL_USAGE_FRESH) for status in (one, other))
    before, after = ((said.status, said.message) if said is not None else None for said in fresh)
    return one.local_usage != other.local_usage or old.spec.subject != new.spec.subject or before != after
