"""What `ullage usage --group-by project|seed|cluster` reads.

The master knows projects and seeds, and a seed its clusters and what projects use on all seeds. Where something else is asked
for, the answer is where to ask.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ullage.cli.common.project_quotas import (
    Limits,
    counted,
    escrow_in,
    in_force,
    listed,
    project_name,
    quota_of,
    quotas_of,
    seed_parts,
)
from ullage.cli.common.session import Missing
from ullage.cli.common.text import plain
from ullage.cli.usage.project_text import ProjectGroup, ProjectRow
from ullage.errors import BadInput, Terminal
from ullage.kube.cache.reflector import Selection
from ullage.kube.client.client import Client
from ullage.kube.errors import Forbidden, NotFound
from ullage.kube.objects import Condition, find_condition
from ullage.projects.api.kkp import CLUSTERS, PROJECTS, SEEDS, Cluster
from ullage.projects.api.quotas import PROJECT_QUOTAS, WITHIN_QUOTA, ResourceQuota
from ullage.projects.api.records import MACHINE_RECORDS, MachineRecord
from ullage.projects.clusters import project_of
from ullage.projects.escrow.terms import Escrow
from ullage.projects.quota import limits_of
from ullage.projects.records import stale_usage
from ullage.selectors import LabelSelector

ASK: Final = "ask there, with --context or --kubeconfig"
ON_SEEDS: Final = f"clusters are known on the seed that runs them, and not on the master: {ASK}"
ON_MASTER: Final = f"what each seed uses is known on the master, and not on a seed: {ASK}"


class AskElsewhere(Terminal):
    """What was asked for is known in another cluster."""


@dataclass(slots=True)
class ProjectReading:
    """Rows, and what has to be said beside them."""

    rows: list[ProjectRow] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


async def read_projects(client: Client, group: ProjectGroup, *, project: str = "", labels: str = "") -> ProjectReading:
    """Of one project, or of all; `labels` are those of clusters where these are shown, and else of quotas.

    Raises `AskElsewhere` where the grouping is not known in this cluster.
    """
    quotas, selector = await _quotas(client, project), LabelSelector.parse(labels)
    found = ProjectReading()
    if group == "cluster":
        await _by_cluster(client, quotas, found, project=project, selector=selector)
    else:
        # Not the server: of several quotas of a project it is the one in force whose labels count.
        chosen = [one for one in quotas if selector.matches(one.metadata.labels)]
        if group == "seed":
            await _by_seed(client, chosen, found)
        else:
            found.rows += [_project_row(one) for one in chosen]
            if not labels:
                await _note_unlimited(client, quotas, found, project=project)
    found.rows.sort(key=lambda row: (row.project, row.name))
    return found


async def _quotas(client: Client, project: str) -> Sequence[ResourceQuota]:
    if not project:
        return list(in_force(await listed(client, PROJECT_QUOTAS)).values())
    one = await quota_of(client, project)
    return [one] if one is not None else []


def sources_of_projects(group: ProjectGroup, project: str) -> list[Selection[Any]]:
    """What is followed by those who want it shown again."""
    quotas = quotas_of(project) if project else [Selection(PROJECT_QUOTAS)]
    return [*quotas, Selection(CLUSTERS), Selection(MACHINE_RECORDS)] if group == "cluster" else quotas


# --- projects --------------------------------------------------------------------------------------------------------


def _project_row(quota: ResourceQuota) -> ProjectRow:
    stale = _stale_seeds(quota)
    within = find_condition(quota.status.conditions, WITHIN_QUOTA)
    return ProjectRow(
        project=quota.spec.subject.name,
        used=counted(quota.status.global_usage),
        limits=limits_of(quota.spec.quota),
        stale_since=min(stale.values(), default=""),
        more=(within.status if within is not None else "", ", ".join(sorted(stale))),
    )


def _stale_seeds(quota: ResourceQuota) -> dict[str, str]:
    """Since when the figures of seeds are not of now: a seed is out of reach, or clusters of it are."""
    return {one.name: since for one in quota.status.seeds if (since := one.stale_since or one.incomplete_since)}


async def _note_unlimited(client: Client, quotas: Sequence[ResourceQuota], found: ProjectReading, *, project: str) -> None:
    """Nobody sums up what projects without a quota use: that they are left out is said."""
    if project:
        if not quotas and await project_name(client, project) is None:
            raise Missing(f"there is no project {project} here. Next: ullage projects list, on the master")
        return
    try:
        projects = (await client.list(PROJECTS)).items
    except (Forbidden, NotFound):  # a seed need not have projects
        return
    limited = {one.spec.subject.name for one in quotas}
    if left := len([one for one in projects if one.metadata.name not in limited]):
        said = "1 project has no quota, and is" if left == 1 else f"{left} projects have no quota, and are"
        found.notes.append(f"{said} left out: what clusters use is shown on each seed by --group-by cluster")


# --- seeds -----------------------------------------------------------------------------------------------------------


async def _by_seed(client: Client, quotas: Sequence[ResourceQuota], found: ProjectReading) -> None:
    for quota in quotas:
        found.rows += _seed_rows(quota, _escrow(quota, found.notes))
    if not found.rows and quotas and await _is_master(client) is False:
        raise AskElsewhere(f"--group-by seed: {ON_MASTER}")


def _seed_rows(quota: ResourceQuota, escrow: Escrow | None) -> Iterator[ProjectRow]:
    stale = _stale_seeds(quota)
    for one in seed_parts(quota, escrow):
        since = stale.get(one.seed, "")
        yield ProjectRow(
            project=quota.spec.subject.name,
            name=one.seed,
            used=one.used,
            limits=one.granted,
            stale_since=since,
            more=(since,),
        )


def _escrow(quota: ResourceQuota, notes: list[str]) -> Escrow | None:
    try:
        return escrow_in(quota)
    except BadInput as error:
        notes.append(f"what the seeds may have of {quota.metadata.name} cannot be read: {plain(str(error))}")
        return None


# --- clusters --------------------------------------------------------------------------------------------------------


async def _by_cluster(
    client: Client, quotas: Sequence[ResourceQuota], found: ProjectReading, *, project: str, selector: LabelSelector
) -> None:
    clusters, records = await listed(client, CLUSTERS), await _records(client)
    limits = {one.spec.subject.name: limits_of(one.spec.quota) for one in quotas}
    for cluster in clusters:
        owner = project_of(cluster)
        if owner and project in ("", owner) and selector.matches(cluster.metadata.labels):
            stale = stale_usage(records.get(cluster.metadata.name), cluster.metadata)
            found.rows.append(_cluster_row(cluster, owner, limits.get(owner, {}), stale=stale))
    if not clusters and await _is_master(client):
        raise AskElsewhere(f"--group-by cluster: {ON_SEEDS}")


async def _records(client: Client) -> dict[str, MachineRecord]:
    """By cluster. Where they may not be read nobody says how old figures are."""
    try:
        return {one.metadata.name: one for one in (await client.list(MACHINE_RECORDS)).items}
    except (Forbidden, NotFound):
        return {}


def _cluster_row(cluster: Cluster, project: str, limits: Limits, *, stale: Condition | None) -> ProjectRow:
    spec = cluster.spec
    return ProjectRow(
        project=project,
        name=cluster.metadata.name,
        used=counted(cluster.status.resource_usage),
        limits=limits,
        stale_since=stale.last_transition_time if stale is not None else "",
        more=(spec.human_readable_name, spec.cloud.provider_name, cluster.status.phase),
    )


async def _is_master(client: Client) -> bool | None:
    """Whether seeds are registered here; None: that may not be read, and nobody is told that he asks in the wrong place."""
    try:
        return bool((await client.list(SEEDS)).items)
    except NotFound:
        return False
    except Forbidden:
        return None
