"""Namespaces and ledgers on an API in memory, around the real controllers of shares, in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from tests.unit.kube.virtual_time import VirtualClock, in_virtual_time
from tests.unit.snapshots.memory_api import MemoryApi, Told
from ullage.headroom.controllers.exceeds import ExceedsCaches, ExceedsQuota
from ullage.headroom.controllers.limits import LimitCaches, ShareLimits
from ullage.headroom.metrics import ShareMetrics
from ullage.headroom.namespaces import EXCEEDS, HEADROOM_LABEL
from ullage.kube.builtin.core import NAMESPACES
from ullage.kube.controller.controller import Controller
from ullage.kube.kinds import Kind
from ullage.kube.slices import Part, Wiring
from ullage.ledger.amounts import Takings
from ullage.ledger.api import LEDGERS, Ledger
from ullage.ledger.api import NAMESPACE as LEDGER_NAMESPACE
from ullage.ledger.book import Book, Observed, Over
from ullage.ledger.codec import book_of, status_of

Json = dict[str, Any]
TEAM = "team-a"
SOURCE = "virtualmachines.kubevirt.io"
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


class Api(MemoryApi):
    """Notes each patch."""

    def __init__(self) -> None:
        super().__init__()
        self.patches: list[str] = []

    async def patch(self, kind: Kind[Any], name: str, namespace: str = "", **given: Any) -> Any:
        self.patches.append(f"{kind.plural} {name}")
        return await super().patch(kind, name, namespace, **given)


class Watched(ExceedsQuota):
    """Notes when a ledger is read."""

    looks: list[str]

    def _over(self, ledger: Ledger) -> tuple[Over, ...] | None:
        self.looks.append(ledger.metadata.name)
        return super()._over(ledger)


class ShareScene:
    def __init__(self) -> None:
        self.looks: list[str] = []
        self.api = Api()
        self.clock = VirtualClock()
        self.told = Told()
        self.registry = CollectorRegistry()
        self.metrics = ShareMetrics(self.registry)

    # --- what others do ---

    def namespace(self, annotations: Mapping[str, str], *, name: str = TEAM, **meta: Any) -> None:
        self.api.put(NAMESPACES, {"metadata": {"name": name, "annotations": dict(annotations), **meta}})

    def annotate(self, annotations: Mapping[str, str | None]) -> None:
        self.api.edit(NAMESPACES, TEAM, merge={"metadata": {"annotations": dict(annotations)}})

    def count(
        self, used: Mapping[str, Mapping[str, str]], *, exact: bool = True, needed: frozenset[str] | set[str] = frozenset()
    ) -> None:
        """The leader has counted; others are `needed` that it has not."""
        ledger = self.ledger()
        assert ledger is not None
        before = book_of(ledger, now=NOW)
        observed = {SOURCE: Observed(9, NOW, Takings.parse(used))}
        book = Book.of(limits=before.limits, observed=observed, exact_from={SOURCE: 1 if exact else 10**6}, since=NOW)
        said = msgspec.to_builtins(status_of(book, ledger, sources={SOURCE, *needed}, now=NOW))
        self.api.edit(LEDGERS, f"ns-{TEAM}", LEDGER_NAMESPACE, merge={"status": said})

    # --- what has come of it ---

    def ledger(self, namespace: str = TEAM) -> Ledger | None:
        body = self.api.body(LEDGERS, f"ns-{namespace}", LEDGER_NAMESPACE)
        return None if body is None else msgspec.convert(body, type=Ledger)

    def limits(self, namespace: str = TEAM) -> Json | None:
        found = self.ledger(namespace)
        return None if found is None else {account: dict(amounts) for account, amounts in found.spec.limits.items()}

    def annotations(self) -> Json:
        found: Json = self._meta().get("annotations") or {}
        return found

    def label(self) -> str:
        return str((self._meta().get("labels") or {}).get(HEADROOM_LABEL, ""))

    def exceeded(self) -> bool:
        return self.annotations().get(EXCEEDS) == "true"

    def samples(self) -> dict[tuple[str, str], float]:
        """What is measured, by name and the one label that it has."""
        found = (sample for family in self.registry.collect() for sample in family.samples)
        return {
            (one.name, next(iter(one.labels.values()), "")): one.value for one in found if not one.name.endswith("_created")
        }

    def _meta(self) -> Json:
        body = self.api.body(NAMESPACES, TEAM)
        assert body is not None
        found: Json = body["metadata"]
        return found

    # --- processes ---

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        wiring = Wiring(self.api, clock=self.clock)  # type: ignore[arg-type]
        made = wiring.made(Part(make=self._controllers, watches=(LEDGERS, NAMESPACES)))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(cache.run()) for cache in wiring.caches]
            tasks += [group.create_task(one.run()) for one in made]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()

    def _controllers(self, wiring: Wiring) -> list[Controller[Any]]:
        namespaces, ledgers = wiring.cache(NAMESPACES), wiring.cache(LEDGERS)
        exceeds = Watched(
            wiring.client,
            ExceedsCaches(namespaces=namespaces, ledgers=ledgers),
            recorder=self.told,
            metrics=self.metrics,
            clock=self.clock,
        )
        exceeds.looks = self.looks
        limits = ShareLimits(wiring.client, LimitCaches(namespaces=namespaces, ledgers=ledgers), recorder=self.told)
        return [limits.controller(), exceeds.controller()]

    async def until(self, condition: Callable[[], bool], seconds: float = 30.0) -> None:
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110  virtual time: it costs nothing
                await asyncio.sleep(0.01)

    async def quiet(self, seconds: float = 5.0) -> None:
        """Long enough for whatever is still to come."""
        await asyncio.sleep(seconds)


def simulated(test: Callable[[ShareScene], Awaitable[None]]) -> Callable[[], None]:
    async def run() -> None:
        await test(ShareScene())

    @functools.wraps(test)
    def wrapped() -> None:
        in_virtual_time(run())

    del wrapped.__wrapped__  # else pytest looks for a fixture called scene
    return wrapped
