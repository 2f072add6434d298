"""Runs at the start of every Python process below the tracer, and counts calls of functions in `src/ullage`.

SIGUSR1 begins a count, SIGUSR2 ends it and writes it to `TRACER_DIRECTORY/<pid>.json`. Calls are counted on the main thread,
where the event loop runs all controllers and hooks.
"""

from __future__ import annotations

import collections
import dis
import json
import os
import signal
import sys
from pathlib import Path
from types import CodeType, FrameType
from typing import Any


class _Counter:
    """Counts the calls of each function. A coroutine counts when it starts, not each time that it goes on."""

    def __init__(self, directory: Path, source: str) -> None:
        self._directory, self._source = directory, source
        self._calls: collections.Counter[CodeType] = collections.Counter()
        self._starts: dict[CodeType, int] = {}  # the offset up to which a frame has only begun; -1: not a file of ours

    def begin(self, _signal: int, _frame: FrameType | None) -> None:
        self._calls.clear()
        sys.setprofile(self._count)

    def end(self, _signal: int, _frame: FrameType | None) -> None:
        sys.setprofile(None)
        rows = [[code.co_filename[len(self._source) :], code.co_qualname, count] for code, count in self._calls.items()]
        path = self._directory / f"{os.getpid()}.json"
        part = path.with_suffix(".part")
        part.write_text(json.dumps({"command": sys.argv, "calls": rows}))
        part.rename(path)

    def _count(self, frame: FrameType, event: str, _argument: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        start = self._starts.get(code)
        if start is None:
            start = self._starts[code] = self._start(code)
        if frame.f_lasti <= start:
            self._calls[code] += 1

    def _start(self, code: CodeType) -> int:
        if not code.co_filename.startswith(self._source):
            return -1
        return next((one.offset for one in dis.get_instructions(code) if one.opname == "RESUME"), 0)


if "TRACER_DIRECTORY" in os.environ:
    _counter = _Counter(Path(os.environ["TRACER_DIRECTORY"]), os.environ["TRACER_SOURCE"])
    signal.signal(signal.SIGUSR1, _counter.begin)
    signal.signal(signal.SIGUSR2, _counter.end)
