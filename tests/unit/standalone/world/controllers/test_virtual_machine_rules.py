"""When a VM gets an instance and when it loses it, for each run strategy; what its status says."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.standalone.world.vm_builders import (
    INSTANCE_UID,
    STALE_STOP,
    START,
    STOP,
    condition,
    instance,
    machine,
)
from ullage.kube.objects import Condition
from ullage.standalone.world.controllers.virtual_machine_rules import (
    CHANGED,
    FINALIZER,
    AlwaysRun,
    Ask,
    CannotStart,
    Hold,
    Plan,
    Release,
    Requests,
    Rest,
    StartInstance,
    StopInstance,
    pending_requests,
    plan_machine,
    printable_status,
    status_of,
)
from ullage.vms.api.machines import MigrationState, StateChangeRequest, VirtualMachine, VirtualMachineInstance

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PAUSED_START = StateChangeRequest(action="Start", data={"paused": "true"})
ENDED = [instance("Succeeded"), instance("Failed")]


@pytest.mark.parametrize(
    ("found", "running", "plan"),
    [
        pytest.param(machine("Always"), None, StartInstance(), id="Always: it is started"),
        pytest.param(machine("", running=True), None, StartInstance(), id="running: true is the same"),
        pytest.param(machine("Always"), instance(), Rest(), id="Always: it runs"),
        pytest.param(
            machine("Always"), instance("Succeeded"), StopInstance(), id="Always: what ended goes, and the next comes"
        ),
        pytest.param(machine("Always"), instance("Failed"), StopInstance(), id="Always: what failed goes too"),
        pytest.param(machine("Always", STOP, START), instance(), StopInstance(), id="Always: a restart begins with the stop"),
        pytest.param(machine("Always", START), None, StartInstance(), id="Always: and ends with the start"),
        pytest.param(machine("Always", STALE_STOP), instance(), Rest(), id="a stop of an earlier instance is none of this one"),
        pytest.param(machine("RerunOnFailure"), None, StartInstance(), id="RerunOnFailure: it is started when it is new"),
        pytest.param(
            machine("RerunOnFailure", acted_on="RerunOnFailure"), None, Rest(), id="RerunOnFailure: what was stopped stays so"
        ),
        pytest.param(
            machine("RerunOnFailure", acted_on="Halted"), None, StartInstance(), id="RerunOnFailure: it starts what was halted"
        ),
        pytest.param(
            machine("RerunOnFailure", START, acted_on="RerunOnFailure"),
            None,
            StartInstance(),
            id="RerunOnFailure: it starts when it is asked to",
        ),
        pytest.param(
            machine("RerunOnFailure", STOP), instance(), StopInstance(), id="RerunOnFailure: it stops when it is asked to"
        ),
        pytest.param(
            machine("RerunOnFailure"),
            instance("Failed"),
            Ask((STOP, START)),
            id="RerunOnFailure: that it is to start again is written down before what failed goes",
        ),
        pytest.param(
            machine("RerunOnFailure", STOP, START), instance("Failed"), StopInstance(), id="RerunOnFailure: and then it goes"
        ),
        pytest.param(
            machine("RerunOnFailure"), instance("Succeeded"), StopInstance(), id="RerunOnFailure: what ended well just goes"
        ),
        pytest.param(machine("Manual"), None, Rest(), id="Manual: it waits"),
        pytest.param(machine("Manual", START), None, StartInstance(), id="Manual: it starts when it is asked to"),
        pytest.param(machine("Manual", PAUSED_START), None, StartInstance(paused=True), id="Manual: it may start paused"),
        pytest.param(machine("Manual", STOP), instance(), StopInstance(), id="Manual: it stops when it is asked to"),
        pytest.param(machine("Manual"), instance("Failed"), Rest(), id="Manual: what has ended stays"),
        pytest.param(machine("Once"), None, StartInstance(), id="Once: it is started"),
        pytest.param(machine("Once"), instance("Succeeded"), Rest(), id="Once: and then never again"),
        pytest.param(machine("Halted"), None, Rest(), id="Halted: it is not started"),
        pytest.param(machine("", running=False), None, Rest(), id="running: false is the same"),
        pytest.param(machine(""), None, Rest(), id="nothing said is no reason to run"),
        pytest.param(machine("Halted"), instance(), StopInstance(), id="Halted: what runs is stopped"),
        pytest.param(machine("Halted", START), None, AlwaysRun(), id="Halted: asked to start, it is to run from now on"),
        pytest.param(
            machine("WaitAsReceiver"),
            None,
            CannotStart(
                "UnknownRunStrategy",
                "spec.runStrategy WaitAsReceiver: on this machine Always, RerunOnFailure, Once, Manual or Halted is allowed",
            ),
            id="a strategy that nobody plays here",
        ),
        pytest.param(machine("Always"), instance(going=True), Rest(), id="what goes has to be gone first"),
        pytest.param(machine("Always", finalizers=()), None, Hold(), id="it is held before it has an instance"),
        pytest.param(machine(going=True), instance(), StopInstance(), id="its instance goes before it"),
        pytest.param(machine(going=True), instance(going=True), Rest(), id="it waits for that"),
        pytest.param(machine(going=True), None, Release(), id="it goes"),
        pytest.param(machine(going=True, finalizers=()), None, Rest(), id="what is not held is nobody's business"),
        pytest.param(
            machine(going=True, finalizers=(FINALIZER, "orphan")), instance(), Rest(), id="whoever wants the instance to stay"
        ),
    ],
)
def test_what_becomes_of_a_vm(found: VirtualMachine, running: VirtualMachineInstance | None, plan: Plan) -> None:
    assert plan_machine(found, running) == plan


@pytest.mark.parametrize(
    ("requests", "running", "left"),
    [
        pytest.param((START,), None, (START,), id="a start waits for an instance"),
        pytest.param((START,), instance(), (), id="a start is done when there is one"),
        pytest.param((STOP,), instance(), (STOP,), id="a stop waits until that instance is gone"),
        pytest.param((STOP,), None, (), id="a stop is done when it is"),
        pytest.param((STALE_STOP,), instance(), (), id="a stop is done when there is another"),
        pytest.param((STOP, START), None, (START,), id="of a restart the second half is left"),
        pytest.param((STOP, START), instance(), (STOP, START), id="or the whole of it"),
        pytest.param((StateChangeRequest(action="Dance"), START), None, (START,), id="what nobody knows is passed over"),
    ],
)
def test_requests_are_crossed_off_when_they_are_done(
    requests: Requests, running: VirtualMachineInstance | None, left: Requests
) -> None:
    assert pending_requests(machine("Manual", *requests), running) == left


MIGRATING = {"migration_state": MigrationState(start_timestamp="2026-01-01T00:00:00Z")}


@pytest.mark.parametrize(
    ("running", "more", "word"),
    [
        pytest.param(None, {}, "Stopped", id="no instance"),
        pytest.param(None, {"starts": True}, "Starting", id="an instance is on its way"),
        pytest.param(instance(""), {}, "Starting", id="it is new"),
        pytest.param(
            instance("Pending", condition("Synchronized", holds=False, reason="FailedPvcNotFound")),
            {},
            "ErrorPvcNotFound",
            id="no claim",
        ),
        pytest.param(instance("Pending", condition("Provisioning")), {}, "WaitingForVolumeBinding", id="a claim is not bound"),
        pytest.param(
            instance("Scheduling", condition("PodScheduled", holds=False, reason="Unschedulable")),
            {},
            "Unschedulable",
            id="no node",
        ),
        pytest.param(
            instance("Pending", condition("Synchronized", holds=False, reason="FailedCreate")),
            {},
            "Unschedulable",
            id="no pod",
        ),
        pytest.param(instance("Scheduled"), {}, "Starting", id="volumes are being attached"),
        pytest.param(instance(), {}, "Running", id="it runs"),
        pytest.param(instance("Running", condition("Paused")), {}, "Paused", id="it is paused"),
        pytest.param(instance(status=MIGRATING), {}, "Migrating", id="it moves"),
        pytest.param(instance(going=True), {}, "Stopping", id="it is stopping"),
        pytest.param(instance("Succeeded", going=True), {}, "Stopped", id="its guest is off"),
        pytest.param(instance("Failed"), {}, "Stopped", id="it failed"),
        pytest.param(instance("Failed"), {"starts": True}, "Starting", id="it failed, and comes again"),
        pytest.param(instance(), {"going": True}, "Terminating", id="the VM itself goes"),
    ],
)
def test_the_word_for_people(running: VirtualMachineInstance | None, more: dict[str, Any], word: str) -> None:
    found = machine(going=more.pop("going", False))
    assert printable_status(found, running, starts=more.get("starts", False)) == word


def said(found: VirtualMachine, running: VirtualMachineInstance | None, **given: Any) -> Any:
    options: dict[str, Any] = {"plan": Rest(), "requests": (), "strategy": "Always", "restart_required": False, **given}
    return status_of(found, running, now=NOW, **options)


def shown(conditions: tuple[Condition, ...]) -> dict[str, tuple[str, str, str]]:
    return {one.type: (one.status, one.reason, one.message) for one in conditions}


def test_a_vm_that_runs_says_so() -> None:
    ready = condition("Ready", reason="GuestRunning", message="it runs")
    status = said(machine(), instance("Running", ready))
    assert (status.created, status.ready, status.printable_status, status.run_strategy) == (True, True, "Running", "Always")
    assert status.observed_generation == 3
    assert shown(status.conditions) == {"Ready": ("True", "GuestRunning", "it runs")}


def test_a_vm_says_why_it_does_not_run_and_forgets_what_is_over() -> None:
    old = (condition("Paused"), condition("RestartRequired"), condition("Failure"))
    status = said(machine(conditions=old), None)
    assert (status.created, status.ready, status.printable_status) == (False, False, "Stopped")
    assert shown(status.conditions) == {"Ready": ("False", "VMINotExists", "VMI does not exist")}


def test_what_is_wrong_stands_in_conditions() -> None:
    paused = condition("Paused", reason="PausedByUser", message="VMI was paused by user")
    ready = condition("Ready", holds=False, reason="GuestPaused", message="VMI was paused by user")
    status = said(machine(), instance("Running", ready, paused), plan=CannotStart("FailedCreate", "no"), restart_required=True)
    assert shown(status.conditions) == {
        "Ready": ("False", "GuestPaused", "VMI was paused by user"),
        "Paused": ("True", "PausedByUser", "VMI was paused by user"),
        "Failure": ("True", "FailedCreate", "no"),
        "RestartRequired": ("True", "TemplateChanged", CHANGED),
    }
    assert status.printable_status == "Paused"


def test_the_builders_instance_is_of_the_builders_vm() -> None:
    assert STOP.uid == INSTANCE_UID == instance().metadata.uid
