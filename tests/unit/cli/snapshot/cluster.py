"""A cluster in memory as `ullage snapshot` sees one: objects of any kind, selectors, things that may not be read."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import msgspec

from ullage.cli.common.session import BOTH, Session, dialects
from ullage.cli.snapshot.found import Found
from ullage.kube.client.client import Client, Listing
from ullage.kube.errors import AlreadyExists, ApiError, Forbidden, NotFound
from ullage.kube.kinds import Kind
from ullage.selectors import FieldSelector, LabelSelector, field_text

Json = dict[str, Any]
GA, PROTOTYPE = BOTH
REQUESTED = "2026-05-01T11:50:00Z"


class Cluster:
    """`before` is called before every read: a test moves the world there."""

    def __init__(self, *absent: Kind[Any]) -> None:
        self.objects: dict[tuple[str, str, str], Json] = {}
        self.absent = {kind.name for kind in absent}
        self.hidden: set[str] = set()  # the names of kinds that may not be read
        self.only_in = ""  # the one namespace that may be read, and nothing of the whole cluster
        self.asked: list[tuple[str, str, str]] = []  # verb, kind, selector or name
        self.before: Callable[[], None] = lambda: None

    def session(self, namespace: str = "shop", dialect: str | None = None) -> Session:
        return Session(cast(Client, self), namespace, dialects(dialect))

    def put(self, kind: Kind[Any], body: Json, *, namespace: str = "shop") -> Json:
        place = namespace if kind.namespaced else ""
        name = body["metadata"]["name"]
        meta = {
            "uid": f"uid-{name}",
            "creationTimestamp": REQUESTED,
            **({"namespace": place} if place else {}),
            **body["metadata"],
        }
        self.objects[kind.name, place, name] = {**body, "metadata": meta}
        return self.objects[kind.name, place, name]

    def snapshot(self, name: str, claim: str, *, dialect: Any = GA, status: Json | None = None, **meta: Any) -> Found:
        spec = {"source": {"persistentVolumeClaimName": claim}} if dialect is GA else {"persistentVolumeClaimName": claim}
        namespace = meta.pop("namespace", "shop")
        body = self.put(
            dialect.snapshots, {"metadata": {"name": name, **meta}, "spec": spec, "status": status or {}}, namespace=namespace
        )
        return Found(dialect, msgspec.convert(body, dialect.snapshots.type))

    # --- what is called ---

    async def find(self, kind: Kind[Any], name: str, namespace: str = "") -> Any:
        self._ask("get", kind, name)
        if kind.name in self.absent:
            raise NotFound("the server could not find the requested resource", code=404)
        body = self.objects.get((kind.name, namespace if kind.namespaced else "", name))
        return None if body is None else msgspec.convert(body, kind.type)

    async def list(self, kind: Kind[Any], namespace: str = "", *, labels: str = "", fields: str = "") -> Listing[Any]:
        self._ask("list", kind, labels or fields)
        if self.only_in not in ("", namespace):
            raise forbidden(kind)
        if kind.name in self.absent:
            raise NotFound("the server could not find the requested resource", code=404)
        found = [
            body
            for (name, place, _), body in self.objects.items()
            if name == kind.name
            and namespace in ("", place)
            and LabelSelector.parse(labels).matches(body["metadata"].get("labels"))
            and FieldSelector.parse(fields).matches(partial(field_text, body))
        ]
        return Listing([msgspec.convert(body, kind.type) for body in found], "1")

    async def served(self, kind: Kind[Any]) -> bool:
        return kind.name not in self.absent

    async def create(self, kind: Kind[Any], obj: Any, *, dry_run: bool = False) -> Any:
        self._ask("dry create" if dry_run else "create", kind, obj.metadata.name)
        if kind.name in self.absent:
            raise NotFound("the server could not find the requested resource", code=404)
        if (kind.name, obj.metadata.namespace, obj.metadata.name) in self.objects:
            raise AlreadyExists(f'{kind.name} "{obj.metadata.name}" already exists', code=409)
        body = msgspec.to_builtins(obj)
        if not dry_run:
            body = self.put(kind, body, namespace=obj.metadata.namespace)
        return msgspec.convert(body, kind.type)

    async def patch(
        self, kind: Kind[Any], name: str, namespace: str = "", *, merge: Json, uid: str = "", dry_run: bool = False
    ) -> Any:
        """Of annotations and labels; None takes one off."""
        self._ask("dry patch" if dry_run else "patch", kind, name)
        body = self.objects[kind.name, namespace, name]
        assert body["metadata"]["uid"] == uid
        for part, values in () if dry_run else merge["metadata"].items():
            had = {**body["metadata"].get(part, {}), **values}
            body["metadata"][part] = {key: value for key, value in had.items() if value is not None}
        return msgspec.convert(body, kind.type)

    async def delete(self, kind: Kind[Any], name: str, namespace: str = "", *, uid: str = "", dry_run: bool = False) -> None:
        self._ask("dry delete" if dry_run else "delete", kind, name)
        assert self.objects[kind.name, namespace, name]["metadata"]["uid"] == uid
        if not dry_run:
            del self.objects[kind.name, namespace, name]

    def _ask(self, verb: str, kind: Kind[Any], what: str) -> None:
        self.before()
        self.asked.append((verb, kind.name, what))
        if kind.name in self.hidden:
            raise forbidden(kind)


def forbidden(kind: Kind[Any]) -> ApiError:
    return Forbidden(f'{kind.name} is forbidden: User "eve" cannot read it', code=403)
