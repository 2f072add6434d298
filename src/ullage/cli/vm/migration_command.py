"""`ullage vm migration-config get|set`, and `ullage vm migrate`."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from ullage.cli.common import arguments, completion
from ullage.cli.common.arguments import At
from ullage.cli.common.commands import Application
from ullage.cli.common.options import Context, DryRun, Kubeconfig
from ullage.cli.common.running import run
from ullage.cli.vm import options
from ullage.errors import BadInput

FORMATS: Final = ("table", "json", "yaml")
ANY: Final = "`default` takes the setting out again."

app = Application(help="How VMs move between nodes: how many at a time, how fast, and when it is given up.")


@app.command()
def get(
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="FORMAT", help="table, json or yaml.", autocompletion=completion.words(*FORMATS)
        ),
    ] = "table",
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Show how VMs move between nodes: what KubeVirt is told, and its default where it is told nothing.

    \b
    ullage vm migration-config get
    """
    arguments.one_of("--output", output, FORMATS)
    from ullage.cli.vm import migration_configs

    run(At(kubeconfig, kube_context, None, None), lambda session: migration_configs.show(session, output))


@app.command("set")
def set_(
    per_cluster: Annotated[
        str | None,
        typer.Option("--parallel-migrations-per-cluster", metavar="N", help=f"So many at a time, of all VMs. {ANY}"),
    ] = None,
    per_node: Annotated[
        str | None,
        typer.Option("--parallel-outbound-migrations-per-node", metavar="N", help="So many at a time that leave one node."),
    ] = None,
    bandwidth: Annotated[
        str | None,
        typer.Option("--bandwidth-per-migration", metavar="SIZE", help="Of the network in a second: 64Mi. 0: no bound."),
    ] = None,
    completion_timeout: Annotated[
        str | None,
        typer.Option(
            "--completion-timeout-per-gib", metavar="SECONDS", help="Give up after so long for each GiB of memory. 0: never."
        ),
    ] = None,
    progress_timeout: Annotated[
        str | None,
        typer.Option("--progress-timeout", metavar="SECONDS", help="Give up after so long without progress. 0: never."),
    ] = None,
    auto_converge: Annotated[
        str | None,
        typer.Option(
            "--allow-auto-converge",
            metavar="true|false",
            help="Slow a guest down that writes faster than is copied.",
            autocompletion=completion.words("true", "false"),
        ),
    ] = None,
    post_copy: Annotated[
        str | None,
        typer.Option(
            "--allow-post-copy",
            metavar="true|false",
            help="Instead of giving up, let it run on the new node before all is copied.",
            autocompletion=completion.words("true", "false"),
        ),
    ] = None,
    dry_run: DryRun = False,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Tell KubeVirt how VMs move between nodes. What is not named stays as it is.

    \b
    ullage vm migration-config set --parallel-migrations-per-cluster 10 --bandwidth-per-migration 64Mi
    ullage vm migration-config set --progress-timeout default
    """
    named = {
        "--parallel-migrations-per-cluster": per_cluster,
        "--parallel-outbound-migrations-per-node": per_node,
        "--bandwidth-per-migration": bandwidth,
        "--completion-timeout-per-gib": completion_timeout,
        "--progress-timeout": progress_timeout,
        "--allow-auto-converge": auto_converge,
        "--allow-post-copy": post_copy,
    }
    from ullage.vms.migration_settings import SETTINGS, written

    if all(given is None for given in named.values()):
        raise BadInput("migration-config set", "(nothing)", f"name what is to be set: {', '.join(named)}")
    wanted = {
        setting.field: written(setting, given, where=option)
        for setting, (option, given) in zip(SETTINGS, named.items(), strict=True)
        if given is not None
    }
    from ullage.cli.vm import migration_configs

    run(At(kubeconfig, kube_context, None, None), lambda session: migration_configs.change(session, wanted, dry_run=dry_run))


def migrate(
    names: options.Names,
    wait: options.Wait = False,
    timeout: options.Timeout = "5m",
    dry_run: DryRun = False,
    namespace: arguments.Namespace = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Move VMs to other nodes while they run.

    While one moves there are two pods of it: what the second one takes comes out of what the namespace keeps for maintenance.

    \b
    ullage vm migrate shop/db --wait
    """
    at = At(kubeconfig, kube_context, namespace, None)
    targets = options.targets(names, namespace=namespace)
    seconds = arguments.seconds("--timeout", timeout)
    from ullage.cli.vm import migrations

    run(
        at,
        lambda session: migrations.migrate(session, targets, dry_run=dry_run, timeout=seconds if wait else None),
        goes_on="the move goes on: kubectl get vmim",
    )
