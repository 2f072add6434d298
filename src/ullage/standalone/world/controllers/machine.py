"""Machines: each becomes a Node in name, and is let go when it is deleted. No servers are made, and no Node objects."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from ullage.clock import Clock
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import hold, let_go, patch_seen
from ullage.kube.controller.controller import Controller, Requeue, own
from ullage.kube.errors import NotFound
from ullage.kube.objects import is_deleting
from ullage.kube.slices import Wiring
from ullage.projects.api.machines import MACHINES, Machine
from ullage.times import read_time

# A Machine: what machine-controller would do with it next. There is no server: it takes a moment to become a Node, and
# a moment to go.


FINALIZER: Final = "machine-delete-finalizer"  # of machine-controller: the server is deleted before the Machine goes

Step = Literal["hold", "join", "release", "wait"]


@dataclass(frozen=True, slots=True)
class Moments:
    """How long things take, in seconds."""

    boot: float = 2.0  # from the Machine to its Node
    removal: float = 1.0  # of a server


@dataclass(frozen=True, slots=True)
class MachinePlan:
    """`hold`: put the finalizer on; `join`: it is a Node now; `release`: its server is gone. `after` seconds if none yet."""

    step: Step
    after: float | None = None


AT_REST: Final = MachinePlan("wait")


def plan_machine(machine: Machine, *, now: datetime, moments: Moments) -> MachinePlan:
    meta = machine.metadata
    held = FINALIZER in meta.finalizers
    if is_deleting(meta):
        return _when("release", meta.deletion_timestamp or "", moments.removal, now=now) if held else AT_REST
    if not held:
        return MachinePlan("hold")
    if machine.status.node_ref is not None:
        return AT_REST
    return _when("join", meta.creation_timestamp or "", moments.boot, now=now)


def _when(step: Step, since: str, seconds: float, *, now: datetime) -> MachinePlan:
    """A time that cannot be read, or is yet to come, is no reason to wait for ever."""
    began = read_time(since)
    left = seconds - (now - began).total_seconds() if began is not None else 0.0
    return MachinePlan(step) if left <= 0 else MachinePlan("wait", min(left, seconds))


class MachineController:
    def __init__(self, client: Client, machines: Cache[Machine], *, clock: Clock, moments: Moments) -> None:
        self._client = client
        self._machines = machines
        self._clock = clock
        self._moments = moments

    async def reconcile(self, key: Key) -> Requeue | None:
        machine = self._machines.get(key)
        if machine is None:
            return None
        plan = plan_machine(machine, now=self._clock.now(), moments=self._moments)
        try:
            match plan.step:
                case "hold":
                    await hold(self._client, MACHINES, machine, FINALIZER)
                case "release":
                    await let_go(self._client, MACHINES, machine, FINALIZER)
                case "join":
                    joined = {"status": {"nodeRef": {"kind": "Node", "name": machine.metadata.name}}}
                    await patch_seen(self._client, MACHINES, machine, joined)
        except NotFound:  # it went meanwhile
            return None
        return Requeue(plan.after) if plan.after is not None else None


def machine_controller(wiring: Wiring, *, moments: Moments) -> Controller[Key]:
    machines = wiring.cache(MACHINES)
    made = MachineController(wiring.client, machines, clock=wiring.clock, moments=moments)
    return Controller("machines", [own(machines)], made.reconcile, clock=wiring.clock, metrics=wiring.metrics)
