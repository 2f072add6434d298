"""A project's quota on a master and three seeds while connections break, people change their minds and the master is killed.

Controllers, hooks and ledgers are the real ones; servers and time are not (`tests/unit/projects/platform_scene.py`): room moves
once a minute, and twenty schedules of that take an hour by the clock. What must hold is looked at with every write that anybody
makes. `tests/e2e/test_projects_partitions.py` has one schedule on real processes and connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.unit.kube.virtual_time import in_virtual_time
from tests.unit.projects.master_scene import bugs_fail
from tests.unit.projects.platform_scene import CLUSTER, NAME, EscrowFuse, PlatformScene
from ullage.projects.api.kkp import SEEDS as SEED_OBJECTS
from ullage.projects.api.quotas import PROJECT_QUOTAS
from ullage.projects.names import DRAINING
from ullage.projects.settings import SEED_NAMESPACE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SEEDS = ("ams", "fra", "nyc")
SETTLED = 5.0  # seconds after which a seed has counted what happened
ALLOWED, REFUSED = 200, (403, 429)

seeds = st.sampled_from(SEEDS)
STEPS = st.one_of(
    st.tuples(st.just("cut"), seeds),
    st.tuples(st.just("heal"), seeds),
    st.tuples(st.just("create"), seeds, st.integers(1, 6)),
    st.tuples(st.just("rush"), st.permutations(SEEDS)),
    st.tuples(st.just("delete"), seeds, st.integers(1, 4)),
    st.tuples(st.just("quota"), st.integers(2, 9)),
    st.tuples(st.just("kill")),
    st.tuples(st.just("start")),
    st.tuples(st.just("wait"), st.sampled_from((1, 20, 90))),
)


class Schedule:
    """One that is followed, step by step."""

    def __init__(self, scene: PlatformScene) -> None:
        self.scene = scene
        self.number = 0
        self.frozen: dict[str, int | None] = {}  # what a seed that is cut off may have: nobody can tell it otherwise

    async def step(self, what: str, *given: Any) -> None:
        await getattr(self, what)(*given)
        self.scene.assert_sound()
        for seed, limit in self.frozen.items():
            assert self.scene.seeds[seed].limit() == limit, f"{seed} is cut off, and has another limit"

    async def cut(self, seed: str) -> None:
        if seed not in self.frozen:
            self.scene.links[seed].cut()
            await asyncio.sleep(1)  # what was sent arrives
            self.frozen[seed] = self.scene.seeds[seed].limit()

    async def heal(self, seed: str) -> None:
        self.frozen.pop(seed, None)
        self.scene.links[seed].heal()
        await asyncio.sleep(1)

    async def create(self, seed: str, number: int) -> None:
        """A seed admits all that fits into what it has, cut off or not, and asks nobody."""
        await asyncio.sleep(SETTLED)
        one = self.scene.seeds[seed]
        for _ in range(number):
            self.number += 1
            there, limit = len(one.names()), one.limit()
            assert limit is not None
            decided = await one.ask(f"m-{self.number}")
            assert decided.code in (ALLOWED, *REFUSED), decided
            if there < limit:
                assert decided.code == ALLOWED, f"{seed} has {there} of {limit}: {decided.message}"
            elif seed in self.frozen:
                assert decided.code in REFUSED, f"{seed} is cut off, and has {there} of {limit}"

    async def rush(self, order: Sequence[str]) -> None:
        """Each seed in turn is asked for more than there is."""
        for seed in order:
            await self.create(seed, self.scene.quota - len(self.scene.seeds[seed].names()) + 1)

    async def delete(self, seed: str, number: int) -> None:
        for name in self.scene.seeds[seed].names()[:number]:
            self.scene.seeds[seed].remove(name, cluster=CLUSTER)

    async def quota(self, cpu: int) -> None:
        self.scene.set_quota(cpu)
        await asyncio.sleep(2)

    async def kill(self) -> None:
        await self.scene.kill_master()

    async def start(self) -> None:
        await self.scene.start_master()

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def fills(self, seed: str) -> None:
        """Everything is healed and empty, and all room can be used there."""
        for one in SEEDS:
            await self.heal(one)
            await self.delete(one, 1000)
        await self.start()

        async def full() -> None:
            while len(self.scene.seeds[seed].names()) < self.scene.quota:
                await self.create(seed, 1)
                self.scene.assert_sound()

        try:
            await asyncio.wait_for(full(), 1800)
        except TimeoutError:
            await self.scene.until(f"all room is usable on {seed}", lambda: False, 0)
        await self.create(seed, 1)
        assert self.scene.machines() == {**dict.fromkeys(SEEDS, 0), seed: self.scene.quota}


def follow(quota: int, work: Callable[[PlatformScene], Awaitable[None]]) -> None:
    async def run() -> None:
        scene = PlatformScene(*SEEDS, quota=quota)
        scene.set_quota(quota)
        async with scene.running():
            await scene.until("the first quota is in force", scene.is_in_force)
            await work(scene)
        scene.assert_sound()

    bugs_fail(lambda: in_virtual_time(run()))


@settings(
    max_examples=20,
    derandomize=True,
    deadline=None,
    phases=(Phase.generate,),  # one that fails is short enough to be read as it is
    suppress_health_check=list(HealthCheck),
)
@given(quota=st.integers(3, 9), steps=st.lists(STEPS, min_size=8, max_size=16), last=seeds)
def test_no_partition_lets_seeds_have_more_than_the_quota_and_all_of_it_is_usable_after(
    quota: int, steps: list[tuple[Any, ...]], last: str
) -> None:
    async def work(scene: PlatformScene) -> None:
        schedule = Schedule(scene)
        for what, *terms in steps:
            await schedule.step(what, *terms)
        await schedule.fills(last)

    follow(quota, work)


# --- every interrupted prefix ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Transition:
    """`begin` has it happen, on a scene where `before` machines are; `done` says whether it has."""

    begin: Callable[[PlatformScene], Any]
    done: Callable[[PlatformScene], bool]
    before: int = 0


def total(scene: PlatformScene) -> int:
    return sum(limit or 0 for limit in scene.limits().values())


def settled(scene: PlatformScene) -> bool:
    return scene.is_in_force() and scene.granted() == scene.limits() and total(scene) == scene.quota


def asks_for_more(scene: PlatformScene) -> None:
    async def ask() -> None:
        while len(scene.seeds["fra"].names()) < 5:
            await scene.seeds["fra"].ask(f"more-{len(scene.seeds['fra'].names())}")
            await asyncio.sleep(1)

    scene.asking = asyncio.create_task(ask())


def drains(scene: PlatformScene) -> None:
    merge = {"metadata": {"annotations": {DRAINING: "true"}}}
    scene.api.edit(SEED_OBJECTS, "ams", SEED_NAMESPACE, merge=merge)


TRANSITIONS = {
    "the quota is raised": Transition(lambda scene: scene.set_quota(15), settled),
    "the quota is lowered": Transition(lambda scene: scene.set_quota(3), settled, before=1),
    "the quota is lowered below what is used": Transition(
        lambda scene: scene.set_quota(2), lambda scene: total(scene) <= 2 and sum(scene.machines().values()) == 6, before=2
    ),
    "room moves to who asks": Transition(asks_for_more, lambda scene: scene.machines()["fra"] == 5, before=1),
    "a seed is to leave": Transition(
        drains, lambda scene: settled(scene) and scene.limits()["ams"] == scene.machines()["ams"], before=1
    ),
    "the quota is removed": Transition(
        lambda scene: scene.api.remove(PROJECT_QUOTAS, NAME),
        lambda scene: scene.api.body(PROJECT_QUOTAS, NAME) is None and set(scene.limits().values()) == {None},
        before=1,
    ),
}


async def interrupted(scene: PlatformScene, transition: Transition, moment: int) -> bool:
    """Whether the master died at that moment: else the transition has no more of them."""
    for seed in SEEDS:
        for number in range(transition.before):
            assert (await scene.seeds[seed].ask(f"first-{number}")).code == ALLOWED
    await asyncio.sleep(SETTLED)
    scene.api.escrow_fuse = EscrowFuse(blows_at=moment)
    transition.begin(scene)
    await scene.until("it is over, or the master is dead", lambda: scene.is_dead or transition.done(scene))
    died = scene.is_dead
    scene.assert_sound()
    if died:
        await scene.kill_master()
        scene.api.escrow_fuse = EscrowFuse()
        await asyncio.sleep(30)
        scene.assert_sound()
        await scene.start_master()
    await scene.until("it is over", lambda: transition.done(scene))
    return died


@pytest.mark.parametrize("name", TRANSITIONS)
def test_a_master_killed_at_any_step_of_a_transition_is_replaced_by_one_that_finishes_it(name: str) -> None:
    moment, died = 0, True
    while died:
        moment += 1
        outcome: list[bool] = []

        async def work(scene: PlatformScene, at: int = moment, told: list[bool] = outcome) -> None:
            told.append(await interrupted(scene, TRANSITIONS[name], at))

        follow(9, work)
        (died,) = outcome
    assert moment > 4, "a record and a limit that is carried, each cut before and after"
