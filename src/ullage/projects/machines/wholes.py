"""A project's quota over all seeds, beside the part of it that one seed has. Pure.

What limits on a seed is its part. People know the whole, and what the project uses of it on all seeds. Which of the two is
exceeded decides what is said: where the whole has room, that may come from other seeds in a moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from ullage.ledger.book import Over
from ullage.quantity import Quantity


@dataclass(frozen=True, slots=True)
class Whole:
    """Of one resource. `used` is by all seeds, as the master said last; None: it has not said anything."""

    limit: Quantity
    used: Quantity | None = None

    def used_with(self, here: Quantity) -> Quantity:
        """What the project uses at least: this seed knows of its own before the master does."""
        return here if self.used is None else max(self.used, here)


@dataclass(frozen=True, slots=True)
class Wholes:
    """By resource, where what limits is a part. `stale` says why what is used on all seeds is not of now; empty: it is."""

    of: Mapping[str, Whole]
    stale: str = ""


NO_PARTS: Final = Wholes({})


class Exceeded(Enum):
    """What does not hold what is asked for."""

    QUOTA = auto()  # the seed has all of it
    WHOLE = auto()  # of which the seed has a part
    PART = auto()  # and the whole has room, as far as is known
    PART_OF_UNKNOWN = auto()  # nobody knows how much of the whole is used


def exceeded_by(over: Over, whole: Whole | None) -> Exceeded:
    if whole is None:
        return Exceeded.QUOTA
    has_all = whole.limit == over.limit
    if whole.used is None:
        return Exceeded.QUOTA if has_all else Exceeded.PART_OF_UNKNOWN
    used = whole.used_with(over.used)
    if used + over.asked <= whole.limit:
        return Exceeded.QUOTA if has_all else Exceeded.PART
    return Exceeded.QUOTA if has_all and used == over.used else Exceeded.WHOLE
