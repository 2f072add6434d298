"""The composition root: the command `ullage`, with everything that it can start.

The only module that may import all others. It imports them inside the commands, so that `ullage --help` stays quick.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ullage.cli import shell

UP = """Serve a Kubernetes API on this machine, in the foreground.

Starts the embedded API server, prints the path of a kubeconfig and a kubectl command to try, \
and keeps the server running until Ctrl-C.

What was written survives a restart, a crash and a loss of power, unless you asked for --ephemeral.
"""


@shell.app.command(help=UP)
def up(
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
) -> None:
    import os

    from ullage.standalone.up import run, settings

    sys.exit(run.run(settings.parse(data_dir=data_dir, port=port, ephemeral=ephemeral, environ=os.environ)))


def main() -> None:
    shell.run()
