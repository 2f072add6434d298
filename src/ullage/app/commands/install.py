"""`ullage install` and `ullage uninstall`."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated

import typer

from ullage.app import drivers, project_options, vm_options
from ullage.app.commands import options
from ullage.app.composition import Composition
from ullage.app.configuration.flags import ConfigFile
from ullage.cli.common import shell
from ullage.errors import BadInput

if TYPE_CHECKING:
    from ullage.app.installer.outcomes import Outcome, Report
    from ullage.kube.client.client import Client

INSTALL = """Install what Ullage needs into a cluster.

Applies the definitions of its kinds, a namespace, service accounts with the least that they need, and a priority level \
for their requests. Can be repeated, and should be when classes come that name Secrets: the right to read a Secret is given \
where a class names it, and nowhere else. What is there and is not Ullage's own is never touched: it is checked, and reported.
"""
UNINSTALL = """Take Ullage out of a cluster.

Shows what goes, and asks. Webhooks go first, on a seed those in its user clusters too, then identities and roles. Kinds and \
their objects stay, unless you say --purge; snapshots and classes of other drivers, and a kind that has some, stay in any case.
"""


def install(
    context: typer.Context,
    role: project_options.Roles = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--driver",
            metavar="NAME",
            help="Rights on Secrets for the classes of this driver alone. May be repeated.",
            show_default="those of all classes",
        ),
    ] = None,
    all_secrets: Annotated[
        bool,
        typer.Option(
            "--all-secrets", help="The right to read every Secret: for classes that choose the namespace by a template."
        ),
    ] = False,
    kubeconfig: options.Kubeconfig = None,
    kube_context: options.Context = None,
    config_file: ConfigFile = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Ask the cluster what would change, and change nothing.")] = False,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="yaml", help="Print what is applied, and contact no cluster.")
    ] = None,
    longhorn: drivers.LonghornClaims = False,
    manage_engines: drivers.ManageEngines = False,
    manage_vm_backups: vm_options.ManageBackups = False,
    manage_vm_restores: vm_options.ManageRestores = False,
    migration: vm_options.MigrationMode = "reserve",
    seed_namespace: project_options.SeedNamespace = project_options.SEED_NAMESPACE,
) -> None:
    from ullage.app.installer.installer import Installer
    from ullage.app.installer.manifests import ROLE_TEMPLATES, controller_alone, manifests, master_account
    from ullage.app.installer.names import SEED, USER_CLUSTER
    from ullage.kube.crds.definitions import to_yaml

    composition: Composition = context.obj
    projects = project_options.ProjectChoice(roles=project_options.roles_of(role), seed_namespace=seed_namespace)
    chosen = drivers.Chosen(
        longhorn=longhorn,
        manage_engines=manage_engines,
        manage_vm_backups=manage_vm_backups,
        manage_vm_restores=manage_vm_restores,
        migration=migration,
        projects=projects,
    )
    slices = composition.slices(chosen)
    classes = any(part.secrets for one in slices for part in (one.controllers, one.hooks, one.sidecar) if part is not None)
    wanted = manifests(slices, all_secrets=all_secrets, names=projects.names)
    wanted += master_account() if SEED in projects.roles else []
    if USER_CLUSTER in projects.roles:
        wanted = controller_alone(wanted)
    if output is not None:
        if output != "yaml":
            raise BadInput("--output", output, "yaml is allowed")
        # Which cluster it is for nobody knows: most have no Rancher, and `kubectl apply` would stop there.
        shown = (manifest.body for manifest in wanted if manifest.brought and manifest.kind is not ROLE_TEMPLATES)
        print(to_yaml(*shown), end="")
        if classes and not all_secrets:
            print("ullage: note: rights on Secrets follow from a cluster's classes; they are not in this", file=sys.stderr)
        return

    async def work(client: Client) -> list[Outcome]:
        from ullage.app.installer.secret_access import SecretAccess

        outcomes = await Installer(client, dry_run=dry_run).install(wanted, tell=print)
        if not classes:
            return outcomes
        access = SecretAccess(client, dry_run=dry_run)
        return outcomes + await access.keep(tell=print, drivers=frozenset(only) if only else None, all_secrets=all_secrets)

    _report(_with_client(kubeconfig, kube_context, work), dry_run=dry_run)


def uninstall(
    kubeconfig: options.Kubeconfig = None,
    kube_context: options.Context = None,
    purge: Annotated[bool, typer.Option("--purge", help="Delete its kinds too, with all their objects.")] = False,
    also: Annotated[
        list[str] | None,
        typer.Option(
            "--driver", metavar="NAME", help="With --purge: the snapshots and classes of this driver too. May be repeated."
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be deleted, and delete nothing.")] = False,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="How long finalizers may take.")] = 120.0,
) -> None:
    from ullage.app.installer.uninstaller import Uninstaller

    if not yes and not dry_run and not sys.stdin.isatty():
        raise BadInput("--yes", "(absent)", "nobody can be asked here whether all of it is to be deleted: look with --dry-run")

    async def work(client: Client, *, dry: bool, tell: Report) -> list[Outcome]:
        return await Uninstaller(client, tell=tell, dry_run=dry, timeout=timeout, drivers=also or ()).uninstall(purge=purge)

    if not yes and not dry_run:
        plan = _with_client(kubeconfig, kube_context, lambda client: work(client, dry=True, tell=lambda outcome: None))
        _ask(plan, kubeconfig, kube_context, purge=purge)
    _report(_with_client(kubeconfig, kube_context, lambda client: work(client, dry=dry_run, tell=print)), dry_run=dry_run)


def _ask(plan: list[Outcome], kubeconfig: str | None, kube_context: str | None, *, purge: bool) -> None:
    from ullage.app.installer.outcomes import plan as lines_of
    from ullage.cli.common.session import load_config

    config = load_config(kubeconfig, kube_context)
    where = f"{config.server}{f' (context {config.context})' if config.context else ''}"
    print(f"This takes Ullage out of {where}:", *lines_of(plan), sep="\n")
    data = "Snapshots go with the data that they stand for, for good. " if purge else ""
    typer.confirm(f"{data}Go on?", abort=True)


def _with_client(
    kubeconfig: str | None, kube_context: str | None, work: Callable[[Client], Awaitable[list[Outcome]]]
) -> list[Outcome]:
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
