"""`ullage snapshot`: take snapshots of claims, look at them, restore them, delete them. Of either API."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from ullage.cli.common import arguments
from ullage.cli.common.arguments import At
from ullage.cli.common.options import Context, Kubeconfig
from ullage.cli.snapshot import options
from ullage.errors import BadInput

if TYPE_CHECKING:
    from ullage.cli.common.session import Session
    from ullage.cli.snapshot.actions import Answer

INTERRUPTED = 130
R = TypeVar("R")

app = typer.Typer(no_args_is_help=True, help="Take snapshots of claims, look at them, restore and delete them.")


@app.command()
def create(
    name: options.Name,
    pvc: Annotated[str, typer.Option(metavar="CLAIM", help="The claim that the snapshot is taken of.")],
    class_name: Annotated[
        str | None,
        typer.Option(
            "--class",
            metavar="CLASS",
            help="How it is taken: a VolumeSnapshotClass (prototype: a StorageClass).",
            show_default="the driver's default class (prototype: the claim's own)",
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is ready, and show how far it is.")] = False,
    timeout: options.Timeout = "5m",
    dry_run: options.DryRun = False,
    dialect: options.NewDialect = "ga",
    namespace: arguments.Namespace = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Take a snapshot of a claim.

    \b
    ullage snapshot create before-upgrade --pvc data-db-0 --wait
    ullage snapshot create nightly --pvc data --class fast --dry-run
    """
    at = At(kubeconfig, kube_context, namespace, dialect)
    arguments.name("NAME", name)
    arguments.name("--pvc", pvc)
    seconds = arguments.seconds("--timeout", timeout)
    from ullage.cli.snapshot import actions

    create_options = actions.CreateOptions(name=name, claim=pvc, class_name=class_name)
    _run(
        at,
        lambda session: actions.create(session, create_options, dry_run=dry_run, timeout=seconds if wait else None),
        goes_on=f"snapshot {name} goes on: ullage snapshot wait {name}",
    )


@app.command("list")
def list_(
    pvc: Annotated[str | None, typer.Option(metavar="CLAIM", help="Only those of a claim.")] = None,
    pv: Annotated[str | None, typer.Option(metavar="VOLUME", help="Only those of a PersistentVolume.")] = None,
    pod: Annotated[str | None, typer.Option(metavar="POD", help="Only those of the claims that a pod uses.")] = None,
    statefulset: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only those of a StatefulSet's claims, of all its ordinals.")
    ] = None,
    all_namespaces: Annotated[bool, typer.Option("--all-namespaces", "-A", help="Of all namespaces.")] = False,
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FORMAT", help=f"{', '.join(options.OUTPUTS[:-1])} or {options.OUTPUTS[-1]}."),
    ] = "table",
    dialect: Annotated[
        str | None, typer.Option(metavar="ga|prototype", help="Only those of one API.", show_default="both")
    ] = None,
    namespace: arguments.Namespace = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """List snapshots, by claim and age.

    \b
    ullage snapshot list --statefulset db
    ullage snapshot list -A -o csv > snapshots.csv
    """
    at = At(kubeconfig, kube_context, namespace, dialect)
    arguments.one_of("--output", output, options.OUTPUTS)
    what, chosen = _filter(pvc=pvc, pv=pv, pod=pod, statefulset=statefulset)
    if all_namespaces and what in ("pod", "statefulset"):
        raise BadInput("--all-namespaces", f"with --{what} {chosen}", "that is in one namespace: name it with -n")
    if all_namespaces and namespace is not None:
        raise BadInput("--all-namespaces", f"with --namespace {namespace}", "only one of them is allowed")
    from ullage.cli.snapshot import actions

    given = namespace is not None
    list_options = actions.ListOptions(what=what, name=chosen, everywhere=all_namespaces, namespace_given=given)
    answer = _run(at, lambda session: actions.listing(session, list_options))
    _print_list(answer, output, about=f"{what} {chosen}")


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

    known = _run(at, lambda session: actions.describe(session, name))
    print(described(known, now=SystemClock().now()))


@app.command()
def delete(
    names: options.Names,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until they are gone, and their data too.")] = False,
    timeout: options.Timeout = "5m",
    dry_run: options.DryRun = False,
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

    _run(
        at,
        lambda session: actions.delete(session, wanted, dry_run=dry_run, timeout=seconds if wait else None),
        goes_on="what was deleted goes all the same",
    )


@app.command()
def restore(
    name: options.Name,
    to: Annotated[str, typer.Option(metavar="CLAIM", help="The claim to make, with the snapshot's data.")],
    class_name: Annotated[
        str | None,
        typer.Option("--class", metavar="CLASS", help="Its StorageClass.", show_default="the source claim's"),
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
    dry_run: options.DryRun = False,
    dialect: options.Dialect = None,
    namespace: arguments.Namespace = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Make a new claim with a snapshot's data.

    It is made in the snapshot's namespace. The claim that the snapshot was taken of is left as it is, and need not exist.

    \b
    ullage snapshot restore before-upgrade --to data-old --wait
    """
    at = At(kubeconfig, kube_context, namespace, dialect)
    arguments.name("NAME", name)
    arguments.name("--to", to)
    seconds = arguments.seconds("--timeout", timeout)
    amount = arguments.size("--size", size) if size is not None else None
    from ullage.cli.snapshot import actions
    from ullage.cli.snapshot.restoring import RestoreOptions

    restore_options = RestoreOptions(to=to, class_name=class_name, size=amount)
    _run(
        at,
        lambda session: actions.restore(session, name, restore_options, dry_run=dry_run, timeout=seconds if wait else None),
        goes_on=f"claim {to} is filled all the same",
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

    _run(at, lambda session: actions.wait(session, wanted, goal=goal, timeout=seconds), goes_on="nothing was stopped")


def _filter(**given: str | None) -> tuple[str, str]:
    chosen = [(what, name) for what, name in given.items() if name is not None]
    if len(chosen) > 1:
        both = " and ".join(f"--{what}" for what, _ in chosen)
        raise BadInput(
            both, " ".join(name for _, name in chosen), "only one of --pvc, --pv, --pod and --statefulset is allowed"
        )
    if not chosen:
        return "", ""
    [(what, name)] = chosen
    return what, arguments.name(f"--{what}", name)


def _print_list(answer: Answer, output: str, *, about: str) -> None:
    from ullage.cli.snapshot import text
    from ullage.clock import SystemClock

    for note in answer.listed.notes:
        print(f"ullage: note: {note}", file=sys.stderr)
    found = text.in_order(answer.listed.found)
    if output not in ("table", "wide"):
        if found or output != "name":
            print(text.listed(found, output))
    elif not found:
        where = f"in namespace {answer.namespace}" if answer.namespace else "in any namespace"
        why = (
            f"{about} uses no claims"
            if answer.claimless
            else f"there are no snapshots{f' of {about}' if about.strip() else ''} {where}"
        )
        print(f"ullage: {why}", file=sys.stderr)
    else:
        both = len(answer.listed.served) > 1
        wide = output == "wide"
        print(text.table(found, now=SystemClock().now(), wide=wide, namespaces=not answer.namespace, dialects=both))


def _run(at: At, work: Callable[[Session], Awaitable[R]], *, goes_on: str = "") -> R:
    """Ctrl-C ends the command. What the cluster was asked for before is not taken back, and that is said."""
    from ullage.cli.common.session import connected

    try:
        return connected(at, work)
    except KeyboardInterrupt:
        print(f"\nullage: stopped waiting{f'; {goes_on}' if goes_on else ''}", file=sys.stderr)
        sys.exit(INTERRUPTED)
