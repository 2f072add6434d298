"""A volume's directory: its layers by name, its record, and what a crash has left.

The order of calls in here is what crash safety rests on. A record never names a file that is not there, whole and synced;
a file goes only when no record names it. What lies between the two is swept away when the volume is loaded.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from ullage.engines.chain import HEAD, head_file, snapshot_file
from ullage.engines.local.store import names
from ullage.engines.local.store import record as records
from ullage.engines.local.store.errors import Damaged
from ullage.engines.local.store.files import Files
from ullage.engines.local.store.record import BLOCK, Record
from ullage.engines.local.store.spans import Span

_NOTHING: Final = frozenset[str]()


class VolumeDirectory:
    """One directory. Blocks are counted in, bytes are what the files get."""

    def __init__(self, files: Files, name: str) -> None:
        self._files = files
        self.name = name

    def path(self, record: Record, layer: str) -> str:
        return self._path(head_file(record.head) if layer == HEAD else snapshot_file(layer))

    # --- data ---------------------------------------------------------------------------------------------------------

    def read(self, path: str, *, offset: int, length: int) -> bytes:
        return self._files.read(path, offset=offset, length=length)

    def write(self, path: str, *, offset: int, data: bytes) -> None:
        self._files.write(path, offset=offset, data=data)

    def copy(self, source: str, target: str, span: Span) -> None:
        """Blocks from one layer to the same place of another."""
        offset, length = span.start * BLOCK, (span.end - span.start) * BLOCK
        self.write(target, offset=offset, data=self.read(source, offset=offset, length=length))

    def punch(self, path: str, span: Span) -> None:
        self._files.punch(path, Span(span.start * BLOCK, span.end * BLOCK))

    def held(self, path: str) -> list[Span]:
        """The blocks that a layer holds."""
        extents = self._files.extents(path)
        if any(edge % BLOCK for extent in extents for edge in extent):
            raise Damaged(f"{path}: holds a part of a block of {BLOCK} bytes")
        return [Span(start // BLOCK, end // BLOCK) for start, end in extents]

    def allocated(self, path: str) -> int:
        return self._files.allocated(path)

    def sync(self, path: str) -> None:
        self._files.sync(path)

    # --- the record, and files around it ------------------------------------------------------------------------------

    def load(self) -> Record:
        """Raises Damaged where a file is missing: better no volume than one that reads zeros.

        A process that was killed may have left a record that is not on the disk yet. What is done next is done on its word, so
        a power cut must not bring the one before it back.
        """
        path = self._path(names.RECORD)
        self._files.sync(self.name)
        try:
            text = self._files.read(path, offset=0, length=records.MAX_RECORD)
        except FileNotFoundError as error:
            raise Damaged(f"{path}: is missing") from error
        record = records.decode(text, where=path)
        missing = self._wanted(record).difference(self._files.names(self.name))
        if missing:
            raise Damaged(f"{self.name}: {', '.join(sorted(missing))} missing, of what {names.RECORD} names")
        return record

    def commit(self, record: Record) -> None:
        """From the rename on it is so. All that the record names is on the disk before, and itself after."""
        draft = self._path(names.DRAFT)
        self._files.sync(self.name)
        self._files.create(draft, size=0)
        self._files.write(draft, offset=0, data=records.encode(record))
        self._files.sync(draft)
        self._files.rename(draft, self._path(names.RECORD))
        self._files.sync(self.name)

    def add_layer(self, record: Record, layer: str) -> str:
        """A new layer that holds nothing; it counts from the commit on."""
        path = self.path(record, layer)
        self._files.create(path, size=record.size)
        self._files.sync(path)
        return path

    def name_head(self, record: Record, snapshot: str) -> None:
        """The head's file gets the name of a snapshot as well."""
        self._files.link(self.path(record, HEAD), self.path(record, snapshot))

    def remove(self, path: str) -> None:
        self._files.remove(path)

    def sweep(self, record: Record, *, making: Container[str] = _NOTHING) -> None:
        """Removes files of ours that no record names, except those that somebody is making now."""
        wanted = self._wanted(record)
        for name in self._files.names(self.name):
            path = self._path(name)
            if names.is_ours(name) and name not in wanted and path not in making:
                self._files.remove(path)

    def _wanted(self, record: Record) -> set[str]:
        return {names.RECORD, head_file(record.head), *map(snapshot_file, record.snapshots)}

    def _path(self, name: str) -> str:
        return f"{self.name}/{name}"
