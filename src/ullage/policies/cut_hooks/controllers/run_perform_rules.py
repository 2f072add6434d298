"""What comes next for a run, from what is written down of it. Pure.

    (new) ──▶ Pre ──▶ Held ──▶ Post ──▶ Done ──▶ deleted
               │                ▲
               └────▶ Failed ───┘

That a command is about to be run is written before it is. Whoever finds that it was begun, and knows nothing of its end, takes
it for one that may have run: a pre command is undone by the post command, a post command is run again.

A post command is given up when it has run in the pod and failed, again and again. One that could not be delivered says nothing
about the pod, which may be frozen: it is tried for as long as the pod is there. Whether it is, is never concluded from how a
command was answered.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from ullage.kube.builtin.watched_pods import WatchedPod
from ullage.kube.objects import is_deleting
from ullage.policies.cut_hooks.interface import HOOK_FAILED
from ullage.policies.cut_hooks.resolution import ThawPlace
from ullage.policies.cut_hooks.run import OVERDUE, POD_GONE, Delivery, HookOutcome, HookRun, HookRunStatus
from ullage.times import read_time, timestamp

INTERRUPTED: Final = "Interrupted"
FINISHED: Final = "Finished"
MOST_ANSWERED: Final = 8  # tries of a post command that ran in the pod, and failed
AFTER_FAILURE: Final = 2  # of one whose pre command has failed: there may be nothing to undo, which it says each time
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds between two of them
THAW_MINUTES: Final = 60  # for another pod to come that can thaw what a pod has left frozen
_RAN: Final = ("Ended", "GivenUp")


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
    place: ThawPlace | None = None  # of POST: not in its own pod


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    run: HookRun
    now: datetime
    pod_there: bool = True  # the very pod, by its uid, and its containers have not all ended for good
    pod_runs: bool = True  # and it is not being deleted
    namesake: ThawPlace | None = None  # of a pod that is gone: another one of its name that the pre command may have reached
    places: tuple[ThawPlace, ...] = ()  # of a preset whose pod is gone: where its file system can be thawed
    claim_there: bool = True  # of a preset whose pod is gone
    running: bool = False  # a command of it, in this process
    busy: bool = False  # another run in the same pod is under way that it must not meet
    room: bool = True  # for its next command: in its namespace, and in all


def next_run_step(facts: RunFacts) -> RunDecision:
    status = facts.run.status
    if facts.running and (facts.pod_there or status.post.pod):
        return RunDecision(RunStep.REST)  # and if its pod is gone: whoever waits for an answer of that may wait for long
    match status.phase:
        case "":
            return _new(facts)
        case "Pre":
            reason = INTERRUPTED if facts.pod_there else POD_GONE
            return _write(facts, phase="Failed", reason=reason, pre=_unknown(facts))
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
    """A pod that is being deleted is thawed while it can be: its containers run for a few seconds more."""
    left, most = (
        _seconds_left(facts),
        facts.run.spec.max_freeze_seconds + LONGEST_PAUSE,
    )  # more: somebody has set the clock back
    if facts.run.spec.holders and 0 < left <= most and not _is_going(facts) and facts.pod_runs:
        return RunDecision(RunStep.REST, after=left)
    return _begin_post(facts)


def _begin_post(facts: RunFacts) -> RunDecision:
    """Always, unless there is none or nowhere to run it."""
    run, status = facts.run, facts.run.status
    if run.spec.post is UNSET:
        return _write(facts, phase="Done", reason=status.reason or _why_now(facts))
    if not facts.pod_there:
        return _elsewhere(facts)
    if not facts.room:
        return RunDecision(RunStep.REST, after=FIRST_PAUSE)
    post = HookOutcome(started_at=timestamp(facts.now), attempts=1)
    return RunDecision(RunStep.POST, replace(status, phase="Post", reason=status.reason or _why_now(facts), post=post))


def _why_now(facts: RunFacts) -> str:
    if facts.run.status.phase != "Held" or not facts.run.spec.holders or _is_going(facts):
        return FINISHED
    return OVERDUE if facts.pod_runs else POD_GONE


def _again(facts: RunFacts) -> RunDecision:
    """It was begun by somebody who has not told how it ended, or has failed, or could not be delivered."""
    status = facts.run.status
    if not facts.pod_there:
        return _elsewhere(facts)
    if (wait := _pause_left(facts)) > 0 or not facts.room:
        return RunDecision(RunStep.REST, after=max(wait, FIRST_PAUSE))
    return RunDecision(RunStep.POST, replace(status, post=_next_try(facts)))


def _elsewhere(facts: RunFacts) -> RunDecision:
    """The pod is gone. A file system that was frozen in it is frozen still, for whoever mounts it next."""
    status = facts.run.status
    since = read_time(status.gone_since)
    if facts.namesake is None and not _left_frozen(facts):
        return _write(facts, phase="Done", reason=POD_GONE)
    if since is None:
        return _write(facts, phase="Post", reason=POD_GONE, gone_since=timestamp(facts.now))
    if facts.now - since >= timedelta(minutes=THAW_MINUTES):
        return _write(facts, phase="Done", reason=POD_GONE)
    places = facts.places if facts.namesake is None else (facts.namesake,)
    wait = _pause_left(facts)
    if not places or wait > 0 or not facts.room:
        return RunDecision(RunStep.REST, after=wait if facts.room else max(wait, FIRST_PAUSE))
    place = places[status.post.attempts % len(places)]  # not every pod has the program and the right to: each has its turn
    return RunDecision(RunStep.POST, replace(status, post=replace(_next_try(facts), pod=place.pod)), place=place)


def undoes(run: HookRun) -> bool:
    """Whether the next command of a run may undo something: its pre command was begun, and is not known to have run nowhere."""
    pre = run.status.pre
    return run.status.phase != "" and bool(pre.started_at) and pre.delivery != "Refused"


def may_have_reached(run: HookRun, pod: WatchedPod) -> bool:
    """Whether a pod that came in the place of the run's, under its name, has had the pre command: exec knows names alone."""
    pre = run.status.pre
    ended, made = read_time(pre.ended_at), read_time(pod.metadata.creation_timestamp)
    if pod.metadata.uid == run.spec.pod_uid or pod.is_over or pre.delivery == "Refused" or not pre.started_at:
        return False
    return ended is None or made is None or made <= ended


def _left_frozen(facts: RunFacts) -> bool:
    """Whether a preset may have frozen what its pod does not thaw any more. One that has failed has frozen nothing."""
    pre = facts.run.status.pre
    return bool(facts.run.spec.claim) and facts.claim_there and (pre.succeeded or pre.delivery not in ("Ended", "Refused"))


def _next_try(facts: RunFacts) -> HookOutcome:
    post = facts.run.status.post
    return HookOutcome(
        started_at=timestamp(facts.now), attempts=post.attempts + 1, answered=post.answered, message=post.message
    )


def _pause_left(facts: RunFacts) -> float:
    """Seconds until the next try."""
    post = facts.run.status.post
    ended = read_time(post.ended_at)
    left = (ended - facts.now).total_seconds() + pause_after(post.attempts) if ended is not None else 0.0
    return left if left <= LONGEST_PAUSE else 0.0  # more: somebody has set the clock back


def pause_after(attempts: int) -> float:
    return min(FIRST_PAUSE * 2.0 ** min(attempts - 1, 10), LONGEST_PAUSE)


# --- what came of a command -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a try ended, and what is known of whether it ran at all."""

    succeeded: bool
    message: str = ""
    delivery: Delivery = "Ended"


def after_pre(run: HookRun, result: CommandResult, now: datetime, *, pod_there: bool = True) -> HookRunStatus:
    """`pod_there`: asked of the API, where the command itself has not told how it ended."""
    pre = _outcome(run.status.pre, result, now)
    goes_on = run.spec.pre is not UNSET and run.spec.pre.on_error == "Continue"
    if pod_there and (result.succeeded or goes_on):
        return held(run, pre, now)
    return replace(run.status, phase="Failed", reason=HOOK_FAILED if pod_there else POD_GONE, pre=pre)


def held(run: HookRun, pre: HookOutcome, now: datetime) -> HookRunStatus:
    until = timestamp(now + timedelta(seconds=run.spec.max_freeze_seconds))
    return replace(run.status, phase="Held", pre=pre, until=until)


def after_post(run: HookRun, result: CommandResult, now: datetime) -> HookRunStatus:
    status = replace(run.status, post=_outcome(run.status.post, result, now))
    return replace(status, phase="Done" if result.succeeded or _is_enough(status) else "Post")


def _is_enough(status: HookRunStatus) -> bool:
    """Whether a post command that has not succeeded is not tried any more."""
    failed, pre, post = status.reason == HOOK_FAILED, status.pre, status.post
    if failed and pre.delivery == "Refused":  # nothing was run, so nothing is to be undone
        return post.attempts >= AFTER_FAILURE
    return post.answered >= (AFTER_FAILURE if failed and pre.delivery == "Ended" else MOST_ANSWERED)


def _outcome(begun: HookOutcome, result: CommandResult, now: datetime) -> HookOutcome:
    return replace(
        begun,
        ended_at=timestamp(now),
        succeeded=result.succeeded,
        message=result.message,
        delivery=result.delivery,
        answered=begun.answered + (result.delivery in _RAN),
    )


def _write(facts: RunFacts, **changes: object) -> RunDecision:
    return RunDecision(RunStep.WRITE, replace(facts.run.status, **changes))


def _unknown(facts: RunFacts) -> HookOutcome:
    said = "Ullage was stopped before it was known how it ended; it may have been run"
    if not facts.pod_there:
        said = "the pod is gone; it may have been run"
    return replace(facts.run.status.pre, ended_at=timestamp(facts.now), message=said, delivery="Unknown")


def _seconds_left(facts: RunFacts) -> float:
    until = read_time(facts.run.status.until)
    return (until - facts.now).total_seconds() if until is not None else 0.0


def _is_going(facts: RunFacts) -> bool:
    return is_deleting(facts.run.metadata)
