"""An API server in virtual time: ledgers and cups behind calls that take a while, fail, and lose their answers.

Everything above it is real: caches, views, batchers, folder. What a call does goes on after its caller is gone, as on a server.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from random import Random
from typing import Any

import msgspec

from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.client import Listing, WatchEvent
from ullage.kube.errors import AlreadyExists, Conflict, Invalid, NotFound, Unavailable
from ullage.kube.kinds import Kind, Meta, Object, Value
from ullage.ledger import keys
from ullage.ledger.amounts import Cell, Takings
from ullage.ledger.api import LEDGERS, NAMESPACE, Ledger, LedgerSpec, LedgerStatus
from ullage.ledger.book import Charge
from ullage.ledger.service.views import Evaluator
from ullage.quantity import Quantity

LEDGER = "ns-team"
ACCOUNT = Cell("cups", "size")
BOOKMARK_SECONDS = 10.0
STAMP = "test.ullage.io/stamp"
INITIAL_END = {"k8s.io/initial-events-end": "true"}


class CupSpec(Value):
    size: int = 0


class Cup(Object):
    spec: CupSpec = CupSpec()


CUPS = Kind("test.ullage.io", "v1", "Cup", "cups", Cup)


def takes(size: int) -> Takings:
    return Takings({ACCOUNT: Quantity.of(size)})


def team_of(cup: Cup) -> str:
    return f"ns-{cup.metadata.namespace}"


def taken(cup: Cup) -> Takings:
    """An error where the cup's stamp cannot be read."""
    if STAMP in cup.metadata.annotations:
        raise ValueError(f"{cup.metadata.annotations[STAMP]!r} is no stamp")
    return takes(cup.spec.size)


BY_TEAM = Evaluator(ledger_of=team_of, takes=taken)


def cup_key(name: str, *, cluster: str = "") -> str:
    return keys.key_of(CUPS.name, cluster=cluster, namespace="team", name=name)


def creating(name: str, size: int = 1, *, uid: str = "", cluster: str = "", **rest: Any) -> Charge:
    return Charge(key=cup_key(name, cluster=cluster), uid=uid or f"uid-{name}", now=takes(size), **rest)


def ledger(limit: int | None) -> Ledger:
    limits = {} if limit is None else {ACCOUNT.account: {ACCOUNT.resource: str(limit)}}
    return Ledger(metadata=Meta(name=LEDGER, namespace=NAMESPACE), spec=LedgerSpec(limits=limits))


class Server:
    """`latency` gives the seconds that each half of a call takes; `fault` may raise, before and after the effect of a write."""

    late = 0.0  # all that a watch brings is read at once

    def __init__(self, latency: Callable[[], float] = lambda: 0.002) -> None:
        self.latency = latency
        self.fault: Callable[[str], None] = lambda moment: None  # told "before" and "after"
        self.watch_lag: Callable[[], float] = lambda: 0.005
        self.slow: dict[str, float] = {}  # by kind: seconds that a read takes besides
        self.unserved: set[str] = set()  # kinds that are answered by a 404, though their definitions are there
        self.undefined: set[str] = set()  # kinds that there are not
        self.calls: list[str] = []
        self.watches: Counter[str] = Counter()  # that are open, by kind
        self.committed: Callable[[], None] = lambda: None
        self._version = itertools.count(101)
        self.version = 100
        self._objects: defaultdict[str, dict[Key, Any]] = defaultdict(dict)
        self._log: list[tuple[int, str, WatchEvent[Any]]] = []
        self._news = asyncio.Event()
        self._background: set[asyncio.Task[Any]] = set()
        self.history = 0  # another number after each backup that was restored
        self._kept: tuple[int, dict[str, dict[Key, Any]]] = (100, {CUPS.name: {}, LEDGERS.name: {}})
        self._broken = asyncio.Event()
        self._away = False

    # --- the store, at once ---

    def put(self, kind: Kind[Any], obj: Any) -> Any:
        key, shelf = key_of(obj), self._objects[kind.name]
        stored = self._stamped(obj)
        event = "MODIFIED" if key in shelf else "ADDED"
        shelf[key] = stored
        self._tell(kind, WatchEvent(event, stored))
        return stored

    def drop(self, kind: Kind[Any], key: Key) -> None:
        gone = self._stamped(self._objects[kind.name].pop(key))
        self._tell(kind, WatchEvent("DELETED", gone))

    def get(self, kind: Kind[Any], key: Key) -> Any:
        return self._objects[kind.name].get(key)

    def all(self, kind: Kind[Any]) -> list[Any]:
        return list(self._objects[kind.name].values())

    def ledger(self) -> Ledger:
        found = self.get(LEDGERS, Key(NAMESPACE, LEDGER))
        assert isinstance(found, Ledger)
        return found

    def cup(self, name: str, size: int = 1, *, uid: str = "") -> Cup:
        made = Cup(metadata=Meta(name=name, namespace="team", uid=uid or f"uid-{name}"), spec=CupSpec(size=size))
        stored = self.put(CUPS, made)
        assert isinstance(stored, Cup)
        return stored

    def _stamped(self, obj: Any) -> Any:
        self.version = next(self._version)
        return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, resource_version=str(self.version)))

    def _tell(self, kind: Kind[Any], event: WatchEvent[Any]) -> None:
        self._log.append((self.version, kind.name, event))
        self._news.set()
        self._news = asyncio.Event()
        self.committed()

    # --- backups ---

    def back_up(self) -> None:
        """A cluster writes much besides: versions that are given away after a backup are far ahead of it, and those that are
        given away once it was restored do not come as far before everybody has noticed."""
        self._kept = (self.version, {kind: dict(objects) for kind, objects in self._objects.items()})
        self._version = itertools.count(self.version + 10 ** (8 - self.history))

    def restore(self) -> None:
        """Everything is as it was; versions are given away again. Every watch breaks, and what was under way is lost."""
        self.version, objects = self._kept
        self._version = itertools.count(self.version + 1)
        self._objects = defaultdict(dict, {kind: dict(found) for kind, found in objects.items()})
        self._log = [entry for entry in self._log if entry[0] <= self.version]
        self.history += 1
        self._broken.set()
        self._broken = asyncio.Event()

    # --- the way there ---

    def cut_off(self) -> None:
        """Nobody reaches it, and every watch breaks. What is stored goes on as ever."""
        self._away = True
        self._broken.set()
        self._broken = asyncio.Event()

    def come_back(self) -> None:
        self._away = False

    def _check_reached(self) -> None:
        if self._away:
            raise Unavailable("no connection", reason="NoAnswer", sent=False)

    def _check_history(self, history: int) -> None:
        self._check_reached()
        if history != self.history:
            raise Unavailable("the server was restored from a backup meanwhile", reason="NoAnswer", sent=True)

    # --- calls ---

    async def find(self, kind: Kind[Any], name: str, namespace: str = "") -> Any:
        history = self.history

        async def read() -> Any:
            await asyncio.sleep(self.latency() + self.slow.get(kind.name, 0.0))
            self._check_history(history)
            self.calls.append(f"GET {kind.plural}")
            self._check_served(kind)
            return self.get(kind, Key(namespace, name))

        found = await self._call(read)
        await asyncio.sleep(self.latency())
        self._check_history(history)
        return found

    async def put_status(self, kind: Kind[Any], metadata: Meta, body: bytes) -> Meta:
        history, obj = self.history, msgspec.json.decode(body, type=kind.type)

        async def write() -> Any:
            await asyncio.sleep(self.latency())
            self._check_history(history)
            self.calls.append(f"PUT {kind.plural}")
            self.fault("before")
            live = self.get(kind, key_of(obj))
            if live is None:
                raise NotFound("no such ledger", code=404)
            if live.metadata.resource_version != obj.metadata.resource_version:
                raise Conflict("somebody else wrote first", code=409)
            if not self.may_be_said_after(live.status, obj.status):
                raise Invalid("a count cannot go back to an older view but in a new epoch of its own", code=422)
            stored = self.put(kind, msgspec.structs.replace(live, status=obj.status))
            self.fault("after")
            return stored

        stored = await self._call(write)
        await asyncio.sleep(self.latency())
        self._check_history(history)
        found: Meta = stored.metadata
        return found

    async def create(self, kind: Kind[Any], obj: Any) -> Any:
        async def write() -> Any:
            await asyncio.sleep(self.latency())
            self.calls.append(f"POST {kind.plural}")
            self.fault("before")
            if self.get(kind, key_of(obj)) is not None:
                raise AlreadyExists("there is one", code=409)
            meta = msgspec.structs.replace(obj.metadata, generation=1)
            stored = self.put(kind, msgspec.structs.replace(obj, metadata=meta))
            self.fault("after")
            return stored

        return await self._call(write)

    async def patch(self, kind: Kind[Any], name: str, namespace: str = "", *, merge: Mapping[str, Any]) -> Any:
        """A merge patch of a ledger's spec, without a version, on what is there when it arrives."""

        async def write() -> Any:
            await asyncio.sleep(self.latency())
            self.calls.append(f"PATCH {kind.plural}")
            self.fault("before")
            live = self.get(kind, Key(namespace, name))
            if live is None:
                raise NotFound("no such ledger", code=404)
            spec = msgspec.convert(merged(msgspec.to_builtins(live.spec), merge["spec"]), LedgerSpec)
            if not self.may_follow(live.spec, spec):
                raise Invalid("limits change only together with a change number that rises", code=422)
            meta = msgspec.structs.replace(live.metadata, generation=live.metadata.generation + (spec != live.spec))
            stored = self.put(kind, msgspec.structs.replace(live, metadata=meta, spec=spec))
            self.fault("after")
            return stored

        return await self._call(write)

    def may_follow(self, old: LedgerSpec, new: LedgerSpec) -> bool:
        """As the rule of the kind has it."""
        return new.change > old.change or new == old

    def may_be_said_after(self, old: LedgerStatus, new: LedgerStatus) -> bool:
        """As the rules of the kind have it."""
        anew = {name for name, epoch in new.epochs.items() if epoch == new.epoch > old.epoch}
        views = {name: one.view for name, one in new.observed.items()}
        return new.epoch >= old.epoch and all(
            name in anew or (views[name] >= one.view if name in views else "/" in name) for name, one in old.observed.items()
        )

    async def _call(self, work: Callable[[], Awaitable[Any]]) -> Any:
        """Done to its end even if whoever asked is gone."""
        task = asyncio.ensure_future(work())
        self._background.add(task)
        task.add_done_callback(self._done)
        return await asyncio.shield(task)

    def _done(self, task: asyncio.Future[Any]) -> None:
        self._background.discard(task)
        if not task.cancelled():
            task.exception()

    # --- what caches read ---

    async def list(
        self, kind: Kind[Any], namespace: str = "", *, each: Callable[[Any], object] | None = None, **_: Any
    ) -> Listing[Any]:
        history = self.history
        await asyncio.sleep(self.latency())
        self._check_served(kind)
        self._check_history(history)
        found = Listing(self.all(kind), str(self.version))
        if each is not None:
            for obj in found.items:
                each(obj)
        return found

    async def watch(
        self, kind: Kind[Any], namespace: str = "", *, resource_version: str, initial_events: bool = False, **_: Any
    ) -> AsyncGenerator[WatchEvent[Any], None]:
        self._check_served(kind)
        self.watches[kind.name] += 1
        try:
            async with aclosing(self._events(kind, resource_version, initial_events=initial_events)) as events:
                async for event in events:
                    yield event
        finally:
            self.watches[kind.name] -= 1

    async def _events(
        self, kind: Kind[Any], resource_version: str, *, initial_events: bool
    ) -> AsyncGenerator[WatchEvent[Any], None]:
        history = self.history
        seen = int(resource_version or 0)
        if initial_events:
            await asyncio.sleep(self.latency())
            self._check_history(history)
            seen, found = self.version, self.all(kind)
            for obj in found:
                yield WatchEvent("ADDED", obj)
            yield WatchEvent("BOOKMARK", Object(metadata=Meta(resource_version=str(seen), annotations=INITIAL_END)))
        place = next((number for number, entry in enumerate(self._log) if entry[0] > seen), len(self._log))
        due = self._at(BOOKMARK_SECONDS)  # whatever other kinds are written meanwhile
        while True:
            idle = False
            if place == len(self._log):
                idle = not await self._within(max(0.0, due - self._at(0.0)), self._news)
                self._check_history(history)
            if idle or self._at(0.0) >= due:
                seen, due = self._log[place - 1][0] if place else seen, self._at(BOOKMARK_SECONDS)
                yield WatchEvent("BOOKMARK", Object(metadata=Meta(resource_version=str(seen))))
            if place == len(self._log):
                continue
            await self._within(self.watch_lag(), self._broken)
            self._check_history(history)
            self._check_served(kind)
            _version, name, event = self._log[place]
            place += 1
            if name == kind.name:
                yield event

    def _at(self, seconds: float) -> float:
        """The moment that is some seconds away."""
        return asyncio.get_running_loop().time() + seconds

    async def _within(self, seconds: float, event: asyncio.Event) -> bool:
        """Whether it comes within a time; at once, where the server breaks off."""
        waits = [asyncio.ensure_future(one.wait()) for one in {event, self._broken}]
        try:
            done, _ = await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()
        return bool(done)

    async def latest(self, kind: Kind[Any], namespace: str = "", *, fields: str = "") -> str:
        await asyncio.sleep(self.latency())
        self._check_served(kind)
        return str(self.version)

    async def absent(self, kind: Kind[Any]) -> str:
        await asyncio.sleep(self.latency())
        self._check_reached()
        return str(self.version) if kind.name in self.undefined else ""

    def _check_served(self, kind: Kind[Any]) -> None:
        self._check_reached()
        if kind.name in self.unserved | self.undefined:
            raise NotFound("the server could not find the requested resource", code=404)


def merged(old: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, Mapping):
        return patch
    kept = {key: value for key, value in (old if isinstance(old, Mapping) else {}).items() if key not in patch}
    base = old if isinstance(old, Mapping) else {}
    return {**kept, **{key: merged(base.get(key), value) for key, value in patch.items() if value is not None}}


def lossy(random: Random, *, before: float, after: float) -> Callable[[str], None]:
    """Answers that never come: of writes that were not done, and of writes that were."""

    def fault(moment: str) -> None:
        if random.random() < (before if moment == "before" else after):
            raise Unavailable("the connection broke", reason="NoAnswer", sent=True)

    return fault
