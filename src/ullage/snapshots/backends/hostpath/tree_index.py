"""What a tree has and what its copy has, for trees of any size: in a file without a name, of which little is in memory.

Two tables of one database, so that what is to be copied and what is to be removed are questions that it answers.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import struct
from collections.abc import Iterable, Iterator
from contextlib import closing as closing_it
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final, Self

from ullage.snapshots.backends.hostpath.copy_notes import CopyNotes, DamagedNotes
from ullage.snapshots.backends.hostpath.scan import NEVER, Stamp

_CACHE: Final = 16 * 1024  # KiB of it in memory
_BATCH: Final = 1000  # rows at a time, between which anything may be written
_STAMP: Final = struct.Struct("<qQQqqqqqq")
_IDENTITY: Final = struct.Struct("<QQ")
_WITHOUT_DATA: Final = (stat.S_IFSOCK, stat.S_IFBLK, stat.S_IFCHR)
_TABLES: Final = """
    CREATE TABLE found (seq INTEGER PRIMARY KEY, path BLOB, stamp BLOB, kind INTEGER, links INTEGER, identity BLOB,
        size INTEGER, never INTEGER);
    CREATE TABLE has (path BLOB PRIMARY KEY, stamp BLOB, kind INTEGER) WITHOUT ROWID;
    CREATE TABLE fresh (seq INTEGER PRIMARY KEY);
    CREATE TABLE gone (number INTEGER PRIMARY KEY, path BLOB, kind INTEGER);
    CREATE TABLE links (identity BLOB PRIMARY KEY, path BLOB, stamp BLOB) WITHOUT ROWID;
    CREATE TABLE noted (path BLOB PRIMARY KEY, stamp BLOB) WITHOUT ROWID;
"""


class TreeIndex:
    """Use it inside `with`, in one thread. Paths are relative to the top, which is ""."""

    def __init__(self, scratch: Path | None = None, notes: CopyNotes | None = None) -> None:
        """`scratch` is where its file gets its room; it has no name there for longer than a moment. `notes` are kept for
        whoever goes on with the copy."""
        self._scratch = scratch
        self._notes = notes
        self._rows: list[tuple[Any, ...]] = []

    def __enter__(self) -> Self:
        if self._scratch is not None:
            with suppress(FileNotFoundError):
                self._scratch.unlink()
        self._database = sqlite3.connect(self._scratch or "", isolation_level=None)
        self._run("PRAGMA journal_mode = OFF")
        self._run("PRAGMA synchronous = OFF")
        self._run(f"PRAGMA cache_size = -{_CACHE}")
        self._database.executescript(_TABLES)
        if self._scratch is not None:
            self._scratch.unlink()
        self._run("BEGIN")
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    # --- what a walk finds ---

    def begin(self) -> None:
        """A walk begins."""
        for statement in ("DROP INDEX IF EXISTS found_path", "DELETE FROM found", "DELETE FROM fresh", "DELETE FROM gone"):
            self._run(statement)

    def note(self, path: str, stamp: Stamp) -> None:
        """What the walk finds, directories before what is in them."""
        identity = None if stamp.kind == stat.S_IFDIR else _IDENTITY.pack(*stamp.identity)
        never = int(stamp.ctime == NEVER)
        row = (os.fsencode(path), _STAMP.pack(*stamp), stamp.kind, stamp.links, identity, stamp.size, never)
        self._rows.append(row)
        if len(self._rows) >= _BATCH:
            self._flush()

    def compare(self) -> bool:
        """The walk has ended: works out what the copy lacks and what it has too much. Whether there is anything.

        The names of one file are fresh together: a copy of one of them alone would tear a hard link apart.
        """
        self._flush()
        self._run("CREATE INDEX found_path ON found (path)")
        self._run(
            "INSERT INTO fresh SELECT found.seq FROM found LEFT JOIN has USING (path) "
            "WHERE has.stamp IS NULL OR has.stamp != found.stamp OR found.never"
        )
        torn = "SELECT identity FROM found JOIN fresh USING (seq) WHERE links > 1 AND kind != ?"
        self._run(f"INSERT OR IGNORE INTO fresh SELECT seq FROM found WHERE identity IN ({torn})", stat.S_IFDIR)
        self._run(
            "INSERT INTO gone (path, kind) SELECT has.path, has.kind FROM has LEFT JOIN found USING (path) "
            "WHERE found.path IS NULL OR found.kind != has.kind ORDER BY has.path DESC"
        )
        return bool(self._one("SELECT EXISTS (SELECT * FROM fresh) OR EXISTS (SELECT * FROM gone)")[0])

    def fresh(self) -> Iterator[tuple[str, Stamp]]:
        """What the copy lacks, in the order of the walk."""
        query = "SELECT seq, path, stamp FROM fresh JOIN found USING (seq) WHERE seq > ? ORDER BY seq LIMIT ?"
        for _, path, stamp in self._pages(query):
            yield os.fsdecode(path), _read(stamp)

    def fresh_bytes(self) -> int:
        """The size of all files among them."""
        found = self._one("SELECT SUM(size) FROM fresh JOIN found USING (seq) WHERE kind = ?", stat.S_IFREG)[0]
        return int(found or 0)

    def gone(self) -> Iterator[tuple[str, int]]:
        """What the copy has too much, and of which kind it is there: what is in a directory before the directory."""
        for _, path, kind in self._pages("SELECT number, path, kind FROM gone WHERE number > ? ORDER BY number LIMIT ?"):
            yield os.fsdecode(path), kind

    def directories(self) -> Iterator[tuple[str, Stamp]]:
        """All that were found, what is in a directory before it."""
        query = "SELECT seq, path, stamp FROM found WHERE seq < ? AND kind = ? ORDER BY seq DESC LIMIT ?"
        last = self._one("SELECT MAX(seq) FROM found")[0] or 0
        for _, path, stamp in self._pages(query, stat.S_IFDIR, start=last + 1):
            yield os.fsdecode(path), _read(stamp)

    def without_data(self, most: int) -> tuple[int, tuple[str, ...]]:
        """How many sockets and devices there are, and the first of them."""
        where = f"FROM found WHERE kind IN {_WITHOUT_DATA}"
        paths = self._run(f"SELECT path {where} ORDER BY seq LIMIT ?", most)
        return int(self._one(f"SELECT COUNT(*) {where}")[0]), tuple(os.fsdecode(path) for (path,) in paths)

    def restless(self, most: int) -> tuple[int, list[str]]:
        """How many have changed, and the first by name. Files say more than the directories that changed with them."""
        changed = "SELECT path FROM fresh JOIN found USING (seq) UNION ALL SELECT path FROM gone"
        files = f"SELECT path FROM ({changed}) WHERE path NOT IN (SELECT path FROM has WHERE kind = {stat.S_IFDIR})"
        chosen = files if self._one(f"SELECT EXISTS ({files})")[0] else changed
        paths = self._run(f"SELECT path FROM ({chosen}) ORDER BY path LIMIT ?", most)
        return int(self._one(f"SELECT COUNT(*) FROM ({chosen})")[0]), [os.fsdecode(path) for (path,) in paths]

    # --- what the copy has ---

    def hold(self, path: str, stamp: Stamp) -> None:
        """Its copy is whole."""
        self.take_over(path, stamp)
        if self._notes is not None and stamp.kind != stat.S_IFDIR:
            self._notes.add(os.fsencode(path), _STAMP.pack(*stamp))

    def take_over(self, path: str, stamp: Stamp) -> None:
        """It was in the copy before."""
        self._run("INSERT OR REPLACE INTO has VALUES (?, ?, ?)", os.fsencode(path), _STAMP.pack(*stamp), stamp.kind)

    def doubt(self, path: str) -> None:
        """It may still be in the copy, so it is not forgotten; the next walk finds that it is another."""
        found = self._one("SELECT stamp FROM has WHERE path = ?", os.fsencode(path))
        if found is not None:
            self.hold(path, _read(found[0])._replace(ctime=NEVER))

    def drop(self, path: str) -> None:
        self._run("DELETE FROM has WHERE path = ?", os.fsencode(path))

    # --- what an earlier process has noted ---

    def recall(self) -> None:
        """Reads the notes. Damaged ones tell nothing."""
        assert self._notes is not None
        records = self._notes.read()
        try:
            while batch := list(islice(records, _BATCH)):
                self._database.executemany("INSERT OR REPLACE INTO noted VALUES (?, ?)", batch)
        except (DamagedNotes, sqlite3.IntegrityError):
            self._run("DELETE FROM noted")
            self._notes.clear()

    def noted(self, path: str) -> Stamp | None:
        found = self._one("SELECT stamp FROM noted WHERE path = ?", os.fsencode(path))
        return None if found is None else _read(found[0])

    def forget_noted(self) -> None:
        self._run("DELETE FROM noted")

    # --- files with several names ---

    def forget_links(self) -> None:
        self._run("DELETE FROM links")

    def link(self, identity: tuple[int, int], path: str, stamp: Stamp) -> None:
        """The first name of a file, and what its copy is like."""
        row = (_IDENTITY.pack(*identity), os.fsencode(path), _STAMP.pack(*stamp))
        self._run("INSERT OR REPLACE INTO links VALUES (?, ?, ?)", *row)

    def linked(self, identity: tuple[int, int]) -> tuple[str, Stamp] | None:
        found = self._one("SELECT path, stamp FROM links WHERE identity = ?", _IDENTITY.pack(*identity))
        return None if found is None else (os.fsdecode(found[0]), _read(found[1]))

    # --- the database ---

    def _flush(self) -> None:
        columns = "path, stamp, kind, links, identity, size, never"
        self._database.executemany(f"INSERT INTO found ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", self._rows)
        self._rows.clear()

    def _run(self, statement: str, *values: object) -> Iterable[Any]:
        with closing_it(self._database.execute(statement, values)) as cursor:
            return cursor.fetchall()

    def _one(self, statement: str, *values: object) -> Any:
        return next(iter(self._run(statement, *values)), None)

    def _pages(self, query: str, *values: object, start: int = 0) -> Iterator[Any]:
        """The rows of a query with a number to go on from: nothing is being read while others write."""
        while rows := list(self._run(query, start, *values, _BATCH)):
            yield from rows
            start = rows[-1][0]


def _read(stamp: bytes) -> Stamp:
    return Stamp._make(_STAMP.unpack(stamp))
