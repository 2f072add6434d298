"""The whole ledger in virtual time: replicas, leaders, an API that fails, clients that retry, and names that come and go.

Everything but the API server is the real thing. Each run is one random walk: calls take any time, answers are lost before and
after their effect, processes die between any two steps, watches stall for longer than attempts live, admissions run on stale
copies first. At every commit: no more than the limit. At rest: nothing pending, and what is counted is the truth.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from collections.abc import Callable, Mapping
from contextlib import suppress
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.unit.kube.virtual_time import VirtualClock, in_virtual_time
from tests.unit.ledger.counted import counted
from tests.unit.ledger.simulated import (
    ACCOUNT,
    BY_TEAM,
    CUPS,
    LEDGER,
    STAMP,
    CupSpec,
    Server,
    creating,
    cup_key,
    ledger,
    lossy,
    takes,
)
from ullage.errors import Retryable, UllageError
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.errors import NotFound
from ullage.kube.kinds import Kind
from ullage.ledger import fold, limits
from ullage.ledger.amounts import NOTHING
from ullage.ledger.api import LEDGERS, NAMESPACE, Ledger
from ullage.ledger.book import Charge
from ullage.ledger.codec import book_of
from ullage.ledger.limits import unreached
from ullage.ledger.packing.pending import decode
from ullage.ledger.service import decisions, restores
from ullage.ledger.service.expiry import Settings
from ullage.ledger.service.folder import Folder
from ullage.ledger.service.limits import Outdated, set_limits
from ullage.ledger.service.service import Service
from ullage.ledger.service.sources import Sources
from ullage.ledger.service.views import KindView
from ullage.quantity import Quantity

TIMEOUT, EXPIRY = 5.0, 6.0
PATIENCE = Settings(request_timeout=TIMEOUT, expiry=EXPIRY, expiry_elsewhere=EXPIRY, call=1.0)
MOST_RESTORED = 5  # backups in a walk
NAMES = [f"cup-{number}" for number in range(5)]


class Process:
    """A webhook with its view; a leader folds too. It dies without a word."""

    def __init__(self, world: World, *, leads: bool) -> None:
        server, clock = world.server, VirtualClock(skew=world.random.uniform(-100, 100))
        cups = Cache(world.cups, CUPS, clock=clock, jitter=world.random.random)
        ledgers = Cache(server, LEDGERS, namespace=NAMESPACE, clock=clock, jitter=world.random.random)
        view = KindView(cups, BY_TEAM, client=world.cups, cluster=world.cluster, clock=clock)
        watched = ledgers if world.random.random() < 0.5 else None
        self.service = Service(
            server, world.sources(view), settings=PATIENCE, clock=clock, ledgers=watched, jitter=world.random.random
        )
        self.leads = leads
        self._tasks = [asyncio.create_task(cache.run()) for cache in (cups, ledgers)]
        if leads:
            folder = Folder(server, world.sources(view), ledgers, settings=PATIENCE, clock=clock)
            self._tasks.append(asyncio.create_task(folder.controller().run()))

    async def die(self) -> None:
        for task in self._tasks:
            task.cancel()
        await self.service.__aexit__()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class _HeldUp:
    """A client whose patches arrive late."""

    def __init__(self, server: Server, seconds: Callable[[], float]) -> None:
        self.find, self.create, self._patch, self._seconds = server.find, server.create, server.patch, seconds

    async def patch(self, kind: Kind[Ledger], name: str, namespace: str = "", *, merge: Mapping[str, Any]) -> Ledger:
        await asyncio.sleep(self._seconds())
        patched: Ledger = await self._patch(kind, name, namespace, merge=merge)
        return patched


class World:
    def __init__(self, random: Random, *, cluster: str = "", whole: int = 0) -> None:
        """The cups are in our own cluster, or in another one. Of a `whole`, the limit is a grant that is raised on demand."""
        self.random = random
        self.cluster = cluster
        self.server = Server(latency=lambda: random.choice((0.001, 0.01, 0.05, 0.7)) * random.random())
        self.cups = Server(latency=self.server.latency) if cluster else self.server
        self.cups.committed = self.check
        self.server.fault = lossy(random, before=0.05, after=0.1)
        self.server.watch_lag = lambda: (
            random.choice((0.0, 0.0, 0.01, 0.3)) if random.random() < 0.97 else random.uniform(0, 10)
        )
        self.server.committed = self.check
        self.limit = random.randint(2, 8)
        self.granted = self.limit  # the most that may be used: lowered only once a lower limit is reached
        self.change = 0
        # Or backups, which would bring limits back; limits that move leave room to overshoot.
        self.changes = not cluster and not whole and random.random() < 0.5
        self.excess = 0
        self.held = 0
        self.whole = whole
        self.granting = asyncio.create_task(self.grant()) if whole else None
        made = ledger(self.limit)
        if whole:
            made = replace(made, spec=replace(made.spec, grants={ACCOUNT.account: {ACCOUNT.resource: str(whole)}}))
        self.server.put(LEDGERS, made)
        self.cups.back_up()
        self.old: dict[str, list[object]] = {name: [] for name in NAMES}
        self._uids = itertools.count(1)
        self.processes = [Process(self, leads=number < 2) for number in range(3)]

    def sources(self, view: KindView[Any]) -> Sources:
        found = Sources(view)
        if self.cluster:
            found.count_elsewhere(CUPS.name, self.removed, complete=lambda: True)
            found.place(self.cluster, [LEDGER])
        return found

    async def removed(self, cluster: str) -> bool:
        return False

    @property
    def source(self) -> str:
        return f"{CUPS.name}/{self.cluster}" if self.cluster else CUPS.name

    def check(self) -> None:
        found = self.server.ledger()
        pending = decode(found.status.pending, ledger=LEDGER)
        self.held = max(self.held, sum(len(slot.attempts) for slot in pending.values()))
        if not unreached(found, self.change):
            self.granted = self.limit
        if self.cluster and self.cups.history:
            self.granted = self.granted_since_a_backup(found)
        self.excess = max(self.excess, sum(cup.spec.size for cup in self.cups.all(CUPS)) - self.granted)

    def granted_since_a_backup(self, found: Ledger) -> int:
        """A backup of another cluster brings back what was deleted there: nobody can know of that until everything is listed
        anew. From then on nothing comes on top of it."""
        counted = found.status.observed.get(self.source)
        if found.status.epoch < self.cups.history or counted is None or not counted.view:
            return 1000
        book = book_of(found, now=VirtualClock().now())
        return max(self.limit, (book.used[ACCOUNT] + book.reserved[ACCOUNT]).value())

    async def admitted(self, charge: Charge, seconds: float) -> bool:
        process = self.random.choice(self.processes)
        try:
            return (await process.service.decide(LEDGER, charge, deadline=now() + seconds)).allowed
        except UllageError:
            return False
        except asyncio.CancelledError:  # the replica died, not the client
            return False

    def here(self, charge: Charge) -> Charge:
        return dataclasses.replace(charge, key=charge.key.replace("//", f"/{self.cluster}/"))

    async def create(self, name: str) -> None:
        """With retries under the same name, as controllers do."""
        size = self.random.randint(1, 4)
        for _ in range(self.random.randint(1, 3)):
            end, history = now() + TIMEOUT, self.cups.history
            uid = f"00000000-0000-4000-8000-{next(self._uids):012d}"
            if not await self.admitted(self.here(creating(name, size, uid=uid)), TIMEOUT * 0.8):
                continue
            if self.random.random() < 0.2:
                continue  # another webhook refused it, or its client went away
            await self._transit(end)
            if history != self.cups.history:
                return  # it went with the server
            if self.cups.get(CUPS, Key("team", name)) is None:
                self.old[name].append(self.cups.cup(name, size, uid=uid))
                return

    async def update(self, name: str) -> None:
        """On a copy of any age first, then on the one that is there: as the API server does."""
        size, end, history = self.random.randint(0, 5), now() + TIMEOUT, self.cups.history
        cup = self.random.choice(self.old[name][-3:] or [None])
        while cup is not None and now() < end:
            meta = cup.metadata  # type: ignore[attr-defined]
            old = NOTHING if STAMP in meta.annotations else takes(cup.spec.size)  # type: ignore[attr-defined]
            charge = Charge(key=cup_key(name), uid=meta.uid, on_version=int(meta.resource_version), now=takes(size), old=old)
            if not await self.admitted(self.here(charge), end - now()):
                return
            await self._transit(end)
            if history != self.cups.history:
                return
            live = self.cups.get(CUPS, Key("team", name))
            if live is not None and live.metadata.resource_version == meta.resource_version:
                self.old[name].append(self.cups.put(CUPS, replace(live, spec=CupSpec(size=size))))
                return
            cup = live

    async def _transit(self, end: float) -> None:
        left = max(0.0, end - now() - 0.01)
        await asyncio.sleep(min(left, self.random.choice((0.0, 0.01, 0.5, TIMEOUT)) * self.random.random()))

    async def act(self) -> None:
        name = self.random.choice(NAMES)
        choice = self.random.random()
        if choice < 0.47:
            await self.create(name)
        elif choice < 0.72:
            await self.update(name)
        elif choice < 0.84:
            if self.cups.get(CUPS, Key("team", name)) is not None:
                self.cups.drop(CUPS, Key("team", name))
        elif choice < 0.88:
            await self.spoil(name)
        elif choice < 0.95:
            await (self.change_limit() if self.changes else self.restore() if not self.whole else asyncio.sleep(0))
        elif choice < 0.97:
            await self.stop_serving(self.random.choice((CUPS, LEDGERS)))
        else:
            await self.replace_process()

    async def restore(self) -> None:
        """Now and then to a backup that was made earlier; the next one is made from then on."""
        if self.random.random() < 0.3 and self.cups.history < MOST_RESTORED:
            self.cups.restore()
            self.check()
            for name, copies in self.old.items():
                self.old[name] = [one for one in copies if int(one.metadata.resource_version) <= self.cups.version]  # type: ignore[attr-defined]
        self.cups.back_up()

    async def spoil(self, name: str) -> None:
        """A person writes over the stamp of an object, and somebody mends it later: what it takes cannot be told meanwhile."""
        self._annotate(name, {STAMP: "x"})
        await asyncio.sleep(self.random.choice((0.1, 1.0, 2 * EXPIRY)) * self.random.random())
        self._annotate(name, {})

    def _annotate(self, name: str, annotations: dict[str, str]) -> None:
        live = self.cups.get(CUPS, Key("team", name))
        if live is not None:
            metadata = replace(live.metadata, annotations=annotations)
            self.old[name].append(self.cups.put(CUPS, replace(live, metadata=metadata)))

    async def grant(self) -> None:
        """A master that sees now and then what is wanted, and raises the limit by a part of it."""
        while True:
            await asyncio.sleep(self.random.choice((0.1, 1.0, EXPIRY)) * self.random.random())
            found = self.server.ledger().status.demand.get(ACCOUNT.account, {}).get(ACCOUNT.resource)
            if found is not None and int(found.limit) > self.limit:
                self.change += 1
                self.limit = self.granted = self.random.randint(self.limit + 1, int(found.limit))
                with suppress(Retryable):
                    await set_limits(self.server, LEDGER, {ACCOUNT: Quantity.of(self.limit)}, number=self.change)

    async def change_limit(self) -> None:
        """As one who grants does it: a raise counts from its decision on, a lower limit once it is reached; whoever carries a
        change may be held up, and come after the next."""
        self.change += 1
        number, self.limit = self.change, self.random.randint(1, 8)
        wanted, self.granted = {ACCOUNT: Quantity.of(self.limit)}, max(self.granted, self.limit)
        end = now() + 2 * EXPIRY
        while now() < end:
            held_up = _HeldUp(self.server, lambda: self.random.choice((0.0, 0.1, EXPIRY)) * self.random.random())
            with suppress(Retryable):
                with suppress(Outdated, NotFound):
                    await set_limits(held_up, LEDGER, wanted, number=number)
                return

    async def stop_serving(self, kind: Kind[Any]) -> None:
        """The version is not served for a while, or a proxy answers in the API's place: 404, and everything is still there."""
        server = self.cups if kind is CUPS else self.server
        server.unserved.add(kind.name)
        await asyncio.sleep(self.random.choice((0.1, 1.0, 2 * EXPIRY)) * self.random.random())
        server.unserved.discard(kind.name)

    async def replace_process(self) -> None:
        dead = self.processes.pop(self.random.randrange(len(self.processes)))
        self.processes.append(Process(self, leads=dead.leads))
        await dead.die()

    async def walk(self, steps: int) -> None:
        if self.random.random() < 0.5:
            await asyncio.sleep(2 * TIMEOUT)  # the ledger is Ready
        acts = []
        for _ in range(steps):
            acts.append(asyncio.create_task(self.act()))
            await asyncio.sleep(self.random.choice((0.0, 0.05, 1.0)) * self.random.random())
        await asyncio.gather(*acts)

    async def rest(self) -> None:
        self.server.fault = lambda moment: None
        self.server.watch_lag = self.cups.watch_lag = lambda: 0.01
        for name in NAMES:
            self._annotate(name, {})  # a backup may have brought an unreadable one back
        await asyncio.sleep(150 if self.whole else 60)
        for process in self.processes:
            await process.die()
        if self.granting is not None:
            self.granting.cancel()


def now() -> float:
    return asyncio.get_running_loop().time()


async def live_through(seed: int, *, steps: int = 60, cluster: str = "", whole: int = 0) -> World:
    world = World(Random(seed), cluster=cluster, whole=whole)
    await world.walk(steps)
    await world.rest()
    return world


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_limit_holds_at_every_commit_and_the_count_is_the_truth_at_rest(seed: int) -> None:
    check_promise(in_virtual_time(live_through(seed)))


def check_promise(world: World) -> None:
    assert world.excess <= 0
    status = world.server.ledger().status
    truth = sum(cup.spec.size for cup in world.cups.all(CUPS))
    assert status.pending == ""
    assert world.source in status.observed
    assert counted(status.sums)[world.source] == ({"cups": {"size": str(truth)}} if truth else {})


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), most=st.integers(1, 6))
def test_a_ledger_that_holds_few_attempts_is_never_given_more_and_is_exact_at_rest(seed: int, most: int) -> None:
    with patch.object(decisions, "MOST_ATTEMPTS", most):
        world = in_virtual_time(live_through(seed))
    assert world.held <= most
    check_promise(world)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_another_cluster_that_is_restored_from_backups_is_counted_as_it_is(seed: int) -> None:
    check_promise(in_virtual_time(live_through(seed, cluster="east")))


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), whole=st.integers(9, 20))
def test_a_grant_that_is_raised_on_demand_is_never_passed_nor_wanted_beyond_the_whole(seed: int, whole: int) -> None:
    world = in_virtual_time(live_through(seed, whole=whole))
    check_promise(world)
    assert world.limit <= whole
    assert not world.server.ledger().status.demand, "at rest nobody wants anything"


def begins_no_new_epoch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(restores, "is_behind", lambda latest, counted: False)


def test_the_walks_find_that_the_count_of_a_restored_cluster_never_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    begins_no_new_epoch(monkeypatch)
    assert any(is_broken(in_virtual_time(live_through(seed, cluster="east"))) for seed in range(250))


def drops_every_attempt(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fold, "is_settled", lambda *_, **__: True)


def believes_any_404_of_a_kind(patch: pytest.MonkeyPatch) -> None:
    async def absent(server: Server, kind: Kind[Any]) -> str:
        return str(server.version)

    patch.setattr(Server, "absent", absent)


def believes_any_404_of_an_object(patch: pytest.MonkeyPatch) -> None:
    find = Server.find

    async def lenient(server: Server, kind: Kind[Any], name: str, namespace: str = "") -> Any:
        try:
            return await find(server, kind, name, namespace)
        except NotFound:
            return None

    patch.setattr(Server, "find", lenient)


def does_not_notice_a_backup(patch: pytest.MonkeyPatch) -> None:
    async def latest(server: Server, kind: Kind[Any], namespace: str = "", *, fields: str = "") -> str:
        return str(2**60)

    patch.setattr(Server, "latest", latest)


def counts_the_unreadable_as_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KindView, "usable", lambda view, ledger: view.cache.synced.is_set())


def takes_a_change_for_reached(*rules: str) -> Callable[[pytest.MonkeyPatch], None]:
    def weaken(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(limits, "RULES", tuple(one for one in limits.RULES if one.__name__ not in rules))

    return weaken


@pytest.mark.parametrize(
    "weaken",
    [
        pytest.param(takes_a_change_for_reached("not_set", "not_noticed"), id="any change is taken for the one that was meant"),
        pytest.param(takes_a_change_for_reached("past_limits"), id="a limit below present use is taken for reached"),
        pytest.param(
            does_not_notice_a_backup, id="a server that was restored from a backup is followed as if nothing had been"
        ),
        pytest.param(counts_the_unreadable_as_nothing, id="an object that cannot be counted counts as nothing"),
        pytest.param(drops_every_attempt, id="every attempt goes with the next fold"),
        pytest.param(believes_any_404_of_a_kind, id="a 404 of a kind counts as no objects"),
        pytest.param(believes_any_404_of_an_object, id="a 404 that names no object counts as no object"),
    ],
)
def test_the_walks_find_a_broken_promise_where_a_rule_is_left_out(
    weaken: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    weaken(monkeypatch)
    assert any(is_broken(in_virtual_time(live_through(seed))) for seed in range(250))


def is_broken(world: World) -> bool:
    try:
        check_promise(world)
    except AssertionError:
        return True
    return False
