"""HookRun: that commands are to be run in a pod, are being run, and what came of it.

It is written before anything is run, so that whoever comes after a kill knows what to undo. Ullage alone makes it, one for each
pod and pair of commands, and deletes it when nobody is left that it was for.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from ullage.kube.kinds import AGE, ATOMIC, Column, Kind, Object, Rule, Value
from ullage.names import LABEL_LIMIT, LABEL_PATTERN, SUBDOMAIN_LIMIT, SUBDOMAIN_PATTERN, or_empty
from ullage.policies.cut_hooks.api import HookCommand
from ullage.policies.cut_hooks.interface import HookHolder

GROUP: Final = "ullage.io"
VERSION: Final = "v1alpha1"
RUN_FINALIZER: Final = "ullage.io/hook-run"  # a run that somebody deletes has its post command run first
MOST_HOLDERS: Final = 200
POD_GONE: Final = "PodGone"  # a reason: the pod is gone, or is being deleted
OVERDUE: Final = "TimedOut"  # a reason: the time was over before all holders were cut

_TIME: Final = msgspec.Meta(extra_json_schema={"format": "date-time"})
_LABEL: Final = msgspec.Meta(extra_json_schema={"maxLength": LABEL_LIMIT, "pattern": LABEL_PATTERN})
_NAME: Final = msgspec.Meta(extra_json_schema={"maxLength": SUBDOMAIN_LIMIT, "pattern": SUBDOMAIN_PATTERN})
_OPTIONAL_NAME: Final = msgspec.Meta(extra_json_schema={"maxLength": SUBDOMAIN_LIMIT, "pattern": or_empty(SUBDOMAIN_PATTERN)})
_MOST: Final = msgspec.Meta(extra_json_schema={"maxItems": MOST_HOLDERS})

Phase = Literal["", "Pre", "Held", "Failed", "Post", "Done"]
Delivery = Literal["", "Ended", "GivenUp", "Unknown", "Refused"]


class HookRunSpec(Value):
    """What is run where, and for whom."""

    namespace: Annotated[str, _LABEL]
    """The namespace of the pod."""
    pod: Annotated[str, _NAME]
    """The pod."""
    pod_uid: str = msgspec.field(name="podUID")
    """The uid of the pod: another one of its name has nothing to do with this."""
    pre: HookCommand | UnsetType = UNSET
    """Run before the cut."""
    post: HookCommand | UnsetType = UNSET
    """Run after it."""
    max_freeze_seconds: int
    """The longest time between the two, in seconds."""
    claim: Annotated[str, _OPTIONAL_NAME] = ""
    """Of the preset: the claim whose file system is frozen. A freeze outlives its pod: it is thawed in another one that mounts
    the claim, then. Empty: commands of the pod's own, of which there is nothing left when it is gone."""
    holders: Annotated[tuple[HookHolder, ...], ATOMIC, _MOST] = ()
    """For whom it is: snapshots and groups of them that are not cut yet. When none is left, the post command runs."""


class HookOutcome(Value):
    """How a command did."""

    started_at: Annotated[str, _TIME] = ""
    """When it was about to be run. Without an end, nobody knows how it did."""
    ended_at: Annotated[str, _TIME] = ""
    """When it had ended, or was given up."""
    attempts: int = 0
    """How often it was tried."""
    answered: int = 0
    """How many of the attempts are known to have run in the pod. Others could not be delivered, or nobody knows how they ended:
    they are no reason to give up."""
    delivery: Delivery = ""
    """What is known of the last attempt. Ended: it has said its exit code. GivenUp: it ran, and printed more than is read.
    Unknown: it may have run. Refused: nothing ran."""
    pod: str = ""
    """The pod of another name or uid that it is run in, because its own is gone. Empty: its own."""
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
    gone_since: Annotated[str, _TIME] = ""
    """Since when the pod is gone in which something may have to be undone: another one is looked for."""
    reason: str = ""
    """Why nothing is to be cut, or why it ended: `HookFailed`, `Interrupted`, `TimedOut`, `PodGone` (or it is being deleted),
    `Finished`."""


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
