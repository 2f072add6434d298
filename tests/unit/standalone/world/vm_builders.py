"""VMs and their instances in few words."""

from __future__ import annotations

from typing import Any

from tests.unit.standalone.world.builders import GOING
from ullage.kube.kinds import Meta
from ullage.kube.objects import Condition, owner_reference
from ullage.standalone.world.controllers.virtual_machine_rules import FINALIZER
from ullage.standalone.world.machines import INSTANCE_FINALIZER
from ullage.vms.api.machines import (
    VIRTUAL_MACHINES,
    ClaimVolume,
    InstanceSpec,
    InstanceStatus,
    MachineSpec,
    MachineStatus,
    MachineTemplate,
    MachineVolume,
    StateChangeRequest,
    VirtualMachine,
    VirtualMachineInstance,
)

MACHINE_UID = "uid-of-the-vm"
INSTANCE_UID = "uid-of-the-instance"

START = StateChangeRequest(action="Start")
STOP = StateChangeRequest(action="Stop", uid=INSTANCE_UID)
STALE_STOP = StateChangeRequest(action="Stop", uid="uid-of-an-earlier-instance")


def volume(name: str = "data", *, claim: str = "", hotpluggable: bool = False) -> MachineVolume:
    source = ClaimVolume(claim_name=claim or name, hotpluggable=hotpluggable)
    return MachineVolume(name=name, persistent_volume_claim=source)


def machine(
    strategy: str = "Always",
    *requests: StateChangeRequest,
    going: bool = False,
    finalizers: tuple[str, ...] = (FINALIZER,),
    acted_on: str = "",
    running: bool | None = None,
    **status: Any,
) -> VirtualMachine:
    """`acted_on` is the strategy that its status tells of."""
    meta = Meta(
        name="db",
        namespace="shop",
        uid=MACHINE_UID,
        generation=3,
        resource_version="7",
        finalizers=finalizers,
        deletion_timestamp=GOING if going else None,
    )
    spec = MachineSpec(run_strategy=strategy, running=running, template=MachineTemplate(spec=InstanceSpec(volumes=(volume(),))))
    said = MachineStatus(state_change_requests=requests, run_strategy=acted_on, **status)
    return VirtualMachine(metadata=meta, spec=spec, status=said)


def instance(
    phase: str = "Running",
    *conditions: Condition,
    going: bool = False,
    volumes: tuple[MachineVolume, ...] = (volume(),),
    node: str = "",
    annotations: dict[str, str] | None = None,
    status: dict[str, Any] | None = None,
    **spec: Any,
) -> VirtualMachineInstance:
    meta = Meta(
        name="db",
        namespace="shop",
        uid=INSTANCE_UID,
        resource_version="8",
        annotations=annotations or {},
        finalizers=(INSTANCE_FINALIZER,),
        owner_references=(owner_reference(VIRTUAL_MACHINES, machine().metadata, controller=True),),
        deletion_timestamp=GOING if going else None,
    )
    said = InstanceStatus(phase=phase, conditions=conditions, node_name=node, **(status or {}))
    return VirtualMachineInstance(metadata=meta, spec=InstanceSpec(volumes=volumes, **spec), status=said)


def condition(type: str, *, holds: bool = True, reason: str = "Because", message: str = "") -> Condition:
    return Condition(type=type, status="True" if holds else "False", reason=reason, message=message)
