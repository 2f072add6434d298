"""Attempts that never became anything: how long each has been seen, and what the API server says of those past expiry.

Most attempts are settled by a view within moments. What is left was refused by another webhook, or its client went away, or
its object is unknown for some other reason. Expiry is measured on our own clock from our first sight of the attempt, so it
does not matter whose clock booked it; where the API server was silent since, from when it answers again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Hashable, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from ullage.clock import Clock
from ullage.errors import UllageError
from ullage.ledger.api import NAMESPACE
from ullage.ledger.book import AttemptId, Book
from ullage.ledger.fold import Live, LiveReads, expired, still_seen
from ullage.ledger.keys import cluster_of, source_of
from ullage.ledger.metrics import Metrics
from ullage.ledger.service.sources import LimitSource, Source, Sources

logger = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

REQUEST_SECONDS: Final = 34.0
"""After which kube-apiserver ends a create, an update, a patch or a delete, whatever its `--request-timeout` says
(`requestTimeoutUpperBound`), and so does the embedded server."""

STORAGE_SECONDS: Final = 7.0
"""What etcd may take besides, with its defaults: 5 s and two elections. To end the handler does not end the commit."""

MARGIN_SECONDS: Final = 4.0
ELSEWHERE_SECONDS: Final = 75.0  # for API servers of other clusters: what they were told is not known

EVERY: Final = 1.0  # seconds between two questions
SILENT: Final = 5.0  # seconds without an answer after which a wait begins anew
AT_ONCE = 16  # live reads of one ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All in seconds but `batch`. An attempt past `expiry` can be stored no more: it is longer than `request_timeout`, in which
    the API server works at a write, and what its storage takes besides."""

    namespace: str = NAMESPACE
    request_timeout: float = REQUEST_SECONDS
    expiry: float = REQUEST_SECONDS + STORAGE_SECONDS + MARGIN_SECONDS
    expiry_elsewhere: float = ELSEWHERE_SECONDS
    pause: float = 0.010  # between two batches; where other processes write too, also twice as long as the last write took
    batch: int = 500  # decisions in one write
    call: float = 5.0  # after which a call to the API counts as lost
    margin: float = 0.5  # before its deadline, when a request that waits for room is answered
    grant_wait: float = 3.0  # for how long a request waits for room of a grant, at most

    def __post_init__(self) -> None:
        if self.expiry <= self.request_timeout:
            raise ValueError(
                f"attempts that expire after {self.expiry} s could still commit: requests take {self.request_timeout} s"
            )

    @classmethod
    def of(cls, *, request_timeout: float, storage_timeout: float, elsewhere: float = ELSEWHERE_SECONDS) -> Settings:
        """For an API server that works so long at a write at most, and whose storage takes so long besides; those of other
        clusters take so long in all."""
        expiry = request_timeout + storage_timeout + MARGIN_SECONDS
        return cls(request_timeout=request_timeout, expiry=expiry, expiry_elsewhere=elsewhere)

    def expiry_in(self, cluster: str) -> float:
        """The empty name is our own."""
        return self.expiry_elsewhere if cluster else self.expiry


class Expiry:
    """What one process knows of the attempts of one ledger."""

    def __init__(self, sources: Sources, pulse: Pulse, *, settings: Settings, clock: Clock, metrics: Metrics) -> None:
        self._sources = sources
        self._pulse = pulse
        self._settings = settings
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
        self._first_seen = still_seen(book, self._first_seen, self._clock.monotonic(), answers_since=self._pulse.since)
        for cluster in self._clusters(book):
            self._pulse.keep(cluster, 2 * self._settings.expiry_in(cluster))
        if self._live:
            self._live = {one: live for one, live in self._live.items() if one in self._first_seen}

    def due(self, book: Book) -> list[AttemptId]:
        """The attempts that a live read would settle, and that have had none."""
        now = self._clock.monotonic()
        self._first_seen = still_seen(book, self._first_seen, now, answers_since=self._pulse.since)
        late = expired(book, self._first_seen, now, self._settings.expiry_in)
        return [one for one in late if self._source(one) and one not in self._live]

    def next_due(self) -> float | None:
        """Seconds until the next attempt expires; None where none is left to wait for."""
        ends = [
            seen + self._settings.expiry_in(cluster_of(source_of(one.key)))
            for one, seen in self._first_seen.items()
            if self._source(one) and one not in self._live
        ]
        return max(0.0, min(ends) - self._clock.monotonic()) if ends else None

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
            async with asyncio.timeout(self._settings.call):
                self._live[one] = await source.live(one.key)
        except (UllageError, TimeoutError) as error:
            logger.info("attempt could not be looked at", extra={"key": one.key, "error": str(error)})

    def _clusters(self, book: Book) -> Set[str]:
        """Where something is under way."""
        if not self._sources.elsewhere:
            return {""} if book.attempts() else set()
        return {cluster_of(source_of(one.key)) for one in book.attempts()}

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


@dataclass(slots=True)
class _Heard:
    """What is known of one server, on our own clock."""

    since: float  # when it began to answer without a break
    asked: float  # when the last question was asked that was answered
    until: float  # how long it is asked


class Pulse:
    """Since when API servers answer, as one process knows it. A write that is under way when a server, or its storage, stands
    still may be stored once it goes on. So while attempts are waited for, a server is asked once a second for something that it
    cannot answer without its storage. Where no answer came for five seconds the wait begins anew. Time in which nothing was
    asked counts as silence too: it proves nothing.

    It asks as long as something is waited for, and ends by itself."""

    def __init__(self, sources: Sources, *, call: float, clock: Clock) -> None:
        self._sources = sources
        self._call = call  # seconds after which a call counts as lost
        self._clock = clock
        self._heard: dict[str, _Heard] = {}  # by cluster
        self._tasks: dict[str, asyncio.Task[None]] = {}  # by cluster

    def keep(self, cluster: str, seconds: float) -> None:
        """Has a server asked for so long from now on."""
        now = self._clock.monotonic()
        heard = self._heard.get(cluster)
        if heard is None:
            heard = self._heard[cluster] = _Heard(now, now, now)
        heard.until = max(heard.until, now + seconds)
        if cluster not in self._tasks:
            task = self._tasks[cluster] = asyncio.create_task(self._ask_until_due(cluster), name=f"pulse {cluster}")
            task.add_done_callback(lambda _: self._tasks.pop(cluster, None))

    def since(self, cluster: str) -> float:
        """The moment since which a server has answered without a break; now, where it does not or is not asked."""
        heard, now = self._heard.get(cluster), self._clock.monotonic()
        return now if heard is None or self._is_silent(heard, now) else heard.since

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _is_silent(self, heard: _Heard, now: float) -> bool:
        return now - heard.asked > SILENT

    async def _ask_until_due(self, cluster: str) -> None:
        while (began := self._clock.monotonic()) < self._heard[cluster].until:
            if await self._answers(cluster):
                heard, now = self._heard[cluster], self._clock.monotonic()
                # From question to answer: it answered at some moment between, and may have stood still before and after.
                if now - heard.asked > SILENT:
                    heard.since = now
                heard.asked = began
            await asyncio.sleep(EVERY)

    async def _answers(self, cluster: str) -> bool:
        source = next((one for one in self._sources.in_cluster(cluster) if one.synced), None)
        if source is None:
            return False
        try:
            async with asyncio.timeout(self._call):
                await source.latest()
        except (UllageError, TimeoutError) as error:
            logger.info("an API server does not answer", extra={"cluster": cluster, "error": str(error)})
            return False
        return True
