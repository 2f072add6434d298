"""The escrow on views that lag behind: each quota and each ledger as it was at some moment, and no two of the same moment.

Two controllers, of which one may have been the leader, take their steps in any order: between any two calls of theirs the other
goes on, an answer is lost, a write comes late or never, a seed is counted or not. Quotas are raised, seeds are added and are to
leave; nothing is restored, written by hand or lowered. So at every moment the limits that the seeds have are within the quota,
and so is what they admit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from random import Random
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from tests.unit.kube.virtual_time import VirtualClock, in_virtual_time
from tests.unit.projects.master_scene import BEGIN, CPU, NAME, SOURCE, Api, SeedCluster
from ullage.errors import Retryable
from ullage.kube.cache.indexer import Key
from ullage.kube.clusters.cluster import Reach
from ullage.kube.errors import Conflict, Unavailable
from ullage.kube.kinds import Kind, Meta
from ullage.ledger.amounts import Takings
from ullage.ledger.api import LEDGERS
from ullage.ledger.api import NAMESPACE as LEDGER_NAMESPACE
from ullage.ledger.book import Charge, Refusal, book
from ullage.ledger.codec import book_of
from ullage.ledger.demand import may_be_granted, wanted_by, with_demand
from ullage.projects.api.amounts import ResourceDetails
from ullage.projects.api.kkp import Seed
from ullage.projects.api.quotas import PROJECT_QUOTAS
from ullage.projects.controllers.quota_escrow import QuotaEscrow
from ullage.projects.escrow.record import read_record
from ullage.projects.metrics import ProjectMetrics
from ullage.projects.names import DRAINING
from ullage.quantity import Quantity

PROJECT = Key("", "abc")


class LedgerSeed(SeedCluster):
    """Counted only when somebody says so, and no machine is made there before its first limit."""

    def __init__(self, name: str, clock: VirtualClock) -> None:
        super().__init__(name, clock)
        self.counts = False
        self.folds = 6  # how often, among all that happens
        self.draining = False

    def admit(self) -> bool:
        ledger = self.ledger()
        if ledger is None or not ledger.spec.limits:
            return False
        known, name = book_of(ledger, now=BEGIN), f"{SOURCE}/kube-system/machine-{self.version}"
        charge = Charge(key=name, uid=name, now=Takings({CPU: Quantity.of(1)}))
        after, said = book(known, charge, self.clock.now())
        if not isinstance(said, Refusal):
            self.machines += 1
            self._write(after)
        elif may_be_granted(known, said):
            self._write(with_demand(known, wanted_by(known, [charge]), self.clock.now(), renewed=True))
        return not isinstance(said, Refusal)


class View:
    """One object, as somebody knows it who has read the log of the server up to some place."""

    def __init__(self, api: Api, kind: Kind[Any], name: str, namespace: str = "") -> None:
        self._api, self._kind, self._name, self._namespace = api, kind, name, namespace
        self._place = 0
        self.seen: Any = None

    def go_on(self, most: int = 10**6) -> None:
        for _, kind, event, body in self._api._log[self._place :][:most]:
            self._place += 1
            meta = body["metadata"]
            if (kind, meta["name"], meta.get("namespace", "")) == (self._kind.name, self._name, self._namespace):
                self.seen = None if event == "DELETED" else msgspec.convert(body, type=self._kind.type)

    def get(self, key: Key) -> Any:
        return self.seen


class Slow:
    """A client. Each call waits for its turn, and so does its answer."""

    def __init__(self, api: Api, world: World) -> None:
        self._api, self._world = api, world

    async def find(self, *place: Any) -> Any:
        return await self._world.call(lambda: self._api.find(*place))

    async def list(self, *given: Any) -> Any:
        return await self._world.call(lambda: self._api.list(*given))

    async def create(self, *given: Any) -> Any:
        return await self._world.call(lambda: self._api.create(*given))

    async def patch(self, *place: Any, **given: Any) -> Any:
        return await self._world.call(lambda: self._api.patch(*place, **given))


class Watcher:
    """One controller with views of its own. To it, it is the lookup of quotas and the seeds."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.quota = View(world.master, PROJECT_QUOTAS, NAME)
        self.views: dict[str, View] = {}
        self.unseen: set[str] = set()
        self.task: asyncio.Task[Any] | None = None
        client: Any = Slow(world.master, world)
        stub: Any = self
        metrics = ProjectMetrics(CollectorRegistry())
        self.escrow = QuotaEscrow(client, stub, stub, defaults=stub, metrics=metrics, clock=world.clock)

    def begin(self) -> None:
        if self.task is None or self.task.done():
            self.end()
            self.task = asyncio.create_task(self.escrow.reconcile(PROJECT))

    def end(self) -> None:
        if self.task is not None and self.task.done() and not self.task.cancelled() and (error := self.task.exception()):
            group = error if isinstance(error, BaseExceptionGroup) else BaseExceptionGroup("", [error])
            _, rest = group.split(Retryable)
            if rest is not None:
                raise rest

    def all_views(self) -> list[View]:
        return [self.quota, *self.views.values()]

    # --- lookup ---

    def of(self, project: str) -> list[Any]:
        return [] if self.quota.seen is None else [self.quota.seen]

    def limits(self, project: str) -> ResourceDetails:
        """By default there are none."""
        return ResourceDetails()

    # --- seeds ---

    @property
    def names(self) -> list[str]:
        return sorted(self.views)

    @property
    def objects(self) -> Watcher:
        return self

    def items(self) -> list[Seed]:
        marks = {name: {DRAINING: "true"} if self.world.seeds[name].draining else {} for name in self.names}
        return [Seed(metadata=Meta(name=name, annotations=marks[name])) for name in self.names]

    def ledgers(self, seed: str) -> View | None:
        return None if seed in self.unseen else self.views[seed]

    def last_ledgers(self, seed: str) -> View:
        return self.views[seed]

    def client(self, seed: str) -> Slow:
        return Slow(self.world.seeds[seed], self.world)

    def reach(self, seed: str) -> Reach:
        return Reach(seed not in self.unseen)


class World:
    def __init__(self, random: Random, *, quota: int, seeds: int) -> None:
        self.random = random
        self.clock = VirtualClock()
        self.master = Api("master", self.clock)
        self.seeds: dict[str, LedgerSeed] = {}
        self.waiting: list[asyncio.Future[str]] = []  # calls, and answers
        self.late: list[Callable[[], Awaitable[Any]]] = []  # writes that are still on their way when nobody waits any more
        self.watchers = [Watcher(self), Watcher(self)]
        for _ in range(seeds):
            self.add_seed()
        self.told: set[str] = set()
        self.quota = quota
        spec = {"subject": {"name": "abc", "kind": "project"}, "quota": {"cpu": str(quota)}}
        self.master.put(PROJECT_QUOTAS, {"metadata": {"name": NAME}, "spec": spec})

    async def __aenter__(self) -> World:
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = [watcher.task for watcher in self.watchers if watcher.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for watcher in self.watchers:
            watcher.end()

    # --- calls ---

    async def call(self, act: Callable[[], Awaitable[Any]]) -> Any:
        fate = await self._turn()
        if fate == "lost":
            raise Unavailable("no answer", reason="NoAnswer")
        if fate == "late":
            self.late.append(act)
            raise Unavailable("no answer", reason="NoAnswer")
        done = await act()
        if await self._turn() != "goes":
            raise Unavailable("no answer", reason="NoAnswer")
        return done

    async def _turn(self) -> str:
        turn: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.waiting.append(turn)
        try:
            return await turn
        finally:
            self.waiting.remove(turn)

    async def resume(self, fate: str) -> None:
        if self.waiting:
            self.random.choice(self.waiting).set_result(fate)
            await self.breathe()

    async def deliver(self) -> None:
        if self.late:
            with suppress(Exception):
                await self.late.pop(self.random.randrange(len(self.late)))()

    async def breathe(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    # --- people ---

    def add_seed(self) -> None:
        name = f"seed-{len(self.seeds)}"
        self.seeds[name] = LedgerSeed(name, self.clock)
        self.seeds[name].folds = self.random.choice((0, 1, 6, 12))
        for watcher in self.watchers:
            watcher.views[name] = View(self.seeds[name], LEDGERS, NAME, LEDGER_NAMESPACE)

    def raise_quota(self, quota: int) -> None:
        self.quota = quota
        self.master.edit(PROJECT_QUOTAS, NAME, merge={"spec": {"quota": {"cpu": str(self.quota)}}})

    def delete(self, seed: LedgerSeed) -> None:
        """And whoever counts there sees it at once."""
        if seed.machines:
            seed.machines -= 1
            seed.fold()

    # --- what must be so ---

    def limits(self) -> dict[str, int]:
        return {name: int(limit) for name, seed in self.seeds.items() if (limit := seed.limit())}

    def check(self) -> None:
        limits, machines = self.limits(), {name: seed.machines for name, seed in self.seeds.items()}
        assert self.told <= limits.keys(), f"{self.told - limits.keys()} had a limit, and has none any more"
        self.told |= limits.keys()
        assert sum(limits.values()) <= self.quota, f"limits {limits} of {self.quota}: {self.record()}"
        assert sum(machines.values()) <= self.quota, f"machines {machines} of {self.quota}: {self.record()}"

    def record(self) -> Any:
        body = self.master.body(PROJECT_QUOTAS, NAME)
        return read_record(msgspec.convert(body, type=PROJECT_QUOTAS.type).metadata)

    # --- what happens ---

    def events(self) -> Iterator[tuple[int, Callable[[], Any]]]:
        """How often, and what."""
        random, watcher = self.random, self.watchers[self.random.random() < 0.1]
        seed = self.seeds[random.choice(sorted(self.seeds))]
        yield 20, watcher.begin
        yield 30, lambda: self.resume("goes")
        yield 2, lambda: self.resume("lost")
        yield 1, lambda: self.resume("late")
        yield 3, self.deliver
        yield 14, lambda: random.choice(watcher.all_views()).go_on(random.randint(1, 6))
        yield 8, lambda: random.choice(watcher.all_views()).go_on()
        yield 2, lambda: watcher.unseen.symmetric_difference_update({seed.name})
        yield seed.folds, seed.fold
        yield 14, seed.admit
        yield 6, lambda: self.delete(seed)
        yield 1, lambda: self.raise_quota(self.quota + random.randint(1, 4))
        yield 1 if len(self.seeds) < 4 else 0, self.add_seed
        yield 1, lambda: setattr(seed, "draining", not seed.draining)
        yield 1, lambda: asyncio.sleep(random.choice((0.5, 6, 70)))

    async def happens(self) -> None:
        found = list(self.events())
        (act,) = self.random.choices([act for _, act in found], [weight for weight, _ in found])
        done = act()
        if asyncio.iscoroutine(done):
            await done
        await self.breathe()
        self.check()

    async def settle(self) -> None:
        """Everything is delivered, seen and counted, until there is nothing left to do."""
        leader, before = self.watchers[0], None
        leader.unseen.clear()
        for seed in self.seeds.values():
            seed.draining = False
        while before != (before := (self.master.version, [seed.change() for seed in self.seeds.values()])):
            for _ in range(3):
                while self.late or self.waiting:
                    await self.deliver()
                    await self.resume("goes")
                for seed in self.seeds.values():
                    seed.fold()
                for view in leader.all_views():
                    view.go_on()
                leader.begin()
                await self.breathe()
                self.check()


async def walk(number: int) -> None:
    random = Random(number)
    async with World(random, quota=random.randint(2, 9), seeds=random.randint(2, 3)) as world:
        for _ in range(400):
            await world.happens()
        await world.settle()
        granted = {name: share.parts["cpu"].granted.value() for name, share in world.record().shares.items()}
        assert granted == world.limits()
        assert sum(granted.values()) == world.quota, "at rest all of it can be used"


@pytest.mark.slow
@pytest.mark.parametrize("begin", range(0, 100, 25), ids=lambda begin: f"walks from {begin}")
def test_no_view_that_lags_behind_lets_seeds_have_more_than_the_quota(begin: int) -> None:
    for number in range(begin, begin + 25):
        in_virtual_time(walk(number))


# --- the sequences by themselves -------------------------------------------------------------------------------------


async def acts(watcher: Watcher) -> None:
    """It sees all that there is, and goes on until it has to look again, three times."""
    for _ in range(3):
        for view in watcher.all_views():
            view.go_on()
        await acts_blindly(watcher)


async def acts_blindly(watcher: Watcher) -> None:
    watcher.begin()
    await watcher.world.breathe()
    while watcher.world.waiting:
        await watcher.world.resume("goes")
    watcher.world.check()


def test_a_seed_whose_first_count_is_not_exact_gets_room_only_when_another_has_given_it() -> None:
    async def run() -> None:
        async with World(Random(0), quota=5, seeds=2) as world:
            one, two, leader = world.seeds["seed-0"], world.seeds["seed-1"], world.watchers[0]
            await acts(leader)
            assert world.limits() == {"seed-0": 3, "seed-1": 2}
            assert [one.admit() for _ in range(3)] + [two.admit() for _ in range(3)] == [True] * 5 + [False]
            one.fold()
            await acts(leader)
            world.delete(one)
            world.delete(one)
            one.cut_off()  # it is seen, and what is sent there does not come
            await acts(leader)
            assert world.limits() == {"seed-0": 3, "seed-1": 2}, "what the first may still have is nobody else's"
            one.come_back()
            await acts(leader)
            assert world.limits() == {"seed-0": 2, "seed-1": 2}, "nobody has counted since"
            two.fold()
            await acts(leader)
            assert world.record().granted("cpu") == Quantity.of(5)
            one.fold()
            await acts(leader)
            assert world.limits() == {"seed-0": 2, "seed-1": 3}

    in_virtual_time(run())


def test_who_asks_for_room_of_a_raised_quota_gets_it_before_the_first_counts_are_exact() -> None:
    async def run() -> None:
        async with World(Random(0), quota=4, seeds=2) as world:
            await acts(world.watchers[0])
            assert [world.seeds["seed-0"].admit() for _ in range(2)] == [True, True]
            world.raise_quota(10)
            await acts(world.watchers[0])
            assert not world.seeds["seed-0"].admit()
            await acts(world.watchers[0])
            assert world.limits() == {"seed-0": 3, "seed-1": 2}

    in_virtual_time(run())


def test_who_has_not_heard_of_a_quota_yet_takes_no_limits_away() -> None:
    async def run() -> None:
        async with World(Random(0), quota=5, seeds=2) as world:
            leader, behind = world.watchers
            await acts(leader)
            for view in behind.views.values():
                view.go_on()
            await acts_blindly(behind)
            assert world.limits() == {"seed-0": 3, "seed-1": 2}
            assert behind.task is not None
            assert behind.task.result() is not None, "it looks again"
            world.master.edit(PROJECT_QUOTAS, NAME, merge={"spec": {"subject": {"name": "xyz"}}})
            world.told.clear()
            await acts_blindly(behind)
            assert world.limits() == {}, "where there is none of this project they go"

    in_virtual_time(run())


def test_nor_does_who_has_not_heard_of_one_that_somebody_called_otherwise() -> None:
    async def run() -> None:
        async with World(Random(0), quota=5, seeds=2) as world:
            leader, behind = world.watchers
            await acts(leader)
            for view in behind.views.values():
                view.go_on()
            spec = {"subject": {"name": "abc", "kind": "project"}, "quota": {"cpu": "5"}}
            world.master.put(PROJECT_QUOTAS, {"metadata": {"name": "by-hand"}, "spec": spec})
            world.master.remove(PROJECT_QUOTAS, NAME)
            await acts_blindly(behind)
            assert world.limits() == {"seed-0": 3, "seed-1": 2}

    in_virtual_time(run())


def test_a_record_that_is_not_seen_yet_is_not_written_over_by_what_the_seeds_show() -> None:
    """They have the limits of a change that the quota in hand knows nothing of: no reason to believe them rather than it."""

    async def run() -> None:
        async with World(Random(0), quota=5, seeds=2) as world:
            leader, behind = world.watchers
            behind.quota.go_on()
            await acts(leader)
            before = world.record()
            for view in behind.views.values():
                view.go_on()
            await acts_blindly(behind)
            assert behind.task is not None
            assert isinstance(behind.task.exception(), Conflict)
            assert world.record() == before

    in_virtual_time(run())
