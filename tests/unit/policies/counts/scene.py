"""Snapshots that are counted, on the simulated API: hooks of one or several webhook replicas, and one leader.

Whatever is deleted goes after a while, as where a storage system has to be asked first.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from copy import deepcopy
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import jsonpatch
import msgspec

from tests.unit.kube.virtual_time import START, in_virtual_time
from tests.unit.ledger.simulated import Server, merged
from tests.unit.ledger.slices import running, wired
from tests.unit.space.scene import PERSON, TEAM, Scene, made, snapshot_of
from ullage.kube.cache.indexer import Key
from ullage.kube.errors import Conflict, Forbidden, NotFound, TooManyRequests
from ullage.kube.kinds import Kind, Meta
from ullage.kube.review import Decision, Hook, Review
from ullage.ledger.api import LEDGERS, NAMESPACE, Ledger
from ullage.ledger.book import Book
from ullage.ledger.codec import book_of
from ullage.ledger.slice import LEDGER
from ullage.policies.counts.accounts import COUNTS, together
from ullage.policies.counts.api import SNAPSHOT_LIMITS, SnapshotLimit
from ullage.policies.counts.candidates import Candidates
from ullage.policies.counts.slice import counts
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.prototype.translation import PROTOTYPE
from ullage.snapshots.model import Dialect
from ullage.space.slice import space
from ullage.times import timestamp
from ullage.vms.settings import Settings

Json = dict[str, Any]
GOES = 0.5  # seconds until what is deleted is gone


class CountServer(Server):
    """Deletes and patches, too, each on the conditions that it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.deleted: list[str] = []
        self.goes = GOES
        self.stays: set[str] = set()  # names of what never goes, once it is deleted
        self.answers = 0.0  # seconds from a deletion to its answer
        self.gone: Callable[[Kind[Any], Key], None] = self.drop
        self.tried: list[str] = []  # names of what was created as a dry run
        self.trial: Callable[[Kind[Any], Json], Awaitable[Decision]]

    async def try_create(self, kind: Kind[Any], body: Json, namespace: str = "") -> None:
        async def ask() -> None:
            await asyncio.sleep(self.latency())
            self.tried.append(body["metadata"]["name"])
            decided = await self.trial(kind, body)
            if not decided.allowed:
                raise (TooManyRequests if decided.code == 429 else Forbidden)(decided.message, code=decided.code)

        await self._call(ask)

    async def delete(
        self, kind: Kind[Any], name: str, namespace: str = "", *, uid: str = "", resource_version: str = "", **_: Any
    ) -> None:
        async def write() -> None:
            await asyncio.sleep(self.latency())
            self.calls.append(f"DELETE {kind.plural} {name}")
            self.fault("before")
            live = self.get(kind, Key(namespace, name))
            if live is None:
                raise NotFound(f'{kind.plural} "{name}" not found', code=404)
            meta = live.metadata
            if (uid and uid != meta.uid) or (resource_version and resource_version != meta.resource_version):
                raise Conflict("it is another one by now", code=409)
            if meta.deletion_timestamp is None:
                self.deleted.append(name)
                later = msgspec.structs.replace(meta, deletion_timestamp=timestamp(START))
                self.put(kind, msgspec.structs.replace(live, metadata=later))
                self.leave(kind, Key(namespace, name), meta.uid)
            self.fault("after")
            if self.answers:
                await asyncio.sleep(self.answers)

        await self._call(write)

    def leave(self, kind: Kind[Any], key: Key, uid: str) -> None:
        async def go() -> None:
            await asyncio.sleep(self.goes)
            live = self.get(kind, key)
            if live is not None and live.metadata.uid == uid and key.name not in self.stays:
                self.gone(kind, key)

        task = asyncio.ensure_future(go())
        self._background.add(task)
        task.add_done_callback(self._done)

    async def patch(
        self,
        kind: Kind[Any],
        name: str,
        namespace: str = "",
        *,
        merge: Mapping[str, Any],
        uid: str = "",
        resource_version: str = "",
        **_: Any,
    ) -> Any:
        if kind is LEDGERS:
            return await super().patch(kind, name, namespace, merge=merge)

        async def write() -> Any:
            await asyncio.sleep(self.latency())
            self.calls.append(f"PATCH {kind.plural}")
            self.fault("before")
            live = self.get(kind, Key(namespace, name))
            if live is None:
                raise NotFound(f'{kind.plural} "{name}" not found', code=404)
            if resource_version and resource_version != live.metadata.resource_version:
                raise Conflict("it is another one by now", code=409)
            stored = self.put(kind, msgspec.convert(merged(msgspec.to_builtins(live), merge), kind.type))
            self.fault("after")
            return stored

        return await self._call(write)


WEBHOOK_USER: Final = "system:serviceaccount:ullage-system:webhook"
VETOED: Final = Decision.refuse("vetoed by another webhook")


class CountScene(Scene):
    def __init__(self) -> None:
        super().__init__()
        self.server: CountServer = CountServer()
        self.server.gone = self._gone
        self.server.trial = self._trial
        self._own, self._others = counts(), space(Settings(backups="manage"))
        self._slices = (self._own, self._others)
        self._replicas: Iterator[list[Hook]] = itertools.cycle([[]])
        self._ages = itertools.count()
        self._dry = False
        self.vetoes = False  # another webhook refuses what is admitted here

    # --- what there is ---

    def limit(self, namespace: str = TEAM, *, name: str = "limit", oldest: bool = False, **spec: int) -> None:
        """A SnapshotLimit; `snapshots` and `per_claim`. The ledger has what follows from all of them."""
        named = {"per_claim": "snapshotsPerClaim"}
        body = {"metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "generation": 1}}
        asked = {named.get(key, key): value for key, value in spec.items()}
        self.server.put(SNAPSHOT_LIMITS, made(SNAPSHOT_LIMITS, {**body, "spec": {**asked, "deleteOldest": oldest}}))
        self.enforce(namespace)

    def enforce(self, namespace: str = TEAM) -> None:
        """As the controller would."""
        found: list[SnapshotLimit] = [one for one in self.server.all(SNAPSHOT_LIMITS) if one.metadata.namespace == namespace]
        ledger = self.server.get(LEDGERS, Key(NAMESPACE, f"ns-{namespace}"))
        if ledger is None:
            ledger = Ledger(metadata=Meta(name=f"ns-{namespace}", namespace=NAMESPACE, uid=f"uid-{namespace}"))
        others = {account: one for account, one in ledger.spec.limits.items() if not account.startswith(COUNTS)}
        own = {cell.account: {cell.resource: str(limit)} for cell, limit in together(found).cells.items()}
        spec = msgspec.structs.replace(ledger.spec, limits={**others, **own}, change=ledger.spec.change + 1)
        self.server.put(LEDGERS, msgspec.structs.replace(ledger, spec=spec))

    def snapshot(
        self,
        name: str,
        claim: str = "disk",
        *,
        dialect: Dialect[Any, Any] = GA,
        ready: bool = True,
        stamp: str = "{}",
        meta: Json | None = None,
        **annotations: str,
    ) -> None:
        """One that is there already, past the hooks; each is younger than the one before."""
        body = snapshot_of(dialect, name, claim, **annotations)
        body["metadata"] |= {"namespace": TEAM, "uid": f"uid-{name}", **(meta or {})}
        body["metadata"].setdefault("creationTimestamp", timestamp(START + timedelta(seconds=next(self._ages))))
        body["metadata"].setdefault("annotations", {})["ullage.io/takes"] = stamp
        body["status"] = _ready(dialect) if ready else {}
        self.store(dialect.snapshots, body)

    def book(self, namespace: str = TEAM) -> Book:
        ledger = self.server.get(LEDGERS, Key(NAMESPACE, f"ns-{namespace}"))
        return book_of(ledger, now=START)

    def names(self, dialect: Dialect[Any, Any] = GA) -> set[str]:
        return {one.metadata.name for one in self.server.all(dialect.snapshots)}

    # --- requests ---

    @asynccontextmanager
    async def served(self, *, replicas: int = 1, leader: bool = False) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            hooks = []
            for _ in range(replicas):
                wiring = wired(self.server)
                hooks.append(wiring.hooks((LEDGER, *self._slices)))
                await stack.enter_async_context(running(wiring))
            self._replicas = itertools.cycle(hooks)
            self._hooks = hooks[0]
            if leader:
                await stack.enter_async_context(self.leading())
            yield

    @asynccontextmanager
    async def leading(self) -> AsyncIterator[None]:
        """The controllers, but for those of `space`."""
        wiring, own, others = wired(self.server), self._own, self._others
        controllers = wiring.controllers((LEDGER, own, replace(others, controllers=None)))
        async with running(wiring, controllers):
            yield

    @asynccontextmanager
    async def looking(self) -> AsyncIterator[Candidates]:
        """What hooks and controllers find in their caches."""
        wiring = wired(self.server)
        wiring.hooks((LEDGER, *self._slices))
        async with running(wiring):
            yield wiring.shared(Candidates)

    def store(self, kind: Kind[Any], body: Json) -> Json:
        vetoed = self.vetoes and kind.name in {one.snapshots.name for one in (GA, PROTOTYPE)}
        return body if vetoed else super().store(kind, body)

    def _asked(self, kind: Kind[Any], phase: str) -> list[Hook]:
        if phase == "mutate":
            self._hooks = next(self._replicas)
        return super()._asked(kind, phase)

    async def create(self, name: str, claim: str = "disk", *, dialect: Dialect[Any, Any] = GA, user: str = PERSON) -> Decision:
        """Asked for once; it is ready at once."""
        decided = await self.submit(dialect.snapshots, snapshot_of(dialect, name, claim), user=user)
        if decided.allowed and self.vetoes:
            return VETOED
        if decided.allowed:
            created = timestamp(START.replace(minute=1, second=next(self._ages) % 60))
            self.change(dialect.snapshots, name, metadata={"creationTimestamp": created}, status=_ready(dialect))
        return decided

    async def dry_run(self, name: str, claim: str = "disk", *, dialect: Dialect[Any, Any] = GA) -> Decision:
        self._dry = True
        try:
            return await self.submit(dialect.snapshots, snapshot_of(dialect, name, claim))
        finally:
            self._dry = False

    def _review(self, kind: Kind[Any], new: Json, old: Json | None, user: str) -> Review:
        found = super()._review(kind, new, old, user)
        return replace(found, request=msgspec.structs.replace(found.request, dry_run=True)) if self._dry else found

    async def _trial(self, kind: Kind[Any], body: Json) -> Decision:
        """All hooks, and the other webhook."""
        new = deepcopy(body)
        for phase in ("mutate", "validate"):
            for hook in super()._asked(kind, phase):
                review = super()._review(kind, new, None, WEBHOOK_USER)
                decided = await hook.answer(replace(review, request=msgspec.structs.replace(review.request, dry_run=True)))
                if not decided.allowed:
                    return decided
                new = jsonpatch.apply_patch(new, list(decided.patch))
        return VETOED if self.vetoes else Decision.allow()

    async def insist(self, name: str, claim: str = "disk", *, tries: int = 30, **more: Any) -> Decision:
        """As clients do: again, as long as they are told to."""
        for _ in range(tries):
            decided = await self.create(name, claim, **more)
            if decided.code != 429:
                break
            await asyncio.sleep(decided.retry_after)
        return decided

    def _gone(self, kind: Kind[Any], key: Key) -> None:
        self._bodies.pop((kind.name, key), None)
        self.server.drop(kind, key)

    @contextmanager
    def never(self, check: Callable[[], None]) -> Iterator[None]:
        """`check` looks after every commit."""
        self.server.committed = check
        try:
            yield
        finally:
            self.server.committed = lambda: None


def _ready(dialect: Dialect[Any, Any]) -> Json:
    if dialect.name == "ga":
        return {"readyToUse": True, "boundVolumeSnapshotContentName": "content"}
    return {
        "conditions": [
            {"type": "Ready", "status": "True", "reason": "x", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        ]
    }


def counted(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Runs a test in virtual time; what it is given beside the scene is pytest's."""

    def wrapped(**given: Any) -> None:
        async def run() -> None:
            await test(CountScene(), **given)

        in_virtual_time(run())

    wrapped.__name__, wrapped.__doc__ = test.__name__, test.__doc__
    _, *others = inspect.signature(test).parameters.values()
    wrapped.__signature__ = inspect.Signature(others)  # type: ignore[attr-defined]  # what pytest reads
    return wrapped
