"""What a process has seen of one kind, ledger by ledger: the sums and objects that folds are made from.

Kept by increments in the handlers of a cache, so an event costs the same whatever a tenant owns. What an object takes, and from
which ledger, is a function of the object alone; two processes with the same objects count the same.
"""

from __future__ import annotations

import itertools
import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, Protocol, TypeVar

from ullage.clock import Clock, SystemClock
from ullage.errors import UllageError
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Listing
from ullage.kube.client.interface import Finder
from ullage.kube.errors import NotFound
from ullage.kube.kinds import Kind, Object
from ullage.ledger.amounts import NOTHING, Cell, Takings
from ullage.ledger.fold import Live, Seen, View
from ullage.ledger.keys import key_of, namespace_of, source_name
from ullage.quantity import Quantity

logger = logging.getLogger(__name__)

T = TypeVar("T", bound=Object)

REMEMBER_SECONDS = 300.0  # uids that went; an attempt of one that was forgotten goes by its expiry instead
REMEMBER_MOST = 100_000
_serials = itertools.count()


@dataclass(frozen=True)
class Evaluator(Generic[T]):
    """Whose ledger an object is in, and what it takes there: two functions of the object alone.

    The first has an answer for every object, also for one that makes no sense; empty: it is in no ledger. The second may
    raise: then nobody can say what that ledger's objects of the kind take together, and all others are counted as ever.
    """

    ledger_of: Callable[[T], str]
    takes: Callable[[T], Takings]


class LiveReader(Finder, Protocol):
    """What is asked of the server itself, past any cache."""

    async def list(self, kind: Kind[T], namespace: str = "") -> Listing[T]: ...

    async def latest(self, kind: Kind[Any]) -> str: ...

    async def absent(self, kind: Kind[Any]) -> str: ...


class KindView(Generic[T]):
    """A cache, counted. Make it before the cache runs or after: it is told of what is there."""

    def __init__(
        self,
        cache: Cache[T],
        evaluator: Evaluator[T],
        *,
        client: LiveReader,
        cluster: str = "",
        clock: Clock | None = None,
        remember: float = REMEMBER_SECONDS,
        settled: Callable[[], bool] = lambda: True,
    ) -> None:
        """`settled` says whether what went is counted by others who have to; nothing is folded while it is not."""
        if not cache.whole:
            raise ValueError(f"{cache.kind.name}: a cache of some objects counts too little for the ledgers of the others")
        self.cache = cache
        self._evaluator = evaluator
        self._client = client
        self._cluster = cluster
        self._settled = settled
        self._clock = clock or SystemClock()
        self._gone = Gone(remember)
        self._serial = next(_serials)
        self._epochs: dict[str, tuple[int, int]] = {}  # by ledger: the epoch that was seen last, and the reading that is of it
        self._ledgers: dict[str, _Counted] = {}
        self._objects: dict[str, _Held] = {}
        self._unplaced: set[str] = set()  # objects of which nobody can say whose ledger they are in: a bug
        self._listeners: list[Callable[[str], None]] = []
        cache.handle(self._change)

    @property
    def kind(self) -> Kind[T]:
        return self.cache.kind

    @property
    def name(self) -> str:
        return source_name(self.kind.name, self._cluster)

    @property
    def session(self) -> int:
        """Of this view alone: the next one of its name may be of another server."""
        return (self._serial << 32) + self.cache.session

    @property
    def synced(self) -> bool:
        return self.cache.synced.is_set()

    @property
    def followed(self) -> bool:
        return self.synced and not self.cache.doubtful

    def usable(self, ledger: str) -> bool:
        """An object that cannot be counted makes the sums of its ledger too small: nothing is folded there until it is gone or
        mended."""
        if not self.followed or self._unplaced or not self._settled():
            return False
        counted = self._ledgers.get(ledger)
        return counted is None or not counted.unreadable

    def see(self, ledger: str, epoch: int) -> None:
        if epoch != self._epochs.get(ledger, (0, 0))[0]:
            self._epochs[ledger] = epoch, self.cache.renew()

    def uncounted(self, ledger: str) -> tuple[str, ...]:
        counted = self._ledgers.get(ledger)
        return tuple(sorted(self._unplaced | (counted.unreadable if counted else set())))

    def complete_at(self) -> datetime:
        return self._clock.now() - timedelta(seconds=self.cache.age() or 0.0)

    def of(self, ledger: str) -> View:
        return _Window(ledger, self)

    async def live(self, key: str) -> Live:
        return await read_live(self._client, self.kind, key)

    async def listed(self, ledger: str) -> Callable[[], bool]:
        """What lies outside of the ledger's namespace is not listed."""
        namespace = namespace_of(ledger)
        if not (namespace and self.kind.namespaced and self.cache.served):
            return lambda: True
        found = await self._client.list(self.kind, namespace)
        there = [(self.key(obj), obj.metadata.uid, int(obj.metadata.resource_version)) for obj in found.items]
        position = int(found.resource_version)
        return lambda: self.position() >= position or all(self._shows(*one) for one in there)

    def _shows(self, key: str, uid: str, version: int) -> bool:
        held = self._objects.get(key)
        return uid in self._gone or (held is not None and held.version >= version)

    async def latest(self) -> int:
        try:
            return int(await self._client.latest(self.kind))
        except NotFound:
            if version := await self._client.absent(self.kind):
                return int(version)
            raise

    def key(self, obj: T) -> str:
        return key_of(self.kind.name, cluster=self._cluster, namespace=obj.metadata.namespace, name=obj.metadata.name)

    def ledger_of(self, obj: T) -> str:
        """The ledger that an object is in; empty where it is in none."""
        return self._evaluator.ledger_of(obj)

    def look_again(self, keys: Iterable[Key] | None = None) -> None:
        """Evaluates anew what could not be counted, or what is under some keys: something else than the objects has changed
        that it depends on. The ledgers are told."""
        if keys is None:
            unread = {*self._unplaced, *(key for counted in self._ledgers.values() for key in counted.unreadable)}
            keys = [place_of(key) for key in unread]
        ledgers: dict[str, None] = {}
        for obj in filter(None, map(self.cache.get, keys)):
            self._change(obj, obj)
            ledgers[self._objects[self.key(obj)].ledger] = None
        for ledger in filter(None, ledgers):
            for changed in self._listeners:
                changed(ledger)

    def taken(self, key: Key) -> Takings | None:
        """What the object under a key is counted with; None: it is not there, or that cannot be told."""
        held = self._objects.get(key_of(self.kind.name, cluster=self._cluster, namespace=key.namespace, name=key.name))
        return held.takes if held is not None else None

    def handle(self, changed: Callable[[str], None]) -> None:
        """Has every ledger told in which something comes, changes or goes."""
        self._listeners.append(changed)

        def tell(old: T | None, new: T | None) -> None:
            found = (self.ledger_of(one) for one in (old, new) if one is not None)
            for ledger in dict.fromkeys(found):
                if ledger:
                    changed(ledger)

        self.cache.handle(tell)

    # --- for windows ---

    def position(self) -> int:
        return self.cache.position()

    def epoch(self, ledger: str) -> int:
        epoch, reading = self._epochs.get(ledger, (0, 0))
        return epoch if self.cache.readings >= reading else -1

    def sums(self, ledger: str) -> Takings:
        counted = self._ledgers.get(ledger)
        return counted.value() if counted else NOTHING

    def seen(self, key: str, ledger: str) -> Seen | None:
        held = self._objects.get(key)
        if held is None:
            return None
        return Seen(held.uid, held.version, held.takes if held.takes and held.ledger == ledger else NOTHING)

    def gone(self, uid: str) -> bool:
        return uid in self._gone

    # --- from the cache ---

    def _change(self, old: T | None, new: T | None) -> None:
        some = new if new is not None else old
        if some is None:
            return
        key = self.key(some)
        held = self._objects.pop(key, None)
        self._unplaced.discard(key)
        if held is not None and held.ledger:
            self._put(key, held, sign=-1)
        if new is None:
            self._gone.add(some.metadata.uid, self._clock.monotonic())
            return
        self._gone.discard(new.metadata.uid)  # a backup brings back what went
        held = self._objects[key] = self._evaluated(key, new)
        if held.ledger:
            self._put(key, held, sign=1)

    def _evaluated(self, key: str, obj: T) -> _Held:
        ledger, takes = "", None
        try:
            ledger = self._evaluator.ledger_of(obj)
            takes = self._evaluator.takes(obj) if ledger else NOTHING
        except UllageError as error:  # the ledger says which these are; thousands may wait to be stamped at first
            logger.debug("object cannot be counted", extra={"key": key, "ledger": ledger, "error": str(error)})
        except Exception:  # whatever it is: an object that were left out would be missing in the sums
            logger.exception("object cannot be counted", extra={"kind": self.kind.name, "key": key, "ledger": ledger})
        if takes is None and not ledger:
            self._unplaced.add(key)
        return _Held(obj.metadata.uid, int(obj.metadata.resource_version), ledger, takes)

    def _put(self, key: str, held: _Held, *, sign: int) -> None:
        counted = self._ledgers.setdefault(held.ledger, _Counted())
        counted.add(key, held.takes, sign)
        if not counted.objects:
            del self._ledgers[held.ledger]


@dataclass(frozen=True, slots=True)
class _Held:
    uid: str
    version: int
    ledger: str
    takes: Takings | None  # None: that cannot be told


@dataclass(slots=True)
class _Counted:
    """A running sum. The value is made when it is asked for, not for every event."""

    objects: int = 0
    cells: dict[Cell, Quantity] = field(default_factory=dict)
    unreadable: set[str] = field(default_factory=set)  # the keys of those that are in no sum

    def add(self, key: str, takes: Takings | None, sign: int) -> None:
        self.objects += sign
        if takes is None:
            (self.unreadable.add if sign > 0 else self.unreadable.discard)(key)
            return
        for cell, quantity in takes.cells.items():
            signed = quantity if sign > 0 else -quantity
            self.cells[cell] = self.cells[cell] + signed if cell in self.cells else signed
            if not self.cells[cell].nanos:
                del self.cells[cell]

    def value(self) -> Takings:
        return Takings(self.cells)


class Gone:
    """The uids that went, for a while: a bounded set that forgets the oldest first."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._order: deque[tuple[float, str]] = deque()
        self._uids: set[str] = set()

    def add(self, uid: str, now: float) -> None:
        while self._order and (self._order[0][0] < now - self._seconds or len(self._order) >= REMEMBER_MOST):
            self._uids.discard(self._order.popleft()[1])
        if uid not in self._uids:
            self._uids.add(uid)
            self._order.append((now, uid))

    def discard(self, uid: str) -> None:
        self._uids.discard(uid)

    def __contains__(self, uid: str) -> bool:
        return uid in self._uids


class _Window:
    """One ledger's part of a view."""

    __slots__ = ("_ledger", "_view")

    def __init__(self, ledger: str, view: KindView[Any]) -> None:
        self._ledger = ledger
        self._view = view

    @property
    def position(self) -> int:
        return self._view.position()

    @property
    def epoch(self) -> int:
        return self._view.epoch(self._ledger)

    @property
    def sums(self) -> Takings:
        return self._view.sums(self._ledger)

    def get(self, key: str) -> Seen | None:
        return self._view.seen(key, self._ledger)

    def gone(self, uid: str) -> bool:
        return self._view.gone(uid)


def place_of(key: str) -> Key:
    """Namespace and name from a ledger key."""
    _, _, namespace, name = key.split("/", 3)
    return Key(namespace, name)


async def read_live(client: Finder, kind: Kind[Any], key: str) -> Live:
    """Reads the object of a ledger key from the server itself."""
    namespace, name = place_of(key)
    found = await client.find(kind, name, namespace)
    return Live() if found is None else Live(found.metadata.uid, int(found.metadata.resource_version))
