"""What `ullage projects list` reads, and how that reads in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from ullage.cli.common.listing import RepeatedReport, Report, Table, print_report
from ullage.cli.common.options import OutputFormat
from ullage.cli.common.project_quotas import counted, in_force, listed, of_limits, written_limits, written_usage
from ullage.cli.common.session import Missing
from ullage.cli.common.text import NONE, age, plain
from ullage.cli.common.watching import repeated
from ullage.clock import SystemClock
from ullage.kube.cache.reflector import Selection
from ullage.kube.client.client import Client
from ullage.kube.objects import Json, find_condition
from ullage.projects.api.kkp import PROJECTS, Project
from ullage.projects.api.quotas import PROJECT_QUOTAS, USAGE_FRESH, WITHIN_QUOTA, ResourceQuota
from ullage.projects.names import RESOURCES, is_default
from ullage.projects.quota import limits_of

COLUMNS: Final = ("PROJECT", "NAME", "CPU", "MEMORY", "STORAGE", "WITHIN", "QUOTA", "AGE")
WIDE: Final = ("FRESH", "PHASE")
NOTHING: Final = "there are no projects here: they are on the master"


@dataclass(frozen=True, slots=True)
class ListedProject:
    """A project and its quota; None: it has none. A quota may be there before its project: then that one is None."""

    id: str
    project: Project | None
    quota: ResourceQuota | None

    @property
    def origin(self) -> str:
        if self.quota is None:
            return "none"
        return "default" if is_default(self.quota.metadata) else "own"

    def condition(self, type: str) -> str:
        found = find_condition(self.quota.status.conditions, type) if self.quota is not None else None
        return found.status if found is not None else NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFilter:
    """All, those that are named, or those whose Projects have some labels."""

    named: Sequence[str] = ()
    labels: str = ""

    @property
    def nothing(self) -> str:
        return f"there is no project with the labels {self.labels}" if self.labels else NOTHING


async def show(client: Client, wanted: ProjectFilter, output: OutputFormat, *, watch: bool) -> None:
    clock = SystemClock()

    async def read() -> Report[ListedProject]:
        rows, table = await read_projects(client, wanted), layout(wide=output.is_wide)
        return Report(rows=rows, table=table, nothing=wanted.nothing, single=len(wanted.named) == 1)

    if not watch:
        print_report(await read(), output, now=clock.now())
        return
    report: RepeatedReport[ListedProject] = RepeatedReport(output)
    followed: list[Selection[Any]] = [Selection(PROJECTS, "", wanted.labels), Selection(PROJECT_QUOTAS)]
    await repeated(client, followed, read, lambda found: report.show(found, clock.now()))


async def read_projects(client: Client, wanted: ProjectFilter) -> list[ListedProject]:
    """Raises `Missing` for one that is named and is not there."""
    projects = {one.metadata.name: one for one in await listed(client, PROJECTS, labels=wanted.labels)}
    quotas = in_force(await listed(client, PROJECT_QUOTAS))
    if strange := [one for one in wanted.named if one not in projects and one not in quotas]:
        raise Missing(f"there is no project {strange[0]}. Next: ullage projects list")
    chosen = wanted.named or sorted(projects if wanted.labels else {*projects, *quotas})
    return [ListedProject(one, projects.get(one), quotas.get(one)) for one in chosen]


def layout(*, wide: bool = False) -> Table[ListedProject]:
    return Table(
        head=(*COLUMNS, *(WIDE if wide else ())),
        cells=lambda one, now: _cells(one, now, wide=wide),
        name=lambda one: f"project/{one.id}",
        uid=lambda one: one.id,
        body=_body,
        state="WITHIN",
    )


def _cells(one: ListedProject, now: datetime, *, wide: bool) -> tuple[str, ...]:
    amounts: tuple[str, ...] = (NONE,) * len(RESOURCES)  # nobody sums up what is not limited
    if one.quota is not None:
        amounts = of_limits(counted(one.quota.status.global_usage), limits_of(one.quota.spec.quota))
    if one.project is not None:
        name, since, phase = (
            plain(one.project.spec.name) or NONE,
            one.project.metadata.creation_timestamp,
            one.project.status.phase,
        )
    else:
        name, since, phase = "(no such project)", "", ""
    more = (one.condition(USAGE_FRESH), phase or NONE) if wide else ()
    return one.id, name, *amounts, one.condition(WITHIN_QUOTA), one.origin, age(since, now), *more


def _body(one: ListedProject) -> Json:
    """For programs: quantities, as Kubernetes writes them. What is not known is left out."""
    made: Json = {"project": one.id, "quota": one.origin}
    if one.project is not None and one.project.spec.name:
        made["name"] = one.project.spec.name
    if one.quota is None:
        return made
    made["limits"] = written_limits(limits_of(one.quota.spec.quota))
    if (used := counted(one.quota.status.global_usage)) is not None:
        made["used"] = written_usage(used)
    within = one.condition(WITHIN_QUOTA)
    return {**made, "within": within == "True"} if within in ("True", "False") else made
