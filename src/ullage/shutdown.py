"""The end of a process that was asked to stop: it comes in time, whatever hangs.

State lives in the API, and every process may be killed at any moment, so nothing is worth waiting for longer than the grace
period that a process has: no API that is silent, no disk that does not answer, no thread that cannot be called off. What did
not end is named in the log, since it hung for a reason.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Awaitable, Coroutine
from typing import Any, Final

logger = logging.getLogger(__name__)

GRACE_SECONDS: Final = 9.0  # from the signal to the end; a supervisor's is 10, and a kubelet's 30
LEAVE_SECONDS: Final = 1.0  # of these, for what is cancelled to end
LOG_SECONDS: Final = 0.5
FORCED: Final = 1  # the exit code


async def run_to_end(work: Coroutine[Any, Any, None], stop: asyncio.Event, *, grace: float = GRACE_SECONDS) -> None:
    """Awaits the work, which is cancelled shortly before the grace period is over. For its end there is `exit_within`."""
    working = asyncio.ensure_future(work)
    if await done_before(stop, asyncio.wait({working})):
        return await working
    leave = min(LEAVE_SECONDS, grace / 2)
    await asyncio.wait({working}, timeout=grace - leave)
    if not working.done():
        _name_the_rest(grace - leave)
        working.cancel()
        await asyncio.wait({working})
    if not working.cancelled():
        working.result()
    return None


async def done_before(stop: asyncio.Event, work: Awaitable[Any]) -> bool:
    """Whether the work was done before the stop came. If not it is cancelled, and has ended."""
    working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
            return True
        return False
    finally:
        for task in (working, stopping):
            task.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)


def exit_within(seconds: float) -> None:
    """Ends this process after so many seconds at the latest, also where its event loop or the end of its threads hangs. It is
    called when the signal comes: what hears of the stop may not come to an end, nor let others have a turn."""
    timer = threading.Timer(seconds, _exit, [seconds])
    timer.daemon = True
    timer.start()


def _exit(seconds: float) -> None:
    hanging = [thread.name for thread in threading.enumerate() if thread is not threading.current_thread()]
    # Whoever hangs may have the lock of the log.
    saying = threading.Thread(
        target=logger.error,
        args=("ended without waiting any longer",),
        kwargs={"extra": {"seconds": seconds, "threads": ", ".join(hanging)}},
        daemon=True,
    )
    saying.start()
    saying.join(LOG_SECONDS)
    os._exit(FORCED)


def _name_the_rest(seconds: float) -> None:
    tasks = sorted(task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task())
    logger.warning("not ended in time, calling it off", extra={"seconds": seconds, "tasks": ", ".join(tasks)})
