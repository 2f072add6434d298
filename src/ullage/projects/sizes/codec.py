"""What is known of one place, as it is written into an object and read back: source, times, and a line for each flavour.

    {"source": "DescribeInstanceTypes", "refreshed": "2026-11-16T20:00:00Z", "flavours": {"t3.small": "2 2Gi -"}}

The line has cpu, memory and storage; `-` is what the flavour says nothing of. So a region of eight hundred flavours takes some
30 KiB, and people can read it, and write it where a provider cannot be asked: the disk of a template, say.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from ullage.errors import BadInput
from ullage.projects.sizes.catalogue import MOST_FLAVOURS, Failure, Flavour, Known
from ullage.projects.sizes.fields import MISSING, MOST_TEXT, Fields, shown
from ullage.projects.sizes.units import MOST_BYTES, MOST_CPU
from ullage.quantity import Quantity, QuantityError
from ullage.times import micro_timestamp, read_time

_NONE: Final = "-"
_MOST: Final = (MOST_CPU, MOST_BYTES, MOST_BYTES)
_ALLOWED: Final = f"cpu up to {MOST_CPU}, memory and storage up to {MOST_BYTES}, with '-' for what is not said, are needed"


def write(known: Known) -> dict[str, Any]:
    """The same knowledge always gives the same document."""
    made: dict[str, Any] = {
        "source": known.source,
        "flavours": {name: _line(known.flavours[name]) for name in sorted(known.flavours)},
    }
    if known.refreshed:
        made["refreshed"] = micro_timestamp(known.refreshed)
    if known.failure:
        since, last = micro_timestamp(known.failure.since), micro_timestamp(known.failure.last)
        made["failure"] = {"since": since, "last": last, "reason": known.failure.reason}
    return made


def read(document: object, *, path: str) -> Known:
    """`path` is where it is written. Raises BadInput, which names the field."""
    fields = Fields(document, path)
    flavours = fields.get("flavours")
    if flavours is None:
        flavours = {}
    if not isinstance(flavours, Mapping):
        raise BadInput(fields.at("flavours"), shown(flavours), "an object is needed")
    if len(flavours) > MOST_FLAVOURS:
        raise BadInput(fields.at("flavours"), f"of {len(flavours)} flavours", f"at most {MOST_FLAVOURS} are allowed")
    failure = fields.part("failure") if fields.get("failure") is not None else None
    return Known(
        {name: read_flavour(line, f"{fields.at('flavours')}[{shown(name)}]") for name, line in flavours.items()},
        source=fields.text("source"),
        refreshed=_time(fields, "refreshed") if fields.get("refreshed") is not None else None,
        failure=Failure(_time(failure, "since"), _time(failure, "last"), _reason(failure)) if failure else None,
    )


def _line(flavour: Flavour) -> str:
    return " ".join(_NONE if one is None else str(one) for one in (flavour.cpu, flavour.memory, flavour.storage))


def read_flavour(line: object, where: str) -> Flavour:
    """One line. Raises BadInput, which names where it is."""
    words = line.split(" ") if isinstance(line, str) and len(line) <= MOST_TEXT else []
    if len(words) != len(_MOST):
        raise BadInput(where, shown(line), _ALLOWED)
    try:
        amounts = [None if word == _NONE else Quantity.parse(word) for word in words]
    except QuantityError as error:
        raise BadInput(where, shown(line), _ALLOWED) from error
    if any(amount is not None and not 0 <= amount.nanos <= most.nanos for amount, most in zip(amounts, _MOST, strict=True)):
        raise BadInput(where, shown(line), _ALLOWED)
    return Flavour(*amounts)


def _reason(failure: Fields) -> str:
    """An error of somebody else's program: as long as it was, and not a word of it decides anything."""
    reason = failure.get("reason")
    return reason if isinstance(reason, str) else ""


def _time(fields: Fields, name: str) -> datetime:
    given = fields.text(name)
    moment = read_time(given)
    if moment is None:
        raise BadInput(fields.at(name), shown(given) if given else MISSING, "a time such as 2026-11-16T20:00:00Z is needed")
    return moment
