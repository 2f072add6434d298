"""How the shares of a namespace read in a terminal, and for programs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from ullage.cli.common.text import NONE, ago, aligned, free, plain
from ullage.cli.usage.compute import Compute, Instances, Machines, Move
from ullage.headroom.accounts import MAINTENANCE, RESOURCES, VMS
from ullage.kube.builtin.core import PODS
from ullage.kube.objects import Json
from ullage.ledger.accounts import Account
from ullage.ledger.amounts import Amounts, spell
from ullage.times import timestamp

HEAD: Final = ("NAMESPACE", "SHARE", "RESOURCE", "USED", "RESERVED", "LIMIT", "FREE", "%")
NAMES: Final = {VMS: "VMs, pods", MAINTENANCE: "maintenance"}
LONG: Final = timedelta(hours=1)  # migrations that take longer hang, more often than not


def shares_table(found: Sequence[Compute]) -> str:
    rows = [_cells(one.namespace, account) for one in found for account in _ordered(one.accounts)]
    return aligned([HEAD, *rows])


def _ordered(accounts: Sequence[Account]) -> list[Account]:
    """What runs first, then what moves."""
    order = list(NAMES)
    return sorted(accounts, key=lambda one: (order.index(one.name) if one.name in order else len(order), one.resource))


def _cells(namespace: str, one: Account) -> tuple[str, ...]:
    limit = "none" if one.limit is None else spell(one.resource, one.limit, down=True)
    used, reserved = spell(one.resource, one.used), spell(one.resource, one.reserved)
    left = free(one.resource, one.free)
    return namespace, NAMES.get(one.name, one.name), one.resource, used, reserved, limit, left, _percent(one)


def _percent(one: Account) -> str:
    if one.limit is None or not one.limit.nanos:
        return NONE
    return str((one.used + one.reserved).nanos * 100 // one.limit.nanos)


def lines(found: Compute, *, now: datetime) -> Iterator[str]:
    """What the table does not say."""
    if found.machines is not None:
        yield from _counted(found.machines, found.instances)
    if pods := _of_pods(found.accounts):
        yield f"pods that run no VM take {_both(pods)} of the share of VMs and pods"
    for move in found.moves:
        yield _moving(move, now)
    if found.exceeded:
        yield (
            f"namespace {found.namespace} runs more than its share (exceedsQuota): until it fits, VMs are not created or"
            " changed but to stop or to shrink"
        )


def _of_pods(accounts: Sequence[Account]) -> Amounts:
    """What ordinary pods take, as the ledger has it. Pods of VMs take nothing: their VMs pay."""
    return Amounts({one.resource: one.by_kind[PODS.name] for one in accounts if one.name == VMS and PODS.name in one.by_kind})


def _counted(machines: Machines, instances: Instances | None) -> Iterator[str]:
    if machines.running:
        stopped = f", {machines.stopped} stopped" if machines.stopped else ""
        runs = f"{machines.running} {'VM runs' if machines.running == 1 else 'VMs run'}{stopped}"
        yield f"{runs}: {_sums(machines.running, machines.asked, machines.cost)}"
    elif machines.stopped and instances is not None:
        yield f"{machines.stopped} VM{' is' if machines.stopped == 1 else 's are'} stopped"
    elif instances is None:
        yield f"no VM runs{f', and {machines.stopped} stopped' if machines.stopped else ''}"
    if instances is not None:
        runs = "instance without a VM runs" if instances.running == 1 else "instances without a VM run"
        yield f"{instances.running} {runs}: {_sums(instances.running, instances.asked, instances.cost)}"


def _sums(count: int, asked: Amounts, cost: Amounts) -> str:
    who, asks, costs = ("it", "asks for", "costs") if count == 1 else ("they", "ask for", "cost")
    return f"{who} {asks} {_both(asked)}, and {costs} {_both(cost)}"


def _moving(move: Move, now: datetime) -> str:
    age = now - move.since if move.since is not None else timedelta()
    hangs = " It takes long: see `kubectl describe vmim`, or delete it." if age >= LONG else ""
    who = f"migration {plain(move.name)} of VM {plain(move.vm)}"
    return f"{who} holds {_both(move.holds)} of the maintenance share: {plain(move.phase)}, asked for {ago(age)} ago.{hangs}"


def _both(amounts: Amounts) -> str:
    cpu, memory = (spell(resource, amounts[resource]) for resource in RESOURCES)
    return f"{'no CPU' if cpu == '0' else cpu} and {'no memory' if memory == '0' else memory}"


def body(found: Compute) -> Json:
    """For programs: quantities, as Kubernetes writes them. What is not known is left out."""
    machines = found.machines
    made: Json = {
        "shares": [one.written() for one in _ordered(found.accounts)],
        "migrations": [_move_body(one) for one in found.moves],
        "exceeded": found.exceeded,
    }
    if machines is not None:
        made["vms"] = {
            "running": machines.running,
            "stopped": machines.stopped,
            "asked": machines.asked.written(),
            "cost": machines.cost.written(),
        }
    if found.instances is not None:
        made["instances"] = {
            "running": found.instances.running,
            "asked": found.instances.asked.written(),
            "cost": found.instances.cost.written(),
        }
    return made


def _move_body(move: Move) -> Json:
    since = {"since": timestamp(move.since)} if move.since is not None else {}
    return {"name": move.name, "vm": move.vm, "phase": move.phase, **since, "holds": move.holds.written()}
