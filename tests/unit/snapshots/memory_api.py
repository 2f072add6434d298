"""An API server in memory for tests of controllers: JSON objects, versions that are conditions, finalizers, watches.

Every effect passes a fuse, so that a test can let the process die right before or right after any of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tests.unit.snapshots.api.objects import patched
from ullage.kube.client.client import Listing, WatchEvent
from ullage.kube.client.codec import object_path
from ullage.kube.errors import AlreadyExists, Conflict, NotFound
from ullage.kube.events.reason import Reason
from ullage.kube.kinds import Kind, Meta, Object

Json = dict[str, Any]
INITIAL_END = {"k8s.io/initial-events-end": "true"}
DELETED = "2026-01-01T00:05:00Z"


class Crash(BaseException):
    """The process is gone. No handler of errors may see it."""


@dataclass
class Fuse:
    """Blows at the moment with this number: each effect has one before it and one after it."""

    blows_at: int = -1
    passed: int = 0
    log: list[str] = field(default_factory=list)

    def before(self, what: str) -> None:
        self._pass()
        self.log.append(what)

    def after(self) -> None:
        self._pass()

    def _pass(self) -> None:
        self.passed += 1
        if self.passed == self.blows_at:
            raise Crash


@dataclass(frozen=True)
class _Place:
    kind: str
    namespace: str
    name: str


class MemoryApi:
    def __init__(self) -> None:
        self.fuse = Fuse()
        self.version = 100
        self.refuse: Callable[[str], None] = lambda what: None  # may raise what the server would answer to a write
        self.not_served: frozenset[str] = frozenset()  # versions of APIs
        self._objects: dict[_Place, Json] = {}
        self._log: list[tuple[int, str, str, Json]] = []
        self._news = asyncio.Event()

    # --- for the test: what others do ---

    def put(self, kind: Kind[Any], body: Json) -> None:
        """Makes an object, or replaces it, whatever was there."""
        place = self._place(kind, body["metadata"].get("namespace", ""), body["metadata"]["name"])
        event = "MODIFIED" if place in self._objects else "ADDED"
        body = deepcopy(body)
        body["metadata"].setdefault("uid", f"uid-{place.name}")
        self._store(place, body, event)

    def body(self, kind: Kind[Any], name: str, namespace: str = "") -> Json | None:
        return self._objects.get(self._place(kind, namespace, name))

    def edit(self, kind: Kind[Any], name: str, namespace: str = "", *, merge: Json) -> None:
        place = self._place(kind, namespace, name)
        self._change(place, patched(self._objects[place], merge))

    def remove(self, kind: Kind[Any], name: str, namespace: str = "") -> None:
        """A user's deletion: finalizers hold it."""
        place = self._place(kind, namespace, name)
        self._change(place, patched(self._objects[place], {"metadata": {"deletionTimestamp": DELETED}}))

    def bodies(self, kind: Kind[Any]) -> list[Json]:
        return [body for place, body in self._objects.items() if place.kind == kind.name]

    async def until(self, condition: Callable[[], bool], seconds: float = 10.0) -> None:
        async with asyncio.timeout(seconds):
            while not condition():
                await self._news.wait()

    # --- what controllers call ---

    async def find(self, kind: Kind[Any], name: str, namespace: str = "") -> Any:
        object_path(kind, name, namespace)  # what can be no name is no question for the client either
        body = self.body(kind, name, namespace)
        return None if body is None else _decoded(kind, body)

    async def create(self, kind: Kind[Any], obj: Any) -> Any:
        body: Json = msgspec.json.decode(msgspec.json.encode(obj))
        meta = body["metadata"]
        place = self._place(kind, meta.get("namespace", ""), meta["name"])

        def write() -> Json:
            if place in self._objects:
                raise AlreadyExists(f"{place.kind} {place.name} already exists", code=409)
            return self._store(place, patched(body, {"metadata": {"uid": f"uid-{place.name}"}}), "ADDED")

        return _decoded(kind, self._effect(f"create {place.kind} {place.name}", write))

    async def patch(
        self,
        kind: Kind[Any],
        name: str,
        namespace: str = "",
        *,
        merge: Mapping[str, Any] | None = None,
        subresource: str = "",
        uid: str = "",
        resource_version: str = "",
    ) -> Any:
        place = self._place(kind, namespace, name)

        def write() -> Json:
            self._checked(place, uid, resource_version)
            return self._change(place, patched(self._objects[place], dict(merge or {})))

        return _decoded(kind, self._effect(f"patch {place.kind} {place.name}", write))

    async def delete(
        self, kind: Kind[Any], name: str, namespace: str = "", *, uid: str = "", resource_version: str = ""
    ) -> None:
        place = self._place(kind, namespace, name)

        def write() -> Json:
            self._checked(place, uid, resource_version)
            return self._change(place, patched(self._objects[place], {"metadata": {"deletionTimestamp": DELETED}}))

        self._effect(f"delete {place.kind} {place.name}", write)

    def _effect(self, what: str, write: Callable[[], Json]) -> Json:
        self.fuse.before(what)
        self.refuse(what)
        done = write()
        self.fuse.after()
        return done

    def _checked(self, place: _Place, uid: str, version: str) -> None:
        body = self._objects.get(place)
        if body is None:
            raise NotFound(f"{place.kind} {place.name} not found", code=404)
        meta = body["metadata"]
        if (uid and uid != meta["uid"]) or (version and version != meta["resourceVersion"]):
            raise Conflict(f"{place.kind} {place.name}: somebody else wrote first", code=409)

    # --- the store ---

    def _place(self, kind: Kind[Any], namespace: str, name: str) -> _Place:
        return _Place(kind.name, namespace if kind.namespaced else "", name)

    def _change(self, place: _Place, body: Json) -> Json:
        """An object that is being deleted goes with its last finalizer."""
        meta = body["metadata"]
        gone = bool(meta.get("deletionTimestamp")) and not meta.get("finalizers")
        return self._store(place, body, "DELETED" if gone else "MODIFIED")

    def _store(self, place: _Place, body: Json, event: str) -> Json:
        self.version += 1
        body = patched(body, {"metadata": {"resourceVersion": str(self.version)}})
        if event == "DELETED":
            self._objects.pop(place, None)
        else:
            self._objects[place] = body
        self._log.append((self.version, place.kind, event, body))
        self._news.set()
        self._news = asyncio.Event()
        return body

    # --- what caches read ---

    async def list(self, kind: Kind[Any], namespace: str = "", **_: Any) -> Listing[Any]:
        return Listing([_decoded(kind, body) for body in self.bodies(kind)], str(self.version))

    async def watch(
        self, kind: Kind[Any], namespace: str = "", *, resource_version: str, initial_events: bool = False, **_: Any
    ) -> AsyncGenerator[WatchEvent[Any], None]:
        seen = int(resource_version or 0)
        if initial_events:
            seen = self.version
            for body in self.bodies(kind):
                yield WatchEvent("ADDED", _decoded(kind, body))
            yield WatchEvent("BOOKMARK", Object(metadata=Meta(resource_version=str(seen), annotations=INITIAL_END)))
        place = seen - 100  # one entry a version
        while True:
            if place == len(self._log):
                await self._news.wait()
                continue
            version, name, event, body = self._log[place]
            place += 1
            if name == kind.name:
                yield WatchEvent(event, _decoded(kind, body))
            else:  # so that a test can wait until a cache has seen everything
                yield WatchEvent("BOOKMARK", Object(metadata=Meta(resource_version=str(version))))

    async def latest(self, kind: Kind[Any], namespace: str = "", *, fields: str = "") -> str:
        return str(self.version)

    async def served(self, kind: Kind[Any]) -> bool:
        return kind.api_version not in self.not_served

    async def absent(self, kind: Kind[Any]) -> str:
        return ""


def _decoded(kind: Kind[Any], body: Json) -> Any:
    return msgspec.json.decode(msgspec.json.encode(body), type=kind.type)


@dataclass
class Told:
    """Takes Events down."""

    events: list[tuple[str, str, str]] = field(default_factory=list)  # type, reason, note

    def record(self, kind: Kind[Any], obj: Object, reason: Reason, *, note: str) -> None:
        self.events.append((reason.type, reason.name, note))

    @property
    def reasons(self) -> list[str]:
        return [reason for _, reason, _ in self.events]

    def of(self, reason: str) -> list[str]:
        """The notes of the Events with a reason."""
        return [note for _, name, note in self.events if name == reason]
