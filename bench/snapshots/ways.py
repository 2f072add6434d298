"""The snapshotters that are compared, and the claims that the snapshots are of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.e2e.snapshotters import Snapshotters

TUNED: Final = ("--kube-api-qps=50", "--kube-api-burst=100", "--worker-threads=10")
DEFAULTS_UP_TO: Final = 100  # snapshots: at 5 requests a second more of them take longer than anybody waits


@dataclass(frozen=True, slots=True)
class Way:
    """One snapshotter, as it is started. `most` is how many snapshots it is asked for at most."""

    name: str
    start: Callable[[Snapshotters, Path], None]  # given where the GA programs are
    most: int | None = None


THEIRS: Final = Way("(a) GA, defaults", lambda people, programs: people.start_theirs(programs), most=DEFAULTS_UP_TO)
TUNED_ONES: Final = Way("(b) GA, 50/100 QPS", lambda people, programs: people.start_theirs(programs, *TUNED))
OURS: Final = Way("(c) ours", lambda people, programs: people.start_ours())
OURS_APART: Final = Way("(d) ours, sidecar", lambda people, programs: people.start_ours_apart())
OURS_CHARGED: Final = Way("(e) ours, webhook", lambda people, programs: _charged(people))
PEERS: Final = frozenset("ab")  # the ways that need the programs of the GA snapshotter
WAYS: Final = {"a": THEIRS, "b": TUNED_ONES, "c": OURS, "d": OURS_APART, "e": OURS_CHARGED}


def _charged(people: Snapshotters) -> None:
    """As `ullage install` has it. Without the webhook what is new is not stamped, which the controller then does."""
    people.start_webhook()
    people.start_ours()


@dataclass(frozen=True, slots=True)
class Load:
    """So many snapshots, of so many claims in turn."""

    snapshots: int
    claims: int

    @property
    def name(self) -> str:
        return f"{self.snapshots:,} snapshots of {self.claims} claim{'s' if self.claims > 1 else ''}"
