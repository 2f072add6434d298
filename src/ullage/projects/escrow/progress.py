"""Whether a quota is in force on all seeds, by the record, and what is missing where it is not. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ullage.ledger.amounts import spell
from ullage.projects.escrow.steps import Quota
from ullage.projects.escrow.terms import Escrow

LISTED: Final = 5  # seeds that a sentence names


def not_in_force(escrow: Escrow, quota: Quota, seeds: Mapping[str, bool]) -> str:
    """Why a quota does not hold everywhere yet; empty where it does. `seeds` are all that there are, and whether each can be
    asked."""
    return "; ".join(_missing(escrow, quota, seeds)) if quota else ""


def _missing(escrow: Escrow, quota: Quota, seeds: Mapping[str, bool]) -> Iterator[str]:
    new = sorted(seeds.keys() - escrow.shares.keys())
    if away := [seed for seed in new if not seeds[seed]]:
        yield f"never heard of, and without a limit there: {_few(away)}; see `kubectl get seeds -A`"
    if waiting := [seed for seed in new if seeds[seed]]:
        yield f"not told yet: {_few(waiting)}"
    free = sorted({seed for resource in quota for seed in _without_limit(escrow, resource)})
    if free:
        yield f"may still admit without a limit: {_few(free)}"
    for resource, limit in quota.items():
        granted = escrow.granted(resource)
        if granted is not None and granted > limit:
            most, allowed = spell(resource, granted), spell(resource, limit, down=True)
            yield f"{resource}: the seeds may still use {most} together, and {allowed} are allowed; what is used stays"


def _without_limit(escrow: Escrow, resource: str) -> Iterator[str]:
    for seed, share in escrow.shares.items():
        part = share.parts.get(resource)
        if part is None or part.granted is None:
            yield seed


def _few(seeds: list[str]) -> str:
    more = f" and {len(seeds) - LISTED} more" if len(seeds) > LISTED else ""
    return f"{', '.join(seeds[:LISTED])}{more}"
