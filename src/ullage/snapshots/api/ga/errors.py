"""A problem as the error of a status, and back: of snapshots, of their contents, and of groups. Pure."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from msgspec import UNSET, UnsetType

from ullage.snapshots.api.common import clipped
from ullage.snapshots.api.ga.types import SnapshotError
from ullage.snapshots.model import Problem
from ullage.times import timestamp

_WITH_REASON: Final = re.compile(r"([A-Z][A-Za-z0-9]*): (.*)", re.DOTALL)


def problem_of(error: SnapshotError | UnsetType) -> Problem | None:
    """What an error says, with its reason, if it has one."""
    if isinstance(error, UnsetType):
        return None
    found = _WITH_REASON.fullmatch(error.message)
    return Problem(found[1], found[2]) if found else Problem("", error.message)


def error_of(problem: Problem | None, old: SnapshotError | UnsetType, now: datetime) -> SnapshotError | UnsetType:
    """The same problem keeps its time: otherwise every retry would be a write, and every write wakes whoever watches."""
    if problem is None:
        return UNSET
    message = clipped(f"{problem.reason}: {problem.message}" if problem.reason else problem.message)
    if not isinstance(old, UnsetType) and old.message == message:
        return old
    return SnapshotError(time=timestamp(now), message=message)
