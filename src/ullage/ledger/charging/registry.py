"""The ledgers as the slices of one process use them: each registers the kinds that it charges for, all share one service.

Two services in one process would conflict with each other, and each would fold only what it knows of. So there is one of
everything here: one service, one folder where the process leads, one view of each kind. A slice registers in its `shared`
part, which is made in the webhook's and in the controllers' process alike: a ledger is `Ready` when every kind is counted,
so all processes must agree which those are.

    CHARGED = Evaluator(ledger_of=…, takes=…)
    shared=Part(make=lambda wiring: [registry_of(wiring).register(SNAPSHOTS, CHARGED)], watches=(SNAPSHOTS,))
    …
    charged = registry_of(wiring).registered(SNAPSHOTS)
    return await charged.decide(review, next_step="ullage snapshot list")

What is in other clusters is counted there, in as many as there are: `register_elsewhere`, and `place` for each of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, TypeVar

from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.clusters.cluster import Cluster
from ullage.kube.controller.controller import Controller
from ullage.kube.identities import is_own
from ullage.kube.kinds import Kind, Object
from ullage.kube.review import Decision, Review
from ullage.kube.slices import Wiring
from ullage.ledger.accounts import Account, accounts
from ullage.ledger.amounts import NOTHING, Cell, Takings, total
from ullage.ledger.api import LEDGERS, Ledger
from ullage.ledger.book import Book, Refusal
from ullage.ledger.charges import Addressed, charge_of
from ullage.ledger.charging.limiting import Limiting
from ullage.ledger.charging.stamps import Stamp, stamp_fault
from ullage.ledger.codec import book_of
from ullage.ledger.demand import without_waiters
from ullage.ledger.fold import clusters_in
from ullage.ledger.keys import source_name, source_of
from ullage.ledger.metrics import Metrics
from ullage.ledger.refusals import account_text
from ullage.ledger.service.charging_leases import ChargingLease, LiveKinds
from ullage.ledger.service.collector import AccountCollector
from ullage.ledger.service.decisions import folded_from
from ullage.ledger.service.expiry import Pulse, Settings
from ullage.ledger.service.folder import Folder
from ullage.ledger.service.limit_views import KindLimits, LimitEvaluator
from ullage.ledger.service.service import Service, decision
from ullage.ledger.service.sources import Asks, Removed, Sources
from ullage.ledger.service.views import Evaluator, KindView

# What several slices charge for one kind, as one: an object has one key in one ledger, and is booked in one go. Were
# each slice to book its own part, an object that one of them refuses would stay booked with the other until that
# expires.


T = TypeVar("T", bound=Object)


class SharedEvaluator(Generic[T]):
    """To be added to until the service starts: nothing is counted before that."""

    def __init__(self, *parts: Evaluator[T]) -> None:
        self._parts = list(parts)
        self.evaluator = Evaluator(ledger_of=self._ledger_of, takes=self._takes)

    def add(self, part: Evaluator[T]) -> None:
        self._parts.append(part)

    def _ledger_of(self, obj: T) -> str:
        """The one that they agree on; a part that knows of none takes nothing."""
        found = {ledger for _, ledger in self._placed(obj)}
        if len(found) > 1:
            raise RuntimeError(f"{obj.metadata.name}: slices put it into {len(found)} ledgers: {', '.join(sorted(found))}")
        return found.pop() if found else ""

    def _takes(self, obj: T) -> Takings:
        return total(part.takes(obj) for part, _ in self._placed(obj))

    def _placed(self, obj: T) -> Iterator[tuple[Evaluator[T], str]]:
        return ((part, ledger) for part in self._parts if (ledger := part.ledger_of(obj)))


# What an object takes, told to people.


@dataclass(frozen=True, slots=True)
class Explanation:
    """What an object takes, and how the accounts stand that it takes from. Nothing is booked by asking."""

    ledger: str  # empty: it is in none
    takes: Takings = NOTHING
    accounts: tuple[Account, ...] = ()  # empty where there is no ledger: nothing is limited
    problem: str = ""  # why it cannot be counted

    def __str__(self) -> str:
        if self.problem:
            return f"cannot be counted: {self.problem}"
        if not self.takes:
            return "takes nothing"
        if not self.accounts:
            return "nothing is limited"
        by_name = {(one.name, one.resource): one for one in self.accounts}
        return "; ".join(account_text(by_name[cell], takes=self.takes[cell]) for cell in sorted(self.takes))


def explain(obj: T, evaluator: Evaluator[T], look: Callable[[str], Book | None]) -> Explanation:
    """`look` gives the book of a ledger, as the process last saw it."""
    ledger = evaluator.ledger_of(obj)
    if not ledger:
        return Explanation("")
    try:
        takes = evaluator.takes(obj)
    except Exception as error:  # what an object takes may be unreadable in any way
        return Explanation(ledger, problem=str(error))
    found = look(ledger)
    if found is None:
        return Explanation(ledger, takes)
    listed = {(one.name, one.resource): one for one in accounts(found)}
    return Explanation(ledger, takes, tuple(listed.get(cell) or Account.empty(cell) for cell in sorted(takes)))


MOST_BOOKS: Final = 500  # that are kept as they were read; then it begins anew

Relief = Callable[[Review, Addressed, Refusal], Awaitable[Decision | None]]
"""Of a slice that may make room: the answer to somebody who does not fit. None: it has none of its own."""


def registry_of(wiring: Wiring) -> Registry:
    """The one of this process."""
    return wiring.shared(Registry)


class Charged(Generic[T]):
    """A kind that is charged for, in the hands of its slice."""

    def __init__(self, registry: Registry, kind: Kind[T], evaluator_of: Callable[[str], Evaluator[T]]) -> None:
        self.kind = kind
        self.evaluator_of = evaluator_of  # by cluster; the empty name is our own
        self._registry = registry

    async def decide(
        self,
        review: Review,
        *,
        next_step: str = "",
        tell: Callable[[Refusal], str] | None = None,
        past_limit: bool = False,
        estimate: Takings | Stamp | None = None,
        trusted: Callable[[Review], bool] = is_own,
        relieve: Relief | None = None,
        hopeless: Callable[[Refusal], bool] = lambda refusal: False,
    ) -> Decision:
        """The answer of a validating hook: booked where it fits, refused with all numbers where it does not.

        `past_limit` is for growth that has happened already; it is believed of those who are `trusted`: our own identities
        where nothing else is said. `tell` is for slices with words of their own. `estimate` is for kinds that are stamped:
        what the slice would stamp the object with now. `relieve` may have another answer for what does not fit. A refusal that
        is `hopeless` waits for no grant. Raises Retryable where no answer comes in time, and what makes the object unreadable.
        """
        if estimate is not None and review.operation in ("CREATE", "UPDATE"):
            fault = stamp_fault(review, self.kind, estimate)
            if fault is not None:
                return fault
        evaluator = self.evaluator_of(review.cluster)
        asked = charge_of(review, self.kind, evaluator, past_limit=past_limit and trusted(review))
        if asked is None:
            return Decision.allow()
        verdict = await self._registry.service.decide(asked.ledger, asked.charge, deadline=review.deadline, hopeless=hopeless)
        if relieve is not None and verdict.refusal is not None and not verdict.existing:
            answer = await relieve(review, asked, verdict.refusal)
            return answer if answer is not None else decision(verdict, next_step=next_step, tell=tell)
        return decision(verdict, next_step=next_step, tell=tell)

    def look(self, ledger: str) -> Book | None:
        """The book of a ledger as this process last saw it, to be read only; None where there is no ledger."""
        return self._registry.look(ledger)

    def explain(self, obj: T, *, cluster: str = "") -> Explanation:
        """What an object takes, of what."""
        return explain(obj, self.evaluator_of(cluster), self.look)


class Registry:
    """Kinds are registered until the service starts, which is when all parts are made that register any."""

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring
        self._charged: dict[Kind[Any], Charged[Any]] = {}
        self._limiting: dict[Kind[Any], Limiting[Any]] = {}
        self._evaluators: dict[Kind[Any], SharedEvaluator[Any]] = {}
        self._sources = Sources()
        self._elsewhere: dict[str, KindView[Any]] = {}  # by source
        self._service: Service | None = None
        self._ledgers: Cache[Ledger] | None = None
        self._books: dict[str, tuple[Ledger, Book]] = {}  # of ledgers that somebody looked at since they changed
        self._settings = Settings()
        self._pulse = Pulse(self._sources, call=self._settings.call, clock=wiring.clock)

    def register(self, kind: Kind[T], evaluator: Evaluator[T]) -> Charged[T]:
        """Has objects of a kind counted, all of them. To be called while a part is made that declares to watch the kind. Where
        another slice has registered it, an object takes from its ledger what both say, and whoever decides books all of it."""
        if kind in self._evaluators:
            self._check_time(kind)
            self._evaluators[kind].add(evaluator)
            return self.registered(kind)
        shared = SharedEvaluator(evaluator)
        charged = self._registered(kind, lambda cluster: shared.evaluator)
        wiring, self._evaluators[kind] = self._wiring, shared
        self._sources.add(KindView(wiring.cache(kind), shared.evaluator, client=wiring.client, clock=wiring.clock))
        return charged

    def register_limits(self, kind: Kind[T], evaluator: LimitEvaluator[T]) -> Limiting[T]:
        """Has the limits hold that objects of a kind set, all of them, as this process sees them. To be called while a part is
        made that declares to watch the kind."""
        self._check_time(kind)
        if kind in self._limiting:
            raise ValueError(f"{kind.name}: its limits are registered twice")
        view = KindLimits(self._wiring.cache(kind), evaluator, client=self._wiring.client, clock=self._wiring.clock)
        self._sources.add_limits(view)
        limiting = self._limiting[kind] = Limiting(
            lambda: self.service, kind, evaluator, client=self._wiring.client, clock=self._wiring.clock
        )
        return limiting

    def limiting(self, kind: Kind[T]) -> Limiting[T]:
        if kind not in self._limiting:
            raise LookupError(f"{kind.name}: its limits are not registered with the ledgers")
        found: Limiting[T] = self._limiting[kind]
        return found

    def register_elsewhere(
        self,
        kind: Kind[T],
        evaluator_of: Callable[[str], Evaluator[T]],
        *,
        removed: Removed,
        complete: Callable[[], bool],
        settled: Callable[[str], bool] = lambda cluster: True,
        asks: Asks | None = None,
    ) -> Charged[T]:
        """Has objects of a kind counted in other clusters, all that are followed (`Wiring.clusters`) and placed. To be called
        while a part is made that declares to watch the kind `elsewhere`.

        `evaluator_of` gives the same for a cluster as long as it is followed: what was counted is not looked at again.
        `removed` tells whether a cluster was removed on purpose: it has to ask the API itself, since a cache may not have heard
        yet of one that came. `complete` says when all clusters have been placed that were there at first: that of the cache
        which they come from has synced, say. Until then no ledger is counted. `settled` is for kinds whose objects are counted
        on by others when they go: whether those have taken over, of one cluster, all that has gone there. Whoever says so has
        the ledgers woken when it changes. `asks` tells whether a cluster's API server is told to ask us: no count of it is
        exact that began before.
        """
        charged = self._registered(kind, evaluator_of)
        self._sources.count_elsewhere(kind.name, removed, complete=complete, asks=asks)

        def follow(name: str, cluster: Cluster | None) -> None:
            if cluster is None:
                self._elsewhere.pop(source_name(kind.name, name), None)
                self._sources.drop(source_name(kind.name, name))
                return
            cache, client = cluster.cache(kind), cluster.client
            clock, taken_over = self._wiring.clock, partial(settled, name)
            view = KindView(cache, evaluator_of(name), client=client, cluster=name, clock=clock, settled=taken_over)
            self._elsewhere[view.name] = view
            self._sources.add(view)

        self._wiring.clusters.handle(follow)
        return charged

    def look_again(self, kind: Kind[Any], *, cluster: str = "", keys: Iterable[Key] | None = None) -> None:
        """What makes objects of a kind in other clusters countable has changed, a key say: those that were not are evaluated
        anew. Or, in one cluster, those of some `keys`: something else has changed that they are counted by."""
        if keys is not None:
            if (found := self._elsewhere.get(source_name(kind.name, cluster))) is not None:
                found.look_again(keys)
            return
        for view in self._elsewhere.values():
            if view.kind is kind:
                view.look_again()

    def taken(self, kind: Kind[Any], cluster: str, key: Key) -> Takings | None:
        """What an object in another cluster is counted with; None: it is not there, or cannot be counted."""
        found = self._elsewhere.get(source_name(kind.name, cluster))
        return found.taken(key) if found is not None else None

    def place(self, cluster: str, ledgers: Iterable[str], *, asked: bool = True) -> None:
        """Says which ledgers have objects in a cluster; one slice does, for all that count something there.

        They are not exact until it is counted, and that is not before all requests there are `asked` about. Whether it can be
        reached does not matter, nor whether its kubeconfig can be read.
        """
        self._sources.place(cluster, ledgers, asked=asked)

    def displace(self, cluster: str) -> None:
        """The cluster is not among those that are counted any more. What ledgers have of it goes when whoever recounts them has
        been told that it was `removed`."""
        self._sources.displace(cluster)

    def ledgers_with(self, cluster: str) -> list[str]:
        """The ledgers that still have something of a cluster, as this process last saw them. Another cluster may get its name
        when there are none: to hold the object that stands for it until then is what finalizers are for."""
        found = self._ledgers.items() if self._ledgers else []
        now = self._wiring.clock.now()
        return sorted(one.metadata.name for one in found if cluster in clusters_in(book_of(one, now=now)))

    def _registered(self, kind: Kind[T], evaluator_of: Callable[[str], Evaluator[T]]) -> Charged[T]:
        self._check_time(kind)
        if kind in self._charged:
            raise ValueError(f"{kind.name}: registered twice, in our own cluster and in others; whose charge would be booked?")
        charged = self._charged[kind] = Charged(self, kind, evaluator_of)
        return charged

    def _check_time(self, kind: Kind[Any]) -> None:
        if self._service is not None:
            raise RuntimeError(f"{kind.name}: registered too late, the ledgers are served already; register in `shared`")

    def registered(self, kind: Kind[T]) -> Charged[T]:
        if kind not in self._charged:
            raise LookupError(f"{kind.name}: nobody has registered it with the ledgers")
        found: Charged[T] = self._charged[kind]
        return found

    @property
    def service(self) -> Service:
        if self._service is None:
            raise LookupError("the ledgers are not served in this process: the slice `ledger` is not among its slices")
        return self._service

    def look(self, ledger: str) -> Book | None:
        """For texts and early warnings. A book is read once for each state of its ledger: a tenant who asks for more than fits
        has it looked at each time, and with 2,000 bookings reading it takes tens of milliseconds."""
        found = self._ledgers.get(Key(self._settings.namespace, ledger)) if self._ledgers else None
        if found is None:
            return None
        known = self._books.get(ledger)
        if known is None or known[0] is not found:
            if len(self._books) >= MOST_BOOKS:
                self._books.clear()
            known = self._books[ledger] = found, book_of(found, now=self._wiring.clock.now())
        return known[1]

    def _forget(self, old: Ledger | None, new: Ledger | None) -> None:
        self._books.pop((new or old or Ledger()).metadata.name, None)

    def folded(self, ledger: Ledger) -> Book | None:
        """The book of a ledger with all that this process has seen of our own cluster; None where it has not seen as much as
        whoever wrote the ledger last. What its caches show and what the book says are of one moment then; who waits, and is
        there by now, waits no more."""
        known, name, own = book_of(ledger, now=self._wiring.clock.now()), ledger.metadata.name, self._sources.own
        for kind, source in own.items():
            counted, seen = known.observed.get(kind), source.of(name)
            behind = counted is not None and seen.position < counted.view
            # Of a kind that is at rest a watch tells nothing for a minute: whoever counted the same has seen the same.
            if not source.usable(name) or (behind and counted is not None and seen.sums != counted.sums):
                return None
        there = [key for key in known.waiting if (one := own.get(source_of(key))) and one.of(name).get(key)]
        limits = self._sources.limit_views(name)
        return folded_from(
            without_waiters(known, there),
            name,
            sources=own,
            live={},
            limits=limits,
            now=self._wiring.clock.now(),
            shows_all=lambda kind: True,  # it is shown to people, and written nowhere
        )

    def counted(self, ledger: str) -> Takings:
        """What the objects of our own cluster take that are in a ledger, also where nobody has made it yet."""
        return total(source.of(ledger).sums for source in self._sources.own.values())

    def is_limited(self, ledger: str, cell: Cell, *, to: str = "") -> bool:
        """Whether an account has a limit, as this process last saw the ledger and the objects that set limits. Cheap, whatever
        else is in it, unless limits are on their way. `to`: that, in the ledger's spec."""
        found = self._ledgers.get(Key(self._settings.namespace, ledger)) if self._ledgers else None
        carried = found.spec.limits.get(cell.account, {}).get(cell.resource) if found is not None else None
        if carried is not None or to:
            return carried is not None and to in ("", carried)
        if any(cell in source.of(ledger).limits for source in self._sources.limits.values()):
            return True
        known = self.look(ledger) if found is not None and found.status.limits_in_flight else None
        return known is not None and cell in known.limits

    # --- for the slice `ledger` ---

    def serve(self, settings: Settings) -> None:
        """Starts the service, if anything is charged for."""
        if not self._charged:
            return
        wiring, self._settings = self._wiring, settings
        self._ledgers = wiring.cache(LEDGERS, namespace=settings.namespace)
        self._ledgers.handle(self._forget)
        clock, metrics, pulse = wiring.clock, wiring.shared(_metrics), self._pulse
        self._service = Service(
            wiring.client, self._sources, settings=settings, clock=clock, metrics=metrics, ledgers=self._ledgers, pulse=pulse
        )
        wiring.hold(self._service)
        if wiring.instance:
            wiring.hold(
                ChargingLease(
                    wiring.client,
                    lambda: self._sources.kinds,
                    instance=wiring.instance,
                    namespace=settings.namespace,
                    call=settings.call,
                    clock=clock,
                )
            )

    def folding(self, settings: Settings) -> Iterable[Controller[Key]]:
        """Starts the service, and gives what recounts ledgers, for the process that leads. It shows their accounts too."""
        self.serve(settings)
        if self._ledgers is None:
            return
        wiring = self._wiring
        wiring.metrics.registry.register(AccountCollector(self._ledgers, clock=wiring.clock))
        clock, metrics, pulse = wiring.clock, wiring.shared(_metrics), self._pulse
        live = (
            LiveKinds(wiring.client, namespace=settings.namespace, call=settings.call, clock=clock) if wiring.instance else None
        )
        found = Folder(
            wiring.client,
            self._sources,
            self._ledgers,
            settings=settings,
            clock=clock,
            metrics=metrics,
            pulse=pulse,
            live_kinds=live,
        )
        yield found.controller(metrics=wiring.metrics)


def _metrics(wiring: Wiring) -> Metrics:
    return Metrics(wiring.metrics.registry)
