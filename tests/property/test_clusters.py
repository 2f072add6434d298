"""One limit over clusters that come and go, in virtual time: replicas that die, and learn of everything late.

Everything but the API servers is the real thing. Each run is one random walk: clusters are cut off and come back, are removed
on purpose and come again under the same name with other data; processes follow them late, and go on following what was removed.
At every commit: what stands in the clusters that there are is no more than the limit. At rest: nothing pending, and what is
counted is the truth.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.kube.virtual_time import VirtualClock, in_virtual_time
from tests.unit.ledger.counted import counted
from tests.unit.ledger.simulated import BY_TEAM, CUPS, LEDGER, Server, creating, ledger, lossy
from ullage.errors import Retryable, UllageError
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.objects import find_condition
from ullage.ledger import fold
from ullage.ledger.api import LEDGERS, NAMESPACE
from ullage.ledger.codec import book_of
from ullage.ledger.fold import clusters_in
from ullage.ledger.keys import source_name
from ullage.ledger.service.expiry import Settings
from ullage.ledger.service.folder import Folder
from ullage.ledger.service.service import Service
from ullage.ledger.service.sources import Sources
from ullage.ledger.service.views import KindView

TIMEOUT, EXPIRY = 5.0, 6.0
PATIENCE = Settings(request_timeout=TIMEOUT, expiry=EXPIRY, expiry_elsewhere=EXPIRY, call=1.0)
CLUSTERS = ("far", "near")
CUPS_HELD = 6  # names of cups, in each cluster


class Process:
    """A webhook with its views; a leader folds too. It learns late of clusters that come and go, and dies without a word."""

    def __init__(self, world: World, *, leads: bool) -> None:
        self.world, self.leads = world, leads
        self.clock = VirtualClock(skew=world.random.uniform(-100, 100))
        self.sources = Sources()
        self.sources.count_elsewhere(CUPS.name, world.removed, complete=lambda: True)
        self.followed: dict[str, tuple[Server, asyncio.Task[None]]] = {}
        ledgers = Cache(world.home, LEDGERS, namespace=NAMESPACE, clock=self.clock, jitter=world.random.random)
        self._tasks = [asyncio.create_task(ledgers.run())]
        self.service = Service(
            world.home, self.sources, settings=PATIENCE, clock=self.clock, ledgers=ledgers, jitter=world.random.random
        )
        for name in CLUSTERS:
            self.learn(name)
        if leads:
            folder = Folder(world.home, self.sources, ledgers, settings=PATIENCE, clock=self.clock)
            self._tasks.append(asyncio.create_task(folder.controller().run()))

    def learn(self, name: str) -> None:
        """What is so now, of one cluster."""
        server = self.world.clusters.get(name)
        known = self.followed.get(name)
        if known is not None and known[0] is not server:
            known[1].cancel()
            del self.followed[name]
            self.sources.drop(source_name(CUPS.name, name))
        if server is None:
            self.sources.displace(name)
        elif name not in self.followed:
            self.sources.place(name, [LEDGER])
            cache = Cache(server, CUPS, clock=self.clock, jitter=self.world.random.random)
            self.followed[name] = server, asyncio.create_task(cache.run())
            self.sources.add(KindView(cache, BY_TEAM, client=server, cluster=name, clock=self.clock))

    async def die(self) -> None:
        tasks = [*self._tasks, *(task for _, task in self.followed.values())]
        for task in tasks:
            task.cancel()
        await self.service.__aexit__()
        await asyncio.gather(*tasks, return_exceptions=True)


class World:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.home = self.server()
        self.home.fault = lossy(random, before=0.05, after=0.1)
        self.limit, self.excess = random.randint(3, 8), 0
        self.home.put(LEDGERS, ledger(self.limit))
        self.clusters: dict[str, Server] = {}
        for name in CLUSTERS:
            self.begin(name)
        self._uids = itertools.count(1)
        self._learning: set[asyncio.Task[None]] = set()
        self.processes = [Process(self, leads=number < 2) for number in range(3)]

    def server(self) -> Server:
        random = self.random
        server = Server(latency=lambda: random.choice((0.001, 0.01, 0.05, 0.7)) * random.random())
        server.watch_lag = lambda: random.choice((0.0, 0.0, 0.01, 0.3)) if random.random() < 0.97 else random.uniform(0, 10)
        return server

    def begin(self, name: str) -> None:
        self.clusters[name] = self.server()
        self.clusters[name].committed = self.check

    def total(self, name: str) -> int:
        return sum(cup.spec.size for cup in self.clusters[name].all(CUPS))

    def check(self) -> None:
        self.excess = max(self.excess, sum(self.total(name) for name in self.clusters) - self.limit)

    async def removed(self, cluster: str) -> bool:
        await asyncio.sleep(self.home.latency())
        there = cluster in self.clusters
        await asyncio.sleep(self.home.latency())
        if self.random.random() < 0.1:
            raise Retryable("nobody can tell")
        return not there

    # --- what happens ---

    async def create(self, cluster: str) -> None:
        server = self.clusters.get(cluster)
        if server is None:
            return
        name, size, end = f"cup-{self.random.randrange(CUPS_HELD)}", self.random.randint(1, 4), now() + TIMEOUT
        uid = f"00000000-0000-4000-8000-{next(self._uids):012d}"
        process = self.random.choice(self.processes)
        try:
            charge = creating(name, size, uid=uid, cluster=cluster)
            verdict = await process.service.decide(LEDGER, charge, deadline=end - 1.0)
        except (UllageError, asyncio.CancelledError):  # the replica died, not the client
            return
        if not verdict.allowed or self.random.random() < 0.2:
            return
        await asyncio.sleep(max(0.0, min(end - now() - 0.01, self.random.choice((0.0, 0.5, TIMEOUT)) * self.random.random())))
        if self.clusters.get(cluster) is server and server.get(CUPS, Key("team", name)) is None:
            server.cup(name, size, uid=uid)

    def delete(self, cluster: str) -> None:
        server, name = self.clusters.get(cluster), f"cup-{self.random.randrange(CUPS_HELD)}"
        if server is not None and server.get(CUPS, Key("team", name)) is not None:
            server.drop(CUPS, Key("team", name))

    async def cut_off(self, cluster: str) -> None:
        server = self.clusters.get(cluster)
        if server is not None:
            server.cut_off()
            await asyncio.sleep(self.random.choice((0.5, 2.0, 3 * EXPIRY)) * self.random.random())
            server.come_back()

    def remove(self, cluster: str) -> None:
        if self.clusters.pop(cluster, None) is not None:
            self.tell(cluster)

    def add(self, cluster: str) -> None:
        """Under the same name, once nothing is left of the one before, and nobody follows it any more."""
        left = clusters_in(book_of(self.home.ledger(), now=VirtualClock().now()))
        followed = any(cluster in process.followed for process in self.processes)
        if cluster not in self.clusters and cluster not in left and not followed:
            self.begin(cluster)
            self.tell(cluster)

    def tell(self, cluster: str) -> None:
        """Everybody learns of it, each in its own time."""
        for process in self.processes:
            task = asyncio.create_task(self._tell(process, cluster))
            self._learning.add(task)
            task.add_done_callback(self._learning.discard)

    async def _tell(self, process: Process, cluster: str) -> None:
        await asyncio.sleep(self.random.choice((0.0, 0.1, EXPIRY)) * self.random.random())
        if process in self.processes:
            process.learn(cluster)

    async def replace_process(self) -> None:
        dead = self.processes.pop(self.random.randrange(len(self.processes)))
        self.processes.append(Process(self, leads=dead.leads))
        await dead.die()

    async def act(self) -> None:
        cluster, choice = self.random.choice(CLUSTERS), self.random.random()
        if choice < 0.6:
            await self.create(cluster)
        elif choice < 0.75:
            self.delete(cluster)
        elif choice < 0.81:
            await self.cut_off(cluster)
        elif choice < 0.85:
            self.remove(cluster)
        elif choice < 0.95:
            self.add(cluster)
        else:
            await self.replace_process()

    async def live(self) -> None:
        if self.random.random() < 0.5:
            await asyncio.sleep(3 * TIMEOUT)  # the ledger is Ready
        acts = []
        for _ in range(80):
            acts.append(asyncio.create_task(self.act()))
            await asyncio.sleep(self.random.choice((0.0, 0.05, 1.0)) * self.random.random())
        await asyncio.gather(*acts)
        self.home.fault = lambda moment: None
        for server in (self.home, *self.clusters.values()):
            server.watch_lag = lambda: 0.01
        await asyncio.sleep(90)
        for process in self.processes:
            await process.die()


def now() -> float:
    return asyncio.get_running_loop().time()


async def lived(seed: int) -> World:
    world = World(Random(seed))
    await world.live()
    return world


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_one_limit_holds_over_clusters_that_come_and_go(seed: int) -> None:
    world = in_virtual_time(lived(seed))
    assert world.excess <= 0
    status = world.home.ledger().status
    assert status.pending == ""
    truth = {source_name(CUPS.name, name): str(world.total(name)) for name in world.clusters}
    assert {name: one.get("cups", {}).get("size", "0") for name, one in counted(status.sums).items()} == truth
    ready = find_condition(status.conditions, "Ready")
    assert ready is not None
    assert ready.message == "everything is counted"


def drops_what_is_not_followed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fold, "is_removed", lambda cluster, removed: bool(cluster))


def remembers_who_was_removed(patch: pytest.MonkeyPatch) -> None:
    removed: set[tuple[int, str]] = set()
    ask = Sources.removed

    async def remembered(sources: Sources, cluster: str) -> bool:
        if (id(sources), cluster) not in removed and await ask(sources, cluster):
            removed.add((id(sources), cluster))
        return (id(sources), cluster) in removed

    patch.setattr(Sources, "removed", remembered)


@pytest.mark.parametrize(
    "weaken",
    [
        pytest.param(drops_what_is_not_followed, id="a cluster that nobody has removed is dropped"),
        pytest.param(remembers_who_was_removed, id="a cluster that was removed once stays removed"),
    ],
)
def test_the_walks_find_a_broken_promise_where_a_rule_is_left_out(
    weaken: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    weaken(monkeypatch)
    assert any(in_virtual_time(lived(seed)).excess > 0 for seed in range(400))
