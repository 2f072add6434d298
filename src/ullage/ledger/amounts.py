"""Amounts as values: so much of each resource (`Amounts`), or so much of each resource from each account (`Takings`).

Both are maps in which nothing and zero are the same, so that equal amounts are equal values and an account that is empty
leaves no trace. A limit is another thing, since there zero (none allowed) and nothing (no limit) differ: see `Limits`.

None of them is ever negative: one object of -90 would make room for a hundred others. Whatever makes one is refused.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, NamedTuple, Self, TypeVar

from ullage.errors import BadInput
from ullage.quantity import ZERO, Format, Quantity, QuantityError

K = TypeVar("K", bound=Hashable)


class Cell(NamedTuple):
    """One resource of one account: what a limit is set on."""

    account: str
    resource: str


Limits = Mapping[Cell, Quantity]  # a cell that is absent has no limit; zero allows nothing
EACH = "*"  # in the place of an account's last part: a limit on each account there that has none of its own


def limit_on(limits: Limits, cell: Cell) -> Quantity | None:
    """The limit of a cell: its own, or that of each account beside it (`snapshot-count/claim/*`). None: there is none."""
    own = limits.get(cell)
    return own if own is not None else limits.get(Cell(f"{cell.account.rpartition('/')[0]}/{EACH}", cell.resource))


def is_for_each(cell: Cell) -> bool:
    return cell.account.endswith(f"/{EACH}")


def lowest(layers: Iterable[Limits]) -> Limits:
    """Returns the limits of several writers together: the lowest of each cell. A limit on each account of a sort also holds on
    an account for which another writer has a limit of its own."""
    given = [layer for layer in layers if layer]
    if len(given) < 2:
        return given[0] if given else {}
    found: dict[Cell, Quantity] = {}
    for cell in {cell: None for layer in given for cell in layer}:
        found[cell] = min(limit for layer in given if (limit := limit_on(layer, cell)) is not None)
    return found


class LimitId(NamedTuple):
    """One state that an object which sets limits may get: by its key, its uid, and the version of the object that it changes.
    A create changes none."""

    key: str
    uid: str
    on_version: int | None


@dataclass(frozen=True, slots=True)
class LimitAttempt:
    """The first and the lower limits that an object sets if the request that was admitted for it commits."""

    limits: Limits
    booked: int  # as of an Attempt


def in_force(carried: Limits, shown: Limits, in_flight: Mapping[LimitId, LimitAttempt]) -> Limits:
    """Whichever of these is the lowest may be what the API has, so that one holds."""
    return lowest((carried, shown, *(attempt.limits for attempt in in_flight.values())))


@dataclass(frozen=True, slots=True)
class Wanted:
    """The limit of a grant with which everything would fit; when that was first asked for, and when last (`demand.py`)."""

    limit: Quantity
    since: datetime
    asked: datetime


@dataclass(frozen=True, slots=True)
class Waiter:
    """Somebody who was refused, and for whom room may be made (`demand.py`). Times are milliseconds since 1970."""

    takes: Takings  # what it would take more
    since: int  # when it first asked
    asked: int  # and when last, give or take some seconds


class BadAmount(BadInput, ValueError):
    """A text that is no amount, or an amount of less than nothing. `where` is its field."""


def refuse_negative(amounts: Mapping[Any, Quantity]) -> None:
    """Raises for the first that is less than nothing: `snapshots/vm/db.storage -1Gi: an amount is not negative`."""
    for key, quantity in amounts.items():
        if quantity.nanos < 0:
            raise BadAmount(".".join(key) if isinstance(key, tuple) else str(key), quantity, "an amount is not negative")


@dataclass(frozen=True, slots=True, init=False)
class Cells(Generic[K]):
    """A quantity for each of some things; zero for all others."""

    cells: Mapping[K, Quantity]

    def __init__(self, cells: Mapping[K, Quantity] | Iterable[tuple[K, Quantity]] = ()) -> None:
        kept = {key: value for key, value in dict(cells).items() if value.nanos}
        refuse_negative(kept)
        object.__setattr__(self, "cells", kept)

    def __getitem__(self, key: K) -> Quantity:
        return self.cells.get(key, ZERO)

    def __iter__(self) -> Iterator[K]:
        return iter(self.cells)

    def __bool__(self) -> bool:
        return bool(self.cells)

    def __hash__(self) -> int:
        return hash(frozenset(self.cells.items()))

    # Most sums, maxima and differences are with nothing: those cost nothing. Of large ones and small ones, as of a ledger's
    # sums and a charge, only what is in the small one is looked at.

    @classmethod
    def _checked(cls, cells: Mapping[K, Quantity]) -> Self:
        """Of cells that are known to be more than nothing."""
        made = cls()
        object.__setattr__(made, "cells", cells)
        return made

    @classmethod
    def total(cls, parts: Iterable[Self]) -> Self:
        """The sum of many, without a value for every step."""
        sums: dict[K, Quantity] = {}
        for part in parts:
            for key, quantity in part.cells.items():
                sums[key] = sums[key] + quantity if key in sums else quantity
        return cls(sums)

    def __add__(self, other: Self) -> Self:
        if not other.cells or not self.cells:
            return self if self.cells else other
        cells = dict(self.cells)
        for key, quantity in other.cells.items():
            cells[key] = cells[key] + quantity if key in cells else quantity
        return self._checked(cells)

    def __sub__(self, other: Self) -> Self:
        """What is left. To take away more than there is is an error: see `beyond`."""
        if not other.cells:
            return self
        left = {key: self[key] - quantity for key, quantity in other.cells.items()}
        refuse_negative(left)
        cells = {**self.cells, **left}
        for key, quantity in left.items():
            if not quantity.nanos:
                del cells[key]
        return self._checked(cells)

    def __or__(self, other: Self) -> Self:
        """The larger of both, of each thing alone."""
        if not other.cells or not self.cells:
            return self if self.cells else other
        return type(self)({key: max(self[key], other[key]) for key in self._keys(other)})

    def __and__(self, other: Self) -> Self:
        """The smaller of both, of each thing alone."""
        return type(self)({key: min(value, other[key]) for key, value in self.cells.items()})

    def __le__(self, other: Self) -> bool:
        """Nothing here is more than there."""
        return all(self[key] <= other[key] for key in self._keys(other))

    def beyond(self, other: Self) -> Self:
        """By how much each thing is more than there; what is less counts as nothing."""
        if not other.cells:
            return self
        return type(self)({key: more for key in self._keys(other) if (more := self[key] - other[key]).nanos > 0})

    def _keys(self, other: Self) -> Iterable[K]:
        return {**self.cells, **other.cells}


class Amounts(Cells[str]):
    """So much of each resource."""

    __slots__ = ()

    @classmethod
    def parse(cls, written: Mapping[str, str]) -> Amounts:
        return cls({resource: parse_amount(text, field=resource) for resource, text in written.items()})

    def written(self) -> dict[str, str]:
        """Canonical strings, resources in order: the same amounts always read the same."""
        return {resource: str(self.cells[resource]) for resource in sorted(self.cells)}


class Takings(Cells[Cell]):
    """So much of each resource from each account: what an object takes, or a sum of such."""

    __slots__ = ("_listed",)
    _listed: tuple[tuple[Cell, str], ...] | None

    def __init__(self, cells: Mapping[Cell, Quantity] | Iterable[tuple[Cell, Quantity]] = ()) -> None:
        super().__init__(cells)
        object.__setattr__(self, "_listed", None)

    @classmethod
    def of(cls, accounts: Mapping[str, Amounts]) -> Takings:
        return cls(
            {Cell(account, resource): amounts[resource] for account, amounts in accounts.items() for resource in amounts}
        )

    @classmethod
    def parse(cls, written: Mapping[str, Mapping[str, str]], *, field: str = "") -> Takings:
        """`field` is where they are written, for errors."""
        return cls(parse_limits(written, field=field))

    def account(self, name: str) -> Amounts:
        return Amounts({cell.resource: quantity for cell, quantity in self.cells.items() if cell.account == name})

    def written(self) -> dict[str, dict[str, str]]:
        return write_limits(self.cells)

    def listed(self) -> tuple[tuple[Cell, str], ...]:
        """Cells in order, with canonical strings. Kept: what is pending is written again and again."""
        if self._listed is None:
            object.__setattr__(self, "_listed", tuple((cell, str(self.cells[cell])) for cell in sorted(self.cells)))
        assert self._listed is not None
        return self._listed


NOTHING = Takings()


def total(parts: Iterable[Takings]) -> Takings:
    return Takings.total(parts)


def parse_limits(written: Mapping[str, Mapping[str, str]], *, field: str = "") -> dict[Cell, Quantity]:
    """`field` is where they are written, for errors: `spec.limits`."""
    place = f"{field}." if field else ""
    return {
        Cell(account, resource): parse_amount(text, field=f"{place}{account}.{resource}")
        for account, amounts in written.items()
        for resource, text in amounts.items()
    }


def parse_amount(text: str, *, field: str) -> Quantity:
    """A quantity of nothing or more. Any other text is an error that names its field."""
    try:
        quantity = Quantity.parse(text)
    except QuantityError as error:
        raise BadAmount(field, text, str(error)) from error
    refuse_negative({field: quantity})
    return quantity


def write_limits(limits: Limits) -> dict[str, dict[str, str]]:
    """Canonical strings, accounts and resources in order."""
    made: dict[str, dict[str, str]] = {}
    for cell in sorted(limits):
        made.setdefault(cell.account, {})[cell.resource] = str(limits[cell])
    return made


# --- for people ------------------------------------------------------------------------------------------------------

_BYTES = ("storage", "memory", "space", "disk", "bytes")
_STEPS = (("Ei", 60), ("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10))


def spell(resource: str, quantity: Quantity, *, down: bool = False) -> str:
    """A quantity with its unit, short enough to read: bytes as `1.5Gi`, processors as `1.5 cores`, all else as a number.

    Two places at most, rounded up: what is there is never said to be nothing. `down` is for limits: never more than allowed.
    """
    if quantity.nanos < 0:
        return f"-{spell(resource, -quantity, down=not down)}"
    if resource.endswith(_BYTES) or quantity.format is Format.BINARY_SI:
        units = quantity.nanos // 10**9 if down else quantity.value()
        for suffix, power in _STEPS:
            if units >= 1 << power:
                return f"{_places(quantity.nanos, 10**9 << power, down=down)}{suffix}"
        return "0" if not units else f"{units} bytes" if units > 1 else "1 byte"
    number = _places(quantity.nanos, 10**9, down=down)
    if not resource.endswith("cpu") or number == "0":
        return number
    return f"{number} core" if number == "1" else f"{number} cores"


def _places(number: int, unit: int, *, down: bool) -> str:
    hundredths = number * 100 // unit if down else -(-number * 100 // unit)
    return f"{hundredths // 100}.{hundredths % 100:02d}".rstrip("0").rstrip(".")
