"""`python -m bench.ledger`: what asking the ledger costs a create, on a real kube-apiserver and an etcd with fsync.

In one run: (0) creates without admission, (a) with core ResourceQuota, (b) with a webhook of ours that does nothing, (c) with
the ledger. The ways take turns, several rounds of them, since a machine is never equally busy. With `--writes` instead: what
one write of a ledger costs, by its accounts. With `--endurance`: minutes of load on one hot tenant.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from typing import Final

import uvloop

from bench.apiserver.__main__ import DEFINITIONS, say, target_of
from bench.apiserver.wire import Connection
from bench.ledger.endurance import endure
from bench.ledger.report import render
from bench.ledger.ways import Measured, Scene, Way, measure
from bench.ledger.writes import cost_of_writes
from bench.options import give_up, parse
from tests.e2e.real import RealControlPlane
from tools.peers.kube.build import NoPrograms, programs
from ullage.kube.crds.definitions import crd_of
from ullage.ledger.api import LEDGERS, NAMESPACE

SERVED_SECONDS: Final = 30.0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.ledger", description=__doc__)
    parser.add_argument("--creates", type=int, default=3_000, help="ConfigMaps of each measurement (default 3,000)")
    parser.add_argument("--clients", type=int, default=64, help="connections that create at once (default 64)")
    parser.add_argument("--tenants", type=int, default=200, help="ledgers, where there are many (default 200)")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each way (default 3)")
    parser.add_argument(
        "--ways", default="", help="measure those alone whose names have one of these: 'nothing, 1;tenant, 1' (default all)"
    )
    parser.add_argument("--writes", action="store_true", help="what a write of a ledger costs, by its accounts, instead")
    parser.add_argument("--endurance", type=float, nargs="?", const=300.0, help="load for so many seconds (default 300)")
    one_replica = "nothing, 1;hot tenant, 1;ResourceQuota;no admission"
    return parse(parser, creates=50, clients=4, tenants=4, rounds=1, ways=one_replica)


def ways(tenants: int) -> list[Way]:
    """What is compared stands side by side."""
    found = [Way("(0) no admission"), Way("(a) core ResourceQuota", quota=True)]
    for replicas in (1, 3):
        found += [
            Way("(b) a webhook that does nothing", role="nothing", replicas=replicas),
            Way("(c) ledger, one hot tenant", role="ledger", replicas=replicas),
            Way(f"(c) ledger, {tenants} tenants", role="ledger", replicas=replicas, tenants=tenants),
        ]
        if replicas == 1:
            found.append(Way("(c) ledger, one hot tenant with 100 accounts", role="ledger", replicas=1, accounts=100))
    return found


def chosen(found: list[Way], words: str) -> list[Way]:
    wanted = [word for word in words.split(";") if word]
    return [way for way in found if not wanted or any(word in way.full_name for word in wanted)]


async def prepare(scene: Scene) -> None:
    admin = await Connection(scene.target).open(scene.target.context())
    await admin.json("POST", DEFINITIONS, crd_of(LEDGERS))
    await admin.json("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    deadline = time.monotonic() + SERVED_SECONDS
    while True:
        resources = await admin.json("GET", "/apis")
        if any(group["name"] == LEDGERS.group for group in resources["groups"]):
            break
        if time.monotonic() > deadline:
            raise TimeoutError(f"{LEDGERS.name} is not served after {SERVED_SECONDS:.0f} s")
        await asyncio.sleep(0.1)
    await asyncio.sleep(1)  # kube-apiserver serves a kind a moment after it says so
    await admin.close()


async def run(scene: Scene, options: argparse.Namespace) -> bool:
    await prepare(scene)
    if options.endurance is not None:
        return await endure(scene, options.endurance)
    if options.writes:
        print(await cost_of_writes(scene))
        return True
    rounds: dict[Way, list[Measured]] = {}
    for number in range(options.rounds):
        for way in chosen(ways(options.tenants), options.ways):
            say(f"round {number + 1} of {options.rounds}: {way.full_name}")
            rounds.setdefault(way, []).append(await measure(way, scene))
    print(render(rounds))
    return True


def main() -> None:
    options = arguments()
    try:
        plane = RealControlPlane(programs(os.environ), durable=True)
    except NoPrograms as problem:
        give_up(problem, options)
    plane.start()
    try:
        scene = Scene(target_of(plane.control_plane()), plane.kubeconfig, plane.pids, options.clients, options.creates)
        held = uvloop.run(run(scene, options))
    finally:
        plane.stop()
    sys.exit(not held)


if __name__ == "__main__":
    main()
