"""Snapshots that were admitted a moment ago: they count for their volume's limits before the cache shows their objects.

Without it ten requests at the same time would all find the same room. It is remembered in this process only: where several
serve the webhook, the engine itself is the last to check, and whatever it does not take fails at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from ullage.clock import Clock
from ullage.kube.cache.indexer import Key

SECONDS: Final = 30.0  # as long as a request may take to be stored, and the cache to show it; then it was refused elsewhere


class Admitted:
    """By volume: the names that were admitted, and until when each counts. Asking twice under one name takes one place."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._volumes: dict[Key, dict[str, float]] = {}

    def add(self, volume: Key, name: str) -> None:
        self._volumes.setdefault(volume, {})[name] = self._clock.monotonic() + SECONDS

    def names(self, volume: Key, *, shown: Callable[[Key], object | None]) -> Iterable[str]:
        """Those that the cache does not show yet. `shown` looks an object up there."""
        now = self._clock.monotonic()
        known = self._volumes.pop(volume, {})
        left = {name: end for name, end in known.items() if end > now and shown(Key(volume.namespace, name)) is None}
        if left:
            self._volumes[volume] = left
        return tuple(left)
