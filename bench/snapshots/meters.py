"""What is read from outside while snapshots come and go: when each was ready and gone, what was written, what it took."""

from __future__ import annotations

import asyncio
import collections
import re
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from bench.apiserver.wire import Connection, Target

WRITES: Final = frozenset({"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"})
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')


class _Meta(msgspec.Struct):
    name: str = ""


class _Status(msgspec.Struct):
    ready: bool = msgspec.field(name="readyToUse", default=False)


class _Object(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    status: _Status = msgspec.field(default_factory=_Status)


class _Event(msgspec.Struct):
    type: str
    object: _Object


class Observer:
    """A watch on one namespace's snapshots. It notes the moment at which each is seen ready, and seen gone."""

    def __init__(self) -> None:
        self.ready: dict[str, float] = {}
        self.gone: dict[str, float] = {}
        self._news = asyncio.Event()
        self._decoder = msgspec.json.Decoder(_Event)

    async def watch(self, target: Target, path: str, opened: asyncio.Event) -> None:
        """Until it is cancelled. `opened` is set once nothing can be missed."""
        connection = await Connection(target).open(target.context())
        listed = await connection.json("GET", f"{path}?limit=1")
        version = listed["metadata"]["resourceVersion"]
        reader = await connection.send("GET", f"{path}?watch=true&resourceVersion={version}&timeoutSeconds=3600")
        await Connection.headers(reader)
        opened.set()
        async for line in Connection.lines(reader):
            self._see(self._decoder.decode(line))
        raise RuntimeError(f"the watch on {path} ended")

    def _see(self, event: _Event) -> None:
        name, moment = event.object.metadata.name, time.monotonic()
        if event.type == "DELETED":
            self.gone[name] = moment
        elif event.object.status.ready:
            self.ready.setdefault(name, moment)
        self._news.set()

    async def until(self, seen: Mapping[str, float], count: int) -> None:
        while len(seen) < count:
            self._news.clear()
            await self._news.wait()


class Requests(collections.Counter[tuple[str, str, bool]]):
    """Write requests that an API server has answered: by verb, resource, and whether it said yes."""

    @property
    def writes(self) -> int:
        return sum(self.values())

    def events(self) -> int:
        return sum(count for (_, resource, _), count in self.items() if resource == "events")

    def refused(self) -> int:
        return sum(count for (_, _, fine), count in self.items() if not fine)


async def written(target: Target) -> Requests:
    """Since the API server's start, as its own metrics have it."""
    connection = await Connection(target).open(target.context())  # one that waits for minutes would be hung up on
    text = (await connection.call("GET", "/metrics")).decode()
    await connection.close()
    found = Requests()
    for line in text.splitlines():
        if line.startswith("apiserver_request_total{"):
            labels, _, count = line.partition("{")[2].rpartition("} ")
            told = dict(_LABEL.findall(labels))
            if told["verb"] in WRITES and told["resource"] != "leases":
                found[told["verb"], told["resource"], told["code"].startswith("2")] += int(float(count))
    return found


def peak_megabytes(pids: Iterable[int]) -> float:
    """The most memory that each process had at any time, added up."""
    return sum(_peak(pid) for pid in pids)


def _peak(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1000
    return 0.0
