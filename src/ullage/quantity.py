"""Exact Kubernetes quantities: `1.5Gi`, `100m`, `1e3`.

Amounts decide whether a tenant's request fits, so they are never floats. Everything that a quantity can say is a whole
number of nano-units (finer amounts are rounded up to one, away from zero: whoever asks for some gets some), so one integer
holds the amount and a format remembers the family of suffixes in which it was written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

# No part gives back what it took (`*+`): a million digits before a wrong letter would otherwise be tried in every division.
_SYNTAX = re.compile(r"([+-]?)([0-9]*+)(?:\.([0-9]*+))?([eEinumkKMGTP]*+[-+]?[0-9]*+)")
_EXPONENT = re.compile(r"[eE]([-+]?[0-9]+)")
_NANO = 10**9
_INT64_MAX = 2**63 - 1
# Beyond these nothing is an amount any more, and a short text would cost megabytes of digits.
_MAX_EXPONENT = 1000
_MAX_DIGITS = 1000

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIXES = ("", *_BINARY)

BAD_FORMAT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
BAD_SUFFIX = "unable to parse quantity's suffix"
BAD_NUMBER = "unable to parse numeric part of quantity"


class QuantityError(ValueError):
    """A text that is no quantity; the message is the one that kube-apiserver gives."""


class Format(Enum):
    """The family of suffixes that an amount is written with."""

    DECIMAL_SI = "DecimalSI"  # 1500m, 2k
    BINARY_SI = "BinarySI"  # 512Mi
    DECIMAL_EXPONENT = "DecimalExponent"  # 12e3


@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """An exact amount. Equal amounts are equal and hash alike, however they are written."""

    nanos: int
    format: Format = Format.DECIMAL_SI

    @classmethod
    def parse(cls, text: str) -> Quantity:
        """The amount that a text stands for. No spaces: only JSON decoding forgives them (see `wire`)."""
        return _parse(text)

    @classmethod
    def of(cls, units: int, format: Format = Format.DECIMAL_SI) -> Quantity:
        """A whole number of units."""
        return cls(units * _NANO, format)

    def value(self) -> int:
        """In whole units, rounded away from zero."""
        return _away_from_zero(self.nanos, _NANO)

    def milli(self) -> int:
        """In thousandths, rounded away from zero."""
        return _away_from_zero(self.nanos, 10**6)

    def rounded_to_milli(self) -> Quantity:
        """What kube-apiserver makes of an amount in a resource list: nothing finer than a thousandth."""
        return Quantity(self.milli() * 10**6, self.format)

    @property
    def sign(self) -> int:
        return (self.nanos > 0) - (self.nanos < 0)

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos + other.nanos, self._format_with(other))

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos - other.nanos, self._format_with(other))

    def __neg__(self) -> Quantity:
        return Quantity(-self.nanos, self.format)

    def _format_with(self, other: Quantity) -> Format:
        """Zero has no opinion on how a sum is written."""
        return self.format if self.nanos else other.format

    def __eq__(self, other: object) -> bool:
        return self.nanos == other.nanos if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: Quantity) -> bool:
        return self.nanos < other.nanos

    def __le__(self, other: Quantity) -> bool:
        return self.nanos <= other.nanos

    def __gt__(self, other: Quantity) -> bool:
        return self.nanos > other.nanos

    def __ge__(self, other: Quantity) -> bool:
        return self.nanos >= other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __str__(self) -> str:
        """The canonical text: no fraction, the largest suffix that allows that, in the format's family."""
        if not self.nanos:
            return "0"
        # A binary suffix says nothing below 1024, and would lose a fraction: then the amount is written in decimal.
        if self.format is Format.BINARY_SI and abs(self.nanos) >= 1024 * _NANO and not self.nanos % _NANO:
            return _binary(self.nanos // _NANO)
        return _decimal(self.nanos, self.format)


ZERO = Quantity(0)


def wire(text: str) -> str:
    """The text that kube-apiserver stores for a text. Spaces around it are forgiven, though no other blanks, which JSON
    escapes; and some texts that are canonical but for a sign or leading zeros stay as they are (`+1`, `1.500`)."""
    return _wire(text)


@lru_cache(maxsize=4096)
def _parse(text: str) -> Quantity:
    match = _SYNTAX.fullmatch(text) if text else None
    if match is None:
        raise QuantityError(BAD_FORMAT)
    sign, whole, fraction, suffix = match.groups(default="")
    digits = whole + fraction
    if len(digits) > _MAX_DIGITS:
        raise QuantityError(BAD_NUMBER)
    number = int(digits or "0")
    if suffix in _BINARY:
        nanos, format = _scale_binary(number, len(fraction), _BINARY[suffix])
    else:
        exponent, format = _interpret(suffix)
        nanos = _scale_decimal(number, exponent - len(fraction) + 9)
    return Quantity(-nanos if sign == "-" else nanos, format)


def _interpret(suffix: str) -> tuple[int, Format]:
    if (exponent := _DECIMAL.get(suffix)) is not None:
        return exponent, Format.DECIMAL_SI
    match = _EXPONENT.fullmatch(suffix)
    if match is None or len(match[1]) > 20 or int(match[1]) > _MAX_EXPONENT:
        raise QuantityError(BAD_SUFFIX)
    return int(match[1]), Format.DECIMAL_EXPONENT


def _scale_decimal(number: int, exponent: int) -> int:
    if exponent >= 0:
        return int(number * 10**exponent)
    # However far below one nano-unit: it still counts as one, and needs no power of ten to see that.
    return _away_from_zero(number, 10 ** min(-exponent, _MAX_DIGITS + 1))


def _scale_binary(number: int, places: int, power: int) -> tuple[int, Format]:
    nanos = _away_from_zero((number << power) * _NANO, 10**places)
    if 0 < nanos < _NANO:
        return nanos, Format.DECIMAL_SI
    return min(nanos, _INT64_MAX * _NANO), Format.BINARY_SI


def _away_from_zero(number: int, divisor: int) -> int:
    return -(-number // divisor) if number > 0 else number // divisor


def _binary(units: int) -> str:
    steps = 0
    while not units % 1024 and steps < 6:
        units //= 1024
        steps += 1
    return f"{units}{_BINARY_SUFFIXES[steps]}"


def _decimal(nanos: int, format: Format) -> str:
    # kube-apiserver forgets the suffix of a thousand E and more ("1" for 1000E): here the amount is kept instead.
    exponential = format is Format.DECIMAL_EXPONENT
    largest = _MAX_EXPONENT * 2 if exponential else 18
    exponent = -9
    while not nanos % 1000 and exponent < largest:
        nanos //= 1000
        exponent += 3
    if exponential:
        return f"{nanos}e{exponent}" if exponent else str(nanos)
    return f"{nanos}{_DECIMAL_SUFFIX[exponent]}"


@lru_cache(maxsize=4096)
def _wire(text: str) -> str:
    text = text.strip(" ")
    quantity = _parse(text)
    return text if quantity.nanos and _kept(text) else str(quantity)


def _kept(text: str) -> bool:
    """Whether the server takes a text for canonical without looking closely, and so never rewrites it."""
    match = _SYNTAX.fullmatch(text)
    assert match is not None
    _, whole, fraction, suffix = match.groups(default="")
    whole = whole.lstrip("0") or "0"
    digits = whole + fraction
    if suffix in _BINARY:
        few = len(whole) + _BINARY[suffix] * 3 // 10 + 1 <= 15
        return few and "." not in text and int(whole) % 8 != 0
    scale = _interpret(suffix)[0] - len(fraction)
    return len(digits) <= 18 and scale >= -9 and scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
