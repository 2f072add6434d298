"""Two slices' kinds on one ledger, through replicas that are composed as the product's are, in virtual time.

Clients want cups and plates, and do not give up; some objects go again; calls take any time and their answers are lost;
replicas die between any two steps. At every commit: no more than the limit. At rest: each kind is counted, nothing pending.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.kube.virtual_time import in_virtual_time
from tests.unit.ledger.simulated import CUPS, Cup, CupSpec, Server, ledger, lossy, takes
from tests.unit.ledger.slices import PLATES, review, slice_of, wired
from ullage.clock import SystemClock
from ullage.errors import UllageError
from ullage.kube.cache.indexer import Key
from ullage.kube.kinds import Kind, Meta
from ullage.ledger.amounts import NOTHING
from ullage.ledger.api import LEDGERS
from ullage.ledger.book import Book
from ullage.ledger.codec import book_of
from ullage.ledger.fold import fold as whole_fold
from ullage.ledger.service import decisions
from ullage.ledger.service.expiry import Settings
from ullage.ledger.slice import ledger as ledger_slice

TIMEOUT, EXPIRY = 5.0, 6.0
KINDS = (CUPS, PLATES)
SLICES = (
    ledger_slice(Settings(request_timeout=TIMEOUT, expiry=EXPIRY, call=1.0)),
    *(slice_of(kind) for kind in KINDS),
)
REPLICAS, CLIENTS = 3, 64


class Process:
    """A webhook, or a leader. It dies without a word."""

    def __init__(self, server: Server, *, leads: bool) -> None:
        self.leads = leads
        self._wiring = wired(server)
        controllers = self._wiring.controllers(SLICES) if leads else []
        self.hooks = {} if leads else {hook.name: hook for hook in self._wiring.hooks(SLICES)}
        works = [*(cache.run() for cache in self._wiring.caches), *(one.run() for one in controllers)]
        self._tasks = [asyncio.create_task(work) for work in works]

    async def die(self) -> None:
        for task in self._tasks:
            task.cancel()
        for held in self._wiring.held:
            await held.__aexit__(None, None, None)
        await asyncio.gather(*self._tasks, return_exceptions=True)


class World:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.limit = random.randint(5, 40)
        self.most = 0
        self.server = Server(latency=lambda: random.choice((0.001, 0.01, 0.05, 0.7)) * random.random())
        self.server.fault = lossy(random, before=0.05, after=0.1)
        self.server.watch_lag = lambda: random.choice((0.0, 0.0, 0.01, 0.3))
        self.server.committed = self.check
        self.server.put(LEDGERS, ledger(self.limit))
        self._uids = itertools.count(1)
        self.replicas = [Process(self.server, leads=False) for _ in range(REPLICAS)]
        self.leader = Process(self.server, leads=True)

    def check(self) -> None:
        self.most = max(self.most, sum(one.spec.size for kind in KINDS for one in self.server.all(kind)))

    async def want(self, kind: Kind[Cup], name: str) -> None:
        size = self.random.randint(1, 3)
        for _ in range(6):
            uid = f"00000000-0000-4000-8000-{next(self._uids):012d}"
            if await self._admitted(kind, name, size, uid):
                await asyncio.sleep(self.random.choice((0.0, 0.01, 0.5)) * self.random.random())
                if self.server.get(kind, Key("team", name)) is None and self.random.random() < 0.9:
                    meta = Meta(name=name, namespace="team", uid=uid)
                    self.server.put(kind, Cup(metadata=meta, spec=CupSpec(size=size)))
                    break
            await asyncio.sleep(self.random.random())
        await asyncio.sleep(2 * EXPIRY * self.random.random())
        if self.random.random() < 0.3 and self.server.get(kind, Key("team", name)) is not None:
            self.server.drop(kind, Key("team", name))

    async def _admitted(self, kind: Kind[Cup], name: str, size: int, uid: str) -> bool:
        end = asyncio.get_running_loop().time() + TIMEOUT
        hook = self.random.choice(self.replicas).hooks[kind.plural]
        try:
            answer = await hook.answer(review(kind, name, size, uid=uid, deadline=end - 1.0))
        except (UllageError, asyncio.CancelledError):  # the replica died, not the client
            return False
        return answer.allowed and asyncio.get_running_loop().time() < end - 0.5

    async def kill(self) -> None:
        for _ in range(4):
            await asyncio.sleep(2 * self.random.random())
            if self.random.random() < 0.5:
                dead, self.leader = self.leader, Process(self.server, leads=True)
            else:
                dead = self.replicas.pop(self.random.randrange(REPLICAS))
                self.replicas.append(Process(self.server, leads=False))
            await dead.die()

    async def live(self) -> None:
        wants = [self.want(KINDS[number % 2], f"n-{number // 2}") for number in range(CLIENTS)]
        await asyncio.gather(self.kill(), *wants)
        self.server.fault = lambda moment: None
        self.server.watch_lag = lambda: 0.01
        await asyncio.sleep(60)
        for process in (self.leader, *self.replicas):
            await process.die()


async def lived(seed: int) -> World:
    world = World(Random(seed))
    await world.live()
    return world


def check_promise(world: World) -> None:
    assert world.most <= world.limit
    status = world.server.ledger().status
    assert status.pending == ""
    book = book_of(world.server.ledger(), now=SystemClock().now())
    truth = {kind.name: takes(sum(one.spec.size for one in world.server.all(kind))) for kind in KINDS}
    assert {kind: one.sums for kind, one in book.observed.items()} == truth
    assert {one.type: one.status for one in status.conditions}["Ready"] == "True"


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_two_kinds_share_a_limit_exactly_through_replicas_that_die(seed: int) -> None:
    check_promise(in_virtual_time(lived(seed)))


def folds_one_kind_over_the_other(patch: pytest.MonkeyPatch) -> None:
    def fold(book: Book, *args: Any, kind: str, **rest: Any) -> Book:
        folded = whole_fold(book, *args, kind=kind, **rest)
        return (
            folded
            if folded is book
            else Book.of(
                limits=folded.limits,
                observed={
                    other: one if other == kind else replace(one, sums=NOTHING) for other, one in folded.observed.items()
                },
                pending=folded.pending,
                last=folded.last,
                limited=folded.limited,
                since=folded.since,
            )
        )

    patch.setattr(decisions, "fold", fold)


@pytest.mark.parametrize(
    "weaken", [pytest.param(folds_one_kind_over_the_other, id="the sums of one kind replace those of the other")]
)
def test_the_walks_find_a_broken_promise_where_a_rule_is_left_out(
    weaken: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    weaken(monkeypatch)
    worlds = (in_virtual_time(lived(seed)) for seed in range(20))
    assert any(world.most > world.limit for world in worlds)
