"""Which machines count: all that are not stopped for good."""

from __future__ import annotations

import pytest

from tests.unit.headroom.builders import Json, machine, made
from ullage.headroom.counting import counts
from ullage.vms.api.machines import VIRTUAL_MACHINES

YES, NO = True, False


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(machine(strategy="Halted"), NO, id="a halted one that was just created costs nothing"),
        pytest.param(machine(strategy="Manual"), NO, id="nor one that somebody starts by hand"),
        pytest.param(machine(strategy=None, running=False), NO, id="nor one that is not to run"),
        pytest.param(machine(strategy=None), NO, id="nor one that says nothing"),
        pytest.param(machine(strategy="Always"), YES, id="one that always runs, before it has begun"),
        pytest.param(machine(strategy=None, running=True), YES, id="one that is to run"),
        pytest.param(machine(strategy="Always", printable="Stopped"), YES, id="one that always runs, and is shown as stopped"),
        pytest.param(machine(strategy="RerunOnFailure"), YES, id="one that runs until it ends well, before it has begun"),
        pytest.param(machine(strategy="Once"), YES, id="one that runs once, before it has begun"),
        pytest.param(machine(strategy="SomethingNew"), YES, id="a strategy that nobody here knows"),
        pytest.param(
            machine(strategy="RerunOnFailure", printable="Stopped", acted="Halted"),
            YES,
            id="a stopped one whose strategy was just changed, and which starts by that",
        ),
        pytest.param(
            machine(strategy="RerunOnFailure", printable="Stopped", acted="RerunOnFailure"), NO, id="one that has ended well"
        ),
        pytest.param(machine(strategy="Once", printable="Stopped", acted="Once"), NO, id="one that has run once"),
        pytest.param(machine(strategy="Manual", printable="Stopped"), NO, id="one that was stopped by hand"),
        pytest.param(machine(strategy="Manual", printable="Stopped", requests=["Start"]), YES, id="a start that was asked for"),
        pytest.param(machine(strategy="Manual", requests=["Start"]), YES, id="a start before anybody has looked at it"),
        pytest.param(machine(strategy="Halted", printable="Stopped", requests=["Start"]), YES, id="a halted one's start"),
        pytest.param(
            machine(strategy="RerunOnFailure", printable="Stopped", acted="RerunOnFailure", requests=["Stop", "Start"]),
            YES,
            id="a restart, at the moment at which it is stopped",
        ),
        pytest.param(
            machine(strategy="Manual", printable="Running", requests=["Stop"]), YES, id="a stop is not done by asking"
        ),
        *(
            pytest.param(machine(strategy="Halted", printable=status, created=True), YES, id=f"halted and {status}")
            for status in ("Starting", "Running", "Paused", "Stopping", "Unschedulable", "Migrating", "CrashLoopBackOff")
        ),
        *(
            pytest.param(machine(strategy="Manual", printable=status), YES, id=f"manual and {status}, whatever else it says")
            for status in ("Running", "Stopping", "Paused", "NobodyKnows")
        ),
        *(
            pytest.param(machine(strategy="Halted", printable=status), NO, id=f"halted and {status}: its disks are not ready")
            for status in ("Provisioning", "WaitingForVolumeBinding", "DataVolumeError", "ErrorPvcNotFound")
        ),
        pytest.param(
            machine(strategy="Halted", printable="WaitingForVolumeBinding", created=True), YES, id="unless it has an instance"
        ),
        pytest.param(machine(strategy="Halted", printable="Terminating", created=True), YES, id="going, with an instance"),
        pytest.param(machine(strategy="Halted", printable="Terminating"), NO, id="going, without one"),
    ],
)
def test_whether_a_machine_counts(body: Json, expected: bool) -> None:
    assert counts(made(VIRTUAL_MACHINES, body)) is expected
