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
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.controller.controller import Controller
from ullage.kube.identities import is_own
from ullage.kube.kinds import Kind, Object
from ullage.kube.review import Decision, Review
from ullage.kube.slices import Wiring
from ullage.ledger.accounts import Account, accounts
from ullage.ledger.amounts import NOTHING, Takings
from ullage.ledger.api import LEDGERS, Ledger
from ullage.ledger.book import Book
from ullage.ledger.charges import charge_of
from ullage.ledger.charging.stamps import stamp_fault
from ullage.ledger.codec import book_of
from ullage.ledger.metrics import Metrics
from ullage.ledger.refusals import account_text
from ullage.ledger.service.batcher import Settings
from ullage.ledger.service.collector import AccountCollector
from ullage.ledger.service.folder import Folder
from ullage.ledger.service.service import Service, decision
from ullage.ledger.service.sources import Sources
from ullage.ledger.service.views import Evaluator, KindView

T = TypeVar("T", bound=Object)


def registry_of(wiring: Wiring) -> Registry:
    """The one of this process."""
    return wiring.shared(Registry)


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


class Charged(Generic[T]):
    """A kind that is charged for, in the hands of its slice."""

    def __init__(self, registry: Registry, kind: Kind[T], evaluator: Evaluator[T]) -> None:
        self.kind = kind
        self.evaluator = evaluator
        self._registry = registry

    async def decide(
        self, review: Review, *, next_step: str = "", past_limit: bool = False, estimate: Takings | None = None
    ) -> Decision:
        """The answer of a validating hook: booked where it fits, refused with all numbers where it does not.

        `past_limit` is for growth that has happened already; it is believed of our own identities alone. `estimate` is for
        kinds that are stamped: what the slice would stamp the object with now. Raises Retryable where there is no answer in
        time, and whatever makes the object unreadable.
        """
        if estimate is not None and review.operation in ("CREATE", "UPDATE"):
            fault = stamp_fault(review, self.kind, estimate)
            if fault is not None:
                return fault
        asked = charge_of(review, self.kind, self.evaluator, past_limit=past_limit and is_own(review))
        if asked is None:
            return Decision.allow()
        verdict = await self._registry.service.decide(asked.ledger, asked.charge, deadline=review.deadline)
        return decision(verdict, next_step=next_step)

    def look(self, ledger: str) -> Book | None:
        """The book of a ledger as this process last saw it, to be read only; None where there is no ledger."""
        return self._registry.look(ledger)

    def explain(self, obj: T) -> Explanation:
        """What an object takes, of what."""
        ledger = self.evaluator.ledger_of(obj)
        if not ledger:
            return Explanation("")
        try:
            takes = self.evaluator.takes(obj)
        except Exception as error:  # what an object takes may be unreadable in any way
            return Explanation(ledger, problem=str(error))
        found = self.look(ledger)
        if found is None:
            return Explanation(ledger, takes)
        listed = {(one.name, one.resource): one for one in accounts(found)}
        return Explanation(ledger, takes, tuple(listed.get(cell) or Account.empty(cell) for cell in sorted(takes)))


class Registry:
    """Kinds are registered until the service starts, which is when all parts are made that register any."""

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring
        self._charged: dict[Kind[Any], Charged[Any]] = {}
        self._sources = Sources()
        self._service: Service | None = None
        self._ledgers: Cache[Ledger] | None = None
        self._settings = Settings()

    def register(self, kind: Kind[T], evaluator: Evaluator[T]) -> Charged[T]:
        """Has objects of a kind counted, all of them. To be called while a part is made that declares to watch the kind."""
        if self._service is not None:
            raise RuntimeError(f"{kind.name}: registered too late, the ledgers are served already; register in `shared`")
        if kind in self._charged:
            raise ValueError(f"{kind.name}: registered twice; whose charge would be booked?")
        wiring, charged = self._wiring, Charged(self, kind, evaluator)
        self._sources.add(KindView(wiring.cache(kind), evaluator, client=wiring.client, clock=wiring.clock))
        self._charged[kind] = charged
        return charged

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
        found = self._ledgers.get(Key(self._settings.namespace, ledger)) if self._ledgers else None
        return None if found is None else book_of(found, now=self._wiring.clock.now())

    # --- for the slice `ledger` ---

    def serve(self, settings: Settings) -> None:
        """Starts the service, if anything is charged for."""
        if not self._charged:
            return
        wiring, self._settings = self._wiring, settings
        self._ledgers = wiring.cache(LEDGERS, namespace=settings.namespace)
        self._service = Service(
            wiring.client,
            self._sources,
            settings=settings,
            clock=wiring.clock,
            metrics=wiring.shared(_metrics),
            ledgers=self._ledgers,
        )
        wiring.hold(self._service)

    def folding(self, settings: Settings) -> Iterable[Controller[Key]]:
        """Starts the service, and gives what recounts ledgers, for the process that leads. It shows their accounts too."""
        self.serve(settings)
        if self._ledgers is None:
            return
        wiring = self._wiring
        wiring.metrics.registry.register(AccountCollector(self._ledgers, clock=wiring.clock))
        folder = Folder(
            wiring.client,
            self._sources,
            self._ledgers,
            settings=settings,
            clock=wiring.clock,
            metrics=wiring.shared(_metrics),
        )
        yield folder.controller(metrics=wiring.metrics)


def _metrics(wiring: Wiring) -> Metrics:
    return Metrics(wiring.metrics.registry)
