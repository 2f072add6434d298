"""What looking at engines writes, makes and takes away, and whom it wakes; and that an idle system does nothing else."""

from __future__ import annotations

from typing import Any

from tests.unit.engines.world import GIB, MIB, NS, FakeEngine, World, holds
from ullage.clock import FakeClock
from ullage.engines.api import ENGINE_SNAPSHOTS, ENGINES, VOLUMES
from ullage.engines.chain import HEAD, Limits
from ullage.engines.client.errors import Reason
from ullage.engines.settings import Settings
from ullage.errors import NotNow, Uncertain
from ullage.kube.objects import Condition, find_condition

SNAPSHOT_KEYS = "engine-snapshots"


def settled(world: World, *names: str) -> bool:
    return all(map(world.ready, names))


def status(world: World, volume: str = "vol") -> dict[str, Any]:
    found: dict[str, Any] = (world.body(ENGINES, f"{volume}-e-0") or {}).get("status", {})
    return found


class TestObjects:
    async def test_every_entry_gets_an_object_whoever_took_it_and_the_head_none(self) -> None:
        world = World()
        engine = world.volume()
        engine.take("by-hand")
        engine.take("by-a-rebuild", user=False)
        await world.live(lambda: settled(world, "by-hand", "by-a-rebuild"))
        assert world.names() == {"by-hand", "by-a-rebuild"}
        body = world.body(ENGINE_SNAPSHOTS, "by-hand") or {}
        assert body["spec"] == {"volume": "vol"}, "createSnapshot is false"
        assert list(body["metadata"]["finalizers"]) == ["longhorn.io"]
        assert world.told.events == [], "30,000 objects of an upgrade are no news"

    async def test_names_that_cannot_be_are_said_on_the_volume(self) -> None:
        world = World()
        engine, other = world.volume(), world.volume("other")
        engine.take("Upper_Case")
        other.take("same")
        await world.live(lambda: world.ready("same"))
        engine.take("same")
        await world.live(lambda: _message(world) != "" and "same" in _message(world))
        assert _message(world) == ("other volumes have snapshots named 'same'; no object can be named 'Upper_Case'")
        found = world.snapshot("same")
        assert found is not None
        assert found.spec.volume == "other"
        writes = len(world.api.fuse.log)
        async with world.running():
            await world.quiet()
        assert len(world.api.fuse.log) == writes, "said once"

    async def test_nothing_is_made_or_taken_away_while_listing_fails(self) -> None:
        world = World()
        engine = world.volume()
        engine.take("kept")
        await world.live(lambda: world.ready("kept"))
        engine.empty()
        engine.take("new")
        engine.before = lambda call: _raise_at(call, "list", Uncertain("vol: list: DEADLINE_EXCEEDED"))
        async with world.running():
            await holds(lambda: status(world).get("snapshotsError") == "vol: list: DEADLINE_EXCEEDED")
            await world.quiet()
            assert world.names() == {"kept"}
            assert set(status(world)["snapshots"]) == {"kept", HEAD}
            engine.before = lambda call: None
            await holds(lambda: world.names() == {"new"} and not status(world).get("snapshotsError"))

    async def test_an_entry_that_is_away_for_one_look_keeps_its_object(self) -> None:
        world = World(settings=Settings(interval=60.0))
        engine = world.volume()
        engine.take("flickers")
        async with world.running():
            await holds(lambda: world.ready("flickers"))
            before = (world.body(ENGINE_SNAPSHOTS, "flickers") or {})["metadata"]["resourceVersion"]
            kept = dict(engine.entries)
            engine.empty()
            world.look()
            await holds(lambda: "lost track" in world.error("flickers"))
            engine.entries = kept
            world.look()
            await holds(lambda: world.ready("flickers"))
            world.look()
            await holds(lambda: engine.calls.count("list") >= 4)
        assert before != (world.body(ENGINE_SNAPSHOTS, "flickers") or {})["metadata"]["resourceVersion"]
        assert engine.names == {"flickers"}
        assert "mark_removed" not in engine.calls

    async def test_one_that_was_released_during_a_look_is_not_made_again(self) -> None:
        """The look saw the entry; when it came to objects, entry and object were gone."""
        world = World(settings=Settings(interval=60.0))
        engine = world.volume()
        engine.take("goes")
        engine.take("stays")
        async with world.running():
            await holds(lambda: settled(world, "goes", "stays"))
            creates = [what for what in world.api.fuse.log if what.startswith("create")]
            status = engine.purge_status

            async def released_meanwhile() -> Any:
                """Comes right after the entries were listed."""
                engine.purge_status = status  # type: ignore[method-assign]
                world.api.edit(ENGINE_SNAPSHOTS, "goes", NS, merge={"metadata": {"finalizers": None}})
                world.delete("goes")
                for _ in range(100):
                    await world.breath()  # until every cache has heard of it
                return await status()

            engine.purge_status = released_meanwhile  # type: ignore[method-assign]
            await _looked(world, engine)
            assert world.names() == {"stays"}
            assert [what for what in world.api.fuse.log if what.startswith("create")] == creates


class TestStatus:
    async def test_limits_of_the_volume_reach_the_engine(self) -> None:
        world = World()
        engine = world.volume(snapshotMaxCount=7, snapshotMaxSize=str(3 * GIB))
        await world.live(lambda: status(world).get("snapshotMaxCount") == 7)
        assert engine.given == Limits(max_count=7, max_size=3 * GIB)
        assert status(world)["snapshotMaxSize"] == str(3 * GIB)

    async def test_a_limit_that_changes_reaches_the_engine_at_once(self) -> None:
        world = World(settings=Settings(interval=600.0))
        engine = world.volume(snapshotMaxCount=7)
        async with world.running():
            await holds(lambda: engine.given.max_count == 7)
            world.api.edit(VOLUMES, "vol", NS, merge={"spec": {"snapshotMaxCount": 8}})
            await holds(lambda: engine.given.max_count == 8)

    async def test_limits_that_the_engine_refuses_are_not_asked_for_again_and_again(self) -> None:
        world = World()
        engine = world.volume(snapshotMaxCount=7)
        small = NotNow("cannot set snapshotMaxCount=7 smaller than current", reason=Reason.BELOW_USAGE)
        engine.before = lambda call: _raise_at(call, "set_limits", small)
        async with world.running():
            await world.quiet()
            assert engine.calls.count("set_limits") == 1
            engine.before = lambda call: None
            engine.take("another")
            await holds(lambda: engine.given.max_count == 7)

    async def test_limits_that_the_engine_refuses_are_said_on_the_volume_until_it_takes_them(self) -> None:
        world = World()
        engine = world.volume(snapshotMaxCount=2)
        engine.take("a")
        engine.take("b")
        small = NotNow("cannot set snapshotMaxCount=2 smaller than current snapshot count usage=3", reason=Reason.BELOW_USAGE)
        engine.before = lambda call: _raise_at(call, "set_limits", small)
        async with world.running():
            await holds(lambda: _limits_set(world) is not None)
            said = _limits_set(world)
            assert said is not None
            assert (said.status, said.reason) == ("False", "LimitBelowUsage")
            assert said.message == (
                "the engine still allows 250 snapshots of any size: cannot set snapshotMaxCount=2 smaller than current "
                "snapshot count usage=3"
            )
            await world.quiet()
            engine.before = lambda call: None
            engine._mark("a")  # it counts for nothing from now on, although it is there yet
            await holds(lambda: engine.given.max_count == 2)
            await holds(lambda: (now := _limits_set(world)) is not None and now.status == "True")

    async def test_where_limits_were_never_refused_nothing_is_said(self) -> None:
        world = World()
        world.volume(snapshotMaxCount=2)
        async with world.running():
            await holds(lambda: status(world).get("snapshotMaxCount") == 2)
            await world.quiet()
        assert _limits_set(world) is None

    async def test_a_head_that_grows_is_written_seldom_unless_it_grew_much(self) -> None:
        clock = FakeClock()
        world = World(settings=Settings(interval=60.0), clock=clock)
        engine = world.volume()
        async with world.running():
            await holds(lambda: HEAD in (status(world).get("snapshots") or {}))
            await _looked(world, engine)
            small, large = 4096, GIB // 1024
            engine.grow(small)
            await _looked(world, engine)
            assert _head(world) == "0", "little, and the last write was a moment ago"
            engine.grow(large)
            await _looked(world, engine)
            assert _head(world) == str(large), "much is written at once"
            engine.grow(large + small)
            await _looked(world, engine)
            assert _head(world) == str(large)
            clock.advance(30)
            await _looked(world, engine)
            assert _head(world) == str(large + small), "little is written after a while"


class TestWaking:
    async def test_one_new_snapshot_wakes_itself_and_its_parent(self) -> None:
        world = World()
        names = [f"snap-{number}" for number in range(6)]
        for volume in ("vol", "other"):
            engine = world.volume(volume)
            for name in names:
                engine.take(f"{volume}-{name}")
        everything = [f"{volume}-{name}" for volume in ("vol", "other") for name in names]
        async with world.running():
            await holds(lambda: settled(world, *everything))
            await world.quiet()
            world.added[SNAPSHOT_KEYS].clear()
            world.engines["vol"].take("new")
            await holds(lambda: world.ready("new"))
            await world.quiet()
            assert set(world.added[SNAPSHOT_KEYS]) == {"new", "vol-snap-5"}

    async def test_a_growing_head_wakes_nobody(self) -> None:
        world = World()
        engine = world.volume()
        engine.take("snap")
        async with world.running():
            await holds(world.ready)
            await world.quiet()
            world.added[SNAPSHOT_KEYS].clear()
            engine.grow(500 * MIB)
            await holds(lambda: _head(world) == str(500 * MIB))
            await world.quiet()
            assert world.added[SNAPSHOT_KEYS] == []

    async def test_a_purge_that_moves_on_wakes_those_that_go(self) -> None:
        world = World()
        engine = world.volume()
        for name in ("goes", "stays", "last"):
            engine.take(name)
        async with world.running():
            await holds(lambda: settled(world, "goes", "stays", "last"))
            engine.purging = True
            world.delete("goes")
            await holds(lambda: engine.entries["goes"].removed and _purging(world))
            await world.quiet()
            world.added[SNAPSHOT_KEYS].clear()
            engine.purge_error = "disk full"
            await holds(lambda: _purging(world, error="disk full"))
            await world.quiet()
            assert set(world.added[SNAPSHOT_KEYS]) == {"goes"}

    async def test_attaching_wakes_all_of_the_volume_and_no_others(self) -> None:
        world = World()
        for volume in ("vol", "other"):
            engine = world.volume(volume)
            engine.take(f"{volume}-a")
            engine.take(f"{volume}-b")
        async with world.running():
            await holds(lambda: settled(world, "vol-a", "vol-b", "other-a", "other-b"))
            await world.quiet()
            world.added[SNAPSHOT_KEYS].clear()
            world.pinned.discard("vol")
            world.attach()
            await holds(lambda: len(world.added[SNAPSHOT_KEYS]) >= 2)
            await world.quiet()
            assert set(world.added[SNAPSHOT_KEYS]) == {"vol-a", "vol-b"}


async def test_an_idle_system_makes_no_write_and_wakes_nobody() -> None:
    world = World()
    for number in range(20):
        engine = world.volume(f"vol-{number}")
        for one in range(5):
            engine.take(f"vol-{number}-snap-{one}")
    async with world.running():
        await holds(lambda: len(world.names()) == 100 and all(map(world.ready, world.names())))
        await world.quiet()
        writes, version = len(world.api.fuse.log), world.api.version
        for added in world.added.values():
            added.clear()
        calls = [len(engine.calls) for engine in world.engines.values()]
        await world.quiet()
        assert len(world.api.fuse.log) == writes
        assert world.api.version == version
        assert world.added == {"engine-snapshots": [], "engine-volumes": [], "engine-monitor": []}
        looks = [engine.calls[before:] for engine, before in zip(world.engines.values(), calls, strict=True)]
    assert all(set(look) == {"list", "purge_status", "limits"} for look in looks), "nothing but looks"


async def test_no_more_engines_are_looked_at_at_a_time_than_allowed() -> None:
    world = World(settings=Settings(interval=0.02, pollers=3))
    at_once: list[int] = []
    running = 0

    class Counting(FakeEngine):
        async def list(self) -> Any:
            nonlocal running
            running += 1
            at_once.append(running)
            try:
                for _ in range(5):
                    await world.breath()
                return await super().list()
            finally:
                running -= 1

    for number in range(12):
        name = f"vol-{number}"
        world.engines[name] = Counting(name, world.api.fuse)
        world.volume(name)
    async with world.running():
        await world.quiet()
    assert max(at_once) == 3


# --- helpers ---------------------------------------------------------------------------------------------------------


async def _looked(world: World, engine: FakeEngine) -> None:
    """One look more, from beginning to end. The clock stands still, so none comes by itself."""
    looks = engine.calls.count("limits")
    world.look()
    await holds(lambda: engine.calls.count("limits") > looks)
    await world.controllers["engine-monitor"].queue.drained()
    await holds(lambda: len(world.controllers["engine-monitor"].queue) == 0)


def _head(world: World) -> str:
    return str(status(world)["snapshots"][HEAD]["size"])


def _purging(world: World, *, error: str = "") -> bool:
    found = (status(world).get("purgeStatus") or {}).values()
    return any(one.get("isPurging") and one.get("error", "") == error for one in found)


def _limits_set(world: World) -> Condition | None:
    return find_condition(world.found_volume().status.conditions, "SnapshotLimitsSet")


def _message(world: World) -> str:
    found = [one for one in world.found_volume().status.conditions if one.type == "SnapshotsShown"]
    return found[0].message if found else ""


def _raise_at(call: str, wanted: str, error: Exception) -> None:
    if call == wanted:
        raise error
