"""`ullage install` and `ullage uninstall`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ullage.app import drivers
from ullage.app.commands import options
from ullage.app.composition import Composition
from ullage.cli.common import shell
from ullage.errors import BadInput

if TYPE_CHECKING:
    from ullage.app.installer.outcomes import Outcome

INSTALL = """Install what Ullage needs into a cluster.

Applies the definitions of its kinds, a namespace, service accounts with the least that they need, and a priority level \
for their requests. Can be repeated. What is there and is not Ullage's own is never touched: it is checked, and reported.
"""
UNINSTALL = """Take Ullage out of a cluster.

Webhooks go first, then identities and roles. Kinds and their objects stay, unless you say --purge.
"""


def install(
    context: typer.Context,
    kubeconfig: options.Kubeconfig = None,
    kube_context: options.Context = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Ask the cluster what would change, and change nothing.")] = False,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="yaml", help="Print what is applied, and contact no cluster.")
    ] = None,
    longhorn: drivers.LonghornClaims = False,
    manage_engines: drivers.ManageEngines = False,
) -> None:
    from ullage.app.installer.installer import Installer
    from ullage.app.installer.manifests import manifests
    from ullage.kube.crds.definitions import to_yaml

    composition: Composition = context.obj
    wanted = manifests(composition.slices(drivers.Chosen(longhorn=longhorn, manage_engines=manage_engines)))
    if output is not None:
        if output != "yaml":
            raise BadInput("--output", output, "yaml is allowed")
        print(to_yaml(*(manifest.body for manifest in wanted if manifest.brought)), end="")
        return

    async def work(client: Any) -> list[Outcome]:
        return await Installer(client, dry_run=dry_run).install(wanted, tell=print)

    _report(_with_client(kubeconfig, kube_context, work), dry_run=dry_run)


def uninstall(
    context: typer.Context,
    kubeconfig: options.Kubeconfig = None,
    kube_context: options.Context = None,
    purge: Annotated[bool, typer.Option("--purge", help="Delete its kinds too, with all their objects.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask whether --purge is meant.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be deleted, and delete nothing.")] = False,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="How long finalizers may take.")] = 120.0,
) -> None:
    from ullage.app.installer.uninstaller import Uninstaller

    if purge and not yes and not dry_run:
        if not sys.stdin.isatty():
            raise BadInput(
                "--purge", "(without --yes)", "it deletes every object of these kinds; where nobody can be asked, say --yes"
            )
        typer.confirm("This deletes every object of Ullage's kinds, and what they stand for. Go on?", abort=True)

    async def work(client: Any) -> list[Outcome]:
        return await Uninstaller(client, tell=print, dry_run=dry_run, timeout=timeout).uninstall(purge=purge)

    _report(_with_client(kubeconfig, kube_context, work), dry_run=dry_run)


def _with_client(kubeconfig: str | None, kube_context: str | None, work: Callable[[Any], Any]) -> list[Outcome]:
    import asyncio

    from ullage.cli.common.session import load_config
    from ullage.kube.client.client import Client

    config = load_config(kubeconfig, kube_context)

    async def run() -> list[Outcome]:
        async with Client(config, user_agent="ullage (install)") as client:
            return list(await work(client))

    return asyncio.run(run())


def _report(outcomes: list[Outcome], *, dry_run: bool) -> None:
    from ullage.app.installer.outcomes import failed, summary

    print(summary(outcomes, dry_run=dry_run))
    if failed(outcomes):
        sys.exit(shell.FAILED)
