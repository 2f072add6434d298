"""The kinds that take compute: whose ledger each object is in, and what it takes there. Both stand on the object.

All are in the ledger of their namespace. What they take is stamped on them, and they take it or they do not: a machine that is
stopped, an instance or a migration that has come to its end and a restore that is done take nothing. So a machine is started by
a write to its status, where no annotation can be changed, and yet is charged.

An instance whose machine pays has a stamp that is empty, or has what it costs beyond that. Where no machine controls it any
more, as when that was deleted alone, it takes all that it costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from ullage.headroom.accounts import VMS, stamp_for
from ullage.headroom.cost import read_cost
from ullage.headroom.counting import counts, is_finished
from ullage.headroom.namespaces import NOT_OURS
from ullage.headroom.pods import pod_takes
from ullage.headroom.shares import ShareError, limits_of, read_shares
from ullage.kube.builtin.core import NAMESPACES
from ullage.kube.builtin.watched_pods import WATCHED_PODS
from ullage.kube.kinds import Kind, Meta, Object, OwnerReference
from ullage.kube.objects import controller_of
from ullage.kube.slices import Part, Wiring
from ullage.ledger.amounts import NOTHING, Limits, Takings
from ullage.ledger.charging.registry import Charged, registry_of
from ullage.ledger.charging.stamps import COST, STAMP, read_stamp
from ullage.ledger.keys import ledger_name
from ullage.ledger.service.limit_views import LimitEvaluator
from ullage.ledger.service.views import Evaluator
from ullage.vms.api.machines import GROUP, INSTANCES, VIRTUAL_MACHINES, VirtualMachine, VirtualMachineInstance
from ullage.vms.api.migrations import MIGRATIONS, VirtualMachineInstanceMigration
from ullage.vms.api.restores import VM_RESTORES, VirtualMachineRestore
from ullage.vms.model import is_unfinished

T = TypeVar("T", bound=Object)


def machine_takes(machine: VirtualMachine) -> Takings:
    return read_stamp(machine.metadata) if counts(machine) else NOTHING


def instance_takes(instance: VirtualMachineInstance) -> Takings:
    meta = instance.metadata
    if is_finished(instance):
        return NOTHING
    if machine_owner(meta) is None and COST in meta.annotations:
        return stamp_for(VMS, read_cost(meta)).takes
    return read_stamp(meta)


def migration_takes(migration: VirtualMachineInstanceMigration) -> Takings:
    return NOTHING if is_finished(migration) else read_stamp(migration.metadata)


def restore_takes(restore: VirtualMachineRestore) -> Takings:
    """Until its VM is there, which takes the room over. One that was there before anybody stamped it takes nothing: its machine
    will, soon."""
    made = restore.spec.new_vm and bool(restore.status.target_uid)
    if STAMP not in restore.metadata.annotations or made or not is_unfinished(restore):
        return NOTHING
    return read_stamp(restore.metadata)


def machine_owner(meta: Meta) -> OwnerReference | None:
    """The VirtualMachine that controls an instance, if one does: the one of its own name."""
    owner = controller_of(meta)
    if owner is None or owner.kind != VIRTUAL_MACHINES.kind or owner.api_version.partition("/")[0] != GROUP:
        return None
    return owner if owner.name == meta.name else None


def _evaluator(takes: Callable[[T], Takings]) -> Evaluator[T]:
    return Evaluator(ledger_of=lambda one: ledger_name(one.metadata.namespace), takes=takes)


OF_MACHINES: Final = _evaluator(machine_takes)
OF_INSTANCES: Final = _evaluator(instance_takes)
OF_MIGRATIONS: Final = _evaluator(migration_takes)
OF_RESTORES: Final = _evaluator(restore_takes)
OF_PODS: Final = _evaluator(pod_takes)


def charged_kinds(*, restores: bool) -> dict[Kind[Any], Evaluator[Any]]:
    """`restores`: those of virtual machines are ours, and hold room until their machine is there."""
    return {
        VIRTUAL_MACHINES: OF_MACHINES,
        INSTANCES: OF_INSTANCES,
        MIGRATIONS: OF_MIGRATIONS,
        WATCHED_PODS: OF_PODS,
        **({VM_RESTORES: OF_RESTORES} if restores else {}),
    }


def _share_ledger(namespace: Object) -> str:
    return "" if namespace.metadata.name in NOT_OURS else ledger_name(namespace.metadata.name)


def _share_limits(namespace: Object) -> Limits:
    """Raises where the annotations cannot be read: then what held before goes on holding."""
    reading = read_shares(namespace.metadata.annotations)
    if reading.faults:
        raise ShareError(*reading.faults)
    return limits_of(reading.shares)


SHARE_LIMITS: Final = LimitEvaluator[Object](ledger_of=_share_ledger, limits_of=_share_limits)


def charging(*, restores: bool) -> Part[Any]:
    """What every process counts, and the limits that every process sees."""
    charged = charged_kinds(restores=restores)

    def register(wiring: Wiring) -> Iterable[Charged[Any]]:
        registry = registry_of(wiring)
        registry.register_limits(NAMESPACES, SHARE_LIMITS)
        return [registry.register(kind, evaluator) for kind, evaluator in charged.items()]

    return Part(make=register, watches=(NAMESPACES, *charged))
