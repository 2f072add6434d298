"""What happens between the decision to take a snapshot and the call to its driver: it is measured, and paid for.

What it was stamped with when it was admitted is an estimate, and its volume may have grown since. Here the storage system is
asked what the snapshot would take now, and the stamp is brought up or down to that: the webhook books it, or refuses. All this
is before the mark: a record without one stands for nothing in the storage system, so its stamp may fall as well, and a refusal
leaves nothing behind. A record with a mark may be cut already, for what is booked: that is never lowered.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, NamedTuple

from ullage.clock import Clock
from ullage.errors import Retryable, Terminal
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import patch_seen
from ullage.kube.controller.controller import Requeue
from ullage.kube.kinds import Meta
from ullage.ledger.charging.booking import book, give_back, payer
from ullage.ledger.charging.methods import ALLOCATED_BLOCKS, CAPACITY, LAST_SNAPSHOT, RESTORE_SIZE
from ullage.ledger.charging.raising import NoRoom
from ullage.ledger.charging.stamps import ESTIMATED_BY
from ullage.snapshots.backends.base import Backend, BackendSnapshot, Creation, VolumeHandle
from ullage.snapshots.gate import AGAIN, FRESH, Gate, gate_of, pays_for_itself, refused, written
from ullage.snapshots.lookup import SnapshotLookup
from ullage.snapshots.model import ESTIMATE, Record
from ullage.snapshots.source_volume import source_claim_of
from ullage.snapshots.used import estimated_by
from ullage.snapshots.volume_queue import RecordKey
from ullage.times import read_time

SOON: Final = 0.1  # seconds: the caches will show it
SIZE_SECONDS: Final = 2.0  # the size of what was just cut is waited for no longer
FRESH_SECONDS: Final = FRESH.total_seconds()
REMEMBERED: Final = 20  # times as long as a measurement took, it is not repeated while a copy is being made


class _Measured(NamedTuple):
    uid: str  # of the record: another one may have its name by now
    until: float  # on the monotonic clock: so long that will do


class BeforeCut:
    """`books`: this process has an identity of ours, whose stamps the webhook accepts."""

    def __init__(self, client: Client, *, clock: Clock, books: bool) -> None:
        self._client = client
        self._clock = clock
        self.books = books
        self._measured: dict[RecordKey, _Measured] = {}

    def gate(self, record: Record, snapshot: Any) -> Gate | None:
        return gate_of(snapshot.metadata, record.meta, books=self.books)

    def forget(self, key: RecordKey) -> None:
        """It is cut, or gone: it is not measured again."""
        self._measured.pop(key, None)

    async def ready(self, lookup: SnapshotLookup, obj: Any, snapshot: Any, backend: Backend) -> bool:
        """Whether the driver may be asked for the snapshot now: what it takes is booked. NoRoom where it does not fit."""
        record = lookup.dialect.read_record(obj)
        gate = self.gate(record, snapshot)
        if gate is not None:
            return await self._told(lookup, obj, gate, backend)
        stamp = payer(snapshot.metadata)
        if stamp is None or (record.begun and self._was_measured(lookup, record)):
            return True
        known = await self._measure(lookup, record, backend)
        amount, by = _unmeasured(record, snapshot.metadata) if known is None else (known, estimated_by(record.driver, known))
        also = {ESTIMATED_BY: by}
        found = await book(self._client, lookup.dialect.snapshots, snapshot, amount, lower=not record.begun, also=also)
        return found is not None

    async def publish(self, lookup: SnapshotLookup, obj: Any, snapshot: Any, backend: Backend) -> tuple[Any, Requeue | None]:
        """Writes down what the snapshot would take, for whoever books it, and waits for the word: NoRoom or CutRefused if that
        is no. None: there is nothing to wait for, since nobody can tell, and what was admitted stays."""
        record = lookup.dialect.read_record(obj)
        gate = self.gate(record, snapshot)
        if gate is None or gate.open:
            return obj, Requeue(SOON)  # the word has just come
        if gate.refusal:
            raise refused(gate.refusal)
        since = read_time(record.meta.creation_timestamp)
        wait = gate.measure_after(self._clock.now(), since)
        if not wait:
            known, stamp = await self._measure(lookup, record, backend), payer(snapshot.metadata)
            if known is None and not gate.group and stamp is not None and stamp.takes:
                return obj, None
            amount, by = (
                _unmeasured(record, snapshot.metadata) if known is None else (known, estimated_by(record.driver, known))
            )
            obj, wait = await self._publish(lookup, obj, gate, amount, by=by), AGAIN.total_seconds()
        return obj, Requeue(wait)

    async def pay_for_cut(
        self, lookup: SnapshotLookup, snapshot: Any, backend: Backend, made: BackendSnapshot, creation: Creation
    ) -> int | None:
        """Has a snapshot that pays for itself pay for what is really in it, before its handle is written down. What does not
        fit is taken away again: NoRoom, of which a group or its hooks hear as of any other failure. Where the size cannot be
        told now, it is booked later, past the limit. Returns the bytes of one that was estimated by the last one, if told."""
        if snapshot is None or not self.books or payer(snapshot.metadata) is None:
            return None
        method = snapshot.metadata.annotations.get(ESTIMATED_BY)
        if method == CAPACITY:
            return None  # it is paid for whole, and to ask a driver for its blocks twice is dear
        size = await self._size(backend, made, creation)
        weighed, also = None, None
        if method == LAST_SNAPSHOT:  # nothing was measured before the cut, so a bound is better than what was booked
            weighed, also = size, {ESTIMATED_BY: RESTORE_SIZE if size is None else ALLOCATED_BLOCKS}
            size = made.restore_size if size is None else size
        try:
            if size is not None:
                await book(self._client, lookup.dialect.snapshots, snapshot, size, lower=False, also=also)
        except NoRoom:
            await backend.undo(creation)
            raise
        return weighed

    async def is_booked(
        self, lookup: SnapshotLookup, obj: Any, snapshot: Any, backend: Backend, made: BackendSnapshot, creation: Creation
    ) -> bool:
        """Whether what was just cut may be told as ready. A snapshot that another process books (a member of a backup, one that
        a sidecar takes) may be larger than the estimate that was booked: then its size is the next estimate, and it waits for
        the word about that, as it did before it was cut. A refusal undoes it, and its backup fails as a whole."""
        gate = self.gate(lookup.dialect.read_record(obj), snapshot) if snapshot is not None else None
        if gate is None or gate.estimate is None or gate.estimate.by in (CAPACITY, LAST_SNAPSHOT):
            return True
        if self.books and pays_for_itself(snapshot.metadata):
            return True  # `pay_for_cut` books it
        size = await self._size(backend, made, creation)
        if size is None or size <= gate.estimate.bytes:
            return True
        await self._publish(lookup, obj, gate, size, by=gate.estimate.by)
        return False

    async def _size(self, backend: Backend, made: BackendSnapshot, creation: Creation) -> int | None:
        """Bytes of what was just cut; None where that cannot be told now."""
        try:
            async with asyncio.timeout(SIZE_SECONDS):
                return await backend.size(made.handle, secrets=creation.secrets)
        except (Retryable, Terminal, TimeoutError):
            return None

    async def give_back(self, lookup: SnapshotLookup, record: Record) -> None:
        """Nothing was made, and only an edit can help: until then it takes nothing."""
        seen = await self._client.find(lookup.dialect.snapshots, record.ref.name, record.ref.namespace)
        if self.books and seen is not None and seen.metadata.uid == record.ref.uid:
            await give_back(self._client, lookup.dialect.snapshots, seen)

    async def _told(self, lookup: SnapshotLookup, obj: Any, gate: Gate, backend: Backend) -> bool:
        """The word has come; but the estimate that it is about may be too old by now."""
        record = lookup.dialect.read_record(obj)
        if gate.estimate is None or not gate.open:
            return False
        if gate.estimate.is_fresh(self._clock.now()):
            return True
        amount = await self._measure(lookup, record, backend)
        if amount is None or amount <= gate.estimate.bytes:
            return True
        await self._publish(lookup, obj, gate, amount, by=estimated_by(record.driver, amount))
        return False

    async def _publish(self, lookup: SnapshotLookup, obj: Any, gate: Gate, amount: int, *, by: str) -> Any:
        record = lookup.dialect.read_record(obj)
        if record.begun and gate.estimate is not None:
            amount = max(amount, gate.estimate.bytes)
        text = written(amount, self._clock.now(), group=gate.group, by=by)
        merge = {"metadata": {"annotations": {ESTIMATE: text}}}
        return await patch_seen(self._client, lookup.dialect.records, obj, merge)

    def _was_measured(self, lookup: SnapshotLookup, record: Record) -> bool:
        found = self._measured.get(RecordKey(lookup.dialect.name, record.meta.name))
        return found is not None and found.uid == record.meta.uid and found.until > self._clock.monotonic()

    async def _measure(self, lookup: SnapshotLookup, record: Record, backend: Backend) -> int | None:
        began = self._clock.monotonic()
        amount = await backend.estimate(VolumeHandle(handle=record.volume, node=record.node), owner=record.ref.namespace)
        ended = self._clock.monotonic()
        until = ended + max(FRESH_SECONDS, REMEMBERED * (ended - began))
        self._measured[RecordKey(lookup.dialect.name, record.meta.name)] = _Measured(record.meta.uid, until)
        return amount


def _unmeasured(record: Record, snapshot: Meta) -> tuple[int, str]:
    """Bytes, and how they are known. Where the storage system does not tell, what is booked stays. One that has failed before,
    and so has nothing booked, and one that another pays for, cost what their claim has room for."""
    stamp, claim = payer(snapshot), source_claim_of(record.meta)
    booked = max((quantity.value() for quantity in stamp.cells.values()), default=0) if stamp is not None else 0
    if booked and snapshot.annotations.get(ESTIMATED_BY) == LAST_SNAPSHOT:
        return booked, LAST_SNAPSHOT
    return booked or (claim.size if claim is not None else None) or 0, CAPACITY
