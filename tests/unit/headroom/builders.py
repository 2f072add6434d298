"""Machines, instances and migrations, as bodies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ullage.kube.kinds import Kind
from ullage.ledger.charging.stamps import COST, STAMP
from ullage.vms.api.machines import INSTANCES, VIRTUAL_MACHINES
from ullage.vms.api.migrations import MIGRATIONS
from ullage.vms.pricing import Pricing

Json = dict[str, Any]
SEED = Pricing(None)  # the formula of the design
TEAM = "team"
UID = "uid-of-the-vm"
ONE = '{"compute/vms":{"cpu":"1","memory":"1222Mi"}}'  # what the machine below costs
ONE_COST = '{"cpu":"1","memory":"1222Mi"}'


def domain(cpu: str = "1", memory: str = "1Gi", guest: str = "924Mi") -> Json:
    """That of the design: 1 CPU, a limit of 1Gi of which the guest has 924Mi."""
    return {
        "cpu": {"cores": int(cpu) if cpu.isdigit() else 1},
        "memory": {"guest": guest},
        "resources": {"limits": {"cpu": cpu, "memory": memory}},
    }


def machine(
    name: str = "db",
    *,
    strategy: str | None = "Halted",
    running: bool | None = None,
    printable: str = "",
    requests: Iterable[str] = (),
    acted: str = "",
    created: bool = False,
    annotations: Mapping[str, str] | None = None,
    template: Json | None = None,
    **meta: Any,
) -> Json:
    """`strategy` None: the machine has `running` instead. `acted`: the strategy that was last acted upon."""
    says = {"running": running} if strategy is None else {"runStrategy": strategy}
    asked = [{"action": one} for one in requests]
    status = {"printableStatus": printable, "stateChangeRequests": asked, "runStrategy": acted, "created": created}
    return {
        "apiVersion": VIRTUAL_MACHINES.api_version,
        "kind": VIRTUAL_MACHINES.kind,
        "metadata": {"name": name, "namespace": TEAM, "annotations": dict(annotations or {}), **meta},
        "spec": {**says, "template": {"spec": {"domain": template if template is not None else domain()}}},
        "status": {key: value for key, value in status.items() if value},
    }


def instance(
    name: str = "db",
    *,
    owner: str = UID,
    owner_name: str = "",
    phase: str = "Running",
    annotations: Mapping[str, str] | None = None,
    given: Json | None = None,
    **meta: Any,
) -> Json:
    """`owner`: the uid of its machine; empty: nobody controls it."""
    reference = {
        "apiVersion": VIRTUAL_MACHINES.api_version,
        "kind": VIRTUAL_MACHINES.kind,
        "name": owner_name or name,
        "uid": owner,
        "controller": True,
    }
    owners = {"ownerReferences": [reference]} if owner else {}
    return {
        "apiVersion": INSTANCES.api_version,
        "kind": INSTANCES.kind,
        "metadata": {"name": name, "namespace": TEAM, "annotations": dict(annotations or {}), **owners, **meta},
        "spec": {"domain": given if given is not None else domain()},
        "status": {"phase": phase} if phase else {},
    }


def migration(name: str = "move", *, of: str = "db", phase: str = "", annotations: Mapping[str, str] | None = None) -> Json:
    return {
        "apiVersion": MIGRATIONS.api_version,
        "kind": MIGRATIONS.kind,
        "metadata": {"name": name, "namespace": TEAM, "annotations": dict(annotations or {})},
        "spec": {"vmiName": of},
        "status": {"phase": phase} if phase else {},
    }


def stamped(takes: str = ONE, *, cost: str = "") -> dict[str, str]:
    """Annotations."""
    return {STAMP: takes, **({COST: cost} if cost else {})}


def made(kind: Kind[Any], body: Json) -> Any:
    return msgspec.convert(body, kind.type)
