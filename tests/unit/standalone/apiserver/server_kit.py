"""The whole API server but for HTTP: a real store on a file of its own, real writers and controllers, a clock moved by hand."""

from __future__ import annotations

import asyncio
import math
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from copy import deepcopy
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from urllib.parse import unquote

from ullage.clock import FakeClock
from ullage.standalone.apiserver.admission.attributes import Attributes
from ullage.standalone.apiserver.auth.credentials import Credentials, prepare
from ullage.standalone.apiserver.auth.users import MASTERS, User
from ullage.standalone.apiserver.handlers.calls import Call
from ullage.standalone.apiserver.handlers.deletes import Deleter
from ullage.standalone.apiserver.kinds.resources import Resource
from ullage.standalone.apiserver.request.delete_options import DeleteOptions
from ullage.standalone.apiserver.request.request import Request, parse_query, parse_target, verb_of
from ullage.standalone.apiserver.request.write_options import WriteOptions
from ullage.standalone.apiserver.server import Server, compose
from ullage.standalone.apiserver.settings import Settings
from ullage.standalone.apiserver.storage.database import Database, Revision
from ullage.standalone.apiserver.storage.store import Store

Json = dict[str, Any]

USER = User("tester", groups=(MASTERS,))
PATIENCE = 10.0


async def eventually(condition: Callable[[], bool]) -> None:
    """Returns when the condition holds; fails after a while."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110  the condition is about the world, not about one event
            await asyncio.sleep(0.002)


async def quiet(server: Server) -> None:
    """Returns when no controller has anything left to do."""
    calm = 0

    def still() -> bool:
        nonlocal calm
        calm = calm + 1 if all(controller.queue.idle for controller in server.controllers) else 0
        return calm > 3

    await eventually(still)


class GatedDatabase(Database):
    """A disk whose commits wait for a gate, can fail, and keep a diary."""

    def __init__(self, path: Path, *, durable: bool = False) -> None:
        super().__init__(path, durable=durable)
        self.gate = threading.Event()
        self.gate.set()
        self.failing: list[str] = []  # the next appends fail with these messages
        self.failing_compactions = 0
        self.diary: list[tuple[str, int]] = []  # what was begun and committed, with the newest revision of it

    def append(self, rows: Sequence[Revision], until: float = math.inf) -> None:
        self.diary.append(("begin", rows[-1].rv))
        if not self.gate.wait(PATIENCE):
            raise AssertionError("nobody opened the gate")
        if self.failing:
            raise sqlite3.OperationalError(self.failing.pop(0))
        super().append(rows, until)
        self.diary.append(("commit", rows[-1].rv))

    def compact(self, after: int, upto: int) -> None:
        if self.failing_compactions:
            self.failing_compactions -= 1
            raise sqlite3.OperationalError("database or disk is full")
        super().compact(after, upto)


@cache
def credentials() -> Credentials:
    return prepare(Path(mkdtemp()), datetime(2026, 1, 1, tzinfo=UTC))


class Kit:
    """A composed server and short ways to ask it for things."""

    def __init__(self, server: Server, database: GatedDatabase, clock: FakeClock) -> None:
        self.server = server
        self.store = server.store
        self.database = database
        self.clock = clock
        self.deleter: Deleter = server.controllers[0]._deleter

    def resource(self, plural: str) -> Resource:
        """By its plural, or `plural.group` where that is ambiguous."""
        return next(one for one in self.server.registry if plural in (one.plural, one.group_resource))

    async def create(self, plural: str, name: str, *, namespace: str = "", **rest: Any) -> Json:
        resource = self.resource(plural)
        meta = {"name": name, **rest.pop("metadata", {})}
        obj = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta, **rest}
        call = Call(USER, _options(), "CreateOptions")
        done = await self.server.writer.insert(resource, obj, call, namespace=namespace)
        return done.entry.obj()

    async def change(self, plural: str, name: str, change: Callable[[Json], object], *, namespace: str = "") -> Json:
        """`change` edits a copy of the live object."""

        def changed(live: Json) -> Json:
            new = deepcopy(live)
            change(new)
            return new

        resource = self.resource(plural)
        entry = self.store.head(resource.storage, namespace, name)
        assert entry is not None
        call = Call(USER, _options(), "UpdateOptions")
        done = await self.server.writer.modify(resource, changed, call, namespace=namespace, name=name)
        return done.entry.obj()

    async def delete(self, plural: str, name: str, *, namespace: str = "", **options: Any) -> bool:
        """Whether it is gone at once."""
        resource = self.resource(plural)
        asked = DeleteOptions(**options)
        _, gone = await self.deleter.remove(resource, namespace, name, options=asked, user=USER, warnings=[])
        return gone

    def get(self, plural: str, name: str, *, namespace: str = "") -> Json | None:
        entry = self.store.get(self.resource(plural).storage, namespace, name)
        return entry.obj() if entry else None

    async def namespace(self, name: str) -> Json:
        return await self.create("namespaces", name, namespace=name, spec={"finalizers": ["kubernetes"]})

    def hold_webhooks(self) -> Gate:
        """From now on validating webhooks think until they are let go: requests are on their way, but not stored."""
        gate = Gate()
        self.server.webhooks.validate = gate.validate  # type: ignore[method-assign]
        return gate


class Gate:
    """Admission that waits. `let(name)` makes it wait for one object only."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.seen: list[str] = []
        self.only: str | None = None

    async def validate(self, attrs: Attributes) -> list[str]:
        name = attrs.name or (attrs.old or {"metadata": {}})["metadata"].get("name", "")
        if self.only is None or name == self.only:
            self.seen.append(name)
            await self.open.wait()
        return []


@asynccontextmanager
async def running_kit(data_dir: Path, *, work: bool = True) -> AsyncIterator[Kit]:
    """A server over the directory's database, with its controllers at work. Called again, it is the same after a restart."""
    clock = FakeClock()
    database = GatedDatabase(data_dir / "state.db")
    store = Store(database)
    server = compose(Settings(data_dir), credentials(), store, clock, address="127.0.0.1:6443")
    await server.bootstrap(6443)
    working = asyncio.create_task(server.work()) if work else None
    try:
        yield Kit(server, database, clock)
    finally:
        database.gate.set()
        if working is not None:
            working.cancel()
            with suppress(asyncio.CancelledError):
                await working
        await server.webhooks.close()
        await store.close()


def request(method: str, target: str, *, body: bytes = b"", **headers: str) -> Request:
    path, _, query = target.partition("?")
    found = parse_target(unquote(path))
    asked = parse_query(query.encode())
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Request(method, path, asked, named, list(named.items()), body, found, verb_of(method, found, asked))


def _options() -> WriteOptions:
    return WriteOptions(dry_run=False, manager="tester", validation="Ignore", force=None)
