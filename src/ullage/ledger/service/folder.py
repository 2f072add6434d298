"""The background fold: what no booking writes down, the leader does.

Whoever books folds in the same write, so a busy ledger needs nobody else; a separate writer would lose nearly every race
there. This one waits until no booking has touched a ledger for a second, writes at most once a second, and only if that says
more than that time has passed. It also sees to attempts that never became anything, and to `Ready`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Final

from ullage.clock import Clock, SystemClock
from ullage.errors import UllageError
from ullage.kube import metrics as kube_metrics
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.controller.controller import Controller, Requeue, own
from ullage.kube.errors import Conflict, NotFound
from ullage.kube.objects import is_true
from ullage.ledger.amounts import Cell, Waiter, Wanted
from ullage.ledger.anew import with_lost_bookings, with_restored
from ullage.ledger.api import LEDGERS, Ledger, LedgerStatus
from ullage.ledger.book import Book
from ullage.ledger.codec import READY, book_of, newly_limited, says_more, status_of
from ullage.ledger.demand import without_demand, without_waiters
from ullage.ledger.fold import clusters_in, left_over, without_clusters, without_sources
from ullage.ledger.keys import cluster_of, kind_of
from ullage.ledger.metrics import Metrics
from ullage.ledger.readiness import is_known, with_needed, with_positions
from ullage.ledger.service.charging_leases import LiveKinds
from ullage.ledger.service.decisions import folded_from, uncounted_in
from ullage.ledger.service.expiry import Expiry, Pulse, Settings, Sightings
from ullage.ledger.service.first_counts import FirstCounts
from ullage.ledger.service.restores import Positions, Remembered
from ullage.ledger.service.sources import Sources
from ullage.ledger.service.writes import LedgerApi, draft, write

logger = logging.getLogger(__name__)

QUIET: Final = 1.0  # seconds without a booking, and between two folds of one ledger
SHORTEST: Final = 0.001  # seconds that are worth a wait
FORGOTTEN: Final = 60.0  # seconds after which a demand that nobody has renewed goes
GONE: Final = 20.0  # seconds after which one who waits, and has not asked again, goes
READY_LOOK: Final = 5.0  # how often a ledger that is not exact yet is looked at


class Folder:
    """For the leader only. It may be wrong about that: the view's position protects the ledger, not the lease."""

    def __init__(
        self,
        api: LedgerApi,
        sources: Sources,
        ledgers: Cache[Ledger],
        *,
        settings: Settings | None = None,
        clock: Clock | None = None,
        metrics: Metrics | None = None,
        pulse: Pulse | None = None,
        live_kinds: LiveKinds | None = None,
    ) -> None:
        """Without `live_kinds` nothing is known of other processes: what they may charge for stays."""
        self._api = api
        self._sources = sources
        self._ledgers = ledgers
        self._settings = settings or Settings()
        self._clock = clock or SystemClock()
        self._metrics = metrics or Metrics()
        self._pulse = pulse or Pulse(sources, call=self._settings.call, clock=self._clock)
        self._live_kinds = live_kinds
        self._tracks: dict[str, _Track] = {}
        self._asked = Positions(sources, call=self._settings.call)

    def controller(self, *, metrics: kube_metrics.Metrics | None = None) -> Controller[Key]:
        """Woken by ledgers that changed, and by objects that are in them, wherever those are."""
        found = Controller("ledgers", [own(self._ledgers)], self.reconcile, clock=self._clock, metrics=metrics)
        self._sources.handle(lambda ledger: found.queue.add(Key(self._settings.namespace, ledger)))
        return found

    async def reconcile(self, key: Key) -> Requeue | None:
        ledger = self._ledgers.get(key)
        if ledger is None or key.namespace != self._settings.namespace:
            self._tracks.pop(key.name, None)
            return None
        if self._ledgers.doubtful or not self._begun():
            return Requeue(QUIET)
        track = self._track(key.name)
        if track.remembered.is_newer_than(ledger) and not await self._is_restored(ledger, track):
            return Requeue(QUIET)
        if wait := track.quiet_in(ledger, self._clock.monotonic()):
            return Requeue(wait)
        await self._look(ledger, track)
        await track.first.read(ledger, book_of(ledger, now=self._clock.now()))
        positions = await self._positions(ledger, track)
        removed = await self._removed(ledger)
        behind = await self._asked.behind(book_of(ledger, now=self._clock.now()), key.name)
        left = await self._left_over(ledger, track)
        if self._ledgers.get(key) is not ledger:
            return Requeue(QUIET)
        status = self._folded(ledger, track, positions, removed, behind, left)
        if says_more(ledger.status, status):
            await self._write(ledger, status, track)
        if track.first.waits(book_of(ledger, now=self._clock.now())):
            return Requeue(QUIET)
        return self._next(status, track)

    def _begun(self) -> bool:
        """Before that, what is missing may be there."""
        synced = all(source.synced for source in self._sources.own.values())
        return self._sources.complete and synced and not self._sources.unread_limits()

    def _track(self, name: str) -> _Track:
        found = self._tracks.get(name)
        if found is None:
            expiry = Expiry(self._sources, self._pulse, settings=self._settings, clock=self._clock, metrics=self._metrics)
            first = FirstCounts(name, self._sources, call=self._settings.call, clock=self._clock)
            found = self._tracks[name] = _Track(expiry, first)
        return found

    async def _is_restored(self, ledger: Ledger, track: _Track) -> bool:
        """Whether a ledger that a cache has is older than one that we saw because the API itself has no newer one. Else the
        cache is behind; or it has not noticed that it follows another history, and then reads that anew."""
        meta = ledger.metadata
        live = await self._api.find(LEDGERS, meta.name, meta.namespace)
        if live is None or not track.remembered.is_newer_than(live):
            return False
        if live.metadata.resource_version != meta.resource_version:
            self._ledgers.renew()
            return False
        return True

    async def _look(self, ledger: Ledger, track: _Track) -> None:
        known = book_of(ledger, now=self._clock.now())
        track.expiry.see(known, int(ledger.metadata.resource_version))
        if due := track.expiry.due(known):
            await track.expiry.read(due)

    async def _positions(self, ledger: Ledger, track: _Track) -> Mapping[str, int]:
        """By source, a position from which counts are exact: read when all requests have ended that the ledger did not see."""
        known, name = book_of(ledger, now=self._clock.now()), ledger.metadata.name
        asked = await self._asking(known, name, track)
        track.note(ledger, asked, self._clock.monotonic())
        read: dict[str, int] = {}
        for source in sorted(asked):
            found = self._sources.get(source)
            if is_known(known, source) or found is None or not found.followed:
                continue
            if not self._unseen_have_ended(ledger, source, track):
                continue
            try:
                async with asyncio.timeout(self._settings.call):
                    read[source] = await found.latest()
            except (UllageError, TimeoutError) as error:
                logger.info("position could not be read", extra={"source": source, "error": str(error)})
        return read

    def _unseen_have_ended(self, ledger: Ledger, source: str, track: _Track) -> bool:
        """Whether all requests have ended that were admitted before the ledger, or its latest first limit, was written, or
        before requests of the source were asked about: on our own clock, from our first sight of that, so it does not matter
        what time it is elsewhere; and not while, or before, the API server was silent."""
        cluster = cluster_of(source)
        expiry = self._settings.expiry_in(cluster)
        self._pulse.keep(cluster, 2 * expiry)
        begun = max(track.unseen_since(source), self._pulse.since(cluster))
        return bool(ledger.status.since) and self._clock.monotonic() - begun > expiry

    async def _asking(self, known: Book, name: str, track: _Track) -> frozenset[str]:
        """The sources of which all requests are asked about that begin now. Of one that is new, its server is asked whether it
        was told to."""
        found = set()
        for source in filter(self._sources.asked, sorted(self._sources.needed(name))):
            if is_known(known, source) or source in track.asked_since or await self._begins(source):
                found.add(source)
        return frozenset(found)

    async def _begins(self, name: str) -> bool:
        asks, source = self._sources.asks(name), self._sources.get(name)
        if asks is None:
            return True
        if source is None or not source.followed:
            return False
        try:
            async with asyncio.timeout(self._settings.call):
                return await asks()
        except (UllageError, TimeoutError) as error:
            logger.info("whether a cluster asks could not be read", extra={"source": name, "error": str(error)})
            return False

    async def _removed(self, ledger: Ledger) -> frozenset[str]:
        """The clusters that the ledger has something of, and that were removed on purpose: asked for after the ledger was read,
        so that it cannot have anything of one that came since under the same name."""
        unknown = [one for one in clusters_in(book_of(ledger, now=self._clock.now())) if not self._sources.is_placed(one)]
        removed: set[str] = set()
        for cluster in sorted(unknown):
            try:
                async with asyncio.timeout(self._settings.call):
                    if await self._sources.removed(cluster):
                        removed.add(cluster)
            except (UllageError, TimeoutError) as error:
                logger.info("nobody can say whether a cluster was removed", extra={"cluster": cluster, "error": str(error)})
        return frozenset(removed)

    def _folded(
        self,
        ledger: Ledger,
        track: _Track,
        positions: Mapping[str, int],
        removed: frozenset[str],
        behind: frozenset[str],
        left: _LeftOver,
    ) -> LedgerStatus:
        now, name = self._clock.now(), ledger.metadata.name
        known = without_sources(without_clusters(book_of(ledger, now=now), removed), left.gone)
        if track.remembered.is_newer_than(ledger):
            known = with_lost_bookings(known, self._sources.own, now, above=track.remembered.epoch)
            positions = {}
        else:
            track.remembered.see(ledger)
        known = without_demand(known, track.forgotten(known.demand, self._clock.monotonic()))
        known = without_waiters(known, track.waiting.older(known.waiting, self._clock.monotonic(), than=GONE))
        if behind:
            known, positions = with_restored(known, behind, now), {}
        if not newly_limited(ledger, known):
            known = with_positions(known, positions)
        needed = self._sources.needed_elsewhere(name)
        known = with_needed(known, {one for one in needed if not (is_known(known, one) and self._sources.asked(one))})
        sources = {
            source: found
            for source, found in self._sources.of(name, counted=known.observed).items()
            if cluster_of(source) not in removed
        }
        return status_of(
            folded_from(
                known,
                name,
                sources=sources,
                live=track.expiry.live,
                limits=self._sources.limit_views(name),
                now=now,
                shows_all=track.first.shows_all,
            ),
            ledger,
            sources=self._sources.needed(name),
            now=now,
            uncounted=uncounted_in(name, sources),
            uncharged=left.uncharged - left.gone,
        )

    async def _left_over(self, ledger: Ledger, track: _Track) -> _LeftOver:
        """What the ledger has of kinds that this process does not charge: what no live process charges either; and of that what
        goes now, since none has for as long as bookings take to expire, and since all that may pay in its place was counted
        after that."""
        known, name = book_of(ledger, now=self._clock.now()), ledger.metadata.name
        others = left_over(known, self._sources.kinds)
        track.has_left_over = bool(others) and self._live_kinds is not None and self._sources.charges(name)
        if not track.has_left_over or self._live_kinds is None:
            track.stand_ins = {}
            return _LeftOver()
        if not await self._live_kinds.look():
            return _LeftOver()
        uncharged = frozenset(one for one in others if not self._live_kinds.charged(kind_of(one)))
        # A release that says nothing in Leases shows by what it counts.
        views = {one: found.view if (found := known.observed.get(one)) else 0 for one in uncharged}
        idle = {
            one
            for one in track.views.older(views, self._clock.monotonic(), than=self._settings.expiry)
            if self._live_kinds.idle(kind_of(one)) > self._settings.expiry_in(cluster_of(one))
        }
        if not idle:
            track.stand_ins = {}
        elif not track.stand_ins:
            track.stand_ins = await self._latest(name)
        counted = bool(track.stand_ins) and self._has_counted(name, track.stand_ins)
        return _LeftOver(uncharged, frozenset(idle) if counted else frozenset())

    async def _latest(self, name: str) -> dict[str, int]:
        """By source, how far the servers have come; nothing where one of them cannot tell."""
        read: dict[str, int] = {}
        for source in sorted(self._sources.needed(name)):
            found = self._sources.get(source)
            try:
                async with asyncio.timeout(self._settings.call):
                    read[source] = await found.latest() if found is not None else -1
            except (UllageError, TimeoutError) as error:
                logger.info("position could not be read", extra={"source": source, "error": str(error)})
                return {}
            if found is None:
                return {}
        return read

    def _has_counted(self, name: str, positions: Mapping[str, int]) -> bool:
        """Whether everything is counted by this process that the servers had at these positions."""
        found = [(self._sources.get(source), position) for source, position in positions.items()]
        return all(one is not None and one.usable(name) and one.of(name).position >= position for one, position in found)

    async def _write(self, ledger: Ledger, status: LedgerStatus, track: _Track) -> None:
        wanted = draft(ledger, status)
        try:
            written = await write(self._api, wanted, timeout=self._settings.call, clock=self._clock, metrics=self._metrics)
            track.own = written.metadata.resource_version
            track.remembered.see(written)
            self._metrics.folds.inc()
        except (Conflict, NotFound):
            pass  # somebody books, and folds while at it
        finally:
            track.wrote_at = self._clock.monotonic()

    def _next(self, status: LedgerStatus, track: _Track) -> Requeue | None:
        """Attempts expire, a count becomes exact, and somebody can say whether a cluster was removed, without an event."""
        moments = [] if is_true(status.conditions, READY) else [READY_LOOK]
        clusters = {cluster_of(source) for source in (*status.observed, *status.exact_from)} - {""}
        if any(not self._sources.is_placed(cluster) for cluster in clusters):
            moments.append(READY_LOOK)
        if track.has_left_over:
            moments.append(READY_LOOK)
        if status.demand:
            moments.append(FORGOTTEN)
        if status.waiting:
            moments.append(GONE)
        expiry = track.expiry.next_due()
        if status.pending:
            moments.append(READY_LOOK if expiry is None else max(QUIET, expiry))
        elif expiry is not None:  # of limits that are on their way
            moments.append(max(QUIET, expiry))
        return Requeue(min(moments)) if moments else None


@dataclass(frozen=True, slots=True)
class _LeftOver:
    """Of a ledger: the sources that no live process charges, and those of them that go now."""

    uncharged: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Track:
    """What the folder knows of one ledger besides the ledger."""

    expiry: Expiry
    first: FirstCounts
    remembered: Remembered = field(default_factory=Remembered)
    version: str = ""  # that was seen last
    touched_at: float = float("-inf")  # when somebody else was seen to write it
    own: str = ""  # the version that a fold of ours got
    wrote_at: float = float("-inf")
    since: str = ""  # when the first limits were noticed that are waited for, by the clock of whoever did
    since_seen_at: float = float("inf")
    asked_since: dict[str, float] = field(default_factory=dict)  # by source: since when all requests there are asked about

    demand: Sightings[Cell, Wanted] = field(default_factory=Sightings)
    waiting: Sightings[str, Waiter] = field(default_factory=Sightings)
    views: Sightings[str, int] = field(default_factory=Sightings)  # the positions of sources that no live process charges
    has_left_over: bool = False  # whether the ledger has something of kinds that this process does not charge
    stand_ins: dict[str, int] = field(default_factory=dict)  # by source: up to where it is counted before those go

    def note(self, ledger: Ledger, asked: Set[str], now: float) -> None:
        since = ledger.status.since
        if since != self.since:
            self.since, self.since_seen_at = since, now
        self.asked_since = {source: self.asked_since.get(source, now) for source in asked}

    def unseen_since(self, source: str) -> float:
        """When we first saw that the ledger, or its latest first limit, is written, and that requests there are asked about."""
        return max(self.since_seen_at, self.asked_since[source])

    def forgotten(self, demand: Mapping[Cell, Wanted], now: float) -> list[Cell]:
        """The demands that nobody has asked for since we first saw them as they are: on our own clock."""
        return self.demand.older(demand, now, than=FORGOTTEN)

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
