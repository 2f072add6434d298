"""What validation finds: an error, and the place of the value that caused it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from ullage.standalone.apiserver.schema.node import Place
from ullage.standalone.apiserver.schema.prune import spell
from ullage.standalone.apiserver.status import FieldError, show


@dataclass(frozen=True, slots=True)
class Fault:
    """An error and the place of the value that caused it: ratcheting forgives what was so before."""

    place: Place
    error: FieldError
    ratchets: bool = True  # not so for a rule on the change itself


Check = Callable[[Any, Place, list[Fault]], None]
MOST_FAULTS: Final = 10_000  # of one object; an answer tells fewer still


class TooManyFaults(Exception):
    """An object so wrong that nobody wants to know the rest."""


class Faults(list[Fault]):
    """What was found so far. Ends the search with `TooManyFaults`: a body of 3 MiB has room for a million."""

    def append(self, fault: Fault) -> None:
        super().append(fault)
        if len(self) >= MOST_FAULTS:
            raise TooManyFaults

    def extend(self, faults: Iterable[Fault]) -> None:
        for fault in faults:
            self.append(fault)


def bad_value(place: Place, shown: str, detail: str) -> Fault:
    return Fault(place, FieldError("FieldValueInvalid", spell(place) or "<nil>", f"Invalid value: {shown}: {detail}"))


def bad_somewhere(place: Place, detail: str) -> Fault:
    """Some sentences name their place only inside the text."""
    return Fault(place, FieldError("FieldValueInvalid", "<nil>", f'Invalid value: "": {detail}'))


def mistyped(place: Place, wanted: str, found: str) -> Fault:
    path = spell(place)
    body = f"Invalid value: {show(found)}: {path} in body must be of type {wanted}: {show(found)}"
    return Fault(place, FieldError("FieldValueTypeInvalid", path, body))
