"""Between typed objects and the API's JSON: paths with safe names, bodies, pages, events.

Decoding takes the quick way first: a whole page straight into typed objects. Only where that fails does it look closer:
fields that are null count as absent, as they do everywhere in Kubernetes, and what still does not fit is named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Generic, TypeVar, cast
from urllib.parse import quote

import msgspec

from ullage.errors import BadInput
from ullage.kube.errors import Status, Unavailable, Undecodable, from_status
from ullage.kube.kinds import Kind, Meta, Object, Value, decode_as_go
from ullage.kube.objects import Json

T = TypeVar("T", bound=Object)

MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"  # JSON is YAML
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
INITIAL_END = "k8s.io/initial-events-end"
LONGEST_STATUS = 64 * 1024  # bytes, at the end of a watch: what it says is kept with the error


class ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str | None = msgspec.field(name="continue", default=None)


class Page(msgspec.Struct, Generic[T]):
    """A list as the API sends it. An empty one may have `items: null`."""

    metadata: ListMeta
    items: list[T] | None = None


class _RawPage(msgspec.Struct):
    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


class _RawEvent(msgspec.Struct):
    type: str
    object: msgspec.Raw


class WatchEvent(msgspec.Struct, Generic[T], frozen=True):
    """One event of a watch. In a BOOKMARK only the metadata is filled: how far the watch has come."""

    type: str  # ADDED, MODIFIED, DELETED, BOOKMARK
    object: T

    @property
    def resource_version(self) -> str:
        return self.object.metadata.resource_version

    @property
    def ends_initial_events(self) -> bool:
        """Whether this bookmark says that everything that was there at the start has been told."""
        return self.type == "BOOKMARK" and self.object.metadata.annotations.get(INITIAL_END) == "true"


_raw_pages = msgspec.json.Decoder(_RawPage)
_raw_events = msgspec.json.Decoder(_RawEvent)
_statuses = msgspec.json.Decoder(Status)


@lru_cache(maxsize=256)
def _objects(kind: type[T]) -> msgspec.json.Decoder[T]:
    return msgspec.json.Decoder(kind)


@lru_cache(maxsize=256)
def _pages(kind: type[T]) -> msgspec.json.Decoder[Page[T]]:
    return msgspec.json.Decoder(cast("type[Page[T]]", Page[kind]))  # type: ignore[valid-type]  # known at run time only


def decode(kind: Kind[T], data: bytes | msgspec.Raw) -> T:
    """One object of the kind."""
    try:
        return cast(T, decode_as_go(data, _objects(kind.type)))
    except msgspec.ValidationError as error:
        raise _undecodable(kind, data, error) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _garbage(kind, error) from error


def decode_page(kind: Kind[T], data: bytes) -> Page[T]:
    try:
        return _pages(kind.type).decode(data)
    except msgspec.ValidationError:
        pass  # one odd object, or the list itself: look closer
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _garbage(kind, error) from error
    try:
        page = _raw_pages.decode(data)
    except msgspec.ValidationError as error:
        raise _garbage(kind, error) from error
    return Page(page.metadata, [decode(kind, item) for item in page.items or ()])


def decode_event(kind: Kind[T], line: bytes, *, what: str) -> WatchEvent[T]:
    """One line of a watch. An ERROR event is raised as what it stands for."""
    try:
        event = _raw_events.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _garbage(kind, error) from error
    if event.type == "ERROR":
        try:
            status = _statuses.decode(event.object if len(event.object) <= LONGEST_STATUS else b"")
        except msgspec.DecodeError:
            status = Status(message=f"{what}: the watch ended with an error")
        raise from_status(status, code=500, what=what)
    if event.type == "BOOKMARK":
        plain = Kind(kind.group, kind.version, kind.kind, kind.plural, Object)  # the type may demand fields that it lacks
        return WatchEvent(event.type, cast(T, decode(plain, event.object)))
    return WatchEvent(event.type, decode(kind, event.object))


def encode(kind: Kind[T], obj: T) -> bytes:
    """The object with its apiVersion and kind, which types do not carry."""
    head = msgspec.json.encode({"apiVersion": kind.api_version, "kind": kind.kind})
    body = msgspec.json.encode(obj)
    return head if body == b"{}" else head[:-1] + b"," + body[1:]


def encode_status(kind: Kind[Any], metadata: Meta, status: Value) -> bytes:
    """A status, and as much of its object as says which one it is, in which version: a server reads no more of one."""
    named = Meta(
        name=metadata.name,
        namespace=metadata.namespace,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
    )
    return msgspec.json.encode({"apiVersion": kind.api_version, "kind": kind.kind, "metadata": named, "status": status})


def encode_json(value: Any) -> bytes:
    return msgspec.json.encode(value)


def object_path(kind: Kind[Any], name: str, namespace: str, subresource: str = "") -> str:
    """The path of one object. Neither its name nor its namespace can lead anywhere else."""
    return kind.path(_namespace(kind, namespace), _segment("name", name), subresource)


def collection_path(kind: Kind[Any], namespace: str, *, needed: bool = False) -> str:
    """The path of all objects, or of those in one namespace; `needed` where the kind must have one (create)."""
    return kind.path(_namespace(kind, namespace) if namespace or needed else "")


def _namespace(kind: Kind[Any], namespace: str) -> str:
    return _segment("namespace", namespace) if kind.namespaced else ""


def _segment(where: str, text: str) -> str:
    if not text:
        raise BadInput(where, "(empty)", f"a {where} is needed here")
    if text in {".", ".."} or "/" in text or "%" in text:
        raise BadInput(where, text, "it may not be . or .. and may not contain / or %")
    return quote(text, safe=":")


def patch_body(
    kind: Kind[Any],
    name: str,
    *,
    merge: Mapping[str, Any] | None,
    json_patch: Sequence[Json] | None,
    apply: Mapping[str, Any] | None,
    uid: str,
    resource_version: str,
) -> tuple[str, bytes]:
    """A patch's content type and bytes. The server takes uid and resourceVersion in it as conditions, not as changes."""
    if sum(given is not None for given in (merge, json_patch, apply)) != 1:
        raise TypeError("give exactly one of merge, json_patch and apply")
    wanted = {key: value for key, value in (("uid", uid), ("resourceVersion", resource_version)) if value}
    if json_patch is not None:
        # No `test` operations: a failing test is a 422, which nobody retries.
        demands = [{"op": "replace", "path": f"/metadata/{key}", "value": value} for key, value in wanted.items()]
        return JSON_PATCH, msgspec.json.encode([*json_patch, *demands])
    if merge is not None:
        conditions = {"metadata": {**(merge.get("metadata") or {}), **wanted}} if wanted else {}
        return MERGE_PATCH, msgspec.json.encode({**merge, **conditions})
    body = {"apiVersion": kind.api_version, "kind": kind.kind, **(apply or {})}
    body["metadata"] = {"name": name, **body.get("metadata", {}), **wanted}
    return APPLY_PATCH, msgspec.json.encode(body)


def _undecodable(kind: Kind[Any], data: bytes | msgspec.Raw, error: msgspec.ValidationError) -> Undecodable:
    raw = msgspec.json.decode(data)
    metadata = raw.get("metadata") if isinstance(raw, dict) else None
    found = metadata if isinstance(metadata, dict) else {}
    place = "/".join(str(found[key]) for key in ("namespace", "name") if found.get(key))
    return Undecodable(f"{kind.name} {place}: {error}", reason="Undecodable")


def _garbage(kind: Kind[Any], error: Exception) -> Unavailable:
    return Unavailable(f"{kind.name}: the server sent something that is not what was asked for", reason="Garbage")
