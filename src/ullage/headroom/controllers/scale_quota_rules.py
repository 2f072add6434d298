"""By how much a core ResourceQuota is raised while instances migrate, and what it falls back to. Pure.

Rancher writes the quota too, at any moment, and knows nothing of ours. So what it was raised from, and to, stands on the quota
itself, written in the same request: a value that is still the one we wrote has its base there, and any other value is a base
that somebody else has set since. Whoever is started anew, or runs beside another, comes to the same sum.

The base is what stands in the quota, and not what the namespace's annotation asks for: Rancher does not grant all of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from ullage.errors import Terminal
from ullage.headroom.accounts import CPU, MEMORY
from ullage.headroom.cost import read_cost
from ullage.headroom.counting import is_finished
from ullage.kube.builtin.core import CoreQuota
from ullage.ledger.amounts import Amounts
from ullage.ledger.charging.stamps import BadStamp
from ullage.quantity import ZERO, Quantity, QuantityError
from ullage.vms.api.machines import VirtualMachineInstance
from ullage.vms.api.migrations import VirtualMachineInstanceMigration

MADE_BY_RANCHER: Final = "resourcequota.management.cattle.io/default-resource-quota=true"
RAISED: Final = "ullage.io/raised-for-migrations"
FIELD: Final = f"metadata.annotations[{RAISED}]"

# Harvester's: a quota that is never to be raised, and what Harvester itself has raised one for.
OPTED_OUT: Final = "harvesterhci.io/skipResourceQuotaAutoScaling"
RAISED_BY_HARVESTER: Final = ("harvesterhci.io/migratingUID-", "harvesterhci.io/migrating-")

_CPU: Final = ("limits.cpu", "requests.cpu", "cpu")
_MEMORY: Final = ("limits.memory", "requests.memory", "memory")
_PODS: Final = ("pods", "count/pods")


NAMED: Final = 20  # instances that the annotation names, for people


class BadRecord(Terminal):
    """What a quota was raised from cannot be read: it is left as it is, since what we had added would be added again."""


@dataclass(frozen=True, slots=True)
class Moving:
    """An instance that migrates: for so long there are two pods of it."""

    instance: str
    cost: Amounts


@dataclass(frozen=True, slots=True)
class QuotaChange:
    """What the quota is to be: `hard` are those of its limits that differ; no `record` takes the annotation off."""

    hard: Mapping[str, str]
    record: str | None

    @property
    def merge(self) -> Mapping[str, object]:
        spec = {"spec": {"hard": dict(self.hard)}} if self.hard else {}
        return {"metadata": {"annotations": {RAISED: self.record}}, **spec}


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    base: dict[str, str]
    hard: dict[str, str]
    instances: list[str]


_decoder: Final = msgspec.json.Decoder(_Record)


def moving(
    migrations: Iterable[VirtualMachineInstanceMigration], instance_of: Callable[[str], VirtualMachineInstance | None]
) -> tuple[Moving, ...]:
    """The instances that migrate, or are about to. One that is not there, or has come to its end, moves nowhere, whoever asks
    for it: so no more is ever added than what runs in the namespace. What nobody has stamped yet will be, and wakes us then."""
    found: dict[str, Moving] = {}
    for migration in migrations:
        instance = instance_of(migration.spec.vmi_name)
        if instance is None or is_finished(instance) or is_finished(migration):
            continue
        try:
            found[instance.metadata.name] = Moving(instance.metadata.name, read_cost(instance.metadata))
        except BadStamp:
            continue
    return tuple(found[name] for name in sorted(found))


def plan(quota: CoreQuota, moving: Iterable[Moving]) -> QuotaChange | None:
    """None: it is as it ought to be. Raises BadRecord."""
    had = _record(quota)
    hard = _amounts(quota.spec.hard, field="spec.hard")
    base = _base(hard, had)
    found = () if _left_to_others(quota) else tuple(moving)
    added = {name: amount for name, amount in _needed(found).items() if base.get(name, ZERO) > ZERO}
    wanted = {name: amount + added.get(name, ZERO) for name, amount in base.items()}
    record = _written(base, wanted, added, found) if added else None
    changed = {name: str(amount) for name, amount in wanted.items() if amount != hard[name]}
    if not changed and record == quota.metadata.annotations.get(RAISED):
        return None
    return QuotaChange(changed, record)


def _left_to_others(quota: CoreQuota) -> bool:
    marks = quota.metadata.annotations
    return marks.get(OPTED_OUT) == "true" or any(mark.startswith(RAISED_BY_HARVESTER) for mark in marks)


def _base(hard: Mapping[str, Quantity], had: _Record | None) -> dict[str, Quantity]:
    if had is None:
        return dict(hard)
    base, written = _amounts(had.base, field=FIELD), _amounts(had.hard, field=FIELD)
    return {name: base[name] if name in base and amount == written.get(name) else amount for name, amount in hard.items()}


def _needed(moving: Iterable[Moving]) -> dict[str, Quantity]:
    """What a pod asks for is at most its limits. The cost of an instance counts once, however many migrations name it."""
    costs = {one.instance: one.cost for one in moving}
    cpu = sum((one[CPU] for one in costs.values()), ZERO)
    memory = sum((one[MEMORY] for one in costs.values()), ZERO)
    pods = Quantity.of(len(costs))
    amounts = {**dict.fromkeys(_CPU, cpu), **dict.fromkeys(_MEMORY, memory), **dict.fromkeys(_PODS, pods)}
    return {name: amount for name, amount in amounts.items() if amount > ZERO}


def _written(
    base: Mapping[str, Quantity], wanted: Mapping[str, Quantity], added: Mapping[str, Quantity], moving: Iterable[Moving]
) -> str:
    record = _Record(
        base={name: str(base[name]) for name in sorted(added)},
        hard={name: str(wanted[name]) for name in sorted(added)},
        instances=sorted({one.instance for one in moving})[:NAMED],
    )
    return msgspec.json.encode(record).decode()


def _record(quota: CoreQuota) -> _Record | None:
    text = quota.metadata.annotations.get(RAISED)
    if text is None:
        return None
    try:
        return _decoder.decode(text)
    except msgspec.DecodeError as error:
        raise _unreadable(text, str(error)) from error


def _amounts(values: Mapping[str, str | int], *, field: str) -> dict[str, Quantity]:
    try:
        return {name: Quantity.parse(str(value)) for name, value in values.items()}
    except QuantityError as error:
        raise BadRecord(f"{field}: {dict(values)}: {error}") from error


def _unreadable(text: str, problem: str) -> BadRecord:
    return BadRecord(
        f"{FIELD}: {text!r} cannot be read ({problem}): set spec.hard to what it is to be, and remove the annotation"
    )
