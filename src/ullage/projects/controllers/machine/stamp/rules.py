"""What is done about a Machine's stamp. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ullage.ledger.amounts import Amounts, spell
from ullage.projects.machines.counting import Counted, Resize, sized_anew
from ullage.projects.names import RESOURCES


@dataclass(frozen=True, slots=True)
class Bind:
    """To be signed again, over the uid and with the key of today, for what it says."""

    amounts: Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class StampAnew:
    """To be stamped with what it takes. `alarm`: somebody is to be told, as `reason` and `message` say."""

    amounts: Amounts
    reason: str
    message: str
    alarm: bool


@dataclass(frozen=True, slots=True)
class Unsized:
    """Nobody knows what it takes, so it cannot be stamped."""

    message: str


def step(found: Counted | Resize, size: Amounts | None, *, problem: str = "") -> Bind | StampAnew | Unsized | None:
    """`size` is what its spec costs by now; `problem` why that cannot be told. None: it is as it ought to be."""
    if isinstance(found, Counted):
        return Bind(found.amounts) if found.bind else None
    amounts = sized_anew(found, size)
    if amounts is None:
        return Unsized(f"{found.message}; and its size is not known: {problem}")
    return StampAnew(amounts=amounts, reason=found.reason, message=found.message, alarm=found.alarm)


def anew_note(machine: str, wanted: StampAnew) -> str:
    """What administrators of the seed are told."""
    said = ", ".join(f"{name} {spell(name, wanted.amounts[name])}" for name in RESOURCES)
    return (
        f"Machine {machine} has no stamp that can be believed: {wanted.message}. It was stamped anew and counts, whatever the"
        f" quota is: {said}. Next: find out who changes Machines there, or takes the webhook out"
    )


def unsized_note(machine: str, unsized: Unsized) -> str:
    return (
        f"What Machine {machine} takes cannot be counted, so the project's usage is not exact: {unsized.message}. Next: give"
        " the machine a size that is known, or delete it"
    )
