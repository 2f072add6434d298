"""How the numbers of snapshots read in a terminal, and for programs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ullage.cli.common.accounts import Counts, SnapshotCount
from ullage.cli.common.text import NONE, aligned, plain
from ullage.kube.objects import Json

HEAD: Final = ("NAMESPACE", "NUMBER OF SNAPSHOTS", "USED", "RESERVED", "LIMIT", "FREE", "%")
MOST_CLAIMS: Final = 10


def counts_table(found: Mapping[str, Counts], *, claims: bool) -> str:
    """A row for each namespace; with `claims` also for those that have a limit, the fullest of them."""
    rows = [_cells(namespace, one) for namespace, counts in sorted(found.items()) for one in _shown(counts, claims=claims)]
    return aligned([HEAD, *rows])


def more_claims(counts: Counts) -> str:
    """What the table leaves out; empty: nothing."""
    left = len(_limited(counts)) - MOST_CLAIMS
    return f"{left} claims have fewer, and are not shown: -o json has all" if left > 0 else ""


def _shown(counts: Counts, *, claims: bool) -> Iterator[SnapshotCount]:
    yield from (one for one in counts if not one.claim)
    if claims:
        yield from _limited(counts)[:MOST_CLAIMS]


def _limited(counts: Counts) -> Sequence[SnapshotCount]:
    return [one for one in counts if one.claim and one.limit is not None]


def _cells(namespace: str, one: SnapshotCount) -> tuple[str, ...]:
    reserved = NONE if one.reserved is None else str(one.reserved)
    limit = "none" if one.limit is None else str(one.limit)
    taken = one.used + (one.reserved or 0)
    share = str(taken * 100 // one.limit) if one.limit else NONE
    of = f"of claim {plain(one.claim)}" if one.claim else "of the namespace"
    return namespace, of, str(one.used), reserved, limit, free(one.free), share


def free(count: int | None) -> str:
    """As that of space: `3`, or `2 over`."""
    if count is None:
        return NONE
    return str(count) if count >= 0 else f"{-count} over"


def body(counts: Counts) -> Json:
    """For programs: numbers of snapshots. What is not known, or has no limit, is left out."""
    whole = next((_numbers(one) for one in counts if not one.claim), {})
    claims = [{"claim": one.claim, **_numbers(one)} for one in counts if one.claim]
    return {**whole, **({"claims": claims} if claims else {})}


def _numbers(one: SnapshotCount) -> Json:
    amounts = {"used": one.used, "reserved": one.reserved, "limit": one.limit, "free": one.free}
    return {name: amount for name, amount in amounts.items() if amount is not None}
