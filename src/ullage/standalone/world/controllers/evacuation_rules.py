"""Which instances leave a node that is being drained now, and which wait. As KubeVirt's evacuation decides it. Pure.

A node is drained as long as it has the taint that KubeVirt's configuration names; a single instance is asked to leave by the
name of its node in its status. Never more go at a time than may be migrated at a time. One that was refused, and one whose
migration failed, waits before it is tried again, longer each time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from ullage.kube.backoff import Backoff
from ullage.kube.builtin.core import Node
from ullage.kube.objects import Json, find_condition, is_deleting
from ullage.standalone.world.migration_phases import FAILED, LIVE_MIGRATABLE, is_final
from ullage.times import read_time
from ullage.vms.api.machines import VirtualMachineInstance
from ullage.vms.api.migrations import MIGRATIONS
from ullage.vms.api.migrations import VirtualMachineInstanceMigration as Migration
from ullage.vms.migration_settings import MigrationSettings

EVACUATION: Final = "kubevirt.io/evacuationMigration"  # on a migration: the node that is drained
NAME: Final = "kubevirt-evacuation"
LIVE: Final = "LiveMigrate"
MOVES: Final = (LIVE, "LiveMigrateIfPossible")
REFUSED_AGAIN: Final = Backoff(first=1.0, cap=30.0)
FAILED_AGAIN: Final = Backoff(first=5.0, cap=300.0)


@dataclass(frozen=True, slots=True)
class RefusedMigration:
    """How often in a row, and the earliest moment of the next try, on the clock that never jumps."""

    times: int
    due: float


@dataclass(frozen=True, slots=True)
class Full:
    """A namespace that had no room, and how many of its migrations were under way then: until one of them is over, or its
    time has come, nobody there is asked for again."""

    underway: int
    due: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EvacuationFacts:
    node: Node
    instances: Sequence[VirtualMachineInstance]  # that are on it
    migrations: Mapping[str, Sequence[Migration]]  # of each of those, by its uid
    begun: frozenset[str] = frozenset()  # uids of those whose migration is made, and may not be seen yet
    underway: int  # migrations in the whole cluster that are not over
    refusals: Mapping[str, RefusedMigration]  # by the instance's uid
    full: Mapping[str, float] = field(default_factory=dict)  # until when namespaces are not asked, on the same clock
    settings: MigrationSettings
    strategy: str = LIVE  # of an instance that has none of its own
    now: datetime
    moment: float

    def is_underway(self, instance: VirtualMachineInstance) -> bool:
        uid = instance.metadata.uid
        return uid in self.begun or any(not is_final(one) for one in self.migrations.get(uid, ()))


@dataclass(frozen=True, slots=True)
class Evacuate:
    """Those that are to go now, the least refused first, and how long until another one may be tried."""

    leave: tuple[VirtualMachineInstance, ...] = ()
    after: float | None = None


def plan_evacuation(facts: EvacuationFacts) -> Evacuate:
    waiting = [one for one in facts.instances if is_to_leave(one, facts) and not facts.is_underway(one)]
    if not waiting:
        return Evacuate()
    outbound = sum(1 for one in facts.instances if facts.is_underway(one))
    free = min(facts.settings.per_cluster - facts.underway, facts.settings.per_node - outbound)
    waits = {one.metadata.uid: wait_of(one, facts) for one in waiting}
    ready = sorted((one for one in waiting if waits[one.metadata.uid] <= 0), key=lambda one: _order(one, facts))
    later = [seconds for seconds in waits.values() if seconds > 0]
    return Evacuate(tuple(ready[: max(0, free)]), min(later, default=None))


def is_drained(node: Node, taint: str) -> bool:
    return any(one.get("key") == taint for one in node.spec.taints)


def is_to_leave(instance: VirtualMachineInstance, facts: EvacuationFacts) -> bool:
    status, node = instance.status, facts.node
    asked = is_drained(node, facts.settings.drain_taint) or status.evacuation_node_name == node.metadata.name
    if not asked or status.phase != "Running" or is_deleting(instance.metadata):
        return False
    if (instance.spec.eviction_strategy or facts.strategy) not in MOVES:
        return False
    condition = find_condition(status.conditions, LIVE_MIGRATABLE)
    return condition is None or condition.status != "False"


def wait_of(instance: VirtualMachineInstance, facts: EvacuationFacts) -> float:
    """The seconds until it may be tried; none, or fewer, if it may now."""
    refusal = facts.refusals.get(instance.metadata.uid)
    due = max(refusal.due if refusal is not None else 0.0, facts.full.get(instance.metadata.namespace, 0.0))
    found = max(0.0, due - facts.moment)
    failed = [one for one in facts.migrations.get(instance.metadata.uid, ()) if one.status.phase == FAILED]
    ends = [read_time(one.status.migration_state.end_timestamp) for one in failed if one.status.migration_state is not None]
    if last := max((one for one in ends if one is not None), default=None):
        found = max(found, FAILED_AGAIN.delay(len(failed)) - (facts.now - last).total_seconds())
    return found


def _order(instance: VirtualMachineInstance, facts: EvacuationFacts) -> tuple[int, str, str]:
    refusal = facts.refusals.get(instance.metadata.uid)
    return refusal.times if refusal is not None else 0, instance.metadata.namespace, instance.metadata.name


def new_migration(instance: VirtualMachineInstance, node: str, *, before: Sequence[Migration]) -> Json:
    """Its name follows from the instance, and from the migrations that it has had: made twice it is one."""
    meta = instance.metadata
    had = sorted(one.metadata.uid for one in before)
    digest = hashlib.sha256("/".join((meta.uid, node, *had)).encode()).hexdigest()[:10]
    return {
        "apiVersion": MIGRATIONS.api_version,
        "kind": MIGRATIONS.kind,
        "metadata": {"name": f"{NAME}-{digest}", "namespace": meta.namespace, "annotations": {EVACUATION: node}},
        "spec": {"vmiName": meta.name},
    }
