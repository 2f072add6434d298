"""The store against a model that is a list of events: whatever happens, every watcher and every page agrees with it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ullage.standalone.apiserver.settings import Limits
from ullage.standalone.apiserver.storage import watch_cache
from ullage.standalone.apiserver.storage.database import Database
from ullage.standalone.apiserver.storage.store import Compacted, Stale, Store

Json = dict[str, Any]
T = TypeVar("T")

STORAGES = st.sampled_from(["pods", "pods", "pods", "pods.other.io"])
# Hundreds of files are opened and closed, each with its syncs: on a busy disk they would take minutes, and prove nothing more.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
KEYS = st.sampled_from([("a", "x"), ("a", "x"), ("a", "x.y"), ("a-b", "x"), ("", "é")])
Happened = tuple[str, tuple[str, str], int, int, int | None]  # type, key, revision, value, value before


class StoreMachine(RuleBasedStateMachine):
    """Few keys, so that they meet; a short memory, so that disk and memory take turns."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.directory = Path(mkdtemp(dir=MEMORY))
        self.patch = pytest.MonkeyPatch()
        self.log: list[tuple[str, Happened]] = []
        self.watchers: list[Watching] = []

    @initialize(recent=st.integers(1, 4), taken=st.integers(1, 3), size=st.sampled_from([100, 10_000]))
    def begin(self, recent: int, taken: int, size: int) -> None:
        self.patch.setattr(watch_cache, "RECENT", recent)
        self.patch.setattr(watch_cache, "RECENT_BYTES", size)
        self.patch.setattr(watch_cache, "TAKEN", taken)
        self.patch.setattr("ullage.standalone.apiserver.storage.store.TAKEN", taken)
        self.patch.setattr("ullage.standalone.apiserver.storage.compaction.COMPACT_STEP", taken)
        self.patch.setattr("ullage.standalone.apiserver.storage.store.PAGE_BYTES", size // 2)
        self.patch.setattr("ullage.standalone.apiserver.storage.store.TAKEN_BYTES", size // 2)
        self.patch.setattr("ullage.standalone.apiserver.storage.history.GRAIN", 1)
        self.limits = Limits(history=10 * size, recent=5 * size)
        self.open()

    def open(self) -> None:
        async def make() -> Store:
            return Store(Database(self.directory / "state.db", durable=False), self.limits)

        self.store = self.run(make())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def teardown(self) -> None:
        self.patch.undo()
        self.run(self.store.close())
        self.loop.close()
        rmtree(self.directory)

    # --- the model ---

    def state(self, storage: str, revision: int) -> dict[tuple[str, str], tuple[int, int]]:
        """Key to revision and value, in key order, as it stood at a revision."""
        found: dict[tuple[str, str], tuple[int, int]] = {}
        for place, (kind, key, rv, value, _) in self.log:
            if place == storage and rv <= revision:
                if kind == "DELETED":
                    del found[key]
                else:
                    found[key] = (rv, value)
        return dict(sorted(found.items()))

    def newest(self) -> int:
        return max((event[2] for _, event in self.log), default=0)

    # --- what happens ---

    @rule(data=st.data(), storage=STORAGES, keys=st.lists(KEYS, min_size=1, max_size=4))
    def write(self, data: st.DataObject, storage: str, keys: list[tuple[str, str]]) -> None:
        """Several writes at once, on each other's heels: they join one batch, or two."""

        async def go() -> None:
            pending = []
            for key in keys:
                now = {**self.state(storage, self.newest())}
                rv, before = now.get(key, (0, None))
                value = data.draw(st.integers(0, 9))
                obj = {"metadata": {"namespace": key[0], "name": key[1]}, "value": value}
                if rv and data.draw(st.booleans()):
                    pending.append(self.store.stage_delete(storage, obj, expect=rv))
                    kind = "DELETED"
                else:
                    pending.append(self.store.stage(storage, obj, expect=rv))
                    kind = "MODIFIED" if rv else "ADDED"
                self.log.append((storage, (kind, key, self.newest() + 1, value, before)))
                if data.draw(st.booleans()):
                    await asyncio.sleep(0)
            written = await asyncio.gather(*pending)
            assert [entry.rv for entry in written] == [event[2] for _, event in self.log[-len(keys) :]]
            # History that is too long goes after the answers. What is drawn next depends on how much there is.
            while self.store._commits.running:  # noqa: ASYNC110  nobody else waits for it
                await asyncio.sleep(0)

        self.run(go())

    @rule(storage=STORAGES, key=KEYS, wrong=st.integers(1, 3))
    def write_stale(self, storage: str, key: tuple[str, str], wrong: int) -> None:
        rv, _ = self.state(storage, self.newest()).get(key, (0, 0))
        obj = {"metadata": {"namespace": key[0], "name": key[1]}}

        async def go() -> None:
            with pytest.raises(Stale):
                self.store.stage(storage, obj, expect=rv + wrong)
            with pytest.raises(Stale):
                self.store.stage_delete(storage, obj, expect=rv + wrong)

        self.run(go())

    @rule(back=st.integers(0, 4))
    def compact(self, back: int) -> None:
        self.run(self.store.compact(self.store.revision - back))

    @rule()
    def restart(self) -> None:
        self.run(self.store.close())
        self.open()

    @precondition(lambda self: len(self.watchers) < 6)
    @rule(storage=STORAGES, data=st.data())
    def watch(self, storage: str, data: st.DataObject) -> None:
        self.watchers.append(Watching(storage, data.draw(self.revisions())))

    def revisions(self) -> st.SearchStrategy[int]:
        """Revisions to read at: the oldest that is kept is where things go wrong."""
        oldest = self.store.compacted
        return st.one_of(st.just(oldest), st.integers(max(oldest - 1, 0), self.store.revision))

    @precondition(lambda self: self.watchers)
    @rule(data=st.data(), turns=st.integers(1, 5))
    def follow(self, data: st.DataObject, turns: int) -> None:
        watching = data.draw(st.sampled_from(self.watchers))
        for _ in range(turns):
            if not self.run(watching.step(self.store)):
                break
        watching.check(self.log)

    @precondition(lambda self: self.log)
    @rule(data=st.data(), storage=STORAGES, namespace=st.sampled_from(["", "a", "a-b"]), limit=st.integers(0, 3))
    def page(self, data: st.DataObject, storage: str, namespace: str, limit: int) -> None:
        """Page after page at one revision, with other things in between in other runs."""
        revision = data.draw(self.revisions())

        async def read() -> list[tuple[tuple[str, str], tuple[int, int]]]:
            found: list[tuple[tuple[str, str], tuple[int, int]]] = []
            start = ("", "")
            while True:
                how = {"at": revision, "namespace": namespace, "start": start}
                page = await self.store.page(storage, **how, limit=limit)  # type: ignore[arg-type]
                found += [(entry.key, (entry.rv, entry.obj()["value"])) for entry in page]
                if not page:
                    return found
                start = page[-1].key
                left = await self.store.remaining(storage, at=revision, namespace=namespace, start=start)
                assert left == len(expected) - len(found)

        held = self.state(storage, revision)
        expected = [(key, value) for key, value in held.items() if namespace in ("", key[0])]
        if revision < self.store.compacted:  # of all kinds, also of one that never changed: as etcd does
            with pytest.raises(Compacted):
                self.run(read())
        else:
            assert self.run(read()) == expected

    # --- what always holds ---

    @invariant()
    def memory_is_the_model(self) -> None:
        if not hasattr(self, "store"):
            return
        assert self.store.revision == self.newest()
        for storage in ("pods", "pods.other.io"):
            held = [(entry.key, (entry.rv, entry.obj()["value"])) for entry in self.store.items(storage)]
            assert held == list(self.state(storage, self.newest()).items())


class Watching:
    """A watch as the server runs one: a position, and what it has seen."""

    def __init__(self, storage: str, position: int) -> None:
        self.storage, self.start, self.position = storage, position, position
        self.seen: list[Happened] = []
        self.over = False

    async def step(self, store: Store) -> bool:
        """Takes what there is. Whether there was something."""
        if self.over:
            return False
        reached = store.revision
        try:
            events = await store.changes(self.storage, self.position)
        except Compacted:
            assert self.position < store.compacted
            self.over = True
            return False
        for event in events:
            value, before = _value(event.data), _value(event.before) if event.before else None
            self.seen.append((event.type, event.key, event.rv, value or 0, before))
        self.position = events[-1].rv if events else max(self.position, reached)
        return bool(events)

    def check(self, log: list[tuple[str, Happened]]) -> None:
        """No gap, no duplicate, nothing out of order: exactly the model's events up to the position."""
        expected = [event for place, event in log if place == self.storage and self.start < event[2] <= self.position]
        assert self.seen == expected


def _value(data: bytes) -> int | None:
    found: int | None = msgspec.json.decode(data).get("value")
    return found


StoreMachine.TestCase.settings = settings(
    max_examples=50, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestStore = StoreMachine.TestCase
