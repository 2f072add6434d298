"""What every way to restore in place can do: `prepare`, `switch`, then `settle`, or `undo` and `settle`; or `abandon`.

Every step may be repeated, by this process or by the next one after a crash, and goes on from wherever an earlier one ended.
Errors say what is known, as in `snapshots.backends.base`: InProgress, NotNow, Impossible. What is known is more than what this
call has done: an earlier one may have come through, in a process that was killed before it could say so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from ullage.kube.cache.indexer import Key
from ullage.policies.restores.api import EarlierClaim, SnapshotRestore
from ullage.policies.restores.model import RestoreJob

# Asks the API whether a pod uses the claim, and raises ClaimInUse: called right before data changes.
Unused = Callable[[], Awaitable[None]]


class RestoreMethod(Protocol):
    @property
    def name(self) -> str:
        """As the status has it."""

    async def prepare(self, job: RestoreJob) -> None:
        """Makes the snapshot's data ready. The claim and its data are as they were."""

    async def remembered(self, job: RestoreJob) -> EarlierClaim | None:
        """What has to be known of the claim once it is not there: written down before `switch`."""

    async def switch(self, job: RestoreJob, unused: Unused) -> str:
        """The claim has the snapshot's data afterwards, and what it had before is kept. Gives the claim's uid.

        ClaimInUse and Impossible end it, and what is kept is deleted then. So they are raised only where it was seen that the
        claim has what it had (or is gone), never where nobody could look: that is Uncertain or NotNow."""

    async def undo(self, job: RestoreJob, unused: Unused) -> str:
        """The claim has what it had before. Gives the claim's uid. Impossible: that is known not to be there any more."""

    async def settle(self, restore: SnapshotRestore) -> None:
        """Nothing is kept any more beside what the claim has."""

    async def abandon(self, restore: SnapshotRestore) -> None:
        """Nothing is left of what was made ready. The claim was never changed."""

    async def forget(self, key: Key, *, uid: str) -> None:
        """Nothing is kept for restores of this name but the one with this uid: they are gone, though they were to be held."""
