"""The engine monitor: polls each running engine, writes what it says into the Engine's status, and keeps Snapshot objects.

It is a controller whose keys come back by themselves: its workers bound how many engines are polled at a time. Whoever had an
engine do something adds its key, to have it polled at once. A poll that finds nothing new writes nothing.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from ullage.clock import Clock, SystemClock
from ullage.engines.api import (
    ENGINE_SNAPSHOTS,
    ENGINES,
    VOLUMES,
    Engine,
    EngineStatus,
    Snapshot,
    Volume,
    VolumeStatus,
    to_bytes,
)
from ullage.engines.chain import PollResult
from ullage.engines.client.interface import EngineClients
from ullage.engines.controllers import engine_rules as rules
from ullage.engines.lookup import Lookup, volume_key
from ullage.engines.metrics import Metrics
from ullage.engines.model import belongs_to, comes_or_goes, is_running, wanted_limits
from ullage.engines.settings import Settings
from ullage.errors import UllageError
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import patch_seen
from ullage.kube.controller.controller import Controller, Requeue, Source
from ullage.kube.errors import AlreadyExists, Conflict, NotFound
from ullage.kube.metrics import Metrics as KubeMetrics
from ullage.kube.objects import is_deleting, merge_patch

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Memory:
    """What is remembered of an engine between two polls; with the process it is lost, and nothing depends on it."""

    head_written: float = -float("inf")  # when its head's size was last written
    absent: frozenset[str] = frozenset()  # uids of the objects that had no entry in the last poll
    refused: rules.RefusedLimits | None = None  # the limits that it did not take, and why


class EngineMonitor:
    def __init__(
        self,
        client: Client,
        lookup: Lookup,
        engines: EngineClients,
        *,
        settings: Settings,
        metrics: Metrics,
        clock: Clock | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """`jitter` gives 0 to 1."""
        self._client = client
        self._lookup = lookup
        self._engines = engines
        self._settings = settings
        self._metrics = metrics
        self._clock = clock or SystemClock()
        self._jitter = jitter
        self._memory: dict[Key, _Memory] = {}

    def controller(self, *, metrics: KubeMetrics | None = None) -> Controller[Key]:
        lookup = self._lookup
        sources: list[Source[Any, Key]] = [
            Source(lookup.engines, self._of_engine, when=_starts_or_stops),
            Source(lookup.volumes, lambda one: self._of_volume(key_of(one)), when=_matters),
            # Never wakes anybody: but no object is missing before all are read.
            Source(lookup.snapshots, lambda one: (), when=lambda old, new: False),
        ]
        workers = self._settings.pollers
        return Controller("engine-monitor", sources, self.reconcile, workers=workers, clock=self._clock, metrics=metrics)

    def _of_engine(self, engine: Engine) -> Iterable[Key]:
        """Another one beside it means that the volume migrates: both are concerned."""
        return (key_of(engine), *self._of_volume(volume_key(engine)))

    def _of_volume(self, volume: Key) -> Iterable[Key]:
        return (key_of(one) for one in self._lookup.engines_of(volume))

    # --- one poll ---

    async def reconcile(self, key: Key) -> Requeue | None:
        engine = self._lookup.engines.get(key)
        volume = self._lookup.volume_of(engine) if engine is not None else None
        if engine is None or volume is None or not self._is_polled(engine, volume):
            self._memory.pop(key, None)
            return None
        memory = self._memory.setdefault(key, _Memory())
        objects = list(self._lookup.snapshots_of(volume))  # before the entries: see `rules.difference`
        started = self._clock.monotonic()
        try:
            polled = await self._poll(volume, memory)
        except UllageError as error:
            self._metrics.polls.labels("failed").inc()
            await self._write(engine, rules.failed_status(engine.status, str(error)))
            return self._later()
        self._metrics.polls.labels("done").inc()
        self._metrics.poll_seconds.observe(self._clock.monotonic() - started)
        await self._write_poll(engine, polled, memory)
        await self._sync_objects(volume, polled, objects, memory)
        return self._later()

    def _is_polled(self, engine: Engine, volume: Volume) -> bool:
        """Not while the volume migrates: two engines have a claim to its snapshots. Nor while it goes."""
        alone = len(self._lookup.engines_of(volume_key(engine))) == 1
        return alone and is_running(engine) and not is_deleting(volume.metadata)

    async def _poll(self, volume: Volume, memory: _Memory) -> PollResult:
        engine, wanted = self._engines.of(volume.metadata.name), wanted_limits(volume)
        polled = await engine.poll()
        if polled.limits == wanted:
            memory.refused = None
            return polled
        if memory.refused is not None and memory.refused.stands(wanted, polled):
            return polled
        try:
            await engine.set_limits(wanted)
        except UllageError as error:
            memory.refused = rules.RefusedLimits.of(wanted, polled, error)
            about = {"volume": volume.metadata.name, "error": str(error)}
            logger.warning("an engine did not take its volume's snapshot limits", extra=about)
            return polled
        memory.refused = None
        return replace(polled, limits=wanted)

    def _later(self) -> Requeue:
        return Requeue(self._settings.interval * (0.9 + 0.2 * self._jitter()))

    # --- the Engine ---

    async def _write_poll(self, engine: Engine, polled: PollResult, memory: _Memory) -> None:
        now = self._clock.monotonic()
        size = to_bytes(engine.spec.volume_size)
        status = rules.polled_status(engine.status, polled, volume_size=size, since_head=now - memory.head_written)
        await self._write(engine, status)
        if rules.head_size(status) != rules.head_size(engine.status):
            memory.head_written = now

    async def _write(self, engine: Engine, status: EngineStatus) -> None:
        change = merge_patch(engine.status, status) if status != engine.status else None
        if change is not None:
            await patch_seen(self._client, ENGINES, engine, {"status": change}, subresource="status")

    # --- objects ---

    async def _sync_objects(self, volume: Volume, polled: PollResult, objects: list[Snapshot], memory: _Memory) -> None:
        """Makes missing objects, and deletes those that two polls in a row had no snapshot for: deleting an object would
        delete its snapshot too, if that came back."""
        found = rules.difference(polled.entries, objects)
        taken = [name for name in found.missing if not await self._create_object(name, volume)]
        for one in found.stale:
            if one.metadata.uid in memory.absent:
                await self._delete_object(one)
        memory.absent = frozenset(one.metadata.uid for one in found.stale)
        now = self._clock.now()
        status = rules.shown_condition(volume, taken=taken, unnamable=found.unnamable, now=now)
        status = rules.limits_condition(volume, status, memory.refused, now=now)
        await self._write_volume(volume, status)

    async def _create_object(self, name: str, volume: Volume) -> bool:
        """Whether the entry has its object now. The name may be another volume's."""
        there = self._lookup.snapshots.get(Key(volume.metadata.namespace, name))
        if there is None:
            try:
                await self._client.create(ENGINE_SNAPSHOTS, rules.object_for(name, volume))
            except AlreadyExists:
                return True  # made a moment ago, by us or by a user: if it is not ours, the next poll knows
            self._metrics.objects.labels("made").inc()
            return True
        return belongs_to(there, volume)

    async def _delete_object(self, snapshot: Snapshot) -> None:
        meta = snapshot.metadata
        try:
            await self._client.delete(ENGINE_SNAPSHOTS, meta.name, meta.namespace, uid=meta.uid)
        except (NotFound, Conflict):  # gone already, or another one of the name by now
            return
        self._metrics.objects.labels("removed").inc()

    async def _write_volume(self, volume: Volume, status: VolumeStatus) -> None:
        change = merge_patch(volume.status, status)
        if change is not None:
            await patch_seen(self._client, VOLUMES, volume, {"status": change}, subresource="status")


def _matters(old: Volume | None, new: Volume | None) -> bool:
    """That it comes or goes, and what its engine has to be told."""
    return comes_or_goes(old, new) or (old is not None and new is not None and wanted_limits(old) != wanted_limits(new))


def _starts_or_stops(old: Engine | None, new: Engine | None) -> bool:
    """What it says itself, and what we wrote of it, is no reason to poll it."""
    return old is None or new is None or old.status.current_state != new.status.current_state
