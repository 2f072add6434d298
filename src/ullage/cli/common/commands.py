"""Groups of commands: Typer's own, with the habits of kubectl.

A flag shows no type; `--dry-run` may be given a value, as kubectl wants one; what lists things goes by `list` and by `get`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from ullage.errors import BadInput

F = TypeVar("F", bound=Callable[..., Any])

DRY_RUN: Final = "--dry-run"
_DRY: Final = ("client", "server", "true")
_NOT_DRY: Final = ("none", "false")


def _without_types(params: list[Any]) -> list[Any]:
    """A flag has no value, and the name of an argument says more than `<str>`."""
    for one in params:
        if isinstance(one, TyperOption) and one.is_flag and one.metavar is None:
            one.metavar = ""
        elif isinstance(one, TyperArgument):
            one.display_type_rich = lambda ctx: ""  # type: ignore[method-assign] # there is no setting for it
            one.get_usage_pieces = partial(_usage, one)  # type: ignore[method-assign] # nor for this
    return params


def _usage(argument: TyperArgument, ctx: Any) -> list[str]:
    name = f"{argument.display_name_raw}{'...' if argument.nargs != 1 else ''}"
    return [name if argument.required else f"[{name}]"]


class Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _plain_dry_run(args) if self._has_dry_run() else args)

    def _has_dry_run(self) -> bool:
        return any(DRY_RUN in one.opts for one in self.params)


class CommandGroup(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


class Application(typer.Typer):
    """A group, or the whole command: everything that is added to it has these habits."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**{"cls": CommandGroup, "no_args_is_help": True, **given})

    def command(self, *args: Any, **given: Any) -> Callable[[F], F]:
        return super().command(*args, **{"cls": Command, **given})

    def listing(self, command: F) -> F:
        """Adds a command under each of the names that people try."""
        self.command("list")(command)
        for other in ("get", "ls"):
            self.command(other, hidden=True)(command)
        return command


def _plain_dry_run(args: list[str]) -> list[str]:
    """Whoever asks, a dry run is the server's here: it knows more, and changes as little."""
    found: list[str] = []
    for one in args:
        option, equals, value = one.partition("=")
        if option != DRY_RUN or not equals:
            found.append(one)
        elif value in _DRY:
            found.append(DRY_RUN)
        elif value not in _NOT_DRY:
            raise BadInput(DRY_RUN, value or "(empty)", "client, server or none is allowed")
    return found
