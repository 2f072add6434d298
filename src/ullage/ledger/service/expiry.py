"""Attempts that never became anything: how long each has been seen, and what the API server says of those past expiry.

Most attempts are settled by a view within moments. What is left was refused by another webhook, or its client went away, or
its object is unknown for some other reason. Expiry is measured on our own clock from our first sight of the attempt, so it
does not matter whose clock booked it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, TypeVar

from ullage.clock import Clock
from ullage.errors import UllageError
from ullage.ledger.book import AttemptId, Book
from ullage.ledger.fold import Live, LiveReads, expired, still_seen
from ullage.ledger.keys import source_of
from ullage.ledger.metrics import Metrics
from ullage.ledger.service.sources import LimitSource, Source, Sources

logger = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

AT_ONCE = 16  # live reads of one ledger


class Expiry:
    """What one process knows of the attempts of one ledger."""

    def __init__(self, sources: Sources, *, expiry: float, call: float, clock: Clock, metrics: Metrics) -> None:
        self._sources = sources
        self._expiry = expiry
        self._call = call
        self._clock = clock
        self._metrics = metrics
        self._first_seen: dict[AttemptId, float] = {}
        self._live: dict[AttemptId, Live] = {}
        self._version = 0

    @property
    def live(self) -> LiveReads:
        """What was read of attempts that had expired by then. It stays true: nothing of theirs can commit any more."""
        return self._live

    def see(self, book: Book, version: int) -> None:
        """Notes the attempts of a book that is, or was, in the API as this version of its ledger. One that is older than one
        that was seen comes from a backup: nothing that was read before holds for it."""
        if version < self._version:
            self._first_seen, self._live = {}, {}
        self._version = version
        self._first_seen = still_seen(book, self._first_seen, self._clock.monotonic())
        if self._live:
            self._live = {one: live for one, live in self._live.items() if one in self._first_seen}

    def due(self, book: Book) -> list[AttemptId]:
        """The attempts that a live read would settle, and that have had none."""
        late = expired(book, self._first_seen, self._clock.monotonic(), self._expiry)
        return [one for one in late if self._source(one) and one not in self._live]

    def next_due(self) -> float | None:
        """Seconds until the next attempt expires; None where none is left to wait for."""
        waiting = [seen for one, seen in self._first_seen.items() if self._source(one) and one not in self._live]
        return max(0.0, min(waiting) + self._expiry - self._clock.monotonic()) if waiting else None

    async def read(self, due: Iterable[AttemptId]) -> None:
        """Asks the API server about each. What cannot be read now stays due."""
        rest = list(due)
        for start in range(0, len(rest), AT_ONCE):
            await asyncio.gather(*(self._read(one) for one in rest[start : start + AT_ONCE]))

    async def _read(self, one: AttemptId) -> None:
        source = self._source(one)
        if source is None:
            return
        self._metrics.live_reads.inc()
        try:
            async with asyncio.timeout(self._call):
                self._live[one] = await source.live(one.key)
        except (UllageError, TimeoutError) as error:
            logger.info("attempt could not be looked at", extra={"key": one.key, "error": str(error)})

    def _source(self, one: AttemptId) -> Source | LimitSource | None:
        """Where an answer can be had now. If we do not follow the kind at all, whoever does will see to it."""
        found = self._sources.live_of(source_of(one.key))
        return found if found is not None and found.followed else None


class Sightings(Generic[K, V]):
    """Values by key, each with when it was first seen as it is. Of those that are gone nothing is kept."""

    def __init__(self) -> None:
        self._seen: dict[K, tuple[V, float]] = {}

    def older(self, now_there: Mapping[K, V], now: float, *, than: float) -> list[K]:
        """The keys whose values have been the same for so many seconds. To be told of all of them each time."""
        before, self._seen = self._seen, {}
        for key, one in now_there.items():
            known, first = before.get(key, (one, now))
            self._seen[key] = one, first if known == one else now
        return [key for key, (_, first) in self._seen.items() if now - first >= than]
