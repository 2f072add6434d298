"""Every rule of crash safety stands for a loss without it; here is each of them.

A change is cut off everywhere twice: with the code as it is, where nothing is lost (`test_crashes`), and here with one line
of it weakened, where something is. So the tests can fail, and each of these lines is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from tests.unit.engines.local.store.crashes import CHANGES, End, cut_everywhere, none
from tests.unit.engines.local.store.disks import Skips
from ullage.engines.chain import HEAD
from ullage.engines.local.store import directory, names, purge, tree
from ullage.engines.local.store import record as records
from ullage.engines.local.store.directory import VolumeDirectory
from ullage.engines.local.store.errors import Damaged
from ullage.engines.local.store.purge import Purger
from ullage.engines.local.store.record import Record
from ullage.engines.local.store.spans import Span
from ullage.engines.local.store.state import LiveState
from ullage.engines.local.store.volume import StoredVolume

LOSS = (AssertionError, Damaged)


@pytest.mark.parametrize(
    ("change", "skips"),
    [
        pytest.param("a snapshot", lambda path: "head-003" in path, id="a snapshot whose data is not synced loses writes"),
        pytest.param("a snapshot", lambda path: path == "v", id="names that are not synced are missing from a record"),
        pytest.param("a mark", lambda path: path.endswith(names.DRAFT), id="a record that is not synced is torn"),
        pytest.param("a purge that merges", lambda path: "snap-s3" in path, id="a merge that is not synced loses blocks"),
        pytest.param(
            "a purge that prunes", lambda path: "head-003" in path, id="a prune below a head that is not synced loses both"
        ),
    ],
)
def test_each_sync_is_needed(change: str, skips: Skips) -> None:
    cut_everywhere(CHANGES[change], end=End.POWER, skips_sync=none)
    with pytest.raises(LOSS):
        cut_everywhere(CHANGES[change], end=End.POWER, skips_sync=skips)


copy = VolumeDirectory.copy


def all_of_the_parent(spans: Iterable[Span], _: Iterable[Span]) -> Iterator[Span]:
    return iter(list(spans))


def other_way_round(self: VolumeDirectory, source: str, target: str, span: Span) -> None:
    copy(self, target, source, span)


def file_first(self: Purger, live: LiveState, name: str, *, into: str | None = None) -> None:
    record = tree.dropped(live.record, name)
    self.state.directory.remove(self.state.directory.path(live.record, name))
    self.state.directory.commit(record)
    live.record = record
    live.indexes.clear()
    del live.blocks[name]
    if into is not None:
        live.index.merge(name, into)


def record_in_place(self: VolumeDirectory, record: Record) -> None:
    path = self._path(names.RECORD)
    if names.RECORD in self._files.names(self.name):
        self._files.remove(path)
    self._files.create(path, size=0)
    self._files.write(path, offset=0, data=records.encode(record))
    self._files.sync(path)
    self._files.sync(self.name)


def record_before_files(self: StoredVolume, live: LiveState, name: str, **how: Any) -> None:
    old, record = live.record, tree.cut(live.record, name, **how)
    self._directory.sync(self._directory.path(old, HEAD))
    self._directory.commit(record)
    self._directory.add_layer(record, HEAD)
    self._directory.name_head(old, name)
    self._directory.remove(self._directory.path(old, HEAD))
    live.record = record
    live.index.rename(HEAD, name)
    live.index.put(HEAD)
    live.blocks |= {name: live.blocks[HEAD], HEAD: 0}


def no_sweep(*_: object, **__: object) -> None:
    """What a crash left stays."""


def prune_all(first: Iterable[Span], _: Iterable[Span]) -> Iterator[Span]:
    return iter(list(first))


@pytest.mark.parametrize(
    ("change", "where", "name", "weak"),
    [
        pytest.param("a purge that merges", purge, "subtract", all_of_the_parent, id="a parent that overwrites its child"),
        pytest.param(
            "a purge that merges", VolumeDirectory, "copy", other_way_round, id="a merge from the child into the parent"
        ),
        pytest.param("a purge that merges", Purger, "_drop", file_first, id="a file that goes before the record says so"),
        pytest.param("a mark", VolumeDirectory, "commit", record_in_place, id="a record that is written in place"),
        pytest.param(
            "a snapshot", StoredVolume, "_cut", record_before_files, id="a record that names files before they are there"
        ),
        pytest.param("a snapshot", directory.VolumeDirectory, "sweep", no_sweep, id="no sweep"),
        pytest.param("a purge that prunes", purge, "intersect", prune_all, id="a prune of more than the head covers"),
    ],
)
def test_each_order_is_needed(
    change: str, where: object, name: str, weak: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_everywhere(CHANGES[change], end=End.KILLED)
    monkeypatch.setattr(where, name, weak)
    with pytest.raises(LOSS):
        cut_everywhere(CHANGES[change], end=End.KILLED)


def test_a_record_is_on_the_disk_before_anything_is_done_on_its_word(monkeypatch: pytest.MonkeyPatch) -> None:
    load = VolumeDirectory.load

    def at_its_word(self: VolumeDirectory) -> Record:
        with monkeypatch.context() as patch:
            patch.setattr(self._files, "sync", lambda path: None)
            return load(self)

    cut_everywhere(CHANGES["a snapshot"], end=End.BOTH)
    monkeypatch.setattr(VolumeDirectory, "load", at_its_word)
    with pytest.raises(LOSS):
        cut_everywhere(CHANGES["a snapshot"], end=End.BOTH)
