"""`ullage snapshot`: take snapshots of claims, look at them, restore them, delete them. Of either API."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ullage.cli.common import arguments, completion
from ullage.cli.common.arguments import At
from ullage.cli.common.commands import Application
from ullage.cli.common.options import OBJECTS, Context, DryRun, Kubeconfig, ObjectOutput, output_format
from ullage.cli.common.running import run
from ullage.cli.snapshot import lists, options
from ullage.cli.snapshot import names as completed
from ullage.cli.snapshot.group import command as group_command
from ullage.cli.snapshot.share import command as share_command
from ullage.errors import BadInput

app = Application(help="Take snapshots of claims, look at them, restore and delete them.")


@app.command()
def create(
    name: options.NewName,
    pvc: Annotated[
        str,
        typer.Option(metavar="CLAIM", help="The claim that the snapshot is taken of.", autocompletion=completion.claims),
    ],
    class_name: Annotated[
        str | None,
        typer.Option(
            "--class",
            metavar="CLASS",
            help="How it is taken: a VolumeSnapshotClass (prototype: a StorageClass).",
            show_default="the driver's default class (prototype: the claim's own)",
            autocompletion=completed.classes,
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is ready, and show how far it is.")] = False,
    timeout: options.Timeout = "5m",
    dry_run: DryRun = False,
    output: ObjectOutput = None,
    dialect: options.NewDialect = "ga",
    namespace: arguments.Namespace = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Take a snapshot of a claim.

    What can be told beforehand to fail (no such claim, no class for it) is refused, and nothing is created.

    \b
    ullage snapshot create before-upgrade --pvc data-db-0 --wait
    ullage snapshot create nightly --pvc data --class fast --dry-run
    """
    at = At(kubeconfig, kube_context, namespace, dialect)
    arguments.name("NAME", name)
    arguments.name("--pvc", pvc)
    seconds = arguments.seconds("--timeout", timeout)
    how = output_format(output, OBJECTS) if output is not None else None
    from ullage.cli.snapshot import actions

    create_options = actions.CreateOptions(name=name, claim=pvc, class_name=class_name)
    run(
        at,
        lambda session: actions.create(session, create_options, dry_run=dry_run, timeout=seconds if wait else None, output=how),
        goes_on=f"snapshot {name} goes on: ullage snapshot wait {name}",
    )


@app.command()
def describe(
    name: options.Name,
    dialect: options.Dialect = None,
    namespace: arguments.Namespace = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Show one snapshot whole.

    What it is of, how far it is, what is wrong with it and what to do about that, what was restored from it.

    \b
    ullage snapshot describe nightly -n shop
    """
    at = At(kubeconfig, kube_context, namespace, dialect)
    arguments.name("NAME", name)
    from ullage.cli.snapshot import actions
    from ullage.cli.snapshot.description import described
    from ullage.clock import SystemClock

    known = run(at, lambda session: actions.describe(session, name))
    print(described(known, now=SystemClock().now()))


@app.command()
def delete(
    names: options.Names,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until they are gone, and their data too.")] = False,
    timeout: options.Timeout = "5m",
    dry_run: DryRun = False,
    dialect: options.Dialect = None,
    namespace: arguments.Namespace = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Delete snapshots.

    If one of them does not exist, none is deleted.

    \b
    ullage snapshot delete before-upgrade nightly --wait
    """
    at = At(kubeconfig, kube_context, namespace, dialect)
    wanted = options.names(names)
    seconds = arguments.seconds("--timeout", timeout)
    from ullage.cli.snapshot import actions

    run(
        at,
        lambda session: actions.delete(session, wanted, dry_run=dry_run, timeout=seconds if wait else None),
        goes_on="what was deleted goes all the same",
    )


@app.command()
def restore(
    name: options.Name,
    to: Annotated[str | None, typer.Option(metavar="CLAIM", help="The claim to make, with the snapshot's data.")] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Bring the claim itself back to the snapshot. No pod may use it.")
    ] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Give the claim back what it had before --in-place.")] = False,
    undo_window: options.UndoWindow = "24h",
    class_name: Annotated[
        str | None,
        typer.Option(
            "--class",
            metavar="CLASS",
            help="Its StorageClass.",
            show_default="the source claim's",
            autocompletion=completion.storage_classes,
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="How large it is to be, such as 10Gi.",
            show_default="the source claim's size, or what the data needs if that is more",
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the claim has its volume.")] = False,
    timeout: options.Timeout = "5m",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before data changes in place.")] = False,
    dry_run: DryRun = False,
    output: ObjectOutput = None,
    dialect: options.Dialect = None,
    namespace: arguments.Namespace = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Make a new claim with a snapshot's data, or bring a claim back to it.

    With --to a claim is made in the snapshot's namespace. The one that the snapshot was taken of is left as it is, and need not
    exist. With --in-place that claim itself gets the data; what it had is kept for a while, and --undo gives it back. While
    pods use the claim that is refused; with --wait it begins as soon as none does.

    \b
    ullage snapshot restore before-upgrade --to data-old --wait
    ullage snapshot restore before-upgrade --in-place --wait
    ullage snapshot restore before-upgrade --undo --wait
    """
    at = At(kubeconfig, kube_context, namespace, dialect)
    arguments.name("NAME", name)
    seconds = arguments.seconds("--timeout", timeout)
    options.one_of({"--to": to is not None, "--in-place": in_place, "--undo": undo})
    if to is None:
        given = None if undo else undo_window
        return _in_place(
            at, name, given, ask=not yes and not dry_run, dry_run=dry_run, timeout=seconds if wait else None, output=output
        )
    arguments.name("--to", to)
    amount = arguments.size("--size", size) if size is not None else None
    how = output_format(output, OBJECTS) if output is not None else None
    from ullage.cli.snapshot import actions
    from ullage.cli.snapshot.restoring import RestoreOptions

    restore_options = RestoreOptions(to=to, class_name=class_name, size=amount)
    run(
        at,
        lambda session: actions.restore(
            session, name, restore_options, dry_run=dry_run, timeout=seconds if wait else None, output=how
        ),
        goes_on=f"claim {to} is filled all the same",
    )


def _in_place(
    at: At, name: str, undo_window: str | None, *, ask: bool, dry_run: bool, timeout: float | None, output: str | None
) -> None:
    """Without an undo window it is undone."""
    if undo_window is not None:
        arguments.seconds("--undo-window", undo_window)
    if ask and not sys.stdin.isatty():
        raise BadInput("--yes", "(absent)", "nobody can be asked here whether the claim's data may change: look with --dry-run")
    how = output_format(output, OBJECTS) if output is not None else None
    from ullage.cli.snapshot import in_place

    given = in_place.InPlaceOptions(undo_window=undo_window) if undo_window is not None else None

    def confirm(question: str) -> None:
        if ask:
            typer.confirm(question, abort=True)

    run(
        at,
        lambda session: in_place.carry_out(session, name, given, confirm=confirm, dry_run=dry_run, timeout=timeout, output=how),
        goes_on="the restore goes on: kubectl get snapshotrestores",
    )


@app.command()
def wait(
    names: options.Names,
    goal: Annotated[
        str,
        typer.Option("--for", metavar="|".join(options.GOALS), help="Until when. cut: the application may write again."),
    ] = "ready",
    timeout: options.Timeout = "5m",
    dialect: options.Dialect = None,
    namespace: arguments.Namespace = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Wait for snapshots, and show how far they are.

    Ends when all have come, or cannot come any more without an edit: then with exit code 1 and the reasons.

    \b
    ullage snapshot wait nightly --for cut --timeout 30s
    """
    at = At(kubeconfig, kube_context, namespace, dialect)
    wanted = options.names(names)
    arguments.one_of("--for", goal, options.GOALS)
    seconds = arguments.seconds("--timeout", timeout)
    from ullage.cli.snapshot import actions

    run(at, lambda session: actions.wait(session, wanted, goal=goal, timeout=seconds), goes_on="nothing was stopped")


app.listing(lists.list_)
for _command in (share_command.share, share_command.shares, share_command.unshare):
    app.command()(_command)
app.add_typer(group_command.app, name="group")
