"""The commands that start something, or install it. What they are composed of is in the context: the slices, and how to run
ourselves."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ullage.app import drivers, options
from ullage.cli.common import shell
from ullage.cli.ledger import command as ledger
from ullage.cli.snapshot import command as snapshot
from ullage.cli.volume import command as volume
from ullage.cli.volume import tree
from ullage.errors import BadInput

if TYPE_CHECKING:
    from ullage.app.report import Outcome
    from ullage.kube.slices import Slice

PROGRAM = (sys.executable, "-m", "ullage")

UP = """Serve a Kubernetes API on this machine, in the foreground.

Starts the embedded API server, and webhook, controllers and a small world of volumes and pods next to it, prints the path \
of a kubeconfig and a kubectl command to try, and keeps them running until Ctrl-C.

What was written survives a restart, a crash and a loss of power, unless you asked for --ephemeral.
"""
INSTALL = """Install what Ullage needs into a cluster.

Applies the definitions of its kinds, a namespace, service accounts with the least that they need, and a priority level \
for their requests. Can be repeated. What is there and is not Ullage's own is never touched: it is checked, and reported.
"""
UNINSTALL = """Take Ullage out of a cluster.

Webhooks go first, then identities and roles. Kinds and their objects stay, unless you say --purge.
"""


@dataclass(frozen=True, slots=True)
class Composition:
    """`slices` is called only by commands that need them: importing them takes a while."""

    slices: Callable[[drivers.Chosen], Sequence[Slice]]
    program: Sequence[str] = PROGRAM


def compose(chosen: drivers.Chosen) -> Sequence[Slice]:
    """The slices of the product."""
    from ullage.engines.slice import engines
    from ullage.ledger.slice import LEDGER
    from ullage.snapshots.slice import snapshots

    return (LEDGER, engines(drivers.engines_of(chosen)), snapshots(drivers.options_of(chosen)))


shell.app.add_typer(ledger.app, name="ledger")
shell.app.add_typer(snapshot.app, name="snapshot")
shell.app.add_typer(volume.app, name="volume")
shell.app.command()(tree.tree)


def main(slices: Callable[[drivers.Chosen], Sequence[Slice]] = compose, *, program: Sequence[str] = PROGRAM) -> None:
    shell.run(Composition(slices, program))


@shell.app.command(help=UP)
def up(
    context: typer.Context,
    data_dir: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", help="Where the data lives.", show_default="$XDG_DATA_HOME/ullage, or ~/.local/share/ullage"
        ),
    ] = None,
    port: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="The port to listen on, on 127.0.0.1. 0 takes any free one.",
            show_default="7443, or a free one if that is taken",
        ),
    ] = None,
    ephemeral: Annotated[
        bool, typer.Option("--ephemeral", help="Keep the data in a temporary directory, and remove it at the end.")
    ] = False,
    no_demo: Annotated[
        bool, typer.Option("--no-demo", help="Start without the demonstration objects. (There are none yet.)")
    ] = False,
    log_format: options.LogFormat = "text",
    log_level: options.LogLevel = "info",
) -> None:
    import os

    from ullage import logs
    from ullage.app.system import system
    from ullage.standalone.up import run, settings

    parsed = settings.parse(data_dir=data_dir, port=port, ephemeral=ephemeral, environ=os.environ)
    logs.configure("up", format=log_format, level=log_level)
    composition: Composition = context.obj
    passed = ["--log-format", log_format, "--log-level", log_level]
    beside = system(lambda: composition.slices(drivers.ONE_MACHINE), program=composition.program, options=passed)
    sys.exit(run.run(parsed, system=beside))


@shell.app.command()
def controller(
    context: typer.Context,
    kubeconfig: options.Kubeconfig = None,
    kube_context: options.Context = None,
    leader_elect: Annotated[bool, typer.Option(help="Work only while holding the lease, so that several may run.")] = True,
    metrics_port: Annotated[
        int, typer.Option(metavar="N", help="Where /metrics, /healthz and /readyz are served. 0 takes any free port.")
    ] = 9402,
    metrics_bind: Annotated[str, typer.Option(metavar="ADDRESS", help="The address for these.")] = "127.0.0.1",
    driver: drivers.Drivers = None,
    provision: drivers.Provisions = None,
    only_snapshotter: drivers.OnlySnapshotter = False,
    hostpath_volumes: drivers.Volumes = None,
    hostpath_snapshots: drivers.Snapshots = None,
    longhorn: drivers.Longhorn = False,
    node: drivers.Node = None,
    engines: drivers.Engines = None,
    log_format: options.LogFormat = "text",
    log_level: options.LogLevel = "info",
    ready_fd: options.ReadyFd = None,
    parent_fd: options.ParentFd = None,
) -> None:
    """Run the controllers, against any cluster."""
    from ullage import logs

    logs.configure("controller", format=log_format, level=log_level)
    from ullage.app import life
    from ullage.app.processes import ControllerSettings, run_controller
    from ullage.kube.client.config import Config

    composition: Composition = context.obj
    config = Config.load(kubeconfig, kube_context)
    settings = ControllerSettings(
        leader_elect=leader_elect, host=metrics_bind, port=options.port("--metrics-port", metrics_port)
    )
    what = drivers.chosen(
        driver,
        provisions=provision,
        volumes=hostpath_volumes,
        snapshots=hostpath_snapshots,
        node=node,
        alone=only_snapshotter,
        longhorn=longhorn,
        engines=engines,
    )
    slices = composition.slices(what)
    life.live(
        lambda stop, serves: run_controller(slices, config, settings, stop=stop, serves=serves),
        ready_fd=ready_fd,
        parent_fd=parent_fd,
    )


@shell.app.command(hidden=True)
def world(
    volumes: Annotated[Path, typer.Option(metavar="DIR", help="Where volumes have their directories.")],
    engines: drivers.Engines = None,
    kubeconfig: options.Kubeconfig = None,
    kube_context: options.Context = None,
    metrics_port: Annotated[
        int, typer.Option(metavar="N", help="Where /metrics, /healthz and /readyz are served. 0 takes any free port.")
    ] = 0,
    log_format: options.LogFormat = "text",
    log_level: options.LogLevel = "info",
    ready_fd: options.ReadyFd = None,
    parent_fd: options.ParentFd = None,
) -> None:
    """Play a cluster's own controllers and its node, as `ullage up` has it: claims bind, pods run, jobs copy."""
    import asyncio

    from ullage import logs

    logs.configure("world", format=log_format, level=log_level)
    from ullage.app import life
    from ullage.app.processes import ControllerSettings, Serves, run_controller
    from ullage.engines.client.connection import address_of
    from ullage.kube.client.config import Config
    from ullage.standalone.world.slice import opened
    from ullage.standalone.world.slice import world as slice_of

    config = Config.load(kubeconfig, kube_context)
    port = options.port("--metrics-port", metrics_port)
    settings = ControllerSettings(component="world", leader_elect=False, port=port)

    async def run(stop: asyncio.Event, serves: Serves) -> None:
        async with opened(volumes) as directories:
            part = slice_of(directories, engines=None if engines is None else address_of(engines))
            await run_controller((part,), config, settings, stop=stop, serves=serves)

    life.live(run, ready_fd=ready_fd, parent_fd=parent_fd)


@shell.app.command()
def webhook(
    context: typer.Context,
    kubeconfig: options.Kubeconfig = None,
    kube_context: options.Context = None,
    port: Annotated[int, typer.Option(metavar="N", help="The port to listen on. 0 takes any free one.")] = 9443,
    bind: Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen on.")] = "127.0.0.1",
    url: Annotated[
        str | None, typer.Option(metavar="URL", help="Where API servers find it.", show_default="the address and port")
    ] = None,
    service: Annotated[
        str | None, typer.Option(metavar="NAMESPACE/NAME[:PORT]", help="Or the Service through which they do, in a cluster.")
    ] = None,
    drain: Annotated[
        float, typer.Option(metavar="SECONDS", help="How long clients are told to go elsewhere before it stops.")
    ] = 5.0,
    manage_engines: drivers.ManageEngines = False,
    log_format: options.LogFormat = "text",
    log_level: options.LogLevel = "info",
    ready_fd: options.ReadyFd = None,
    parent_fd: options.ParentFd = None,
) -> None:
    """Serve the admission webhooks, and register them, with any cluster."""
    from ullage import logs

    logs.configure("webhook", format=log_format, level=log_level)
    from ullage.app import life
    from ullage.app.processes import run_webhook, webhook_settings
    from ullage.kube.client.config import Config

    composition: Composition = context.obj
    address = options.address(url, service)
    settings = webhook_settings(host=bind, port=options.port("--port", port), address=address, drain=drain)
    config = Config.load(kubeconfig, kube_context)
    slices = composition.slices(drivers.ONE_MACHINE if manage_engines else drivers.NOTHING_CHOSEN)
    life.live(
        lambda stop, serves: run_webhook(slices, config, settings, stop=stop, serves=serves),
        ready_fd=ready_fd,
        parent_fd=parent_fd,
    )


@shell.app.command(help=INSTALL)
def install(
    context: typer.Context,
    kubeconfig: options.Kubeconfig = None,
    kube_context: options.Context = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Ask the cluster what would change, and change nothing.")] = False,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="yaml", help="Print what is applied, and contact no cluster.")
    ] = None,
) -> None:
    from ullage.app.install import Installer
    from ullage.app.manifests import manifests
    from ullage.kube.crds.definitions import to_yaml

    composition: Composition = context.obj
    wanted = manifests(composition.slices(drivers.NOTHING_CHOSEN))
    if output is not None:
        if output != "yaml":
            raise BadInput("--output", output, "yaml is allowed")
        print(to_yaml(*(manifest.body for manifest in wanted if manifest.brought)), end="")
        return

    async def work(client: Any) -> list[Outcome]:
        return await Installer(client, dry_run=dry_run).install(wanted, tell=print)

    _report(_with_client(kubeconfig, kube_context, work), dry_run=dry_run)


@shell.app.command(help=UNINSTALL)
def uninstall(
    context: typer.Context,
    kubeconfig: options.Kubeconfig = None,
    kube_context: options.Context = None,
    purge: Annotated[bool, typer.Option("--purge", help="Delete its kinds too, with all their objects.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask whether --purge is meant.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be deleted, and delete nothing.")] = False,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="How long finalizers may take.")] = 120.0,
) -> None:
    from ullage.app.uninstall import Uninstaller

    if purge and not yes and not dry_run:
        if not sys.stdin.isatty():
            raise BadInput(
                "--purge", "(without --yes)", "it deletes every object of these kinds; where nobody can be asked, say --yes"
            )
        typer.confirm("This deletes every object of Ullage's kinds, and what they stand for. Go on?", abort=True)

    async def work(client: Any) -> list[Outcome]:
        return await Uninstaller(client, tell=print, dry_run=dry_run, patience=timeout).uninstall(purge=purge)

    _report(_with_client(kubeconfig, kube_context, work), dry_run=dry_run)


def _with_client(kubeconfig: str | None, kube_context: str | None, work: Callable[[Any], Any]) -> list[Outcome]:
    import asyncio

    from ullage.kube.client.client import Client
    from ullage.kube.client.config import Config

    config = Config.load(kubeconfig, kube_context)

    async def run() -> list[Outcome]:
        async with Client(config, user_agent="ullage (install)") as client:
            return list(await work(client))

    return asyncio.run(run())


def _report(outcomes: list[Outcome], *, dry_run: bool) -> None:
    from ullage.app import report

    print(report.summary(outcomes, dry_run=dry_run))
    if report.failed(outcomes):
        sys.exit(shell.FAILED)
