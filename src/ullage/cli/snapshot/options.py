"""What the commands of `ullage snapshot` can be told, and what of it cannot be: nothing is asked of a cluster before that.

Names become parts of paths and of selectors, so only what Kubernetes allows as a name gets there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

import typer

from ullage.cli.common import completion
from ullage.cli.common.arguments import name
from ullage.cli.snapshot import names as completed
from ullage.errors import BadInput

OUTPUTS: Final = ("table", "wide", "json", "yaml", "name", "csv")
GOALS: Final = ("ready", "cut", "deleted")


Dialect = Annotated[
    str | None,
    typer.Option(
        metavar="ga|prototype",
        autocompletion=completion.words("ga", "prototype"),
        help="Whose VolumeSnapshot: the one that became Kubernetes' own, or the prototype's.",
        show_default="whichever has the name, ga first",
    ),
]
NewDialect = Annotated[
    str,
    typer.Option(
        "--dialect",
        metavar="ga|prototype",
        autocompletion=completion.words("ga", "prototype"),
        help="Whose VolumeSnapshot: the one that became Kubernetes' own, or the prototype's.",
    ),
]
Timeout = Annotated[str, typer.Option(metavar="DURATION", help="How long to wait at most: 30s, 5m, 1h30m.")]
NewName = Annotated[str, typer.Argument(metavar="NAME", help="The snapshot.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The snapshot.", autocompletion=completed.snapshots)]
Names = Annotated[list[str], typer.Argument(metavar="NAME", help="The snapshots.", autocompletion=completed.snapshots)]
Output = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="FORMAT",
        help="table, wide, json, yaml, name, csv, jsonpath=TEMPLATE or custom-columns=NAME:PATH,…",
        autocompletion=completion.words(*OUTPUTS, "jsonpath=", "custom-columns="),
    ),
]


def names(given: list[str]) -> list[str]:
    """Each once, in the order given."""
    return list(dict.fromkeys(name("NAME", one) for one in given))


UndoWindow = Annotated[
    str,
    typer.Option(
        "--undo-window",
        metavar="DURATION",
        help="With --in-place: how long what the claim had is kept: 24h, 1h30m; 720h at most.",
    ),
]


def one_of(given: Mapping[str, bool]) -> None:
    """Exactly one of some options has to be there."""
    there = [name for name, is_given in given.items() if is_given]
    if len(there) != 1:
        names = f"{', '.join(list(given)[:-1])} or {list(given)[-1]}"
        raise BadInput(" ".join(there) or next(iter(given)), "(together)" if there else "(absent)", f"one of {names} is needed")
