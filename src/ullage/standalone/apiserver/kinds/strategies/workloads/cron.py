"""The syntax of a CronJob's schedule: five fields or a descriptor, with the server's words for what is wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
MONTHS = {name: at for at, name in enumerate(_MONTHS, start=1)}
DAYS = {name: at for at, name in enumerate(_DAYS)}
FIELDS: tuple[tuple[int, int, Mapping[str, int]], ...] = ((0, 59, {}), (0, 23, {}), (1, 31, {}), (1, 12, MONTHS), (0, 6, DAYS))
DESCRIPTORS = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})
_DURATION = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)((\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))*+|0")


def schedule_fault(schedule: str) -> str | None:
    """The first thing that is wrong, or None."""
    if "TZ" in schedule:
        return "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
    if schedule.startswith("@"):
        return _descriptor_fault(schedule)
    fields = schedule.split()
    if len(fields) != 5:
        return f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
    try:
        for text, (low, high, names) in zip(fields, FIELDS, strict=True):
            for term in text.split(","):
                _check_term(term, low, high, names=names)
    except ValueError as error:
        return str(error)
    return None


def _descriptor_fault(schedule: str) -> str | None:
    if schedule in DESCRIPTORS:
        return None
    if schedule.startswith("@every "):
        text = schedule.removeprefix("@every ")
        return None if _DURATION.fullmatch(text) else f'failed to parse duration {schedule}: time: invalid duration "{text}"'
    return f"unrecognized descriptor: {schedule}"


def _check_term(term: str, low: int, high: int, *, names: Mapping[str, int]) -> None:
    """`*`, `5`, `1-5`, each perhaps with `/step`."""
    span, *steps = term.split("/")
    if len(steps) > 1:
        raise ValueError(f"too many slashes: {term}")
    start, *ends = span.split("-")
    if len(ends) > 1:
        raise ValueError(f"too many hyphens: {term}")
    if start in ("*", "?"):
        first, last = low, high
    else:
        first = _number(start, names)
        last = _number(ends[0], names) if ends else first
    step = _number(steps[0], {}) if steps else 1
    if steps and not ends:
        last = high
    if first < low:
        raise ValueError(f"beginning of range ({first}) below minimum ({low}): {term}")
    if last > high:
        raise ValueError(f"end of range ({last}) above maximum ({high}): {term}")
    if first > last:
        raise ValueError(f"beginning of range ({first}) beyond end of range ({last}): {term}")
    if step == 0:
        raise ValueError(f"step of range should be a positive number: {term}")


def _number(text: str, names: Mapping[str, int]) -> int:
    if (known := names.get(text.lower())) is not None:
        return known
    if not re.fullmatch("[0-9]+", text):
        raise ValueError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    return int(text)


def time_zone_fault(name: str) -> str | None:
    if not name:
        return "timeZone must be nil or non-empty string"
    if name.lower() == "local":
        return "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return f"unknown time zone {name}"
    return None
