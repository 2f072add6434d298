"""Machines, instances, migrations and core quotas on an API in memory, around the real controllers, in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from tests.unit.headroom.builders import TEAM
from tests.unit.kube.virtual_time import VirtualClock
from tests.unit.snapshots.memory_api import Crash, MemoryApi
from ullage.headroom.controllers.follow import Follower
from ullage.headroom.controllers.scale_quota import QuotaScaler
from ullage.headroom.lookup import compute_lookup, launcher_pods
from ullage.kube.builtin.core import CORE_QUOTAS
from ullage.kube.builtin.watched_pods import WATCHED_PODS
from ullage.kube.controller.controller import Controller
from ullage.kube.kinds import Kind
from ullage.kube.slices import Part, Wiring
from ullage.ledger.charging.stamps import STAMP
from ullage.vms import prices
from ullage.vms.api.machines import INSTANCES, VIRTUAL_MACHINES
from ullage.vms.api.migrations import MIGRATIONS
from ullage.vms.prices import Prices, price_sources
from ullage.vms.pricing import PricingChoice

Json = dict[str, Any]
QUOTA = "default-r4nd0m"


class Api(MemoryApi):
    """Notes each call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    async def find(self, kind: Kind[Any], name: str, namespace: str = "") -> Any:
        self.calls.append(f"find {kind.plural} {name}")
        return await super().find(kind, name, namespace)

    async def patch(self, kind: Kind[Any], name: str, namespace: str = "", **given: Any) -> Any:
        self.calls.append(f"patch {kind.plural} {name}")
        return await super().patch(kind, name, namespace, **given)

    def patches(self, kind: Kind[Any]) -> int:
        return sum(call.startswith(f"patch {kind.plural} ") for call in self.calls)


class ComputeScene:
    def __init__(self) -> None:
        self.api = Api()
        self.clock = VirtualClock()
        self.choice = PricingChoice(version="seed")

    # --- what others do ---

    def put(self, kind: Kind[Any], body: Json) -> None:
        self.api.put(kind, body)

    def quota(self, **hard: str) -> None:
        wanted = {name.replace("_", "."): value for name, value in hard.items()}
        self.api.put(CORE_QUOTAS, {"metadata": {"name": QUOTA, "namespace": TEAM}, "spec": {"hard": wanted}})

    def reset(self, **hard: str) -> None:
        """What Rancher does: its own value, and everything else as it is."""
        wanted = {name.replace("_", "."): value for name, value in hard.items()}
        self.api.edit(CORE_QUOTAS, QUOTA, TEAM, merge={"spec": {"hard": wanted}})

    # --- what has come of it ---

    def hard(self) -> Json:
        return dict(self._body(CORE_QUOTAS, QUOTA)["spec"]["hard"])

    def marks(self, kind: Kind[Any], name: str) -> Json:
        return dict(self._body(kind, name)["metadata"].get("annotations") or {})

    def stamp(self, kind: Kind[Any], name: str = "db") -> str | None:
        return self.marks(kind, name).get(STAMP)

    def conditions(self, name: str = "db") -> dict[str, str]:
        """The messages of an instance's conditions, by type."""
        return {one["type"]: one.get("message", "") for one in self._body(INSTANCES, name)["status"].get("conditions", ())}

    def _body(self, kind: Kind[Any], name: str) -> Json:
        found = self.api.body(kind, name, TEAM)
        assert found is not None, f"{kind.plural} {name}"
        return found

    # --- processes ---

    @contextlib.asynccontextmanager
    async def running(self, *, count: int = 1) -> AsyncIterator[None]:
        """One life of so many controller processes."""
        async with asyncio.TaskGroup() as group:
            tasks = []
            for _ in range(count):
                wiring = Wiring(self.api, clock=self.clock)  # type: ignore[arg-type]
                made = wiring.made(
                    Part(
                        make=self._controllers, watches=(VIRTUAL_MACHINES, INSTANCES, MIGRATIONS, WATCHED_PODS, *prices.WATCHES)
                    )
                )
                tasks += [group.create_task(cache.run()) for cache in wiring.caches]
                tasks += [group.create_task(one.run()) for one in made]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()

    def _controllers(self, wiring: Wiring) -> list[Controller[Any]]:
        lookup = wiring.shared(compute_lookup)
        pods, charged = wiring.shared(launcher_pods), Prices(self.choice, wiring.shared(price_sources))
        follower = Follower(wiring.client, lookup, pods=pods, prices=charged, clock=self.clock)
        scaler = QuotaScaler(wiring.client, wiring.cache(CORE_QUOTAS), lookup, clock=self.clock)
        return [follower.controller(), scaler.controller()]

    async def until(self, condition: Callable[[], bool], seconds: float = 60.0) -> None:
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110  virtual time: it costs nothing
                await asyncio.sleep(0.01)

    async def quiet(self, seconds: float = 5.0) -> None:
        """Long enough for whatever is still to come."""
        await asyncio.sleep(seconds)

    async def live(self, until: Callable[[], bool]) -> None:
        """Lives until something holds, through as many deaths as there are."""
        while True:
            try:
                async with self.running():
                    await self.until(until)
                return
            except* Crash:
                pass
