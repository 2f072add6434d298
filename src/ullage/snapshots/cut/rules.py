"""The members of a VM backup or a group snapshot, and what is decided about all of them together. Pure.

    created, held ──▶ all measured ──▶ booked by the payer ──▶ all told ──▶ cut ──▶ stored
          │                │                   │                  │          │
          └────────────────┴───────────────────┴──────────────────┴──────────┴──▶ failed: all are deleted

A member is known by its name and its owner together. What somebody puts in its place, under the same name and with a forged
owner, never carries the word that lets a snapshot be cut, since Ullage alone writes that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeVar

from ullage.kube.kinds import Meta, OwnerReference
from ullage.kube.objects import is_deleting, is_owned_by
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.ga.types import SnapshotSource, SnapshotSpec, VolumeSnapshot
from ullage.snapshots.gate import Estimate, Gate
from ullage.snapshots.model import CUT, GO, HOLD, LOST, Problem, Record, Snapshot

MISSING: Final = "SnapshotMissing"


@dataclass(frozen=True, slots=True)
class Whole:
    """What members are cut for, in the words of its messages."""

    noun: str  # such as `backup`
    parts: str  # such as `volumes`
    awaited: frozenset[str]  # reasons of problems that may pass by themselves: it waits for nobody who edits a class

    def final(self, problem: Problem | None) -> Problem | None:
        """The problem, unless it may pass by itself."""
        return None if problem is None or problem.reason in self.awaited else problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One volume of a whole. `snapshot` is what is there under the member's name, whoever made it."""

    whole: Whole
    name: str  # of the VolumeSnapshot
    claim: str
    owner: str  # the uid of the whole
    snapshot: Snapshot | None = None
    seen: VolumeSnapshot | None = None  # the same as the API has it, for writes on condition that it has not changed
    record: Record | None = None
    estimate: Estimate | None = None  # what the snapshot would take, as the worker has written it on its record
    fresh: bool = False  # that was seen a few seconds ago at most

    @property
    def label(self) -> str:
        """For people."""
        return f"claim {self.claim}"

    @property
    def mine(self) -> bool:
        """Whether what is there was made for this whole and this claim."""
        found = self.snapshot
        return found is not None and is_owned_by(found.meta, self.owner) and found.claim == self.claim

    @property
    def going(self) -> bool:
        return self.snapshot is not None and is_deleting(self.snapshot.meta)

    @property
    def word(self) -> str:
        return self.snapshot.meta.annotations.get(CUT, "") if self.snapshot is not None else ""

    @property
    def told(self) -> bool:
        """Whether it was told to be cut, once."""
        return self.word.startswith(GO)

    @property
    def released(self) -> bool:
        """Whether it may be cut with what it would take by its last estimate."""
        return Gate(group=True, word=self.word, estimate=self.estimate).open

    @property
    def cut(self) -> bool:
        """Whether its data has a moment."""
        return self.snapshot is not None and self.snapshot.state.cut is not None

    @property
    def ready(self) -> bool:
        """Whether a volume can be made from it."""
        return self.snapshot is not None and self.snapshot.state.ready

    @property
    def problem(self) -> Problem | None:
        return self.snapshot.state.problem if self.snapshot is not None else None

    @property
    def lost(self) -> bool:
        return self.problem is not None and self.problem.reason == LOST

    @property
    def failure(self) -> Problem | None:
        """Why it will never be there, before the whole was complete."""
        if self.snapshot is None:
            return None
        name, noun = f"VolumeSnapshot {self.name}", self.whole.noun
        if not self.mine:
            return Problem("SnapshotNameTaken", f"{name} exists already, and was not made for this {noun}")
        if self.going:
            return Problem("SnapshotDeleted", f"{name} was deleted before the {noun} was complete")
        return self.defect

    @property
    def defect(self) -> Problem | None:
        """What is wrong for good with a member that was made for this whole and is to stay."""
        return self.whole.final(self.problem)

    def record_name(self, snapshot: Snapshot) -> str:
        """The record that has the estimate. It follows from the uid: a user may be able to write what the status names."""
        return GA.record_name(snapshot)


M = TypeVar("M", bound=Member)


def new_member(member: Member, namespace: str, *, owner: OwnerReference, finalizers: tuple[str, ...] = ()) -> VolumeSnapshot:
    """Held: nothing is cut until all of them are ready."""
    return VolumeSnapshot(
        metadata=Meta(
            name=member.name,
            namespace=namespace,
            annotations={CUT: HOLD},
            finalizers=finalizers,
            owner_references=(owner,),
        ),
        spec=SnapshotSpec(source=SnapshotSource(persistent_volume_claim_name=member.claim)),
    )


# --- the gate --------------------------------------------------------------------------------------------------------


def missing(members: Iterable[M]) -> tuple[M, ...]:
    """The members that are to be created."""
    return tuple(one for one in members if one.snapshot is None)


def waiting(members: Iterable[M]) -> tuple[M, ...]:
    """The members that are still to be told: neither cut, nor told about their last estimate."""
    return tuple(one for one in members if not one.cut and not one.released)


def all_measured(members: Iterable[Member]) -> bool:
    """Whether what each would take is known, and so new that it can be booked: then all may be told."""
    return all(one.estimate is not None and one.fresh for one in members)


# --- failure and undo ------------------------------------------------------------------------------------------------


def failure_of(members: Sequence[M], fails: Callable[[M], Problem | None]) -> Problem | None:
    """The problem that is final for the whole: of the first member that has failed, with the number of the others. `fails` is
    asked about members that have not failed by themselves."""
    found = [(one, problem) for one in members if (problem := one.failure or fails(one))]
    if not found:
        return None
    member, problem = found[0]
    more = f"; {len(found) - 1} more of its {len(members)} {member.whole.parts} failed, too" if len(found) > 1 else ""
    return Problem(problem.reason, f"{member.label}: {problem.message}{more}")


def gone(member: Member, *, cutting: bool) -> Problem | None:
    """A member that was not told yet is simply made again. One that was has a moment that does not come back."""
    if cutting and member.snapshot is None:
        return Problem(MISSING, f"VolumeSnapshot {member.name} is gone, and the others may be cut already")
    return None


def undone(members: Iterable[M]) -> tuple[M, ...]:
    """The members that are deleted when the whole has failed. What was made by others stays."""
    return tuple(one for one in members if one.mine)


# --- afterwards ------------------------------------------------------------------------------------------------------


def damage(broken: Sequence[Member], *, otherwise: str) -> Problem:
    """What has become of a whole that was complete. `broken` are its members that cannot be used, one at least; `otherwise`
    says what is wrong with one whose data is not lost."""
    first, more = broken[0], f"; {len(broken) - 1} more are like it" if len(broken) > 1 else ""
    reason, what = (LOST, "has lost its data") if first.lost else (MISSING, otherwise)
    return Problem(reason, f"{first.label}: VolumeSnapshot {first.name} {what}{more}")


def apart(moments: Sequence[datetime]) -> timedelta:
    """How long it took from the first cut to the last."""
    return max(moments) - min(moments) if moments else timedelta(0)
