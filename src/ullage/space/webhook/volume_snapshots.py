"""VolumeSnapshots, of both APIs: each pays for itself, in its own namespace, whichever driver and whoever serves it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ullage.engines.api import ENGINE_SNAPSHOTS
from ullage.engines.handles import DRIVER, SnapshotHandle
from ullage.engines.handles import NAMESPACE as ENGINE_NAMESPACE
from ullage.kube.client.interface import Finder
from ullage.kube.identities import is_own
from ullage.kube.objects import is_deleting
from ullage.kube.review import Review
from ullage.ledger.charging.stamps import STAMP, Marks
from ullage.names import is_subdomain
from ullage.snapshots.model import SHARED_BY, Dialect, Record, Snapshot
from ullage.space import estimates
from ullage.space.lookup import SpaceLookup
from ullage.space.webhook.payment import PAID_ELSEWHERE, Payment, next_step, pays


class VolumeSnapshots:
    """See `charging.Terms`."""

    def __init__(
        self,
        dialect: Dialect[Any, Any],
        client: Finder,
        lookup: SpaceLookup,
        payment: Payment,
        *,
        is_member: Callable[[Review, Snapshot], Awaitable[bool]] | None = None,
    ) -> None:
        """`is_member` tells of a new one whether a backup pays for it; without it, none does."""
        self._dialect = dialect
        self._is_member = is_member
        self._client = client
        self._lookup = lookup
        self._payment = payment

    async def fresh(self, review: Review) -> Marks:
        asked = self._read(review)
        if asked.imported_record:
            return await self._imported(asked, review.namespace)
        if self._is_member is not None and await self._is_member(review, asked):
            return PAID_ELSEWHERE
        facts = await self._lookup.of_claim(review.namespace, asked.claim)
        waits = facts.volume is None  # also a claim that is not bound: it may never be
        return self._payment.marks(estimates.new_snapshot(facts), review.namespace, asked.claim, waits=waits)

    async def happened(self, review: Review) -> bool:
        """Whether it is cut. Its record tells, which belongs to administrators: its own status may be anybody's writing."""
        old = review.old(self._dialect.snapshots)
        if old is None:
            return False
        if is_deleting(old.metadata) or STAMP not in old.metadata.annotations:
            return True
        snapshot = self._dialect.read_snapshot(old)
        if snapshot.imported_record:
            return True
        record = await self._record(self._dialect.record_name(snapshot))
        return record is not None and record.ref.uid == old.metadata.uid and record.is_cut

    def trusts(self, review: Review) -> bool:
        return is_own(review)

    async def shares(self, review: Review, amount: int) -> Mapping[str, int]:
        return dict.fromkeys(self._payment.payers(review.namespace, self._read(review).claim), amount)

    def next_step(self, review: Review) -> str:
        engine = self._lookup.engine_of_claim(review.namespace, self._read(review).claim)
        return next_step(review, review.namespace, engines=(engine,))

    def _read(self, review: Review) -> Snapshot:
        return self._dialect.read_snapshot(review.object(self._dialect.snapshots))

    async def _imported(self, asked: Snapshot, namespace: str) -> Marks:
        """It exists. Where somebody pays for it already, who imports it does not pay again; but who was given it does, beside
        the one that it is from."""
        record = await self._record(asked.imported_record)
        if record is None:
            return self._payment.marks(estimates.imported(None, None), namespace, "", waits=True)
        if pays(record.meta) or await self._is_anothers(record, asked, namespace):
            return PAID_ELSEWHERE
        handle = SnapshotHandle.parse(record.handle) if record.driver == DRIVER else None
        if handle is not None and is_subdomain(handle.snapshot) and SHARED_BY not in record.meta.annotations:
            there = await self._client.find(ENGINE_SNAPSHOTS, handle.snapshot, ENGINE_NAMESPACE)
            if there is not None and there.spec.volume == handle.volume and pays(there.metadata):
                return PAID_ELSEWHERE
        engine = self._lookup.engine_of(handle.volume) if handle is not None else None
        return self._payment.marks(estimates.imported(record, engine), namespace, "")

    async def _is_anothers(self, record: Record, asked: Snapshot, namespace: str) -> bool:
        """Whether it is bound to another snapshot, which is there: that one pays."""
        ref = record.ref
        if not ref.uid or not is_subdomain(ref.name) or (ref.namespace, ref.name) == (namespace, asked.meta.name):
            return False
        found = await self._client.find(self._dialect.snapshots, ref.name, ref.namespace)
        return found is not None and found.metadata.uid == ref.uid

    async def _record(self, name: str) -> Record | None:
        found = await self._client.find(self._dialect.records, name) if is_subdomain(name) else None
        return self._dialect.read_record(found) if found is not None else None
