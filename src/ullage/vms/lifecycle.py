"""Start, stop, restart, pause: what each of them writes, and when it makes no sense. As KubeVirt's own API has it. Pure.

KubeVirt serves these as subresources, and writes what stands here into the VM: its run strategy where that says whether it is
to run, or a request in its status where somebody decides from case to case. On one machine nobody serves the subresources, so
whoever asks writes it himself. What KubeVirt tells a node directly, to pause, is an annotation there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from ullage.errors import Terminal
from ullage.kube.objects import Json, is_true
from ullage.vms.api.machines import StateChangeRequest, VirtualMachine, VirtualMachineInstance

ALWAYS: Final = "Always"
HALTED: Final = "Halted"
MANUAL: Final = "Manual"
ONCE: Final = "Once"
RERUN_ON_FAILURE: Final = "RerunOnFailure"

START: Final = "Start"
STOP: Final = "Stop"
PAUSED: Final = "Paused"  # the condition, and the strategy to start with

# On a VirtualMachineInstance, "true" or "false", where no KubeVirt runs. It goes before its `startStrategy`.
PAUSE_ANNOTATION: Final = "ullage.io/paused"


class NotPossible(Terminal):
    """What was asked for makes no sense as the VM is now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is to be merged into the VM, into its status, or into its instance. One of them is there."""

    machine: Json | None = None
    status: Json | None = None
    instance: Json | None = None


def run_strategy(machine: VirtualMachine) -> str:
    """When it is to run, whichever of the two fields says so."""
    spec = machine.spec
    return spec.run_strategy or (ALWAYS if spec.running else HALTED)


def is_over(instance: VirtualMachineInstance) -> bool:
    """It has run, and does not any more."""
    return instance.status.phase in ("Succeeded", "Failed")


def is_paused(instance: VirtualMachineInstance) -> bool:
    return is_true(instance.status.conditions, PAUSED)


def start(machine: VirtualMachine, instance: VirtualMachineInstance | None) -> Change:
    if instance is not None and not is_over(instance):
        going = instance.metadata.deletion_timestamp is not None
        raise NotPossible(f"{_shown(machine)} {'is still stopping' if going else 'runs already'}")
    match strategy := run_strategy(machine):
        case "Halted":
            return _run(machine, wanted=True)
        case "RerunOnFailure" | "Manual":
            if instance is None:
                return _requests(machine, StateChangeRequest(action=START))
            if strategy == RERUN_ON_FAILURE and instance.status.phase == "Failed":
                raise NotPossible(f"{_shown(machine)} has failed, and {strategy} starts it again by itself")
            return _again(machine, instance)
    raise NotPossible(_by_itself(machine, strategy, "started"))


def stop(machine: VirtualMachine, instance: VirtualMachineInstance | None) -> Change:
    strategy = run_strategy(machine)
    if strategy in (ALWAYS, ONCE):
        return _run(machine, wanted=False)
    if instance is None or is_over(instance):
        raise NotPossible(f"{_shown(machine)} does not run")
    if strategy == HALTED:
        raise NotPossible(f"{_shown(machine)} is stopping already")
    return _requests(machine, StateChangeRequest(action=STOP, uid=instance.metadata.uid))


def restart(machine: VirtualMachine, instance: VirtualMachineInstance | None) -> Change:
    strategy = run_strategy(machine)
    if strategy in (HALTED, ONCE):
        raise NotPossible(_by_itself(machine, strategy, "restarted"))
    if instance is None:
        raise NotPossible(f"{_shown(machine)} does not run")
    return _again(machine, instance)


def pause(machine: VirtualMachine, instance: VirtualMachineInstance | None) -> Change:
    running = _running(machine, instance)
    if is_paused(running):
        raise NotPossible(f"{_shown(machine)} is paused already")
    return Change(instance=_annotated("true"))


def unpause(machine: VirtualMachine, instance: VirtualMachineInstance | None) -> Change:
    running = _running(machine, instance)
    if not is_paused(running):
        raise NotPossible(f"{_shown(machine)} is not paused")
    return Change(instance=_annotated("false"))


Action = Callable[[VirtualMachine, VirtualMachineInstance | None], Change]
ACTIONS: Final[Mapping[str, Action]] = {
    "start": start,
    "stop": stop,
    "restart": restart,
    "pause": pause,
    "unpause": unpause,
}


def _running(machine: VirtualMachine, instance: VirtualMachineInstance | None) -> VirtualMachineInstance:
    if instance is None or instance.status.phase != "Running" or instance.metadata.deletion_timestamp is not None:
        raise NotPossible(f"{_shown(machine)} does not run")
    return instance


def _run(machine: VirtualMachine, *, wanted: bool) -> Change:
    """In whichever field the VM has."""
    if machine.spec.run_strategy or machine.spec.running is None:
        return Change(machine={"spec": {"runStrategy": ALWAYS if wanted else HALTED}})
    return Change(machine={"spec": {"running": wanted}})


def _again(machine: VirtualMachine, instance: VirtualMachineInstance) -> Change:
    first = StateChangeRequest(action=STOP, uid=instance.metadata.uid)
    return _requests(machine, first, StateChangeRequest(action=START))


def _requests(machine: VirtualMachine, *requests: StateChangeRequest) -> Change:
    """A stop takes the place of whatever was asked for before; anything else waits its turn."""
    if machine.status.state_change_requests and not (len(requests) == 1 and requests[0].action == STOP):
        raise NotPossible(f"{_shown(machine)} is being started or stopped already; try again when that is done")
    asked: list[Any] = [msgspec.to_builtins(one) for one in requests]
    return Change(status={"status": {"stateChangeRequests": asked}})


def _annotated(value: str) -> Json:
    return {"metadata": {"annotations": {PAUSE_ANNOTATION: value}}}


def _by_itself(machine: VirtualMachine, strategy: str, what: str) -> str:
    return f"{_shown(machine)} cannot be {what} by hand: its runStrategy is {strategy}"


def _shown(machine: VirtualMachine) -> str:
    return f"VM {machine.metadata.namespace}/{machine.metadata.name}"
