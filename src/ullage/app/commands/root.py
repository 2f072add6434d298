"""The command `ullage` with all its subcommands, in the order in which `--help` lists them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ullage.app import drivers
from ullage.app.commands import api, config, controller, csi_sidecar, engine, install, up, up_parts, webhook, world
from ullage.app.composition import PROGRAM, Composition, compose
from ullage.app.configuration.flags import ConfiguredCommand
from ullage.cli.check import command as check
from ullage.cli.common import shell
from ullage.cli.ledger import command as ledger
from ullage.cli.projects import command as projects
from ullage.cli.quota import command as quota
from ullage.cli.schedule import command as schedule
from ullage.cli.snapshot import command as snapshot
from ullage.cli.usage import command as usage
from ullage.cli.vm import command as vm
from ullage.cli.volume import command as volume
from ullage.cli.volume import tree
from ullage.cli.why import command as why

if TYPE_CHECKING:
    from ullage.kube.slices import Slice

shell.app.add_typer(config.app, name="config")
shell.app.add_typer(ledger.app, name="ledger")
shell.app.add_typer(snapshot.app, name="snapshot")
shell.app.add_typer(schedule.app, name="schedule")
shell.app.add_typer(volume.app, name="volume")
shell.app.add_typer(vm.app, name="vm")
shell.app.add_typer(quota.app, name="quota")
shell.app.add_typer(projects.app, name="projects")
shell.app.command()(usage.usage)
shell.app.command(help=check.HELP)(check.check)
shell.app.command(help=why.HELP)(why.why)
shell.app.command()(tree.tree)
shell.app.command(help=up.HELP)(up.up)
shell.app.command(cls=ConfiguredCommand)(controller.controller)
shell.app.command(hidden=True)(world.world)
shell.app.command(name="up-seed", hidden=True)(up_parts.up_seed)
shell.app.command(name="up-user-cluster", hidden=True)(up_parts.up_user_cluster)
shell.app.command(cls=ConfiguredCommand)(webhook.webhook)
shell.app.command(cls=ConfiguredCommand, help=api.HELP)(api.api)
shell.app.command(cls=ConfiguredCommand, help=install.INSTALL)(install.install)
shell.app.command(help=install.UNINSTALL)(install.uninstall)
shell.app.command(name="engine", hidden=True, help=engine.HELP)(engine.engine)
shell.app.command(name="csi-sidecar", cls=ConfiguredCommand, help=csi_sidecar.HELP)(csi_sidecar.csi_sidecar)


def main(slices: Callable[[drivers.Chosen], Sequence[Slice]] = compose, *, program: Sequence[str] = PROGRAM) -> None:
    shell.run(Composition(slices, program))
