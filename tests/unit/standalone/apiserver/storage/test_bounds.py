"""What the store holds, in memory and on disk, has bounds in bytes: for large objects, for many kinds, and for a long time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.standalone.apiserver.server_kit import GatedDatabase, eventually, running_kit
from ullage.clock import FakeClock
from ullage.standalone.apiserver.settings import Limits
from ullage.standalone.apiserver.status import ApiError
from ullage.standalone.apiserver.storage import compaction, store, watch_cache
from ullage.standalone.apiserver.storage.database import Database
from ullage.standalone.apiserver.storage.event_expiry import EventExpiry
from ullage.standalone.apiserver.storage.history import GRAIN, History
from ullage.standalone.apiserver.storage.maintenance import MOST_HISTORY, Maintenance
from ullage.standalone.apiserver.storage.store import Compacted, Store

Json = dict[str, Any]
THINGS = "things"
KIB = 1 << 10
MIB = 1 << 20


def thing(name: str, size: int = 0, **meta: Any) -> Json:
    return {"metadata": {"name": name, **meta}, "padding": "x" * size}


async def put(kept: Store, name: str, size: int = 0, *, storage: str = THINGS, **meta: Any) -> int:
    head = kept.head(storage, "", name)
    entry = await kept.stage(storage, thing(name, size, **meta), expect=head.rv if head else 0)
    return entry.rv


async def drop(kept: Store, name: str, *, storage: str = THINGS) -> None:
    head = kept.head(storage, "", name)
    assert head is not None
    await kept.stage_delete(storage, head.obj(), expect=head.rv)


@pytest.fixture
async def disk(tmp_path: Path) -> GatedDatabase:
    return GatedDatabase(tmp_path / "state.db")


@pytest.fixture
async def kept(disk: GatedDatabase) -> AsyncIterator[Store]:
    found = Store(disk, Limits(live=20 * MIB, history=4 * MIB, recent=2 * MIB))
    yield found
    disk.gate.set()
    await found.close()


def on_disk(disk: Database) -> int:
    """Bytes of all objects on disk, old and present."""
    return int(disk._reader.execute("SELECT coalesce(sum(length(data)), 0) FROM revisions").fetchone()[0])


def size_of(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.iterdir())


class TestHistory:
    async def test_it_stays_within_its_bound_while_objects_are_replaced(self, kept: Store, disk: GatedDatabase) -> None:
        for _ in range(40):
            await put(kept, "x", MIB // 2)
        assert on_disk(disk) < 4 * MIB + 2 * MIB
        assert kept.history.size <= 4 * MIB + GRAIN

    async def test_what_is_kept_can_be_watched_and_what_is_not_is_gone(self, kept: Store) -> None:
        for _ in range(40):
            await put(kept, "x", MIB // 2)
        assert 30 < kept.compacted < 40
        position, seen = kept.compacted, []
        while events := await kept.changes(THINGS, position):
            seen += [event.rv for event in events]
            position = seen[-1]
        assert seen == list(range(kept.compacted + 1, 41))
        with pytest.raises(Compacted):
            await kept.changes(THINGS, kept.compacted - 1)
        with pytest.raises(Compacted):
            await kept.page(THINGS, at=kept.compacted - 1, namespace="", start=("", ""), limit=0)

    async def test_it_is_counted_alike_after_a_restart(self, kept: Store, disk: GatedDatabase) -> None:
        for number in range(10):
            await put(kept, f"x{number % 3}", 100 * number)
        await drop(kept, "x0")
        again = Store(disk, Limits())
        assert (again.history.size, again.size) == (kept.history.size, kept.size)
        again._writer.shutdown()
        again._reader.shutdown()

    async def test_a_step_of_a_compaction_frees_a_bounded_number_of_bytes(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(compaction, "COMPACT_BYTES", 2 * MIB)
        disk = GatedDatabase(tmp_path / "state.db")
        kept = Store(disk)
        for _ in range(20):
            await put(kept, "x", MIB)
        steps = []
        compact = disk.compact

        def noted(after: int, upto: int) -> None:
            steps.append((after, upto))
            compact(after, upto)

        monkeypatch.setattr(disk, "compact", noted)
        await kept.compact(19)
        assert len(steps) > 5
        assert [upto for _, upto in steps[:-1]] == [after for after, _ in steps[1:]]
        await kept.close()

    async def test_what_an_earlier_run_left_goes_step_by_step_and_holds_nobody_up(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(compaction, "COMPACT_BYTES", MIB)
        first = Store(Database(tmp_path / "state.db", durable=False))
        for _ in range(30):
            await put(first, "x", MIB)
        await first.close()
        kept = Store(Database(tmp_path / "state.db", durable=False), Limits(history=4 * MIB))
        began = kept.compacted
        await put(kept, "x")
        await kept.shorten()
        assert 0 < kept.compacted - began <= 6
        clock = FakeClock()
        maintenance = Maintenance(kept, clock, history=300, expiry=EventExpiry(kept, clock, seconds=3600))
        for _ in range(20):
            await maintenance.forget()
        assert kept.history.size <= 4 * MIB
        await kept.close()

    async def test_a_commit_takes_a_bounded_number_of_bytes(self, kept: Store, disk: GatedDatabase) -> None:
        disk.gate.clear()
        writing = [kept.stage(THINGS, thing(f"x{number}", MIB), expect=0) for number in range(12)]
        disk.gate.set()
        await asyncio.gather(*writing)
        assert len([what for what, _ in disk.diary if what == "begin"]) >= 2

    def test_its_marks_are_few_however_many_revisions_there_are(self) -> None:
        history = History()
        for revision in range(1, 200_001):
            history.add(revision, 100)
        assert len(history) < 60
        reached = history.reach(history.size // 2)
        assert 90_000 < reached < 110_000
        history.forget(reached)
        assert history.reach(10**12) == 200_000
        history.forget(200_000)
        assert (history.size, len(history), history.reach(1)) == (0, 0, 0)


class TestSpace:
    async def test_free_space_returns_in_slices_and_the_journal_is_emptied(self, tmp_path: Path) -> None:
        disk = Database(tmp_path / "state.db", durable=True)
        kept = Store(disk, Limits(history=MIB))
        for number in range(16):
            await put(kept, f"x{number}", MIB)
        for number in range(16):
            await drop(kept, f"x{number}")
        assert (tmp_path / "state.db").stat().st_size > 12 * MIB
        slices = 0
        while await kept.tidy(pages=256, slack=64):
            slices += 1
            await put(kept, "between")
        assert slices > 8
        assert disk.free_pages() <= 64 + 256
        assert size_of(tmp_path) < 5 * MIB
        await kept.close()

    async def test_a_reader_in_the_way_of_the_journal_is_not_waited_for(self, tmp_path: Path) -> None:
        disk = Database(tmp_path / "state.db", durable=False)
        kept = Store(disk)
        await put(kept, "x", MIB)
        disk._reader.execute("BEGIN")
        disk._reader.execute("SELECT count(*) FROM revisions").fetchone()
        await put(kept, "y", MIB)
        assert not disk.checkpoint()
        disk._reader.execute("COMMIT")
        assert disk.checkpoint()
        assert disk.journal_bytes() == 0
        await kept.close()

    async def test_the_start_reads_only_what_is_present(self, tmp_path: Path) -> None:
        first = Store(Database(tmp_path / "state.db", durable=False))
        for _ in range(5):
            await put(first, "x", KIB)
        await put(first, "y")
        await drop(first, "y")
        await first.close()
        disk = Database(tmp_path / "state.db", durable=False)
        assert [(row.name, row.rv) for row in disk.current()] == [("x", 5)]
        disk.close()


class TestMemory:
    async def test_recent_events_of_many_kinds_share_one_bound(self, kept: Store) -> None:
        for number in range(200):
            await put(kept, "x", 40 * KIB, storage=f"kind-{number}")
        held = sum(event.size for ring in kept._caches.all.values() for event in ring.events)
        assert held == kept.recent <= 4 * MIB

    async def test_a_busy_kind_does_not_push_out_the_events_of_a_quiet_one(self, kept: Store) -> None:
        await put(kept, "x", storage="quiet")
        for _ in range(100):
            await put(kept, "x", 100 * KIB)
        assert [event.rv for event in kept._caches.of("quiet").events] == [1]

    @pytest.mark.parametrize("where", ["memory", "disk"])
    async def test_a_watch_takes_a_bounded_number_of_bytes_or_one_event(
        self, tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(watch_cache, "TAKEN_BYTES", 10 * KIB)
        monkeypatch.setattr(store, "TAKEN_BYTES", 10 * KIB)
        kept = Store(Database(tmp_path / "state.db", durable=False))
        for size in (3, 3, 3, 3, 100, 100, 3):
            await put(kept, f"x{kept.revision}", size * KIB)
        if where == "disk":
            kept._caches.of(THINGS).floor = 100
        position, taken = 0, []
        while events := await kept.changes(THINGS, position):
            position = events[-1].rv
            taken.append(len(events))
        assert taken == [4, 1, 1, 1]
        await kept.close()

    async def test_what_was_before_is_read_from_disk_only_for_those_who_ask(self, kept: Store) -> None:
        await put(kept, "x")
        await put(kept, "x")
        kept._caches.of(THINGS).floor = 100
        (with_before,) = await kept.changes(THINGS, 1)
        (without,) = await kept.changes(THINGS, 1, before=False)
        assert with_before.before is not None
        assert (without.type, without.data, without.before) == ("MODIFIED", with_before.data, None)

    async def test_a_list_in_the_past_holds_what_is_unchanged_once(self, kept: Store) -> None:
        await put(kept, "x", MIB)
        await put(kept, "y", KIB)
        await put(kept, "y", KIB)
        found = await kept.page(THINGS, at=2, namespace="", start=("", ""), limit=0)
        assert [entry.rv for entry in found] == [1, 2]
        assert found[0] is kept.get(THINGS, "", "x")

    async def test_the_memory_of_a_kind_that_is_gone_goes(self, kept: Store) -> None:
        await put(kept, "x", KIB)
        kept.forget(THINGS)
        assert THINGS in kept._caches.all  # something is left in it
        waiting = asyncio.ensure_future(kept.changed(THINGS, 1, 60))
        await asyncio.sleep(0)
        await drop(kept, "x")
        await waiting
        kept.forget(THINGS)
        assert (list(kept._caches.all), kept.recent) == ([], 0)
        assert [event.type for event in await kept.changes(THINGS, 0)] == ["ADDED", "DELETED"]

    async def test_a_delete_on_its_way_holds_the_memory_of_its_kind(self, kept: Store, disk: GatedDatabase) -> None:
        await put(kept, "x")
        disk.gate.clear()
        head = kept.head(THINGS, "", "x")
        assert head is not None
        going = kept.stage_delete(THINGS, head.obj(), expect=head.rv)
        kept.forget(THINGS)
        disk.gate.set()
        await going
        assert kept.get(THINGS, "", "x") is None


class TestALongTime:
    @pytest.mark.parametrize(
        "turns", [pytest.param(800, id="40,000 updates"), pytest.param(4000, id="200,000 updates", marks=pytest.mark.slow)]
    )
    async def test_leases_that_are_renewed_for_hours_leave_nothing_behind(self, tmp_path: Path, turns: int) -> None:
        """Fifty clients, each every two seconds: two hours are 180,000."""
        disk = Database(tmp_path / "state.db", durable=False)
        kept = Store(disk, Limits(history=2 * MIB))
        clock = FakeClock()
        maintenance = Maintenance(kept, clock, history=300, expiry=EventExpiry(kept, clock, seconds=3600))
        versions = dict.fromkeys((f"lease-{number}" for number in range(50)), 0)
        for turn in range(turns):
            writing = [kept.stage(THINGS, thing(name, 200), expect=rv) for name, rv in versions.items()]
            versions = {entry.key[1]: entry.rv for entry in await asyncio.gather(*writing)}
            if turn % 5 == 0:
                clock.advance(10)
                await maintenance.forget()
            if turn % 500 == 0:
                await maintenance.tidy()
        assert kept.revision == 50 * turns
        rows = disk._reader.execute("SELECT count(*) FROM revisions").fetchone()[0]
        assert rows < 10_000
        assert kept.history.size <= 2 * MIB + GRAIN
        assert len(maintenance._marks) < 50
        assert len(kept._caches.of(THINGS).events) <= 2 * watch_cache.RECENT
        assert (len(kept._commits.heads), len(kept._commits), len(kept._caches.of(THINGS).waiters)) == (0, 0, 0)
        assert size_of(tmp_path) < 40 * MIB
        await kept.close()

    async def test_small_revisions_are_bounded_by_their_number(self, kept: Store) -> None:
        clock = FakeClock()
        maintenance = Maintenance(kept, clock, history=300, expiry=EventExpiry(kept, clock, seconds=3600))
        await put(kept, "x")
        kept._caches.revision += MOST_HISTORY + 10
        await maintenance.forget()
        assert kept.compacted == 11


class TestQuota:
    async def test_all_objects_together_have_a_bound_and_deletes_make_room(self, kept: Store) -> None:
        for number in range(19):
            await put(kept, f"x{number}", MIB)
        with pytest.raises(ApiError) as caught:
            await put(kept, "more", MIB)
        assert caught.value.status() == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": "etcdserver: mvcc: database space exceeded",
            "code": 500,
        }
        revision = kept.revision
        await put(kept, "x0", MIB - 10)  # what does not grow may be written
        await put(kept, "x0", MIB + 510 * KIB)
        with pytest.raises(ApiError):
            await put(kept, "x3", MIB + 510 * KIB)
        await put(kept, "x1", MIB, deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["a/b"])
        await drop(kept, "x2")
        await put(kept, "more", MIB)
        assert kept.revision == revision + 5

    async def test_what_failed_does_not_count(self, kept: Store, disk: GatedDatabase) -> None:
        await put(kept, "x", KIB)
        size = kept.size
        disk.failing.append("database or disk is full")
        with pytest.raises(ApiError):
            await put(kept, "y", MIB)
        assert kept.size == size

    @pytest.mark.parametrize(
        ("padding", "refused"),
        [
            pytest.param("x" * (1500 * KIB), False, id="within the bound"),
            pytest.param("x" * (1536 * KIB), True, id="over it"),
            pytest.param('"' * (1024 * KIB), False, id="over it in JSON alone, where each quote takes two bytes"),
        ],
    )
    async def test_one_object_has_a_bound(self, kept: Store, padding: str, refused: bool) -> None:
        obj = {"metadata": {"name": "x"}, "padding": padding}
        if refused:
            with pytest.raises(ApiError, match="etcdserver: request is too large"):
                await kept.stage(THINGS, obj, expect=0)
            assert kept.revision == 0
        else:
            assert (await kept.stage(THINGS, obj, expect=0)).rv == 1


class TestABrokenDisk:
    async def test_the_store_says_so_until_the_disk_takes_writes_again(self, kept: Store, disk: GatedDatabase) -> None:
        await put(kept, "x")
        disk.failing.append("database or disk is full")
        with pytest.raises(ApiError) as caught:
            await put(kept, "y")
        assert (caught.value.code, kept.broken) == (500, "database or disk is full")
        assert kept.get(THINGS, "", "x") is not None
        await put(kept, "y")
        assert kept.broken == ""

    async def test_it_is_asked_again_although_nobody_writes(self, kept: Store, disk: GatedDatabase) -> None:
        disk.failing.append("database or disk is full")
        with pytest.raises(ApiError):
            await put(kept, "y")
        clock = FakeClock()
        await Maintenance(kept, clock, history=300, expiry=EventExpiry(kept, clock, seconds=3600)).tidy()
        assert kept.broken == ""


EVENTS = "events"


class TestExpiry:
    async def test_an_event_goes_an_hour_after_its_last_write(self, kept: Store) -> None:
        clock = FakeClock()
        expiry = EventExpiry(kept, clock, seconds=3600)
        await put(kept, "a", storage=EVENTS)
        await put(kept, "b", storage=EVENTS)
        await put(kept, "a", storage=THINGS)
        clock.advance(3000)
        await put(kept, "a", storage=EVENTS)
        clock.advance(601)
        await expiry.turn()
        assert [entry.key[1] for entry in kept.items(EVENTS)] == ["a"]
        events = await kept.changes(EVENTS, 4)
        assert [(event.type, event.key[1], event.rv) for event in events] == [("DELETED", "b", 5)]
        clock.advance(3000)
        await expiry.turn()
        assert (kept.count(EVENTS), kept.count(THINGS)) == (0, 1)

    async def test_a_restart_does_not_give_it_another_hour(self, tmp_path: Path) -> None:
        clock = FakeClock()
        first = Store(Database(tmp_path / "state.db", durable=False))
        expiry = EventExpiry(first, clock, seconds=3600)
        await put(first, "a", storage=EVENTS)
        await expiry.turn()
        clock.advance(1800)
        await put(first, "b", storage=EVENTS)
        await expiry.turn()
        await first.close()
        second = Store(Database(tmp_path / "state.db", durable=False))
        clock.advance(1000)
        expiry = EventExpiry(second, clock, seconds=3600)
        await expiry.turn()
        assert second.count(EVENTS) == 2
        clock.advance(900)
        await expiry.turn()
        assert [entry.key[1] for entry in second.items(EVENTS)] == ["b"]
        clock.advance(1800)
        await expiry.turn()
        assert second.count(EVENTS) == 0
        assert len(second.marks()) < 5
        await second.close()

    async def test_events_that_nothing_is_known_of_have_an_hour_from_the_start(self, kept: Store) -> None:
        await put(kept, "a", storage=EVENTS)
        clock = FakeClock()
        expiry = EventExpiry(kept, clock, seconds=3600)
        clock.advance(3599)
        await expiry.turn()
        assert kept.count(EVENTS) == 1
        clock.advance(2)
        await expiry.turn()
        assert kept.count(EVENTS) == 0

    async def test_many_go_in_batches_and_one_that_is_being_written_stays(self, kept: Store, disk: GatedDatabase) -> None:
        clock = FakeClock()
        expiry = EventExpiry(kept, clock, seconds=3600)
        await asyncio.gather(*(kept.stage(EVENTS, thing(f"e{number}"), expect=0) for number in range(350)))
        clock.advance(3601)
        disk.gate.clear()
        writing = asyncio.ensure_future(put(kept, "e0", storage=EVENTS))
        await eventually(lambda: disk.diary[-1][0] == "begin")
        turn = asyncio.ensure_future(expiry.turn())
        await asyncio.sleep(0)
        disk.gate.set()
        await asyncio.gather(writing, turn)
        assert [entry.key[1] for entry in kept.items(EVENTS)] == ["e0"]

    async def test_the_composed_server_has_both_groups_expire(self, tmp_path: Path) -> None:
        async with running_kit(tmp_path, work=False) as kit:
            await kit.namespace("a")
            about = {"involvedObject": {"namespace": "a"}, "reason": "a", "message": "b", "type": "Normal"}
            await kit.create("events", "core", namespace="a", **about)
            kit.clock.advance(3700)
            await kit.server.maintenance._expiry.turn()
            assert kit.get("events", "core", namespace="a") is None
