"""`python -m bench.snapshots`: VolumeSnapshots to ready, then to gone, on a real kube-apiserver and an etcd with fsync.

In one run, one after the other, on the same CSI driver: (a) the GA snapshot-controller and csi-snapshotter as they come,
(b) the same at 50 requests a second, (c) our controller, (d) our controller and a sidecar, (e) our controller and webhook.
All snapshots of one claim, and spread over several: of one volume the GA snapshotter takes several snapshots at a time, we
take one.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from http import HTTPStatus
from pathlib import Path
from typing import Final

import uvloop

from bench.apiserver.__main__ import say, target_of
from bench.options import give_up, parse
from bench.snapshots.course import Measured, Scene, measure
from bench.snapshots.report import render
from bench.snapshots.ways import PEERS, WAYS, Load, Way
from tests.csi_driver.running import RunningDriver
from tests.e2e.api import Api
from tests.e2e.real import RealControlPlane
from tests.e2e.snapshotters import GROUP, bring_classes
from tools.peers.kube.build import NoPrograms, programs
from tools.peers.snapshotter.build import snapshotter

SERVED_SECONDS: Final = 30.0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.snapshots", description=__doc__)
    parser.add_argument("--snapshots", type=int, nargs="+", default=[80, 1_000], help="how many (default 80 and 1,000)")
    parser.add_argument("--claims", type=int, nargs="+", default=[1, 20], help="of how many claims (default 1 and 20)")
    parser.add_argument("--ways", default="".join(WAYS), help="which of a, b, c, d and e (default all)")
    return parse(parser, snapshots=[4], claims=[2], ways="bce")


async def run(scene: Scene, options: argparse.Namespace) -> None:
    for snapshots in options.snapshots:
        for claims in options.claims:
            load, runs = Load(snapshots, claims), dict[Way, Measured]()
            for way in (WAYS[letter] for letter in options.ways):
                if way.most is None or snapshots <= way.most:
                    say(f"{load.name}: {way.name}")
                    runs[way] = await measure(way, load, scene)
            print(f"\n{render(load, runs)}", flush=True)


def prepare(kubeconfig: Path, api: Api) -> None:
    command = [sys.executable, "-m", "ullage", "install", "--kubeconfig", str(kubeconfig)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    bring_classes(api)
    deadline = time.monotonic() + SERVED_SECONDS
    for kind in ("volumesnapshots", "volumesnapshotcontents"):
        while api.get(f"{GROUP}/{kind}?watch=true&timeoutSeconds=1").code != HTTPStatus.OK:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{kind} cannot be watched after {SERVED_SECONDS:.0f} s")
            time.sleep(0.1)


def peer_programs(options: argparse.Namespace) -> Path:
    """The directory of the GA snapshotter's programs. Without them only our own ways are measured."""
    try:
        return snapshotter(os.environ)
    except NoPrograms as problem:
        say(f"skipped the peer: {problem}")
        options.ways = "".join(letter for letter in options.ways if letter not in PEERS)
        return Path()


def main() -> None:
    options = arguments()
    try:
        plane = RealControlPlane(programs(os.environ), durable=True)
    except NoPrograms as problem:
        give_up(problem, options)
    peers = peer_programs(options)
    with tempfile.TemporaryDirectory(prefix="csi-") as directory:
        driver = RunningDriver(Path(directory))
        try:
            plane.start()
            driver.start()
            control_plane = plane.control_plane()
            api = Api(control_plane)
            prepare(plane.kubeconfig, api)
            uvloop.run(run(Scene(target_of(control_plane), api, plane.kubeconfig, peers, driver, plane.pids), options))
        finally:
            driver.kill()
            plane.stop()


if __name__ == "__main__":
    main()
