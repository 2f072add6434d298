"""Whether a quota is in force on all seeds, by the record, and what is missing where it is not. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from ullage.ledger.amounts import spell
from ullage.projects.api.quotas import ResourceQuota
from ullage.projects.escrow.steps import Quota
from ullage.projects.escrow.terms import Escrow, Part
from ullage.projects.names import RESOURCES, SETTING
from ullage.projects.quota import limits_of

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


def handing_over(quota: ResourceQuota, heir: ResourceQuota | None) -> str:
    """What is done about the limits of a quota that is being deleted."""
    if heir is None:
        return "the seeds are told that there is no limit any more"
    if heir.metadata.uid == quota.metadata.uid:
        return (
            "its limits stay, since nobody can tell which default takes its place: mend spec.defaultQuota of the"
            f" KubermaticSetting {SETTING}"
        )
    which = f"the quota {heir.metadata.name}" if heir.metadata.uid else "the default"
    limits = limits_of(heir.spec.quota)
    said = ", ".join(f"{one} {spell(one, limits[one], down=True)}" for one in RESOURCES if one in limits)
    return f"{which} is in force in its place: {said or 'no limit'}, and the seeds are told so"


def out_of_reach(seeds: Iterable[str], since: Mapping[str, str]) -> str:
    """Names the seeds for which a deleted quota waits. `since` says since when each is away, as far as that is known.

    Time frees nothing: a seed that is cut off goes on within its grant. It is back, or a person says that it is gone."""
    said = [f"{seed} since {since[seed]}" if since.get(seed) else seed for seed in seeds]
    return (
        f"out of reach: {_few(said)}; it waits until each is back. Where a seed does not come back, delete its Seed object or"
        " run `ullage projects drain-seed NAME`"
    )


def away_since(quota: ResourceQuota) -> dict[str, str]:
    """Since when each seed is out of reach, by the quota's status."""
    return {seed.name: seed.stale_since for seed in quota.status.seeds if seed.stale_since}


def left_behind(escrow: Escrow, seeds: Collection[str]) -> str:
    """What is kept for seeds that have no object any more, and how it is got back; empty where there is none such."""
    held = {
        seed: [f"{resource} {_kept(resource, part)}" for resource, part in share.parts.items() if _keeps(part)]
        for seed, share in sorted(escrow.shares.items())
        if seed not in seeds
    }
    said = [f"{seed} keeps {', '.join(parts)}" for seed, parts in held.items() if parts]
    if not said:
        return ""
    return (
        f"of seeds that were removed {_few(said)}: nobody else gets that. Once their machines are gone, create the Seed again,"
        " run `ullage projects drain-seed NAME --machines-gone`, and delete it then"
    )


def _keeps(part: Part) -> bool:
    return part.granted is None or part.granted.nanos > 0


def _kept(resource: str, part: Part) -> str:
    return "without a limit" if part.granted is None else spell(resource, part.granted)


def _few(seeds: list[str]) -> str:
    more = f" and {len(seeds) - LISTED} more" if len(seeds) > LISTED else ""
    return f"{', '.join(seeds[:LISTED])}{more}"
