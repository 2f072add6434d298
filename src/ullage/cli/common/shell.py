"""The shell of the command line: the Typer application that commands are added to, and how errors reach a person.

A person never sees a traceback for something that has a sentence to say: every `UllageError` becomes one line on standard
error and an exit code. Anything else is a fault of ours, and its traceback is the report.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ullage import __version__
from ullage.cli.common.commands import Application
from ullage.errors import BadInput, UllageError

FAILED = 1
BAD_INPUT = 2

app = Application(
    name="ullage",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"ullage {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Snapshots of volumes, and limits that hold, for shared Kubernetes clusters.

    Start with `ullage up`: it serves a Kubernetes API on this machine, and kubectl works against it.
    """


@app.command()
def version() -> None:
    """Print the version."""
    _print_version(True)


def run(composition: object = None) -> None:
    """Runs the command that the arguments name, and turns an error into a line and an exit code. Commands find what they are
    composed of in their context."""
    try:
        app(obj=composition)
    except UllageError as error:
        print(f"ullage: {error}", file=sys.stderr)
        sys.exit(BAD_INPUT if isinstance(error, BadInput) else FAILED)
