"""Whether a VM is to have an instance now, by its run strategy and by what was asked for. As KubeVirt decides it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from ullage.kube.objects import Condition, drop_condition, find_condition, is_deleting, is_true, set_condition
from ullage.standalone.world.machines import NO_CLAIM, NOT_CREATED, PROVISIONING, SCHEDULED, SYNCHRONIZED, UNSCHEDULABLE
from ullage.vms.api.machines import MachineStatus, StateChangeRequest, VirtualMachine, VirtualMachineInstance
from ullage.vms.lifecycle import (
    ALWAYS,
    HALTED,
    MANUAL,
    ONCE,
    PAUSED,
    RERUN_ON_FAILURE,
    START,
    STOP,
    is_over,
    is_paused,
    run_strategy,
)

# What a VM says of itself: the word for people, and the conditions.


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


FINALIZER: Final = "kubevirt.io/virtualMachineControllerFinalize"
ORPHAN: Final = "orphan"  # whoever deletes the VM wants its instance to stay

Requests = tuple[StateChangeRequest, ...]


@dataclass(frozen=True, slots=True)
class Rest:
    """It is as it should be, or something that was begun has to come to its end first."""


@dataclass(frozen=True, slots=True)
class Hold:
    """It may have an instance soon: it is not to go before that."""


@dataclass(frozen=True, slots=True)
class Release:
    """It is going, and its instance is gone."""


@dataclass(frozen=True, slots=True)
class StartInstance:
    paused: bool = False


@dataclass(frozen=True, slots=True)
class StopInstance:
    """The instance goes; what follows from that is decided when it is gone."""


@dataclass(frozen=True, slots=True)
class Ask:
    """These requests are written down first, so that they outlive us."""

    requests: Requests


@dataclass(frozen=True, slots=True)
class AlwaysRun:
    """A stopped VM was asked to start: from now on it is to run."""


@dataclass(frozen=True, slots=True)
class CannotStart:
    reason: str
    message: str


Plan = Rest | Hold | Release | StartInstance | StopInstance | Ask | AlwaysRun | CannotStart
Decide = Callable[[VirtualMachine, VirtualMachineInstance | None, Requests], Plan]


def plan_machine(machine: VirtualMachine, instance: VirtualMachineInstance | None) -> Plan:
    """`instance` is that of this very VM."""
    meta = machine.metadata
    if is_deleting(meta):
        return _end(machine, instance)
    if FINALIZER not in meta.finalizers:
        return Hold()
    if instance is not None and is_deleting(instance.metadata):
        return Rest()
    strategy = run_strategy(machine)
    decide = BY_STRATEGY.get(strategy)
    if decide is None:
        allowed = f"{', '.join(list(BY_STRATEGY)[:-1])} or {list(BY_STRATEGY)[-1]}"
        return CannotStart("UnknownRunStrategy", f"spec.runStrategy {strategy}: on this machine {allowed} is allowed")
    return decide(machine, instance, pending_requests(machine, instance))


def pending_requests(machine: VirtualMachine, instance: VirtualMachineInstance | None) -> Requests:
    """What is asked for and not done yet: a start is done when there is an instance, a stop when the one it names is gone."""
    requests = machine.status.state_change_requests
    while requests:
        first = requests[0]
        if first.action == STOP:
            done = instance is None or first.uid != instance.metadata.uid
        else:
            done = instance is not None or first.action != START
        if not done:
            break
        requests = requests[1:]
    return requests


def _end(machine: VirtualMachine, instance: VirtualMachineInstance | None) -> Plan:
    finalizers = machine.metadata.finalizers
    if FINALIZER not in finalizers:
        return Rest()
    if instance is None:
        return Release()
    if ORPHAN in finalizers or is_deleting(instance.metadata):
        return Rest()
    return StopInstance()


# --- by run strategy -------------------------------------------------------------------------------------------------


def _always(machine: VirtualMachine, instance: VirtualMachineInstance | None, requests: Requests) -> Plan:
    if instance is None:
        return _start(requests)
    return StopInstance() if is_over(instance) or _asks(requests, STOP) else Rest()


def _rerun_on_failure(machine: VirtualMachine, instance: VirtualMachineInstance | None, requests: Requests) -> Plan:
    """What ended well stays stopped until somebody asks; so does what somebody stopped."""
    if instance is None:
        begins = machine.status.run_strategy != RERUN_ON_FAILURE
        return _start(requests) if begins or _asks(requests, START) else Rest()
    if instance.status.phase == "Failed" and not requests:
        stop = StateChangeRequest(action=STOP, uid=instance.metadata.uid)
        return Ask((stop, StateChangeRequest(action=START)))
    return StopInstance() if is_over(instance) or _asks(requests, STOP) else Rest()


def _once(machine: VirtualMachine, instance: VirtualMachineInstance | None, requests: Requests) -> Plan:
    """What has run stays, and shows how it ended."""
    return _start(requests) if instance is None else Rest()


def _manual(machine: VirtualMachine, instance: VirtualMachineInstance | None, requests: Requests) -> Plan:
    if instance is None:
        return _start(requests) if _asks(requests, START) else Rest()
    return StopInstance() if _asks(requests, STOP) else Rest()


def _halted(machine: VirtualMachine, instance: VirtualMachineInstance | None, requests: Requests) -> Plan:
    if instance is not None:
        return StopInstance()
    return AlwaysRun() if _asks(requests, START) else Rest()


BY_STRATEGY: Final[Mapping[str, Decide]] = {
    ALWAYS: _always,
    RERUN_ON_FAILURE: _rerun_on_failure,
    ONCE: _once,
    MANUAL: _manual,
    HALTED: _halted,
}


def _asks(requests: Requests, action: str) -> bool:
    return bool(requests) and requests[0].action == action


def _start(requests: Requests) -> StartInstance:
    paused = _asks(requests, START) and (requests[0].data or {}).get("paused") == "true"
    return StartInstance(paused=paused)
