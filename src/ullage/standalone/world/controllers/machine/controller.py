"""Machines: each becomes a Node in name, and is let go when it is deleted. No servers are made, and no Node objects."""

from __future__ import annotations

from ullage.clock import Clock
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import hold, let_go, patch_seen
from ullage.kube.controller.controller import Controller, Requeue, own
from ullage.kube.errors import NotFound
from ullage.kube.slices import Wiring
from ullage.projects.api.machines import MACHINES, Machine
from ullage.standalone.world.controllers.machine.rules import FINALIZER, Moments, plan_machine


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
