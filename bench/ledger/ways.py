"""The ways that a create can take through admission, and one measurement of one of them.

All make the same number of the same ConfigMaps, in a namespace of their own, with the same clients. Replicas are started for
one measurement and ended after it, so that nothing else is on the machine.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.apiserver.load import Rate, creates
from bench.apiserver.wire import Connection, Target
from bench.ledger.crew import Crew, crew
from bench.ledger.maps_slice import ACCOUNT, CELL, HOOK, MAPS, TENANT, account_of
from bench.ledger.meters import cpu_seconds, machine_seconds
from ullage.kube.client.codec import MERGE_PATCH
from ullage.ledger.api import LEDGERS, NAMESPACE
from ullage.ledger.limits import NO_MANAGED_FIELDS

Json = dict[str, Any]
HOOKS: Final = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
WARM_UP: Final = 600  # creates before the clock runs: connections stand, and every replica has read every ledger
PATIENCE: Final = 30.0  # seconds
LIMIT: Final = 10_000_000  # pieces: nothing is refused
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Way:
    """One way to admit a create. `role` is what the replicas do; without one there are none."""

    name: str
    role: str = ""
    replicas: int = 0
    tenants: int = 1
    accounts: int = 1  # of each tenant, all with a limit
    quota: bool = False

    @property
    def full_name(self) -> str:
        return f"{self.name}, {self.replicas} replica{'s' if self.replicas > 1 else ''}" if self.replicas else self.name


@dataclass(frozen=True, slots=True)
class Scene:
    """Where ways are measured, and with how much."""

    target: Target
    kubeconfig: Path
    pids: Mapping[str, int]  # of the control plane's programs
    clients: int
    creates: int


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of one way. `cpu` and `connections` (those that were opened) are for one create."""

    rate: Rate
    cpu: Mapping[str, float]  # seconds, by group of processes
    connections: float
    others: float  # processors that were busy with something else: how far the figures can be trusted
    asked: Json = field(default_factory=dict)  # what the replicas did, added up
    late: Json = field(default_factory=dict)  # what the leader saw of one ledger

    @property
    def spent(self) -> float:
        """Seconds of CPU of all processes together, for one create."""
        return sum(self.cpu.values())


@dataclass(frozen=True, slots=True)
class Stage:
    """A way with everything in place: the namespace, the ledgers, the processes."""

    way: Way
    scene: Scene
    admin: Connection
    crew: Crew
    namespace: str
    tenants: Sequence[str]

    @property
    def maps(self) -> str:
        return MAPS.path(self.namespace)

    def groups(self) -> dict[str, list[int]]:
        """The processes whose time is counted."""
        ours = {"replicas": [one.pid for one in self.crew.replicas], "leader": [one.pid for one in self.crew.leaders]}
        return {name: [pid] for name, pid in self.scene.pids.items()} | ours | {"client": [os.getpid()]}


@asynccontextmanager
async def stage(way: Way, scene: Scene) -> AsyncIterator[Stage]:
    """The namespace stays behind: to empty it would keep the control plane busy while the next way is measured."""
    namespace = f"bench-{os.getpid()}-{next(_numbers)}"
    tenants = [f"{namespace}-{number}" for number in range(way.tenants)]
    admin = await Connection(scene.target).open(scene.target.context())
    with crew(scene.kubeconfig, namespace) as people:
        found = Stage(way, scene, admin, people, namespace, tenants)
        await _prepare(found)
        yield found
    if way.role:
        await admin.call("DELETE", f"{HOOKS}/{namespace}")
    if way.role == "ledger":
        await admin.call("DELETE", LEDGERS.path(NAMESPACE))
    await admin.close()


async def measure(way: Way, scene: Scene) -> Measured:
    async with stage(way, scene) as here:
        numbers = range(WARM_UP + scene.creates)
        bodies = [configmap(number, here.tenants, accounts=way.accounts) for number in numbers]
        await creates(scene.target, here.maps, bodies[:WARM_UP], clients=scene.clients)
        return await _timed(here, bodies[WARM_UP:])


async def _timed(here: Stage, bodies: list[bytes]) -> Measured:
    groups, people = here.groups(), here.crew
    before, seen = people.reports(), people.sightings()
    cpu, machine = cpu_seconds(groups), machine_seconds()
    rate = await creates(here.scene.target, here.maps, bodies, clients=here.scene.clients)
    machine = machine_seconds() - machine
    spent = {name: seconds - cpu[name] for name, seconds in cpu_seconds(groups).items()}
    done = added(before, people.reports()) if here.way.role else {}
    return Measured(
        rate,
        {name: seconds / len(bodies) for name, seconds in spent.items()},
        done.get("opened", 0) / len(bodies),
        max(0.0, machine - sum(spent.values())) * rate.per_second / len(bodies),
        done,
        _since(seen, people.sightings()),
    )


def _since(before: Json, after: Json) -> Json:
    """What the leader saw; its writes are counted from its start. One who only looks on tells nothing."""
    return {**after, "folds": after["folds"] - before["folds"]} if after else {}


def added(before: list[Json], after: list[Json]) -> Json:
    """What all replicas did between two reports."""
    names = [name for name in after[0] if name != "writes"]
    found: Json = {name: sum(new[name] - old[name] for old, new in zip(before, after, strict=True)) for name in names}
    return {**found, "writes": [write for new in after for write in new.get("writes", ())]}


# --- what has to be there ---


async def _prepare(here: Stage) -> None:
    admin, way = here.admin, here.way
    await admin.json("POST", "/api/v1/namespaces", {"metadata": {"name": here.namespace}})
    if way.quota:
        await _quota(admin, f"/api/v1/namespaces/{here.namespace}/resourcequotas")
    if way.role == "ledger":
        for tenant in here.tenants:
            await admin.json("POST", LEDGERS.path(NAMESPACE), ledger(tenant, accounts=way.accounts))
            patch: Json = {"metadata": NO_MANAGED_FIELDS}  # as whoever sets limits has it
            await admin.json("PATCH", LEDGERS.path(NAMESPACE, tenant), patch, content_type=MERGE_PATCH)
    if way.role:
        await asyncio.to_thread(here.crew.lead, "leader" if way.role == "ledger" else "onlooker", here.tenants[0])
        await asyncio.to_thread(here.crew.serve, way.role, way.replicas)
        await _called(here)


async def _quota(admin: Connection, path: str) -> None:
    await admin.json("POST", path, {"metadata": {"name": "maps"}, "spec": {"hard": {"count/configmaps": str(LIMIT)}}})
    deadline = time.monotonic() + PATIENCE
    while not (await admin.json("GET", f"{path}/maps")).get("status", {}).get("hard"):
        if time.monotonic() > deadline:
            raise TimeoutError(f"the quota was not counted within {PATIENCE:.0f} s")
        await asyncio.sleep(0.1)


async def _called(here: Stage) -> None:
    """Until the API server calls the hook, which is a moment after its registration; its own metrics count the calls."""
    deadline = time.monotonic() + PATIENCE
    body = configmap(0, here.tenants)
    before = await _calls(here.admin)
    while await _calls(here.admin) == before:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the hook was not called within {PATIENCE:.0f} s")
        await here.admin.call("POST", f"{here.maps}?dryRun=All", body)


async def _calls(admin: Connection) -> float:
    name, hook = b"apiserver_admission_webhook_admission_duration_seconds_count", f'name="{HOOK}.'.encode()
    lines = (await admin.call("GET", "/metrics")).splitlines()
    return sum(float(line.rsplit(b" ", 1)[1]) for line in lines if line.startswith(name) and hook in line)


def configmap(number: int, tenants: Sequence[str], *, accounts: int = 1) -> bytes:
    """In one account, and where there are more, in one of the others besides."""
    own = {ACCOUNT: str(number % (accounts - 1))} if accounts > 1 else {}
    meta = {"name": f"m{number:06}", "labels": {TENANT: tenants[number % len(tenants)], **own}}
    return json.dumps({"metadata": meta, "data": {"key": "x" * 200}}).encode()


def ledger(name: str, *, accounts: int = 1) -> Json:
    names = [CELL.account, *(account_of(str(number)) for number in range(accounts - 1))]
    return {
        "apiVersion": LEDGERS.api_version,
        "kind": LEDGERS.kind,
        "metadata": {"name": name},
        "spec": {"limits": {name: {CELL.resource: str(LIMIT)} for name in names}},
    }
