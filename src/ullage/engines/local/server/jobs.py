"""Work that outlasts the call that starts it: a purge, a clone. One of a kind at a time on a volume, and how far it is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final

from ullage.engines.local.store.purge import Cancelled, Progress
from ullage.errors import UllageError

Work = Callable[[Progress, Cancelled], bool]
"""Is done in a thread. False where it was cancelled."""

IN_PROGRESS: Final = "in_progress"
COMPLETE: Final = "complete"
ERROR: Final = "error"


class Job:
    """What runs, or how the last one ended. Only the event loop may call it."""

    def __init__(self, threads: Executor) -> None:
        self._threads = threads
        self._task: asyncio.Task[None] | None = None
        self._stop = threading.Event()
        self.progress = 0  # percent
        self.state = ""  # nothing before the first
        self.error = ""

    @property
    def running(self) -> bool:
        return self._task is not None and not self._task.done()

    def start(self, work: Work) -> asyncio.Task[None]:
        """Whoever starts has looked whether one is running. The task never fails: `error` says whether the work did."""
        self.progress, self.state, self.error = 0, IN_PROGRESS, ""
        self._stop.clear()
        self._task = asyncio.create_task(self._run(work))
        return self._task

    async def stop(self) -> None:
        """Returns when nothing runs any more. What was done stays done."""
        if self._task is not None:
            self._stop.set()
            await self._task

    async def _run(self, work: Work) -> None:
        loop = asyncio.get_running_loop()
        try:
            whole = await loop.run_in_executor(self._threads, work, self._advance, self._stop.is_set)
        except UllageError as problem:
            self.state, self.error = ERROR, str(problem)
        except Exception as problem:  # a fault of ours must not look like success
            self.state, self.error = ERROR, f"{type(problem).__name__}: {problem}"
            loop.call_exception_handler({"message": "a job failed", "exception": problem})
        else:
            self.state, self.error = (COMPLETE, "") if whole else (ERROR, "it was stopped before its end")
            self.progress = 100 if whole else self.progress

    def _advance(self, percent: int) -> None:
        self.progress = percent
