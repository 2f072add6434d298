"""What the ledgers of a process are counted from: the kinds of our own cluster, and those of others, which come and go.

Every ledger needs all sources of our own cluster. Of other clusters it needs those that it was said to have objects in, and no
others: a cluster that cannot be reached keeps nobody waiting who has nothing there. What a ledger needs is one thing, and
whether somebody can be asked now is another: a cluster whose credentials cannot be read is needed all the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final, Protocol

from ullage.ledger.fold import Live, View
from ullage.ledger.keys import cluster_of, namespace_of, source_name, source_of
from ullage.ledger.limiting.in_flight import LimitView

Removed = Callable[[str], Awaitable[bool]]
"""Whether a cluster was removed on purpose, by a read of the API that begins when this is asked. Raises if nobody can tell."""

Asks = Callable[[str], Awaitable[bool]]
"""Whether the API server of a cluster is told to ask us by now, by a read of it that begins when this is asked. Raises if
nobody can tell."""


class Source(Protocol):
    """A kind as a ledger sees it: folded while it is usable, read live where an attempt is past expiry."""

    @property
    def name(self) -> str:
        """As in `keys.source_of`."""

    @property
    def synced(self) -> bool:
        """Whether everything was read once."""

    @property
    def followed(self) -> bool:
        """Whether the server is heard now. If not, to ask it something would only keep everybody waiting."""

    def usable(self, ledger: str) -> bool:
        """Whether everything that the server had at the position, and that is in the ledger, is counted."""

    @property
    def session(self) -> int:
        """Another number whenever the server was lost or found: what was read before may be of another history."""

    def see(self, ledger: str, epoch: int) -> None:
        """A ledger counts the source in this epoch. One that is new here has everything listed anew (`View.epoch`)."""

    def uncounted(self, ledger: str) -> tuple[str, ...]:
        """The keys of objects in the ledger that cannot be counted, in order."""

    def complete_at(self) -> datetime:
        """The moment up to which nothing is missing: not later than when the server was last heard."""

    def of(self, ledger: str) -> View:
        """A window on one ledger. It moves on: to be used up before anything else has a turn."""

    async def live(self, key: str) -> Live:
        """What the server itself has under a ledger key."""

    async def listed(self, ledger: str) -> Callable[[], bool]:
        """Reads from the server itself what is in the ledger's namespace; whether all of that is counted by now."""

    async def latest(self) -> int:
        """The position that the server itself has reached: all that was committed before this was asked is in it."""

    def handle(self, changed: Callable[[str], None]) -> None:
        """Has every ledger told in which something comes, changes or goes."""


class LimitSource(Protocol):
    """A kind of objects that set limits, as a process sees it."""

    @property
    def name(self) -> str:
        """The kind's."""

    @property
    def synced(self) -> bool:
        """Whether everything was read once."""

    @property
    def followed(self) -> bool:
        """Whether the server is heard now."""

    def of(self, ledger: str) -> LimitView:
        """A window on one ledger."""

    async def live(self, key: str) -> Live:
        """What the server itself has under a ledger key."""

    def handle(self, changed: Callable[[str], None]) -> None:
        """Has every ledger told in which limits are set, changed or taken away."""


@dataclass(frozen=True, slots=True)
class _Placed:
    """A cluster, and the ledgers that its objects are in."""

    ledgers: frozenset[str]
    asked: bool  # whether every request there is asked about by now


class Sources:
    """`Sources(view, …)` of our own cluster. Those of others are added and dropped while everything runs."""

    def __init__(self, *own: Source) -> None:
        self.own: Final[dict[str, Source]] = {}
        self.limits: Final[dict[str, LimitSource]] = {}
        self._others: dict[str, Source] = {}
        self._kinds: dict[str, Removed] = {}  # that are counted in other clusters
        self._asks: dict[str, Asks] = {}  # by kind
        self._placed: dict[str, _Placed] = {}  # by cluster
        self._clusters: defaultdict[str, set[str]] = defaultdict(set)  # by ledger
        self._listeners: list[Callable[[str], None]] = []
        self._complete: list[Callable[[], bool]] = []
        for source in own:
            self.add(source)

    # --- for those who decide ---

    def unread_limits(self) -> list[str]:
        """The kinds that set limits and were not read once."""
        return [name for name, source in self.limits.items() if not source.synced]

    def sets_limits(self, ledger: str) -> bool:
        """Whether objects set limits in a ledger, or may: the ledger has to be made if it is missing."""
        return any(not source.synced or source.of(ledger).limits for source in self.limits.values())

    def limit_views(self, ledger: str) -> dict[str, LimitView]:
        return {name: source.of(ledger) for name, source in self.limits.items()}

    def live_of(self, name: str) -> Source | LimitSource | None:
        """Where an answer about objects of a source can be had."""
        return self.get(name) or self.limits.get(name)

    def add_limits(self, source: LimitSource) -> None:
        if source.name in self.limits:
            raise ValueError(f"{source.name}: two views of one kind: which of them would hold?")
        self.limits[source.name] = source
        for changed in self._listeners:
            source.handle(changed)

    # --- for those who fold ---

    def get(self, name: str) -> Source | None:
        return self.own.get(name) or self._others.get(name)

    def shown(self, key: str) -> str:
        """The uid of the object that a cache has under a ledger key; empty where there is none or the kind is not followed."""
        source = self.get(source_of(key))
        found = source.of("").get(key) if source is not None and source.followed else None
        return found.uid if found is not None else ""

    def in_cluster(self, cluster: str) -> list[Source]:
        """All that can be read there now."""
        if not cluster:
            return list(self.own.values())
        return [source for name, source in self._others.items() if cluster_of(name) == cluster]

    @property
    def elsewhere(self) -> bool:
        """Whether anything is counted in other clusters."""
        return bool(self._kinds)

    @property
    def kinds(self) -> frozenset[str]:
        """All kinds that this process counts, here or in other clusters, or of which it reads limits."""
        return frozenset((*self.own, *self._kinds, *self.limits))

    def charges(self, ledger: str) -> bool:
        """Whether the ledgers of this sort are charged by this process at all: those of namespaces, or those of projects."""
        return self.elsewhere if not namespace_of(ledger) else bool(self.limits) or not self.elsewhere

    def needed(self, ledger: str) -> frozenset[str]:
        """The names of all sources that a ledger has to be counted from, whether or not they can be read now."""
        return frozenset(self.own) | self.needed_elsewhere(ledger)

    def needed_elsewhere(self, ledger: str) -> frozenset[str]:
        return frozenset(source_name(kind, cluster) for cluster in self._clusters.get(ledger, ()) for kind in self._kinds)

    def of(self, ledger: str, *, counted: Iterable[str] = ()) -> dict[str, Source]:
        """The sources that a ledger can be folded from now: those that it needs, and those that it has `counted` before."""
        if not self._others:
            return self.own
        found = {name: self._others.get(name) for name in sorted({*self.needed_elsewhere(ledger), *counted})}
        return self.own | {name: source for name, source in found.items() if source is not None}

    def asked(self, name: str) -> bool:
        """Whether all requests of a source are asked about. As long as they are not, no count of it is exact."""
        cluster = cluster_of(name)
        return not cluster or (cluster in self._placed and self._placed[cluster].asked)

    def asks(self, name: str) -> Callable[[], Awaitable[bool]] | None:
        """How to find out whether the API server of a source is told to ask by now; None: it always is. It is looked at before
        the first exact count: what somebody takes out later is put back, and told."""
        kind, _, cluster = name.partition("/")
        found = self._asks.get(kind) if cluster else None
        return None if found is None else partial(found, cluster)

    def is_placed(self, cluster: str) -> bool:
        return cluster in self._placed

    @property
    def complete(self) -> bool:
        """Whether all clusters have been placed that were there when the process began."""
        return all(check() for check in self._complete)

    async def removed(self, cluster: str) -> bool:
        """Whether a cluster was removed on purpose, by everybody who counts something there."""
        if not self._kinds:
            return False
        for asked in dict.fromkeys(self._kinds.values()):
            if not await asked(cluster):
                return False
        return True

    def handle(self, changed: Callable[[str], None]) -> None:
        """Has every ledger told in which something may be counted differently now."""
        self._listeners.append(changed)
        for source in (*self.own.values(), *self._others.values()):
            source.handle(changed)
        for limits in self.limits.values():
            limits.handle(changed)

    # --- for those who charge ---

    def count_elsewhere(self, kind: str, removed: Removed, *, complete: Callable[[], bool], asks: Asks | None = None) -> None:
        """Has a kind counted in every cluster that is placed. `complete` says when all of them are that were there at first."""
        self._kinds[kind] = removed
        if asks is not None:
            self._asks[kind] = asks
        self._complete.append(complete)

    def place(self, cluster: str, ledgers: Iterable[str], *, asked: bool = True) -> None:
        """Says which ledgers have objects in a cluster, and whether all requests there are `asked` about by now."""
        placed = _Placed(frozenset(ledgers), asked)
        before = self._placed.get(cluster)
        if placed != before:
            self._move(cluster, before, placed)
            self._placed[cluster] = placed
            self._tell(placed.ledgers | (before.ledgers if before else frozenset()))

    def displace(self, cluster: str) -> None:
        """The cluster is not among those that are counted any more. What the ledgers have of it stays, until whoever folds
        them has asked whether it was removed."""
        before = self._placed.pop(cluster, None)
        if before is not None:
            self._move(cluster, before, None)
            self._tell(before.ledgers)

    def add(self, source: Source) -> None:
        """A source that can be read now: one more of our own cluster; of another, in the place of the one of its name."""
        if source.name in self.own:
            raise ValueError(f"{source.name}: two views of one kind: which of them would be folded?")
        (self._others if cluster_of(source.name) else self.own)[source.name] = source
        for changed in self._listeners:
            source.handle(changed)
        self._tell(self._ledgers_of(source.name))

    def drop(self, name: str) -> None:
        """A source that cannot be read any more. What was counted stays."""
        if self._others.pop(name, None) is not None:
            self._tell(self._ledgers_of(name))

    def _ledgers_of(self, name: str) -> Iterable[str]:
        placed = self._placed.get(cluster_of(name))
        return placed.ledgers if placed else ()

    def _move(self, cluster: str, before: _Placed | None, after: _Placed | None) -> None:
        for ledger in before.ledgers if before else ():
            self._clusters[ledger].discard(cluster)
            if not self._clusters[ledger]:
                del self._clusters[ledger]
        for ledger in after.ledgers if after else ():
            self._clusters[ledger].add(cluster)

    def _tell(self, ledgers: Iterable[str]) -> None:
        for ledger in sorted(ledgers):
            for changed in self._listeners:
                changed(ledger)


def sessions(sources: Mapping[str, Source]) -> tuple[tuple[Source, int], ...]:
    """What was read stays true as long as these are the same."""
    return tuple((source, source.session) for source in sources.values())
