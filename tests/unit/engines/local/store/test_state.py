"""Many callers on one volume: each has its turn, in order, and none sees another's half."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from time import monotonic, sleep

from tests.unit.engines.local.store.disks import Forgetful
from ullage.engines.local.store.record import BLOCK
from ullage.engines.local.store.state import FairLock
from ullage.engines.local.store.store import Store

NOW = "2026-01-02T03:04:05Z"


def wait_for(condition: Callable[[], object]) -> None:
    deadline = monotonic() + 30
    while not condition():
        assert monotonic() < deadline
        sleep(0.001)


def test_who_comes_back_at_once_waits_for_those_who_came_before() -> None:
    turns, order = FairLock(), list[str]()

    def wait() -> None:
        with turns:
            order.append("waited")

    threads = [threading.Thread(target=wait) for _ in range(3)]
    with turns:
        for thread in threads:
            thread.start()
        wait_for(lambda: len(turns._waiting) == len(threads))
    with turns:
        order.append("came back")
    for thread in threads:
        thread.join(30)
    assert order == ["waited"] * 3 + ["came back"]


def test_readers_see_whole_writes_while_snapshots_come_and_go() -> None:
    volume = Store(Forgetful()).create("v", size=4 * BLOCK)
    over = threading.Event()

    def write() -> None:
        for number in range(300):
            volume.write_at(BLOCK // 2, bytes((number % 250 + 1,)) * 2 * BLOCK)

    def read() -> None:
        while not over.is_set():
            assert len(set(volume.read_at(BLOCK // 2, 2 * BLOCK))) == 1

    def churn() -> None:
        for number in count():
            if over.is_set():
                return
            volume.snapshot(f"s{number}", created=NOW)
            volume.mark_removed(f"s{number - 1}")
            volume.purge()

    with ThreadPoolExecutor(4) as pool:
        others = [pool.submit(read), pool.submit(read), pool.submit(churn)]
        try:
            pool.submit(write).result(60)
        finally:
            over.set()
        for other in others:
            other.result(60)
    assert volume.read_at(BLOCK // 2, 2 * BLOCK) == bytes((300 % 250,)) * 2 * BLOCK
