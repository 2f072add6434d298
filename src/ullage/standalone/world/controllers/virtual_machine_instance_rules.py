"""How far an instance is: it waits for its claims, gets a pod, and with it a node, has its volumes attached, and runs until it
is to go. Pure.

There is no guest: what runs here is no more than volumes that stay attached.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from ullage.kube.builtin.core import PersistentVolumeClaim, Pod
from ullage.kube.objects import Conditions, drop_condition, set_condition
from ullage.standalone.world.machines import (
    NO_CLAIM,
    NOT_CREATED,
    PROVISIONING,
    SCHEDULED,
    SYNCHRONIZED,
    UNBOUND,
    UNSCHEDULABLE,
    is_hotplugged,
)
from ullage.standalone.world.migration_phases import LIVE_MIGRATABLE
from ullage.times import timestamp
from ullage.vms.api.machines import (
    AttachedClaim,
    HotplugStatus,
    InstanceStatus,
    InstanceVolumeStatus,
    MachineVolume,
    PhaseTransition,
    VirtualMachineInstance,
)
from ullage.vms.lifecycle import PAUSE_ANNOTATION, PAUSED

NOT_RUNNING: Final = ("GuestNotRunning", "Guest VM is not reported as running")


@dataclass(frozen=True, slots=True)
class ClaimState:
    """A claim that a volume names; None: there is no such claim. `attached`: whoever attaches it here has done so."""

    claim: PersistentVolumeClaim | None = None
    attached: bool = False

    @property
    def is_bound(self) -> bool:
        return self.claim is not None and self.claim.status.phase == "Bound"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceFacts:
    instance: VirtualMachineInstance
    claims: Mapping[str, ClaimState]  # by name
    launcher: Pod | None = None
    refusal: str = ""  # why it has none

    @property
    def waits_for(self) -> Sequence[MachineVolume]:
        """Volumes without which it does not begin; the others may come later."""
        return [one for one in self.instance.spec.volumes if one.claim and not is_hotplugged(one)]

    def state(self, volume: MachineVolume) -> ClaimState:
        return self.claims.get(volume.claim, ClaimState())


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it is, and the one condition that says what it waits for: its type, whether that holds, reason, message."""

    phase: str
    blocker: tuple[str, bool, str, str] | None = None


def wants_launcher(facts: InstanceFacts) -> bool:
    """Whether a pod is to be made for it. Also for one that runs without: it began when there were none."""
    return facts.launcher is None and all(facts.state(one).is_bound for one in facts.waits_for)


def progress_of(facts: InstanceFacts) -> Progress:
    refused = (SYNCHRONIZED, False, NOT_CREATED, facts.refusal) if facts.refusal else None
    if facts.instance.status.phase == "Running":
        return Progress("Running", refused)
    if missing := [one.claim for one in facts.waits_for if facts.state(one).claim is None]:
        return Progress("Pending", (SYNCHRONIZED, False, NO_CLAIM, f"PVC {missing[0]} does not exist"))
    if unbound := [one.claim for one in facts.waits_for if not facts.state(one).is_bound]:
        return Progress("Pending", (PROVISIONING, True, UNBOUND, f"claim {unbound[0]} is not bound yet"))
    if facts.launcher is None:
        return Progress("Pending", refused)
    if not facts.launcher.spec.node_name or facts.launcher.status.phase != "Running":
        return Progress("Scheduling", _unscheduled(facts.launcher))
    if not all(facts.state(one).attached for one in facts.waits_for):
        return Progress("Scheduled")
    return Progress("Running")


def _unscheduled(launcher: Pod) -> tuple[str, bool, str, str] | None:
    """What the scheduler said of its pod."""
    said = next((one for one in launcher.status.conditions if one.get("type") == SCHEDULED), {})
    if launcher.spec.node_name or said.get("status") != "False":
        return None
    return SCHEDULED, False, UNSCHEDULABLE, str(said.get("message") or "")


def wants_pause(instance: VirtualMachineInstance) -> bool:
    said = instance.metadata.annotations.get(PAUSE_ANNOTATION)
    return said == "true" if said in ("true", "false") else instance.spec.start_strategy == PAUSED


def status_of(facts: InstanceFacts, *, now: datetime) -> InstanceStatus:
    instance, progress = facts.instance, progress_of(facts)
    node, active = instance.status.node_name, instance.status.active_pods
    if facts.launcher is not None and progress.phase in ("Scheduled", "Running") and not active:
        node = facts.launcher.spec.node_name or node
        active = {facts.launcher.metadata.uid: node}
    return replace(
        instance.status,
        phase=progress.phase,
        node_name=node,
        active_pods=active,
        conditions=_conditions(facts, progress, now=now),
        volume_status=_volume_statuses(facts),
        phase_transition_timestamps=_transitions(instance, progress.phase, now=now),
    )


def ended(instance: VirtualMachineInstance, *, now: datetime, phase: str = "Succeeded") -> InstanceStatus:
    """It was asked to go, and its guest shut down; or what it ran in is gone, and it has failed."""
    conditions = drop_condition(instance.status.conditions, PAUSED)
    reason, message = NOT_RUNNING
    conditions = _set(conditions, "Ready", status=False, reason=reason, message=message, instance=instance, now=now)
    return replace(
        instance.status,
        phase=phase,
        active_pods={},
        conditions=conditions,
        phase_transition_timestamps=_transitions(instance, phase, now=now),
    )


def _conditions(facts: InstanceFacts, progress: Progress, *, now: datetime) -> Conditions:
    instance = facts.instance
    conditions = instance.status.conditions
    paused = progress.phase == "Running" and wants_pause(instance)
    if progress.phase == "Running" and not paused:
        ready, reason, message = True, "GuestRunning", "its volumes are attached; no guest is run on this machine"
    else:
        ready = False
        reason, message = ("GuestPaused", "VMI was paused by user") if paused else NOT_RUNNING
    conditions = _set(conditions, "Ready", status=ready, reason=reason, message=message, instance=instance, now=now)
    if paused:
        said = "VMI was paused by user"
        conditions = _set(conditions, PAUSED, status=True, reason="PausedByUser", message=said, instance=instance, now=now)
    else:
        conditions = drop_condition(conditions, PAUSED)
    if progress.phase == "Running":
        moves, reason, message = _migratable(facts)
        conditions = _set(conditions, LIVE_MIGRATABLE, status=moves, reason=reason, message=message, instance=instance, now=now)
    for one in (SYNCHRONIZED, PROVISIONING, SCHEDULED):
        if progress.blocker is None or progress.blocker[0] != one:
            conditions = drop_condition(conditions, one)
    if progress.blocker is not None:
        kind, status, reason, message = progress.blocker
        conditions = _set(conditions, kind, status=status, reason=reason, message=message, instance=instance, now=now)
    return conditions


def _migratable(facts: InstanceFacts) -> tuple[bool, str, str]:
    """Whether it can go to another node while it runs: what it writes to has to be there and here at once."""
    claims = ((one.claim, facts.state(one).claim) for one in facts.instance.spec.volumes if one.claim)
    for name, claim in claims:
        if claim is not None and "ReadWriteMany" not in claim.spec.access_modes:
            return False, "DisksNotLiveMigratable", f"claim {name} is not ReadWriteMany, so no second node can have it"
    return True, "Migratable", "every volume can be on two nodes at once"


def _set(
    conditions: Conditions,
    kind: str,
    *,
    status: bool,
    reason: str,
    message: str,
    instance: VirtualMachineInstance,
    now: datetime,
) -> Conditions:
    generation = instance.metadata.generation
    return set_condition(conditions, kind, status=status, reason=reason, message=message, generation=generation, now=now)


def _volume_statuses(facts: InstanceFacts) -> tuple[InstanceVolumeStatus, ...]:
    """Of those that have claims. A device has the name that it would have in the guest."""
    fixed, added = iter(range(1 << 20)), iter(range(1 << 20))
    made = []
    for volume in facts.instance.spec.volumes:
        if volume.claim:
            plugged = is_hotplugged(volume)
            target = _device("sd", next(added)) if plugged else _device("vd", next(fixed))
            made.append(_volume_status(volume, facts.state(volume), target=target, plugged=plugged))
    return tuple(made)


def _volume_status(volume: MachineVolume, state: ClaimState, *, target: str, plugged: bool) -> InstanceVolumeStatus:
    claim = state.claim
    info = None
    if claim is not None:
        info = AttachedClaim(
            claim_name=volume.claim,
            access_modes=claim.spec.access_modes,
            capacity=claim.status.capacity,
            requests=claim.spec.resources.requests,
            volume_mode=claim.spec.volume_mode,
        )
    found = InstanceVolumeStatus(name=volume.name, target=target, persistent_volume_claim_info=info)
    if not plugged:
        return found
    phase, reason, message = _hotplug(volume, state)
    return replace(found, phase=phase, reason=reason, message=message, hotplug_volume=HotplugStatus())


def _hotplug(volume: MachineVolume, state: ClaimState) -> tuple[str, str, str]:
    if state.claim is None:
        return "Pending", NO_CLAIM, f"PVC {volume.claim} does not exist"
    if not state.is_bound:
        return "Pending", UNBOUND, f"claim {volume.claim} is not bound yet"
    if not state.attached:
        return "Bound", "VolumeNotAttached", f"volume {volume.name} is not attached to the node yet"
    return "Ready", "VolumeReady", f"volume {volume.name} is attached to the VM"


def _device(prefix: str, number: int) -> str:
    """vda, vdb … vdz, vdaa."""
    letters = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(ord("a") + rest) + letters
    return prefix + letters


def _transitions(instance: VirtualMachineInstance, phase: str, *, now: datetime) -> tuple[PhaseTransition, ...]:
    """When it first came to each phase."""
    before = instance.status.phase_transition_timestamps
    if any(one.phase == phase for one in before):
        return before
    return (*before, PhaseTransition(phase=phase, phase_transition_timestamp=timestamp(now)))
