"""Quotas by their subject: a project finds its quota, whatever that is called."""

from __future__ import annotations

from typing import Final

from ullage.kube.cache.cache import Cache
from ullage.kube.slices import Wiring
from ullage.projects.api.quotas import QUOTAS, ResourceQuota

BY_SUBJECT: Final = "subject of a quota"


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
    return QuotaLookup(wiring.cache(QUOTAS))
