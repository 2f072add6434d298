"""`ullage usage`: what snapshots take, of what they may, what VMs do, and what the machines of projects do."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, cast

import typer

from ullage.cli.common import arguments, completion
from ullage.cli.common.arguments import At, Namespace
from ullage.cli.common.options import Context, Kubeconfig, Output, output_format
from ullage.cli.common.running import run
from ullage.errors import BadInput

if TYPE_CHECKING:
    from ullage.cli.common.options import OutputFormat
    from ullage.cli.common.session import Session
    from ullage.cli.usage.project_text import ProjectGroup
    from ullage.cli.usage.reading import Reading
    from ullage.cli.usage.text import GroupBy

GROUPS = ("namespace", "vm", "volume")
OF_PROJECTS = ("project", "seed", "cluster")
ALL_GROUPS = (*GROUPS, *OF_PROJECTS)


def usage(
    target: Annotated[
        str | None,
        typer.Argument(metavar="project/ID", help="Only this project.", show_default=False, autocompletion=completion.projects),
    ] = None,
    namespace: Namespace = None,
    everywhere: Annotated[bool, typer.Option("--all-namespaces", "-A", help="In all namespaces.")] = False,
    group_by: Annotated[
        str | None,
        typer.Option(
            "--group-by",
            metavar="WHAT",
            help="A row for each namespace, vm or volume; or for each project, seed or cluster.",
            show_default="namespace, or project where one is named",
            autocompletion=completion.words(*ALL_GROUPS),
        ),
    ] = None,
    output: Output = "table",
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Show the space that snapshots take, and what VMs take of their namespace's quota: used, reserved, limit, free.

    USED is there; RESERVED was admitted and is not there yet; both count. By volume each snapshot is shown as what it was
    booked with. VMs are shown by namespace: the share for what runs, and the one that is kept for migrations. With -o json or
    yaml the space of snapshots is in bytes, and what VMs take in quantities.

    By project, seed or cluster it is what machines take of the quotas of projects. Projects and seeds are known on the master:
    a seed is shown with what it may have of the quota now, and STALE tells since when it cannot be asked. Clusters are known on
    the seed that runs them, and are shown beside the quota of their project.

    \b
    ullage usage -A
    ullage usage -n team-a --group-by vm
    ullage usage --group-by project
    ullage usage --group-by seed project/abc
    """
    how = output_format(output)
    chosen = group_by if group_by is not None else "project" if target is not None else "namespace"
    arguments.one_of("--group-by", chosen, ALL_GROUPS)
    if chosen in OF_PROJECTS:
        if namespace:
            raise BadInput("--namespace", namespace, f"not allowed with --group-by {chosen}: projects are in no namespace")
        _show_projects(At(kubeconfig, kube_context, None, None), cast("ProjectGroup", chosen), target, how)
        return
    if target is not None:
        raise BadInput("project/ID", target, f"not allowed with --group-by {chosen}: project, seed or cluster is")
    group = cast("GroupBy", chosen)
    if everywhere and namespace:
        raise BadInput("--namespace", namespace, "not allowed with -A")
    from ullage.cli.common.listing import shown
    from ullage.cli.usage import compute_text, text
    from ullage.cli.usage.reading import read_usage
    from ullage.clock import SystemClock

    async def work(session: Session) -> Reading:
        return await read_usage(session, group, everywhere=everywhere)

    found = run(At(kubeconfig, kube_context, namespace, None), work)
    for note in found.notes:
        print(f"ullage: {note}", file=sys.stderr)
    if how.is_table and not found.rows:
        print(f"ullage: {text.nothing(group, complete=not found.notes)}", file=sys.stderr)
    elif found.rows or how.name != "name":
        bodies = {one.namespace: compute_text.body(one) for one in found.compute}
        now = SystemClock().now()
        print(shown(found.rows, text.layout(group, bodies), how, now=now))
        if how.is_table and found.compute:
            print(f"\n{compute_text.shares_table(found.compute)}")
            for line in (line for one in found.compute for line in compute_text.lines(one, now=now)):
                print(line)


def _show_projects(at: At, group: ProjectGroup, target: str | None, how: OutputFormat) -> None:
    project = arguments.project("project/ID", target) if target is not None else ""
    from ullage.cli.common.listing import shown
    from ullage.cli.usage import project_text
    from ullage.cli.usage.projects import ProjectReading, read_projects
    from ullage.clock import SystemClock

    async def work(session: Session) -> ProjectReading:
        return await read_projects(session.client, group, project=project)

    found = run(at, work)
    for note in found.notes:
        print(f"ullage: {note}", file=sys.stderr)
    if how.is_table and not found.rows:
        print(f"ullage: {project_text.nothing(group, project)}", file=sys.stderr)
    elif found.rows or how.name != "name":
        print(shown(found.rows, project_text.layout(group, wide=how.is_wide), how, now=SystemClock().now()))
