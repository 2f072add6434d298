"""How far a migration is, and what comes next. The phases are KubeVirt's. Pure.

    Pending          waits for its turn, and for a pod on another node
    Scheduling       the pod is there; Scheduled: it runs
    PreparingTarget  the instance says where it goes; TargetReady: so does its time of beginning
    Running          memory is copied
    Succeeded        it runs on the new node, and the pod on the old one is gone
    Failed           it runs where it ran before, and the pod on the new one is gone

What a migration holds of its namespace's reserve is free when it is over: so the pod that is not needed any more goes before
that is said. Each step follows from the objects alone, so this may end at any moment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from ullage.kube.builtin.core import Pod
from ullage.kube.objects import drop_condition, find_condition, is_deleting, is_true, set_condition
from ullage.standalone.world.controllers.migration_copying import Copied, Copying, GivenUp
from ullage.standalone.world.migration_phases import (
    FAILED,
    LIVE_MIGRATABLE,
    PENDING,
    PREPARING_TARGET,
    RUNNING,
    SCHEDULED,
    SCHEDULING,
    SUCCEEDED,
    TARGET_READY,
    is_final,
)
from ullage.times import read_time, timestamp
from ullage.vms.api.machines import MigrationState, PhaseTransition, VirtualMachineInstance
from ullage.vms.api.migrations import MigrationStatus
from ullage.vms.api.migrations import VirtualMachineInstanceMigration as Migration
from ullage.vms.lifecycle import is_over
from ullage.vms.migration_settings import MigrationSettings

FINALIZER: Final = "kubevirt.io/migrationJobFinalize"
REJECTED: Final = "migrationRejectedByResourceQuota"  # the condition of one whose pod was refused

KEPT: Final = 5  # migrations of an instance that stay to be seen when they are over
UNSCHEDULABLE_SECONDS: Final = 300.0  # for the pod to find a node and run, as in KubeVirt


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationFacts:
    migration: Migration
    instance: VirtualMachineInstance | None
    source: Pod | None = None  # that the instance runs in, or ran in before
    target: Pod | None = None
    rival: str = ""  # another migration of the instance, which began earlier
    has_turn: bool = True
    superseded: bool = False  # it is over, and enough later ones are
    copying: Copying = None
    now: datetime

    @property
    def state(self) -> MigrationState | None:
        """What the instance says of this very migration."""
        found = self.instance.status.migration_state if self.instance is not None else None
        return found if found is not None and found.migration_uid == self.migration.metadata.uid else None


# --- what is to be done ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LeaveBe:
    """Nothing, for so many seconds at most."""

    after: float | None = None


@dataclass(frozen=True, slots=True)
class HoldMigration:
    """It is not to go before its pod is."""


@dataclass(frozen=True, slots=True)
class ReleaseMigration:
    """It is over, and may go."""


@dataclass(frozen=True, slots=True)
class RemoveMigration:
    """Nobody needs to see it any more."""


@dataclass(frozen=True, slots=True)
class MakeTarget:
    """The pod on another node."""


@dataclass(frozen=True, slots=True)
class EndPod:
    pod: Pod


@dataclass(frozen=True, slots=True)
class Become:
    """Its next phase; of a Failed one, why."""

    phase: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Tell:
    """What the instance says of it. With a pod it runs in that one from now on."""

    state: MigrationState
    pod: Pod | None = None


Plan = LeaveBe | HoldMigration | ReleaseMigration | RemoveMigration | MakeTarget | EndPod | Become | Tell


def plan_migration(facts: MigrationFacts) -> Plan:
    migration, state = facts.migration, facts.state
    held = FINALIZER in migration.metadata.finalizers
    if is_final(migration):
        return _close(facts, held=held)
    if not held:
        return LeaveBe() if is_deleting(migration.metadata) else HoldMigration()
    if state is not None and state.completed:
        return _finish(facts, state)
    if reason := hopeless(facts):
        return _fail(facts, reason)
    return BY_PHASE[migration.status.phase](facts)


def hopeless(facts: MigrationFacts) -> str:
    """Why it cannot come to a good end; empty: it may."""
    instance, phase = facts.instance, facts.migration.status.phase
    if is_deleting(facts.migration.metadata):
        return "the migration was deleted before it had ended"
    if instance is None or is_over(instance) or is_deleting(instance.metadata):
        return f"instance {facts.migration.spec.vmi_name} does not run any more"
    if facts.rival:
        return f"migration {facts.rival} of the same instance goes on already"
    if (condition := find_condition(instance.status.conditions, LIVE_MIGRATABLE)) and condition.status == "False":
        return f"the instance cannot be migrated: {condition.message}"
    if phase not in BY_PHASE:
        return f"the phase {phase} is not known on this machine"
    if phase in ("", PENDING):
        return ""
    # The time comes first: the pod is ended for it, and its absence would then be told as the reason.
    if phase == SCHEDULING and _waited(facts) >= UNSCHEDULABLE_SECONDS and not _target_runs(facts):
        return f"its pod did not start on another node within {UNSCHEDULABLE_SECONDS:.0f} seconds"
    if facts.target is None or facts.target.is_over or is_deleting(facts.target.metadata):
        return "the pod on the new node is gone"
    return ""


# --- the ends --------------------------------------------------------------------------------------------------------


def _finish(facts: MigrationFacts, state: MigrationState) -> Plan:
    """The instance says that it is over: the pod that is not needed goes, and the migration says so too."""
    if state.failed:
        return _fail(facts, state.failure_reason)
    if facts.source is not None and not facts.source.is_over:
        return EndPod(facts.source)
    return Become(SUCCEEDED)


def _fail(facts: MigrationFacts, reason: str) -> Plan:
    state = facts.state
    if state is not None and not state.completed:
        aborted = is_deleting(facts.migration.metadata)
        return Tell(
            replace(
                state,
                completed=True,
                failed=True,
                failure_reason=reason,
                end_timestamp=timestamp(facts.now),
                abort_requested=aborted,
                abort_status="Succeeded" if aborted else "",
            )
        )
    if facts.target is not None and not is_deleting(facts.target.metadata):
        return EndPod(facts.target)
    return Become(FAILED, reason)


def _close(facts: MigrationFacts, *, held: bool) -> Plan:
    migration = facts.migration
    if migration.status.phase == FAILED and facts.target is not None and not is_deleting(facts.target.metadata):
        return EndPod(facts.target)
    if held:
        return ReleaseMigration()
    if is_deleting(migration.metadata):
        return LeaveBe()
    return RemoveMigration() if facts.instance is None or facts.superseded else LeaveBe()


# --- phase by phase --------------------------------------------------------------------------------------------------


def _begin(facts: MigrationFacts) -> Plan:
    return Become(PENDING)


def _pending(facts: MigrationFacts) -> Plan:
    if facts.target is not None:
        return Become(SCHEDULING)
    runs = facts.instance is not None and facts.instance.status.phase == "Running"
    return MakeTarget() if runs and facts.has_turn else LeaveBe()


def _scheduling(facts: MigrationFacts) -> Plan:
    return Become(SCHEDULED) if _target_runs(facts) else LeaveBe(UNSCHEDULABLE_SECONDS - _waited(facts))


def _target_runs(facts: MigrationFacts) -> bool:
    target = facts.target
    return target is not None and bool(target.spec.node_name) and target.status.phase == "Running"


def _scheduled(facts: MigrationFacts) -> Plan:
    if facts.state is not None:
        return Become(PREPARING_TARGET)
    instance, target = facts.instance, facts.target
    if instance is None or target is None:
        return LeaveBe()
    return Tell(
        MigrationState(
            migration_uid=facts.migration.metadata.uid,
            source_node=instance.status.node_name,
            source_pod=facts.source.metadata.name if facts.source is not None else "",
            target_node=target.spec.node_name,
            target_pod=target.metadata.name,
        )
    )


def _preparing(facts: MigrationFacts) -> Plan:
    return Become(TARGET_READY)


def _ready(facts: MigrationFacts) -> Plan:
    state = facts.state
    if state is not None and not state.start_timestamp:
        return Tell(replace(state, start_timestamp=timestamp(facts.now)))
    return Become(RUNNING)


def _running(facts: MigrationFacts) -> Plan:
    state, outcome = facts.state, facts.copying
    if state is None:  # somebody wrote over it: it is begun anew, which only takes longer
        return _scheduled(facts)
    began = read_time(state.start_timestamp)
    if began is None:
        return _ready(facts)
    if outcome is None:
        return LeaveBe()
    left = outcome.after - (facts.now - began).total_seconds()
    if left > 0:
        return LeaveBe(left)
    match outcome:
        case GivenUp(_, reason):
            return _fail(facts, reason)
        case Copied(_, mode):
            done = replace(state, completed=True, end_timestamp=timestamp(facts.now), mode=mode)
            return Tell(done, facts.target)


BY_PHASE: Final[Mapping[str, Callable[[MigrationFacts], Plan]]] = {
    "": _begin,
    PENDING: _pending,
    SCHEDULING: _scheduling,
    SCHEDULED: _scheduled,
    PREPARING_TARGET: _preparing,
    TARGET_READY: _ready,
    RUNNING: _running,
}


def _waited(facts: MigrationFacts) -> float:
    """The seconds since it came to its phase."""
    phase = facts.migration.status.phase
    came = (one for one in facts.migration.status.phase_transition_timestamps if one.phase == phase)
    since = next((read_time(one.phase_transition_timestamp) for one in came), None)
    return max(0.0, (facts.now - since).total_seconds()) if since is not None else 0.0


# --- statuses --------------------------------------------------------------------------------------------------------


def status_of(facts: MigrationFacts, become: Become) -> MigrationStatus:
    migration, state = facts.migration, facts.state
    status = migration.status
    came = PhaseTransition(phase=become.phase, phase_transition_timestamp=timestamp(facts.now))
    if become.phase == FAILED and state is None:
        state = MigrationState(completed=True, failed=True, failure_reason=become.reason, end_timestamp=timestamp(facts.now))
    return replace(
        status,
        phase=become.phase,
        conditions=drop_condition(status.conditions, REJECTED),
        migration_state=state if state is not None else status.migration_state,
        phase_transition_timestamps=(*status.phase_transition_timestamps, came),
    )


def rejected(migration: Migration, message: str, *, now: datetime) -> MigrationStatus:
    """The core quota refused its pod: that is tried again."""
    generation = migration.metadata.generation
    conditions = set_condition(
        migration.status.conditions,
        REJECTED,
        status=True,
        reason="ExceededQuota",
        message=message,
        generation=generation,
        now=now,
    )
    return replace(migration.status, conditions=conditions)


# --- whose turn it is ------------------------------------------------------------------------------------------------


def age(migration: Migration) -> tuple[str, str]:
    """The oldest first."""
    return migration.metadata.creation_timestamp, migration.metadata.name


def turns(pending: Sequence[tuple[Migration, str]], active: Sequence[str], settings: MigrationSettings) -> frozenset[str]:
    """The uids of those that may have their pod now. Both come with the node that is left. One whose pod was refused holds up
    nobody: it goes after those that have not been tried."""
    free = settings.per_cluster - len(active)
    leaving = {node: active.count(node) for node in active}
    chosen: list[str] = []
    for migration, node in sorted(pending, key=lambda one: (is_true(one[0].status.conditions, REJECTED), age(one[0]))):
        if len(chosen) < free and leaving.get(node, 0) < settings.per_node:
            chosen.append(migration.metadata.uid)
            leaving[node] = leaving.get(node, 0) + 1
    return frozenset(chosen)
