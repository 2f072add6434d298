"""A core quota that follows migrations, beside a Rancher that knows nothing of it."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.unit.headroom.builders import ONE_COST, TEAM, instance, migration, stamped
from tests.unit.headroom.controllers.machine_scene import QUOTA, ComputeScene
from tests.unit.kube.virtual_time import in_virtual_time
from tests.unit.snapshots.memory_api import Fuse
from ullage.headroom.controllers.scale_quota_rules import RAISED
from ullage.kube.builtin.core import CORE_QUOTAS
from ullage.vms.api.machines import INSTANCES
from ullage.vms.api.migrations import MIGRATIONS

BASE = {"limits_cpu": "4", "limits_memory": "5Gi"}
PLAIN = {"limits.cpu": "4", "limits.memory": "5Gi"}
RAISED_BY_ONE = {"limits.cpu": "5", "limits.memory": "6342Mi"}


def simulated(test: Callable[[ComputeScene], Awaitable[None]]) -> Callable[[], None]:
    @functools.wraps(test)
    def wrapped() -> None:
        async def run() -> None:
            scene = ComputeScene()
            scene.quota(**BASE)
            runs(scene)
            await test(scene)

        in_virtual_time(run())

    del wrapped.__wrapped__  # else pytest looks for a fixture called scene
    return wrapped


def runs(scene: ComputeScene, name: str = "db", **more: Any) -> None:
    scene.put(INSTANCES, instance(name, owner="", annotations=stamped(cost=ONE_COST), **more))


def ends(scene: ComputeScene, phase: str = "Succeeded", name: str = "move") -> None:
    scene.api.edit(MIGRATIONS, name, TEAM, merge={"status": {"phase": phase}})


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_the_quota_is_raised_while_a_migration_goes_on(phase: str) -> None:
    @simulated
    async def story(scene: ComputeScene) -> None:
        async with scene.running():
            scene.put(MIGRATIONS, migration())
            await scene.until(lambda: scene.hard() == RAISED_BY_ONE)
            ends(scene, phase)
            await scene.until(lambda: scene.hard() == PLAIN)
        assert RAISED not in scene.marks(CORE_QUOTAS, QUOTA)

    story()


@simulated
async def test_a_migration_that_goes_while_nobody_is_there_is_not_forgotten(scene: ComputeScene) -> None:
    scene.put(MIGRATIONS, migration())
    async with scene.running():
        await scene.until(lambda: scene.hard() == RAISED_BY_ONE)
    scene.api.remove(MIGRATIONS, "move", TEAM)
    async with scene.running():
        await scene.until(lambda: scene.hard() == PLAIN)


@simulated
async def test_a_migration_of_nothing_or_of_what_has_ended_raises_nothing(scene: ComputeScene) -> None:
    """Whoever may ask for migrations gets no quota by asking."""
    runs(scene, "done", phase="Succeeded")
    for name in ("nobody", "done"):
        scene.put(MIGRATIONS, migration(f"move-{name}", of=name))
    async with scene.running():
        await scene.quiet()
    assert scene.api.patches(CORE_QUOTAS) == 0
    assert scene.hard() == PLAIN


@simulated
async def test_a_hundred_migrations_of_one_instance_raise_it_once(scene: ComputeScene) -> None:
    for number in range(100):
        scene.put(MIGRATIONS, migration(f"move-{number}"))
    async with scene.running():
        await scene.until(lambda: scene.hard() == RAISED_BY_ONE)
        await scene.quiet()
    assert scene.hard() == RAISED_BY_ONE


@simulated
async def test_two_at_once_raise_it_once(scene: ComputeScene) -> None:
    async with scene.running(count=2):
        scene.put(MIGRATIONS, migration())
        await scene.quiet()
        assert scene.hard() == RAISED_BY_ONE
        ends(scene)
        await scene.quiet()
    assert scene.hard() == PLAIN


@simulated
async def test_what_rancher_resets_now_and_then_is_raised_again_at_once(scene: ComputeScene) -> None:
    scene.put(MIGRATIONS, migration())
    async with scene.running():
        await scene.until(lambda: scene.hard() == RAISED_BY_ONE)
        scene.reset(**BASE)
        await scene.until(lambda: scene.hard() == RAISED_BY_ONE, seconds=0.5)
        scene.reset(limits_cpu="8", limits_memory="5Gi")
        await scene.until(lambda: scene.hard() == {"limits.cpu": "9", "limits.memory": "6342Mi"}, seconds=0.5)
        ends(scene)
        await scene.until(lambda: scene.hard() == {"limits.cpu": "8", "limits.memory": "5Gi"})


@simulated
async def test_against_one_who_resets_it_each_time_it_is_written_once_a_second_at_most(scene: ComputeScene) -> None:
    scene.put(MIGRATIONS, migration())
    async with scene.running():
        for _ in range(12000):
            await scene.quiet(0.01)
            if scene.hard() != PLAIN:
                scene.reset(**BASE)
    assert 100 <= scene.api.patches(CORE_QUOTAS) <= 130, "in two minutes"


@simulated
async def test_against_one_who_waits_longer_each_time_it_is_raised_nearly_always(scene: ComputeScene) -> None:
    """Two who wait alike would take turns, and whoever asks for the pod would never find it raised."""
    scene.put(MIGRATIONS, migration())
    raised, due, wait = 0, 0.0, 0.5
    async with scene.running():
        for tick in range(6000):
            await scene.quiet(0.01)
            raised += scene.hard() == RAISED_BY_ONE
            if scene.hard() != PLAIN and tick * 0.01 >= due:
                scene.reset(**BASE)
                wait *= 2
                due = tick * 0.01 + wait
    assert raised >= 5500, "of a minute, in hundredths of a second"


@simulated
async def test_an_instance_that_is_stamped_late_is_added_then(scene: ComputeScene) -> None:
    scene.put(INSTANCES, instance("old", owner=""))
    scene.put(MIGRATIONS, migration("move-old", of="old"))
    async with scene.running():
        await scene.until(lambda: scene.hard() == RAISED_BY_ONE)


@simulated
async def test_a_quota_that_is_being_deleted_is_left_alone(scene: ComputeScene) -> None:
    scene.api.edit(CORE_QUOTAS, QUOTA, TEAM, merge={"metadata": {"finalizers": ["example.com/held"]}})
    scene.api.remove(CORE_QUOTAS, QUOTA, TEAM)
    scene.put(MIGRATIONS, migration())
    async with scene.running():
        await scene.quiet()
    assert scene.api.patches(CORE_QUOTAS) == 0


@pytest.mark.parametrize("moment", range(1, 5))
def test_it_may_die_before_and_after_every_write(moment: int) -> None:
    @simulated
    async def story(scene: ComputeScene) -> None:
        scene.put(MIGRATIONS, migration(annotations=stamped()))
        scene.api.fuse = Fuse(blows_at=moment)
        await scene.live(lambda: scene.hard() == RAISED_BY_ONE)
        ends(scene)
        await scene.live(lambda: scene.hard() == PLAIN)

    story()
