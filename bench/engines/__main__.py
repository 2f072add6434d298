"""`python -m bench.engines`: what snapshots inside engines cost the controllers, and what a look at an engine costs.

The API server is the embedded one, with durable writes, or a kube-apiserver with `--plane kube`. The engines of the many
volumes are made up, in the process of the controllers; a poll's own cost is measured with a real host of embedded engines.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.apiserver.__main__ import say, target_of
from bench.engines import polls, report
from bench.engines.loading import load
from bench.engines.moments import Child
from bench.engines.volumes import Scale
from bench.options import parse
from tests.e2e.control_plane import ControlPlane, EmbeddedServer
from tests.e2e.real import RealControlPlane
from tools.peers.kube.build import programs


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.engines", description=__doc__)
    sizes = [3_000, 10_000, 30_000, 100_000]
    parser.add_argument("--objects", type=int, nargs="+", default=sizes, help="Snapshots at each point of the curve")
    parser.add_argument("--upgrade", type=int, default=30_000, help="Snapshots that are missing (default 30,000; 0: none)")
    parser.add_argument("--snapshots", type=int, default=30, help="snapshots of each volume (default 30)")
    parser.add_argument("--rounds", type=int, default=120, help="polls of each engine: 120 are 10 minutes' (default)")
    parser.add_argument("--clients", type=int, default=32, help="connections that make the objects (default 32)")
    parser.add_argument("--polled", type=int, default=100, help="volumes on the real host (default 100; 0: no host)")
    parser.add_argument("--plane", choices=("embedded", "kube"), default="embedded", help="the API server (default embedded)")
    return parse(parser, objects=[60], upgrade=60, rounds=3, clients=8, polled=2)


@contextlib.contextmanager
def plane(workdir: Path, kind: str) -> Iterator[tuple[ControlPlane, list[int]]]:
    """An API server for one point of the curve, empty and durable, and its processes."""
    if kind == "kube":
        real = RealControlPlane(programs(os.environ), durable=True)
        real.start()
        try:
            yield real.control_plane(), [real.pids["kube-apiserver"], real.pids["etcd"]]
        finally:
            real.stop()
        return
    server = EmbeddedServer(workdir / "data", ephemeral=False)
    server.data_dir.mkdir()
    server.start()
    try:
        yield server.control_plane(), [server.pid]
    finally:
        server.stop()


def point(scale: Scale, options: argparse.Namespace, *, upgrade: bool) -> report.Point:
    with tempfile.TemporaryDirectory() as place, plane(Path(place), options.plane) as (found, pids):
        say(f"{scale.objects:,} snapshots: {scale.volumes:,} volumes")
        asyncio.run(load(target_of(found), scale, clients=options.clients, missing=upgrade))
        upgraded = None
        if upgrade:
            say("an upgrade: all Snapshot objects are missing")
            upgraded = finished(Child("upgrade", scale, kubeconfig=found.kubeconfig, server=pids))
        say("a cold start, polls, one snapshot")
        cold = finished(Child("cold", scale, kubeconfig=found.kubeconfig, server=pids, rounds=options.rounds))
    return report.Point(scale, cold, upgraded)


def finished(child: Child) -> dict[str, report.Json]:
    try:
        return child.moments()
    except BaseException:
        child.kill()
        raise


def scales(objects: Sequence[int], snapshots: int) -> list[Scale]:
    return [Scale(volumes=max(1, round(count / snapshots)), snapshots=snapshots) for count in objects]


def main() -> None:
    options = arguments()
    points = []
    for scale in scales(options.objects, options.snapshots):
        points.append(point(scale, options, upgrade=False))
        print(report.detail(points[-1]), flush=True)
    print(report.curve(points), flush=True)
    if options.upgrade:
        (scale,) = scales([options.upgrade], options.snapshots)
        print(report.detail(point(scale, options, upgrade=True)), flush=True)
    if options.polled:
        say(f"a host of embedded engines with {options.polled} volumes")
        with tempfile.TemporaryDirectory() as place:
            print(report.polls(asyncio.run(polls.measured(Path(place), Scale(options.polled, options.snapshots)))))


if __name__ == "__main__":
    main()
