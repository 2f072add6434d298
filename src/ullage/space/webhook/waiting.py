"""Has the ledger of a namespace limit how many snapshots wait there for claims that have no volume.

Most namespaces have none of those, and need no ledger for it: it is made, or gets this limit, once a tenth as many are there as
may be, or were let pass by this process: its cache may be behind. Those that are created in the moment until then are counted
in it, too. From then on the ledger alone decides.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from ullage.kube.kinds import Kind, Object
from ullage.kube.review import Review
from ullage.ledger.charging.registry import Registry
from ullage.ledger.charging.waiting import ACCOUNT, PLACE, waits
from ullage.ledger.keys import ledger_name
from ullage.ledger.service.limits import LimitsApi, set_limits
from ullage.quantity import Quantity

PART: Final = 10  # of the limit, from which on there is a ledger that has it
MOST_NAMESPACES: Final = 10_000  # that are remembered with what was let pass


class WaitingLimit:
    def __init__(self, client: LimitsApi, registry: Registry, *, most: int) -> None:
        self._client = client
        self._registry = registry
        self._most = most
        self._passed: Counter[str] = Counter()  # by ledger, while it has no limit: deleted ones too, so it only comes earlier

    async def uphold(self, review: Review, kind: Kind[Object]) -> None:
        """Before a new snapshot is booked. One whose claim has a volume costs no look."""
        if review.dry_run or not waits(review.object(kind).metadata):
            return
        ledger = ledger_name(review.namespace)
        limit = Quantity.of(self._most)
        if self._registry.is_limited(ledger, PLACE, to=str(limit)):
            self._passed.pop(ledger, None)
            return
        there = max(self._registry.counted(ledger)[PLACE].value(), self._passed[ledger])
        if self._registry.is_limited(ledger, PLACE) or there * PART >= self._most:
            await set_limits(self._client, ledger, {PLACE: limit}, about=ACCOUNT)
            return
        if len(self._passed) >= MOST_NAMESPACES:
            self._passed.clear()
        self._passed[ledger] += 1
