"""Machines against an API in memory: where it is written that one is a Node."""

from __future__ import annotations

from tests.unit.standalone.world.fake_api import FakeApi
from ullage.clock import SystemClock
from ullage.kube.cache.indexer import Key
from ullage.kube.kinds import Meta
from ullage.projects.api.machines import MACHINES, Machine
from ullage.standalone.world.controllers.machine import FINALIZER, MachineController, Moments

KEY = Key("kube-system", "m")


async def test_that_it_is_a_node_is_written_into_the_machine_itself_which_has_no_status_subresource() -> None:
    api = FakeApi()
    created = "2026-01-01T00:00:00Z"
    meta = Meta(name=KEY.name, namespace=KEY.namespace, uid="uid", creation_timestamp=created, finalizers=(FINALIZER,))
    api.put(MACHINES, Machine(metadata=meta))
    machines = api.wiring().cache(MACHINES)
    await MachineController(api.client, machines, clock=SystemClock(), moments=Moments()).reconcile(KEY)
    assert api.writes == ["machines m"]
    assert api.objects[MACHINES.name, KEY]["status"]["nodeRef"] == {"kind": "Node", "name": "m"}
