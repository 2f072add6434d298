"""Revisions on disk: an append-only history in SQLite, the way etcd keeps one.

Every write is a new row; the newest row of a key is its present state. History is what lets a watch resume after a restart
and a paged list stay at one revision. Compaction drops rows that were already superseded at a given revision, never a
row that an event above it still needs as its "before". The space goes back to the file system in slices (`vacuum`), and
the journal is cut when everything in it has reached the file (`checkpoint`): each call is short, because writers wait for it.

This module blocks. Writes run on the one writer thread, reads of history on reader threads of their own.
"""

from __future__ import annotations

import math
import os
import sqlite3
import time
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
CREATE TABLE IF NOT EXISTS marks (rv INTEGER PRIMARY KEY, second INTEGER NOT NULL) STRICT;
"""
_JOURNAL_BYTES = 8 << 20  # the journal's file is cut to this when it is begun anew after a burst
_BUSY_SECONDS = 30
_LAYOUT = 1  # PRAGMA user_version: a later layout migrates, an older program refuses


class NewerLayout(Exception):
    """The file was written by a later release, in a way that this one cannot read."""


class Late(Exception):
    """The time of a write was over before it was stored. Nothing of it is."""


class Revision(NamedTuple):
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

    row: Revision
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
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=_BUSY_SECONDS)
        connection.execute(f"PRAGMA synchronous={'FULL' if self._durable else 'NORMAL'}")
        if self._durable:  # on macOS, fsync alone leaves data in the disk's cache; elsewhere these do nothing
            connection.execute("PRAGMA fullfsync=1")
            connection.execute("PRAGMA checkpoint_fullfsync=1")
        connection.execute(f"PRAGMA journal_size_limit={_JOURNAL_BYTES}")
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

    def current(self) -> Iterator[Revision]:
        """The present state of every key. Of older revisions only the index is read."""
        found = self._writer.execute(
            "SELECT rv, storage, namespace, name, prev, deleted, data FROM revisions"
            " WHERE rv IN (SELECT max(rv) FROM revisions GROUP BY storage, namespace, name)"
            " AND NOT deleted"
        )
        return map(Revision._make, found)

    def superseded(self, after: int) -> Iterator[tuple[int, int]]:
        """Each revision above one that replaced or removed something, and the bytes that compaction drops with it."""
        found = self._writer.execute(
            "SELECT n.rv, coalesce(length(p.data), 0) + n.deleted * length(n.data) FROM revisions n"
            " LEFT JOIN revisions p ON p.rv = n.prev WHERE n.rv > ? AND n.prev > 0 ORDER BY n.rv",
            (after,),
        )
        return ((int(rv), int(size)) for rv, size in found)

    def append(self, rows: Sequence[Revision], until: float = math.inf) -> None:
        """All of them, durably, or none. Raises Late where the commit would begin after a moment of the monotonic clock."""
        with self._transaction():
            self._writer.executemany("INSERT INTO revisions VALUES (?,?,?,?,?,?,?)", rows)
            if time.monotonic() > until:
                raise Late

    def compact(self, after: int, upto: int) -> None:
        """Drops what was superseded within (after, upto]; afterwards no read below `upto` is exact."""
        with self._transaction():
            self._writer.execute(
                "DELETE FROM revisions WHERE rv IN (SELECT prev FROM revisions WHERE rv > ? AND rv <= ? AND prev > 0)",
                (after, upto),
            )
            self._writer.execute("DELETE FROM revisions WHERE rv > ? AND rv <= ? AND deleted", (after, upto))
            self._writer.execute("INSERT OR REPLACE INTO meta VALUES ('compacted', ?)", (upto,))

    def vacuum(self, pages: int) -> int:
        """Gives up to so many free pages back to the file system. How many are free then."""
        self._end_transaction()
        # A script runs the statement to its end. `execute` would stop at its first row: one page.
        self._writer.executescript(f"PRAGMA incremental_vacuum({pages})")
        return self.free_pages()

    def free_pages(self) -> int:
        return int(self._writer.execute("PRAGMA freelist_count").fetchone()[0])

    def checkpoint(self) -> bool:
        """Brings the journal into the file and empties it. False where a reader is in the way: nobody waits for that."""
        self._end_transaction()
        self._writer.execute("PRAGMA busy_timeout=0")
        try:
            busy = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        finally:
            self._writer.execute(f"PRAGMA busy_timeout={_BUSY_SECONDS * 1000}")
        return not busy

    def journal_bytes(self) -> int:
        """The size of the journal's file."""
        try:
            return os.stat(f"{self._path}-wal").st_size
        except FileNotFoundError:
            return 0

    def marks(self) -> list[tuple[int, int]]:
        """Revisions and the second in which each was the newest, oldest first."""
        return [(int(rv), int(second)) for rv, second in self._writer.execute("SELECT rv, second FROM marks ORDER BY rv")]

    def mark(self, rv: int, second: int, keep: int) -> None:
        with self._transaction():
            self._writer.execute("INSERT OR REPLACE INTO marks VALUES (?, ?)", (rv, second))
            self._writer.execute("DELETE FROM marks WHERE rv < (SELECT max(rv) FROM marks WHERE second < ?)", (keep,))

    def probe(self) -> None:
        """Writes something that says nothing: whether the disk takes writes again."""
        with self._transaction():
            self._writer.execute("INSERT OR REPLACE INTO meta VALUES ('probe', 1)")

    def _end_transaction(self) -> None:
        """Of one that failed so badly that it could not be rolled back then."""
        if self._writer.in_transaction:
            self._writer.execute("ROLLBACK")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._end_transaction()
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._writer.execute("COMMIT")
        except BaseException:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            raise

    def changes(self, storage: str, *, after: int, limit: int, most: int, before: bool) -> list[Change]:
        """The next revisions of one storage, oldest first: one, and further ones up to `limit` and `most` bytes.

        What each replaced is read only where `before` says so: it doubles what has to be held.
        """
        found = self._reader.execute(
            f"SELECT r.rv, r.storage, r.namespace, r.name, r.prev, r.deleted, r.data, {'p.data' if before else 'NULL'}"
            " FROM revisions r LEFT JOIN revisions p ON p.rv = r.prev"
            " WHERE r.rv > ? AND r.storage = ? ORDER BY r.rv LIMIT ?",
            (after, storage, limit),
        )
        changes, size = [], 0
        for row in found:
            changes.append(Change(Revision._make(row[:7]), row[7]))
            size += len(row[6]) + len(row[7] or b"")
            if size >= most:
                break
        found.close()  # a statement that is not at its end would hold the journal
        return changes

    def page(self, storage: str, *, at: int, namespace: str, start: tuple[str, str], limit: int, most: int) -> list[Revision]:
        """Objects behind the key `start` as they stood at revision `at`, in key order: one, and further ones up to `limit`
        (0 is no limit) and `most` bytes."""
        keys = self._reader.execute(f"SELECT max(rv) {_at(namespace)}", _place(storage, at, namespace, start))
        rows: list[Revision] = []
        size = 0
        for (rv,) in keys:
            found = self._reader.execute(
                "SELECT rv, storage, namespace, name, prev, deleted, data FROM revisions WHERE rv = ? AND NOT deleted", (rv,)
            ).fetchone()
            if found is None:
                continue
            rows.append(Revision._make(found))
            size += len(found[6])
            if len(rows) == limit or size >= most:
                break
        keys.close()
        return rows

    def count(self, storage: str, *, at: int, namespace: str, start: tuple[str, str]) -> int:
        """How many objects there are in all pages behind a key."""
        found = self._reader.execute(
            f"SELECT count(*) FROM (SELECT max(rv) AS newest {_at(namespace)}) JOIN revisions ON rv = newest WHERE NOT deleted",
            _place(storage, at, namespace, start),
        )
        return int(found.fetchone()[0])


def _at(namespace: str) -> str:
    """The newest revision of each key up to one revision, in key order. The index alone answers it."""
    only = "AND namespace = :namespace" if namespace else ""
    return (
        f"FROM revisions WHERE storage = :storage {only} AND rv <= :at AND (namespace, name) > (:start_ns, :start_name)"
        " GROUP BY storage, namespace, name"
    )


def _place(storage: str, at: int, namespace: str, start: tuple[str, str]) -> dict[str, str | int]:
    place: dict[str, str | int] = {"storage": storage, "at": at, "start_ns": start[0], "start_name": start[1]}
    return place | {"namespace": namespace} if namespace else place


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
