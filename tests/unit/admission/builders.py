"""Reviews as an API server would post them, and an API server in memory for what the admission server writes there."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import jsonpatch
import msgspec

from ullage.admission.paths import KEY_BYTES, Paths, PathState
from ullage.kube.client.client import Client
from ullage.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from ullage.kube.kinds import Kind, Object
from ullage.kube.review import Request, Review

Json = dict[str, Any]
T = TypeVar("T", bound=Object)

CONFIG_MAP: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n"}}


def review_json(**fields: Any) -> Json:
    request: Json = {
        "uid": "u-1",
        "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "resource": {"group": "", "version": "v1", "resource": "configmaps"},
        "requestKind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "name": "a",
        "namespace": "n",
        "operation": "CREATE",
        "userInfo": {"username": "jane", "groups": ["devs"], "extra": {"scopes": ["a", "b"]}},
        "object": CONFIG_MAP,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request | fields}


def review_body(**fields: Any) -> bytes:
    return msgspec.json.encode(review_json(**fields))


def review(**fields: Any) -> Review:
    return Review(msgspec.json.decode(msgspec.json.encode(review_json(**fields)["request"]), type=Request))


def plain_paths(*hooks: str) -> Paths:
    """Hooks that are served without a token."""
    return Paths(hooks, PathState(b"k" * KEY_BYTES, plain=True))


@dataclass
class FakeApi:
    """Objects by kind and name, with versions. `fail` is raised by the next call; `before_create` lets another one win."""

    objects: dict[tuple[str, str], Json] = field(default_factory=dict)
    fail: ApiError | None = None
    writes: list[str] = field(default_factory=list)
    create_answer: ApiError | None = None

    def __post_init__(self) -> None:
        self._versions = itertools.count(1)
        self._applied: dict[tuple[str, str], set[str]] = {}  # the names of the webhooks that were applied last
        self.after_apply: Callable[[Json], None] = lambda obj: None
        self.before_write: list[Callable[[], object]] = []  # what somebody else does right before each of the next patches

    @property
    def client(self) -> Client:
        return cast(Client, self)

    async def find(self, kind: Kind[T], name: str, namespace: str = "") -> T | None:
        self._maybe_fail()
        found = self.objects.get((kind.kind, name))
        return msgspec.convert(found, kind.type) if found is not None else None

    async def get(self, kind: Kind[T], name: str, namespace: str = "") -> T:
        found = await self.find(kind, name, namespace)
        if found is None:
            raise NotFound(f"{kind.plural} {name!r} not found", code=404)
        return found

    async def create(self, kind: Kind[T], obj: T, *, dry_run: bool = False) -> T:
        self._maybe_fail()
        if self.create_answer is not None:
            raise self.create_answer
        if (kind.kind, obj.metadata.name) in self.objects:
            raise AlreadyExists("taken", code=409)
        return obj if dry_run else self._store(kind, msgspec.to_builtins(obj), "create")

    async def update(self, kind: Kind[T], obj: T) -> T:
        self._maybe_fail()
        self._check(kind, obj.metadata.name, obj.metadata.resource_version)
        return self._store(kind, msgspec.to_builtins(obj), "update")

    async def patch(
        self,
        kind: Kind[T],
        name: str,
        namespace: str = "",
        *,
        apply: Json | None = None,
        json_patch: list[Json] | None = None,
        field_manager: str,
        force: bool = False,
        resource_version: str = "",
    ) -> T:
        self._maybe_fail()
        if self.before_write:
            self.before_write.pop(0)()
        if resource_version:
            self._check(kind, name, resource_version)
        if json_patch is not None:
            await self.get(kind, name)
            return self._store(kind, jsonpatch.apply_patch(self.objects[kind.kind, name], json_patch), "patch")
        wanted = msgspec.json.decode(msgspec.json.encode(apply))
        if "webhooks" in wanted:  # a map by name: what others have put there stays
            ours = {entry["name"] for entry in wanted["webhooks"]}
            before = self.objects.get((kind.kind, name), {}).get("webhooks", [])
            known = ours | self._applied.get((kind.kind, name), set())
            added = {
                entry["name"]: {"matchConditions": entry["matchConditions"]} for entry in before if "matchConditions" in entry
            }
            # So does what they have put into an entry of ours.
            wanted["webhooks"] = [{**added.get(entry["name"], {}), **entry} for entry in wanted["webhooks"]]
            wanted["webhooks"] += [entry for entry in before if entry["name"] not in known]
            self._applied[kind.kind, name] = ours
        stored = self._store(kind, wanted, "apply")
        self.after_apply(self.objects[kind.kind, name])
        return stored

    async def delete(self, kind: Kind[Any], name: str, namespace: str = "", *, resource_version: str = "") -> None:
        self._maybe_fail()
        if (kind.kind, name) not in self.objects:
            raise NotFound("gone", code=404)
        if resource_version:
            self._check(kind, name, resource_version)
        self.writes.append(f"delete {kind.kind} {name}")
        del self.objects[kind.kind, name]

    def _maybe_fail(self) -> None:
        error, self.fail = self.fail, None
        if error is not None:
            raise error

    def _check(self, kind: Kind[Any], name: str, version: str) -> None:
        found = self.objects.get((kind.kind, name))
        if found is None or found["metadata"]["resourceVersion"] != version:
            raise Conflict("somebody else wrote first", code=409)

    def _store(self, kind: Kind[T], obj: Json, verb: str) -> T:
        name = obj["metadata"]["name"]
        obj = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(next(self._versions))}}
        self.objects[kind.kind, name] = obj
        self.writes.append(f"{verb} {kind.kind} {name}")
        return msgspec.convert(obj, kind.type)
