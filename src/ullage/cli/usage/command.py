"""`ullage usage`: what snapshots take, of what they may, what VMs do, and what the machines of projects do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

import typer

from ullage.cli.common import arguments, completion
from ullage.cli.common.arguments import At, Namespace
from ullage.cli.common.options import Context, Kubeconfig, Output, WatchWhole, output_format, selector
from ullage.cli.common.running import run
from ullage.errors import BadInput

if TYPE_CHECKING:
    from ullage.cli.common.options import OutputFormat
    from ullage.cli.usage.project_text import ProjectGroup
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
    labels: Annotated[
        str | None,
        typer.Option(
            "--selector",
            "-l",
            metavar="LABELS",
            help="Only namespaces with these labels, such as team=a; for projects and seeds only quotas, for clusters only"
            " Clusters with them.",
        ),
    ] = None,
    watch: WatchWhole = False,
    output: Output = "table",
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Show the space that snapshots take, and what VMs take of their namespace's quota: used, reserved, limit, free.

    USED is there; RESERVED was admitted and is not there yet; both count. By volume each snapshot is shown as what it was
    booked with. VMs are shown by namespace: the share for what runs, and the one that is kept for migrations. With -o json or
    yaml the space of snapshots is in bytes, and what VMs take in quantities.

    By project, seed or cluster it is what machines take of the quotas of projects. Projects and seeds are known on the master:
    a seed is shown with what it may have of the quota now. Clusters are known on the seed that runs them, and are shown beside
    the quota of their project. STALE tells for how long figures have not been of now: a seed or a cluster cannot be read.

    -l chooses among all namespaces, with or without -A. With -w a table comes again, whole, when it reads otherwise; with -o
    json and its like each row comes when it has changed, by itself.

    \b
    ullage usage -A
    ullage usage -n team-a --group-by vm
    ullage usage -l team=a -w
    ullage usage --group-by project
    ullage usage --group-by seed project/abc
    """
    how = output_format(output)
    chosen = group_by if group_by is not None else "project" if target is not None else "namespace"
    arguments.one_of("--group-by", chosen, ALL_GROUPS)
    if chosen in OF_PROJECTS:
        if namespace:
            raise BadInput("--namespace", namespace, f"not allowed with --group-by {chosen}: projects are in no namespace")
        at = At(kubeconfig, kube_context, None, None)
        _show_projects(at, cast("ProjectGroup", chosen), target, how, labels=labels, watch=watch)
        return
    if target is not None:
        raise BadInput("project/ID", target, f"not allowed with --group-by {chosen}: project, seed or cluster is")
    group = cast("GroupBy", chosen)
    if everywhere and namespace:
        raise BadInput("--namespace", namespace, "not allowed with -A")
    if labels and namespace:
        raise BadInput("--namespace", namespace, "not allowed with -l, which chooses among all namespaces")
    wanted = selector(labels)
    from ullage.cli.usage.reports import show_namespaces

    at = At(kubeconfig, kube_context, namespace, None)
    run(at, lambda session: show_namespaces(session, group, how, everywhere=everywhere, labels=wanted, watch=watch))


def _show_projects(
    at: At, group: ProjectGroup, target: str | None, how: OutputFormat, *, labels: str | None, watch: bool
) -> None:
    project = arguments.project("project/ID", target) if target is not None else ""
    if project and labels and group != "cluster":
        raise BadInput("project/ID", f"{target} with -l", f"only one of them is allowed with --group-by {group}")
    wanted = selector(labels)
    from ullage.cli.usage.reports import show_projects

    run(at, lambda session: show_projects(session, group, how, project=project, labels=wanted, watch=watch))
