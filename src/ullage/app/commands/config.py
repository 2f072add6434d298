"""`ullage config`: the Configuration that `--config` reads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ullage.cli.common.commands import Application

app = Application(help="Show the Configuration of Ullage's processes, which --config reads, and its JSON schema.")


@app.command("print")
def show(
    file: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="A Configuration to check and to take values from.", show_default="none"),
    ] = None,
) -> None:
    """Print the whole Configuration, with its defaults and what each field means, as YAML that can be used as a file."""
    from ullage.app.configuration.printing import to_yaml
    from ullage.app.configuration.reading import read
    from ullage.app.configuration.types import DEFAULT

    print(to_yaml(DEFAULT if file is None else read(file)), end="")


@app.command()
def schema() -> None:
    """Print the JSON schema of the Configuration, for editors and checks in a pipeline."""
    from ullage.app.configuration.printing import schema_text

    print(schema_text(), end="")
