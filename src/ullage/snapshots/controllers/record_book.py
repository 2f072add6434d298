"""Answers sidecars that have measured a snapshot and wait until it is paid for: `booked@`, or `no@` with the numbers.

A sidecar runs in other people's pods, under their identities, so nobody believes what it would write on a snapshot. It writes
on its record what it has measured, and this controller, whose stamps the webhook accepts, does the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from typing import Any, NamedTuple

from ullage.clock import Clock, SystemClock
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import patch_seen
from ullage.kube.controller.controller import Controller, Source
from ullage.kube.metrics import Metrics as KubeMetrics
from ullage.kube.objects import is_deleting
from ullage.ledger.charging.booking import book, payer
from ullage.ledger.charging.raising import NoRoom
from ullage.ledger.charging.stamps import ESTIMATED_BY
from ullage.snapshots.binding import refers_to
from ullage.snapshots.gate import estimate_of, gate_of
from ullage.snapshots.lookup import SnapshotLookup
from ullage.snapshots.model import ASKED_AGAIN, BOOKED, CUT, NO, Record, Snapshot
from ullage.snapshots.settings import Settings

# What is to be done about the stamp of a snapshot that a sidecar takes.


class Booking(Enum):
    """What is done next about a stamp."""

    REST = auto()
    BOOK = auto()  # what the sidecar has measured; or say that it does not fit
    GIVE_BACK = auto()  # nothing was made, and only an edit can help: until then it takes nothing


def plan_booking(record: Record, snapshot: Snapshot | None) -> Booking:
    """A group is booked by whoever holds it. Once a snapshot is cut, its stamp follows what it really takes: not here."""
    if snapshot is None or not refers_to(record, snapshot) or is_deleting(snapshot.meta) or is_deleting(record.meta):
        return Booking.REST
    stamp = payer(snapshot.meta) if not record.handle else None
    gate = gate_of(snapshot.meta, record.meta, books=False) if stamp is not None else None
    if stamp is None or gate is None or gate.group:
        return Booking.REST
    if gate.estimate is not None:
        return Booking.REST if gate.open or gate.refusal else Booking.BOOK
    problem = record.state.problem
    failed = problem is not None and problem.reason not in ASKED_AGAIN and not record.begun
    return Booking.GIVE_BACK if failed and stamp.takes else Booking.REST


class BookingKey(NamedTuple):
    dialect: str
    record: str


class RecordBooker:
    """The controller of both APIs' records, for the drivers that sidecars call."""

    def __init__(
        self, client: Client, lookups: Iterable[SnapshotLookup], *, settings: Settings, clock: Clock | None = None
    ) -> None:
        self._client = client
        self._lookups = {lookup.dialect.name: lookup for lookup in lookups}
        self._settings = settings
        self._clock = clock or SystemClock()

    def controller(self, *, metrics: KubeMetrics | None = None) -> Controller[BookingKey]:
        sources: list[Source[Any, BookingKey]] = []
        for lookup in self._lookups.values():
            sources.append(Source(lookup.records, self._of_record(lookup)))
            sources.append(Source(lookup.snapshots, self._of_snapshot(lookup)))
        return Controller("bookings", sources, self.reconcile, clock=self._clock, metrics=metrics)

    def _of_record(self, lookup: SnapshotLookup) -> Any:
        def keys(obj: Any) -> Iterable[BookingKey]:
            if self._is_elsewhere(lookup.dialect.read_record(obj)):
                yield BookingKey(lookup.dialect.name, obj.metadata.name)

        return keys

    def _of_snapshot(self, lookup: SnapshotLookup) -> Any:
        def keys(obj: Any) -> Iterable[BookingKey]:
            record = lookup.record(lookup.record_name(lookup.dialect.read_snapshot(obj)))
            if record is not None and self._is_elsewhere(record):
                yield BookingKey(lookup.dialect.name, record.meta.name)

        return keys

    def _is_elsewhere(self, record: Record) -> bool:
        return self._settings.drivers.get(record.driver) == "sidecar" and not record.handle

    async def reconcile(self, key: BookingKey) -> None:
        lookup = self._lookups[key.dialect]
        record = lookup.record(key.record)
        if record is None or not self._is_elsewhere(record):
            return
        seen = lookup.snapshots.get(Key(record.ref.namespace, record.ref.name))
        step = plan_booking(record, lookup.dialect.read_snapshot(seen) if seen is not None else None)
        if step is Booking.BOOK:
            await self._book(lookup, record, seen)
        if step is Booking.GIVE_BACK:
            await self._give_back(lookup, record, seen)

    async def _book(self, lookup: SnapshotLookup, record: Record, seen: Any) -> None:
        estimate = estimate_of(record.meta)
        if estimate is None:
            return
        kind, told = lookup.dialect.snapshots, {CUT: f"{BOOKED}{estimate.at}", ESTIMATED_BY: estimate.by}
        try:
            await book(self._client, kind, seen, estimate.bytes, lower=not record.begun, told=told)
        except NoRoom as error:
            notes = {CUT: f"{NO}{estimate.at} {error}"}
            await patch_seen(self._client, kind, seen, {"metadata": {"annotations": notes}})

    async def _give_back(self, lookup: SnapshotLookup, record: Record, seen: Any) -> None:
        """The record by the word of the API itself: a cache that is behind may not show yet that it is tried again."""
        live = await self._client.find(lookup.dialect.records, record.meta.name)
        snapshot = lookup.dialect.read_snapshot(seen)
        if live is not None and plan_booking(lookup.dialect.read_record(live), snapshot) is Booking.GIVE_BACK:
            await book(self._client, lookup.dialect.snapshots, seen, 0, lower=True)
