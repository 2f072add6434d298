"""HookRun: that commands are to be run in a pod, are being run, and what came of it.

It is written before anything is run, so that whoever comes after a kill knows what to undo. Ullage alone makes it, one for each
pod and pair of commands, and deletes it when nobody is left that it was for.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from ullage.kube.kinds import AGE, ATOMIC, Column, Kind, Object, Rule, Value
from ullage.policies.cut_hooks.api import HookCommand
from ullage.policies.cut_hooks.interface import HookHolder

GROUP: Final = "ullage.io"
VERSION: Final = "v1alpha1"
RUN_FINALIZER: Final = "ullage.io/hook-run"  # a run that somebody deletes has its post command run first
MOST_HOLDERS: Final = 200

_TIME: Final = msgspec.Meta(extra_json_schema={"format": "date-time"})
_MOST: Final = msgspec.Meta(extra_json_schema={"maxItems": MOST_HOLDERS})

Phase = Literal["", "Pre", "Held", "Failed", "Post", "Done"]


class HookRunSpec(Value):
    """What is run where, and for whom."""

    namespace: str
    """The namespace of the pod."""
    pod: str
    """The pod."""
    pod_uid: str = msgspec.field(name="podUID")
    """The uid of the pod: another one of its name has nothing to do with this."""
    pre: HookCommand | UnsetType = UNSET
    """Run before the cut."""
    post: HookCommand | UnsetType = UNSET
    """Run after it."""
    max_freeze_seconds: int
    """The longest time between the two, in seconds."""
    holders: Annotated[tuple[HookHolder, ...], ATOMIC, _MOST] = ()
    """For whom it is: snapshots and groups of them that are not cut yet. When none is left, the post command runs."""


class HookOutcome(Value):
    """How a command did."""

    started_at: Annotated[str, _TIME] = ""
    """When it was about to be run. Without an end, nobody knows how it did."""
    ended_at: Annotated[str, _TIME] = ""
    """When it had ended, or was given up."""
    attempts: int = 0
    """How often it was run."""
    succeeded: bool = False
    """Whether it ended with exit code 0."""
    message: str = ""
    """What is to be said about it: the exit code, and the first of what it printed."""


class HookRunStatus(Value):
    """How far it is."""

    phase: Phase = ""
    """Pre: the pre command is running. Held: it has been run, and volumes may be cut. Failed: it has failed. Post: the post
    command is running, or is to be run again. Done: nothing is left to be run."""
    pre: HookOutcome = HookOutcome()
    """How the pre command did."""
    post: HookOutcome = HookOutcome()
    """How the post command did."""
    until: Annotated[str, _TIME] = ""
    """When the post command runs whatever has been cut by then."""
    reason: str = ""
    """Why nothing is to be cut, or why it ended: `HookFailed`, `Interrupted`, `TimedOut`, `PodGone`, `Finished`."""


class HookRun(Object):
    """Commands in a pod around the cut of its volumes: that they are to be run, and what came of it. Ullage makes it, and
    deletes it when nobody is left that it was for."""

    spec: HookRunSpec
    """What is run where, and for whom."""
    status: HookRunStatus = HookRunStatus()
    """How far it is."""


HOOK_RUNS: Final = Kind(
    GROUP,
    VERSION,
    "HookRun",
    "hookruns",
    HookRun,
    namespaced=False,
    columns=(
        Column("Namespace", ".spec.namespace", description="The namespace of the pod."),
        Column("Pod", ".spec.pod", description="The pod that the commands are run in."),
        Column("Phase", ".status.phase", description="How far it is."),
        Column("Until", ".status.until", type="date", description="When the post command runs whatever happens."),
        Column("Reason", ".status.reason", description="Why it ended.", priority=1),
        AGE,
    ),
    rules=(
        Rule(
            "self.podUID == oldSelf.podUID && self.pod == oldSelf.pod && self.__namespace__ == oldSelf.__namespace__",
            "the pod of a run cannot be changed",
            path="spec",
        ),
    ),
)
