"""Walks through a tree of very many files as a copy does, in a process of its own, and says how much memory that took."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from ullage.clock import SystemClock
from ullage.snapshots.backends.hostpath.copy_notes import CopyNotes, begin
from ullage.snapshots.backends.hostpath.scan import scan
from ullage.snapshots.backends.hostpath.sizes import measure
from ullage.snapshots.backends.hostpath.threads import Stop
from ullage.snapshots.backends.hostpath.tree_index import TreeIndex

IN_ONE = 10_000  # files in a directory


def fill(source: Path, count: int) -> None:
    for number in range(0, count, IN_ONE):
        (source / f"{number:08}").mkdir()
        directory = os.open(source / f"{number:08}", os.O_RDONLY)
        for file in range(number, min(number + IN_ONE, count)):
            os.close(os.open(f"file-{file:08}", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=directory))
        os.close(directory)


def most_memory() -> int:
    """Bytes. What getrusage tells has that of whoever started us in it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024


def main(top: Path, count: int) -> None:
    source = top / "source"
    source.mkdir()
    fill(source, count)
    ours = os.open(source, os.O_RDONLY | os.O_DIRECTORY)
    notes = top / "notes"
    begin(notes, b"notes\n")
    with CopyNotes(notes) as kept, TreeIndex(top / "scratch", kept) as index:
        scan(ours, index, clock=SystemClock(), stop=Stop())
        changed, taken = index.compare(), 0
        for path, stamp in index.fresh():
            index.hold(path, stamp)
            taken += 1
        scan(ours, index, clock=SystemClock(), stop=Stop())
        again = index.compare()
    with CopyNotes(notes) as kept, TreeIndex(top / "scratch", kept) as index:
        index.recall()
        recalled = sum(index.noted(f"{file // IN_ONE * IN_ONE:08}/file-{file:08}") is not None for file in range(count))
    notes.unlink()
    memory = most_memory()
    entries = measure(ours, stop=Stop()).entries
    print(
        json.dumps(
            {"changed": changed, "taken": taken, "again": again, "recalled": recalled, "entries": entries, "memory": memory}
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
