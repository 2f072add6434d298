"""Marks quotas with their subject, and has them go with their project. Keys are quotas.

KKP does the same where it runs, with the same values. What somebody takes off is put back: twice at once, then later and later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from ullage.clock import Clock
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.conditional import patch_seen
from ullage.kube.client.interface import Patcher
from ullage.kube.controller.controller import Controller, Requeue, Source, own
from ullage.kube.controller.rewrites import Rewrites
from ullage.kube.errors import NotFound
from ullage.kube.kinds import Kind
from ullage.kube.metrics import Metrics
from ullage.kube.objects import merge_patch
from ullage.kube.slices import Write
from ullage.projects.api.kkp import PROJECTS, Project
from ullage.projects.api.quotas import QUOTAS, ResourceQuota
from ullage.projects.controllers.quota.label.rules import marked, problem
from ullage.projects.subjects import QuotaLookup

WATCHES: Final[tuple[Kind[Any], ...]] = (QUOTAS, PROJECTS)
WRITES: Final = (Write(QUOTAS, ("patch",)),)


class QuotaLabels:
    """The controller of labels and owners."""

    def __init__(self, client: Patcher, lookup: QuotaLookup, projects: Cache[Project], *, clock: Clock) -> None:
        self._client = client
        self._lookup = lookup
        self._projects = projects
        self._clock = clock
        self._rewrites: Rewrites[str] = Rewrites()
        lookup.quotas.handle(self._forget)

    def controller(self, *, metrics: Metrics | None = None) -> Controller[Key]:
        sources: list[Source[Any, Key]] = [
            own(self._lookup.quotas),
            Source(self._projects, self._of_project, when=lambda old, new: old is None or new is None),
        ]
        return Controller("project-quota-labels", sources, self.reconcile, clock=self._clock, metrics=metrics)

    def _of_project(self, project: Project) -> Iterable[Key]:
        return map(key_of, self._lookup.of(project.metadata.name))

    def _forget(self, old: ResourceQuota | None, new: ResourceQuota | None) -> None:
        if old is not None and new is None:
            self._rewrites.forget(old.metadata.uid)

    async def reconcile(self, key: Key) -> Requeue | None:
        quota = self._lookup.quotas.get(key)
        if quota is None:
            return None
        wanted = marked(quota, self._projects.get(Key("", quota.spec.subject.name)))
        change = merge_patch(quota.metadata, wanted)
        if change is None:
            return None
        uid, what = quota.metadata.uid, str(change)
        if wait := self._rewrites.wait(uid, what, self._clock.monotonic()):
            return Requeue(wait)
        try:
            await patch_seen(self._client, QUOTAS, quota, {"metadata": change})
        except NotFound:
            return None
        self._rewrites.wrote(uid, what, self._clock.monotonic())
        return None


def problems(projects: Cache[Project]) -> Callable[[ResourceQuota], tuple[str, str]]:
    """Why a quota limits nobody, as a reason and a sentence, for whoever shows it."""
    return lambda quota: problem(quota, projects.get(Key("", quota.spec.subject.name)))
