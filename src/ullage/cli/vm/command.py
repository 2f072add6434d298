"""`ullage vm`: start, stop, pause and move VMs, fill their disks, back them up and restore them, and tell what they cost."""

from __future__ import annotations

from typing import Annotated

import typer

from ullage.cli.common import arguments, completion
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
from ullage.cli.vm import migration_command, options
from ullage.cli.vm import names as completed
from ullage.cli.vm.cost_command import cost
from ullage.errors import BadInput

app = Application(help="Start, stop, pause and move VMs, fill their disks, back them up and restore them.")


@app.listing
def list_(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar=options.WHERE, help="Only these.", autocompletion=completed.machines, show_default="all"),
    ] = None,
    labels: Selector = None,
    all_namespaces: Annotated[bool, typer.Option("--all-namespaces", "-A", help="Of all namespaces.")] = False,
    watch: Watch = False,
    output: Output = "table",
    namespace: arguments.Namespace = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """List VMs, and what they do now. `get` is the same.

    \b
    ullage vm list -n shop
    ullage vm get shop/db -o yaml
    ullage vm list -A -o wide -w
    """
    at = At(kubeconfig, kube_context, namespace, None)
    how = output_format(output)
    named = options.targets(names or (), namespace=namespace)
    for other, given in (("-l", labels), ("--all-namespaces", all_namespaces)):
        if named and given:
            raise BadInput(options.WHERE, f"{' '.join(names or ())} with {other}", "only one of them is allowed")
    if all_namespaces and namespace is not None:
        raise BadInput("--all-namespaces", f"with --namespace {namespace}", "only one of them is allowed")
    chosen = selector(labels)
    from ullage.cli.vm import lists

    wanted = lists.MachineFilter(named=named, labels=chosen, everywhere=all_namespaces)
    run(at, lambda session: (lists.watch if watch else lists.show)(session, wanted, how))


def _power(action: str, help: str) -> None:
    """The commands that ask a VM to be in another state differ in words alone."""

    @app.command(action, help=help)
    def command(
        names: options.Names,
        wait: options.Wait = False,
        timeout: options.Timeout = "5m",
        dry_run: DryRun = False,
        namespace: arguments.Namespace = None,
        kubeconfig: Kubeconfig = None,
        kube_context: Context = None,
    ) -> None:
        targets = options.targets(names, namespace=namespace)
        seconds = arguments.seconds("--timeout", timeout)
        from ullage.cli.vm import actions

        run(
            At(kubeconfig, kube_context, namespace, None),
            lambda session: actions.act(session, action, targets, dry_run=dry_run, timeout=seconds if wait else None),
            goes_on="what was asked for happens all the same",
        )


_power(
    "start",
    """Start VMs.

    A halted one is to run from now on (its runStrategy becomes Always); one of Manual or RerunOnFailure is asked to start.

    \b
    ullage vm start shop/db --wait
    """,
)
_power(
    "stop",
    """Stop VMs.

    One that is always to run is halted from now on; one of Manual or RerunOnFailure is asked to stop.

    \b
    ullage vm stop db cache -n shop --wait
    """,
)
_power(
    "restart",
    """Stop VMs, and start them again.

    \b
    ullage vm restart shop/db --wait
    """,
)
_power(
    "pause",
    """Pause VMs: they keep their memory and their volumes, and do nothing.

    \b
    ullage vm pause shop/db
    """,
)
_power(
    "unpause",
    """Let paused VMs go on.

    \b
    ullage vm unpause shop/db
    """,
)


@app.command()
def fill(
    name: options.Name,
    volume: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this one of its volumes.", show_default="all that have a claim")
    ] = None,
    count: Annotated[
        str | None, typer.Option("--bytes", metavar="SIZE", help="How much of each volume, such as 10Mi.", show_default="all")
    ] = None,
    percent: Annotated[
        str | None, typer.Option(metavar="1-100", help="How much of each volume, in percent.", show_default="100")
    ] = None,
    namespace: arguments.Namespace = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Write random blocks over the volumes of a VM of `ullage up`, from their beginning.

    What was there is overwritten. The VM may run or not. Volumes of Longhorn are written as raw devices, those of
    ullage-hostpath have their disk in the file disk.img.

    \b
    ullage vm fill shop/db
    ullage vm fill shop/db --volume data --bytes 10Mi
    ullage vm fill db -n shop --percent 50
    """
    at = At(kubeconfig, kube_context, namespace, None)
    target = options.target(name, namespace=namespace)
    amount = options.amount(count=count, percent=percent)
    if volume is not None:
        arguments.name("--volume", volume)
    import secrets

    from ullage.cli.vm import filling

    run(
        at,
        lambda session: filling.fill(
            session, target, only=volume, amount=amount, new_id=lambda: f"command-{secrets.token_hex(8)}"
        ),
        goes_on="what was written stays",
        stopped="stopped",
    )


@app.command()
def backup(
    name: options.Name,
    called: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="What the backup is called.", show_default="the VM's name and the time"),
    ] = None,
    type_: Annotated[
        str,
        typer.Option(
            "--type",
            metavar="snapshot|backup",
            help="What its spec.type says, for tools that go by it. The same is done for both, and both cost the same.",
            autocompletion=completion.words(*options.TYPES),
        ),
    ] = "snapshot",
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is complete, and show how far it is.")] = False,
    timeout: options.Timeout = "5m",
    dry_run: DryRun = False,
    output: ObjectOutput = None,
    namespace: arguments.Namespace = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Take a backup of a VM: a snapshot of each of its volumes, all at once or none.

    The VM may run. The backup is in the VM's namespace, and takes space there as snapshots do.

    \b
    ullage vm backup shop/db --name before-upgrade --wait
    """
    at = At(kubeconfig, kube_context, namespace, None)
    target = options.target(name, namespace=namespace)
    type = options.backup_type(type_)
    made = options.made_name(called)
    seconds = arguments.seconds("--timeout", timeout)
    how = output_format(output, OBJECTS) if output is not None else None
    from ullage.cli.vm import backups

    make = backups.MakeOptions(name=made, dry_run=dry_run, timeout=seconds if wait else None, output=how)
    run(
        at,
        lambda session: backups.back_up(session, target, type=type, make=make),
        goes_on="the backup goes on: kubectl get vmbackups",
    )


@app.command()
def restore(
    backup: Annotated[str, typer.Argument(metavar=options.WHERE, help="The backup.", autocompletion=completed.backups)],
    new_vm: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Make a new VM of this name.", show_default="the VM that the backup is of, in place"),
    ] = None,
    called: Annotated[
        str | None,
        typer.Option(
            "--name", metavar="NAME", help="What the restore is called.", show_default="the backup's name and the time"
        ),
    ] = None,
    keep_volumes: Annotated[
        bool, typer.Option("--keep-volumes", help="In place: the claims that the VM had before stay, and are nobody's.")
    ] = False,
    keep_mac_address: Annotated[
        bool,
        typer.Option("--keep-mac-address", help="A new VM has the MAC addresses of the old one: only one of them may run."),
    ] = False,
    start: Annotated[
        bool | None,
        typer.Option(
            "--start/--no-start",
            help="Whether a new VM runs as soon as it is made; there has to be room for it.",
            show_default="as the VM in the backup did",
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is complete, and show how far it is.")] = False,
    timeout: options.Timeout = "5m",
    dry_run: DryRun = False,
    output: ObjectOutput = None,
    namespace: arguments.Namespace = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Make a VM from a backup, or bring the one back that the backup is of.

    In place the VM has to be stopped: it gets the volumes and the spec of the backup, and the claims that it had before are
    deleted unless they are to be kept; it is stopped afterwards. A new one runs if its run strategy in the backup starts it.

    \b
    ullage vm restore shop/before-upgrade --wait
    ullage vm restore shop/before-upgrade --new-vm db-copy --start --wait
    """
    at = At(kubeconfig, kube_context, namespace, None)
    target = options.target(backup, namespace=namespace)
    wanted = arguments.name("--new-vm", new_vm) if new_vm is not None else None
    if wanted is None and keep_mac_address:
        raise BadInput("--keep-mac-address", "without --new-vm", "in place the addresses are always kept")
    if wanted is None and start is not None:
        raise BadInput("--start", "without --new-vm", "one that is restored in place stays stopped")
    if wanted is not None and keep_volumes:
        raise BadInput(
            "--keep-volumes", f"with --new-vm {wanted}", "a new VM had no volumes before: only one of them is allowed"
        )
    made = options.made_name(called)
    seconds = arguments.seconds("--timeout", timeout)
    how = output_format(output, OBJECTS) if output is not None else None
    from ullage.cli.vm import backups

    make = backups.MakeOptions(name=made, dry_run=dry_run, timeout=seconds if wait else None, output=how)
    chosen = backups.VmRestoreOptions(new_vm=wanted, keep_volumes=keep_volumes, keep_mac_address=keep_mac_address, start=start)
    run(
        at,
        lambda session: backups.restore(session, target, chosen, make=make),
        goes_on="the restore goes on: kubectl get vmrestores",
    )


app.command()(cost)
app.command()(migration_command.migrate)
app.add_typer(migration_command.app, name="migration-config")
