"""Lets another snapshotter make a snapshot's record first, where there may be one.

The GA snapshot-controller makes records for the snapshots of every CSI driver. Where it makes one a moment after we did, it is
refused, keeps its own copy all the same and does not see the real one change until it is started anew: it takes the error off
the snapshot as often as it is put there. So for a while nothing is made here, until it has turned out that nobody else does.
It is memory only: a process that starts anew waits once.
"""

from __future__ import annotations

from typing import Final

FOR_OTHERS: Final = 2.0  # seconds: the other one makes a record within milliseconds of seeing the snapshot


class OtherSnapshotter:
    def __init__(self, seconds: float = FOR_OTHERS) -> None:
        self._seconds = seconds
        self._expected = seconds > 0
        self._until: dict[str, float] = {}  # by the uid of a snapshot

    def wait(self, uid: str, now: float) -> float:
        """Seconds that are left to the other one for this snapshot; 0: it is ours to make."""
        if not self._expected:
            return 0.0
        return max(0.0, self._until.setdefault(uid, now + self._seconds) - now)

    def was_there(self) -> None:
        """A record was seen that we did not make."""
        self._expected = self._seconds > 0

    def was_not_there(self, uid: str) -> None:
        """We have made the record of a snapshot: if that was left to the other one first, there is none."""
        if self._until.pop(uid, None) is not None:
            self._expected = False

    def forget(self, uid: str) -> None:
        self._until.pop(uid, None)
