"""Two namespaces on one control plane, filled before there is a webhook, and decisions about new snapshots in both by turns.

A decision is what a user waits for: the answer of the API server to a VolumeSnapshot, with the webhook and the ledger in it.
One is admitted, and deleted again before the next; one asks for more than its VM may have, and is refused.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from bench.apiserver.__main__ import DEFINITIONS, say, target_of
from bench.apiserver.load import hammer
from bench.apiserver.wire import Connection, Target
from bench.ledger.meters import cpu_seconds
from tests.e2e.snapshot_scene import GA, Process, Scene
from ullage.kube.builtin.core import CLAIMS
from ullage.kube.crds.definitions import crd_of
from ullage.ledger.accounts import accounts
from ullage.ledger.api import LEDGERS, NAMESPACE
from ullage.ledger.charging.stamps import ESTIMATED_BY, STAMP, write_stamp
from ullage.ledger.codec import book_of
from ullage.ledger.keys import ledger_name
from ullage.snapshots.used import CAPACITY
from ullage.space.accounts import NAMESPACE_CELL, RESOURCE, stamp_for
from ullage.space.api import HARVESTER_QUOTAS, NAME
from ullage.vms.api.machines import VIRTUAL_MACHINES

Json = dict[str, Any]
CLIENTS: Final = 32  # that fill the large namespace
WARM_UP: Final = 100
SECONDS: Final = 300.0
GIB: Final = 2**30
ADMITTED, REFUSED = "admitted", "refused"
SMALL, TOO_LARGE = "1Gi", "900Ti"
LIMIT: Final = 500 * 2**40  # bytes of each VM: what is too large alone does not fit, and all the rest does
LARGE: Final = "too-large"  # a claim


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    vms: int = 1
    claims: int = 1
    snapshots: int = 1


@dataclass(slots=True)
class Found:
    """Of one namespace: seconds of each decision, and seconds of CPU that the webhook spent on all of them."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: {ADMITTED: [], REFUSED: []})
    cpu: dict[str, float] = field(default_factory=lambda: {ADMITTED: 0.0, REFUSED: 0.0})


async def measure(scene: Scene, large: Size, *, decisions: int) -> tuple[Found, Found]:
    """The small namespace, and the large one."""
    await asyncio.to_thread(bring_machines, scene)
    target, sizes = target_of(scene.plane), (Size(), large)
    namespaces = [scene.namespace() for _ in sizes]
    for namespace, size in zip(namespaces, sizes, strict=True):
        await fill(target, namespace, size)
    with processes(scene) as webhook:
        for namespace, size in zip(namespaces, sizes, strict=True):
            await create_all(target, HARVESTER_QUOTAS.path(namespace), [quota(size)])
            await asyncio.to_thread(wait_limited, scene, namespace)
        for namespace, size in zip(namespaces, sizes, strict=True):
            await asyncio.to_thread(wait_counted, scene, namespace, size)
        return await asyncio.to_thread(by_turns, target, webhook, namespaces, decisions)


def bring_machines(scene: Scene) -> None:
    """Brings KubeVirt's kind where the control plane does not have it yet."""
    answer = scene.api.call("POST", DEFINITIONS, crd_of(VIRTUAL_MACHINES))
    if answer.code not in (201, 409):
        raise RuntimeError(f"{VIRTUAL_MACHINES.name} cannot be defined: {answer.code}: {answer.message}")
    deadline = time.monotonic() + SECONDS
    while scene.api.get(VIRTUAL_MACHINES.path()).code != 200:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{VIRTUAL_MACHINES.name} is not served after {SECONDS:.0f} s")
        time.sleep(0.1)


@contextmanager
def processes(scene: Scene) -> Iterator[Process]:
    log = scene.directory / "processes.log"
    started: list[Process] = []
    try:
        for command in (scene.webhook(), scene.controller(alone=False)):
            started.append(Process(*command, log=log))
        yield started[0]
    finally:
        for one in started:
            one.end()


# --- what is there -----------------------------------------------------------------------------------------------------


async def fill(target: Target, namespace: str, size: Size) -> None:
    """Claims that wait for their volumes: an estimate is their size, and no driver is asked for anything. Snapshots are stamped
    as the webhook would: what counts them believes nothing else."""
    say(f"{namespace}: {size.vms} VMs, {size.claims} claims, {size.snapshots} snapshots")
    claims = [claim(claim_name(number), SMALL) for number in range(size.claims)]
    await create_all(target, CLAIMS.path(namespace), [*claims, claim(LARGE, TOO_LARGE)])
    await create_all(target, VIRTUAL_MACHINES.path(namespace), [machine(number, size) for number in range(size.vms)])
    bodies = [stamped(number, size) for number in range(size.snapshots)]
    await create_all(target, GA.snapshots(namespace), bodies)


async def create_all(target: Target, path: str, bodies: list[Json]) -> None:
    def job(body: bytes) -> Any:
        return lambda connection: created(connection, path, body)

    await hammer(target, CLIENTS, [job(json.dumps(body).encode()) for body in bodies])


async def created(connection: Connection, path: str, body: bytes) -> None:
    await connection.call("POST", path, body)


def claim_name(number: int) -> str:
    return f"claim-{number:04}"


def vm_name(number: int) -> str:
    return f"vm-{number:03}"


def claim(name: str, storage: str) -> Json:
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "none", "resources": {"requests": {"storage": storage}}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def machine(number: int, size: Size) -> Json:
    """It has its part of the claims; the first has the one that is too large, too."""
    names = [claim_name(one) for one in range(number, size.claims, size.vms)] + ([LARGE] if number == 0 else [])
    disks = [{"name": f"disk-{at}", "persistentVolumeClaim": {"claimName": name}} for at, name in enumerate(names)]
    spec = {"runStrategy": "Halted", "template": {"spec": {"domain": {"devices": {}}, "volumes": disks}}}
    return {
        "apiVersion": VIRTUAL_MACHINES.api_version,
        "kind": VIRTUAL_MACHINES.kind,
        "metadata": {"name": vm_name(number)},
        "spec": spec,
    }


def snapshot(name: str, claim: str) -> Json:
    return GA.of_claim(name, claim)


def stamped(number: int, size: Size) -> Json:
    of = number % size.claims
    body = snapshot(f"s-{number:06}", claim_name(of))
    marks = {STAMP: write_stamp(stamp_for(GIB, [vm_name(of % size.vms)])), ESTIMATED_BY: CAPACITY}
    return {**body, "metadata": {**body["metadata"], "annotations": marks}}


def quota(size: Size) -> Json:
    limits = {vm_name(number): LIMIT for number in range(size.vms)}
    spec = {"snapshotLimit": {"namespaceTotalSnapshotSizeQuota": 2**62, "vmTotalSnapshotSizeQuota": limits}}
    return {"apiVersion": HARVESTER_QUOTAS.api_version, "kind": HARVESTER_QUOTAS.kind, "metadata": {"name": NAME}, "spec": spec}


def wait_limited(scene: Scene, namespace: str) -> None:
    """Until a snapshot that is too large is refused on its VM's account: webhook and ledger know all of it."""
    deadline = time.monotonic() + SECONDS
    said = ""
    while "snapshots/vm/" not in said:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{namespace} has no limits after {SECONDS:.0f} s: {said}")
        said = scene.api.call("POST", f"{GA.snapshots(namespace)}?dryRun=All", snapshot("probe", LARGE)).message
        time.sleep(0.1)


def wait_counted(scene: Scene, namespace: str, size: Size) -> None:
    """Until the ledger holds what is there, of the namespace and of every VM: otherwise something else would be measured."""
    deadline = time.monotonic() + SECONDS
    path, wanted = LEDGERS.path(NAMESPACE, ledger_name(namespace)), size.snapshots * GIB
    while True:
        ledger = msgspec.convert(scene.api.get(path).obj, LEDGERS.type, strict=False)
        found = accounts(book_of(ledger, now=datetime.now(UTC)))
        used = {one.name: one.used.value() for one in found if one.resource == RESOURCE}
        if used.pop(NAMESPACE_CELL.account, 0) == wanted and sum(used.values()) == wanted and len(used) == size.vms:
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"{namespace}: {wanted} bytes are not counted after {SECONDS:.0f} s: {used}")
        time.sleep(0.2)


# --- decisions -----------------------------------------------------------------------------------------------------------


def by_turns(target: Target, webhook: Process, namespaces: list[str], decisions: int) -> tuple[Found, Found]:
    found = (Found(), Found())
    client = Client(target)
    for kind in (ADMITTED, REFUSED):
        for namespace in namespaces:
            for _ in range(WARM_UP // 2):
                client.decide(namespace, kind)
    say(f"{decisions} decisions of each kind in each namespace")
    order = [(at, kind) for at in (0, 1) for kind in (ADMITTED, REFUSED)]
    chance = random.Random(1)
    for _ in range(decisions):
        chance.shuffle(order)  # what else the machine does shall hit both namespaces alike
        for at, kind in order:
            before = cpu(webhook)
            found[at].seconds[kind].append(client.decide(namespaces[at], kind))
            found[at].cpu[kind] += cpu(webhook) - before
    return found


def cpu(process: Process) -> float:
    return cpu_seconds({"": [process.process.pid]})[""]


class Client:
    """One connection, one request at a time."""

    def __init__(self, target: Target) -> None:
        self._connection = http.client.HTTPSConnection(target.host, target.port, context=target.context(), timeout=60)
        self._headers = {"Authorization": f"Bearer {target.token}", "Content-Type": "application/json"}

    def decide(self, namespace: str, kind: str) -> float:
        """Seconds until the answer. What was admitted is deleted again afterwards."""
        path, name = GA.snapshots(namespace), "decision"
        asked = snapshot(name, claim_name(0) if kind == ADMITTED else LARGE)
        begun = time.perf_counter()
        code, body = self._call("POST", path, asked)
        took = time.perf_counter() - begun
        if (code == 201) != (kind == ADMITTED) or code not in (201, 403):
            raise RuntimeError(f"{code}: {body[:1000]!r}")
        if code == 201:
            self._call("DELETE", f"{path}/{name}")
        return took

    def _call(self, method: str, path: str, body: Json | None = None) -> tuple[int, bytes]:
        self._connection.request(method, path, json.dumps(body).encode() if body else None, self._headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read()
