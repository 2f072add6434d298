"""What `ullage usage` reads of the VMs of a namespace: how its two shares stand, what VMs ask for and what they cost, and which
migrations hold the reserve.

Ledgers say it exactly. Those who may not read them are told what stands on the objects that they may read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from ullage.cli.common.accounts import Standing
from ullage.errors import UllageError
from ullage.headroom.accounts import ABOUT, MAINTENANCE, RESOURCES, VMS
from ullage.headroom.charges import instance_takes, machine_owner
from ullage.headroom.counting import counts, is_finished
from ullage.headroom.namespaces import EXCEEDED, EXCEEDS
from ullage.headroom.shares import limits_of, read_shares
from ullage.kube.builtin.core import NAMESPACES
from ullage.kube.client.client import Client
from ullage.kube.errors import Forbidden, NotFound
from ullage.kube.kinds import Kind, Meta, Object
from ullage.ledger.accounts import Account
from ullage.ledger.amounts import Amounts, Cell, Takings
from ullage.ledger.charging.stamps import read_stamp
from ullage.ledger.limits import is_about
from ullage.quantity import Format, Quantity
from ullage.times import read_time
from ullage.vms.api.machines import WHOLE_INSTANCES, WHOLE_VIRTUAL_MACHINES, WholeInstance, WholeMachine
from ullage.vms.api.migrations import MIGRATIONS, VirtualMachineInstanceMigration
from ullage.vms.pricing import asked_of

FROM_OBJECTS: Final = "ledgers may not be read: what VMs take is what stands on those that may be read, and not on other Pods"
_MILLI: Final = 10**6


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """Of a namespace: those that count, what they ask for, and what they cost."""

    running: int
    stopped: int
    asked: Amounts
    cost: Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Instances:
    """Of a namespace: those that run and pay for themselves, since no VM that counts controls them."""

    running: int
    asked: Amounts
    cost: Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A migration that has not ended, and what it holds of the reserve."""

    name: str
    vm: str
    phase: str
    since: datetime | None
    holds: Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute:
    """How the shares of a namespace stand. `machines` and `instances` are None where they may not be read, or were not asked
    about."""

    namespace: str
    accounts: Sequence[Account]
    machines: Machines | None = None
    instances: Instances | None = None
    moves: Sequence[Move] = ()
    exceeded: bool = False


def shares_in(standing: Standing) -> Compute | None:
    """What a ledger alone says; None: VMs take nothing there, and have no share."""
    accounts = [one for one in standing.accounts if is_about(one.name, ABOUT)]
    return Compute(namespace=standing.namespace, accounts=accounts) if accounts else None


async def read_compute(
    client: Client, namespace: str, standing: Standing | None, *, hidden: bool, notes: list[str]
) -> Compute | None:
    """Everything of one namespace. `standing` is what its ledger says; `hidden`: that may not be read."""
    found = shares_in(standing) if standing is not None and standing.exact else None
    place = await _find(client, namespace)
    limits = limits_of(read_shares(place.metadata.annotations).shares) if place is not None else {}
    if found is None and not limits:
        return None  # VMs take nothing that is counted, and have no share
    machines = await _listed(client, WHOLE_VIRTUAL_MACHINES, namespace, notes)
    instances = [one for one in await _listed(client, WHOLE_INSTANCES, namespace, notes) or () if not is_finished(one.partly)]
    alone = _without_machine(instances, machines) if machines is not None else []
    moving = [one for one in await _listed(client, MIGRATIONS, namespace, notes) or () if not is_finished(one)]
    if found is None:
        notes += [FROM_OBJECTS] if hidden else []
        found = Compute(namespace=namespace, accounts=_accounts(limits, machines or (), moving, instances))
    return Compute(
        namespace=namespace,
        accounts=found.accounts,
        machines=_machines(machines, instances) if machines is not None else None,
        instances=_instances(alone) if alone else None,
        moves=[_move(one) for one in sorted(moving, key=lambda one: (one.metadata.creation_timestamp, one.metadata.name))],
        exceeded=place is not None and place.metadata.annotations.get(EXCEEDS) == EXCEEDED,
    )


def _accounts(
    limits: dict[Cell, Quantity],
    machines: Iterable[WholeMachine],
    moving: Iterable[VirtualMachineInstanceMigration],
    instances: Iterable[WholeInstance],
) -> list[Account]:
    taken = Takings()
    for one in instances:
        taken += _taken(one)
    for meta in (*(one.metadata for one in machines if counts(one.partly)), *(one.metadata for one in moving)):
        taken += _stamp(meta)
    return [replace(Account.empty(cell), used=taken[cell], limit=limits.get(cell)) for cell in sorted({*limits, *taken})]


def _without_machine(instances: Iterable[WholeInstance], machines: Iterable[WholeMachine]) -> list[WholeInstance]:
    paying = {one.metadata.uid for one in machines if counts(one.partly)}
    return [one for one in instances if (owner := machine_owner(one.metadata)) is None or owner.uid not in paying]


def _instances(found: Sequence[WholeInstance]) -> Instances:
    asked = cost = Amounts()
    for one in found:
        asked += _asked(one.spec)
        cost += _taken(one).account(VMS)
    return Instances(running=len(found), asked=asked, cost=cost)


def _machines(found: Sequence[WholeMachine], instances: Iterable[WholeInstance]) -> Machines:
    """Of a VM that runs, its instance says what it asks for: an instance type is in no template."""
    runs = {owner.uid: one.spec for one in instances if (owner := machine_owner(one.metadata)) is not None}
    running = [one for one in found if counts(one.partly)]
    asked = cost = Amounts()
    for one in running:
        asked += _asked(runs.get(one.metadata.uid) or _template(one))
        cost += _stamp(one.metadata).account(VMS)
    return Machines(running=len(running), stopped=len(found) - len(running), asked=asked, cost=cost)


def _template(machine: WholeMachine) -> Mapping[str, Any]:
    template = machine.spec.get("template")
    spec = template.get("spec") if isinstance(template, dict) else None
    return spec if isinstance(spec, dict) else {}


def _asked(spec: Mapping[str, Any]) -> Amounts:
    """The limits, as the owner wrote them; of a spec that cannot be read, nothing."""
    try:
        asked = asked_of(spec)
    except UllageError:
        return Amounts()
    return Amounts(
        dict(zip(RESOURCES, (Quantity(asked.cpu * _MILLI), Quantity.of(asked.memory, Format.BINARY_SI)), strict=True))
    )


def _move(found: VirtualMachineInstanceMigration) -> Move:
    meta = found.metadata
    return Move(
        name=meta.name,
        vm=found.spec.vmi_name,
        phase=found.status.phase or "Pending",
        since=read_time(meta.creation_timestamp),
        holds=_stamp(meta).account(MAINTENANCE),
    )


def _taken(instance: WholeInstance) -> Takings:
    try:
        return instance_takes(instance.partly)
    except UllageError:
        return Takings()  # it is stamped in a moment


def _stamp(meta: Meta) -> Takings:
    try:
        return read_stamp(meta)
    except UllageError:
        return Takings()  # it is stamped in a moment


async def _find(client: Client, namespace: str) -> Object | None:
    try:
        return await client.find(NAMESPACES, namespace)
    except Forbidden:
        return None


async def _listed(client: Client, kind: Kind[Any], namespace: str, notes: list[str]) -> Sequence[Any] | None:
    """None: they may not be read, or there is no KubeVirt."""
    try:
        return (await client.list(kind, namespace)).items
    except NotFound:
        return None
    except Forbidden:
        notes.append(f"{kind.name} may not be read: they are not told of")
        return None
