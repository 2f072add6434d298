"""`python -m bench.apiserver`: creates, patches, a long list, a watch fan-out and memory, on loopback.

A kube-apiserver with an etcd that waits for the disk is measured in the same run, after the embedded server has ended:
one given by `E2E_KUBECONFIG`, else one started here. `tools/peers/kube` finds or builds its programs; without Go there is
no peer.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.apiserver.fanout import fan_out
from bench.apiserver.load import DEFINITION, GROUP, SAMPLES, Rate, configmap, creates, patches, sample, whole_list
from bench.apiserver.memory import listener, resident_megabytes
from bench.apiserver.table import Figure, render
from bench.apiserver.wire import Connection, Target
from bench.options import parse
from tests.e2e.control_plane import ControlPlane, EmbeddedServer
from tests.e2e.real import RealControlPlane
from tools.peers.kube.build import NoPrograms, programs

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.apiserver", description=__doc__)
    parser.add_argument("--objects", type=int, default=30_000, help="custom objects of 2.9 KB (default 30,000)")
    parser.add_argument("--writes", type=int, default=6_000, help="ConfigMap creates and patches (default 6,000)")
    parser.add_argument("--clients", type=int, default=64, help="connections that write at once (default 64)")
    parser.add_argument("--watchers", type=int, default=20, help="watchers of the fan-out (default 20)")
    parser.add_argument("--rate", type=int, default=1_000, help="events a second of the fan-out (default 1,000)")
    parser.add_argument("--seconds", type=int, default=10, help="length of the fan-out (default 10)")
    parser.add_argument("--no-peer", action="store_true", help="measure the embedded server alone")
    parser.add_argument("--ephemeral", action="store_true", help="writes are not made durable one by one")
    return parse(parser, objects=200, writes=100, clients=8, watchers=2, rate=100, seconds=1)


def rate_rows(name: str, rate: Rate, *, aim: str = "") -> list[Figure]:
    return [
        Figure(name, "/s", rate.per_second, more=True, aim=aim),
        Figure(f"{name}: p50", "ms", rate.p50 * 1e3, more=False),
        Figure(f"{name}: p99", "ms", rate.p99 * 1e3, more=False),
    ]


async def measure(target: Target, options: argparse.Namespace, pids: Sequence[int] = ()) -> list[Figure]:
    """All figures of one server. Its namespace and kind are removed afterwards, whatever happens.

    `pids` are the processes whose memory counts as the server's; without them it is whoever listens on its port.
    """
    namespace = f"bench-{os.getpid()}"
    maps, samples = f"/api/v1/namespaces/{namespace}/configmaps", SAMPLES.format(ns=namespace)
    pids = pids or [pid for pid in (listener(target.port),) if pid is not None]
    admin = await Connection(target).open(target.context())
    await prepare(admin, namespace, samples)
    try:
        say(f"{options.writes:,} ConfigMaps")
        small = await creates(target, maps, [configmap(f"m{i:06}") for i in range(options.writes)], clients=options.clients)
        before = resident_megabytes(pids)
        say(f"{options.objects:,} custom objects")
        large = await creates(target, samples, [sample(i) for i in range(options.objects)], clients=options.clients)
        after = resident_megabytes(pids)
        say(f"{options.writes:,} patches")
        changed = await patches(target, samples, count=options.writes, objects=options.objects, clients=options.clients)
        say("lists")
        listed = await whole_list(target, samples)
        paged = await whole_list(target, samples, page=500)
        peak = resident_megabytes(pids)
        say(f"{options.rate:,} events/s to {options.watchers} watchers")
        spread = await fan_out(target, maps, watchers=options.watchers, rate=options.rate, seconds=options.seconds)
    finally:
        await clean(target, namespace)
        await admin.close()
    return [
        *rate_rows(f"ConfigMap creates, {options.clients} clients", small, aim="≥ 1,500/s"),
        *rate_rows(f"custom creates of 2.9 KB, {options.clients} clients", large, aim="≥ 1,500/s"),
        *rate_rows(f"merge patches, {options.clients} clients", changed),
        Figure(f"list of {options.objects:,}", "s", listed.seconds, more=False, aim="≤ 1.5 s"),
        Figure(f"list of {options.objects:,}: size", "MB", listed.megabytes, more=False),
        Figure(f"list of {options.objects:,} in pages of 500", "s", paged.seconds, more=False),
        Figure("fan-out: written", "/s", spread.written_per_second, more=True, aim=f"{options.rate:,}/s"),
        Figure("fan-out: delivered", "%", 100 * spread.delivered / spread.expected, more=True, aim="100 %"),
        Figure("fan-out: later than 1 s", "%", 100 * spread.late / max(1, spread.delivered), more=False, aim="0 %"),
        Figure("fan-out: p50", "ms", spread.p50 * 1e3, more=False),
        Figure("fan-out: p99", "ms", spread.p99 * 1e3, more=False),
        Figure("RSS before the custom objects", "MB", before, more=False),
        Figure(f"RSS with {options.objects:,} objects", "MB", after, more=False, aim="≤ 300 MB"),
        Figure("RSS after the lists", "MB", peak, more=False),
    ]


async def prepare(admin: Connection, namespace: str, samples: str) -> None:
    await admin.json("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    await admin.json("POST", DEFINITIONS, DEFINITION)
    deadline = time.monotonic() + 30
    while True:
        definition = await admin.json("GET", f"{DEFINITIONS}/samples.{GROUP}")
        conditions = definition.get("status", {}).get("conditions") or []
        if any(one["type"] == "Established" and one["status"] == "True" for one in conditions):
            break
        if time.monotonic() > deadline:
            raise TimeoutError("the definition was not established within 30 s")
        await asyncio.sleep(0.1)
    await asyncio.sleep(1)  # kube-apiserver serves a kind a moment after it says so
    await admin.json("GET", f"{samples}?limit=1")


async def clean(target: Target, namespace: str) -> None:
    """On connections of its own: the run's may be in the middle of an answer."""
    for path in (f"/api/v1/namespaces/{namespace}", f"{DEFINITIONS}/samples.{GROUP}"):
        connection = await Connection(target).open(target.context())
        with contextlib.suppress(RuntimeError):
            await connection.call("DELETE", path)
        await connection.close()


def say(text: str) -> None:
    print(f"  {text} …", file=sys.stderr, flush=True)


def target_of(plane: ControlPlane) -> Target:
    return Target.at(plane.url, plane.admin_token, ca_file=plane.ca_file)


@contextlib.contextmanager
def embedded(workdir: Path, *, ephemeral: bool) -> Iterator[Target]:
    server = EmbeddedServer(workdir / "data", ephemeral=ephemeral)
    server.data_dir.mkdir(parents=True)
    server.start()
    try:
        yield target_of(server.control_plane())
    finally:
        server.stop()


@contextlib.contextmanager
def peer(workdir: Path) -> Iterator[tuple[Target, list[int]] | None]:
    """A kube-apiserver, and the processes behind it where they are ours to look into; None where none can be had."""
    given = os.environ.get("E2E_KUBECONFIG")
    if given:
        yield target_of(ControlPlane.from_kubeconfig(Path(given), embedded=False, workdir=workdir)), []
        return
    try:
        found = programs(os.environ)
    except NoPrograms as problem:
        say(f"skipped the peer: {problem}")
        yield None
        return
    plane = RealControlPlane(found, durable=True)
    plane.start()
    try:
        yield target_of(plane.control_plane()), [plane.pids["kube-apiserver"], plane.pids["etcd"]]
    finally:
        plane.stop()


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory() as place:
        workdir = Path(place)
        say("the embedded server")
        with embedded(workdir, ephemeral=options.ephemeral) as target:
            ours = asyncio.run(measure(target, options))
        theirs = None
        with contextlib.nullcontext() if options.no_peer else peer(workdir) as other:
            if other is not None:
                say("the peer")
                theirs = asyncio.run(measure(other[0], options, other[1]))
    print(render(ours, theirs))


if __name__ == "__main__":
    main()
