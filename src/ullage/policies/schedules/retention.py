"""The rules of retention as a schedule has them, read strictly. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from msgspec import UNSET

from ullage.errors import BadInput
from ullage.policies.schedules.api import ScheduleRetention
from ullage.quantity import Quantity, QuantityError

_AGE: Final = re.compile(r"([1-9][0-9]{0,5})([mhdw])")
_UNITS: Final = {"m": 60, "h": 3600, "d": 86400, "w": 604800}
AGE_FIELD: Final = "spec.retention.age"
SIZE_FIELD: Final = "spec.retention.totalSize"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The rules of a schedule. None: there is no such rule."""

    count: int | None = None
    age: timedelta | None = None
    total_size: int | None = None  # bytes
    failed: int = 3


def read_limits(retention: ScheduleRetention) -> Limits:
    """Raises BadInput, which names the field."""
    return Limits(
        count=None if retention.count is UNSET else retention.count,
        age=None if retention.age is UNSET else read_age(retention.age),
        total_size=None if retention.total_size is UNSET else read_size(retention.total_size),
        failed=retention.failed,
    )


def read_age(text: str) -> timedelta:
    found = _AGE.fullmatch(text)
    if found is None:
        raise BadInput(AGE_FIELD, repr(text[:32]), "write a number from 1 to 999999 and m, h, d or w: 90m, 36h, 30d, 8w")
    return timedelta(seconds=int(found[1]) * _UNITS[found[2]])


def read_size(text: str) -> int:
    try:
        amount = Quantity.parse(text[:64]).value()
    except QuantityError as error:
        raise BadInput(SIZE_FIELD, repr(text[:32]), f"{error}; write an amount such as 100Gi") from error
    if amount < 0:
        raise BadInput(SIZE_FIELD, repr(text[:32]), "it is less than nothing; write an amount such as 100Gi")
    return amount
