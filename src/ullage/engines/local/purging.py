"""Purge: takes marked snapshots away and gives their space back, while the volume is in use.

A snapshot that goes hands its child what the child lacks, into the child's own file: whoever reads the child gets the same
bytes before, during and after. Then one record leaves the snapshot out, and its file goes. A crash in between costs the work
done twice, and nothing else. The order is `tree`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ullage.engines.local import tree
from ullage.engines.local.desk import Desk, Live
from ullage.engines.local.names import HEAD
from ullage.engines.local.problems import translated
from ullage.engines.local.record import BLOCK
from ullage.engines.local.spans import Span, intersect, pieces, subtract, total

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
class Purge:
    """One purge of one volume."""

    desk: Desk
    progress: Progress
    cancelled: Cancelled
    done: int = 0
    planned: int = 1
    percent: int = 0

    def run(self) -> bool:
        """Gives False where it was cancelled: what is done is done, and the rest waits for the next purge."""
        self._mark()
        while not self.cancelled():
            with self.desk.at_work() as live:
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
        with self.desk.at_work() as live:
            unwanted = tree.unwanted(live.record)
            if unwanted:
                record = tree.marked(live.record, *unwanted)
                self.desk.home.commit(record)
                live.record = record
            self.planned = max(1, sum(snapshot.removed for snapshot in live.record.snapshots.values()))

    def _merge(self, step: tree.Merge) -> bool:
        """Nobody else changes what snapshots hold, so others may work between the pieces."""
        home = self.desk.home
        with self.desk.at_work() as live:
            parent, child = home.path(live.record, step.name), home.path(live.record, step.child)
            lacking = list(subtract(home.held(parent), home.held(child)))
        blocks, copied = total(lacking), 0
        for piece in pieces(lacking, limit=PIECE):
            if self.cancelled():
                return False
            with self.desk.at_work() as live:
                home.copy(parent, child, piece)
                live.blocks[step.child] += piece.end - piece.start
            copied += piece.end - piece.start
            self._tell((100 * self.done + 100 * copied // blocks) // self.planned)
        with translated(f"volume {self.desk.name}"):
            home.sync(child)  # before the record says that the parent is not needed; takes its time, so nobody waits for it
        with self.desk.at_work() as live:
            self._drop(live, step.name, into=step.child)
        return True

    def _drop(self, live: Live, name: str, *, into: str | None = None) -> None:
        home, path = self.desk.home, self.desk.home.path(live.record, name)
        record = tree.dropped(live.record, name)
        home.commit(record)
        home.remove(path)
        live.record = record
        live.indexes.clear()
        del live.blocks[name]
        if into is not None:
            live.index.merge(name, into)

    def _prune(self, live: Live) -> None:
        """The head is synced first: what it has not on the disk yet, a power cut would take from both."""
        step = tree.last_step(live.record)
        if step is None:
            return
        home, path = self.desk.home, self.desk.home.path(live.record, step.name)
        covered: list[Span] = list(intersect(home.held(path), live.index.held(HEAD)))
        if covered:
            home.sync(home.path(live.record, HEAD))
            for span in covered:
                home.punch(path, span)
        home.sync(path)  # also of what an earlier purge has punched out, and was cut off before it synced
        live.blocks[step.name] -= total(covered)

    def _tell(self, percent: int) -> None:
        if percent > self.percent:
            self.percent = min(percent, 100)
            self.progress(self.percent)
