"""Quotas, and books of their ledgers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from ullage.ledger.amounts import NOTHING, Takings
from ullage.ledger.book import Attempt, Book, Observed, Slot
from ullage.quantity import Format, Quantity
from ullage.space.accounts import NAMESPACE_CELL, vm_cell
from ullage.space.api import NAME, ResourceQuota
from ullage.space.quota import limits_of

GI = 2**30
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SOURCE = "volumesnapshots.snapshot.storage.k8s.io"


def quota(
    whole: int | None = None,
    vms: Mapping[str, int] | None = None,
    *,
    name: str = NAME,
    namespace: str = "team-a",
    annotations: Mapping[str, str] | None = None,
    status: Mapping[str, Any] | None = None,
    **meta: Any,
) -> ResourceQuota:
    limit: dict[str, Any] = {} if whole is None else {"namespaceTotalSnapshotSizeQuota": whole}
    if vms is not None:
        limit["vmTotalSnapshotSizeQuota"] = dict(vms)
    given = {"uid": "q-1", "resourceVersion": "7", "generation": 1, **meta}
    metadata = {"name": name, "namespace": namespace, "annotations": dict(annotations or {}), **given}
    return msgspec.convert(
        {"metadata": metadata, "spec": {"snapshotLimit": limit}, "status": dict(status or {})}, type=ResourceQuota
    )


def takes(whole: int, **vms: int) -> Takings:
    """From the namespace, and from virtual machines, bytes each."""
    cells = {NAMESPACE_CELL: whole, **{vm_cell(vm): amount for vm, amount in vms.items()}}
    return Takings({cell: Quantity.of(amount, Format.BINARY_SI) for cell, amount in cells.items()})


def book(about: ResourceQuota | None = None, *, used: Takings | None = None, reserved: Takings | None = None) -> Book:
    observed = {SOURCE: Observed(9, NOW, used)} if used is not None else {}
    pending = {f"{SOURCE}//team-a/new": Slot({"": Attempt(reserved, 1000, None)}, NOTHING)} if reserved is not None else {}
    return Book.of(limits=limits_of(about), observed=observed, pending=pending)
