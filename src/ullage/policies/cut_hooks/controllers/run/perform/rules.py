"""What comes next for a run, from what is written down of it. Pure.

    (new) ──▶ Pre ──▶ Held ──▶ Post ──▶ Done ──▶ deleted
               │                ▲
               └────▶ Failed ───┘

That a command is about to be run is written before it is. Whoever finds that it was begun, and knows nothing of its end, takes
it for one that may have run: a pre command is undone by the post command, a post command is run again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from ullage.kube.objects import is_deleting
from ullage.policies.cut_hooks.run import HookOutcome, HookRun, HookRunStatus
from ullage.times import read_time, timestamp

FAILED: Final = "HookFailed"
INTERRUPTED: Final = "Interrupted"
TIMED_OUT: Final = "TimedOut"
POD_GONE: Final = "PodGone"
FINISHED: Final = "Finished"
MOST_ATTEMPTS: Final = 8  # of a post command
AFTER_FAILURE: Final = 2  # of one whose pre command has failed: there may be nothing to undo, which it says each time
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds between two of them


class RunStep(Enum):
    """The one thing to do next."""

    REST = auto()  # until something changes, or `after` seconds
    WRITE = auto()  # the status, and look again
    PRE = auto()  # write the status, then run the pre command
    POST = auto()  # write the status, then run the post command
    DELETE = auto()  # the run has served


@dataclass(frozen=True, slots=True)
class RunDecision:
    step: RunStep
    status: HookRunStatus | None = None
    after: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    run: HookRun
    now: datetime
    pod_there: bool = True  # the very pod, by its uid
    pod_runs: bool = True
    running: bool = False  # a command of it, in this process
    busy: bool = False  # another run in the same pod is under way that it must not meet
    room: bool = True  # for another pre command in this namespace


def next_run_step(facts: RunFacts) -> RunDecision:
    if facts.running and facts.pod_there:
        return RunDecision(RunStep.REST)
    if facts.running:  # whoever waits for an answer of a pod that is gone may wait for long
        return _write(facts, phase="Done", reason=POD_GONE)
    match facts.run.status.phase:
        case "":
            return _new(facts)
        case "Pre":
            return _write(facts, phase="Failed", reason=INTERRUPTED, pre=_unknown(facts))
        case "Held":
            return _held(facts)
        case "Failed":
            return _begin_post(facts)
        case "Post":
            return _again(facts)
    return RunDecision(RunStep.DELETE) if not facts.run.spec.holders or _is_going(facts) else RunDecision(RunStep.REST)


def _new(facts: RunFacts) -> RunDecision:
    """Nothing has been run yet."""
    spec = facts.run.spec
    if not spec.holders or _is_going(facts):
        return RunDecision(RunStep.DELETE)
    if not facts.pod_there or not facts.pod_runs:
        return _write(facts, phase="Done", reason=POD_GONE)
    if facts.busy or not facts.room:
        return RunDecision(RunStep.REST, after=FIRST_PAUSE)
    if spec.pre is UNSET:
        return RunDecision(RunStep.WRITE, held(facts.run, HookOutcome(), facts.now))
    begun = HookOutcome(started_at=timestamp(facts.now), attempts=1)
    return RunDecision(RunStep.PRE, replace(facts.run.status, phase="Pre", pre=begun))


def _held(facts: RunFacts) -> RunDecision:
    left = _seconds_left(facts)
    if facts.run.spec.holders and left > 0 and not _is_going(facts) and facts.pod_there:
        return RunDecision(RunStep.REST, after=left)
    return _begin_post(facts)


def _begin_post(facts: RunFacts) -> RunDecision:
    """Always, unless there is none or nowhere to run it."""
    run, status = facts.run, facts.run.status
    late = status.phase == "Held" and run.spec.holders and not _is_going(facts)
    reason = status.reason or (TIMED_OUT if late else FINISHED)
    if not facts.pod_there:
        return _write(facts, phase="Done", reason=POD_GONE)
    if run.spec.post is UNSET:
        return _write(facts, phase="Done", reason=reason)
    post = HookOutcome(started_at=timestamp(facts.now), attempts=1)
    return RunDecision(RunStep.POST, replace(status, phase="Post", reason=reason, post=post))


def _again(facts: RunFacts) -> RunDecision:
    """It was begun by somebody who has not told how it ended, or has failed."""
    status = facts.run.status
    if not facts.pod_there:
        return _write(facts, phase="Done", reason=POD_GONE)
    ended = read_time(status.post.ended_at)
    if ended is not None:
        due = ended + timedelta(seconds=pause_after(status.post.attempts))
        if facts.now < due:
            return RunDecision(RunStep.REST, after=(due - facts.now).total_seconds())
    post = HookOutcome(started_at=timestamp(facts.now), attempts=status.post.attempts + 1, message=status.post.message)
    return RunDecision(RunStep.POST, replace(status, post=post))


def pause_after(attempts: int) -> float:
    return min(FIRST_PAUSE * 2.0 ** min(attempts - 1, 10), LONGEST_PAUSE)


# --- what came of a command -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command ended. `gone`: the pod is not there any more."""

    succeeded: bool
    message: str = ""
    gone: bool = False


def after_pre(run: HookRun, result: CommandResult, now: datetime) -> HookRunStatus:
    pre = replace(run.status.pre, ended_at=timestamp(now), succeeded=result.succeeded, message=result.message)
    if result.gone:
        return replace(run.status, phase="Done", reason=POD_GONE, pre=pre)
    goes_on = run.spec.pre is not UNSET and run.spec.pre.on_error == "Continue"
    if result.succeeded or goes_on:
        return held(run, pre, now)
    return replace(run.status, phase="Failed", reason=FAILED, pre=pre)


def held(run: HookRun, pre: HookOutcome, now: datetime) -> HookRunStatus:
    until = timestamp(now + timedelta(seconds=run.spec.max_freeze_seconds))
    return replace(run.status, phase="Held", pre=pre, until=until)


def after_post(run: HookRun, result: CommandResult, now: datetime) -> HookRunStatus:
    post = replace(run.status.post, ended_at=timestamp(now), succeeded=result.succeeded, message=result.message)
    if result.gone:
        return replace(run.status, phase="Done", reason=POD_GONE, post=post)
    most = AFTER_FAILURE if run.status.reason == FAILED else MOST_ATTEMPTS
    over = result.succeeded or run.status.post.attempts >= most
    return replace(run.status, phase="Done" if over else "Post", post=post)


def _write(facts: RunFacts, **changes: object) -> RunDecision:
    return RunDecision(RunStep.WRITE, replace(facts.run.status, **changes))


def _unknown(facts: RunFacts) -> HookOutcome:
    said = "Ullage was stopped before it was known how it ended; it may have been run"
    return replace(facts.run.status.pre, ended_at=timestamp(facts.now), message=said)


def _seconds_left(facts: RunFacts) -> float:
    until = read_time(facts.run.status.until)
    return (until - facts.now).total_seconds() if until is not None else 0.0


def _is_going(facts: RunFacts) -> bool:
    return is_deleting(facts.run.metadata)
