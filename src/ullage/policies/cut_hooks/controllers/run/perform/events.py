"""What people are told of a run: on its pod, and on the claim where that pod is gone. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ullage.kube.events.reason import Reason
from ullage.policies.cut_hooks.controllers.run.perform.rules import THAW_MINUTES
from ullage.policies.cut_hooks.run import OVERDUE, HookRun, HookRunStatus

PRE_FAILED: Final = Reason("PreHookFailed", action="Snapshotting", type="Warning")
POST_FAILED: Final = Reason("PostHookFailed", action="Snapshotting", type="Warning")
LATE: Final = Reason("HookTimedOut", action="Snapshotting", type="Warning")
FROZEN: Final = Reason("MayBeFrozen", action="Snapshotting", type="Warning")  # on a claim


def notes_on_pod(run: HookRun, new: HookRunStatus) -> Iterator[tuple[Reason, str]]:
    before = run.status
    if before.phase == "Pre" and not new.pre.succeeded and new.pre.ended_at:
        yield PRE_FAILED, f"the pre command failed: {new.pre.message}"
    if _has_failed(before, new) and not new.post.pod:
        yield POST_FAILED, f"the post command failed: {new.post.message}; {_what_then(new)}"
    if before.phase == "Held" and new.reason == OVERDUE:
        seconds = run.spec.max_freeze_seconds
        yield LATE, f"not all volumes were cut in {seconds} s; the post command runs now"


def _has_failed(before: HookRunStatus, new: HookRunStatus) -> bool:
    return before.phase == "Post" and not before.post.ended_at and bool(new.post.ended_at) and not new.post.succeeded


def _what_then(new: HookRunStatus) -> str:
    if new.phase == "Done":
        return "it is not tried again"
    return "it is tried again" + ("" if new.post.delivery == "Ended" else " for as long as the pod is there")


def note_on_claim(run: HookRun, new: HookRunStatus) -> str:
    """Of a preset whose pod is gone; empty: nothing is to be told."""
    before, pod = run.status, run.spec.pod
    if not run.spec.claim or not new.gone_since:
        return ""
    if not before.gone_since:
        return (
            f"pod {pod} is gone, and its post command has not run: the file system may be frozen. "
            f"It is thawed in the first pod that mounts the claim and runs, for {THAW_MINUTES} minutes from now"
        )
    by_hand = "nobody tries any more. Run fsfreeze --unfreeze on its mount, in a pod or on the node"
    if _has_failed(before, new) and new.post.pod:
        then = by_hand if new.phase == "Done" else "it is tried again"
        return f"pod {pod} is gone, and its file system could not be thawed in pod {new.post.pod}: {new.post.message}; {then}"
    if new.phase == "Done" and not new.post.succeeded:
        return f"pod {pod} is gone, and no pod could thaw the file system in {THAW_MINUTES} minutes: {by_hand}"
    return ""
