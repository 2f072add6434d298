"""What a command reads of projects: their quotas, what each seed uses and may have, and how that is spelled."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ullage.cli.common.session import NotInstalled
from ullage.cli.common.text import NONE
from ullage.kube.cache.reflector import Selection
from ullage.kube.client.client import Client
from ullage.kube.errors import Forbidden, NotFound
from ullage.kube.kinds import Kind
from ullage.ledger.amounts import Amounts, BadAmount
from ullage.projects.api.amounts import ResourceDetails
from ullage.projects.api.kkp import PROJECTS
from ullage.projects.api.quotas import PROJECT_QUOTAS, ResourceQuota
from ullage.projects.escrow.record import has_record, leading, read_record
from ullage.projects.escrow.terms import Escrow, Share
from ullage.projects.names import ESCROW, RESOURCES, SUBJECT_NAME, quota_name
from ullage.projects.quota import amounts_of, for_people, is_counted
from ullage.quantity import Quantity

UNKNOWN: Final = "unknown"
Limits = Mapping[str, Quantity]  # by resource; one that is absent has no limit


# --- read ------------------------------------------------------------------------------------------------------------


async def listed(client: Client, kind: Kind[Any], namespace: str = "", *, labels: str = "") -> Sequence[Any]:
    """All of a kind of KKP. Raises `NotInstalled` where it is not served."""
    try:
        return (await client.list(kind, namespace, labels=labels)).items
    except NotFound as error:
        raise not_served(kind) from error


async def quota_of(client: Client, project: str) -> ResourceQuota | None:
    """The quota that is in force for a project; None: it has none. Where somebody else made it, it may have another name."""
    try:
        named = await client.find(PROJECT_QUOTAS, quota_name(project))
        others = (await client.list(PROJECT_QUOTAS, labels=f"{SUBJECT_NAME}={project}")).items
    except NotFound as error:
        raise not_served(PROJECT_QUOTAS) from error
    return in_force([*others, *([named] if named is not None else [])]).get(project)


def quotas_of(project: str) -> list[Selection[Any]]:
    """Where `quota_of` looks, to be followed."""
    return [
        Selection(PROJECT_QUOTAS, fields=f"metadata.name={quota_name(project)}"),
        Selection(PROJECT_QUOTAS, labels=f"{SUBJECT_NAME}={project}"),
    ]


def in_force(quotas: Iterable[ResourceQuota]) -> dict[str, ResourceQuota]:
    """By project: of several the one that holds, as the controllers choose it."""
    found: dict[str, list[ResourceQuota]] = defaultdict(list)
    for quota in quotas:
        found[quota.spec.subject.name].append(quota)
    return {project: one for project, some in sorted(found.items()) if (one := leading(some)) is not None}


async def project_name(client: Client, project: str) -> str | None:
    """The name that people read; None: there is no such project. Empty where nobody says: a seed need not have projects."""
    try:
        found = await client.find(PROJECTS, project)
    except (Forbidden, NotFound):
        return ""
    return found.spec.name if found is not None else None


def not_served(kind: Kind[Any]) -> NotInstalled:
    return NotInstalled(f"this cluster does not serve {kind.name}: it is neither a master nor a seed that has project quotas")


# --- what a quota says -----------------------------------------------------------------------------------------------


def counted(usage: ResourceDetails | None) -> Amounts | None:
    """What is used; None: nobody has counted, or what is written there is no amount."""
    if usage is None or not is_counted(usage):
        return None
    try:
        return amounts_of(usage, field="")
    except BadAmount:
        return None


def escrow_in(quota: ResourceQuota, annotation: str = ESCROW) -> Escrow | None:
    """What the seeds may have of a quota; None: nobody has written that down. Raises `BadInput` for what cannot be read."""
    return read_record(quota.metadata, annotation) if has_record(quota.metadata, annotation) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedPart:
    """Of a quota, on one seed. `share` is None where nothing is recorded of the seed."""

    seed: str
    used: Amounts | None
    stale_since: str = ""
    in_reach: bool = False  # it can be asked, as far as the master has seen
    share: Share | None = None

    @property
    def granted(self) -> Limits | None:
        """The most that the seed may have; None: nobody knows."""
        if self.share is None:
            return None
        return {resource: part.granted for resource, part in self.share.parts.items() if part.granted is not None}


def seed_parts(quota: ResourceQuota, escrow: Escrow | None) -> list[SeedPart]:
    """Every seed that has said something, or has a grant."""
    said = {one.name: one for one in quota.status.seeds}
    shares = escrow.shares if escrow is not None else {}
    return [
        SeedPart(
            seed=seed,
            used=counted(said[seed].usage) if seed in said else None,
            stale_since=said[seed].stale_since if seed in said else "",
            in_reach=seed in said and not said[seed].stale_since,
            share=shares.get(seed),
        )
        for seed in sorted({*said, *shares})
    ]


# --- spelled ---------------------------------------------------------------------------------------------------------


def of_limits(used: Amounts | None, limits: Limits | None) -> tuple[str, ...]:
    """For each resource `3/5`, `12Gi/100Gi`, `3/unlimited`, `unknown/5`; `3/-` where the limits are not known."""
    spelled = for_people(used or Amounts(), limits or {})
    both = [getattr(spelled, resource).split("/") for resource in RESOURCES]
    return tuple(f"{UNKNOWN if used is None else one}/{NONE if limits is None else limit}" for one, limit in both)


def written_usage(used: Amounts | None) -> dict[str, str]:
    """For programs: nothing is 0; what is not known is left out."""
    return {} if used is None else {resource: str(used[resource]) for resource in RESOURCES}


def written_limits(limits: Limits) -> dict[str, str]:
    return {resource: str(limits[resource]) for resource in RESOURCES if resource in limits}
