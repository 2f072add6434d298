"""The background fold: what no booking writes down, the leader does.

Whoever books folds in the same write, so a busy ledger needs nobody else; a separate writer would lose nearly every race
there. This one waits until no booking has touched a ledger for a second, writes at most once a second, and only if that says
more than that time has passed. It also sees to attempts that never became anything, and to `Ready`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from ullage.clock import Clock, SystemClock
from ullage.errors import UllageError
from ullage.kube import metrics as kube_metrics
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.controller.controller import Controller, Requeue, own
from ullage.kube.controller.controller import Source as Waker
from ullage.kube.errors import Conflict, NotFound
from ullage.kube.objects import is_true
from ullage.ledger.api import LEDGERS, Ledger, LedgerStatus
from ullage.ledger.codec import READY, book_of, newly_limited, says_more, status_of
from ullage.ledger.metrics import Metrics
from ullage.ledger.readiness import with_positions
from ullage.ledger.service.batcher import LedgerApi, Settings
from ullage.ledger.service.decisions import folded_from, uncounted_in
from ullage.ledger.service.expiry import Expiry
from ullage.ledger.service.views import KindView, sources_by_name

logger = logging.getLogger(__name__)

QUIET: Final = 1.0  # seconds without a booking, and between two folds of one ledger
SHORTEST: Final = 0.001  # seconds that are worth a wait
READY_LOOK: Final = 5.0  # how often a ledger that is not exact yet is looked at


class Folder:
    """For the leader only. It may be wrong about that: the view's position protects the ledger, not the lease."""

    def __init__(
        self,
        api: LedgerApi,
        views: Iterable[KindView[Any]],
        ledgers: Cache[Ledger],
        *,
        settings: Settings | None = None,
        clock: Clock | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self._api = api
        self._views = tuple(views)
        self._sources = sources_by_name(*self._views)
        self._ledgers = ledgers
        self._settings = settings or Settings()
        self._clock = clock or SystemClock()
        self._metrics = metrics or Metrics()
        self._tracks: dict[str, _Track] = {}

    def controller(self, *, metrics: kube_metrics.Metrics | None = None) -> Controller[Key]:
        """Woken by ledgers that changed, and by objects that are in them."""
        sources: list[Waker[Any, Key]] = [own(self._ledgers)]
        sources += [Waker(view.cache, self._keys(view)) for view in self._views]
        return Controller("ledgers", sources, self.reconcile, clock=self._clock, metrics=metrics)

    def _keys(self, view: KindView[Any]) -> Callable[[Any], Iterable[Key]]:
        def keys(obj: Any) -> Iterable[Key]:
            ledger = view.ledger_of(obj)
            return (Key(self._settings.namespace, ledger),) if ledger else ()

        return keys

    async def reconcile(self, key: Key) -> Requeue | None:
        ledger = self._ledgers.get(key)
        if ledger is None or key.namespace != self._settings.namespace:
            self._tracks.pop(key.name, None)
            return None
        if self._ledgers.doubtful:
            return Requeue(QUIET)
        track = self._track(key.name)
        if wait := track.quiet_in(ledger, self._clock.monotonic()):
            return Requeue(wait)
        await self._look(ledger, track)
        positions = await self._positions(ledger, track)
        if self._ledgers.get(key) is not ledger:
            return Requeue(QUIET)
        status = self._folded(ledger, track, positions)
        if says_more(ledger.status, status):
            await self._write(ledger, status, track)
        return self._next(status, track)

    def _track(self, name: str) -> _Track:
        found = self._tracks.get(name)
        if found is None:
            expiry = Expiry(self._sources, expiry=self._settings.expiry, clock=self._clock, metrics=self._metrics)
            found = self._tracks[name] = _Track(expiry)
        return found

    async def _look(self, ledger: Ledger, track: _Track) -> None:
        known = book_of(ledger, now=self._clock.now())
        track.expiry.see(known, int(ledger.metadata.resource_version))
        if due := track.expiry.due(known):
            await track.expiry.read(due)

    async def _positions(self, ledger: Ledger, track: _Track) -> Mapping[str, int]:
        """By source, a position from which counts are exact: read when all requests have ended that the ledger did not see."""
        missing = [name for name in self._sources if name not in ledger.status.exact_from]
        if not missing or not track.unseen_have_ended(ledger, self._clock.monotonic(), self._settings.request_timeout):
            return {}
        read: dict[str, int] = {}
        for name in missing:
            try:
                read[name] = await self._sources[name].latest()
            except UllageError as error:
                logger.info("position could not be read", extra={"source": name, "error": str(error)})
        return read

    def _folded(self, ledger: Ledger, track: _Track, positions: Mapping[str, int]) -> LedgerStatus:
        now = self._clock.now()
        known = book_of(ledger, now=now)
        if not newly_limited(ledger, known):
            known = with_positions(known, positions)
        name = ledger.metadata.name
        return status_of(
            folded_from(known, name, sources=self._sources, live=track.expiry.live),
            ledger,
            sources=self._sources.keys(),
            now=now,
            uncounted=uncounted_in(name, self._sources),
        )

    async def _write(self, ledger: Ledger, status: LedgerStatus, track: _Track) -> None:
        wanted = msgspec.structs.replace(ledger, status=status)
        began = self._clock.monotonic()
        result = "lost"
        try:
            async with asyncio.timeout(self._settings.call):
                written = await self._api.update_status(LEDGERS, wanted)
            result = "written"
            track.own = written.metadata.resource_version
            self._metrics.folds.inc()
            self._metrics.written_bytes.inc(len(msgspec.json.encode(wanted)))
        except (Conflict, NotFound):
            result = "conflict"  # somebody books, and folds while at it
        except TimeoutError:
            pass  # done or not, the next look shows it
        finally:
            track.wrote_at = self._clock.monotonic()
            self._metrics.writes.labels(result).inc()
            self._metrics.write_seconds.observe(track.wrote_at - began)

    def _next(self, status: LedgerStatus, track: _Track) -> Requeue | None:
        """Attempts expire, and a count becomes exact, without an event to say so."""
        moments = [] if is_true(status.conditions, READY) else [READY_LOOK]
        if status.pending:
            expiry = track.expiry.next_due()
            moments.append(READY_LOOK if expiry is None else max(QUIET, expiry))
        return Requeue(min(moments)) if moments else None


@dataclass(slots=True)
class _Track:
    """What the folder knows of one ledger besides the ledger."""

    expiry: Expiry
    version: str = ""  # that was seen last
    touched_at: float = float("-inf")  # when somebody else was seen to write it
    own: str = ""  # the version that a fold of ours got
    wrote_at: float = float("-inf")
    since: str = ""  # when the first limits were noticed that are waited for, by the clock of whoever did
    since_seen_at: float = float("inf")

    def unseen_have_ended(self, ledger: Ledger, now: float, timeout: float) -> bool:
        """Whether all requests have ended that were admitted before the ledger, or its latest first limit, was written: on our
        own clock, from our first sight of that, so it does not matter what time it is elsewhere."""
        since = ledger.status.since
        if since != self.since:
            self.since, self.since_seen_at = since, now
        return bool(ledger.status.since) and now - self.since_seen_at > timeout

    def quiet_in(self, ledger: Ledger, now: float) -> float:
        """Seconds until a fold would be in nobody's way; 0 where it is now."""
        version = ledger.metadata.resource_version
        if version != self.version:
            first = not self.version
            self.version = version
            if version != self.own and not first:
                self.touched_at = now
        wait = QUIET - (now - max(self.touched_at, self.wrote_at))
        return wait if wait > SHORTEST else 0.0
