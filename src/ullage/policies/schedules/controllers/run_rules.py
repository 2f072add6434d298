"""When a schedule runs, and what its status says of it. Pure: the times come from a Timetable.

    due ──▶ begun: the run is in the status ──▶ a few claims at a time, in the order of the run ──▶ ended
     └──▶ let go: its deadline has passed            └── the next one is due: the rest is let go

That a run has begun is written down before its first snapshot is made, so whoever comes after a kill goes on with it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from ullage.kube.objects import find_condition, set_condition
from ullage.policies.schedules.api import (
    MOST_PROBLEMS,
    READY,
    SUSPENDED,
    RunProblem,
    ScheduleError,
    ScheduleRun,
    ScheduleStatus,
    SnapshotSchedule,
)
from ullage.policies.schedules.cron import Timetable
from ullage.policies.schedules.model import AHEAD, RUN_NOW
from ullage.times import read_time, timestamp

# Why claims get no snapshot in a run: all reasons that differ, the gravest first.


MESSAGE_LIMIT: Final = 1024
_WORD: Final = re.compile(r"[^\s:;,()\"']*\d[^\s:;,()\"']*")


def counted(problems: Sequence[RunProblem], message: str, *, claim: str, refused: bool) -> tuple[RunProblem, ...]:
    """The reasons with one more. Beyond the bound the least grave is left out."""
    for place, one in enumerate(problems):
        if one.refused == refused and _reason(one.message, one.claim) == _reason(message, claim):
            return (*problems[:place], replace(one, others=one.others or one.claim != claim), *problems[place + 1 :])
    new = RunProblem(claim=claim, message=message[:MESSAGE_LIMIT], refused=refused)
    return tuple(_gravest_first((*problems, new)))[:MOST_PROBLEMS]


def told(problems: Iterable[RunProblem], waiting: Sequence[tuple[str, str]] = ()) -> str:
    """All reasons in one message. `waiting` has each claim that is asked to wait, with the answer. Where the message would be
    too long each reason is cut, so that none is hidden by the others."""
    ordered = _gravest_first(problems)
    parts = [_counted(one) for one in ordered if one.refused]
    parts += _of_waiting(waiting)
    parts += [_counted(one) for one in ordered if not one.refused]
    if sum(map(len, parts)) + 2 * len(parts) > MESSAGE_LIMIT:
        most = MESSAGE_LIMIT // len(parts) - 3
        parts = [one if len(one) <= most else f"{one[: most - 1]}…" for one in parts]
    return "; ".join(parts)


def gravest(problems: Iterable[RunProblem], waiting: Sequence[tuple[str, str]] = ()) -> str:
    """The claim that the first reason names; empty where that is a request to wait, or where there is no reason."""
    ordered = _gravest_first(problems)
    return ordered[0].claim if ordered and (ordered[0].refused or not waiting) else ""


def _gravest_first(problems: Iterable[RunProblem]) -> list[RunProblem]:
    return sorted(problems, key=lambda one: not one.refused)


def _counted(one: RunProblem) -> str:
    return f"{one.message} (and other claims)" if one.others else one.message


def _of_waiting(waiting: Sequence[tuple[str, str]]) -> list[str]:
    first: dict[str, str] = {}
    for claim, message in waiting:
        first.setdefault(_reason(message, claim), message)
    shown = list(first.values())[:MOST_PROBLEMS]
    if not shown:
        return []
    more = len(waiting) - len(shown)
    also = [f"{more} more claim{' is' if more == 1 else 's are'} asked to wait"] if more else []
    return [f"tried again: {shown[0]}", *shown[1:], *also]


def _reason(message: str, claim: str) -> str:
    """The message without what is of one claim alone: its name, and words with digits, as amounts and names of snapshots."""
    return _WORD.sub("#", re.sub(rf"(?<![\w.-]){re.escape(claim)}(?![\w.-])", "#", message[:MESSAGE_LIMIT]))


REQUEST_WITHIN: Final = timedelta(hours=1)  # what the clock of whoever asks for a run may be off
MOST_REFUSED: Final = 20  # one after the other: then the rest of a run is not even asked for
REQUEST_LIMIT: Final = 64  # characters of a request that the status keeps, and that it is known by


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What is next for a schedule: a run that is to begin now, one that is too late, or the time to look again."""

    begin: datetime | None = None
    manual: bool = False
    late: datetime | None = None
    next: datetime | None = None  # when the next run begins
    bad_request: str = ""  # why a request to run at once cannot be


def resumed(schedule: SnapshotSchedule, now: datetime) -> ScheduleStatus:
    """The status with what is to be said of suspension. When that ended is what later runs count from; of a schedule that never
    was suspended there is nothing to say."""
    status, suspended, generation = set_right(schedule, now), schedule.spec.suspend, schedule.metadata.generation
    if not suspended and find_condition(status.conditions, SUSPENDED) is None:
        return status
    message = "nothing is taken and nothing is deleted until spec.suspend is false" if suspended else "it is not suspended"
    conditions = set_condition(
        status.conditions,
        SUSPENDED,
        status=suspended,
        reason="Suspended" if suspended else "Active",
        message=message,
        generation=generation,
        now=now,
    )
    return replace(status, conditions=conditions)


def is_called_off(schedule: SnapshotSchedule) -> bool:
    """Whether the run that is under way is to make nothing more. One that was asked for goes on while suspended."""
    run = schedule.status.run
    return schedule.spec.suspend and not isinstance(run, UnsetType) and not run.manual


def moment_of(schedule: SnapshotSchedule, timetable: Timetable, now: datetime) -> Moment:
    """`schedule` has the status of `resumed`."""
    request = _request(schedule)
    if request and request != schedule.status.last_request:
        asked = read_time(schedule.metadata.annotations.get(RUN_NOW, ""))
        if asked is None or abs(asked - now) > REQUEST_WITHIN:
            return Moment(bad_request=f"{RUN_NOW}: {request!r} is not a time within an hour of now, {timestamp(now)}")
        if isinstance(schedule.status.run, UnsetType):
            return Moment(begin=asked, manual=True)
    if schedule.spec.suspend:
        return Moment()
    after = _counts_from(schedule, now)
    first = timetable.next_after(after)
    time = timetable.last_between(after, now) if first is not None and first <= now else None
    if time is None:
        return Moment(next=starts(schedule, timetable, first))
    start = starts(schedule, timetable, time)
    if start is not None and start > now:
        return Moment(next=start)
    following = starts(schedule, timetable, timetable.next_after(time))
    deadline = schedule.spec.starting_deadline_seconds
    if deadline is not UNSET and start is not None and now > start + timedelta(seconds=deadline):
        return Moment(late=time, next=following)
    return Moment(begin=time, next=following)


def set_right(schedule: SnapshotSchedule, now: datetime) -> ScheduleStatus:
    """The status, for a clock that was put back. What was dealt with in a time that has not come yet is dealt with up to now:
    otherwise nothing would be due before that time. Runs that come twice so find their snapshots by name. By a little, clocks
    may differ."""
    status, latest = schedule.status, now + AHEAD
    last = read_time(status.last_scheduled_time) or read_time(schedule.metadata.creation_timestamp)
    if last is not None and last > latest:
        status = replace(status, last_scheduled_time=timestamp(now))
    suspended = find_condition(status.conditions, SUSPENDED)
    since = read_time(suspended.last_transition_time) if suspended is not None else None
    if suspended is None or since is None or since <= latest:
        return status
    right = replace(suspended, last_transition_time=timestamp(now))
    return replace(status, conditions=tuple(right if one is suspended else one for one in status.conditions))


def _counts_from(schedule: SnapshotSchedule, now: datetime) -> datetime:
    """The moment after which runs are due: the last that was dealt with, or the creation; the end of a suspension."""
    status = schedule.status
    last = read_time(status.last_scheduled_time) or read_time(schedule.metadata.creation_timestamp) or now
    suspended = find_condition(status.conditions, SUSPENDED)
    since = read_time(suspended.last_transition_time) if suspended is not None else None
    return min(now, max(last, since)) if since is not None else min(now, last)


def starts(schedule: SnapshotSchedule, timetable: Timetable, time: datetime | None) -> datetime | None:
    """When the run of a scheduled time begins: some seconds later, the same for whoever works it out."""
    if time is None:
        return None
    following = timetable.next_after(time)
    room = schedule.spec.jitter_seconds
    if following is not None:
        room = min(room, int((following - time).total_seconds()) // 2)
    if room <= 0:
        return time
    digest = hashlib.sha256(f"{schedule.metadata.uid}/{timestamp(time)}".encode()).digest()
    return time + timedelta(seconds=int.from_bytes(digest[:8]) % (room + 1))


# --- runs ------------------------------------------------------------------------------------------------------------


def begun(schedule: SnapshotSchedule, moment: Moment, now: datetime, *, left: int | None = None) -> ScheduleStatus:
    """The intent: written before anything is made. What an earlier run has not reached is let go: so many claims, if that is
    known."""
    status = schedule.status
    if moment.begin is None:
        return status
    if not isinstance(status.run, UnsetType):
        status = _let_go(schedule, status, now, left=left)
    run = ScheduleRun(scheduled_time=timestamp(moment.begin), started=timestamp(now), manual=moment.manual)
    status = replace(status, run=run, last_run=timestamp(now), next_run=_shown(schedule, moment))
    if moment.manual:
        return replace(status, last_request=_request(schedule))
    return replace(status, last_scheduled_time=timestamp(moment.begin))


def _let_go(schedule: SnapshotSchedule, status: ScheduleStatus, now: datetime, *, left: int | None) -> ScheduleStatus:
    """Of a run that was not done when the next one was due."""
    if left == 0 or isinstance(status.run, UnsetType):
        return ended(schedule, status, now)
    many = "claims were" if left is None else f"{left} claim was" if left == 1 else f"{left} claims were"
    text = f"the run for {status.run.scheduled_time} was not done when the next one was due: {many} left out"
    status = _with_error(replace(status, failed=status.failed + (left or 1)), text, now)
    return _ready(schedule, status, now, ok=False, reason="RunIncomplete", message=text)


def _request(schedule: SnapshotSchedule) -> str:
    """The request to run at once, as far as the status keeps it."""
    return schedule.metadata.annotations.get(RUN_NOW, "")[:REQUEST_LIMIT]


def waiting(schedule: SnapshotSchedule, moment: Moment, now: datetime) -> ScheduleStatus:
    """Nothing is to begin now."""
    status = replace(schedule.status, next_run=_shown(schedule, moment))
    if moment.bad_request:
        return _with_error(replace(status, last_request=_request(schedule)), moment.bad_request, now)
    if moment.late is not None:
        deadline = schedule.spec.starting_deadline_seconds
        text = f"the run for {timestamp(moment.late)} was missed: it could not begin within {deadline} s"
        return _with_error(replace(status, last_scheduled_time=timestamp(moment.late), failed=status.failed + 1), text, now)
    if find_condition(status.conditions, READY) is None or _is_invalid(status):
        return _ready(schedule, status, now, ok=True, reason="Waiting", message="no run has ended yet")
    return status


def invalid(schedule: SnapshotSchedule, problem: str, now: datetime) -> ScheduleStatus:
    """Of a schedule that cannot be."""
    status = replace(schedule.status, next_run="")
    return _ready(schedule, status, now, ok=False, reason=INVALID, message=f"{problem}. Edit the schedule")


INVALID: Final = "InvalidSchedule"


def _is_invalid(status: ScheduleStatus) -> bool:
    found = find_condition(status.conditions, READY)
    return found is not None and found.reason == INVALID


def _shown(schedule: SnapshotSchedule, moment: Moment) -> str:
    """A manual run says nothing of the next one."""
    if moment.manual or moment.bad_request:
        return schedule.status.next_run
    return timestamp(moment.next) if moment.next is not None else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a claim in a run. Without an error, a snapshot of it was made."""

    place: str
    claim: str
    error: str = ""
    refused: bool = False


def progressed(
    status: ScheduleStatus, outcomes: Iterable[Outcome], now: datetime, *, left: Iterable[str] = ()
) -> ScheduleStatus:
    """`left` are the places that the run still has to deal with: it is gone through in its order, but for those who are asked
    to wait, and whoever goes on after a kill begins before the first of these."""
    first = min(left, default="")
    for one in outcomes:
        run = status.run
        if isinstance(run, UnsetType):
            break
        place = max(run.place, one.place) if not first or one.place < first else run.place
        if one.error:
            in_a_row = run.refused + 1 if one.refused else run.refused
            status = replace(status, failed=status.failed + 1)
            reasons = counted(run.problems, one.error, claim=one.claim, refused=one.refused)
            status = _with_error(status, told(reasons), now, claim=gravest(reasons))
            run = replace(run, place=place, failed=run.failed + 1, refused=in_a_row, problems=reasons)
        else:
            status = replace(status, made=status.made + 1)
            run = replace(run, place=place, made=run.made + 1, refused=0)
        status = replace(status, run=run)
    return status


def ended(schedule: SnapshotSchedule, status: ScheduleStatus, now: datetime, *, left: int = 0, why: str = "") -> ScheduleStatus:
    """`left` claims were not reached, and why."""
    run = status.run
    if isinstance(run, UnsetType):
        return status
    if left:
        text = f"{why}; {left} claim{'s' if left > 1 else ''} of the run for {run.scheduled_time} got no snapshot"
        reasons = told(run.problems)
        text = f"{reasons}; {text}" if reasons and reasons not in why else text
        status = _with_error(replace(status, failed=status.failed + left), text, now)
    failed = run.failed + left
    said = f"the run for {run.scheduled_time} made {run.made} snapshot{'' if run.made == 1 else 's'}"
    status = replace(status, run=UNSET)
    if not failed:
        return _ready(schedule, replace(status, last_error=UNSET), now, ok=True, reason="RunComplete", message=said)
    error = status.last_error
    last = f": {error.message}" if not isinstance(error, UnsetType) else ""
    message = f"{said}, and {failed} claim{'s' if failed > 1 else ''} got none{last}"
    return _ready(schedule, status, now, ok=False, reason="RunIncomplete", message=message)


def delayed(status: ScheduleStatus, waiting: Sequence[tuple[str, str]], now: datetime) -> ScheduleStatus:
    """Nothing is lost yet: it is tried again. `waiting` has each claim that is asked to wait, with what was answered."""
    reasons = () if isinstance(status.run, UnsetType) else status.run.problems
    return _with_error(status, told(reasons, waiting), now, claim=gravest(reasons, waiting))


def summary(status: ScheduleStatus) -> tuple[bool, str]:
    """Of a run that has ended: whether it made all, and what to say of it."""
    found = find_condition(status.conditions, READY)
    return (found.status == "True", found.message) if found is not None else (True, "")


def gives_up(schedule: SnapshotSchedule, now: datetime) -> bool:
    """Whether a run that is refused for the moment has no time left."""
    run, deadline = schedule.status.run, schedule.spec.starting_deadline_seconds
    began = read_time(run.started) if not isinstance(run, UnsetType) else None
    return deadline is not UNSET and began is not None and now > began + timedelta(seconds=deadline)


def _ready(
    schedule: SnapshotSchedule, status: ScheduleStatus, now: datetime, *, ok: bool, reason: str, message: str
) -> ScheduleStatus:
    generation = schedule.metadata.generation
    conditions = set_condition(
        status.conditions, READY, status=ok, reason=reason, message=message[:MESSAGE_LIMIT], generation=generation, now=now
    )
    return replace(status, conditions=conditions)


def _with_error(status: ScheduleStatus, message: str, now: datetime, *, claim: str = "") -> ScheduleStatus:
    """The same words keep their time: otherwise every look would be a write."""
    old, message = status.last_error, message[:MESSAGE_LIMIT]
    if not isinstance(old, UnsetType) and (old.claim, old.message) == (claim, message):
        return status
    return replace(status, last_error=ScheduleError(time=timestamp(now), claim=claim, message=message))
