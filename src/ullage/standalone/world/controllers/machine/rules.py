"""A Machine: what machine-controller would do with it next. There is no server: it takes a moment to become a Node, and a
moment to go. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from ullage.kube.objects import is_deleting
from ullage.projects.api.machines import Machine
from ullage.times import read_time

FINALIZER: Final = "machine-delete-finalizer"  # of machine-controller: the server is deleted before the Machine goes

Step = Literal["hold", "join", "release", "wait"]


@dataclass(frozen=True, slots=True)
class Moments:
    """How long things take, in seconds."""

    boot: float = 2.0  # from the Machine to its Node
    removal: float = 1.0  # of a server


@dataclass(frozen=True, slots=True)
class MachinePlan:
    """`hold`: put the finalizer on; `join`: it is a Node now; `release`: its server is gone. `after` seconds if none yet."""

    step: Step
    after: float | None = None


AT_REST: Final = MachinePlan("wait")


def plan_machine(machine: Machine, *, now: datetime, moments: Moments) -> MachinePlan:
    meta = machine.metadata
    held = FINALIZER in meta.finalizers
    if is_deleting(meta):
        return _when("release", meta.deletion_timestamp or "", moments.removal, now=now) if held else AT_REST
    if not held:
        return MachinePlan("hold")
    if machine.status.node_ref is not None:
        return AT_REST
    return _when("join", meta.creation_timestamp or "", moments.boot, now=now)


def _when(step: Step, since: str, seconds: float, *, now: datetime) -> MachinePlan:
    """A time that cannot be read, or is yet to come, is no reason to wait for ever."""
    began = read_time(since)
    left = seconds - (now - began).total_seconds() if began is not None else 0.0
    return MachinePlan(step) if left <= 0 else MachinePlan("wait", min(left, seconds))
