"""The store: who wins, what is seen when, what a failing disk leaves behind, and what history can tell."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.standalone.apiserver.server_kit import GatedDatabase, eventually
from ullage.standalone.apiserver.request.deadlines import ending, remaining
from ullage.standalone.apiserver.status import ApiError
from ullage.standalone.apiserver.storage import compaction, watch_cache
from ullage.standalone.apiserver.storage.database import Database, NewerLayout, Revision
from ullage.standalone.apiserver.storage.entries import Entry, Event
from ullage.standalone.apiserver.storage.store import Compacted, Stale, Store

Json = dict[str, Any]
THINGS = "things"
FULL = "Internal error occurred: the database cannot be written: database or disk is full"


def thing(name: str, value: int = 0, *, namespace: str = "a") -> Json:
    return {"metadata": {"namespace": namespace, "name": name}, "value": value}


def told(events: list[Event]) -> list[tuple[str, str, int]]:
    return [(event.type, event.key[1], event.rv) for event in events]


@pytest.fixture
async def disk(tmp_path: Path) -> GatedDatabase:
    return GatedDatabase(tmp_path / "state.db")


@pytest.fixture
async def kept(disk: GatedDatabase) -> AsyncIterator[Store]:
    found = Store(disk)
    yield found
    disk.gate.set()
    await found.close()


@pytest.fixture
async def limited(disk: GatedDatabase) -> AsyncIterator[Store]:
    """As the server has it."""
    found = Store(disk, remaining=remaining)
    yield found
    disk.gate.set()
    await found.close()


async def put(kept: Store, name: str, value: int = 0, *, namespace: str = "a") -> Entry:
    head = kept.head(THINGS, namespace, name)
    return await kept.stage(THINGS, thing(name, value, namespace=namespace), expect=head.rv if head else 0)


async def drop(kept: Store, name: str) -> Entry:
    head = kept.head(THINGS, "a", name)
    assert head is not None
    return await kept.stage_delete(THINGS, head.obj(), expect=head.rv)


class TestStaging:
    async def test_reads_show_nothing_that_is_not_on_disk(self, kept: Store, disk: GatedDatabase) -> None:
        disk.gate.clear()
        writing = kept.stage(THINGS, thing("x"), expect=0)
        await eventually(lambda: bool(disk.diary))
        assert kept.get(THINGS, "a", "x") is None
        assert kept.revision == 0
        assert kept.head(THINGS, "a", "x") is not None
        disk.gate.set()
        assert (await writing).rv == 1
        assert kept.get(THINGS, "a", "x") is not None

    async def test_two_writers_of_one_version_cannot_both_win(self, kept: Store, disk: GatedDatabase) -> None:
        disk.gate.clear()
        first = kept.stage(THINGS, thing("x", 1), expect=0)
        with pytest.raises(Stale):
            kept.stage(THINGS, thing("x", 2), expect=0)
        second = kept.stage(THINGS, thing("x", 3), expect=1)
        with pytest.raises(Stale):
            kept.stage_delete(THINGS, thing("x"), expect=1)
        disk.gate.set()
        assert [(await first).rv, (await second).rv] == [1, 2]

    async def test_a_name_is_free_as_soon_as_its_delete_is_staged(self, kept: Store, disk: GatedDatabase) -> None:
        await put(kept, "x")
        disk.gate.clear()
        gone = kept.stage_delete(THINGS, thing("x"), expect=1)
        assert kept.head(THINGS, "a", "x") is None
        with pytest.raises(Stale):
            kept.stage_delete(THINGS, thing("x"), expect=1)
        again = kept.stage(THINGS, thing("x", 2), expect=0)
        disk.gate.set()
        await asyncio.gather(gone, again)
        assert told(await kept.changes(THINGS, 1)) == [("DELETED", "x", 2), ("ADDED", "x", 3)]

    async def test_writes_that_wait_for_a_commit_share_the_next_one(self, kept: Store, disk: GatedDatabase) -> None:
        disk.gate.clear()
        first = kept.stage(THINGS, thing("first"), expect=0)
        await eventually(lambda: bool(disk.diary))
        rest = [kept.stage(THINGS, thing(f"x{number}"), expect=0) for number in range(20)]
        disk.gate.set()
        await asyncio.gather(first, *rest)
        assert disk.diary == [("begin", 1), ("commit", 1), ("begin", 21), ("commit", 21)]

    async def test_what_is_staged_can_be_listed(self, kept: Store, disk: GatedDatabase) -> None:
        await put(kept, "x")
        disk.gate.clear()
        pending = [kept.stage(THINGS, thing("y"), expect=0), kept.stage_delete(THINGS, thing("x"), expect=1)]
        assert [entry.key[1] for entry in kept.staged(THINGS)] == ["y"]
        assert kept.staged("others") == []
        disk.gate.set()
        await asyncio.gather(*pending)
        assert kept.staged(THINGS) == []

    async def test_a_cancelled_request_leaves_its_write_on_its_way(self, kept: Store, disk: GatedDatabase) -> None:
        disk.gate.clear()
        writing = asyncio.ensure_future(put(kept, "x"))
        await eventually(lambda: bool(disk.diary))
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        disk.gate.set()
        await eventually(lambda: kept.get(THINGS, "a", "x") is not None)


class TestDurability:
    @pytest.mark.parametrize(
        ("durable", "level"),
        [pytest.param(True, 2, id="FULL for real data"), pytest.param(False, 1, id="NORMAL for throw-away data")],
    )
    def test_both_connections_sync(self, tmp_path: Path, durable: bool, level: int) -> None:
        database = Database(tmp_path / "state.db", durable=durable)
        for connection in (database._writer, database._reader):
            assert connection.execute("PRAGMA synchronous").fetchone() == (level,)
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            assert connection.execute("PRAGMA fullfsync").fetchone() == (int(durable),)
        database.close()

    async def test_nobody_is_answered_before_the_commit_returned(self, kept: Store, disk: GatedDatabase) -> None:
        kept.listeners.append(lambda _, event: disk.diary.append(("publish", event.rv)))

        async def write(number: int) -> None:
            entry = await kept.stage(THINGS, thing(f"x{number}"), expect=0)
            disk.diary.append(("answer", entry.rv))

        for wave in range(5):
            await asyncio.gather(*(write(10 * wave + number) for number in range(10)))
        for rv in range(1, 51):
            commit = next(at for at, (what, upto) in enumerate(disk.diary) if what == "commit" and upto >= rv)
            assert commit < disk.diary.index(("publish", rv)) < disk.diary.index(("answer", rv))

    async def test_a_commit_is_one_transaction_with_one_begin_and_one_commit(self, tmp_path: Path) -> None:
        database = Database(tmp_path / "state.db", durable=True)
        statements: list[str] = []
        database._writer.set_trace_callback(lambda text: statements.append(text.split(" ")[0]))
        kept = Store(database)
        statements.clear()
        await asyncio.gather(*(kept.stage(THINGS, thing(f"x{number}"), expect=0) for number in range(5)))
        assert statements == ["BEGIN", *["INSERT"] * 5, "COMMIT"]
        await kept.close()

    async def test_another_process_finds_what_was_answered_without_a_close(self, kept: Store, disk: GatedDatabase) -> None:
        """What a killed process leaves is what another connection can read now."""
        await put(kept, "x", 7)
        other = sqlite3.connect(disk._path)
        assert other.execute("SELECT name, rv FROM revisions").fetchall() == [("x", 1)]
        other.close()

    def test_the_file_is_for_its_owner_alone_even_in_an_open_directory(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o755)
        path = tmp_path / "state.db"
        path.touch(0o644)
        database = Database(path, durable=True)
        database._writer.execute("INSERT INTO meta VALUES ('x', 1)")
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
        database.close()
        assert modes == {"state.db": 0o600, "state.db-wal": 0o600, "state.db-shm": 0o600}

    def test_a_file_of_a_later_release_is_refused(self, tmp_path: Path) -> None:
        with sqlite3.connect(tmp_path / "state.db") as other:
            other.execute("PRAGMA user_version=99")
        other.close()
        with pytest.raises(NewerLayout, match="layout 99"):
            Database(tmp_path / "state.db", durable=True)

    async def test_settled_waits_for_what_head_showed(self, kept: Store, disk: GatedDatabase) -> None:
        disk.gate.clear()
        writing = kept.stage(THINGS, thing("x"), expect=0)
        waiting = asyncio.ensure_future(kept.settled(THINGS, "a", "x"))
        await eventually(lambda: bool(disk.diary))
        assert not waiting.done()
        await kept.settled(THINGS, "a", "y")  # nothing of this one is on its way
        disk.gate.set()
        await waiting
        assert writing.done()


class TestFailure:
    async def test_a_failed_commit_fails_all_that_was_built_on_it(self, kept: Store, disk: GatedDatabase) -> None:
        await put(kept, "x", 1)
        disk.gate.clear()
        disk.failing.append("database or disk is full")
        second = kept.stage(THINGS, thing("x", 2), expect=1)
        await eventually(lambda: len(disk.diary) == 3)
        third = kept.stage(THINGS, thing("x", 3), expect=2)
        settling = asyncio.ensure_future(kept.settled(THINGS, "a", "x"))
        await asyncio.sleep(0)
        disk.gate.set()
        outcomes = await asyncio.gather(second, third, settling, return_exceptions=True)
        assert [(type(outcome), str(outcome)) for outcome in outcomes] == [(ApiError, FULL)] * 3
        assert (kept.revision, kept.head(THINGS, "a", "x")) == (1, kept.get(THINGS, "a", "x"))

    async def test_after_a_failed_commit_writing_goes_on_with_fresh_numbers(self, kept: Store, disk: GatedDatabase) -> None:
        disk.failing.append("disk I/O error")
        with pytest.raises(ApiError, match="disk I/O error"):
            await put(kept, "x")
        assert (await put(kept, "x")).rv == 2
        assert told(await kept.changes(THINGS, 0)) == [("ADDED", "x", 2)]

    def test_a_transaction_that_could_not_be_rolled_back_does_not_block_the_next(self, tmp_path: Path) -> None:
        database = Database(tmp_path / "state.db", durable=False)
        database._writer.execute("BEGIN IMMEDIATE")
        database.compact(0, 0)
        assert not database._writer.in_transaction
        database.close()

    async def test_a_listener_that_fails_holds_nobody_back(self, kept: Store) -> None:
        heard = []

        def broken(storage: str, event: Event) -> None:
            raise RuntimeError("no")

        kept.listeners += [broken, lambda _, event: heard.append(event.rv)]
        async with asyncio.timeout(5):
            entries = await asyncio.gather(*(kept.stage(THINGS, thing(f"x{number}"), expect=0) for number in range(3)))
        assert [entry.rv for entry in entries] == heard == [1, 2, 3]
        assert kept.revision == 3
        assert kept.count(THINGS) == 3

    async def test_a_failed_compaction_took_nothing_and_is_done_again(self, kept: Store, disk: GatedDatabase) -> None:
        for value in range(5):
            await put(kept, "x", value)
        disk.failing_compactions = 1
        with pytest.raises(sqlite3.OperationalError):
            await kept.compact(4)
        assert kept.compacted == 0
        assert [entry.obj()["value"] for entry in await at(kept, 2)] == [1]
        await kept.compact(4)
        assert kept.compacted == 4
        assert disk._writer.execute("SELECT count(*) FROM revisions").fetchone() == (2,)


async def at(kept: Store, revision: int, **how: Any) -> list[Entry]:
    where: Json = {"namespace": "", "start": ("", ""), "limit": 0} | how
    return await kept.page(THINGS, at=revision, **where)


class TestDeadlines:
    """A write ends with the request that it is for, in the queue too."""

    async def test_a_write_that_waits_in_the_queue_is_not_stored_once_its_time_is_over(
        self, disk: GatedDatabase, limited: Store
    ) -> None:
        disk.gate.clear()
        first = limited.stage(THINGS, thing("first"), expect=0)
        await eventually(lambda: bool(disk.diary))
        with ending(asyncio.get_running_loop().time() + 0.05):
            late = limited.stage(THINGS, thing("late"), expect=0)
        on_top = limited.stage(THINGS, thing("late", 2), expect=2)
        await asyncio.sleep(0.1)
        disk.gate.set()
        assert (await first).rv == 1
        for one in (late, on_top):
            with pytest.raises(ApiError, match="not stored in time") as failure:
                await one
            assert failure.value.code == 504
        assert limited.get(THINGS, "a", "late") is None
        assert limited.head(THINGS, "a", "late") is None
        assert (await put(limited, "late")).key == ("a", "late"), "its name is free"

    async def test_a_write_whose_time_is_over_before_the_commit_is_not_stored(
        self, disk: GatedDatabase, limited: Store
    ) -> None:
        """The disk, or the process, stood still while the write was on its way there."""
        disk.gate.clear()
        with ending(asyncio.get_running_loop().time() + 0.05):
            late = limited.stage(THINGS, thing("late"), expect=0)
        await eventually(lambda: bool(disk.diary))
        await asyncio.sleep(0.1)
        disk.gate.set()
        with pytest.raises(ApiError, match="not stored in time"):
            await late
        assert [row.name for row in Database(disk._path, durable=False).current()] == []

    async def test_what_was_staged_before_it_is_stored(self, disk: GatedDatabase, limited: Store) -> None:
        disk.gate.clear()
        before = limited.stage(THINGS, thing("before"), expect=0)
        with ending(asyncio.get_running_loop().time() + 0.05):
            late = limited.stage(THINGS, thing("before", 2), expect=1)
        await eventually(lambda: bool(disk.diary))
        await asyncio.sleep(0.1)
        disk.gate.set()
        assert (await before).rv == 1
        with pytest.raises(ApiError, match="not stored in time"):
            await late
        found = limited.get(THINGS, "a", "before")
        assert found is not None
        assert found.rv == 1


class TestHistory:
    async def test_what_was_stored_is_there_after_a_restart(self, tmp_path: Path) -> None:
        first = Store(Database(tmp_path / "state.db", durable=False))
        await put(first, "x", 1)
        await put(first, "y")
        await drop(first, "y")
        await put(first, "x", 2)
        await first.close()
        second = Store(Database(tmp_path / "state.db", durable=False))
        assert [(entry.key, entry.rv, entry.obj()["value"]) for entry in second.items(THINGS)] == [(("a", "x"), 4, 2)]
        assert second.revision == 4
        assert (await put(second, "z")).rv == 5
        await second.close()

    async def test_events_before_a_restart_come_from_disk_and_later_ones_from_memory(self, tmp_path: Path) -> None:
        first = Store(Database(tmp_path / "state.db", durable=False))
        await put(first, "x", 1)
        await put(first, "x", 2)
        await drop(first, "x")
        await first.close()
        second = Store(Database(tmp_path / "state.db", durable=False))
        await put(second, "x", 3)
        seen, position = [], 0
        while found := await second.changes(THINGS, position):
            seen += [(event.type, event.rv, event.before is not None) for event in found]
            position = found[-1].rv
        assert seen == [("ADDED", 1, False), ("MODIFIED", 2, True), ("DELETED", 3, True), ("ADDED", 4, False)]
        await second.close()

    async def test_memory_keeps_only_the_last_events_and_the_disk_has_the_others(
        self, kept: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(watch_cache, "RECENT", 5)
        for value in range(23):
            await put(kept, "x", value)
        ring = kept._caches.of(THINGS)
        assert 5 <= len(ring.events) <= 10
        assert ring.events[0].rv == ring.floor + 1
        seen, position = [], 3
        while found := await kept.changes(THINGS, position):
            seen += [event.rv for event in found]
            position = found[-1].rv
        assert seen == list(range(4, 24))

    async def test_large_objects_do_not_fill_the_memory(self, kept: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(watch_cache, "RECENT_BYTES", 10_000)
        for value in range(60):
            await kept.stage(THINGS, thing("x") | {"big": "x" * 1000, "value": value}, expect=value)
        ring = kept._caches.of(THINGS)
        assert ring.weight == kept.recent == sum(event.size for event in ring.events) <= 20_000
        assert ring.floor == ring.events[0].rv - 1
        await kept.stage(THINGS, thing("x") | {"big": "x" * 50_000}, expect=60)
        assert (ring.events, ring.weight, ring.floor, kept.recent) == ([], 0, 61, 0)
        assert [event.rv for event in await kept.changes(THINGS, 58)] == [59, 60, 61]

    async def test_a_watch_takes_events_in_bounded_pieces(self, kept: Store) -> None:
        await asyncio.gather(*(kept.stage(THINGS, thing(f"x{number}"), expect=0) for number in range(watch_cache.TAKEN + 7)))
        first = await kept.changes(THINGS, 0)
        second = await kept.changes(THINGS, first[-1].rv)
        assert (len(first), len(second)) == (watch_cache.TAKEN, 7)

    async def test_rows_on_disk_are_not_seen_before_their_writer_is_answered(self, tmp_path: Path) -> None:
        """The reader's connection is ahead of memory between a commit and its publication."""
        first = Store(Database(tmp_path / "state.db", durable=False))
        await put(first, "x")
        await first.close()
        disk = Database(tmp_path / "state.db", durable=False)
        second = Store(disk)
        disk.append([Revision(2, THINGS, "a", "y", 0, 0, b"{}")])  # committed, and not yet published
        assert told(await second.changes(THINGS, 0)) == [("ADDED", "x", 1)]
        assert await second.changes(THINGS, 1) == []
        assert [entry.key[1] for entry in await at(second, 1)] == ["x"]
        await second.close()

    async def test_a_storage_that_is_first_looked_at_late_has_no_gap(self, tmp_path: Path) -> None:
        first = Store(Database(tmp_path / "state.db", durable=False))
        await first.stage("others", thing("x"), expect=0)
        await first.close()
        second = Store(Database(tmp_path / "state.db", durable=False))
        await second.stage("others", thing("y"), expect=0)
        writing = second.stage(THINGS, thing("x"), expect=0)
        assert await second.changes(THINGS, second.revision) == []
        await writing
        assert told(await second.changes(THINGS, 2)) == [("ADDED", "x", 3)]
        assert told(await second.changes(THINGS, 0)) == [("ADDED", "x", 3)]
        await second.close()

    async def test_a_page_shows_the_past(self, kept: Store) -> None:
        await put(kept, "x", 1)
        await put(kept, "y", 1, namespace="b")
        await put(kept, "x", 2)
        await drop(kept, "x")
        await put(kept, "z", 1)
        shown = {revision: [(e.key[1], e.rv) for e in await at(kept, revision)] for revision in range(1, 6)}
        assert shown == {
            1: [("x", 1)],
            2: [("x", 1), ("y", 2)],
            3: [("x", 3), ("y", 2)],
            4: [("y", 2)],
            5: [("z", 5), ("y", 2)],
        }

    @pytest.mark.parametrize("now", [pytest.param(True, id="in memory"), pytest.param(False, id="on disk")])
    async def test_pages_follow_each_other_and_know_what_is_left(self, kept: Store, now: bool) -> None:
        for name in "edcba":
            await put(kept, name)
            await put(kept, name, namespace="b")
        revision = kept.revision
        if not now:
            await drop(kept, "a")
        how = {"namespace": "a", "limit": 2}
        pages = []
        start = ("", "")
        while page := await at(kept, revision, start=start, **how):
            start = page[-1].key
            rest = await kept.remaining(THINGS, at=revision, namespace="a", start=start)
            pages.append(("".join(entry.key[1] for entry in page), rest))
        assert pages == [("ab", 3), ("cd", 1), ("e", 0)]
        assert await kept.remaining(THINGS, at=revision, namespace="", start=("a", "e")) == 5

    async def test_lists_stay_in_order_through_creates_and_deletes(self, kept: Store) -> None:
        for name in ("m", "c", "x", "a", "n"):
            await put(kept, name)
            assert [entry.key for entry in kept.items(THINGS)] == sorted(kept._caches.of(THINGS).objects)
        for name in ("c", "x"):
            await drop(kept, name)
            assert [entry.key for entry in kept.items(THINGS, "a")] == sorted(kept._caches.of(THINGS).objects)

    async def test_a_namespace_is_not_mistaken_for_another_that_begins_alike(self, kept: Store) -> None:
        for namespace in ("a", "a-b", "ab", "b"):
            await put(kept, "x", namespace=namespace)
        assert [entry.key[0] for entry in kept.items(THINGS, "a")] == ["a"]
        assert [entry.key[0] for entry in await at(kept, kept.revision, namespace="a-b")] == ["a-b"]


class TestCompaction:
    async def test_below_it_there_is_nothing_and_at_it_everything(self, kept: Store) -> None:
        for value in range(6):
            await put(kept, "x", value)
        await drop(kept, "x")
        await put(kept, "y")
        await kept.compact(5)
        kept._caches.of(THINGS).floor = 100  # as if all of it were too old for memory
        for revision in range(5):
            with pytest.raises(Compacted):
                await at(kept, revision)
            with pytest.raises(Compacted):
                await kept.changes(THINGS, revision)
        assert [entry.rv for entry in await at(kept, 5)] == [5]
        assert told(await kept.changes(THINGS, 5)) == [("MODIFIED", "x", 6), ("DELETED", "x", 7), ("ADDED", "y", 8)]

    @pytest.mark.parametrize("written", [pytest.param(True, id="unchanged since"), pytest.param(False, id="never written")])
    @pytest.mark.parametrize("restart", [pytest.param(True, id="after a restart"), pytest.param(False, id="in one run")])
    async def test_a_list_below_it_is_refused_whether_or_not_its_kind_changed(
        self, tmp_path: Path, written: bool, restart: bool
    ) -> None:
        """As in etcd, which compacts the whole and not one kind. What the server remembers of a kind must not decide it."""
        kept = Store(Database(tmp_path / "state.db", durable=False))
        if written:
            await put(kept, "x")
        for number in range(5):
            await kept.stage("others", thing(f"o{number}"), expect=0)
        await kept.compact(3)
        if restart:
            await kept.close()
            kept = Store(Database(tmp_path / "state.db", durable=False))
        how: Json = {"namespace": "", "start": ("", "")}
        for revision in (1, 2):
            with pytest.raises(Compacted):
                await at(kept, revision)
            with pytest.raises(Compacted):
                await kept.remaining(THINGS, at=revision, **how)
        for revision in (3, 4, 5):
            assert len(await at(kept, revision)) == await kept.remaining(THINGS, at=revision, **how) == int(written)
            assert await kept.changes(THINGS, revision) == []
        await put(kept, "y")
        for revision in (3, 4, 5):
            assert told(await kept.changes(THINGS, revision)) == [("ADDED", "y", kept.revision)]
        await kept.close()

    async def test_events_above_it_still_know_what_was_before(self, kept: Store) -> None:
        for value in range(4):
            await put(kept, "x", value)
        await kept.compact(3)
        kept._caches.of(THINGS).floor = 100
        (event,) = await kept.changes(THINGS, 3)
        assert event.before is not None
        assert b'"value":2' in event.before

    async def test_the_counter_survives_when_everything_is_forgotten(self, tmp_path: Path) -> None:
        first = Store(Database(tmp_path / "state.db", durable=False))
        await put(first, "x")
        await drop(first, "x")
        await first.compact(99)
        await first.close()
        second = Store(Database(tmp_path / "state.db", durable=False))
        assert (second.revision, second.compacted) == (2, 1)
        assert (await put(second, "x")).rv == 3
        await second.close()

    async def test_it_leaves_no_row_that_nobody_can_ask_for(self, kept: Store, disk: GatedDatabase) -> None:
        await put(kept, "x", 1)
        await put(kept, "x", 2)
        await drop(kept, "x")
        await put(kept, "y")
        await put(kept, "z")
        await kept.compact(99)
        assert disk._writer.execute("SELECT name FROM revisions ORDER BY rv").fetchall() == [("y",), ("z",)]

    async def test_a_reader_that_it_overtakes_is_told_so(self, kept: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        for value in range(6):
            await put(kept, "x", value)
        read = kept._database.page

        def overtaken(*args: Any, **kwargs: Any) -> Any:
            kept._compaction.compacted = 5  # while the reader's thread is at work
            return read(*args, **kwargs)

        monkeypatch.setattr(kept._database, "page", overtaken)
        with pytest.raises(Compacted):
            await at(kept, 3)

    async def test_it_works_in_steps_between_which_writers_get_their_turn(
        self, kept: Store, disk: GatedDatabase, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(compaction, "COMPACT_STEP", 10)
        for value in range(50):
            await put(kept, "x", value)
        steps = []
        compact = disk.compact

        def noted(after: int, upto: int) -> None:
            steps.append((after, upto))
            compact(after, upto)

        monkeypatch.setattr(disk, "compact", noted)
        compacting = asyncio.ensure_future(kept.compact(45))
        await put(kept, "y")
        assert not compacting.done()
        await compacting
        assert steps == [(0, 10), (10, 20), (20, 30), (30, 40), (40, 45)]


class TestWaiting:
    async def test_a_change_wakes_only_the_watches_of_its_storage(self, kept: Store) -> None:
        mine = asyncio.ensure_future(kept.changed(THINGS, 0, 60))
        other = asyncio.ensure_future(kept.changed("others", 0, 60))
        await asyncio.sleep(0)
        await put(kept, "x")
        await mine
        assert not other.done()
        kept.wake("others")
        await other
        assert not kept._caches.of("others").waiters

    async def test_a_change_that_came_before_the_wait_is_not_missed(self, kept: Store) -> None:
        await put(kept, "x")
        async with asyncio.timeout(5):
            await kept.changed(THINGS, 0, 60)

    async def test_a_wait_that_is_given_up_leaves_nothing_behind(self, kept: Store) -> None:
        waiting = asyncio.ensure_future(kept.changed(THINGS, 0, 60))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await kept.changed(THINGS, 0, 0)
        assert not kept._caches.of(THINGS).waiters
