"""`python -m bench.runtime`: cold start, memory, events through reconcile and idling, on the embedded server.

The peer is a plain kopf operator (`pip install kopf`; without it only our figures are shown). Both hold every object by volume
and repeat a field in the status with one patch per change. They run one after the other, against the same server.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from bench.apiserver.__main__ import prepare, say, target_of
from bench.apiserver.load import MERGE, SAMPLES, creates, hammer, sample
from bench.apiserver.memory import resident_megabytes
from bench.apiserver.table import Figure, render
from bench.apiserver.wire import Connection, Target
from bench.options import parse
from bench.runtime import report
from bench.runtime.ours import SAMPLES as KIND
from tests.e2e.control_plane import EmbeddedServer
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config

SNAPSHOT_SECONDS = 2.0  # after the last object, before memory is read
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.runtime", description=__doc__)
    parser.add_argument("--objects", type=int, default=30_000, help="objects of 2.9 KB (default 30,000)")
    parser.add_argument("--changes", type=int, default=3_000, help="changes that want a status (default 3,000)")
    parser.add_argument("--clients", type=int, default=16, help="connections that make them (default 16)")
    parser.add_argument("--idle", type=float, default=20.0, help="seconds of idling (default 20)")
    parser.add_argument("--patience", type=float, default=900.0, help="seconds until an operator is given up (default 900)")
    return parse(parser, objects=200, changes=50, clients=4, idle=1.0, patience=60.0)


@dataclass(frozen=True, slots=True)
class Place:
    """Where an operator is measured."""

    target: Target
    kubeconfig: Path
    namespace: str


class Operator:
    """A child process that says when it has seen everything."""

    def __init__(self, command: list[str], place: Place, objects: int) -> None:
        own = {"KUBECONFIG": str(place.kubeconfig), report.NAMESPACE: place.namespace, report.OBJECTS: str(objects)}
        environ = {**os.environ, **own, report.STARTED: str(time.monotonic())}
        self.process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def moment(self, name: str) -> dict[str, float]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(b"{") and (told := json.loads(line))["moment"] == name:
                return dict(told)
        raise RuntimeError(f"the operator ended before it was {name}")

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


async def changes(place: Place, options: argparse.Namespace, *, base: int) -> float:
    """Seconds from the first change until every status repeats its object's size."""
    path = SAMPLES.format(ns=place.namespace)
    wanted = {f"sample-{number:06}": base + number for number in range(options.changes)}

    def job(name: str, size: int) -> Callable[[Connection], Awaitable[object]]:
        body = json.dumps({"spec": {"size": size}}).encode()
        return lambda connection: connection.call("PATCH", f"{path}/{name}", body, content_type=MERGE)

    async with Client(Config.load(place.kubeconfig)) as client:
        start = await client.list(KIND, place.namespace, labels="no=such")
        stream = client.watch(KIND, place.namespace, resource_version=start.resource_version, timeout=options.patience)
        begun = time.perf_counter()
        making = asyncio.create_task(hammer(place.target, options.clients, [job(*item) for item in wanted.items()]))
        async for event in stream:
            meta, status = event.object.metadata, event.object.status if event.type != "BOOKMARK" else None
            if status is not None and wanted.get(meta.name) == status.observed:
                del wanted[meta.name]
                if not wanted:
                    break
        seconds = time.perf_counter() - begun
        await making
        await stream.aclose()
    if wanted:
        raise TimeoutError(f"{len(wanted)} objects got no status")
    return seconds


async def measure(command: list[str], place: Place, options: argparse.Namespace, *, base: int) -> list[Figure]:
    operator = Operator(command, place, options.objects)
    try:
        async with asyncio.timeout(options.patience):
            started = await asyncio.to_thread(operator.moment, "started")
            synced = await asyncio.to_thread(operator.moment, "synced")
        await asyncio.sleep(SNAPSHOT_SECONDS)
        resident = resident_megabytes([operator.process.pid])
        say(f"synced after {synced['seconds']:.1f} s; idling")
        before = operator.cpu_seconds()
        await asyncio.sleep(options.idle)
        idle = (operator.cpu_seconds() - before) / options.idle
        say(f"{options.changes:,} changes")
        async with asyncio.timeout(options.patience):
            spent = await changes(place, options, base=base)
    finally:
        operator.stop()
    grown = resident - started["megabytes"]
    return [
        Figure("from its start until it has begun", "s", started["seconds"], more=False),
        Figure(f"cold sync of {options.objects:,}", "s", synced["seconds"] - started["seconds"], more=False, aim="≥ 10x"),
        Figure(f"RSS with {options.objects:,} objects", "MB", resident, more=False, aim="≤ 150 MB, ≥ 5x"),
        Figure("RSS per object", "bytes", grown * 1e6 / options.objects, more=False),
        Figure("changes through reconcile, with a status patch", "/s", options.changes / spent, more=True),
        Figure("CPU when idle", "ms/s", idle * 1e3, more=False),
    ]


async def compare(place: Place, options: argparse.Namespace) -> tuple[list[Figure], list[Figure] | None]:
    admin = await Connection(place.target).open(place.target.context())
    path = SAMPLES.format(ns=place.namespace)
    await prepare(admin, place.namespace, path)
    await admin.close()
    say(f"{options.objects:,} objects")
    await creates(place.target, path, [sample(number) for number in range(options.objects)], clients=options.clients)
    say("ours")
    ours = await measure([sys.executable, "-m", "bench.runtime.ours"], place, options, base=report.TOUCHED)
    if importlib.util.find_spec("kopf") is None:
        say("skipped the peer: kopf is not installed")
        return ours, None
    say("kopf")
    command = [sys.executable, "-m", "kopf", "run", "--standalone", "-n", place.namespace, "-m", "bench.runtime.peer"]
    return ours, await measure(command, place, options, base=2 * report.TOUCHED)


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory() as workdir:
        server = EmbeddedServer(Path(workdir) / "data")
        server.data_dir.mkdir()
        server.start()
        try:
            place = Place(target_of(server.control_plane()), server.kubeconfig, f"bench-{os.getpid()}")
            ours, theirs = asyncio.run(compare(place, options))
        finally:
            server.stop()
    print(render(ours, theirs, names=("ullage", "kopf")))


if __name__ == "__main__":
    main()
