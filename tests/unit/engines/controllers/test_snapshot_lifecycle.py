"""Snapshots from the request to the last trace of them: the real controllers on an API in memory, with engines that can fail
in every way, and a process that dies before and after every single effect."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import pytest

from tests.unit.engines.world import CREATED, GIB, MIB, NS, FakeEngine, World, holds
from ullage.engines.api import ENGINE_SNAPSHOTS, ENGINES, VOLUMES
from ullage.engines.chain import HEAD, Limits
from ullage.engines.client.errors import Reason
from ullage.engines.settings import Settings
from ullage.errors import Impossible, NotNow, UllageError, Uncertain


async def test_a_snapshot_is_taken_shown_and_goes_without_a_trace() -> None:
    world = World()
    engine = world.volume()
    world.ask(labels={"job": "daily"})
    await world.live(world.ready)
    found = world.snapshot()
    assert found is not None
    status = found.status
    assert (status.creation_time, status.size, status.restore_size, status.error) == (CREATED, MIB, GIB, "")
    assert (status.user_created, status.labels, status.children) == (True, {"job": "daily"}, {HEAD: True})
    assert status.requested_time
    engine.take("next")
    world.delete()
    await world.live(world.gone)
    assert engine.names == {"next"}
    assert engine.taken == ["snap", "next"]


async def test_a_name_is_free_only_when_its_engine_shows_it_no_more() -> None:
    """Or else the next of the name is taken for the one before it, and goes when the engine is looked at again."""
    world = World()
    engine = world.volume()
    for name in ("snap", "next"):
        world.ask(name)
        await world.live(partial(_free, world, name))

    def unseen(call: str) -> None:
        if call == "limits":  # part of every look, and of nothing else
            raise Uncertain("nobody sees what it has")

    engine.before = unseen
    world.delete()
    async with world.running():
        await holds(lambda: "snap" not in engine.names)
        asked = engine.calls.count("list")
        await holds(lambda: engine.calls.count("list") > asked + 6)
        assert world.snapshot() is not None
        engine.before = lambda call: None
        await world.api.until(world.gone)


@pytest.mark.parametrize("attached", [True, False], ids=["attached", "detached"])
async def test_a_process_may_die_before_and_after_every_effect(attached: bool) -> None:
    moment = 0
    while True:
        moment += 1
        world = World()
        engine = world.volume(attached=attached)
        world.api.fuse.blows_at = moment
        world.ask()
        await world.live(partial(_free, world, "snap"))
        world.ask("next")
        await world.live(partial(_free, world, "next"))
        assert engine.taken == ["snap", "next"], world.api.fuse.log
        world.delete()
        await world.live(world.gone)
        assert engine.names == {"next"}, world.api.fuse.log
        assert world.tickets() == []
        if world.api.fuse.passed < moment:
            return


async def test_a_deletion_may_come_at_any_moment_of_the_creation() -> None:
    moment = 0
    while True:
        moment += 1
        world = World()
        engine = world.volume(attached=False)
        engine.take("first")
        world.ask()
        fuse, before = world.api.fuse, world.api.fuse.before

        def delete_at(what: str, world: World = world, moment: int = moment, before: Any = before) -> None:
            before(what)
            if len(world.api.fuse.log) == moment:
                world.delete()

        fuse.before = delete_at  # type: ignore[method-assign]

        def settled(world: World = world) -> bool:
            found = world.snapshot()
            if world.tickets():
                return False
            return found is None or (
                world.ready() if found.metadata.deletion_timestamp is None else bool(world.condition("LogicallyRemoved"))
            )

        await world.live(settled)
        found = world.snapshot()
        if found is not None and found.metadata.deletion_timestamp is None:
            assert len(fuse.log) < moment
            return
        if found is None:
            assert engine.names == {"first"}, fuse.log
        else:  # the parent of the head: the next snapshot lets it go
            world.pinned.add("vol")
            engine.take("last")
            await world.live(world.gone)
            assert engine.names == {"first", "last"}, fuse.log


class TestEngineFails:
    async def test_an_answer_that_was_lost_is_asked_for_again(self) -> None:
        world = World()
        engine = world.volume()
        failures = iter([Uncertain("no answer"), Uncertain("no answer")])
        engine.after = lambda call: _raise_next(failures) if call == "create" else None
        world.ask()
        await world.live(world.ready)
        assert engine.taken == ["snap"]
        assert world.error() == ""

    async def test_an_engine_that_would_take_it_twice_is_asked_first(self) -> None:
        world = World(settings=Settings(interval=60.0))
        engine = world.volume()
        engine.forgetful = True
        failures = iter([Uncertain("no answer"), Uncertain("no answer")])
        engine.after = lambda call: _raise_next(failures) if call == "create" else None
        async with world.running():
            await holds(lambda: "limits" in engine.calls)  # the next look comes too late to tell
            world.ask()
            await holds(world.ready)
        assert engine.taken == ["snap"]

    async def test_a_snapshot_that_came_after_the_question_is_the_one(self) -> None:
        world = World()
        engine = world.volume()
        engine.before = lambda call: engine.take("snap") if call == "create" and not engine.taken else None
        world.ask()
        await world.live(world.ready)
        assert engine.taken == ["snap"]
        assert world.condition("Failed") == ""
        assert "SnapshotFailed" not in world.told.reasons

    async def test_an_error_that_passes_is_shown_and_then_cleared(self) -> None:
        world = World()
        engine = world.volume()
        engine.before = lambda call: _raise_at(call, "create", NotNow("no space left on device", reason=Reason.FULL))
        world.ask()
        await world.live(lambda: "no space left" in world.error())
        engine.before = lambda call: None
        await world.live(world.ready)
        assert world.error() == ""
        assert "SnapshotTroubled" in world.told.reasons

    async def test_after_so_many_tries_it_has_failed_and_is_left_alone(self) -> None:
        world = World(settings=Settings(interval=0.02, tries=4))
        engine = world.volume()
        full = NotNow("no space left on device", reason=Reason.FULL)
        engine.before = lambda call: _raise_at(call, "create", full)
        world.ask()
        async with world.running():
            await holds(lambda: world.condition("Failed") == "DiskFull")
            assert "(after 4 tries)" in world.error()
            assert engine.calls.count("create") == 4
            engine.before = lambda call: None
            polls = engine.calls.count("list")
            await holds(lambda: engine.calls.count("list") > polls + 3)
        assert engine.calls.count("create") == 4
        await world.live(lambda: True)
        assert engine.taken == [], "nor by the next process"
        world.delete()
        await world.live(world.gone)

    async def test_an_engine_that_is_away_for_long_is_no_reason_to_give_up(self) -> None:
        world = World(settings=Settings(interval=0.02, tries=2))
        engine = world.volume()
        engine.running = False  # its process was started anew, and its Engine does not say so yet
        world.ask()
        async with world.running():
            await holds(lambda: engine.calls.count("has") > 5)
            assert (world.error(), world.condition("Failed")) == ("volume vol is not attached", "")
            engine.running = True
            await holds(world.ready)
        assert "SnapshotTroubled" not in world.told.reasons

    @pytest.mark.parametrize(
        "error",
        [
            pytest.param(Impossible("not with this version", reason=Reason.UNSUPPORTED), id="what it cannot do"),
            pytest.param(
                NotNow("snapshot count usage 2 is equal or larger than snapshotMaxCount 2", reason=Reason.COUNT_LIMIT),
                id="too many",
            ),
            pytest.param(
                NotNow("snapshot free space 1 is not enough for head file 2", reason=Reason.SIZE_LIMIT), id="too large"
            ),
        ],
    )
    async def test_a_refusal_is_final_at_once(self, error: NotNow | Impossible) -> None:
        world = World()
        engine = world.volume()
        engine.before = lambda call: _raise_at(call, "create", error)
        world.ask()
        await world.live(lambda: world.condition("Failed") == error.reason)
        assert world.error() == str(error), "no word of tries"
        assert engine.calls.count("create") == 1
        assert world.told.reasons.count("SnapshotFailed") == 1

    async def test_of_a_limit_that_was_changed_a_moment_ago_the_volume_s_word_counts(self) -> None:
        """Its engine hears of it when it is next looked at, or now."""
        world = World(settings=Settings(interval=60.0))
        engine = world.volume(snapshotMaxCount=2)

        def full(call: str) -> None:
            if call == "create" and engine.given.max_count < 3:
                raise NotNow("snapshot count usage 2 is equal or larger than snapshotMaxCount 2", reason=Reason.COUNT_LIMIT)

        engine.before = full
        async with world.running():
            await holds(lambda: engine.given.max_count == 2)
            world.api.edit(VOLUMES, "vol", NS, merge={"spec": {"snapshotMaxCount": 3}})
            engine.given = Limits(max_count=2)
            world.ask()
            await holds(world.ready)
        assert engine.given.max_count == 3

    async def test_one_that_failed_and_is_there_after_all_is_ready(self) -> None:
        world = World(settings=Settings(interval=0.02, tries=1))
        engine = world.volume()
        engine.before = lambda call: _raise_at(call, "create", Uncertain("no answer"))
        world.ask()
        await world.live(lambda: bool(world.condition("Failed")))
        engine.take("snap")
        await world.live(world.ready)
        assert (world.condition("Failed"), world.error()) == ("", "")

    async def test_a_removal_that_fails_says_why_and_is_tried_again(self) -> None:
        world = World()
        engine = world.volume()
        world.ask()
        await world.live(world.ready)
        engine.take("next")
        engine.before = lambda call: _raise_at(
            call, "mark_removed", NotNow("replica r is rebuilding", reason=Reason.REBUILDING)
        )
        world.delete()
        await world.live(lambda: "is rebuilding" in world.error())
        engine.before = lambda call: None
        await world.live(world.gone)
        assert engine.names == {"next"}

    async def test_a_purge_that_fails_is_shown_and_tried_again(self) -> None:
        world = World()
        engine = world.volume()
        world.ask()
        await world.live(world.ready)
        engine.take("next")
        engine.purge_error = "no space left on device"
        world.delete()
        await world.live(lambda: "could not merge it away: no space left" in world.error())
        engine.purge_error = ""
        await world.live(world.gone)
        assert engine.names == {"next"}


class TestRemoval:
    async def test_the_parent_of_the_head_is_only_marked_and_goes_after_the_next_snapshot(self) -> None:
        world = World()
        engine = world.volume()
        world.ask()
        await world.live(world.ready)
        world.delete()
        async with world.running():
            await holds(lambda: world.condition("LogicallyRemoved") == "ParentOfHead")
            assert engine.entries["snap"].removed
            assert (world.error(), world.ready()) == ("", False)
            await world.quiet()
            assert engine.calls.count("purge") == 0, "no retries"
            world.ask("next")
            await holds(world.gone)
        assert engine.names == {"next"}

    async def test_one_that_several_build_on_is_tried_once_and_goes_when_one_is_left(self) -> None:
        world = World()
        engine = world.volume()
        world.ask()
        await world.live(world.ready)
        engine.take("next")
        engine.branch("snap", "other")
        world.delete()
        async with world.running():
            await holds(lambda: world.condition("LogicallyRemoved") == "NotMerged")
            purges = engine.calls.count("purge")
            await world.quiet()
            assert engine.calls.count("purge") == purges == 1
        await world.live(lambda: world.ready("other"))
        assert engine.calls.count("purge") == 1, "the next process knows too"
        world.delete("other")
        await world.live(lambda: world.gone() and world.gone("other"))
        assert engine.names == {"next"}

    async def test_while_a_purge_runs_it_is_waited_for(self) -> None:
        world = World()
        engine = world.volume()
        world.ask()
        await world.live(world.ready)
        engine.take("next")
        engine.purging = True
        world.delete()
        async with world.running():
            await holds(lambda: engine.entries["snap"].removed)
            await world.quiet()
            assert "purge" not in engine.calls
            engine.purging = False
            await holds(world.gone)

    async def test_one_that_never_reached_the_engine_goes_at_once(self) -> None:
        world = World()
        engine = world.volume(attached=False)
        world.ask()
        world.delete()
        await world.live(world.gone)
        assert engine.calls == []
        assert world.attachments == 0


class TestDetached:
    async def test_a_volume_is_attached_for_a_snapshot_and_let_go(self) -> None:
        world = World()
        engine = world.volume(attached=False)
        world.ask()
        await world.live(lambda: world.ready() and not world.tickets() and not engine.running)
        assert world.attachments == 1
        assert "SnapshotWaiting" in world.told.reasons

    async def test_nothing_is_removed_while_detached(self) -> None:
        world = World()
        engine = world.volume()
        world.ask()
        await world.live(world.ready)
        engine.take("next")
        await world.live(lambda: world.ready("next"))
        world.pinned.clear()
        world.attach()
        before = len(engine.calls)
        world.delete()
        await world.live(lambda: world.gone() and not engine.running)
        assert engine.names == {"next"}
        assert world.attachments == 2
        assert len(engine.calls) > before

    async def test_one_that_is_only_marked_does_not_have_its_volume_attached(self) -> None:
        world = World()
        engine = world.volume(attached=False)
        world.ask()
        await world.live(lambda: world.ready() and not world.tickets())
        world.delete()
        await world.live(lambda: bool(world.condition("LogicallyRemoved")) and not world.tickets() and not engine.running)
        attachments = world.attachments
        async with world.running():
            await world.quiet()
        assert world.attachments == attachments

    async def test_a_failed_snapshot_holds_nothing(self) -> None:
        world = World()
        engine = world.volume(attached=False)
        engine.before = lambda call: _raise_at(call, "create", Impossible("no", reason=Reason.UNSUPPORTED))
        world.ask()
        await world.live(lambda: bool(world.condition("Failed")) and not world.tickets())

    async def test_tickets_of_owners_that_are_gone_or_over_are_reaped(self) -> None:
        world = World()
        world.volume(attached=False)
        world.ask("done", create=False)
        tickets = {
            "gone": _ticket("nobody", "uid-nobody", "2099-01-01T00:00:00Z"),
            "another": _ticket("done", "uid-of-an-earlier-one", "2099-01-01T00:00:00Z"),
            "done": _ticket("done", "uid-done", "2099-01-01T00:00:00Z"),
            "over": {"owner": {"kind": "Backup", "name": "b"}, "until": "2020-01-01T00:00:00Z"},
            "theirs": {"owner": {"kind": "Backup", "name": "b"}, "until": "2099-01-01T00:00:00Z"},
        }
        world.api.edit(VOLUMES, "vol", NS, merge={"spec": {"attachmentTickets": tickets}})
        await world.live(lambda: world.tickets() == ["theirs"])


class TestLost:
    async def test_a_lost_entry_is_said_and_recovers(self) -> None:
        world = World(settings=Settings(interval=60.0))
        engine = world.volume()
        world.ask()
        async with world.running():
            await holds(world.ready)
            kept = engine.entries.pop("snap")
            world.look()
            await holds(lambda: world.error() == "lost track of the corresponding snapshot info inside volume engine")
            assert not world.ready()
            engine.entries["snap"] = kept
            world.look()
            await holds(world.ready)
        assert world.error() == ""
        assert ("Normal", "SnapshotLost", "The snapshot is not in the engine any more.") in world.told.events

    async def test_what_is_gone_for_two_looks_has_no_object_any_more(self) -> None:
        world = World()
        engine = world.volume()
        world.ask()
        engine.take("system", user=False)
        await world.live(lambda: world.ready() and world.ready("system"))
        engine.empty()
        engine.take("other")
        await world.live(lambda: world.names() == {"other"})
        assert engine.taken.count("snap") == 1, "what was there is not taken anew"

    async def test_migration_stops_everything(self) -> None:
        world = World()
        engine = world.volume()
        engine.take("found")
        world.engine_object("vol-e-1", "vol")
        world.ask()
        async with world.running():
            await holds(lambda: "migrates" in world.error())
            await world.quiet()
            assert engine.calls == []
            assert world.names() == {"snap"}
            world.api.edit(ENGINES, "vol-e-1", NS, merge={"metadata": {"deletionTimestamp": CREATED}})
            await holds(lambda: world.ready() and world.ready("found"))


async def test_one_that_no_webhook_saw_is_stamped_first() -> None:
    world = World()
    world.volume()
    world.ask(stamp=False)
    await world.live(world.ready)
    meta = (world.body(ENGINE_SNAPSHOTS, "snap") or {})["metadata"]
    assert list(meta["finalizers"]) == ["longhorn.io"]
    assert meta["labels"] == {"longhornvolume": "vol"}
    assert list(meta["ownerReferences"]) == [
        {"apiVersion": "longhorn.io/v1beta2", "kind": "Volume", "name": "vol", "uid": "uid-vol"}
    ]


# --- helpers ---------------------------------------------------------------------------------------------------------


def _free(world: World, name: str) -> bool:
    """Ready, and the volume is not held for it any more."""
    return world.ready(name) and not world.tickets()


def _ticket(name: str, uid: str, until: str) -> dict[str, Any]:
    return {"owner": {"kind": "Snapshot", "name": name, "uid": uid}, "since": CREATED, "until": until}


def _raise_at(call: str, wanted: str, error: UllageError) -> None:
    if call == wanted:
        raise error


def _raise_next(errors: Any) -> None:
    error = next(errors, None)
    if error is not None:
        raise error


# --- purges at the same time -----------------------------------------------------------------------------------------


class SlowPurges:
    """Engines whose purges go on until they are let end."""

    def __init__(self, world: World, volumes: int) -> None:
        self.world = world
        self.engines = [world.volume(f"vol-{number}") for number in range(volumes)]
        self.most = 0
        for number, engine in enumerate(self.engines):
            engine._purge = partial(self._begin, engine)  # type: ignore[method-assign]
            world.api.edit(ENGINES, f"vol-{number}-e-0", NS, merge={"spec": {"nodeID": f"node-{number % 2}"}})

    def _begin(self, engine: FakeEngine) -> None:
        engine.purging = True
        self.most = max(self.most, max(self.running().values()))

    def running(self) -> Counter[str]:
        return Counter(f"node-{number % 2}" for number, engine in enumerate(self.engines) if engine.purging)

    def let_end(self) -> None:
        for engine in self.engines:
            if engine.purging:
                engine.purging = False
                FakeEngine._purge(engine)


async def test_of_a_node_only_so_many_volumes_purge_at_the_same_time_and_the_others_wait_and_say_so() -> None:
    world = World(settings=Settings(interval=0.02, purges_per_node=2))
    slow = SlowPurges(world, 8)
    names = [f"snap-{number}" for number in range(8)]
    for number, name in enumerate(names):
        world.ask(name, f"vol-{number}")
    await world.live(lambda: all(map(world.ready, names)))
    for engine in slow.engines:
        engine.take("next-" + engine.volume)
    waits = "waiting to be merged away: 2 volumes of node node-{} are purging, and that many may at the same time"
    async with world.running():
        for name in names:
            world.delete(name)
        await holds(lambda: sum(world.error(name) in (waits.format(0), waits.format(1)) for name in names) == 4)
        assert slow.running() == {"node-0": 2, "node-1": 2}
        while not all(world.snapshot(name) is None for name in names):
            slow.let_end()
            await world.breath()
    assert slow.most == 2


async def test_purges_that_end_at_once_hold_nobody_up() -> None:
    """However seldom engines are polled."""
    world = World(settings=Settings(interval=30.0, purges_per_node=2))
    engines = [world.volume(f"vol-{number}") for number in range(10)]
    names = [f"snap-{number}" for number in range(10)]
    async with world.running():
        for number, name in enumerate(names):
            world.ask(name, f"vol-{number}")
        await holds(lambda: all(map(world.ready, names)))
        for engine in engines:
            engine.take("next-" + engine.volume)
        for name in names:
            world.delete(name)
        await holds(lambda: all(world.snapshot(name) is None for name in names))
    assert all(engine.calls.count("purge") == 1 for engine in engines)
