"""A process that was asked to stop ends within its grace period, whatever hangs in it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from tests.unit.kube.virtual_time import in_virtual_time
from ullage.shutdown import done_before, run_to_end

PATIENCE = 60.0
GRACE = 1.0
PROCESS = """
import asyncio, logging, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from ullage import logs
from ullage.app.processes.lifecycle import run_until_stopped

logs.configure("test", format="text", level="info")

async def deaf(stop):
    await asyncio.Event().wait()

async def obedient(stop):
    await stop.wait()

async def stubborn(stop):
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass

async def threaded(stop):
    ThreadPoolExecutor(1, thread_name_prefix="disk").submit(threading.Event().wait)
    await stop.wait()

async def blocking(stop):
    await stop.wait()
    while True:
        time.sleep(1)

async def main(stop, serves):
    print("runs", flush=True)
    await globals()[sys.argv[1]](stop)

run_until_stopped(main, ready_fd=None, parent_fd=None, grace=float(sys.argv[2]))
"""


@pytest.mark.parametrize(
    ("does", "code", "told"),
    [
        pytest.param("obedient", 0, "", id="one that hears it ends at once"),
        pytest.param("deaf", 0, "not ended in time, calling it off", id="one that does not listen is called off"),
        pytest.param("stubborn", 1, "ended without waiting any longer", id="one that does not let itself be called off"),
        pytest.param("threaded", 1, "disk_0", id="one whose thread waits for a disk is told by the name of the thread"),
        pytest.param("blocking", 1, "ended without waiting any longer", id="one whose loop stands still"),
    ],
)
def test_a_process_that_is_asked_to_stop_ends(does: str, code: int, told: str) -> None:
    command = [sys.executable, "-c", PROCESS, does, str(GRACE)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "runs\n"
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert (process.returncode, told in errors) == (code, True), errors
    assert ("not ended" in errors or "without waiting" in errors) == bool(told), errors


def test_work_that_fails_fails_its_caller_before_and_after_the_stop() -> None:
    async def fails(stop: asyncio.Event | None) -> None:
        if stop is not None:
            await stop.wait()
        raise ValueError("broken")

    async def both() -> None:
        stop = asyncio.Event()
        with pytest.raises(ValueError, match="broken"):
            await run_to_end(fails(None), stop)
        with pytest.raises(ValueError, match="broken"):
            await done_before(stop, fails(None))

    in_virtual_time(both())


def test_what_is_not_done_before_the_stop_has_ended_when_it_is_told() -> None:
    async def scene() -> tuple[bool, bool, list[str]]:
        stop, ends = asyncio.Event(), list[str]()

        async def slow() -> None:
            try:
                await asyncio.sleep(1)
            finally:
                await asyncio.sleep(1)
                ends.append("ended")

        first = await done_before(stop, asyncio.sleep(1))
        asyncio.get_running_loop().call_later(0.5, stop.set)
        return first, await done_before(stop, slow()), ends

    assert in_virtual_time(scene()) == (True, False, ["ended"])
