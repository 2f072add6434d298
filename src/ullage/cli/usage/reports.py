"""What `ullage usage` reads and prints, once its options are understood: once, or again with each change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from ullage.cli.common.listing import RepeatedReport, Report, print_report, shown
from ullage.cli.common.options import OutputFormat
from ullage.cli.common.session import Session
from ullage.cli.common.watching import repeated
from ullage.cli.usage import compute_text, count_text, project_text, text
from ullage.cli.usage.project_text import ProjectGroup, ProjectRow
from ullage.cli.usage.projects import read_projects, sources_of_projects
from ullage.cli.usage.reading import Reading, read_usage
from ullage.cli.usage.sources import sources
from ullage.cli.usage.text import GroupBy, UsageRow
from ullage.clock import SystemClock
from ullage.kube.cache.reflector import Selection


async def show_namespaces(
    session: Session, group: GroupBy, output: OutputFormat, *, everywhere: bool, labels: str, watch: bool
) -> None:
    async def read() -> Report[UsageRow]:
        found = await read_usage(session, group, everywhere=everywhere, labels=labels, again_and_again=watch)
        return _report(found, group, output, labels=labels)

    followed = await sources(session, group, everywhere=everywhere, labels=labels) if watch else None
    await _show(session, read, output, followed)


async def show_projects(
    session: Session, group: ProjectGroup, output: OutputFormat, *, project: str, labels: str, watch: bool
) -> None:
    async def read() -> Report[ProjectRow]:
        found = await read_projects(session.client, group, project=project, labels=labels)
        return Report(
            rows=found.rows,
            table=project_text.layout(group, wide=output.is_wide),
            notes=found.notes,
            nothing=project_text.nothing(group, project, labels),
        )

    await _show(session, read, output, sources_of_projects(group, project) if watch else None)


async def _show(
    session: Session, read: Callable[[], Awaitable[Report[Any]]], output: OutputFormat, followed: list[Selection[Any]] | None
) -> None:
    """`followed`: what it is shown again after changes of, until it is interrupted; None: it is shown once."""
    clock = SystemClock()
    if followed is None:
        print_report(await read(), output, now=clock.now())
        return
    report: RepeatedReport[Any] = RepeatedReport(output)
    await repeated(session.client, followed, read, lambda found: report.show(found, clock.now()))


def _report(found: Reading, group: GroupBy, output: OutputFormat, *, labels: str) -> Report[UsageRow]:
    compute = {one.namespace: compute_text.body(one) for one in found.compute}
    table = text.layout(group, compute, {namespace: count_text.body(one) for namespace, one in found.counts.items()})

    def whole(now: datetime) -> str:
        parts = [shown(found.rows, table, output, now=now)]
        if found.counts:
            parts += ["", count_text.counts_table(found.counts, claims=len(found.counts) == 1)]
            parts += [line for one in found.counts.values() if (line := count_text.more_claims(one))]
        if found.compute:
            parts += ["", compute_text.shares_table(found.compute)]
            parts += [line for one in found.compute for line in compute_text.lines(one, now=now)]
        return "\n".join(parts)

    return Report(
        rows=found.rows,
        table=table,
        notes=found.notes,
        nothing=text.nothing(group, complete=not found.notes, labels=labels, selected=found.selected),
        text=whole,
    )
