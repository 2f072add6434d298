"""Sizes of snapshot space as people write them: `10Gi`, `1.5Gi`, `5000000000`. Whole bytes, and no fewer than none. Pure.

The API actions and the commands read them alike. The quota object itself has numbers, which its schema checks.
"""

from __future__ import annotations

from typing import Final

from ullage.errors import Terminal
from ullage.quantity import Quantity, QuantityError

MOST_BYTES: Final = 2**63 - 1
MOST_DIGITS: Final = 64  # of a text: no size that there can be has more
SHOWN_DIGITS: Final = 40  # of a text that is refused
ALLOWED: Final = "a size is a whole number of bytes from 0 to 9223372036854775807, such as 10Gi, 1.5Gi or 5000000000"


class BadSize(Terminal):
    """A text that is no size: says the field, the text, what is wrong with it and what is allowed."""

    def __init__(self, field: str, text: str, problem: str) -> None:
        shown = text if len(text) <= SHOWN_DIGITS else f"{text[:SHOWN_DIGITS]}…"
        self.field = field
        self.problem = f"{shown!r} {problem}; {ALLOWED}"
        super().__init__(f"{field}: {self.problem}")


def parse_size(text: str, *, field: str) -> int:
    """The bytes that a text stands for. `field` is where it is written, for the error."""
    if len(text) > MOST_DIGITS:
        raise BadSize(field, text, f"is too long: {len(text)} characters")
    try:
        found = Quantity.parse(text)
    except QuantityError as error:
        raise BadSize(field, text, "is not a quantity") from error
    if found.sign < 0:
        raise BadSize(field, text, "is negative")
    size = found.value()
    if found != Quantity.of(size):
        raise BadSize(field, text, "is not a whole number of bytes")
    # The parser stops at the largest number of bytes there is, as Kubernetes' own does: 8Ei and 9Ei read alike.
    if size > MOST_BYTES or (size == MOST_BYTES and not text.lstrip("+").isdigit()):
        raise BadSize(field, text, "is too large")
    return size
