"""Quotas by their subject: a project finds its quota, whatever that is called, and what it has without one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.controller.controller import Source
from ullage.kube.slices import Wiring
from ullage.projects.api.amounts import ResourceDetails
from ullage.projects.api.quotas import PROJECT_QUOTAS, ResourceQuota

BY_SUBJECT: Final = "subject of a quota"


class Defaults(Protocol):
    """What projects have by default, for those who have to know what holds after a quota that goes."""

    def limits(self, project: str) -> ResourceDetails | None:
        """Empty where there are none; None: nobody can tell."""

    def sources(self, keys: Callable[[str], Iterable[Key]]) -> list[Source[Any, Key]]:
        """Wakes what depends on the default of a project, and has a controller wait until that is known."""


class QuotaLookup:
    """All quotas of our own cluster."""

    def __init__(self, quotas: Cache[ResourceQuota]) -> None:
        self.quotas: Final = quotas
        quotas.index(BY_SUBJECT, lambda quota: (quota.spec.subject.name,))

    def of(self, project: str) -> list[ResourceQuota]:
        """All whose subject is this project. There is one, unless somebody else has made another under a name of his own."""
        return self.quotas.by(BY_SUBJECT, project)


def quota_lookup(wiring: Wiring) -> QuotaLookup:
    """The one of this process: `wiring.shared(quota_lookup)`. The part that asks for it watches `QUOTAS`."""
    return QuotaLookup(wiring.cache(PROJECT_QUOTAS))
