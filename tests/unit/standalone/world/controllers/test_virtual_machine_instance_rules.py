"""How far an instance is, by its claims, its node and its volumes; what it says of itself."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.standalone.world.builders import claim, pod
from tests.unit.standalone.world.vm_builders import condition, instance, volume
from ullage.kube.builtin.core import Pod, PodStatus
from ullage.standalone.world.controllers.virtual_machine_instance_rules import (
    ClaimState,
    InstanceFacts,
    Progress,
    _device,
    ended,
    progress_of,
    status_of,
    wants_launcher,
    wants_pause,
)
from ullage.vms.api.machines import InstanceStatus, VirtualMachineInstance

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BOUND = ClaimState(claim(phase="Bound"))
ATTACHED = ClaimState(claim(phase="Bound"), attached=True)
UNBOUND = ClaimState(claim())


RUNS = pod(phase="Running", node="ullage-2", uid="uid-of-the-pod")
NO_CLAIM = ("Synchronized", False, "FailedPvcNotFound", "PVC data does not exist")


def facts(
    found: VirtualMachineInstance, launcher: Pod | None = RUNS, *, refusal: str = "", **claims: ClaimState
) -> InstanceFacts:
    return InstanceFacts(instance=found, claims=claims, launcher=launcher, refusal=refusal)


def unscheduled(message: str) -> Pod:
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return replace(pod(node=""), status=PodStatus(phase="Pending", conditions=(said,)))


@pytest.mark.parametrize(
    ("seen", "progress"),
    [
        pytest.param(
            facts(instance("")),
            Progress("Pending", ("Synchronized", False, "FailedPvcNotFound", "PVC data does not exist")),
            id="a claim that is not there",
        ),
        pytest.param(
            facts(instance(""), data=UNBOUND),
            Progress("Pending", ("Provisioning", True, "WaitingForVolumeBinding", "claim data is not bound yet")),
            id="a claim that has no volume yet",
        ),
        pytest.param(facts(instance(""), None, data=BOUND), Progress("Pending"), id="no pod yet"),
        pytest.param(
            facts(instance(""), None, refusal="no room", data=BOUND),
            Progress("Pending", ("Synchronized", False, "FailedCreate", "no room")),
            id="a pod that it does not get",
        ),
        pytest.param(
            facts(instance(""), pod(node=""), data=BOUND), Progress("Scheduling"), id="a pod that nobody has looked at"
        ),
        pytest.param(
            facts(instance(""), unscheduled("0/1 nodes are available: 1 node(s) were unschedulable."), data=BOUND),
            Progress(
                "Scheduling",
                ("PodScheduled", False, "Unschedulable", "0/1 nodes are available: 1 node(s) were unschedulable."),
            ),
            id="a pod that gets no node",
        ),
        pytest.param(facts(instance(""), pod(), data=ATTACHED), Progress("Scheduling"), id="a pod that does not run yet"),
        pytest.param(facts(instance("")), Progress("Pending", NO_CLAIM), id="a pod alone does not help"),
        pytest.param(facts(instance(""), data=BOUND), Progress("Scheduled"), id="its pod has a node, and runs"),
        pytest.param(facts(instance("Scheduled"), data=ATTACHED), Progress("Running"), id="its volumes are attached"),
        pytest.param(facts(instance("", volumes=())), Progress("Running"), id="it has no volumes"),
        pytest.param(facts(instance("Running"), None), Progress("Running"), id="what runs goes on"),
        pytest.param(
            facts(instance("Running"), None, refusal="no room"),
            Progress("Running", ("Synchronized", False, "FailedCreate", "no room")),
            id="what runs since before there were pods says that it gets none, and goes on",
        ),
        pytest.param(
            facts(instance("", volumes=(volume(), volume("more", hotpluggable=True))), data=ATTACHED),
            Progress("Running"),
            id="what may come later is not waited for",
        ),
    ],
)
def test_how_far_it_is(seen: InstanceFacts, progress: Progress) -> None:
    assert progress_of(seen) == progress


@pytest.mark.parametrize(
    ("seen", "wanted"),
    [
        pytest.param(facts(instance(""), None, data=UNBOUND), False, id="not before its claims are bound"),
        pytest.param(facts(instance(""), None, data=BOUND), True, id="when they are"),
        pytest.param(facts(instance(""), data=BOUND), False, id="not a second one"),
        pytest.param(facts(instance("Running", volumes=()), None), True, id="for one that runs without"),
    ],
)
def test_when_it_gets_a_pod(seen: InstanceFacts, wanted: bool) -> None:
    assert wants_launcher(seen) is wanted


def test_where_it_runs_is_said_once_and_changed_by_whoever_moves_it() -> None:
    moved = {"active_pods": {"uid-of-the-target": "ullage-3"}}
    status = said(facts(instance("Running", node="ullage-3", status=moved), data=ATTACHED))
    assert (status.node_name, status.active_pods) == ("ullage-3", moved["active_pods"])


@pytest.mark.parametrize(
    ("found", "paused"),
    [
        pytest.param(instance(), False, id="nobody asked"),
        pytest.param(instance(annotations={"ullage.io/paused": "true"}), True, id="somebody asked"),
        pytest.param(instance(start_strategy="Paused"), True, id="it is to start paused"),
        pytest.param(
            instance(start_strategy="Paused", annotations={"ullage.io/paused": "false"}),
            False,
            id="it started paused, and went on",
        ),
        pytest.param(instance(annotations={"ullage.io/paused": "perhaps"}), False, id="nonsense is nothing"),
    ],
)
def test_when_it_is_paused(found: VirtualMachineInstance, paused: bool) -> None:
    assert wants_pause(found) is paused


def said(seen: InstanceFacts) -> InstanceStatus:
    return status_of(seen, now=NOW)


def shown(status: InstanceStatus) -> dict[str, tuple[str, str]]:
    return {one.type: (one.status, one.reason) for one in status.conditions}


def test_it_says_what_it_waits_for_and_forgets_that_afterwards() -> None:
    waits = said(facts(instance(""), data=UNBOUND))
    assert (waits.phase, waits.node_name) == ("Pending", "")
    assert shown(waits) == {"Ready": ("False", "GuestNotRunning"), "Provisioning": ("True", "WaitingForVolumeBinding")}
    runs = said(facts(instance("Pending", *waits.conditions), data=ATTACHED))
    assert (runs.phase, runs.node_name) == ("Running", "ullage-2")
    assert runs.active_pods == {"uid-of-the-pod": "ullage-2"}
    assert shown(runs) == {"Ready": ("True", "GuestRunning"), "LiveMigratable": ("False", "DisksNotLiveMigratable")}
    assert [(one.phase, one.phase_transition_timestamp) for one in runs.phase_transition_timestamps] == [
        ("Running", "2026-01-01T00:00:00Z")
    ]


def test_a_paused_one_is_not_ready() -> None:
    status = said(facts(instance(annotations={"ullage.io/paused": "true"}), data=ATTACHED))
    assert status.phase == "Running"
    assert shown(status) == {
        "Ready": ("False", "GuestPaused"),
        "Paused": ("True", "PausedByUser"),
        "LiveMigratable": ("False", "DisksNotLiveMigratable"),
    }


def test_what_ends_is_neither_ready_nor_paused() -> None:
    active = {"active_pods": {"uid-of-the-pod": "ullage-2"}}
    status = ended(instance("Running", condition("Ready"), condition("Paused"), status=active), now=NOW)
    assert (status.phase, status.active_pods) == ("Succeeded", {})
    assert shown(status) == {"Ready": ("False", "GuestNotRunning")}


@pytest.mark.parametrize(
    ("state", "phase", "text"),
    [
        pytest.param(ClaimState(), "Pending", "PVC more does not exist", id="no claim"),
        pytest.param(UNBOUND, "Pending", "claim more is not bound yet", id="no volume"),
        pytest.param(BOUND, "Bound", "volume more is not attached to the node yet", id="not attached"),
        pytest.param(ATTACHED, "Ready", "volume more is attached to the VM", id="attached"),
    ],
)
def test_a_volume_that_is_added_says_how_far_it_is(state: ClaimState, phase: str, text: str) -> None:
    found = instance(volumes=(volume(), volume("more", hotpluggable=True)))
    first, second = said(facts(found, data=ATTACHED, more=state)).volume_status
    assert (first.name, first.target, first.phase, first.hotplug_volume) == ("data", "vda", "", None)
    assert first.persistent_volume_claim_info is not None
    assert first.persistent_volume_claim_info.claim_name == "data"
    assert (second.name, second.target, second.phase, second.message) == ("more", "sda", phase, text)
    assert second.hotplug_volume is not None


@pytest.mark.parametrize(
    ("number", "name"),
    [pytest.param(number, name, id=name) for number, name in [(0, "vda"), (25, "vdz"), (26, "vdaa"), (701, "vdzz")]],
)
def test_devices_are_named_as_in_a_guest(number: int, name: str) -> None:
    assert _device("vd", number) == name


def test_a_status_that_says_the_same_is_the_same() -> None:
    first = said(facts(instance(""), data=ATTACHED))
    again = instance(node="ullage-2", status=_fields(first))
    assert said(facts(again, data=ATTACHED)) == first


def _fields(status: InstanceStatus) -> dict[str, Any]:
    found = {name: getattr(status, name) for name in status.__struct_fields__}
    return {name: value for name, value in found.items() if name not in ("phase", "conditions", "node_name")}


def test_one_whose_volumes_two_nodes_may_have_can_be_migrated() -> None:
    shared = ClaimState(claim(phase="Bound", access_modes=("ReadWriteMany",)), attached=True)
    assert shown(said(facts(instance("Pending"), data=shared)))["LiveMigratable"] == ("True", "Migratable")
    assert shown(said(facts(instance("Pending", volumes=()))))["LiveMigratable"] == ("True", "Migratable")
    (alone,) = [one for one in said(facts(instance("Pending"), data=ATTACHED)).conditions if one.type == "LiveMigratable"]
    assert (alone.status, alone.message) == ("False", "claim data is not ReadWriteMany, so no second node can have it")
