"""What comes next for a snapshot whose cut waits for hooks. Pure.

    held ──▶ measured: booked ──▶ pre commands run ──▶ told to be cut ──▶ cut: the hooks are left
                  │                      │                    │
                  └──────────────────────┴────────────────────┴──▶ refused, failed or deleted: the hooks are left

Everything that takes long is done before a pre command is run: the record stands, the volume has been measured, and what the
snapshot takes is booked.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto

from ullage.kube.objects import is_deleting
from ullage.policies.cut_hooks.interface import HOOK_FAILED, HOOK_TIMED_OUT
from ullage.policies.cut_hooks.run import POD_GONE, HookRun
from ullage.snapshots.binding import refers_to
from ullage.snapshots.gate import Estimate, estimate_of
from ullage.snapshots.model import CUT, GO, HOOKED, NO, Problem, Record, Snapshot


class CutStep(Enum):
    """The one thing to do next."""

    REST = auto()  # it waits for nothing of ours
    LEAVE = auto()  # it is cut, or is not going to be: hooks need not wait for it
    WAIT = auto()  # for its record, or for an estimate that is fresh
    PREPARE = auto()  # have it booked, and the pre commands run; then tell it
    WATCH = auto()  # it was told, and is not cut yet


@dataclass(frozen=True, slots=True)
class CutDecision:
    step: CutStep
    estimate: Estimate | None = None


def next_cut_step(snapshot: Snapshot, record: Record | None, now: datetime, *, held: bool) -> CutDecision:
    """`held`: a run of hooks is under way for it. Then nobody waits for a fresh estimate, which may come a minute later: one
    that is too old is looked at once more by whoever cuts."""
    if HOOKED not in snapshot.meta.annotations:
        return CutDecision(CutStep.REST)
    if is_deleting(snapshot.meta):
        return CutDecision(CutStep.LEAVE)
    if record is None or not refers_to(record, snapshot):
        return CutDecision(CutStep.WAIT)
    if record.is_cut or is_deleting(record.meta):
        return CutDecision(CutStep.LEAVE)
    estimate = estimate_of(record.meta)
    word = snapshot.meta.annotations.get(CUT, "")
    if estimate is None:  # not measured yet; or given up, and then it is measured anew for the next try
        return CutDecision(CutStep.LEAVE if record.state.problem is not None else CutStep.WAIT)
    if word == f"{GO}{estimate.at}" or record.begun:
        return CutDecision(CutStep.WATCH, estimate)
    if word.partition(" ")[0] == f"{NO}{estimate.at}":
        return CutDecision(CutStep.LEAVE)
    return CutDecision(CutStep.PREPARE if held or estimate.is_fresh(now) else CutStep.WAIT, estimate)


def is_late(cut: datetime | None, ended: datetime | None) -> bool:
    """Whether a volume was cut after the post command had begun: what it has is no better than after a power cut. Both are
    whole seconds: the same one may be either, and is not complained about."""
    return cut is not None and ended is not None and cut.replace(microsecond=0) > ended


def why_not_cut(run: HookRun) -> Problem:
    """Of one that was told, and whose run has ended before its driver was asked."""
    if run.status.reason == POD_GONE:
        said = f"pod {run.spec.pod}: it is being deleted, and the volume was not cut before; the post command runs"
        return Problem(HOOK_FAILED, said)
    seconds = run.spec.max_freeze_seconds
    said = f"pod {run.spec.pod}: the volume was not cut in {seconds} s after the pre command, and the post command runs"
    return Problem(HOOK_TIMED_OUT, said)
