"""How many volumes of a node purge at the same time: a purge reads and writes all that goes, and the disks are shared.

What purges is known from the Engines' statuses, and from what was begun here and is not in them yet; that is lost with the
process, and then known again after one poll.
"""

from __future__ import annotations

from ullage.clock import Clock
from ullage.engines.api import Engine
from ullage.engines.lookup import Lookup
from ullage.engines.settings import Settings
from ullage.kube.cache.indexer import Key, key_of


class PurgeSlots:
    """The places for purges on each node."""

    def __init__(self, lookup: Lookup, *, settings: Settings, clock: Clock) -> None:
        self._lookup = lookup
        self._settings = settings
        self._clock = clock
        self._begun: dict[Key, float] = {}  # until when a place is taken, whatever the status says

    def take(self, engine: Engine | None) -> bool:
        """Takes a place for the engine, if there is one. An engine that purges has one. What was not begun after all is known
        from the next poll."""
        if engine is None:
            return False
        now, key = self._clock.monotonic(), key_of(engine)
        self._begun = {one: end for one, end in self._begun.items() if end > now}
        busy = {key_of(one) for one in self._lookup.engines_on(engine.spec.node_id) if self._purges(one)}
        if key not in busy and len(busy) >= self._settings.purges_per_node:
            return False
        self._begun[key] = now + 2 * self._settings.interval
        return True

    def _purges(self, engine: Engine) -> bool:
        shown = any(one.is_purging for one in (engine.status.purge_status or {}).values())
        return shown or key_of(engine) in self._begun
