"""Start, stop, restart and pause: what is written, and what is refused, for each run strategy."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.standalone.world.vm_builders import INSTANCE_UID, START, STOP, condition, instance, machine
from ullage.vms import lifecycle
from ullage.vms.api.machines import VirtualMachine, VirtualMachineInstance
from ullage.vms.lifecycle import Change, NotPossible

ASKS_START: dict[str, Any] = {"status": {"stateChangeRequests": [{"action": "Start"}]}}
ASKS_STOP: dict[str, Any] = {"status": {"stateChangeRequests": [{"action": "Stop", "uid": INSTANCE_UID}]}}
ASKS_BOTH: dict[str, Any] = {"status": {"stateChangeRequests": [{"action": "Stop", "uid": INSTANCE_UID}, {"action": "Start"}]}}


def strategy(name: str) -> Change:
    return Change(machine={"spec": {"runStrategy": name}})


def paused(value: str) -> Change:
    return Change(instance={"metadata": {"annotations": {"ullage.io/paused": value}}})


RUNS, PAUSED = instance(), instance("Running", condition("Paused"))


@pytest.mark.parametrize(
    ("action", "found", "running", "written"),
    [
        pytest.param("start", machine("Halted"), None, strategy("Always"), id="a halted VM is to run from now on"),
        pytest.param(
            "start",
            machine("", running=False),
            None,
            Change(machine={"spec": {"running": True}}),
            id="as is one that says running",
        ),
        pytest.param("start", machine("Manual"), None, Change(status=ASKS_START), id="one of Manual is asked to start"),
        pytest.param("start", machine("RerunOnFailure"), None, Change(status=ASKS_START), id="as is one of RerunOnFailure"),
        pytest.param(
            "start", machine("Manual"), instance("Failed"), Change(status=ASKS_BOTH), id="what has ended is put away first"
        ),
        pytest.param(
            "start", machine("RerunOnFailure"), instance("Succeeded"), Change(status=ASKS_BOTH), id="also what ended well"
        ),
        pytest.param("stop", machine("Always"), RUNS, strategy("Halted"), id="a VM that always runs is halted"),
        pytest.param(
            "stop", machine("", running=True), RUNS, Change(machine={"spec": {"running": False}}), id="or is not to run"
        ),
        pytest.param("stop", machine("Once"), RUNS, strategy("Halted"), id="one of Once is halted"),
        pytest.param("stop", machine("Manual"), RUNS, Change(status=ASKS_STOP), id="one of Manual is asked to stop"),
        pytest.param("stop", machine("RerunOnFailure"), RUNS, Change(status=ASKS_STOP), id="one of RerunOnFailure too"),
        pytest.param("stop", machine("Manual", START), RUNS, Change(status=ASKS_STOP), id="a stop takes the place of a start"),
        pytest.param("restart", machine("Always"), RUNS, Change(status=ASKS_BOTH), id="a restart is a stop and a start"),
        pytest.param("restart", machine("Manual"), RUNS, Change(status=ASKS_BOTH), id="for Manual too"),
        pytest.param("pause", machine("Always"), RUNS, paused("true"), id="what runs is paused"),
        pytest.param("unpause", machine("Always"), PAUSED, paused("false"), id="what is paused goes on"),
    ],
)
def test_what_is_written(action: str, found: VirtualMachine, running: VirtualMachineInstance | None, written: Change) -> None:
    assert lifecycle.ACTIONS[action](found, running) == written


@pytest.mark.parametrize(
    ("action", "found", "running", "text"),
    [
        pytest.param("start", machine("Always"), RUNS, "VM shop/db runs already", id="it runs"),
        pytest.param(
            "start", machine("Manual"), instance(going=True), "VM shop/db is still stopping", id="it is still stopping"
        ),
        pytest.param(
            "start",
            machine("Always"),
            None,
            "VM shop/db cannot be started by hand: its runStrategy is Always",
            id="Always starts it",
        ),
        pytest.param(
            "start",
            machine("Once"),
            None,
            "VM shop/db cannot be started by hand: its runStrategy is Once",
            id="Once starts it once",
        ),
        pytest.param(
            "start",
            machine("RerunOnFailure"),
            instance("Failed"),
            "VM shop/db has failed, and RerunOnFailure starts it again by itself",
            id="it is on its way",
        ),
        pytest.param(
            "start",
            machine("Manual", START),
            None,
            "VM shop/db is being started or stopped already; try again when that is done",
            id="a start is under way",
        ),
        pytest.param("stop", machine("Halted"), None, "VM shop/db does not run", id="it does not run"),
        pytest.param("stop", machine("Manual"), instance("Succeeded"), "VM shop/db does not run", id="it has ended by itself"),
        pytest.param("stop", machine("Halted"), RUNS, "VM shop/db is stopping already", id="it is stopping"),
        pytest.param(
            "restart",
            machine("Halted"),
            RUNS,
            "VM shop/db cannot be restarted by hand: its runStrategy is Halted",
            id="what is halted stays so",
        ),
        pytest.param(
            "restart",
            machine("Once"),
            RUNS,
            "VM shop/db cannot be restarted by hand: its runStrategy is Once",
            id="once is not twice",
        ),
        pytest.param("restart", machine("Always"), None, "VM shop/db does not run", id="nothing is there to restart"),
        pytest.param(
            "restart",
            machine("Always", STOP),
            RUNS,
            "VM shop/db is being started or stopped already; try again when that is done",
            id="a restart is under way",
        ),
        pytest.param("pause", machine("Always"), instance("Scheduled"), "VM shop/db does not run", id="it only begins to run"),
        pytest.param("pause", machine("Always"), instance(going=True), "VM shop/db does not run", id="it is going"),
        pytest.param("pause", machine("Always"), PAUSED, "VM shop/db is paused already", id="it is paused"),
        pytest.param("unpause", machine("Always"), RUNS, "VM shop/db is not paused", id="it is not paused"),
        pytest.param("unpause", machine("Halted"), None, "VM shop/db does not run", id="there is nothing to go on with"),
    ],
)
def test_what_makes_no_sense(action: str, found: VirtualMachine, running: VirtualMachineInstance | None, text: str) -> None:
    with pytest.raises(NotPossible) as refused:
        lifecycle.ACTIONS[action](found, running)
    assert str(refused.value) == text
