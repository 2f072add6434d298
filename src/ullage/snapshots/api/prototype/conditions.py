"""A state as the conditions of the proposal's API, and back.

Every condition is always there, so that `kubectl wait` has something to look at. Why a snapshot is not ready stands at Ready,
and is repeated at the one condition that is true meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final, Literal

from ullage.snapshots.api.common import clipped
from ullage.snapshots.api.prototype.types import Condition, Phase
from ullage.snapshots.model import Problem, State
from ullage.times import timestamp

CREATING: Final = "Creating"
UPLOADING: Final = "Uploading"
READY: Final = "Ready"
ERROR: Final = "Error"
OF_DATA: Final = (UPLOADING, READY, ERROR)
OF_SNAPSHOT: Final = (CREATING, *OF_DATA)

_TAKING: Final = Problem("BeingTaken", "the snapshot is being taken")
_STORING: Final = Problem("BeingStored", "the snapshot is cut and is being stored; the application may write again")
_USABLE: Final = Problem("Usable", "volumes can be made from it")
_OURS: Final = {_TAKING.reason, _STORING.reason}


def phase_of(state: State) -> Phase:
    if state.problem is not None:
        return "error"
    if state.ready:
        return "ready"
    return "uploading" if state.cut is not None else "creating"


def conditions_of(state: State, old: tuple[Condition, ...], *, types: tuple[str, ...], now: datetime) -> tuple[Condition, ...]:
    """The transition time moves only when the status does. Conditions of others stay."""
    before = {one.type: one for one in old}
    made = tuple(_condition(type, holds, why, before.get(type), now) for type, holds, why in _said(state) if type in types)
    return (*made, *(one for one in old if one.type not in types))


def waiting_in(conditions: Iterable[Condition]) -> Problem | None:
    """What a snapshot waits for, where that is more than the storage system's usual work."""
    by_type = {one.type: one for one in conditions}
    ready = by_type.get(READY)
    if ready is None or ready.status == "True" or not ready.reason or ready.reason in _OURS or problem_in(conditions):
        return None
    return Problem(ready.reason, ready.message)


def problem_in(conditions: Iterable[Condition]) -> Problem | None:
    return next((Problem(one.reason, one.message) for one in conditions if (one.type, one.status) == (ERROR, "True")), None)


def is_ready(conditions: Iterable[Condition]) -> bool:
    return any((one.type, one.status) == (READY, "True") for one in conditions)


def _said(state: State) -> Iterator[tuple[str, bool, Problem]]:
    """Each condition, whether it holds, and why."""
    phase, cut = phase_of(state), state.cut is not None or state.ready
    why = state.problem or state.waiting or (_STORING if cut else _TAKING)
    not_creating = Problem("Cut" if cut else "Stopped", "")
    not_uploading = Problem("Stored" if state.ready else "Stopped" if cut else "NotCut", "")
    yield CREATING, phase == "creating", why if phase == "creating" else not_creating
    yield UPLOADING, phase == "uploading", why if phase == "uploading" else not_uploading
    yield READY, state.ready, _USABLE if state.ready else why
    yield ERROR, state.problem is not None, state.problem or Problem("NoError", "")


def _condition(type: str, holds: bool, why: Problem, old: Condition | None, now: datetime) -> Condition:
    status: Literal["True", "False"] = "True" if holds else "False"
    since = old.last_transition_time if old and old.status == status and old.last_transition_time else timestamp(now)
    return Condition(type=type, status=status, reason=why.reason, message=clipped(why.message), last_transition_time=since)
