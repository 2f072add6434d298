"""What the commands of `ullage vm` can be told, checked before a cluster is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

import typer

from ullage.cli.common import arguments
from ullage.cli.vm import names as completed
from ullage.errors import BadInput

WHERE: Final = "[NAMESPACE/]NAME"
TYPES: Final = ("snapshot", "backup")

Name = Annotated[str, typer.Argument(metavar=WHERE, help="The VM.", autocompletion=completed.machines)]
Names = Annotated[list[str], typer.Argument(metavar=WHERE, help="The VMs.", autocompletion=completed.machines)]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until it has happened, and show how far it is.")]
Timeout = Annotated[str, typer.Option(metavar="DURATION", help="How long to wait at most: 30s, 5m, 1h30m.")]


@dataclass(frozen=True, slots=True)
class Target:
    """An object as a person names it. Without a namespace it is in that of the command."""

    namespace: str
    name: str

    def within(self, namespace: str) -> Target:
        return Target(self.namespace or namespace, self.name)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def target(given: str, *, namespace: str | None = None, where: str = WHERE) -> Target:
    """`namespace` is that of `-n`."""
    if given.count("/") > 1:
        raise BadInput(where, given, "a name, or NAMESPACE/NAME, is allowed")
    place, slash, name = given.rpartition("/")
    if slash:
        arguments.name(where, place)
        if namespace not in (None, place):
            raise BadInput(where, f"{given} with --namespace {namespace}", "only one namespace is allowed")
    return Target(place, arguments.name(where, name))


def targets(given: Sequence[str], *, namespace: str | None = None) -> list[Target]:
    """Each once, in the order given."""
    return list(dict.fromkeys(target(one, namespace=namespace) for one in given))


def backup_type(given: str) -> Literal["backup", "snapshot"]:
    arguments.one_of("--type", given, TYPES)
    return "backup" if given == "backup" else "snapshot"


def made_name(given: str | None) -> str | None:
    return arguments.name("--name", given) if given is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """How much of each volume: so many bytes, or so many percent of it; of neither, all."""

    count: int | None = None
    percent: int | None = None

    def of(self, size: int) -> int:
        """In whole blocks, as far as the volume goes."""
        if self.count is not None:
            return min(self.count, size)
        if self.percent is not None:
            return min(size, max(BLOCK, size * self.percent // 100 // BLOCK * BLOCK))
        return size


BLOCK: Final = 4096  # bytes: less than that costs a whole block anyway


def amount(*, count: str | None, percent: str | None) -> Amount:
    if count is not None and percent is not None:
        raise BadInput("--bytes, --percent", f"{count} and {percent}", "only one of them is allowed")
    if count is not None:
        return Amount(count=arguments.size("--bytes", count))
    if percent is None:
        return Amount()
    number = percent.removesuffix("%")
    if not number.isascii() or not number.isdecimal() or not 1 <= int(number[:4]) <= 100:
        raise BadInput("--percent", percent or "(empty)", "a whole number from 1 to 100 is allowed")
    return Amount(percent=int(number))
