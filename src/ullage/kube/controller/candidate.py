"""Who may lead, as pure transitions: what one candidate knows of a Lease, and what follows from it.

The promise: at no moment do two candidates both find `leads` true. It rests on three rules and on no clock but each
candidate's own, which only has to run at the same rate as the others':

- A leader counts its time from the moment *before* it asked for it, and stops `renew_within` after that.
- A candidate takes over only when it has itself known the record unchanged for the whole `duration`, counted from the moment
  the record reached it; what the record says about times is for people.
- Every write carries the version that was read, so a record that was not seen is never replaced.

The record reaches a candidate after it was written, and it was written after the leader asked; `duration` is longer than
`renew_within`; so the old leader has stopped before the new one can begin. The difference also pays for clocks that run at
slightly different rates. The one way around this is a person who deletes the Lease: whoever finds none makes one at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds. The defaults are those of the Kubernetes components."""

    duration: float = 15.0  # how long a silent leader is left alone; written into the record rounded up
    renew_within: float = 10.0  # how long a leader acts after the last renewal that succeeded was begun
    retry: float = 2.0  # between renewals of a leader, and between looks of a candidate
    release_within: float = 1.0  # on the way out: whoever waits longer for an API that is away may not end in time

    def __post_init__(self) -> None:
        if not 0 < self.retry < self.renew_within < self.duration:
            raise ValueError(
                f"0 < retry ({self.retry}) < renew_within ({self.renew_within}) < duration ({self.duration}) must hold"
            )


@dataclass(frozen=True, slots=True)
class Record:
    """A Lease as it was read."""

    version: str  # its resourceVersion: the same version is the same record
    uid: str = ""
    holder: str = ""
    duration: float = 0.0
    transitions: int = 0


@dataclass(frozen=True, slots=True)
class AcquireLease:
    """Write ourselves in: onto the record of this version, or as a new Lease where there is none."""

    onto: Record | None
    transitions: int
    anew: bool  # a new tenure: when it was acquired is written too


@dataclass(frozen=True, slots=True)
class Wait:
    """Look again after so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Candidate:
    """What one candidate knows. Every `now` and `began` is on its own clock."""

    identity: str
    timing: Timing
    record: Record | None = None
    seen: float = 0.0  # when the record was first known as it is
    deadline: float | None = None  # leading until then

    def leads(self, now: float) -> bool:
        return self.deadline is not None and now < self.deadline

    def see(self, record: Record | None, *, now: float) -> Candidate:
        """An answer to a read arrived. To find somebody else in the record, or no record, ends a tenure at once."""
        known = (
            self.record is not None
            and record is not None
            and (self.record.version, self.record.uid) == (record.version, record.uid)
        )
        ours = record is not None and record.holder == self.identity
        return replace(self, record=record, seen=self.seen if known else now, deadline=self.deadline if ours else None)

    def wish(self, now: float) -> AcquireLease | Wait:
        record = self.record
        if record is None:
            return AcquireLease(None, transitions=0, anew=True)
        if record.holder == self.identity:  # a renewal, or a claim of ours whose answer was lost
            return AcquireLease(record, transitions=record.transitions, anew=not self.leads(now))
        if record.holder:
            left = self.seen + max(self.timing.duration, record.duration) - now
            if left > 0:
                return Wait(min(self.timing.retry, left))
        return AcquireLease(record, transitions=record.transitions + 1, anew=True)

    def won(self, record: Record, *, began: float, now: float) -> Candidate:
        """A claim that was sent at `began` was confirmed, with the record as it is now."""
        return replace(self, record=record, seen=now, deadline=began + self.timing.renew_within)

    def step_down(self) -> Candidate:
        return replace(self, deadline=None)
