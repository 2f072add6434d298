"""`ullage vm`: start, stop and pause VMs, fill their disks, back them up and restore them."""

from __future__ import annotations

from typing import Annotated

import typer

from ullage.cli.common import arguments
from ullage.cli.common.arguments import At
from ullage.cli.common.commands import Application
from ullage.cli.common.options import Context, DryRun, Kubeconfig, Output, Selector, Watch, output_format, selector
from ullage.cli.common.running import run
from ullage.cli.vm import names as completed
from ullage.cli.vm import options
from ullage.errors import BadInput

app = Application(help="Start, stop and pause VMs, fill their disks, back them up and restore them.")


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


@app.command()
def start(
    names: options.Names,
    wait: options.Wait = False,
    timeout: options.Timeout = "5m",
    dry_run: DryRun = False,
    namespace: arguments.Namespace = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Start VMs.

    A halted one is to run from now on (its runStrategy becomes Always); one of Manual or RerunOnFailure is asked to start.

    \b
    ullage vm start shop/db --wait
    """
    _act("start", names, At(kubeconfig, kube_context, namespace, None), wait=wait, timeout=timeout, dry_run=dry_run)


@app.command()
def stop(
    names: options.Names,
    wait: options.Wait = False,
    timeout: options.Timeout = "5m",
    dry_run: DryRun = False,
    namespace: arguments.Namespace = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Stop VMs.

    One that is always to run is halted from now on; one of Manual or RerunOnFailure is asked to stop.

    \b
    ullage vm stop db cache -n shop --wait
    """
    _act("stop", names, At(kubeconfig, kube_context, namespace, None), wait=wait, timeout=timeout, dry_run=dry_run)


@app.command()
def restart(
    names: options.Names,
    wait: options.Wait = False,
    timeout: options.Timeout = "5m",
    dry_run: DryRun = False,
    namespace: arguments.Namespace = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Stop VMs, and start them again.

    \b
    ullage vm restart shop/db --wait
    """
    _act("restart", names, At(kubeconfig, kube_context, namespace, None), wait=wait, timeout=timeout, dry_run=dry_run)


@app.command()
def pause(
    names: options.Names,
    wait: options.Wait = False,
    timeout: options.Timeout = "5m",
    dry_run: DryRun = False,
    namespace: arguments.Namespace = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Pause VMs: they keep their memory and their volumes, and do nothing.

    \b
    ullage vm pause shop/db
    """
    _act("pause", names, At(kubeconfig, kube_context, namespace, None), wait=wait, timeout=timeout, dry_run=dry_run)


@app.command()
def unpause(
    names: options.Names,
    wait: options.Wait = False,
    timeout: options.Timeout = "5m",
    dry_run: DryRun = False,
    namespace: arguments.Namespace = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Let paused VMs go on.

    \b
    ullage vm unpause shop/db
    """
    _act("unpause", names, At(kubeconfig, kube_context, namespace, None), wait=wait, timeout=timeout, dry_run=dry_run)


def _act(action: str, names: list[str], at: At, *, wait: bool, timeout: str, dry_run: bool) -> None:
    targets = options.targets(names, namespace=at.namespace)
    seconds = arguments.seconds("--timeout", timeout)
    from ullage.cli.vm import actions

    run(
        at,
        lambda session: actions.act(session, action, targets, dry_run=dry_run, timeout=seconds if wait else None),
        goes_on="what was asked for happens all the same",
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
