"""`ullage snapshot share`, `shares` and `unshare`. For administrators."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ullage.cli.common import arguments, completion
from ullage.cli.common.arguments import At
from ullage.cli.common.options import Context, DryRun, Kubeconfig, Output, output_format
from ullage.cli.common.running import run
from ullage.cli.snapshot import names as completed
from ullage.cli.snapshot import options
from ullage.errors import BadInput
from ullage.names import is_label

if TYPE_CHECKING:
    from ullage.cli.common.session import Session


def namespaces(option: str, given: list[str]) -> list[str]:
    """Each once, in the order given; several may stand in one, with commas."""
    found = list(dict.fromkeys(name.strip() for one in given for name in one.split(",")))
    for one in found:
        if not is_label(one):
            raise BadInput(option, one or "(empty)", "not the name of a namespace; allowed is something like team-b,team-c")
    return found


def share(
    name: options.Name,
    to: Annotated[
        list[str],
        typer.Option("--to", metavar="NAMESPACE[,…]", help="The namespaces that get it.", autocompletion=completion.namespaces),
    ],
    as_name: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="What it is called there.", show_default="as it is here")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until all of them have it.")] = False,
    timeout: options.Timeout = "5m",
    dry_run: DryRun = False,
    dialect: options.Dialect = None,
    namespace: arguments.Namespace = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Give a snapshot to other namespaces. For administrators.

    Each of them gets a VolumeSnapshot of its own that stands for the same data, and pays for it. Nothing is copied. What is
    asked for twice is done once, and those who have it already keep it.

    \b
    ullage snapshot share before-upgrade -n shop --to staging,qa --as shop-data --wait
    """
    at = At(kubeconfig, kube_context, namespace, dialect)
    arguments.name("NAME", name)
    if as_name is not None:
        arguments.name("--as", as_name)
    wanted = namespaces("--to", to)
    seconds = arguments.seconds("--timeout", timeout)
    from ullage.cli.snapshot.share import actions

    async def work(session: Session) -> None:
        asked = actions.ShareOptions(to=wanted, name=as_name or "")
        made = await actions.share(session, name, asked, dry_run=dry_run)
        missing = await actions.missing_namespaces(session, wanted)
        called = f" as {as_name}" if as_name else ""
        is_now = "would be given" if dry_run else "is given"
        print(f"snapshot {name} {is_now} to {', '.join(wanted)}{called} (snapshotshare/{made.metadata.name})", flush=True)
        for one in missing:
            print(f"ullage: there is no namespace {one}: it gets the snapshot once it is there", file=sys.stderr)
        if wait and not dry_run:
            await actions.ShareWaiter(session.client, made, [one for one in wanted if one not in missing]).run(seconds)

    run(at, work, goes_on=f"the snapshot is given all the same: ullage snapshot shares {name}")


def shares(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Only of this snapshot.", autocompletion=completed.snapshots, show_default="all"),
    ] = None,
    all_namespaces: Annotated[bool, typer.Option("--all-namespaces", "-A", help="Of all namespaces.")] = False,
    output: Output = "table",
    dialect: options.Dialect = None,
    namespace: arguments.Namespace = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """List who was given snapshots of a namespace, and how far that is. For administrators.

    \b
    ullage snapshot shares -A
    ullage snapshot shares before-upgrade -n shop
    """
    at = At(kubeconfig, kube_context, namespace, dialect)
    how = output_format(output)
    if name is not None:
        arguments.name("NAME", name)
    if all_namespaces and (name is not None or namespace is not None):
        raise BadInput("--all-namespaces", "with a name or a namespace", "only one of them is allowed")
    from ullage.cli.common.listing import Report, print_report
    from ullage.cli.snapshot.share import actions, text
    from ullage.clock import SystemClock

    found = run(at, lambda session: actions.shares(session, name or "", everywhere=all_namespaces))
    rows = list(text.rows(found))
    print_report(Report(rows=rows, table=text.layout(), nothing="no snapshot is shared"), how, now=SystemClock().now())


def unshare(
    name: options.Name,
    namespaces_: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            metavar="NAMESPACE[,…]",
            help="The namespaces that it is taken back from.",
            show_default="all of them",
            autocompletion=completion.namespaces,
        ),
    ] = None,
    dry_run: DryRun = False,
    dialect: options.Dialect = None,
    namespace: arguments.Namespace = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Take a snapshot back from other namespaces. For administrators.

    Their VolumeSnapshots of it are deleted. What was restored from them stays, and the snapshot itself stays as it is; it need
    not exist any more.

    \b
    ullage snapshot unshare before-upgrade -n shop --from qa
    """
    at = At(kubeconfig, kube_context, namespace, dialect)
    arguments.name("NAME", name)
    chosen = namespaces("--from", namespaces_ or [])
    from ullage.cli.snapshot.share import actions

    is_now = "would be taken back" if dry_run else "is taken back"
    for one, whom in run(at, lambda session: actions.unshare(session, name, chosen, dry_run=dry_run)):
        print(f"snapshot {name} {is_now} from {whom} (snapshotshare/{one.metadata.name})")
