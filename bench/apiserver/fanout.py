"""Watch fan-out: one stream of changes, many watchers, and how late each event is.

The watchers run in a process of their own, so that reading does not slow the writer down. An event carries the moment it
was written; both processes read the same monotonic clock.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass

from bench.apiserver.wire import Connection, Target

STAMP = b'"stamp":"'
LATE = 1.0  # seconds
END = "end"
GRACE = 30.0


@dataclass(frozen=True, slots=True)
class FanOut:
    """What the watchers got of what was written."""

    written_per_second: float
    delivered: int
    expected: int
    late: int
    p50: float
    p99: float


async def fan_out(target: Target, path: str, *, watchers: int, rate: int, seconds: int) -> FanOut:
    """Writes `rate` ConfigMaps each second; `path` is their collection."""
    connection = await Connection(target).open(target.context())
    listed = await connection.json("GET", f"{path}?limit=1")
    settings = {
        "target": asdict(target),
        "path": f"{path}?watch=true&resourceVersion={listed['metadata']['resourceVersion']}",
        "watchers": watchers,
        "seconds": seconds + GRACE,
    }
    readers = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.apiserver.fanout", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    if readers.stdin is None or readers.stdout is None:
        raise RuntimeError("the watchers have no pipes")
    readers.stdin.write(json.dumps(settings).encode() + b"\n")
    await readers.stdin.drain()
    await readers.stdout.readline()  # all watches are open
    begun = time.perf_counter()
    count = rate * seconds
    await _write(target, path, count=count, rate=rate)
    spent = time.perf_counter() - begun
    await connection.call("POST", path, json.dumps({"metadata": {"name": END}}).encode())
    told = json.loads(await readers.stdout.readline())
    await readers.wait()
    await connection.close()
    return FanOut(written_per_second=count / spent, expected=count * watchers, **told)


def summary(delays: list[float]) -> dict[str, float]:
    """What the watchers tell the writer."""
    delays.sort()
    return {
        "delivered": len(delays),
        "late": sum(delay > LATE for delay in delays),
        "p50": delays[len(delays) // 2] if delays else 0.0,
        "p99": delays[int(len(delays) * 0.99)] if delays else 0.0,
    }


async def _write(target: Target, path: str, *, count: int, rate: int) -> None:
    """Keeps the pace over 32 connections: each write has its moment, and none waits for the one before."""
    context = target.context()
    connections = [await Connection(target).open(context) for _ in range(32)]
    numbers = iter(range(count))
    begun = time.perf_counter()

    async def work(connection: Connection) -> None:
        for number in numbers:
            await asyncio.sleep(max(0.0, begun + number / rate - time.perf_counter()))
            body = {"metadata": {"name": f"event-{number:06}"}, "data": {"stamp": str(time.monotonic())}}
            await connection.call("POST", path, json.dumps(body).encode())

    await asyncio.gather(*(work(connection) for connection in connections))
    for connection in connections:
        await connection.close()


async def _watch(connection: Connection, path: str, opened: asyncio.Semaphore) -> list[float]:
    delays: list[float] = []
    reader = await connection.send("GET", path)
    await Connection.headers(reader)
    opened.release()
    async for line in Connection.lines(reader):
        place = line.find(STAMP)
        if place >= 0:
            start = place + len(STAMP)
            delays.append(time.monotonic() - float(line[start : line.index(b'"', start)]))
        elif b'"name":"end"' in line:
            break
    return delays


async def _read_all() -> None:
    settings = json.loads(sys.stdin.readline())
    target = Target(**settings["target"])
    context = target.context()
    opened = asyncio.Semaphore(0)
    connections = [await Connection(target).open(context) for _ in range(settings["watchers"])]
    tasks = [asyncio.create_task(_watch(connection, settings["path"], opened)) for connection in connections]
    for _ in tasks:
        await opened.acquire()
    sys.stdout.write("open\n")
    sys.stdout.flush()
    done, late = await asyncio.wait(tasks, timeout=settings["seconds"])
    for task in late:
        task.cancel()
    sys.stdout.write(json.dumps(summary([delay for task in done for delay in task.result()])) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_read_all())
