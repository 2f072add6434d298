"""Purge: removes marked snapshots and gives their space back, while the volume is in use.

A snapshot that is removed hands its child the blocks that the child lacks, into the child's own file: whoever reads the
child gets the same bytes before, during and after. Then a new record leaves the snapshot out, and its file is deleted. A
crash in between costs the work done twice, and nothing else. `tree` decides the order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ullage.engines.chain import HEAD
from ullage.engines.local.store import tree
from ullage.engines.local.store.errors import translated
from ullage.engines.local.store.record import BLOCK
from ullage.engines.local.store.spans import Span, intersect, pieces, subtract, total
from ullage.engines.local.store.state import LiveState, LockedState

PIECE: Final = (1 << 20) // BLOCK  # blocks that are copied while others wait

Progress = Callable[[int], None]
"""Is told percents, which never fall."""
Cancelled = Callable[[], bool]
"""Is asked before each piece of work."""


def ignore(_: int) -> None:
    """Progress that nobody follows."""


def never() -> bool:
    """Work that nobody stops."""
    return False


@dataclass(slots=True)
class Purger:
    """One purge of one volume."""

    state: LockedState
    progress: Progress
    cancelled: Cancelled
    done: int = 0
    planned: int = 1
    percent: int = 0

    def run(self) -> bool:
        """Gives False where it was cancelled: what is done is done, and the rest waits for the next purge."""
        self._mark()
        while not self.cancelled():
            with self.state.locked() as live:
                step = tree.next_step(live.record)
                if step is None:
                    self._prune(live)
                    self._tell(100)
                    return True
                if isinstance(step, tree.Delete):
                    self._drop(live, step.name)
            if isinstance(step, tree.Merge) and not self._merge(step):
                return False
            self.done += 1
            self._tell(100 * self.done // self.planned)
        return False

    def _mark(self) -> None:
        with self.state.locked() as live:
            unwanted = tree.unwanted(live.record)
            if unwanted:
                record = tree.marked(live.record, *unwanted)
                self.state.directory.commit(record)
                live.record = record
            self.planned = max(1, sum(snapshot.removed for snapshot in live.record.snapshots.values()))

    def _merge(self, step: tree.Merge) -> bool:
        """Nobody else changes what snapshots hold, so others may work between the pieces."""
        directory = self.state.directory
        with self.state.locked() as live:
            parent, child = directory.path(live.record, step.name), directory.path(live.record, step.child)
            lacking = list(subtract(directory.held(parent), directory.held(child)))
        blocks, copied = total(lacking), 0
        for piece in pieces(lacking, limit=PIECE):
            if self.cancelled():
                return False
            with self.state.locked() as live:
                directory.copy(parent, child, piece)
                live.blocks[step.child] += piece.end - piece.start
            copied += piece.end - piece.start
            self._tell((100 * self.done + 100 * copied // blocks) // self.planned)
        with translated(f"volume {self.state.name}"):
            directory.sync(child)  # before the record says that the parent is not needed; it takes long, so the lock is free
        with self.state.locked() as live:
            self._drop(live, step.name, into=step.child)
        return True

    def _drop(self, live: LiveState, name: str, *, into: str | None = None) -> None:
        directory, path = self.state.directory, self.state.directory.path(live.record, name)
        record = tree.dropped(live.record, name)
        directory.commit(record)
        directory.remove(path)
        live.record = record
        live.indexes.clear()
        live.unions.clear()
        del live.blocks[name]
        if into is not None:
            live.index.merge(name, into)

    def _prune(self, live: LiveState) -> None:
        """The head is synced first: what it has not on the disk yet, a power cut would take from both."""
        step = tree.last_step(live.record)
        if step is None:
            return
        directory, path = self.state.directory, self.state.directory.path(live.record, step.name)
        covered: list[Span] = list(intersect(directory.held(path), live.index.held(HEAD)))
        if covered:
            directory.sync(directory.path(live.record, HEAD))
            for span in covered:
                directory.punch(path, span)
        directory.sync(path)  # also of what an earlier purge has punched out, and was cut off before it synced
        live.blocks[step.name] -= total(covered)

    def _tell(self, percent: int) -> None:
        if percent > self.percent:
            self.percent = min(percent, 100)
            self.progress(self.percent)
