"""An object from the version in which it is stored to the one that is asked for, and back; and lists of such objects."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ullage.standalone.apiserver.kinds.resources import Resource
from ullage.standalone.apiserver.limits.pieces import Part
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.storage.entries import Entry

_encode = msgspec.json.encode
_decode = msgspec.json.decode


def head_of(resource: Resource) -> bytes:
    """How the JSON of every object begins: `ordered` sees to it, so a version can be told without decoding."""
    return b'{"apiVersion":' + _encode(resource.api_version) + b',"kind":' + _encode(resource.kind) + b","


def ordered(obj: Json, api_version: str, kind: str) -> Json:
    """The object with its type first, ready to be stored."""
    rest = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata")}
    return {"apiVersion": api_version, "kind": kind, "metadata": obj.get("metadata") or {}, **rest}


class View:
    """One resource's objects, in the version in which it is served. Made once for each resource."""

    __slots__ = ("_head", "_resource")

    def __init__(self, resource: Resource) -> None:
        self._resource = resource
        self._head = head_of(resource)

    def is_stored(self, data: bytes, rv: int) -> bool:
        """Whether the stored bytes are the object in this version: nearly always."""
        return rv >= self._resource.since and data.startswith(self._head)

    def data(self, data: bytes, rv: int) -> bytes:
        """The object's JSON in this version."""
        if self.is_stored(data, rv):
            return data
        return _encode(self.obj(data, rv))

    def obj(self, data: bytes, rv: int) -> Json:
        """The object in this version, as a dict of the caller's own."""
        obj: Json = _decode(data)
        resource = self._resource
        stale = rv < resource.since
        if not data.startswith(self._head):
            if resource.from_storage is not None:
                obj = resource.from_storage(obj)
            obj = ordered(obj, resource.api_version, resource.kind)
            stale = True
        if stale and resource.custom is not None and resource.schema is not None:
            resource.schema.prune(obj)
            resource.schema.default(obj)
        return obj

    def stored(self, obj: Json) -> Json:
        """The way back: this version's object as it is stored."""
        resource = self._resource
        if resource.to_storage is not None:
            obj = resource.to_storage(obj)
        return ordered(obj, resource.storage_version, resource.kind)

    def listed(self, entries: Sequence[Entry], meta: Json) -> bytes:
        """The `<Kind>List`. Items of built-in kinds carry no type of their own, as on kube-apiserver."""
        items = [b"".join(self.item(entry)) for entry in entries]
        return b"".join((self.list_head(meta)[:-1], b',"items":[', b",".join(items), b"]}"))

    def item(self, entry: Entry) -> tuple[Part, ...]:
        """An object as it stands in a list, in parts that are not copied."""
        data = self.data(entry.data, entry.rv)
        return (data,) if self._resource.custom is not None else (b"{", memoryview(data)[len(self._head) :])

    def list_head(self, meta: Json) -> bytes:
        """The list without its items."""
        resource = self._resource
        kind = resource.list_kind or f"{resource.kind}List"
        return _encode({"kind": kind, "apiVersion": resource.api_version, "metadata": meta})


def view(resource: Resource) -> View:
    """The resource's view, made once: it lives as long as the resource, which a changed definition replaces."""
    found: View | None = resource.memo.get("view")
    if found is None:
        found = resource.memo["view"] = View(resource)
    return found
