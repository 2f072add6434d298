"""`ullage schedule`: have snapshots taken at set times, look at schedules, run, suspend and delete them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ullage.cli.common import arguments
from ullage.cli.common.arguments import At
from ullage.cli.common.commands import Application
from ullage.cli.common.options import (
    OBJECTS,
    Context,
    DryRun,
    Kubeconfig,
    ObjectOutput,
    Output,
    Selector,
    Watch,
    output_format,
    selector,
)
from ullage.cli.common.running import run
from ullage.cli.schedule import options
from ullage.errors import BadInput

if TYPE_CHECKING:
    from ullage.policies.schedules.api import SnapshotSchedule

app = Application(help="Have snapshots taken at set times, and say which of them are kept.")


@app.command()
def create(
    name: options.NewName,
    schedule: Annotated[str, typer.Option("--schedule", metavar="CRON", help="When: five fields of cron, or @hourly, @daily.")],
    labels: Annotated[
        str | None,
        typer.Option("--claims", "-l", metavar="LABELS", help="The claims, such as app=db.", show_default="all of them"),
    ] = None,
    time_zone: Annotated[str, typer.Option("--time-zone", metavar="ZONE", help="Such as Europe/Berlin.")] = "UTC",
    keep: Annotated[int | None, typer.Option("--keep", metavar="COUNT", help="How many are kept of each claim.", min=1)] = None,
    keep_for: Annotated[
        str | None, typer.Option("--keep-for", metavar="AGE", help="How old they become: 36h, 30d, 8w.")
    ] = None,
    keep_size: Annotated[str | None, typer.Option("--keep-size", metavar="SIZE", help="What all may take: 100Gi.")] = None,
    class_name: Annotated[
        str | None,
        typer.Option("--class", metavar="CLASS", help="How they are taken.", show_default="the driver's default class"),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option("--group", metavar="NAME", help="Go on with the snapshots of this group.", show_default="the name"),
    ] = None,
    concurrency: Annotated[int, typer.Option("--concurrency", metavar="COUNT", help="How many are made at once.")] = 10,
    jitter: Annotated[str, typer.Option("--jitter", metavar="DURATION", help="How late a run may begin, to spread it.")] = "0s",
    deadline: Annotated[
        str | None,
        typer.Option("--deadline", metavar="DURATION", help="How late it may begin.", show_default="until the next is due"),
    ] = None,
    suspend: Annotated[bool, typer.Option("--suspend", help="Create it suspended.")] = False,
    dry_run: DryRun = False,
    output: ObjectOutput = None,
    dialect: options.NewDialect = "ga",
    namespace: arguments.Namespace = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Have snapshots taken at set times.

    Of the claims with these labels, and with all the rules about what is kept: the newest good one of a claim always is.

    \b
    ullage schedule create nightly --schedule "0 2 * * *" --time-zone Europe/Berlin -l app=db --keep 14
    ullage schedule create hourly --schedule @hourly --keep 24 --keep-for 2d --jitter 5m
    """
    at = At(kubeconfig, kube_context, namespace, dialect)
    arguments.name("NAME", name)
    how = output_format(output, OBJECTS) if output is not None else None
    spec: dict[str, Any] = {
        "schedule": schedule,
        "timeZone": time_zone,
        "claimSelector": options.claim_selector(labels),
        "retention": options.retention(keep, keep_for, keep_size),
        "concurrencyLimit": concurrency,
        "jitterSeconds": int(arguments.seconds("--jitter", jitter)),
        "dialect": dialect,
        "suspend": suspend,
        **({"snapshotClassName": arguments.name("--class", class_name)} if class_name else {}),
        **({"group": group} if group else {}),
        **({"startingDeadlineSeconds": int(arguments.seconds("--deadline", deadline))} if deadline else {}),
    }
    options.check_times(schedule, time_zone)
    from ullage.cli.common.listing import shown
    from ullage.cli.schedule import actions, text
    from ullage.clock import SystemClock

    made = run(at, lambda session: actions.create(session, name, spec, dry_run=dry_run))
    if how is not None:
        print(shown([made], text.layout(), how, now=SystemClock().now(), single=True))
        return
    said = "would be created" if dry_run else "created"
    print(f"schedule {name} {said}; its first run: {options.first_run(schedule, time_zone)}")


@app.listing
def list_(
    names: options.SomeNames = None,
    labels: Selector = None,
    all_namespaces: Annotated[bool, typer.Option("--all-namespaces", "-A", help="Of all namespaces.")] = False,
    watch: Watch = False,
    output: Output = "table",
    namespace: arguments.Namespace = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """List schedules: when they run next, when they ran last, how many snapshots they keep. `get` is the same.

    \b
    ullage schedule list -A
    ullage schedule get nightly -o yaml
    """
    at = At(kubeconfig, kube_context, namespace, None)
    how, wanted, chosen = output_format(output), options.names(names or []), selector(labels)
    if all_namespaces and (wanted or namespace is not None):
        raise BadInput("--all-namespaces", "with a name or a namespace", "only one of them is allowed")
    from ullage.cli.schedule import actions

    work = actions.watch if watch else actions.show
    run(at, lambda session: work(session, wanted, how, labels=chosen, everywhere=all_namespaces))


@app.command()
def describe(
    name: options.Name,
    namespace: arguments.Namespace = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Show one schedule whole.

    Its times, its claims, what it keeps, its snapshots, and what went wrong last.

    \b
    ullage schedule describe nightly -n shop
    """
    at = At(kubeconfig, kube_context, namespace, None)
    arguments.name("NAME", name)
    from ullage.cli.schedule import actions, text
    from ullage.clock import SystemClock

    known = run(at, lambda session: actions.describe(session, name))
    print(text.described(known, now=SystemClock().now()))


@app.command("run-now")
def run_now(
    name: options.Name,
    dry_run: DryRun = False,
    namespace: arguments.Namespace = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Take its snapshots at once.

    They are kept by the same rules, and the next run comes at its time all the same. A suspended schedule runs too, this once.

    \b
    ullage schedule run-now nightly
    """
    at = At(kubeconfig, kube_context, namespace, None)
    arguments.name("NAME", name)
    from ullage.cli.schedule import actions
    from ullage.clock import SystemClock

    time = run(at, lambda session: actions.run_now(session, name, now=SystemClock().now(), dry_run=dry_run))
    said = "would be asked" if dry_run else "was asked"
    print(f"schedule {name} {said} for a run for {time}; how far it is: ullage schedule describe {name}")


@app.command()
def suspend(
    name: options.Name,
    dry_run: DryRun = False,
    namespace: arguments.Namespace = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Take no snapshots, and delete none, until it is resumed.

    \b
    ullage schedule suspend nightly
    """
    _suspend(At(kubeconfig, kube_context, namespace, None), name, dry_run=dry_run, suspended=True)


@app.command()
def resume(
    name: options.Name,
    dry_run: DryRun = False,
    namespace: arguments.Namespace = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Go on with a schedule that was suspended. What it would have taken meanwhile is not made up for.

    \b
    ullage schedule resume nightly
    """
    _suspend(At(kubeconfig, kube_context, namespace, None), name, dry_run=dry_run, suspended=False)


def _suspend(at: At, name: str, *, dry_run: bool, suspended: bool) -> None:
    arguments.name("NAME", name)
    from ullage.cli.schedule import actions

    merge = {"spec": {"suspend": suspended}}
    found: SnapshotSchedule = run(at, lambda session: actions.edit(session, name, merge, dry_run=dry_run))
    said = "suspended" if found.spec.suspend else "resumed"
    print(f"schedule {name} {'would be ' if dry_run else ''}{said}")


@app.command()
def delete(
    names: options.Names,
    dry_run: DryRun = False,
    namespace: arguments.Namespace = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Delete schedules. Their snapshots stay.

    If one of them does not exist, none is deleted. A schedule that is created anew with the same name, or with --group, goes
    on with the snapshots.

    \b
    ullage schedule delete nightly
    """
    at = At(kubeconfig, kube_context, namespace, None)
    wanted = options.names(names)
    from ullage.cli.schedule import actions
    from ullage.policies.schedules.model import group_of

    for one, kept in run(at, lambda session: actions.delete(session, wanted, dry_run=dry_run)):
        stay = f"; its {kept} snapshots stay (ullage snapshot list -l ullage.io/schedule={group_of(one)})" if kept else ""
        print(f"schedule {one.metadata.name} {'would be deleted' if dry_run else 'deleted'}{stay}")
