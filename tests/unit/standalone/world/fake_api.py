"""An API in a dictionary, with merge patches and versions, that ends a process before any write; and caches that are behind."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from typing import Any, cast

import msgspec

from ullage.kube.builtin.core import CLAIMS, NODES, PERSISTENT_VOLUMES, PODS
from ullage.kube.builtin.storage import STORAGE_CLASSES
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Indexer, Key
from ullage.kube.client.client import Client
from ullage.kube.errors import AlreadyExists, Conflict, NotFound
from ullage.kube.events.recorder import Recorder
from ullage.kube.kinds import Kind, Object
from ullage.kube.slices import Wiring

Json = dict[str, Any]
KINDS: tuple[Kind[Any], ...] = (CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES, PODS, NODES)


class Killed(BaseException):
    """The process is gone."""


class FakeApi:
    def __init__(self) -> None:
        self.objects: dict[tuple[str, Key], Json] = {}
        self.writes: list[str] = []
        self.die_before: int | None = None  # the number of the write that is never made
        self._version = 100

    def put(self, kind: Kind[Any], obj: Object) -> None:
        self._store(kind, cast(Json, msgspec.to_builtins(obj)))

    def take(self, kind: Kind[Any], name: str, namespace: str = "") -> None:
        del self.objects[kind.name, Key(namespace, name)]

    def _store(self, kind: Kind[Any], body: Json) -> Json:
        self._version += 1
        body["metadata"]["resourceVersion"] = str(self._version)
        meta = body["metadata"]
        self.objects[kind.name, Key(meta.get("namespace", ""), meta["name"])] = body
        return body

    def _write(self, what: str) -> None:
        if self.die_before == len(self.writes):
            raise Killed
        self.writes.append(what)

    # --- what the client can do ---

    async def find(self, kind: Kind[Any], name: str, namespace: str = "") -> Any:
        found = self.objects.get((kind.name, Key(namespace, name)))
        return None if found is None else msgspec.convert(found, kind.type)

    async def patch(
        self,
        kind: Kind[Any],
        name: str,
        namespace: str = "",
        *,
        merge: Json,
        subresource: str = "",
        resource_version: str = "",
        uid: str = "",
    ) -> Any:
        found = self.objects.get((kind.name, Key(namespace, name)))
        if found is None:
            raise NotFound(f"{kind.name} {name}")
        if resource_version not in ("", found["metadata"]["resourceVersion"]) or uid not in ("", found["metadata"]["uid"]):
            raise Conflict(f"{kind.name} {name}")
        self._write(f"{kind.plural}{'/' * bool(subresource)}{subresource} {name}")
        body = self._store(kind, merged(copy.deepcopy(found), json.loads(json.dumps(merge))))
        meta = body["metadata"]
        if meta.get("deletionTimestamp") and not meta.get("finalizers"):
            self.take(kind, name, namespace)
        return msgspec.convert(body, kind.type)

    async def request(self, method: str, path: str, *, body: bytes) -> bytes:
        kind = next(kind for kind in KINDS if f"/{kind.plural}" in path)
        given = json.loads(body)
        name = path.rpartition("/")[2]
        self._write(f"{method} {kind.plural} {given['metadata']['name'] if method == 'POST' else name}")
        if method == "POST":
            if (kind.name, Key("", given["metadata"]["name"])) in self.objects:
                raise AlreadyExists("there")
            self._store(kind, {**given, "metadata": {**given["metadata"], "uid": f"uid-{name}"}})
        else:
            found = self.objects[kind.name, Key("", name)]
            found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            if found["metadata"].get("finalizers"):
                self._store(kind, found)
            else:
                self.take(kind, name)
        return b"{}"

    # --- what is built on it ---

    @property
    def client(self) -> Client:
        return cast(Client, self)

    def wiring(self) -> Wiring:
        """Caches of what is there at this moment, and nothing that comes later."""
        return cast(Wiring, Caches(self.client, self.objects))


def merged(target: Json, patch: Json) -> Json:
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            target[key] = merged(target.get(key) or {}, value)
        else:
            target[key] = value
    return target


class Caches:
    def __init__(self, client: Client, objects: dict[tuple[str, Key], Json]) -> None:
        self.client = client
        self._objects = copy.deepcopy(objects)

    def cache(self, kind: Kind[Any]) -> Cache[Any]:
        cache: FakeCache = FakeCache()
        for (name, key), body in self._objects.items():
            if name == kind.name:
                cache.put(key, msgspec.convert(body, kind.type))
        return cast(Cache[Any], cache)


class FakeCache(Indexer[Any]):
    def items(self) -> Iterable[Any]:
        return list(self)


class Told:
    """A recorder that remembers reasons and notes."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.notes: list[str] = []

    def record(self, kind: Kind[Any], obj: Object, reason: Any, *, note: str) -> None:
        self.reasons.append(reason.name)
        self.notes.append(note)

    @property
    def recorder(self) -> Recorder:
        return cast(Recorder, self)
