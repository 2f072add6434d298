"""The options that commands of the CLI share with each other, and with those that start processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

import typer

from ullage.cli.common import completion
from ullage.cli.common.arguments import one_of
from ullage.errors import BadInput

Kubeconfig = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="The kubeconfig to use.",
        show_default="$KUBECONFIG, ~/.kube/config, the pod's own, or that of the `ullage up` that runs",
    ),
]
Context = Annotated[
    str | None,
    typer.Option(
        "--context",
        metavar="NAME",
        help="The context in it.",
        show_default="the current one",
        autocompletion=completion.contexts,
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Ask the cluster what would happen, and change nothing.")]
Selector = Annotated[
    str | None,
    typer.Option("--selector", "-l", metavar="LABELS", help="Only those with these labels, such as app=db,tier!=test."),
]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Go on, and show each change as it comes, until Ctrl-C.")]
# Of commands that show one thing put together of many: it is shown whole.
WatchWhole = Annotated[bool, typer.Option("--watch", "-w", help="Go on, and show it again when it changes, until Ctrl-C.")]
Output = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="FORMAT",
        help="table, wide, json, yaml, name, jsonpath=TEMPLATE or custom-columns=NAME:PATH,…",
        autocompletion=completion.words("table", "wide", "json", "yaml", "name", "jsonpath=", "custom-columns="),
    ),
]
# Of commands that make one object: what they say is text unless one of these is asked for.
ObjectOutput = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FORMAT",
        help="Print the object, and nothing else: json, yaml, name or jsonpath=TEMPLATE.",
        show_default=False,
        autocompletion=completion.words("json", "yaml", "name", "jsonpath="),
    ),
]

TABLES: Final = ("table", "wide")
OBJECTS: Final = ("json", "yaml", "name")
_TEMPLATES: Final = ("jsonpath", "custom-columns")


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """What `-o` asks for, and the template after the `=` where it has one."""

    name: str
    template: str = ""

    @property
    def is_table(self) -> bool:
        return self.name in TABLES

    @property
    def is_wide(self) -> bool:
        return self.name == "wide"


def output_format(given: str, allowed: tuple[str, ...] = (*TABLES, *OBJECTS)) -> OutputFormat:
    """Checked, as far as that goes without an object."""
    from ullage.cli.common.jsonpath import custom_columns, parse

    name, _, template = given.partition("=")
    if name not in _TEMPLATES or name == given:
        return OutputFormat(one_of("--output", given, (*allowed, "jsonpath=TEMPLATE", "custom-columns=NAME:PATH")))
    if name == "jsonpath":
        parse("--output", template)
    else:
        custom_columns("--output", template)
    return OutputFormat(name, template)


def selector(given: str | None) -> str:
    """Checked here too: a server's answer to a bad one names neither the option nor what is allowed."""
    from ullage.selectors import LabelSelector, SelectorError

    try:
        LabelSelector.parse(given or "")
    except SelectorError as error:
        raise BadInput("--selector", given, f"not a selector ({error}); allowed is something like app=db,tier!=test") from error
    return given or ""
