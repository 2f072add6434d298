"""How many volumes of a node purge at the same time: a purge reads and writes all that goes, and the disks are shared.

What purges is known from the Engines' statuses, and from what was begun here, or was seen to have ended, since; that is lost
with the process, and known again after one poll. Whoever finds no place is woken when one is free.
"""

from __future__ import annotations

from collections.abc import Callable

from ullage.clock import Clock
from ullage.engines.api import Engine
from ullage.engines.lookup import Lookup
from ullage.engines.model import is_purging
from ullage.engines.settings import Settings
from ullage.kube.cache.indexer import Key, key_of


class PurgeSlots:
    """The places for purges on each node. `wake` has a Snapshot that waits for one try again."""

    def __init__(self, lookup: Lookup, *, settings: Settings, clock: Clock) -> None:
        self._lookup = lookup
        self._settings = settings
        self._clock = clock
        self._begun: dict[Key, float] = {}  # by engine: until when a place is taken, unless it is given back before
        self._ended: dict[
            Key, str
        ] = {}  # by engine: the version of its status that is out of date, since it was seen not to purge
        self._waiting: dict[str, dict[Key, float]] = {}  # by node: the Snapshots, and since when
        self.wake: Callable[[Key], None] = lambda key: None  # set by whoever has the queue

    def take(self, engine: Engine | None, snapshot: Key) -> bool:
        """Takes a place for the engine, if there is one. An engine that purges has one."""
        if engine is None:
            return False
        now, key, node = self._clock.monotonic(), key_of(engine), engine.spec.node_id
        self._begun = {one: end for one, end in self._begun.items() if end > now}
        busy = {key_of(one) for one in self._lookup.engines_on(node) if self._purges(one)}
        if key not in busy and len(busy) >= self._settings.purges_per_node:
            self._waiting.setdefault(node, {}).setdefault(snapshot, now)
            return False
        self._begun[key] = now + 2 * self._settings.interval
        self._ended.pop(key, None)
        self._waiting.get(node, {}).pop(snapshot, None)
        return True

    def give_back(self, engine: Engine | None) -> None:
        """The engine has been seen not to purge: the next one may."""
        if engine is None:
            return
        key = key_of(engine)
        self._begun.pop(key, None)
        shown = self._lookup.engines.get(key)
        if shown is not None and is_purging(shown):
            self._ended[key] = shown.metadata.resource_version
        following = next(iter(self._waiting.get(engine.spec.node_id, {})), None)
        if following is not None:
            del self._waiting[engine.spec.node_id][following]
            self.wake(following)

    def waits_long(self, engine: Engine, snapshot: Key) -> bool:
        """Whether it is worth a word: most find a place in a moment."""
        since = self._waiting.get(engine.spec.node_id, {}).get(snapshot)
        return since is not None and self._clock.monotonic() - since >= self._settings.interval

    def _purges(self, engine: Engine) -> bool:
        key = key_of(engine)
        if key in self._begun:
            return True
        return is_purging(engine) and self._ended.get(key) != engine.metadata.resource_version
