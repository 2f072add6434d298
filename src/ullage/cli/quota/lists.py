"""What `ullage quota list` reads and prints, once its options are understood: limits on the space of snapshots, and the quotas
of projects; once, or as they change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ullage.cli.common.listing import ChangingTable, RepeatedReport, Report, print_report
from ullage.cli.common.options import OutputFormat
from ullage.cli.common.project_quotas import quotas_of
from ullage.cli.common.session import Session
from ullage.cli.common.watching import followed, repeated
from ullage.cli.quota import project_text, text
from ullage.cli.quota.project_reading import read_project
from ullage.clock import SystemClock
from ullage.kube.cache.reflector import Selection
from ullage.kube.client.client import Client
from ullage.space.api import NAME, QUOTAS, ResourceQuota
from ullage.space.limit_setting import Limited


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitFilter:
    """Those of some namespaces and virtual machines, or all of the session's namespace, or of all namespaces."""

    named: Sequence[Limited] = ()
    labels: str = ""  # of the quota
    everywhere: bool = False

    def rows(self, quotas: Iterable[ResourceQuota]) -> list[text.LimitRow]:
        """What is named has a row, whether there is a limit or not."""
        found = {one.metadata.namespace: one for one in quotas if one.metadata.name == NAME}
        if self.named:
            return [text.row(one, found.get(one.namespace)) for one in self.named]
        return [row for _, quota in sorted(found.items()) for row in text.rows(quota)]

    def selections(self, session: Session) -> list[Selection[Any]]:
        if not self.named:
            return [Selection(QUOTAS, "" if self.everywhere else session.namespace, self.labels)]
        return [Selection(QUOTAS, one, fields=f"metadata.name={NAME}") for one in sorted({one.namespace for one in self.named})]


# --- limits on the space of snapshots --------------------------------------------------------------------------------


async def show(session: Session, wanted: LimitFilter, output: OutputFormat) -> None:
    rows = await _read(session, wanted)
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
    async with followed(session.client, wanted.selections(session)) as follow:
        quotas = {_place(change.obj): change.obj for change in follow.there}
        shown = wanted.rows(quotas.values())
        table.begin(shown, clock.now())
        async for change in follow.changes():
            quotas.pop(_place(change.obj), None)
            if not change.gone:
                quotas[_place(change.obj)] = change.obj
            rows = wanted.rows(quotas.values())
            _show_changes(table, shown, rows)
            shown = rows


def _show_changes(table: ChangingTable[text.LimitRow], old: Sequence[text.LimitRow], new: Sequence[text.LimitRow]) -> None:
    """One quota has many limits: those that are as they were are not shown again."""
    now, there = SystemClock().now(), {one.limited for one in new}
    for row in new:
        if row not in old:
            table.change(row, now)
    for row in old:
        if row.limited not in there:
            table.change(row, now, gone=True)


def _place(quota: ResourceQuota) -> tuple[str, str]:
    return quota.metadata.namespace, quota.metadata.name


async def _read(session: Session, wanted: LimitFilter) -> list[text.LimitRow]:
    client = session.client
    if wanted.named:
        found = [await client.find(QUOTAS, NAME, one) for one in dict.fromkeys(one.namespace for one in wanted.named)]
        return wanted.rows(one for one in found if one is not None)
    return wanted.rows((await client.list(QUOTAS, "" if wanted.everywhere else session.namespace, labels=wanted.labels)).items)


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
