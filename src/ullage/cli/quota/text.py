"""How limits on the space of snapshots read in a terminal. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ullage.cli.common.listing import Table
from ullage.cli.common.text import NONE, free_bytes
from ullage.kube.objects import Json
from ullage.space.api import ResourceQuota
from ullage.space.limit_setting import Limited
from ullage.space.quota import allows_zero, spelled

COLUMNS: Final = ("NAMESPACE", "OF", "LIMIT", "USED", "FREE")


@dataclass(frozen=True, slots=True)
class LimitRow:
    """One limit, and what is used of it; None: nobody says."""

    limited: Limited
    limit: int | None  # None: there is none
    used: int | None

    @property
    def free(self) -> int | None:
        return None if self.limit is None or self.used is None else self.limit - self.used

    @property
    def of(self) -> str:
        return f"vm/{self.limited.vm}" if self.limited.vm else "all snapshots"


def row(limited: Limited, quota: ResourceQuota | None) -> LimitRow:
    if quota is None:
        return LimitRow(limited, None, None)
    found = limited.limit(quota)
    return LimitRow(limited, None if found == 0 and not allows_zero(quota) else found, limited.usage(quota))


def rows(quota: ResourceQuota) -> Iterator[LimitRow]:
    """The namespace's own, then those of its virtual machines."""
    namespace = quota.metadata.namespace
    yield row(Limited(namespace), quota)
    for vm in sorted(quota.spec.snapshot_limit.vm_total_snapshot_size_quota):
        yield row(Limited(namespace, vm), quota)


def layout() -> Table[LimitRow]:
    def cells(one: LimitRow, now: datetime) -> tuple[str, ...]:
        limit = "none" if one.limit is None else spelled(one.limit, down=True)
        used = NONE if one.used is None else spelled(one.used)
        return one.limited.namespace, one.of, limit, used, free_bytes(one.free)

    return Table(
        head=COLUMNS,
        cells=cells,
        name=lambda one: f"vm/{one.limited.namespace}/{one.limited.vm}" if one.limited.vm else f"ns/{one.limited.namespace}",
        uid=lambda one: str(one.limited),
        body=body,
        state="FREE",
    )


def body(one: LimitRow) -> Json:
    """For programs: bytes. What is not known is left out."""
    place = {"namespace": one.limited.namespace, **({"vm": one.limited.vm} if one.limited.vm else {})}
    amounts = {"limit": one.limit, "used": one.used, "free": one.free}
    return {**place, **{name: amount for name, amount in amounts.items() if amount is not None}}


def was_set(limited: Limited, size: int, *, zero: bool, dry_run: bool) -> str:
    would = "would be" if dry_run else "are"
    if size == 0 and not zero:
        return f"snapshots of {limited} {would} without a limit"
    return f"snapshots of {limited} {would} limited to {spelled(size, down=True)}"


def was_removed(limited: Limited, *, had: bool, dry_run: bool) -> str:
    if not had:
        return f"snapshots of {limited} have no limit: nothing to remove"
    return f"snapshots of {limited} {'would be' if dry_run else 'are'} without a limit of their own"
