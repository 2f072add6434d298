"""Reads documents that others wrote: provider specs of machines, which a tenant writes, and the answers of providers.

Nothing in them is believed. A wrong type, a number out of bounds, a list that is too long: each is BadInput, which names the
field, shows the value (cut) and says what is allowed. What is shown never costs more than a line, however deep or long it is.

machine-controller reads field names without regard to case, and of two that differ in nothing else it takes the one that comes
last. So it is done here, save that two such are refused: `{"instanceType": small, "InstanceType": large}` is priced once and
built once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Final

from ullage.errors import BadInput, Terminal
from ullage.projects.sizes.units import Unit
from ullage.quantity import Quantity, QuantityError

MOST_FIELDS: Final = 256  # of one object; no provider has a tenth of it
MOST_TEXT: Final = 256  # characters of a name, a size or a region
_SHOWN: Final = 40
MISSING: Final = "(missing)"
_DIGITS: Final = re.compile(r"[0-9]{1,18}")
_REFERENCES: Final = {"secretKeyRef": "Secret", "configMapKeyRef": "ConfigMap"}


class Hidden(Terminal):
    """A field that is kept in a Secret or a ConfigMap: machine-controller reads those, Ullage does not."""


class Fields:
    """One object of a document. `path` is where it is, for errors."""

    def __init__(self, document: object, path: str) -> None:
        self.path = path
        if not isinstance(document, Mapping):
            raise BadInput(path, shown(document), "an object is needed")
        if len(document) > MOST_FIELDS:
            raise BadInput(path, f"of {len(document)} fields", f"at most {MOST_FIELDS} are allowed")
        self._values: dict[str, object] = {}
        for key, value in document.items():
            folded = str(key).casefold()
            if folded in self._values:
                raise BadInput(
                    self.at(shown(key)), shown(value), "this field is given twice, in letters that differ in case alone"
                )
            self._values[folded] = value

    def at(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def get(self, name: str) -> object:
        """As it is written; None where it is not."""
        return self._values.get(name.casefold())

    def part(self, name: str) -> Fields:
        """The object in this field; an empty one where there is none."""
        found = self.get(name)
        return Fields({} if found is None else found, self.at(name))

    def parts(self, name: str, *, most: int) -> list[Fields]:
        """The objects of the list in this field; none where there is no list."""
        found = self.get(name)
        if found is None:
            return []
        if not isinstance(found, Sequence) or isinstance(found, str):
            raise BadInput(self.at(name), shown(found), "a list is needed")
        if len(found) > most:
            raise BadInput(self.at(name), f"of {len(found)} items", f"at most {most} are allowed")
        return [Fields(one, f"{self.at(name)}[{place}]") for place, one in enumerate(found)]

    def text(self, name: str) -> str:
        """A text, or machine-controller's `{"value": text}`; empty where there is none. Raises Hidden for a reference, also
        beside a value: machine-controller prefers the reference."""
        found = self.get(name)
        if isinstance(found, Mapping):
            variable = Fields(found, self.at(name))
            variable._refuse_references()
            return variable._plain("value", numbers=False)
        return self._plain(name, numbers=True)

    def secret(self, name: str) -> str:
        """`namespace/name` of the Secret that a field is kept in; empty where it is in none."""
        found = self.get(name)
        reference = Fields(found, self.at(name)).part("secretKeyRef") if isinstance(found, Mapping) else Fields({}, "")
        namespace, secret = (reference._plain(one, numbers=False) for one in ("namespace", "name"))
        return f"{namespace}/{secret}" if secret else ""

    def needed_text(self, name: str, what: str) -> str:
        found = self.text(name)
        if not found:
            raise BadInput(self.at(name), MISSING if self.get(name) is None else '""', f"{what} is needed")
        return found

    def number(self, name: str, *, least: int, most: int) -> int | None:
        """A whole number, written as a number."""
        found = self.get(name)
        if found is None:
            return None
        whole = int(found) if isinstance(found, float) and math.isfinite(found) and found.is_integer() else found
        if not isinstance(whole, int) or isinstance(whole, bool) or not least <= whole <= most:
            raise BadInput(self.at(name), shown(found), _whole(least, most))
        return whole

    def needed_number(self, name: str, *, least: int, most: int) -> int:
        found = self.number(name, least=least, most=most)
        if found is None:
            raise BadInput(self.at(name), MISSING, _whole(least, most))
        return found

    def digits(self, name: str, *, least: int, most: int) -> int:
        """A whole number that is written as a text, as machine-controller has some."""
        found = self.text(name)
        if not _DIGITS.fullmatch(found) or not least <= int(found) <= most:
            raise BadInput(self.at(name), shown(found) if found else MISSING, _whole(least, most))
        return int(found)

    def fraction(self, name: str, *, most: int) -> Fraction:
        """A number that need not be whole, as providers answer with (`0.5`): more than nothing."""
        found = self.get(name)
        if (
            isinstance(found, int | float)
            and not isinstance(found, bool)
            and math.isfinite(_bounded(found))
            and 0 < found <= most
        ):
            return Fraction(str(found))
        raise BadInput(self.at(name), MISSING if found is None else shown(found), f"a number above 0, up to {most}, is allowed")

    def quantity(self, name: str, *, most: Quantity, zero: bool = False) -> Quantity:
        """A quantity of more than nothing: `500m`, `4Gi`. `zero`: nothing is allowed, too."""
        found = self.text(name)
        allowed = f"a quantity {'of 0 or more' if zero else 'above 0'}, up to {most}, is allowed"
        try:
            quantity = Quantity.parse(found)
        except QuantityError as error:
            raise BadInput(self.at(name), shown(found) if found else MISSING, allowed) from error
        if quantity.nanos < 0 or quantity > most or not (zero or quantity.nanos):
            raise BadInput(self.at(name), shown(found), allowed)
        return quantity

    def _plain(self, name: str, *, numbers: bool) -> str:
        found = self.get(name)
        if found is None:
            return ""
        if numbers and isinstance(found, int | float) and not isinstance(found, bool) and math.isfinite(_bounded(found)):
            return str(found)  # machine-controller takes 40 for "40"
        if not isinstance(found, str):
            raise BadInput(self.at(name), shown(found), "a text is needed")
        if len(found) > MOST_TEXT:
            raise BadInput(self.at(name), shown(found), f"at most {MOST_TEXT} characters are allowed")
        return found

    def _refuse_references(self) -> None:
        for field, kind in _REFERENCES.items():
            reference = self.part(field)
            namespace, name, key = (reference.get(one) for one in ("namespace", "name", "key"))
            if namespace or name or key:
                raise Hidden(
                    f"{self.path} is kept in {kind} {shown(namespace)}/{shown(name)}, which Ullage does not read:"
                    " write the value itself"
                )


def needed_size(fields: Fields, name: str, unit: Unit) -> Quantity:
    """A whole number of a unit, at least one."""
    return unit.of(fields.needed_number(name, least=1, most=unit.most))


def shown(value: object) -> str:
    """A value for people, in a few words."""
    if isinstance(value, str):
        cut = value if len(value) <= _SHOWN else f"{value[:_SHOWN]}…"
        return cut if cut and cut.isprintable() else ascii(cut)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value) if value.bit_length() <= 128 else f"(a number of {value.bit_length()} bits)"
    if isinstance(value, float):
        return str(value)
    if isinstance(value, Mapping):
        return f"(an object of {len(value)} fields)"
    return f"(a list of {len(value)})" if isinstance(value, Sequence) else f"({type(value).__name__})"


def _bounded(number: float) -> float:
    """The number, or infinity for one that is too long to be worth a look."""
    return number if isinstance(number, float) or number.bit_length() <= 64 else math.inf


def _whole(least: int, most: int) -> str:
    return f"a whole number from {least} to {most} is allowed"
