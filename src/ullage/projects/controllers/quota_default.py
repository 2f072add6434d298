"""Gives projects without a quota the default one, keeps it like the setting, and takes it away again. Keys are projects.

A project is looked at when it comes, when its quotas change and when the setting does: so the default returns as soon as a
quota of somebody's own is gone, and not with the next change of the setting.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.conditional import patch_seen
from ullage.kube.client.interface import Patcher
from ullage.kube.controller.controller import Controller, Source, own
from ullage.kube.errors import AlreadyExists, NotFound
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import EventRecorder
from ullage.kube.kinds import Kind
from ullage.kube.metrics import Metrics
from ullage.kube.objects import merge_patch
from ullage.kube.slices import Write
from ullage.projects.api.amounts import ResourceDetails
from ullage.projects.api.kkp import PROJECTS, SETTINGS, KubermaticSetting, Project
from ullage.projects.api.quotas import PROJECT_QUOTAS, ResourceQuota
from ullage.projects.controllers.quota_default_rules import (
    CreateDefault,
    RemoveDefault,
    Step,
    UpdateDefault,
    closed_default,
    default_in,
    limits_by_default,
    setting_faults,
    steps_for,
)
from ullage.projects.names import SETTING
from ullage.projects.subjects import QuotaLookup

WATCHES: Final[tuple[Kind[Any], ...]] = (PROJECT_QUOTAS, PROJECTS, SETTINGS)
WRITES: Final = (Write(PROJECT_QUOTAS, ("create", "patch", "delete")),)
UNREADABLE: Final = Reason("InvalidDefaultQuota", type="Warning")
KEY: Final = Key("", SETTING)


class QuotaClient(Patcher, Protocol):
    """What is needed of a client."""

    async def create(self, kind: Kind[ResourceQuota], obj: ResourceQuota) -> ResourceQuota: ...

    async def delete(
        self, kind: Kind[Any], name: str, namespace: str = "", *, uid: str = "", resource_version: str = ""
    ) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultCaches:
    lookup: QuotaLookup
    projects: Cache[Project]
    settings: Cache[KubermaticSetting]


class DefaultLimits:
    """What projects have by default (`subjects.Defaults`)."""

    def __init__(self, caches: DefaultCaches) -> None:
        self._caches = caches

    def limits(self, project: str) -> ResourceDetails | None:
        return limits_by_default(self._caches.settings.get(KEY), self._caches.projects.get(Key("", project)))

    def sources(self, keys: Callable[[str], Iterable[Key]]) -> list[Source[Any, Key]]:
        projects, settings = self._caches.projects, self._caches.settings

        def every(setting: KubermaticSetting) -> Iterable[Key]:
            found = projects.items() if setting.metadata.name == SETTING else ()
            return [key for project in found for key in keys(project.metadata.name)]

        return [
            Source(settings, every, when=_other_default),
            Source(projects, lambda project: keys(project.metadata.name), when=_other_life),
        ]


class DefaultQuotas:
    """The controller of default quotas."""

    def __init__(self, client: QuotaClient, caches: DefaultCaches, *, recorder: EventRecorder) -> None:
        self._client = client
        self._caches = caches
        self._recorder = recorder
        caches.settings.handle(self._say_faults)

    def controller(self, *, metrics: Metrics | None = None) -> Controller[Key]:
        caches = self._caches
        sources: list[Source[Any, Key]] = [
            own(caches.projects),
            Source(caches.lookup.quotas, lambda quota: (Key("", quota.spec.subject.name),), when=_matters),
            Source(caches.settings, self._every, when=_other_default),
        ]
        return Controller("project-default-quotas", sources, self.reconcile, metrics=metrics)

    def _every(self, setting: KubermaticSetting) -> Iterable[Key]:
        return map(key_of, self._caches.projects.items()) if setting.metadata.name == SETTING else ()

    def _say_faults(self, old: KubermaticSetting | None, new: KubermaticSetting | None) -> None:
        """Once for each change of the setting, and not for each project."""
        if new is None or new.metadata.name != SETTING or not _other_default(old, new):
            return
        if wrong := setting_faults(new):
            kept = "The default quotas that there are stay as they are, and new ones allow nothing of these"
            note = f"{kept}: {'; '.join(map(str, wrong))}"
            self._recorder.record(SETTINGS, new, UNREADABLE, note=note)

    async def reconcile(self, key: Key) -> None:
        project, setting, there = (
            self._caches.projects.get(key),
            self._caches.settings.get(KEY),
            self._caches.lookup.of(key.name),
        )
        default = default_in(setting) or (None if there else closed_default(setting))
        if project is None or default is None:
            return
        for step in steps_for(default, project, there):
            await self._take(step)

    async def _take(self, step: Step) -> None:
        """What was seen may have changed: then nothing is done, and whoever changed it wakes us."""
        match step:
            case CreateDefault(quota=quota):
                with contextlib.suppress(AlreadyExists):
                    await self._client.create(PROJECT_QUOTAS, quota)
            case UpdateDefault(quota=quota, spec=spec):
                change = merge_patch(quota.spec, spec)
                with contextlib.suppress(NotFound):
                    await patch_seen(self._client, PROJECT_QUOTAS, quota, {"spec": change or {}})
            case RemoveDefault(quota=quota):
                meta = quota.metadata
                with contextlib.suppress(NotFound):  # on condition of the version: it may be somebody's own by now
                    await self._client.delete(PROJECT_QUOTAS, meta.name, uid=meta.uid, resource_version=meta.resource_version)


def _matters(old: ResourceQuota | None, new: ResourceQuota | None) -> bool:
    """Usage is written all the time."""
    if old is None or new is None:
        return True
    one, other = old.metadata, new.metadata
    return (one.labels, one.deletion_timestamp, old.spec) != (other.labels, other.deletion_timestamp, new.spec)


def _other_life(old: Project | None, new: Project | None) -> bool:
    return old is None or new is None or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp


def _other_default(old: KubermaticSetting | None, new: KubermaticSetting | None) -> bool:
    if old is None or new is None:
        return True
    one, other = old.metadata.deletion_timestamp, new.metadata.deletion_timestamp
    return (one, old.spec) != (other, new.spec)
