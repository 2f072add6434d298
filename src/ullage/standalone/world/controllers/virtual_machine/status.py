"""What a VM says of itself: the word for people, and the conditions. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from msgspec.structs import replace

from ullage.kube.objects import Condition, drop_condition, find_condition, is_deleting, is_true, set_condition
from ullage.standalone.world.controllers.virtual_machine.rules import CannotStart, Plan, Requests, StartInstance
from ullage.standalone.world.machines import NO_CLAIM, NOT_CREATED, PROVISIONING, SCHEDULED, SYNCHRONIZED, UNSCHEDULABLE
from ullage.vms.api.machines import MachineStatus, VirtualMachine, VirtualMachineInstance
from ullage.vms.lifecycle import PAUSED, is_over, is_paused

STARTING: Final = "Starting"
FAILURE: Final = "Failure"
RESTART_REQUIRED: Final = "RestartRequired"
CHANGED: Final = "the template was changed; what was changed takes effect when the VM is restarted"


def printable_status(machine: VirtualMachine, instance: VirtualMachineInstance | None, *, starts: bool) -> str:
    """`starts`: an instance is on its way. In the order in which KubeVirt asks."""
    if is_deleting(machine.metadata):
        return "Terminating"
    if instance is None:
        return STARTING if starts else "Stopped"
    if is_deleting(instance.metadata) and not is_over(instance):
        return "Stopping"
    if is_over(instance):
        return STARTING if starts else "Stopped"
    migration = instance.status.migration_state
    if migration is not None and not migration.completed:
        return "Migrating"
    if is_paused(instance):
        return "Paused"
    return "Running" if instance.status.phase == "Running" else _waiting(instance)


def refusal_of(instance: VirtualMachineInstance | None) -> Condition | None:
    """What says that the instance gets no pod, where somebody refuses it one."""
    found = find_condition(instance.status.conditions, SYNCHRONIZED) if instance is not None else None
    return found if found is not None and found.status == "False" and found.reason == NOT_CREATED else None


def _waiting(instance: VirtualMachineInstance) -> str:
    """What keeps it from running."""
    conditions = instance.status.conditions
    synchronized = find_condition(conditions, SYNCHRONIZED)
    if synchronized is not None and synchronized.status == "False" and synchronized.reason == NO_CLAIM:
        return "ErrorPvcNotFound"
    scheduled = find_condition(conditions, SCHEDULED)
    if scheduled is not None and scheduled.status == "False" and scheduled.reason == UNSCHEDULABLE:
        return "Unschedulable"
    if refusal_of(instance) is not None:
        return "Unschedulable"
    return "WaitingForVolumeBinding" if is_true(conditions, PROVISIONING) else STARTING


def status_of(
    machine: VirtualMachine,
    instance: VirtualMachineInstance | None,
    *,
    plan: Plan,
    requests: Requests,
    strategy: str,
    restart_required: bool,
    now: datetime,
) -> MachineStatus:
    """`strategy` is the one that was last acted upon."""
    generation = machine.metadata.generation
    status = machine.status
    conditions = status.conditions
    ready = find_condition(instance.status.conditions, "Ready") if instance is not None else None
    is_ready = ready is not None and ready.status == "True"
    if instance is None:
        reason, message = "VMINotExists", "VMI does not exist"
    elif ready is None:
        reason, message = "GuestNotRunning", "the instance has not begun to run"
    else:
        reason, message = ready.reason, ready.message
    conditions = set_condition(
        conditions, "Ready", status=is_ready, reason=reason, message=message, generation=generation, now=now
    )
    paused = find_condition(instance.status.conditions, PAUSED) if instance is not None else None
    if paused is not None and paused.status == "True":
        conditions = set_condition(
            conditions, PAUSED, status=True, reason=paused.reason, message=paused.message, generation=generation, now=now
        )
    else:
        conditions = drop_condition(conditions, PAUSED)
    failure = plan if isinstance(plan, CannotStart) else refusal_of(instance)
    if failure is not None:
        conditions = set_condition(
            conditions, FAILURE, status=True, reason=failure.reason, message=failure.message, generation=generation, now=now
        )
    else:
        conditions = drop_condition(conditions, FAILURE)
    if restart_required:
        conditions = set_condition(
            conditions, RESTART_REQUIRED, status=True, reason="TemplateChanged", message=CHANGED, generation=generation, now=now
        )
    else:
        conditions = drop_condition(conditions, RESTART_REQUIRED)
    starts = isinstance(plan, StartInstance) or bool(requests and requests[-1].action == "Start")
    return replace(
        status,
        created=instance is not None,
        ready=is_ready,
        printable_status=printable_status(machine, instance, starts=starts),
        conditions=conditions,
        state_change_requests=requests,
        run_strategy=strategy,
        observed_generation=generation,
    )
