"""Revisions on disk: an append-only history in SQLite, the way etcd keeps one.

Every write is a new row; the newest row of a key is its present state. History is what lets a watch resume after a restart
and a paged list stay at one revision. Compaction drops rows that were already superseded at a given revision, never a
row that an event above it still needs as its "before".

This module blocks. Writes run on the one writer thread, reads of history on reader threads of their own.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

_SCHEMA = """
CREATE TABLE IF NOT EXISTS revisions (
    rv INTEGER PRIMARY KEY, storage TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    prev INTEGER NOT NULL, deleted INTEGER NOT NULL, data BLOB NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS by_key ON revisions (storage, namespace, name, rv);
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
"""
_LAYOUT = 1  # PRAGMA user_version: a later layout migrates, an older program refuses


class NewerLayout(Exception):
    """The file was written by a later release, in a way that this one cannot read."""


class Row(NamedTuple):
    """One revision. `prev` is the revision it replaced, 0 where the object was new."""

    rv: int
    storage: str
    namespace: str
    name: str
    prev: int
    deleted: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Change:
    """A revision with what it replaced: everything a watch event is made of."""

    row: Row
    before: bytes | None


class Database:
    """The file. `durable=False` trades the fsync of every commit for speed: only for data that is thrown away."""

    def __init__(self, path: Path, *, durable: bool) -> None:
        self._path = path
        self._durable = durable
        _make_private(path)
        self._writer = self._connect()
        # Before the first table: the mode is fixed once the file has pages.
        self._writer.execute("PRAGMA auto_vacuum=INCREMENTAL")
        self._writer.execute("PRAGMA journal_mode=WAL")
        layout = self._writer.execute("PRAGMA user_version").fetchone()[0]
        if layout > _LAYOUT:
            self._writer.close()
            raise NewerLayout(f"{path} was written by a newer release (layout {layout}, this one knows {_LAYOUT})")
        self._writer.executescript(_SCHEMA)
        self._writer.execute(f"PRAGMA user_version={_LAYOUT}")
        self._reader = self._connect()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=30)
        connection.execute(f"PRAGMA synchronous={'FULL' if self._durable else 'NORMAL'}")
        if self._durable:  # on macOS, fsync alone leaves data in the disk's cache; elsewhere these do nothing
            connection.execute("PRAGMA fullfsync=1")
            connection.execute("PRAGMA checkpoint_fullfsync=1")
        connection.execute("PRAGMA cache_size=-4096")  # KiB; the objects are held in memory already
        return connection

    def close(self) -> None:
        self._reader.close()
        self._writer.close()

    def compacted(self) -> int:
        row = self._writer.execute("SELECT value FROM meta WHERE name='compacted'").fetchone()
        return int(row[0]) if row else 0

    def newest(self) -> int:
        return int(self._writer.execute("SELECT coalesce(max(rv), 0) FROM revisions").fetchone()[0])

    def current(self) -> list[Row]:
        """The present state of every key, in key order."""
        found = self._writer.execute(
            "SELECT max(rv), storage, namespace, name, prev, deleted, data FROM revisions GROUP BY storage, namespace, name"
        )
        return [row for row in map(Row._make, found) if not row.deleted]

    def append(self, rows: Sequence[Row]) -> None:
        """All of them, durably, or none."""
        with self._transaction():
            self._writer.executemany("INSERT INTO revisions VALUES (?,?,?,?,?,?,?)", rows)

    def compact(self, after: int, upto: int) -> None:
        """Drops what was superseded within (after, upto]; afterwards no read below `upto` is exact."""
        with self._transaction():
            self._writer.execute(
                "DELETE FROM revisions WHERE rv IN (SELECT prev FROM revisions WHERE rv > ? AND rv <= ? AND prev > 0)",
                (after, upto),
            )
            self._writer.execute("DELETE FROM revisions WHERE rv > ? AND rv <= ? AND deleted", (after, upto))
            self._writer.execute("INSERT OR REPLACE INTO meta VALUES ('compacted', ?)", (upto,))
        self._writer.execute("PRAGMA incremental_vacuum(256)").fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        if self._writer.in_transaction:  # one that failed so badly that it could not be rolled back then
            self._writer.execute("ROLLBACK")
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._writer.execute("COMMIT")
        except BaseException:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            raise

    def changes(self, storage: str, *, after: int, limit: int) -> list[Change]:
        """The next revisions of one storage, oldest first, from the history on disk."""
        found = self._reader.execute(
            "SELECT r.rv, r.storage, r.namespace, r.name, r.prev, r.deleted, r.data, p.data FROM revisions r"
            " LEFT JOIN revisions p ON p.rv = r.prev WHERE r.rv > ? AND r.storage = ? ORDER BY r.rv LIMIT ?",
            (after, storage, limit),
        )
        return [Change(Row._make(row[:7]), row[7]) for row in found]

    def page(self, storage: str, *, at: int, namespace: str, start: tuple[str, str], limit: int) -> list[Row]:
        """Objects behind the key `start` as they stood at revision `at`, in key order. `limit` 0 is no limit."""
        found = self._reader.execute(
            f"SELECT max(rv), storage, namespace, name, prev, deleted, data {_AT} ORDER BY namespace, name LIMIT :limit",
            {**_place(storage, at, namespace, start), "limit": limit or -1},
        )
        return list(map(Row._make, found))

    def count(self, storage: str, *, at: int, namespace: str, start: tuple[str, str]) -> int:
        """How many objects `page` would return without a limit."""
        found = self._reader.execute(
            f"SELECT count(*) FROM (SELECT max(rv), deleted {_AT})", _place(storage, at, namespace, start)
        )
        return int(found.fetchone()[0])


# The state of a storage at a revision: of each key the newest row up to it, unless that is a delete.
_AT = (
    "FROM revisions WHERE storage = :storage AND rv <= :at AND (namespace, name) > (:start_ns, :start_name)"
    " AND (:namespace = '' OR namespace = :namespace) GROUP BY storage, namespace, name HAVING NOT deleted"
)


def _place(storage: str, at: int, namespace: str, start: tuple[str, str]) -> dict[str, str | int]:
    return {"storage": storage, "at": at, "start_ns": start[0], "start_name": start[1], "namespace": namespace}


def _make_private(path: Path) -> None:
    """The file holds Secrets: nobody else may read it, whatever the umask. SQLite gives its journals the same mode."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)  # a file whose name is lost with the power is lost, too
    finally:
        os.close(directory)
