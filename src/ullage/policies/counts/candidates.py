"""The VolumeSnapshots of a namespace, of both APIs, with why each may or may not be deleted to make room.

Read from the caches. What changes after that look is caught where it matters: a deletion is on condition of the version that
was looked at, and a snapshot that a claim is being filled from does not go before that is done.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from heapq import nsmallest
from typing import Any, Final

from ullage.kube.builtin.core import CLAIMS
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.kinds import Kind
from ullage.kube.objects import is_deleting
from ullage.kube.slices import Wiring
from ullage.ledger.amounts import NOTHING, Cell, Takings
from ullage.ledger.charging.registry import registry_of
from ullage.ledger.keys import key_of
from ullage.policies.counts import choice
from ullage.policies.counts.accounts import claim_cell, claim_of, is_count
from ullage.policies.counts.charges import DIALECTS
from ullage.policies.counts.choice import Candidate
from ullage.snapshots.data_source import DataSource, has_begun, snapshot_keys, waits_for
from ullage.snapshots.model import PASSING, PROTECTED, READ_BY, Dialect, Record, Snapshot, is_held
from ullage.times import read_time

WATCHES: Final[tuple[Kind[Any], ...]] = (
    CLAIMS,
    *(one.snapshots for one in DIALECTS),
    *(one.records for one in DIALECTS),
)
_PLACE: Final = "counts: place of a snapshot"
_GOING: Final = "going"  # as a place in a namespace: those that are being deleted
MOST_LOOKED: Final = 500  # snapshots of one namespace, or of one claim, that are looked at: the oldest
LOOKED_IN_ALL: Final = 2000  # of all claims together: of many claims fewer of each
FEWEST_LOOKED: Final = 10  # of each claim, however many claims there are
GOES_WITHIN: Final = 300.0  # seconds for which one that is being deleted is taken to be about to go (`choice.STUCK` says so)
TRIED_FOR: Final = 86400.0  # seconds after which one that still reports a problem has failed, although that might pass
_HANDLE: Final = "counts: handle of a record"
_SOURCE: Final = "counts: snapshot of a claim"


Look = Callable[[str, int], Sequence[Candidate]]  # given a place, and how many at most


class Candidates:
    """To be made while a part is that declares `WATCHES`, through `wiring.shared`."""

    def __init__(self, wiring: Wiring) -> None:
        self._clock = wiring.clock
        self._takes: dict[str, Callable[[Any], Takings]] = {}
        self._snapshots: dict[str, Cache[Any]] = {}
        self._records: dict[str, Cache[Any]] = {}
        self._going_since: dict[str, float] = {}  # by uid: when we saw that it is being deleted, on the monotonic clock
        self.claims = wiring.cache(CLAIMS)
        self.claims.index(_SOURCE, snapshot_keys)
        registry = registry_of(wiring)
        for one in DIALECTS:
            self._takes[one.name] = registry.registered(one.snapshots).evaluator_of("").takes
            self._snapshots[one.name] = wiring.cache(one.snapshots)
            self._snapshots[one.name].index(_PLACE, _places(one))
            self._snapshots[one.name].handle(self._see)
            self._records[one.name] = wiring.cache(one.records)
            self._records[one.name].index(_HANDLE, _handles(one))

    def of(self, namespace: str, cells: Iterable[Cell], *, look: Look | None = None) -> list[Candidate]:
        """Those that a choice about these accounts may need: the oldest of each claim that is among them, the oldest of the
        namespace where anything else is, and those that go. `look` stands in for `oldest`."""
        places = {f"{namespace}/{cell.account}" if claim_of(cell) else namespace for cell in cells}
        of_each = max(FEWEST_LOOKED, LOOKED_IN_ALL // max(1, len(places - {namespace})))
        most = {place: MOST_LOOKED if place == namespace else min(MOST_LOOKED, of_each) for place in sorted(places)}
        most[f"{namespace}/{_GOING}"] = MOST_LOOKED  # one that is not seen to go would be made up for once more
        found = {one.key: one for place, number in most.items() for one in (look or self.oldest)(place, number)}
        return choice.spared(list(found.values()))

    def oldest(self, place: str, most: int) -> list[Candidate]:
        """The oldest snapshots in a namespace, or of one account of it. No more than so many: a tenant may have tens of
        thousands, and somebody waits for the answer."""
        there = ((one, obj) for one in DIALECTS for obj in self._snapshots[one.name].by(_PLACE, place))
        first = nsmallest(most, there, key=lambda pair: (pair[1].metadata.creation_timestamp, pair[1].metadata.name))
        return [self._candidate(one, obj) for one, obj in first]

    def find(self, key: str, namespace: str) -> tuple[Kind[Any], Any] | None:
        """The object behind a candidate, as the cache has it."""
        for one in DIALECTS:
            if key.startswith(f"{one.snapshots.name}/"):
                found = self._snapshots[one.name].get(Key(namespace, key.rpartition("/")[2]))
                return (one.snapshots, found) if found is not None else None
        return None

    def _candidate(self, dialect: Dialect[Any, Any], obj: Any) -> Candidate:
        meta = obj.metadata
        try:
            snapshot, takes = dialect.read_snapshot(obj), self._takes[dialect.name](obj)
            record = self._record(dialect, snapshot)
            kept = self._kept(dialect, obj, snapshot, record)
        except Exception:  # whatever it is, it is counted by others, or is not; it is not deleted
            takes, record, kept = NOTHING, None, choice.UNREADABLE
        if record is not None and record.policy == "Retain":
            takes = Takings({cell: takes[cell] for cell in takes if is_count(cell)})  # the bytes stay with the record
        going = is_deleting(meta)
        if going and self._clock.monotonic() - self._going_since.get(meta.uid, math.inf) >= GOES_WITHIN:
            going, kept = False, choice.HELD_UP if kept in (choice.IN_USE, choice.HELD, choice.OWNED) else choice.STUCK
        return Candidate(
            key=key_of(dialect.snapshots.name, namespace=meta.namespace, name=meta.name),
            name=meta.name,
            uid=meta.uid,
            version=meta.resource_version,
            created=meta.creation_timestamp,
            takes=takes,
            going=going,
            kept=kept,
        )

    def _see(self, old: Any, new: Any) -> None:
        """By our own clock: were that of the API server another, all that is deleted would be made up for once more."""
        if new is None:
            self._going_since.pop(old.metadata.uid, None)
        elif is_deleting(new.metadata):
            self._going_since.setdefault(new.metadata.uid, self._clock.monotonic())

    def _kept(self, dialect: Dialect[Any, Any], obj: Any, snapshot: Snapshot, record: Record | None) -> str:
        """Why it is not deleted; of one that is being deleted, why it does not go. What a person may change about it comes
        first."""
        meta, state = snapshot.meta, snapshot.state
        if meta.annotations.get(PROTECTED) == "true" and not is_deleting(meta):
            return choice.PROTECTED
        group: str = getattr(obj.status, "volume_group_snapshot_name", "")  # one of the two APIs knows groups
        if meta.owner_references or group:
            return choice.OWNED
        if READ_BY in meta.annotations or self._fills(DataSource(dialect.snapshots.group, meta.namespace, meta.name), snapshot):
            return choice.IN_USE
        if is_held(meta, dialect):
            return choice.HELD
        if snapshot.imported_record:
            return choice.IMPORTED
        if record is not None and self._is_shared(record):
            return choice.SHARED
        return choice.UNFINISHED if not state.ready and self._may_become_ready(snapshot) else ""

    def _may_become_ready(self, snapshot: Snapshot) -> bool:
        """Whether one that is not ready is still being taken, as far as is known. Others write the same words for what passes
        and for what never does, so these are believed for a while only."""
        problem = snapshot.state.problem
        if problem is None:
            return True
        return problem.reason in PASSING and self._seconds_since(snapshot.meta.creation_timestamp) < TRIED_FOR

    def _seconds_since(self, time: str) -> float:
        at = read_time(time)
        return (self._clock.now() - at).total_seconds() if at is not None else 0.0

    def _fills(self, source: DataSource, snapshot: Snapshot) -> bool:
        claims = self.claims.by(_SOURCE, str(source))
        return any(has_begun(one) or waits_for(one, snapshot.meta) for one in claims)

    def _record(self, dialect: Dialect[Any, Any], snapshot: Snapshot) -> Record | None:
        """The one that is for it. What its status says may be anybody's writing, so that comes last."""
        for name in filter(None, (snapshot.imported_record, dialect.record_name(snapshot), snapshot.state.record)):
            found = self._records[dialect.name].get(Key("", name))
            record = dialect.read_record(found) if found is not None else None
            if record is not None and record.ref.uid == snapshot.meta.uid:
                return record
        return None

    def _is_shared(self, record: Record) -> bool:
        """Whether another record, of either API, stands for the same snapshot of the storage system."""
        value = f"{record.driver} {record.handle}"
        return bool(record.handle) and sum(len(cache.by(_HANDLE, value)) for cache in self._records.values()) > 1


def _places(dialect: Dialect[Any, Any]) -> Callable[[Any], Iterable[str]]:
    def places(obj: Any) -> Iterable[str]:
        namespace, claim = obj.metadata.namespace, dialect.read_snapshot(obj).claim
        yield namespace
        if claim:
            yield f"{namespace}/{claim_cell(claim).account}"
        if is_deleting(obj.metadata):
            yield f"{namespace}/{_GOING}"

    return places


def _handles(dialect: Dialect[Any, Any]) -> Callable[[Any], Iterable[str]]:
    def handles(obj: Any) -> Iterable[str]:
        record = dialect.read_record(obj)
        return (f"{record.driver} {record.handle}",) if record.handle else ()

    return handles
