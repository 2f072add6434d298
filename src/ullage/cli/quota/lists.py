"""What `ullage quota list` reads and prints, once its options are understood: limits on the space of snapshots and on their
number, and the quotas of projects; once, or as they change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from ullage.cli.common.accounts import snapshot_limits
from ullage.cli.common.listing import ChangingTable, RepeatedReport, Report, print_report
from ullage.cli.common.options import OutputFormat
from ullage.cli.common.project_quotas import counted, escrow_in, project_name, quota_of, quotas_of
from ullage.cli.common.session import Missing, Session
from ullage.cli.common.text import plain
from ullage.cli.common.watching import Change, followable, followed, repeated
from ullage.cli.quota import project_text, text
from ullage.cli.quota.project_text import ProjectQuota
from ullage.clock import SystemClock
from ullage.errors import BadInput
from ullage.kube.cache.reflector import Selection
from ullage.kube.client.client import Client
from ullage.policies.counts.api import SNAPSHOT_LIMITS, SnapshotLimit
from ullage.space.api import HARVESTER_QUOTAS, NAME, ResourceQuota
from ullage.space.limit_setting import Limited

# What `ullage quota get project/ID` reads: the quota, and the record on it of what seeds may have.


NOT_DIVIDED: Final = (
    "nobody has written down what each seed may have of the quota of project %s: `ullage controller --role master` does, and it"
    " stands on the master"
)


async def read_project(client: Client, project: str) -> ProjectQuota:
    """Raises `Missing` where there is neither such a project nor a quota of it."""
    quota = await quota_of(client, project)
    name = await project_name(client, project)
    if quota is None and name is None:
        raise Missing(f"there is no project {project}, and no quota of it. Next: kubectl get projects")
    if quota is None:
        return ProjectQuota(project=project, name=name or "")
    notes = [] if name is not None else [f"there is no project {project} here: its quota holds when there is"]
    escrow = None
    try:
        escrow = escrow_in(quota)
        if escrow is None and counted(quota.status.local_usage) is None:
            notes.append(NOT_DIVIDED % project)
    except BadInput as error:
        notes.append(f"what the seeds may have cannot be read: {plain(str(error))}")
    return ProjectQuota(project=project, name=name or "", quota=quota, escrow=escrow, notes=tuple(notes))


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitFilter:
    """Those of some namespaces and virtual machines, or all of the session's namespace, or of all namespaces."""

    named: Sequence[Limited] = ()
    labels: str = ""  # of the quota
    everywhere: bool = False

    def rows(self, found: Iterable[ResourceQuota | SnapshotLimit]) -> list[text.LimitRow]:
        """What is named has a row, whether there is a limit or not."""
        quotas: dict[str, ResourceQuota] = {}
        counts: dict[str, list[SnapshotLimit]] = {}
        for one in found:
            if isinstance(one, SnapshotLimit):
                counts.setdefault(one.metadata.namespace, []).append(one)
            elif one.metadata.name == NAME:
                quotas[one.metadata.namespace] = one
        if self.named:
            return [text.row(one, quotas.get(one.namespace), counts.get(one.namespace, ())) for one in self.named]
        namespaces = sorted({*quotas, *counts})
        return [row for one in namespaces for row in text.rows(one, quotas.get(one), counts.get(one, ()))]

    def selections(self, session: Session) -> list[Selection[Any]]:
        if not self.named:
            return [Selection(HARVESTER_QUOTAS, "" if self.everywhere else session.namespace, self.labels)]
        return [
            Selection(HARVESTER_QUOTAS, one, fields=f"metadata.name={NAME}")
            for one in sorted({one.namespace for one in self.named})
        ]

    def count_selections(self, session: Session) -> list[Selection[Any]]:
        """They may not be served, or not for everybody to read."""
        if not self.named:
            return [Selection(SNAPSHOT_LIMITS, "" if self.everywhere else session.namespace, self.labels)]
        return [Selection(SNAPSHOT_LIMITS, one) for one in self.counted]

    @property
    def counted(self) -> list[str]:
        """The namespaces that are named: those of virtual machines alone have no number that is limited."""
        return sorted({one.namespace for one in self.named if not one.vm})


# --- limits on snapshots ------------------------------------------------------------------------------------------


async def show(session: Session, wanted: LimitFilter, output: OutputFormat) -> None:
    rows = _for(output, await _read(session, wanted))
    nothing = f"there is no quota with the labels {wanted.labels}" if wanted.labels else ""
    report = Report(
        rows=rows,
        table=text.layout(),
        nothing=nothing or "there is no quota: snapshots are not limited",
        single=len(wanted.named) == 1,
    )
    print_report(report, output, now=SystemClock().now())


async def watch(session: Session, wanted: LimitFilter, output: OutputFormat) -> None:
    """Until it is interrupted."""
    await _read(session, wanted)  # where that may not be read, or is not served, it is said at once
    clock = SystemClock()
    table = ChangingTable(text.layout(), output, write=partial(print, flush=True))
    selections = [*wanted.selections(session), *await followable(session.client, wanted.count_selections(session))]
    async with followed(session.client, selections) as follow:
        there = {_place(change): change.obj for change in follow.there}
        shown = _for(output, wanted.rows(there.values()))
        table.begin(shown, clock.now())
        async for change in follow.changes():
            there.pop(_place(change), None)
            if not change.gone:
                there[_place(change)] = change.obj
            rows = _for(output, wanted.rows(there.values()))
            _show_changes(table, shown, rows)
            shown = rows


def _show_changes(table: ChangingTable[text.LimitRow], old: Sequence[text.LimitRow], new: Sequence[text.LimitRow]) -> None:
    """One quota has many limits: those that are as they were are not shown again."""
    now, there = SystemClock().now(), {one.uid for one in new}
    for row in new:
        if row not in old:
            table.change(row, now)
    for row in old:
        if row.uid not in there:
            table.change(row, now, gone=True)


def _for(output: OutputFormat, rows: Iterable[text.LimitRow]) -> list[text.LimitRow]:
    return list(text.in_parts(rows) if output.is_table else rows)


def _place(change: Change) -> tuple[str, str, str]:
    meta = change.obj.metadata
    return change.kind.name, meta.namespace, meta.name


async def _read(session: Session, wanted: LimitFilter) -> list[text.LimitRow]:
    client = session.client
    if wanted.named:
        found = [await client.find(HARVESTER_QUOTAS, NAME, one) for one in dict.fromkeys(one.namespace for one in wanted.named)]
        counts = [limit for one in wanted.counted for limit in await snapshot_limits(client, one)]
        return wanted.rows([*(one for one in found if one is not None), *counts])
    namespace = "" if wanted.everywhere else session.namespace
    quotas = (await client.list(HARVESTER_QUOTAS, namespace, labels=wanted.labels)).items
    return wanted.rows([*quotas, *await snapshot_limits(client, namespace, labels=wanted.labels)])


# --- quotas of projects ----------------------------------------------------------------------------------------------


async def show_projects(client: Client, projects: Sequence[str], output: OutputFormat, *, watch: bool) -> None:
    """One is shown whole to people; several are rows."""
    clock = SystemClock()

    async def read() -> Report[project_text.ProjectQuota]:
        return _report([await read_project(client, one) for one in projects], output)

    if not watch:
        print_report(await read(), output, now=clock.now())
        return
    report: RepeatedReport[project_text.ProjectQuota] = RepeatedReport(output)
    followed = [selection for one in projects for selection in quotas_of(one)]
    await repeated(client, followed, read, lambda found: report.show(found, clock.now()))


def _report(found: Sequence[project_text.ProjectQuota], output: OutputFormat) -> Report[project_text.ProjectQuota]:
    notes, table = [note for one in found for note in one.notes], project_text.layout()
    if len(found) > 1:
        return Report(rows=found, table=table, notes=notes)
    [one] = found
    return Report(
        rows=[] if output.is_table and one.quota is None else [one],
        table=table,
        notes=notes,
        nothing=project_text.no_quota(one.project),
        text=lambda now: project_text.described(one, now=now),
        single=True,
    )
