"""Minutes of load on one hot tenant: is what was admitted counted in time, and does the ledger stay small?

Every client makes objects and deletes its oldest ones, so that the tenant keeps about as many as it has at the start.
"""

from __future__ import annotations

import asyncio
import collections
import json
import time
from dataclasses import dataclass, field
from typing import Any, Final

from bench.apiserver.wire import Connection
from bench.ledger.maps_slice import CELL, MAPS
from bench.ledger.ways import Scene, Stage, Way, added, configmap, stage
from ullage.ledger.amounts import NOTHING
from ullage.ledger.api import LEDGERS, NAMESPACE
from ullage.ledger.packing.sums import decode

Json = dict[str, Any]
HELD: Final = 20  # objects that each client keeps
LOOK: Final = 10.0  # seconds between two lines
LATE: Final = 2.0  # seconds: the aim
SMALL: Final = 64 * 1024  # bytes: the aim
REST: Final = 10.0  # seconds in which everything must have been counted once nobody asks any more
WAY: Final = Way("one hot tenant, creates and deletes", role="ledger", replicas=3)


@dataclass(slots=True)
class Course:
    """What was seen so far."""

    made: int = 0
    late: list[float] = field(default_factory=list)  # the latest of each look, in seconds
    entries: list[int] = field(default_factory=list)  # the most of each look
    size: int = 0  # of the whole object, the most, in bytes
    decisions: float = 0
    written: float = 0  # bytes
    at_rest: str = ""

    def verdicts(self) -> list[tuple[bool, str]]:
        half = len(self.entries) // 2
        first, second = max(self.entries[:half], default=0), max(self.entries[half:], default=0)
        return [
            (max(self.late) <= LATE, f"the longest that anything was pending is {max(self.late):.2f} s; the aim is {LATE} s"),
            (second <= 2 * first, f"at most {first} were pending in the first half and {second} in the second"),
            (self.size < SMALL, f"the ledger, managedFields included, had {self.size:,} bytes at most; the aim is {SMALL:,}"),
            (self.at_rest == "", f"at rest {self.at_rest or 'nothing is pending and everything is counted'}"),
        ]


async def endure(scene: Scene, seconds: float) -> bool:
    """Prints a line for each look, and PASS or FAIL at the end."""
    course = Course()
    async with stage(WAY, scene) as here:
        ends = time.monotonic() + seconds
        clients = [asyncio.create_task(_client(here, course, number=number, ends=ends)) for number in range(scene.clients)]
        before = here.crew.reports()
        print("seconds  creates/s  latest s  pending  pending bytes  ledger bytes  bytes a decision", flush=True)
        while time.monotonic() < ends and not any(task.done() for task in clients):
            before = await _look(here, course, before, left=ends - time.monotonic(), whole=seconds)
        await asyncio.gather(*clients)
        course.at_rest = await _at_rest(here)
    print(f"\n{course.made:,} creates; {course.written / course.decisions:,.0f} bytes were written for each decision")
    for holds, text in course.verdicts():
        print(f"{'PASS' if holds else 'FAIL'}: {text}")
    return all(holds for holds, _ in course.verdicts())


async def _client(here: Stage, course: Course, *, number: int, ends: float) -> None:
    connection = await Connection(here.scene.target).open(here.scene.target.context())
    held: collections.deque[int] = collections.deque()
    while time.monotonic() < ends:
        number += here.scene.clients
        await connection.call("POST", here.maps, configmap(number, here.tenants))
        course.made += 1
        held.append(number)
        if len(held) > HELD:
            await connection.call("DELETE", MAPS.path(here.namespace, f"m{held.popleft():06}"))
    await connection.close()


async def _look(here: Stage, course: Course, before: list[Json], *, left: float, whole: float) -> list[Json]:
    made, began = course.made, time.monotonic()
    await asyncio.sleep(max(0.1, min(LOOK, left)))
    rate = (course.made - made) / (time.monotonic() - began)
    reports, seen = here.crew.reports(), here.crew.sightings()
    done = added(before, reports)
    size = len(await here.admin.call("GET", _ledger(here)))
    course.late.append(max([*seen["late"], seen["oldest"]]))
    course.entries.append(seen["entries"])
    course.size = max(course.size, size)
    course.decisions += done["decisions"]
    course.written += done["bytes"]
    each = done["bytes"] / max(1, done["decisions"])
    print(
        f"{whole - left + time.monotonic() - began:7.0f}  {rate:9,.0f}  {course.late[-1]:8.2f}  {seen['entries']:7}  "
        f"{seen['bytes']:13,}  {size:12,}  {each:16,.0f}",
        flush=True,
    )
    return reports


async def _at_rest(here: Stage) -> str:
    """What is wrong once nobody asks any more; empty if nothing is."""
    there = len((await here.admin.json("GET", here.maps))["items"])
    deadline = time.monotonic() + REST
    while True:
        status = json.loads(await here.admin.call("GET", _ledger(here)))["status"]
        counted = str(decode(status.get("sums", ""), ledger=here.tenants[0]).counted.get(MAPS.name, NOTHING)[CELL])
        if not status.get("pending") and counted == str(there):
            return ""
        if time.monotonic() > deadline:
            return f"{counted} of {there} are counted, and pending has {len(status.get('pending', ''))} bytes"
        await asyncio.sleep(0.1)


def _ledger(here: Stage) -> str:
    return LEDGERS.path(NAMESPACE, here.tenants[0])
