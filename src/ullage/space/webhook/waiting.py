"""Has the ledger of a namespace limit how many snapshots wait there for claims that have no volume.

Most namespaces have none of those, and need no ledger for it: it is made, or gets this limit, once a tenth as many are there as
may be, or were let pass by this process: its cache may be behind. Those that are created in the moment until then are counted
in it, too. From then on the ledger alone decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ullage.clock import Clock
from ullage.kube.kinds import Kind, Object
from ullage.kube.review import Review
from ullage.ledger.charging.registry import Registry
from ullage.ledger.charging.waiting import ACCOUNT, PLACE, waits
from ullage.ledger.keys import ledger_name
from ullage.ledger.service.limits import LimitsApi, set_limits
from ullage.quantity import Quantity

PART: Final = 10  # of the limit, from which on there is a ledger that has it
BEHIND: Final = 60.0  # seconds by which a cache may be behind
MOST_NAMESPACES: Final = 10_000  # that are remembered with what was let pass


@dataclass(slots=True)
class _Passed:
    """Snapshots that this process let pass, while there is no limit. Deleted ones are among them: it only comes earlier."""

    since: float
    count: int = 0


class WaitingLimit:
    def __init__(self, client: LimitsApi, registry: Registry, *, most: int, clock: Clock) -> None:
        self._client = client
        self._registry = registry
        self._most = most
        self._clock = clock
        self._passed: dict[str, _Passed] = {}  # by ledger

    async def uphold(self, review: Review, kind: Kind[Object]) -> None:
        """Before a new snapshot is booked. One whose claim has a volume costs no look."""
        if review.dry_run or not waits(review.object(kind).metadata):
            return
        ledger = ledger_name(review.namespace)
        limit = Quantity.of(self._most)
        if self._registry.is_limited(ledger, PLACE, to=str(limit)):
            self._passed.pop(ledger, None)
            return
        passed = self._of(ledger)
        there = max(self._registry.counted(ledger)[PLACE].value(), passed.count)
        if self._registry.is_limited(ledger, PLACE) or there * PART >= self._most:
            await set_limits(self._client, ledger, {PLACE: limit}, about=ACCOUNT)
            return
        passed.count += 1

    def _of(self, ledger: str) -> _Passed:
        now, found = self._clock.monotonic(), self._passed.get(ledger)
        if found is None or now - found.since > BEHIND:
            if len(self._passed) >= MOST_NAMESPACES:
                self._passed.clear()
            found = self._passed[ledger] = _Passed(now)
        return found
