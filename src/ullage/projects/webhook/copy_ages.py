"""When this process last heard what a project uses on all seeds: a figure that is old says nothing about room elsewhere.

The age of a seed's copy is measured here, on one clock, from the moment that the master's figures in it changed. What was read
at the start may be of any age.
"""

from __future__ import annotations

from typing import Final

from ullage.clock import Clock
from ullage.kube.cache.cache import Cache
from ullage.kube.objects import find_condition
from ullage.kube.slices import Wiring
from ullage.projects.api.quotas import USAGE_FRESH, ResourceQuota
from ullage.projects.subjects import quota_lookup

YOUNG: Final = 10.0  # seconds


class CopyAges:
    """Remembers for each copy when the master last changed its figures."""

    def __init__(self, quotas: Cache[ResourceQuota], clock: Clock) -> None:
        self._clock = clock
        self._heard: dict[str, float] = {}  # by uid, on the monotonic clock
        quotas.handle(self._changed)

    def is_young(self, copy: ResourceQuota) -> bool:
        heard = self._heard.get(copy.metadata.uid)
        return heard is not None and self._clock.monotonic() - heard < YOUNG

    def _changed(self, old: ResourceQuota | None, new: ResourceQuota | None) -> None:
        if new is None:
            if old is not None:
                self._heard.pop(old.metadata.uid, None)
        elif old is not None and _said(old) != _said(new):
            self._heard[new.metadata.uid] = self._clock.monotonic()


def _said(copy: ResourceQuota) -> object:
    """What the master writes there; `localUsage` is the seed's own."""
    return copy.status.global_usage, find_condition(copy.status.conditions, USAGE_FRESH)


def copy_ages(wiring: Wiring) -> CopyAges:
    """Those of this process: `wiring.shared(copy_ages)`."""
    return CopyAges(wiring.shared(quota_lookup).quotas, wiring.clock)
