"""One measurement: a snapshotter is started, makes snapshots ready, deletes them, and is stopped.

Each has a namespace and claims of its own; driver and control plane are the same for all.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.apiserver.load import hammer
from bench.apiserver.wire import Connection, Target
from bench.ledger.meters import cpu_seconds, machine_seconds
from bench.snapshots.meters import Observer, Requests, peak_megabytes, written
from bench.snapshots.ways import Load, Way
from tests.csi_driver.running import RunningDriver
from tests.e2e.api import Api
from tests.e2e.snapshotters import CONTENTS, GROUP, Snapshotters, bring_claim, forget_hooks, snapshot_of

CLIENTS: Final = 16  # connections that create and delete at once
PATIENCE: Final = 1800.0  # seconds
SETTLED: Final = 1.0  # seconds without a write, until the next phase begins: events and finalizers come late
_numbers = itertools.count()

Job = Callable[[Connection], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Scene:
    """Where all ways are measured."""

    target: Target
    api: Api
    kubeconfig: Path
    programs: Path  # of the GA snapshotter
    driver: RunningDriver
    pids: Mapping[str, int]  # of the control plane's programs


@dataclass(frozen=True, slots=True)
class Phase:
    """From the first request to the last snapshot that is ready, or gone; and how long each took."""

    seconds: float
    each: Sequence[float]
    writes: Requests  # without those of the benchmark itself
    cpu: Mapping[str, float]  # seconds, by process
    others: float  # processors that were busy with something else: how far the figures can be trusted


@dataclass(frozen=True, slots=True)
class Measured:
    ready: Phase
    gone: Phase
    peak: Mapping[str, float]  # MB, by process of the snapshotter


async def measure(way: Way, load: Load, scene: Scene) -> Measured:
    namespace = f"bench-{os.getpid()}-{next(_numbers)}"
    people = Snapshotters(scene.kubeconfig, scene.driver)
    try:
        await asyncio.to_thread(_prepare, scene, namespace, load.claims)
        way.start(people, scene.programs)
        async with _observed(scene, namespace) as course, asyncio.timeout(PATIENCE):
            await course.run(people, ["warm-up"], claims=1)  # it is up, and has seen the driver
            return await course.run(people, [f"snap-{number:05}" for number in range(load.snapshots)], claims=load.claims)
    except BaseException:
        print(people.log())
        raise
    finally:
        people.end()
        await asyncio.to_thread(forget_hooks, scene.api)


def _prepare(scene: Scene, namespace: str, claims: int) -> None:
    scene.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    for number in range(claims):
        files = bring_claim(scene.api, scene.driver, namespace=namespace, name=f"claim-{number}")
        (files / "page").write_bytes(os.urandom(4096))


@asynccontextmanager
async def _observed(scene: Scene, namespace: str) -> AsyncIterator[_Course]:
    observer, opened = Observer(), asyncio.Event()
    path = f"{GROUP}/namespaces/{namespace}/volumesnapshots"
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(observer.watch(scene.target, path, opened))
        await opened.wait()
        yield _Course(scene, observer, path)
        watching.cancel()


class _Course:
    def __init__(self, scene: Scene, observer: Observer, path: str) -> None:
        self._scene = scene
        self._observer = observer
        self._path = path

    async def run(self, people: Snapshotters, names: Sequence[str], *, claims: int) -> Measured:
        seen = self._observer
        seen.ready.clear()
        seen.gone.clear()
        pids = {name: process.pid for name, process in people.running.items()}
        ready = await self._phase(pids, {name: self._create(name, n % claims) for n, name in enumerate(names)}, seen.ready)
        gone = await self._phase(pids, {name: self._delete(name) for name in names}, seen.gone)
        self._nothing_left()
        return Measured(ready, gone, {name: peak_megabytes([pid]) for name, pid in pids.items()})

    def _create(self, name: str, claim: int) -> Job:
        body = json.dumps(snapshot_of(f"claim-{claim}", name)).encode()
        return lambda connection: connection.call("POST", self._path, body)

    def _delete(self, name: str) -> Job:
        return lambda connection: connection.call("DELETE", f"{self._path}/{name}")

    async def _phase(self, people: Mapping[str, int], jobs: Mapping[str, Job], seen: Mapping[str, float]) -> Phase:
        pids = {**people, **self._scene.pids, "driver": self._scene.driver.pid, "benchmark": os.getpid()}
        groups = {name: [pid] for name, pid in pids.items()}
        sent: dict[str, float] = {}
        writes = await written(self._scene.target)
        cpu, machine, begun = cpu_seconds(groups), machine_seconds(), time.monotonic()
        await hammer(self._scene.target, min(CLIENTS, len(jobs)), [_timed(name, job, sent) for name, job in jobs.items()])
        await self._observer.until(seen, len(jobs))
        seconds = max(seen.values()) - begun
        machine = machine_seconds() - machine
        spent = {name: now - cpu[name] for name, now in cpu_seconds(groups).items()}
        done = await self._settled()
        done.subtract(writes)
        verb = "DELETE" if seen is self._observer.gone else "POST"
        done[verb, "volumesnapshots", True] -= len(jobs)
        return Phase(
            seconds,
            sorted(seen[name] - sent[name] for name in jobs),
            done,
            spent,
            max(0.0, machine - sum(spent.values())) / seconds,
        )

    async def _settled(self) -> Requests:
        """What was written, once nobody writes any more."""
        now = await written(self._scene.target)
        while True:
            before = now
            await asyncio.sleep(SETTLED)
            now = await written(self._scene.target)
            if now == before:
                return now

    def _nothing_left(self) -> None:
        left, kept = self._scene.api.get(f"{CONTENTS}?limit=1").obj["items"], self._scene.driver.snapshots()
        if left or kept:
            raise RuntimeError(f"all snapshots are gone, but contents {left} and the driver's {kept} are there")


def _timed(name: str, job: Job, sent: dict[str, float]) -> Job:
    async def run(connection: Connection) -> None:
        sent[name] = time.monotonic()
        await job(connection)

    return run


def percentile(values: Iterable[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
