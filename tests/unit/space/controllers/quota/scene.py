"""Quotas, ledgers and virtual machines on an API in memory, around the real controllers, in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import msgspec

from tests.unit.kube.virtual_time import VirtualClock
from tests.unit.snapshots.memory_api import Crash, MemoryApi, Told
from tests.unit.space.builders import NOW, SOURCE, quota
from ullage.kube.builtin.core import NAMESPACES
from ullage.kube.controller.controller import Controller
from ullage.kube.errors import NotFound
from ullage.kube.kinds import Kind
from ullage.kube.slices import Part, Wiring
from ullage.ledger.amounts import Takings
from ullage.ledger.api import LEDGERS, Ledger
from ullage.ledger.api import NAMESPACE as LEDGER_NAMESPACE
from ullage.ledger.book import Book, Observed
from ullage.ledger.codec import book_of, status_of
from ullage.space.api import HARVESTER_QUOTAS, NAME, ResourceQuota
from ullage.space.controllers.quota_limits import QuotaLimits
from ullage.space.controllers.quota_status import QuotaStatus
from ullage.space.estimate_counts import EstimateCounts
from ullage.space.metrics import QuotaMetrics
from ullage.vms.api.machines import VIRTUAL_MACHINES

Json = dict[str, Any]
TEAM = "team-a"


class Api(MemoryApi):
    """Notes each call. `drops` are fields of a quota's status that its definition has not; without `machines` there is no
    KubeVirt."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.drops: tuple[str, ...] = ()
        self.machines = True

    async def find(self, kind: Kind[Any], name: str, namespace: str = "") -> Any:
        self.calls.append(f"find {kind.plural} {name}")
        return await super().find(kind, name, namespace)

    async def patch(self, kind: Kind[Any], name: str, namespace: str = "", **given: Any) -> Any:
        what = "/".join(part for part in (kind.plural, given.get("subresource", "")) if part)
        self.calls.append(f"patch {what} {name}")
        if kind is HARVESTER_QUOTAS and self.drops and "status" in (given.get("merge") or {}):
            kept = {key: value for key, value in given["merge"]["status"].items() if key not in self.drops}
            given["merge"] = {"status": kept}
        return await super().patch(kind, name, namespace, **given)

    async def list(self, kind: Kind[Any], namespace: str = "", **more: Any) -> Any:
        self._check(kind)
        return await super().list(kind, namespace, **more)

    def watch(self, kind: Kind[Any], namespace: str = "", **more: Any) -> Any:
        self._check(kind)
        return super().watch(kind, namespace, **more)

    def _check(self, kind: Kind[Any]) -> None:
        if kind is VIRTUAL_MACHINES and not self.machines:
            raise NotFound("the server could not find the requested resource", code=404)

    async def absent(self, kind: Kind[Any]) -> str:
        return str(self.version) if kind is VIRTUAL_MACHINES and not self.machines else ""

    def count(self, start: str) -> int:
        return sum(call.startswith(start) for call in self.calls)


class QuotaScene:
    def __init__(self) -> None:
        self.api = Api()
        self.clock = VirtualClock()
        self.told = Told()
        self.estimates = EstimateCounts()
        self.metrics = QuotaMetrics()
        self.controllers: dict[str, Controller[Any]] = {}

    # --- what others do ---

    def namespace(self, name: str = TEAM) -> None:
        self.api.put(NAMESPACES, {"metadata": {"name": name}})

    def quota(self, whole: int | None = None, vms: Mapping[str, int] | None = None, **more: Any) -> None:
        body = msgspec.to_builtins(quota(whole, vms, **more))
        self.api.put(HARVESTER_QUOTAS, body)

    def edit(self, limit: Json, namespace: str = TEAM) -> None:
        self.api.edit(HARVESTER_QUOTAS, NAME, namespace, merge={"spec": {"snapshotLimit": limit}})

    def machine(self, name: str, uid: str = "") -> None:
        self.api.put(VIRTUAL_MACHINES, {"metadata": {"name": name, "namespace": TEAM, "uid": uid or f"uid-{name}"}})

    def count(self, used: Takings) -> None:
        """The leader has counted."""
        ledger = self.ledger()
        assert ledger is not None
        before = book_of(ledger, now=NOW)
        book = Book.of(limits=before.limits, observed={SOURCE: Observed(9, NOW, used)}, exact_from={SOURCE: 1}, since=NOW)
        said = msgspec.to_builtins(status_of(book, ledger, sources={SOURCE}, now=NOW))
        self.api.edit(LEDGERS, f"ns-{TEAM}", LEDGER_NAMESPACE, merge={"status": said})

    # --- what has come of it ---

    def ledger(self, namespace: str = TEAM) -> Ledger | None:
        body = self.api.body(LEDGERS, f"ns-{namespace}", LEDGER_NAMESPACE)
        return None if body is None else msgspec.convert(body, type=Ledger)

    def limits(self, namespace: str = TEAM) -> dict[str, str] | None:
        found = self.ledger(namespace)
        return None if found is None else {account: amounts["storage"] for account, amounts in found.spec.limits.items()}

    def found(self) -> ResourceQuota:
        return msgspec.convert(self.api.body(HARVESTER_QUOTAS, NAME, TEAM), type=ResourceQuota)

    def vm_limits(self) -> dict[str, int]:
        return dict(self.found().spec.snapshot_limit.vm_total_snapshot_size_quota)

    def known(self) -> dict[str, str]:
        return {vm: one.uid for vm, one in self.found().status.known_vms.items()}

    # --- processes ---

    @contextlib.asynccontextmanager
    async def running(self, *names: str) -> AsyncIterator[None]:
        """One life of a controller process: of both controllers, or of one."""
        wiring = Wiring(self.api, clock=self.clock)  # type: ignore[arg-type]
        watches = (HARVESTER_QUOTAS, LEDGERS, NAMESPACES, VIRTUAL_MACHINES)
        made = wiring.made(Part(make=self._controllers, watches=watches))
        self.controllers = {one.name: one for one in made if not names or one.name in names}
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(cache.run()) for cache in wiring.caches]
            tasks += [group.create_task(one.run()) for one in self.controllers.values()]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()

    def _controllers(self, wiring: Wiring) -> list[Controller[Any]]:
        shown = QuotaStatus(wiring, estimates=self.estimates, recorder=self.told, metrics=self.metrics)
        return [QuotaLimits(wiring, recorder=self.told).controller(), shown.controller()]

    async def until(self, condition: Callable[[], bool], seconds: float = 30.0) -> None:
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110  virtual time: it costs nothing
                await asyncio.sleep(0.01)

    async def quiet(self, seconds: float = 5.0) -> None:
        """Long enough for whatever is still to come."""
        await asyncio.sleep(seconds)

    async def live(self, until: Callable[[], bool], *names: str) -> None:
        """Lives until something holds, through as many deaths as there are."""
        while True:
            try:
                async with self.running(*names):
                    await self.until(until)
                return
            except* Crash:
                pass
