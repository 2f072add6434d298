"""Volumes that go take their snapshots with them, in whatever state those are; and one that is made anew adopts nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from tests.unit.engines.world import NS, World, holds
from ullage.engines.api import ENGINE_SNAPSHOTS, ENGINES, VOLUMES
from ullage.engines.chain import HEAD
from ullage.engines.client.errors import Reason
from ullage.errors import Impossible, NotNow

Phase = Callable[[World], Awaitable[None]]


def volume_gone(world: World) -> bool:
    return world.body(VOLUMES, "vol") is None and not world.names()


# --- phases: each brings a volume's snapshot `snap` into one of its states and leaves it there -------------------------


async def asked_for(world: World) -> None:
    world.volume()
    world.ask()


async def waiting_for_the_volume(world: World) -> None:
    world.volume(attached=False)
    world.api.put(ENGINES, {"metadata": {"name": "vol-e-1", "namespace": NS}, "spec": {"volumeName": "vol"}})  # never runs
    world.ask()
    await world.live(lambda: bool(world.error()))


async def failing(world: World) -> None:
    engine = world.volume()
    engine.before = lambda call: _raise_at(call, "create", NotNow("no space left on device", reason=Reason.FULL))
    world.ask()
    await world.live(lambda: bool(world.error()))


async def failed(world: World) -> None:
    engine = world.volume()
    engine.before = lambda call: _raise_at(call, "create", Impossible("no", reason=Reason.UNSUPPORTED))
    world.ask()
    await world.live(lambda: bool(world.condition("Failed")))


async def ready(world: World) -> None:
    world.volume()
    world.ask()
    await world.live(world.ready)


async def ready_and_detached(world: World) -> None:
    await ready(world)
    world.pinned.clear()
    await world.live(lambda: not world.engines["vol"].running)


async def logically_removed(world: World) -> None:
    await ready(world)
    world.delete()
    await world.live(lambda: bool(world.condition("LogicallyRemoved")))


async def being_purged(world: World) -> None:
    await ready(world)
    engine = world.engines["vol"]
    engine.take("next")
    engine.purging = True
    world.delete()
    await world.live(lambda: engine.entries["snap"].removed)


async def deleted_and_unreachable(world: World) -> None:
    await ready(world)
    world.engines["vol"].before = lambda call: _raise_at(call, call, NotNow("no replica", reason=Reason.NO_REPLICA))
    world.delete()
    await world.live(lambda: "no replica" in world.error())


async def lost(world: World) -> None:
    await ready(world)
    world.engines["vol"].empty()
    found = (world.body(ENGINES, "vol-e-0") or {})["status"]["snapshots"]
    world.api.edit(ENGINES, "vol-e-0", NS, merge={"status": {"snapshots": {name: None for name in found if name != HEAD}}})


async def only_found(world: World) -> None:
    world.volume().take("snap", user=False)
    await world.live(world.ready)


async def many(world: World) -> None:
    await logically_removed(world)
    engine = world.engines["vol"]
    engine.purging = True
    for number in range(6):
        engine.take(f"found-{number}")
    await world.live(lambda: world.ready("found-5"))
    world.delete("found-3")
    world.pinned.clear()
    world.ask("asked")
    world.ask("shown", create=False)


async def none(world: World) -> None:
    world.volume()


PHASES = [
    none,
    asked_for,
    waiting_for_the_volume,
    failing,
    failed,
    ready,
    ready_and_detached,
    logically_removed,
    being_purged,
    deleted_and_unreachable,
    lost,
    only_found,
    many,
]
each_phase = pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.__name__.replace("_", " "))


@each_phase
async def test_a_volume_takes_its_snapshots_with_it(phase: Phase) -> None:
    world = World()
    await phase(world)
    await world.live(partial(_held, world))
    calls = world.engines["vol"].calls.count("purge")
    world.delete_volume()
    await world.live(lambda: volume_gone(world))
    assert world.engines["vol"].calls.count("purge") == calls, "nothing is merged for a volume that goes"


@each_phase
async def test_a_process_may_die_at_any_effect_while_they_go(phase: Phase) -> None:
    moment = 0
    while True:
        moment += 1
        world = World()
        await phase(world)
        await world.live(partial(_held, world))
        world.api.fuse.passed, world.api.fuse.blows_at = 0, moment
        world.delete_volume()
        await world.live(partial(volume_gone, world))
        if world.api.fuse.passed < moment:
            return


async def test_the_volume_stays_until_the_last_of_its_snapshots_is_gone() -> None:
    world = World()
    await ready(world)
    world.api.edit(ENGINE_SNAPSHOTS, "snap", NS, merge={"metadata": {"finalizers": ["longhorn.io", "somebody.else/holds"]}})
    world.delete_volume()
    async with world.running():
        await holds(lambda: _snapshot_finalizers(world) == ["somebody.else/holds"])
        for one in world.controllers.values():
            await one.queue.drained()
        await asyncio.sleep(0)
        assert "longhorn.io" in _finalizers(world)
        world.api.edit(ENGINE_SNAPSHOTS, "snap", NS, merge={"metadata": {"finalizers": None}})
        await holds(lambda: volume_gone(world))


async def test_a_volume_that_is_made_anew_adopts_nothing_and_loses_nothing() -> None:
    world = World()
    engine = world.volume(uid="old")
    world.ask()
    await world.live(world.ready)
    world.api.edit(VOLUMES, "vol", NS, merge={"metadata": {"finalizers": None, "deletionTimestamp": "2026-01-01T00:05:00Z"}})
    assert world.body(VOLUMES, "vol") is None, "somebody forced it"
    world.volume(uid="new")
    engine.empty()
    engine.take("snap")
    await world.live(lambda: "is not the one that this was taken of" in world.error())
    assert not world.ready()
    await world.live(lambda: _shown(world) == ("False", "NameTaken"))
    world.delete()  # the garbage collector does, since its owner is gone
    await world.live(world.ready)
    owners = (world.body(ENGINE_SNAPSHOTS, "snap") or {})["metadata"]["ownerReferences"]
    assert [one["uid"] for one in owners] == ["new"]
    assert engine.names == {"snap"}
    assert "mark_removed" not in engine.calls
    await world.live(lambda: _shown(world) == ("True", "AllShown"))


def _shown(world: World) -> tuple[str, str]:
    found = [one for one in world.found_volume().status.conditions if one.type == "SnapshotsShown"]
    return (found[0].status, found[0].reason) if found else ("", "")


def _held(world: World) -> bool:
    return "longhorn.io" in _finalizers(world)


def _finalizers(world: World) -> list[str]:
    body = world.body(VOLUMES, "vol") or {"metadata": {}}
    return list(body["metadata"].get("finalizers") or ())


def _snapshot_finalizers(world: World) -> list[str]:
    body = world.body(ENGINE_SNAPSHOTS, "snap") or {"metadata": {}}
    return list(body["metadata"].get("finalizers") or ())


def _raise_at(call: str, wanted: str, error: Exception) -> None:
    if call == wanted:
        raise error
