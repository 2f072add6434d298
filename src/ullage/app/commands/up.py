"""`ullage up`: a Kubernetes API on this machine, and what runs beside it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from typing import Annotated, Final

import typer

from ullage.app import drivers
from ullage.app.commands import options
from ullage.app.composition import Composition
from ullage.app.project_options import ProjectChoice
from ullage.errors import Terminal

HELP = """Serve a Kubernetes API on this machine, in the foreground.

Starts the embedded API server, and webhook, controllers and a small world of volumes and pods next to it, prints the path \
of a kubeconfig and a kubectl command to try, and keeps them running until Ctrl-C.

What was written survives a restart, a crash and a loss of power, unless you asked for --ephemeral.
"""


# What the extra `standalone` brings: the module, and the distribution that has it.
STANDALONE: Final = {
    "cel_expr_python": "cel-expr-python",
    "jwt": "PyJWT",
    "kubernetes_validate": "kubernetes-validate",
    "re2": "google-re2",
}


class NotStandalone(Terminal):
    """The package was installed without what the embedded API server needs."""


def require_standalone(found: Callable[[str], object] = find_spec) -> None:
    """Before anything is touched: a child that cannot be imported would only die again and again."""
    missing = [name for module, name in STANDALONE.items() if found(module) is None]
    if missing:
        raise NotStandalone(
            f"`ullage up` needs the embedded API server, and {' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} "
            "not installed: pip install 'ullage[standalone]' brings all that it needs"
        )


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
    nodes: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="How many nodes there are to be. More than that stay as they are: kubectl delete node takes one away.",
            show_default="2, so that VMs can migrate",
        ),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="Seeds for project quotas over many clusters: so many control planes beside this one, which is their master,"
            " each with a user cluster. Up to 5.",
            show_default="none",
        ),
    ] = None,
    ephemeral: Annotated[
        bool, typer.Option("--ephemeral", help="Keep the data in a temporary directory, and remove it at the end.")
    ] = False,
    no_demo: Annotated[
        bool, typer.Option("--no-demo", help="Start without the demonstration objects: the project of the user clusters.")
    ] = False,
    log_format: options.LogFormat = "text",
    log_level: options.LogLevel = "info",
) -> None:
    import os

    require_standalone()
    from ullage import logs
    from ullage.app.up.components import system
    from ullage.app.up.control_planes import PROJECT
    from ullage.app.up.seeds import MASTER_ROLES
    from ullage.standalone.up import run, settings

    parsed = settings.parse(data_dir=data_dir, port=port, ephemeral=ephemeral, environ=os.environ, nodes=nodes, seeds=seeds)
    logs.configure("up", format=log_format, level=log_level)
    composition: Composition = context.obj
    passed = ["--log-format", log_format, "--log-level", log_level]
    chosen = replace(drivers.ONE_MACHINE, projects=ProjectChoice(roles=MASTER_ROLES)) if parsed.seeds else drivers.ONE_MACHINE
    beside = system(
        lambda: composition.slices(chosen),
        program=composition.program,
        options=passed,
        nodes=parsed.nodes,
        seeds=parsed.seeds,
        project="" if no_demo else PROJECT,
    )
    sys.exit(run.run(parsed, system=beside))
