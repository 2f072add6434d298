"""The quota object in terms of the ledger: the limits that follow from it, what is wrong with it, and what is used. Pure.

The webhook and the controllers read it alike. Where Harvester's definition is in force nothing keeps a faulty value out before
our webhook is there, so each value is looked at by itself: one that is wrong is said, and the others hold. A negative limit
counts as 0 until it is corrected: a slip closes a limit, and never opens one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from ullage.ledger.amounts import Cell, Takings, spell
from ullage.ledger.book import Book
from ullage.ledger.charging.booking import RESOURCE
from ullage.quantity import Format, Quantity
from ullage.space.accounts import NAMESPACE_CELL, vm_cell, vm_of
from ullage.space.api import ALLOW_ZERO, MOST_LIMITED, NAME, ResourceQuota

SNAPSHOTS: Final = "snapshots"  # the account whose limits follow from quotas, and all under it
LIMIT_FIELD: Final = "spec.snapshotLimit"
NAMESPACE_FIELD: Final = f"{LIMIT_FIELD}.namespaceTotalSnapshotSizeQuota"
VM_FIELD: Final = f"{LIMIT_FIELD}.vmTotalSnapshotSizeQuota"
ZERO_FIELD: Final = f"metadata.annotations[{ALLOW_ZERO}]"
_VM_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_LONGEST_NAME: Final = 253


@dataclass(frozen=True, slots=True)
class QuotaFault:
    """Where, and what is wrong there."""

    field: str
    problem: str

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}"


def faults(quota: ResourceQuota) -> Iterator[QuotaFault]:
    """What is wrong with a quota, all of it."""
    limit, meta = quota.spec.snapshot_limit, quota.metadata
    if meta.name != NAME:
        yield QuotaFault("metadata.name", f"the quota of a namespace is called {NAME}, and there is no other")
    if (said := meta.annotations.get(ALLOW_ZERO, "true")) not in ("true", "false"):
        yield QuotaFault(ZERO_FIELD, f"{said!r} is neither 'true' nor 'false'")
    whole = limit.namespace_total_snapshot_size_quota
    if isinstance(whole, int) and whole < 0:
        yield QuotaFault(NAMESPACE_FIELD, _negative(whole))
    for vm, amount in sorted(limit.vm_total_snapshot_size_quota.items()):
        if not _is_name(vm):
            yield QuotaFault(f"{VM_FIELD}[{vm[:_LONGEST_NAME]}]", "is not the name of a virtual machine")
        if amount < 0:
            yield QuotaFault(f"{VM_FIELD}[{vm[:_LONGEST_NAME]}]", _negative(amount))
    if (count := len(limit.vm_total_snapshot_size_quota)) > MOST_LIMITED:
        yield QuotaFault(VM_FIELD, f"it has {count} virtual machines, and {MOST_LIMITED} are allowed")


def _negative(amount: int) -> str:
    return f"must be greater than or equal to 0, and is {amount}"


def _is_name(vm: str) -> bool:
    return len(vm) <= _LONGEST_NAME and _VM_NAME.fullmatch(vm) is not None


def limits_of(quota: ResourceQuota | None) -> dict[Cell, Quantity]:
    """The limits that a ledger is to have. 0 is no limit, unless the quota says that it is one. What is negative is a limit of
    0; a name that no virtual machine can have is left out."""
    if quota is None or quota.metadata.name != NAME:
        return {}
    limits = partial(_limits, zero=allows_zero(quota))
    limit = quota.spec.snapshot_limit
    whole = limit.namespace_total_snapshot_size_quota
    found = {NAMESPACE_CELL: _bytes(whole)} if isinstance(whole, int) and limits(whole) else {}
    named = sorted((vm, one) for vm, one in limit.vm_total_snapshot_size_quota.items() if limits(one) and _is_name(vm))
    return found | {vm_cell(vm): _bytes(amount) for vm, amount in named[:MOST_LIMITED]}


def _limits(amount: int, *, zero: bool) -> bool:
    """Whether a number is a limit at all."""
    return amount != 0 or zero


def allows_zero(quota: ResourceQuota) -> bool:
    return quota.metadata.annotations.get(ALLOW_ZERO) == "true"


def _bytes(amount: int) -> Quantity:
    return Quantity.of(max(0, amount), Format.BINARY_SI)


# --- what is used ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Usage:
    """What snapshots take, in bytes, with what of it is only reserved, and the limit; None: there is no limit."""

    used: int = 0
    reserved: int = 0
    limit: int | None = None

    @property
    def over(self) -> int:
        """How much more it is than the limit."""
        return 0 if self.limit is None else max(0, self.used - self.limit)

    @property
    def share(self) -> float:
        """How full the limit is; 1 is exactly full."""
        if self.limit is None:
            return 0.0
        return self.used / self.limit if self.limit else float("inf") if self.used else 1.0


@dataclass(frozen=True, slots=True)
class SpaceUsage:
    """Of a namespace, and of each of its virtual machines that use something or have a limit."""

    namespace: Usage
    vms: Mapping[str, Usage]


NOTHING_USED: Final = SpaceUsage(Usage(), {})


def usage_in(book: Book) -> SpaceUsage:
    """What a ledger says: what is counted, and what was admitted and is not counted yet."""

    def usage(cell: Cell) -> Usage:
        reserved = book.reserved[cell].value()
        limit = book.limits.get(cell)
        return Usage(book.used[cell].value() + reserved, reserved, None if limit is None else limit.value())

    return SpaceUsage(usage(NAMESPACE_CELL), _by_vm((cell, usage(cell)) for cell in _cells(book)))


def usage_of(counted: Takings) -> SpaceUsage:
    """The same where there is no ledger: what objects take, and no limit."""
    cells = ((cell, Usage(counted[cell].value())) for cell in counted if cell.resource == RESOURCE)
    return SpaceUsage(Usage(counted[NAMESPACE_CELL].value()), _by_vm(cells))


def _cells(book: Book) -> set[Cell]:
    return {cell for cells in (book.limits, book.used, book.reserved) for cell in cells if cell.resource == RESOURCE}


def _by_vm(cells: Iterable[tuple[Cell, Usage]]) -> dict[str, Usage]:
    return {vm: usage for cell, usage in cells if (vm := vm_of(cell.account))}


# --- for people ------------------------------------------------------------------------------------------------------


def spelled(amount: int, *, down: bool = False) -> str:
    """`9.5Gi`, rounded up; `down` is for limits."""
    return spell(RESOURCE, _bytes(amount), down=down)


def over_limit(usage: Usage, limit: int) -> str:
    """`take 12Gi (1Gi of it reserved), 2Gi more than the limit of 10Gi`."""
    reserved = f" ({spelled(usage.reserved)} of it reserved)" if usage.reserved else ""
    over, allowed = spelled(usage.used - limit), spelled(limit, down=True)
    return f"take {spelled(usage.used)}{reserved}, {over} more than the limit of {allowed}"
