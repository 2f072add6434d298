"""Marks quotas with their subject, and has them go with their project. Keys are quotas.

KKP does the same where it runs, with the same values. What somebody takes off is put back: twice at once, then later and later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from ullage.clock import Clock
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.conditional import patch_seen
from ullage.kube.client.interface import Patcher
from ullage.kube.controller.controller import Controller, Requeue, Source, own
from ullage.kube.controller.rewrites import Rewrites
from ullage.kube.errors import NotFound
from ullage.kube.kinds import Kind, Meta, OwnerReference
from ullage.kube.metrics import Metrics
from ullage.kube.objects import is_deleting, merge_patch, owner_reference
from ullage.kube.slices import Write
from ullage.projects.api.kkp import PROJECTS, Project
from ullage.projects.api.quotas import PROJECT_QUOTAS, ResourceQuota
from ullage.projects.names import SUBJECT_KIND, SUBJECT_NAME, bad_project_id, is_project_id
from ullage.projects.subjects import QuotaLookup

# The labels that a quota is found by, and the owner reference that has it go with its project.


PROJECT_MISSING: Final = "ProjectMissing"
BAD_SUBJECT: Final = "BadSubject"


def marked(quota: ResourceQuota, project: Project | None) -> Meta:
    """The metadata that a quota is to have; the very same value where nothing is missing. `project` is its subject."""
    meta = quota.metadata
    if is_deleting(meta) or not is_project_id(quota.spec.subject.name):
        return meta  # the API server would refuse such a label, again and again
    subject = quota.spec.subject
    labels = {**meta.labels, SUBJECT_NAME: subject.name, SUBJECT_KIND: subject.kind}
    owners = meta.owner_references if project is None else _owned_by(meta.owner_references, project)
    if labels == dict(meta.labels) and owners == meta.owner_references:
        return meta
    return msgspec.structs.replace(meta, labels=labels, owner_references=owners)


def _owned_by(owners: tuple[OwnerReference, ...], project: Project) -> tuple[OwnerReference, ...]:
    """Other owners stay. A project of the name that was there before does not: the garbage collector would take the quota away
    on its account."""
    wanted = owner_reference(PROJECTS, project.metadata)
    ours = [one for one in owners if _is_project(one)]
    if len(ours) == 1 and ours[0].uid == wanted.uid and ours[0].name == wanted.name:
        return owners
    return (*(one for one in owners if not _is_project(one)), wanted)


def _is_project(owner: OwnerReference) -> bool:
    return owner.kind == PROJECTS.kind and owner.api_version.partition("/")[0] == PROJECTS.group


def problem(quota: ResourceQuota, project: Project | None) -> tuple[str, str]:
    """Why a quota limits nobody, as a reason and a sentence; empty where it does."""
    subject = quota.spec.subject
    if is_deleting(quota.metadata):
        return "", ""
    if not is_project_id(subject.name):
        return BAD_SUBJECT, f"spec.subject.name: {bad_project_id(subject.name)}"
    if project is None:
        return PROJECT_MISSING, (
            f"spec.subject.name: there is no project {subject.name}; the quota holds when there is. Next: kubectl get projects"
        )
    return "", ""


WATCHES: Final[tuple[Kind[Any], ...]] = (PROJECT_QUOTAS, PROJECTS)
WRITES: Final = (Write(PROJECT_QUOTAS, ("patch",)),)


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
            await patch_seen(self._client, PROJECT_QUOTAS, quota, {"metadata": change})
        except NotFound:
            return None
        self._rewrites.wrote(uid, what, self._clock.monotonic())
        return None


def problems(projects: Cache[Project]) -> Callable[[ResourceQuota], tuple[str, str]]:
    """Why a quota limits nobody, as a reason and a sentence, for whoever shows it."""
    return lambda quota: problem(quota, projects.get(Key("", quota.spec.subject.name)))
