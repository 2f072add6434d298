"""`ullage quota`: set, get and delete limits on the space of snapshots and on their number, and quotas of projects; set the
quota of a namespace that its VMs share.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ullage.cli.common import arguments
from ullage.cli.common.arguments import At, Namespace
from ullage.cli.common.commands import Application
from ullage.cli.common.options import Context, DryRun, Kubeconfig, Output, Selector, Watch, output_format, selector
from ullage.cli.common.running import run
from ullage.cli.quota import targets
from ullage.errors import BadInput

if TYPE_CHECKING:
    from ullage.cli.common.options import OutputFormat
    from ullage.cli.common.session import Session

MANAGER: Final = "ullage-cli"
Target = Annotated[
    str,
    typer.Argument(metavar="TARGET", help="ns/NAME, vm/NAMESPACE/NAME or project/ID.", autocompletion=targets.names),
]

app = Application(
    help="Limit the space that snapshots take, and their number; the CPUs and memory of a namespace's VMs; and the machines of"
    " a project."
)


@app.command("set")
def set_(
    target: Target,
    snapshots: Annotated[
        str | None,
        typer.Option(
            "--snapshots", metavar="SIZE", help="The bytes that all of its snapshots may take together: 10Gi. 0: no limit."
        ),
    ] = None,
    snapshot_count: Annotated[
        str | None,
        typer.Option(
            "--snapshot-count",
            metavar="NUMBER",
            help="How many snapshots a namespace may have: 20. 0: none at all. none: no limit.",
        ),
    ] = None,
    per_claim: Annotated[
        str | None,
        typer.Option(
            "--snapshots-per-claim", metavar="NUMBER", help="How many there may be of any one claim: 5. none: no limit."
        ),
    ] = None,
    delete_oldest: Annotated[
        bool | None,
        typer.Option(
            "--delete-oldest/--no-delete-oldest",
            help="Whether the oldest snapshot is deleted when a new one does not fit.",
            show_default="as it was; at first the new one is refused",
        ),
    ] = None,
    cpu: Annotated[
        str | None,
        typer.Option("--cpu", metavar="AMOUNT", help="The CPUs of a namespace or a project: 4 or 4000m. none: no limit."),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option("--memory", metavar="SIZE", help="The memory of a namespace or a project: 5Gi. none: no limit."),
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option("--storage", metavar="SIZE", help="The disks of the machines of a project: 1Ti. none: no limit."),
    ] = None,
    maintenance_cpu: Annotated[
        str | None,
        typer.Option("--maintenance-cpu", metavar="PERCENT", help="How much of its CPUs is kept for migrations. 0: nothing."),
    ] = None,
    maintenance_memory: Annotated[
        str | None,
        typer.Option("--maintenance-memory", metavar="PERCENT", help="How much of its memory is kept for them. 0: nothing."),
    ] = None,
    dry_run: DryRun = False,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Set a limit. Exactly full is allowed.

    A limit on snapshots below present use takes nothing away, and refuses what is new. --snapshots is about their bytes; their
    number is limited by the SnapshotLimit default-snapshot-limit of the namespace. CPUs and memory are the namespace's quota,
    as Rancher has it; what is kept for maintenance, VMs cannot use, and migrations can.

    The quota of a project is what all machines of its clusters may take together, on all seeds; it is set on the master. Only
    what is named changes. 0 allows no machine, and none takes the limit away. A default quota that is set becomes the project's
    own. Below present use no machine is removed, and new ones are refused.

    \b
    ullage quota set ns/team-a --snapshots 100Gi
    ullage quota set vm/team-a/db --snapshots 10Gi
    ullage quota set ns/team-a --snapshot-count 20 --snapshots-per-claim 5 --delete-oldest
    ullage quota set ns/team-a --cpu 4 --memory 5Gi --maintenance-cpu 50 --maintenance-memory 50
    ullage quota set project/abc --cpu 50 --memory 100Gi --storage 1Ti
    """
    if arguments.names_project(target):
        others = {"--snapshots": snapshots, "--snapshot-count": snapshot_count, "--snapshots-per-claim": per_claim}
        others |= {"--delete-oldest": None if delete_oldest is None else str(delete_oldest).lower()}
        others |= {"--maintenance-cpu": maintenance_cpu, "--maintenance-memory": maintenance_memory}
        limits = {"cpu": cpu, "memory": memory, "storage": storage}
        _set_project(At(kubeconfig, kube_context, None, None), target, limits, others=others, dry_run=dry_run)
        return
    limited = targets.limited(target)
    from ullage.cli.quota import compute, counts, text
    from ullage.cli.quota.writing import LimitClient
    from ullage.headroom.share_setting import set_shares
    from ullage.space.limit_setting import set_limit
    from ullage.space.quota import allows_zero

    if storage is not None:
        raise BadInput("--storage", storage or "(empty)", "only of a project: project/ID is allowed, or --snapshots instead")
    change = compute.change_of({"cpu": cpu, "memory": memory}, {"cpu": maintenance_cpu, "memory": maintenance_memory})
    if change is not None and limited.vm:
        raise BadInput("TARGET", target, "CPUs and memory are limited for a whole namespace: ns/NAME is allowed")
    numbers = counts.change_of({counts.WHOLE: snapshot_count, counts.EACH: per_claim}, delete_oldest=delete_oldest)
    if numbers is not None and limited.vm:
        raise BadInput("TARGET", target, "the number of snapshots is limited for a whole namespace: ns/NAME is allowed")
    if change is None and numbers is None and snapshots is None:
        allowed = (
            "--snapshots, --snapshot-count, --snapshots-per-claim, --cpu, --memory, --maintenance-cpu or --maintenance-memory"
            " is needed"
        )
        raise BadInput("TARGET", target, f"nothing was said to limit; {allowed}")
    size = _size(snapshots) if snapshots is not None else None

    async def work(session: Session) -> list[str]:
        client, said = LimitClient(session.client, dry_run=dry_run), list[str]()
        if change is not None:
            written = await set_shares(client, limited.namespace, change, manager=MANAGER)
            said += compute.was_set(limited.namespace, written.metadata.annotations, dry_run=dry_run)
        if size is not None:
            quota = await set_limit(client, limited, size, manager=MANAGER)
            said.append(text.was_set(limited, size, zero=quota is not None and allows_zero(quota), dry_run=dry_run))
        if numbers is not None:
            outcome = await counts.set_counts(client, limited.namespace, numbers, manager=MANAGER)
            said += counts.was_set(limited.namespace, outcome, dry_run=dry_run)
        return said

    print("\n".join(run(At(kubeconfig, kube_context, None, None), work)))


def _set_project(
    at: At, target: str, limits: Mapping[str, str | None], *, others: Mapping[str, str | None], dry_run: bool
) -> None:
    """`others` are options that say nothing of projects."""
    project = arguments.project("TARGET", target)
    from ullage.cli.quota import project_setting, project_text

    for option, given in others.items():
        if given is not None:
            raise BadInput(option, given or "(empty)", "not of a project: --cpu, --memory and --storage are allowed")
    change = project_setting.change_of(limits)
    if not change:
        raise BadInput("TARGET", target, "nothing was said to limit; --cpu, --memory or --storage is needed")

    async def work(session: Session) -> project_setting.Outcome:
        return await project_setting.set_quota(session.client, project, change, manager=MANAGER, dry_run=dry_run)

    found = run(at, work)
    print("\n".join(project_text.was_set(project, found, dry_run=dry_run)))
    if not found.project_exists:
        print(f"ullage: {project_text.no_project(project)}", file=sys.stderr)


def _size(given: str) -> int:
    from ullage.space.quantities import BadSize, parse_size

    try:
        return parse_size(given, field="--snapshots")
    except BadSize as error:
        raise BadInput("--snapshots", given or "(empty)", error.problem) from None


@app.listing
def list_(
    named: Annotated[
        list[str] | None,
        typer.Argument(metavar="TARGET", help="Only these.", show_default="all of them", autocompletion=targets.names),
    ] = None,
    namespace: Namespace = None,
    everywhere: Annotated[bool, typer.Option("--all-namespaces", "-A", help="In all namespaces.")] = False,
    labels: Selector = None,
    watch: Watch = False,
    output: Output = "table",
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """List limits on the space of snapshots, in bytes, and on their number, and what is used of them; of a project, its quota.
    `get` is the same.

    A project is shown with what its machines use on all seeds and on each, what each seed may have of the quota, and how it
    stands; with -w all of that again when it changes. All of them are in `ullage projects list`.

    -l goes by the labels of the objects (resourcequotas.harvesterhci.io, snapshotlimits.ullage.io), and chooses among those
    that are listed. Per claim, USED is what the claim with the most snapshots has.

    \b
    ullage quota list -A
    ullage quota list -A -l team=a -w
    ullage quota get vm/team-a/db -o json
    ullage quota get project/abc
    """
    how = output_format(output)
    given = list(dict.fromkeys(named or ()))
    if given and labels:
        raise BadInput("TARGET", f"{' '.join(given)} with -l", "only one of them is allowed")
    if any(arguments.names_project(one) for one in given):
        if everywhere or namespace:
            raise BadInput("TARGET", " ".join(named or ()), "not allowed with -n or -A: a project is in no namespace")
        _show_projects(At(kubeconfig, kube_context, None, None), given, how, watch=watch)
        return
    chosen = [targets.limited(one) for one in given]
    if chosen and (everywhere or namespace):
        raise BadInput("TARGET", " ".join(named or ()), "not allowed with -n or -A: it has its namespace in it")
    wanted_labels = selector(labels)
    from ullage.cli.quota import lists

    wanted = lists.LimitFilter(named=chosen, labels=wanted_labels, everywhere=everywhere)
    at = At(kubeconfig, kube_context, namespace, None)
    run(at, lambda session: (lists.watch if watch else lists.show)(session, wanted, how))


def _show_projects(at: At, named: list[str], how: OutputFormat, *, watch: bool) -> None:
    if strange := [one for one in named if not arguments.names_project(one)]:
        raise BadInput("TARGET", strange[0], "projects are shown by themselves: project/ID is allowed beside another project")
    projects = [arguments.project("TARGET", one) for one in named]
    from ullage.cli.quota import lists

    run(at, lambda session: lists.show_projects(session.client, projects, how, watch=watch))


@app.command()
def delete(
    target: Target,
    number: Annotated[
        bool,
        typer.Option("--snapshot-count", help="Remove the limits on the number of snapshots, and not that on their space."),
    ] = False,
    dry_run: DryRun = False,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Remove a limit, and no other: that on the space of snapshots; of a project its whole quota. That there is none is no
    error.

    \b
    ullage quota delete vm/team-a/db
    ullage quota delete ns/team-a --snapshot-count
    ullage quota delete project/abc
    """
    at = At(kubeconfig, kube_context, None, None)
    if arguments.names_project(target):
        if number:
            raise BadInput("--snapshot-count", target, "not of a project: ns/NAME is allowed")
        _delete_project(at, arguments.project("TARGET", target), dry_run=dry_run)
        return
    limited = targets.limited(target)
    if number and limited.vm:
        raise BadInput(
            "--snapshot-count", target, "the number of snapshots is limited for a whole namespace: ns/NAME is allowed"
        )
    from ullage.cli.quota import counts, text
    from ullage.cli.quota.writing import LimitClient
    from ullage.space.limit_setting import remove_limit

    async def work(session: Session) -> list[str]:
        client = LimitClient(session.client, dry_run=dry_run)
        if number:
            removed = await counts.remove_counts(client, limited.namespace, manager=MANAGER)
            return list(counts.was_removed(limited.namespace, removed, dry_run=dry_run))
        return [text.was_removed(limited, had=await remove_limit(client, limited, manager=MANAGER), dry_run=dry_run)]

    print("\n".join(run(at, work)))


def _delete_project(at: At, project: str, *, dry_run: bool) -> None:
    from ullage.cli.quota import project_setting, project_text

    removed = run(at, lambda session: project_setting.delete_quota(session.client, project, dry_run=dry_run))
    print("\n".join(project_text.was_removed(project, removed, dry_run=dry_run)))
