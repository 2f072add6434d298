"""Amounts as numbers: whole cores, and memory and disk in what the peer calls GB. Pure.

The peer writes a number as `G`, 10^9 bytes, in one place and reads it as `Gi`, 2^30 bytes, in another, so that what it shows
and what it enforces differ by 7.4 %. Here a GB is 2^30 bytes everywhere, and is written as `Gi`.

A number has two places behind the point, as it is shown and as it is taken: so whatever was set reads the same for ever after.
An amount that was not set here may have more (`1235Mi` is 1.2060...). It is rounded to the nearest number, as the peer does, so
`1235Mi` reads 1.21. A client that sends the number back leaves the amount as it is. Nothing is decided by such a number.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from ullage.errors import BadInput
from ullage.projects.names import CPU
from ullage.quantity import Format, Quantity

Number = int | float

MOST: Final = 1_000_000_000  # cores, or GB: more than there are
PLACES: Final = 2
_HUNDREDTHS: Final = 10**PLACES
_GIB: Final = 2**30 * 10**9  # in nano-units
_CORE: Final = 10**9


def text_of(resource: str, number: Number, *, field: str) -> str:
    """How an amount is written into an object: `4`, `10.5Gi`. Raises BadInput, which names the field."""
    exact = Decimal(str(number))
    if not _is_good(exact, 0 if resource == CPU else PLACES):
        kind = "a whole number" if resource == CPU else f"a number of GB (2^30 bytes) with at most {PLACES} places"
        raise BadInput(
            field, number, f"{kind} from 0 to {MOST} is allowed; 0 allows none, and without the field there is no limit"
        )
    written = f"{exact.normalize():f}"
    return written if resource == CPU or not exact else f"{written}Gi"


def amount_of(resource: str, number: Number, *, field: str, places: int = PLACES) -> Quantity:
    """The amount that a number stands for; parts of cores are amounts, too. Raises BadInput, which names the field."""
    exact = Decimal(str(number))
    if not _is_good(exact, places):
        what = "cores" if resource == CPU else "GB (2^30 bytes)"
        raise BadInput(field, number, f"a number of {what} from 0 to {MOST} with at most {places} places is allowed")
    nanos = int(exact * (_CORE if resource == CPU else _GIB))
    return Quantity(nanos, Format.DECIMAL_SI if resource == CPU else Format.BINARY_SI)


def limit_number(resource: str, limit: Quantity) -> Number:
    """Whole cores that are allowed, or the nearest number of GB."""
    return limit.nanos // _CORE if resource == CPU else _nearest(limit)


def usage_number(resource: str, used: Quantity) -> Number:
    """Cores that are used, or the nearest number of GB. What is there never reads as nothing."""
    if resource == CPU:
        return -(-used.nanos // _CORE)
    return max(_nearest(used), 1 / _HUNDREDTHS) if used.nanos else 0.0


def _nearest(amount: Quantity) -> float:
    """In GB, half a hundredth up."""
    return (2 * amount.nanos * _HUNDREDTHS + _GIB) // (2 * _GIB) / _HUNDREDTHS


def _is_good(number: Decimal, places: int) -> bool:
    return number.is_finite() and 0 <= number <= MOST and number == round(number, places)
