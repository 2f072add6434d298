"""How limits on the space of snapshots, and on their number, read in a terminal. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Literal

from ullage.cli.common.listing import Table
from ullage.cli.common.text import NONE, free_bytes, plain
from ullage.kube.objects import Json
from ullage.policies.counts.accounts import CountLimits, together
from ullage.policies.counts.api import ClaimCount, SnapshotLimit
from ullage.space.api import ResourceQuota
from ullage.space.limit_setting import Limited
from ullage.space.quota import allows_zero, spelled

COLUMNS: Final = ("NAMESPACE", "OF", "LIMIT", "USED", "FREE")


Part = Literal["space", "count", "per-claim"]


@dataclass(frozen=True, slots=True)
class CountStanding:
    """How many snapshots a namespace has of how many. None: nobody says."""

    limits: CountLimits
    used: int | None = None
    fullest: ClaimCount | None = None  # the claim with the most


def standing(limits: Sequence[SnapshotLimit]) -> CountStanding | None:
    """What the SnapshotLimits of one namespace say together."""
    counted = [one.status for one in limits if one.status.used is not None]
    claims = [claim for one in counted for claim in one.claims[:1]]
    return CountStanding(
        together(limits),
        max((one.used or 0 for one in counted), default=None),
        max(claims, key=lambda one: one.used, default=None),
    )


@dataclass(frozen=True, slots=True)
class LimitRow:
    """The limits of a namespace, or of a virtual machine, and what is used of them; None: nobody says."""

    limited: Limited
    limit: int | None  # None: there is none
    used: int | None
    counts: CountStanding | None = None
    part: Part = "space"  # what the row is about, in a table

    @property
    def free(self) -> int | None:
        return None if self.limit is None or self.used is None else self.limit - self.used

    @property
    def of(self) -> str:
        if self.part != "space":
            return "number of snapshots" if self.part == "count" else "number per claim"
        return f"vm/{self.limited.vm}" if self.limited.vm else "all snapshots"

    @property
    def uid(self) -> str:
        return f"{self.limited}/{self.part}"


def in_parts(rows: Iterable[LimitRow]) -> Iterator[LimitRow]:
    """For people: a row for each number that is limited, after the space."""
    for one in rows:
        yield one
        limits = one.counts.limits if one.counts is not None else CountLimits()
        if limits.snapshots is not None:
            yield replace(one, part="count")
        if limits.per_claim is not None:
            yield replace(one, part="per-claim")


def row(limited: Limited, quota: ResourceQuota | None, counts: Sequence[SnapshotLimit] = ()) -> LimitRow:
    there = standing(counts) if counts and not limited.vm else None
    if quota is None:
        return LimitRow(limited, None, None, there)
    found = limited.limit(quota)
    return LimitRow(limited, None if found == 0 and not allows_zero(quota) else found, limited.usage(quota), there)


def rows(namespace: str, quota: ResourceQuota | None, counts: Sequence[SnapshotLimit] = ()) -> Iterator[LimitRow]:
    """The namespace's own, then those of its virtual machines."""
    yield row(Limited(namespace), quota, counts)
    for vm in sorted(quota.spec.snapshot_limit.vm_total_snapshot_size_quota if quota is not None else ()):
        yield row(Limited(namespace, vm), quota)


def layout() -> Table[LimitRow]:
    def cells(one: LimitRow, now: datetime) -> tuple[str, ...]:
        if one.part != "space" and one.counts is not None:
            return one.limited.namespace, one.of, *_count_cells(one.counts, one.part)
        limit = "none" if one.limit is None else spelled(one.limit, down=True)
        used = NONE if one.used is None else spelled(one.used)
        return one.limited.namespace, one.of, limit, used, free_bytes(one.free)

    return Table(
        head=COLUMNS,
        cells=cells,
        name=lambda one: f"vm/{one.limited.namespace}/{one.limited.vm}" if one.limited.vm else f"ns/{one.limited.namespace}",
        uid=lambda one: one.uid,
        body=body,
        state="FREE",
    )


def _count_cells(found: CountStanding, part: Part) -> tuple[str, str, str]:
    """Limit, used and free; per claim those of the fullest."""
    if part == "count":
        limit, used = found.limits.snapshots or 0, found.used
        return str(limit), NONE if used is None else str(used), NONE if used is None else _left(limit - used)
    limit, fullest = found.limits.per_claim or 0, found.fullest
    if fullest is None:
        return str(limit), NONE, NONE
    return str(limit), f"{fullest.used} (claim {plain(fullest.claim)})", _left(limit - fullest.used)


def _left(count: int) -> str:
    return str(count) if count >= 0 else f"{-count} over"


def body(one: LimitRow) -> Json:
    """For programs: bytes, and under `snapshotCount` numbers of snapshots. What is not known is left out."""
    place: Json = {"namespace": one.limited.namespace, **({"vm": one.limited.vm} if one.limited.vm else {})}
    amounts = {"limit": one.limit, "used": one.used, "free": one.free}
    counts = {"snapshotCount": _count_body(one.counts)} if one.counts is not None else {}
    return {**place, **_known(amounts), **counts}


def _count_body(found: CountStanding) -> Json:
    limits, fullest = found.limits, found.fullest
    free = None if limits.snapshots is None or found.used is None else limits.snapshots - found.used
    return {
        **_known({"limit": limits.snapshots, "used": found.used, "free": free, "limitPerClaim": limits.per_claim}),
        **({"fullestClaim": {"claim": fullest.claim, "used": fullest.used}} if fullest is not None else {}),
        "deleteOldest": limits.delete_oldest,
    }


def _known(amounts: dict[str, int | None]) -> Json:
    return {name: amount for name, amount in amounts.items() if amount is not None}


def was_set(limited: Limited, size: int, *, zero: bool, dry_run: bool) -> str:
    would = "would be" if dry_run else "are"
    if size == 0 and not zero:
        return f"snapshots of {limited} {would} without a limit"
    return f"snapshots of {limited} {would} limited to {spelled(size, down=True)}"


def was_removed(limited: Limited, *, had: bool, dry_run: bool) -> str:
    if not had:
        return f"snapshots of {limited} have no limit: nothing to remove"
    return f"snapshots of {limited} {'would be' if dry_run else 'are'} without a limit of their own"
