"""When a schedule runs: cron expressions in a time zone, read strictly, and asked for the next time or the last.

`cronsim` knows how clocks that change are dealt with. Before it sees an expression, that is checked field by field: it takes
more than the five fields of cron, and names no value that it does not like.
"""

from __future__ import annotations

import re
import zoneinfo
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from cronsim import CronSim, CronSimError

from ullage.errors import BadInput

LONGEST: Final = 100  # characters of an expression
MACROS: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
FIELD: Final = "spec.schedule"
ZONE_FIELD: Final = "spec.timeZone"
_MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_ZONE: Final = re.compile(r"[A-Z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+){0,2}")
_NO_ZONES: Final = frozenset({"Factory"})  # files of the database that are no place's time
_STEP: Final = timedelta(seconds=1)
_MOST_STEPS: Final = 5_000  # of a search: 50 years without a day that fits take 1,200


@dataclass(frozen=True, slots=True)
class _Part:
    """One of the five fields: its name, its numbers, and words for them."""

    name: str
    least: int
    most: int
    words: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        words = f" or {self.words[0]} to {self.words[-1]}" if self.words else ""
        return f"a number from {self.least} to {self.most}{words}"

    def value(self, text: str) -> int | None:
        if text.upper() in self.words:
            return self.words.index(text.upper()) + self.least
        if not re.fullmatch(r"[0-9]{1,2}", text):
            return None
        return int(text) if self.least <= int(text) <= self.most else None


_PARTS: Final = (
    _Part("minute", 0, 59),
    _Part("hour", 0, 23),
    _Part("day of month", 1, 31),
    _Part("month", 1, 12, _MONTHS),
    _Part("day of week", 0, 7, _DAYS),
)


@dataclass(frozen=True, slots=True)
class Timetable:
    """The times of a schedule. All moments are aware and in UTC."""

    expression: str  # five fields
    zone: zoneinfo.ZoneInfo

    def next_after(self, moment: datetime) -> datetime | None:
        """The first time after a moment; None: there is none within 50 years."""
        return _next_after(self.expression, self.zone, moment)

    def last_between(self, after: datetime, until: datetime) -> datetime | None:
        """The last time after one moment, and not after another. A search by halves: a year of minutes costs no more than a
        few looks."""
        found: datetime | None = None
        low, high = after, until
        while low < high:
            time = self.next_after(low if found is None else low + (high - low) / 2)
            if time is not None and time <= until:
                found = low = time
            elif found is None:
                return None
            else:
                high = low + (high - low) / 2
            if high - low <= _STEP:
                break
        return found


class _Times(CronSim):
    """With an end: where clocks went back from 00:01 to the day before (St. John's, until 2011), a search may go round."""

    steps = 0

    def advance_day(self) -> bool:
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise StopIteration
        return super().advance_day()


@lru_cache(maxsize=8192)  # the same question comes with every look at a schedule, and days that are rare take long to find
def _next_after(expression: str, zone: zoneinfo.ZoneInfo, moment: datetime) -> datetime | None:
    times = _Times(expression, moment.astimezone(zone))
    try:
        while True:
            # Times of day are looked for without their offset: in an hour that comes twice one may be found that was.
            found = next(times).astimezone(UTC)
            if found > moment:
                return found
    except (StopIteration, OverflowError):
        return None


@lru_cache(maxsize=4096)
def read_timetable(schedule: str, time_zone: str = "UTC") -> Timetable:
    """Raises BadInput, which names the field."""
    zone = read_zone(time_zone)
    expression = _checked(schedule)
    try:
        made = Timetable(expression, zone)
        CronSim(expression, datetime(2026, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        raise BadInput(FIELD, repr(schedule), f"no month has such a day ({error})") from error
    if made.next_after(datetime(2026, 1, 1, tzinfo=UTC)) is None:
        raise BadInput(FIELD, repr(schedule), "there is no such day within 50 years")
    return made


def read_zone(name: str) -> zoneinfo.ZoneInfo:
    problem = "it is not in the IANA time zone database; write a name such as Europe/Berlin or UTC"
    if len(name) > 64 or not _ZONE.fullmatch(name) or name in _NO_ZONES:
        raise BadInput(ZONE_FIELD, repr(name[:64]), problem)
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, OSError, ValueError) as error:  # a directory of the database is an OSError
        raise BadInput(ZONE_FIELD, repr(name), problem) from error


def _checked(schedule: str) -> str:
    """The five fields, each of which is what cron allows."""
    if len(schedule) > LONGEST:
        raise BadInput(FIELD, repr(f"{schedule[:40]}…"), f"it has {len(schedule)} characters; {LONGEST} at most are allowed")
    if schedule.strip().startswith("@"):
        found = MACROS.get(schedule.strip().lower())
        if found is None:
            raise BadInput(FIELD, repr(schedule), f"there is no such word; write five fields, or one of {', '.join(MACROS)}")
        return found
    fields = schedule.split()
    if len(fields) != len(_PARTS):
        names = ", ".join(part.name for part in _PARTS)
        raise BadInput(FIELD, repr(schedule), f"it has {len(fields)} fields; five are needed: {names}")
    for part, text in zip(_PARTS, fields, strict=True):
        if problem := _fault(part, text):
            raise BadInput(FIELD, repr(schedule), f"{part.name} {text!r}: {problem}")
    return " ".join(field.upper() for field in fields)


def _fault(part: _Part, text: str) -> str:
    """What is wrong with a field; empty: nothing."""
    return next((problem for item in text.split(",") if (problem := _item_fault(part, item))), "")


def _item_fault(part: _Part, item: str) -> str:
    range_text, slash, step = item.partition("/")
    if slash and not (re.fullmatch(r"[0-9]{1,2}", step) and int(step) >= 1):
        return f"the step {step!r} is not a number from 1 to 99"
    if range_text == "*":
        return ""
    first, dash, last = range_text.partition("-")
    low, high = part.value(first), part.value(last) if dash else None
    if low is None or (dash and high is None):
        wrong = first if low is None else last
        return f"{wrong!r} is not allowed; write *, {part.allowed}, a range (1-5), a list (1,15) or a step (*/10)"
    if high is not None and high < low:
        return f"the range {range_text} ends before it begins"
    return ""
