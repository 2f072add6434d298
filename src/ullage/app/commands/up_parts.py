"""`ullage up-seed` and `ullage up-user-cluster`: control planes that `ullage up --seeds` starts. A person has no reason to."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ullage.app import drivers
from ullage.app.commands import options
from ullage.app.composition import Composition
from ullage.app.installer.names import SEED
from ullage.app.project_options import ProjectChoice

if TYPE_CHECKING:
    from ullage.standalone.up.components import System

DataDir = Annotated[str, typer.Option("--data-dir", metavar="DIR", help="Where its data lives.")]
Port = Annotated[str, typer.Option("--port", metavar="N", help="The port of its API server.")]


def up_seed(
    context: typer.Context,
    data_dir: DataDir,
    cluster: Annotated[str, typer.Option(metavar="NAME", help="Its user cluster.")],
    project: Annotated[str, typer.Option(metavar="ID", help="Whose that is; empty: nobody's.")] = "",
    port: Port = "0",
    log_format: options.LogFormat = "text",
    log_level: options.LogLevel = "info",
    ready_fd: options.ReadyFd = None,
    parent_fd: options.ParentFd = None,
) -> None:
    """Serve a seed: its API, the webhook and the controllers for project quotas, and a user cluster."""
    from ullage import logs
    from ullage.app.up.seeds import seed_system

    composition: Composition = context.obj
    chosen = drivers.Chosen(projects=ProjectChoice(roles=(SEED,)))
    system = seed_system(
        lambda: composition.slices(chosen),
        program=composition.program,
        options=["--log-format", log_format, "--log-level", log_level],
        cluster=cluster,
        project=project,
    )
    logs.configure("seed", format=log_format, level=log_level)
    _run(system, data_dir=data_dir, port=port, ready_fd=ready_fd, parent_fd=parent_fd)


def up_user_cluster(
    context: typer.Context,
    data_dir: DataDir,
    port: Port = "0",
    log_format: options.LogFormat = "text",
    log_level: options.LogLevel = "info",
    ready_fd: options.ReadyFd = None,
    parent_fd: options.ParentFd = None,
) -> None:
    """Serve a user cluster: its API, and a machine-controller that makes no servers."""
    from ullage import logs
    from ullage.app.up.seeds import user_cluster_system

    composition: Composition = context.obj
    passed = ["--log-format", log_format, "--log-level", log_level]
    system = user_cluster_system(program=composition.program, options=passed)
    logs.configure("user-cluster", format=log_format, level=log_level)
    _run(system, data_dir=data_dir, port=port, ready_fd=ready_fd, parent_fd=parent_fd)


def _run(system: System, *, data_dir: str, port: str, ready_fd: int | None, parent_fd: int | None) -> None:
    import os

    from ullage.standalone.up import run, settings

    parsed = settings.parse(data_dir=data_dir, port=port, ephemeral=False, environ=os.environ)
    sys.exit(run.run(parsed, system=system, parent=run.Parent(ready_fd, parent_fd)))
