"""One of several processes of which only the leader may write: as long as it leads, it makes ConfigMaps, as fast as it can.

It says `acquired`, `lost`, `refused`… on its output, so that a test knows what it has tried.

A signal from outside stops a process anywhere, so a test that sends SIGSTOP replays nothing. SIGUSR1 makes the worker stop
itself at a known place: between two steps of its event loop, or with `--stop-past-guard` at the worst place there is, after the
guard has let a write pass and before its bytes have left.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import signal
from datetime import datetime, timedelta

from ullage.clock import BootClock
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.kube.controller.candidate import Timing
from ullage.kube.controller.lease import Elector, NotLeading
from ullage.kube.kinds import Kind, Meta, Object

MAPS = Kind("", "v1", "ConfigMap", "configmaps", Object, whole=False, status=False)
LEASE = "work"
# Wide enough that a machine with ten times the work it has cores for renews in time.
TIMING = Timing(duration=6, renew_within=4, retry=0.4, release_within=30)


class WrongClock(BootClock):
    """A machine whose time of day is off."""

    def __init__(self, skew: float) -> None:
        self._skew = timedelta(seconds=skew)

    def now(self) -> datetime:
        return super().now() + self._skew


def say(word: str) -> None:
    print(word, flush=True)


def stop() -> None:
    signal.raise_signal(signal.SIGSTOP)  # to this thread: it does not take another step


async def main(namespace: str, identity: str, *, skew: float, past_guard: bool) -> None:
    numbers = itertools.count(1)
    stopping = False

    def asked_to_stop() -> None:
        nonlocal stopping
        if past_guard:
            stopping = True
        else:
            stop()

    def guard() -> None:
        nonlocal stopping
        elector.guard()
        if stopping:
            stopping = False
            stop()

    async def write() -> None:
        meta = Meta(name=f"{identity}-{next(numbers)}", namespace=namespace, labels={"writer": identity})
        try:
            await work_client.create(MAPS, Object(metadata=meta))
        except NotLeading:
            say("refused")

    async def keep_writing() -> None:
        try:
            while True:
                await write()
                await asyncio.sleep(0.02)
        finally:
            await write()  # on the way out, as controllers do that put things in order: only a leader may

    async def work() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(keep_writing())

    async with Client(Config.load(), user_agent=identity) as client:
        elector = Elector(
            client, LEASE, namespace=namespace, identity=identity, timing=TIMING, clock=WrongClock(skew), observe=say
        )
        work_client = client.guarded(guard)
        running = asyncio.ensure_future(elector.run(work))
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, running.cancel)
        loop.add_signal_handler(signal.SIGUSR1, asked_to_stop)
        with contextlib.suppress(asyncio.CancelledError):
            await running


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("namespace")
    parser.add_argument("identity")
    parser.add_argument("--skew", type=float, default=0.0)
    parser.add_argument("--stop-past-guard", action="store_true")
    given = parser.parse_args()
    asyncio.run(main(given.namespace, given.identity, skew=given.skew, past_guard=given.stop_past_guard))
