"""What is around every protobuf body: four bytes that say so, the type of the object, and its bytes."""

from __future__ import annotations

from typing import NamedTuple

from ullage.standalone.apiserver.codec.json import MAX_VALUES, too_many_values
from ullage.standalone.apiserver.codec.protobuf import fields, wire
from ullage.standalone.apiserver.codec.protobuf.wire import Garbled, Message, TooManyValues, at_most
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import (
    ApiError,
    bad_request,
    cannot_be_handled,
    not_registered,
    unrecognized,
)

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\0"


class Expected(NamedTuple):
    """What the URL says the body is. A body that does not say what it is, is that."""

    api_version: str
    kind: str


class _Type(NamedTuple):
    api_version: str
    kind: str

    @property
    def version(self) -> str:
        return self.api_version.rpartition("/")[2]


_TYPE_META = Message(
    "TypeMeta",
    [(1, "APIVersion", wire.value("apiVersion", wire.text, keep=True)), (2, "Kind", wire.value("kind", wire.text, keep=True))],
)


def _positions(data: bytes, start: int, stop: int, depth: int) -> tuple[int, int]:
    return start, stop


# The bytes of the object are not copied out: they are read where they stand.
_UNKNOWN = Message(
    "Unknown",
    [(1, "TypeMeta", wire.part("type", lambda: _TYPE_META)), (2, "Raw", wire.value("raw", _positions, keep=True))],
)


def decode(body: bytes, expected: Expected | None = None) -> Json:
    """The object, as its JSON would have been decoded. Raises 400.

    With `expected` the errors are those of a write; without, those of a request whose body is only its options.
    """
    at_most(MAX_VALUES)
    try:
        envelope = _open(body)
    except TooManyValues:
        raise too_many_values() from None
    except Garbled as error:
        raise (unrecognized(expected.kind, str(error), body) if expected else bad_request(str(error))) from None
    found = _type(envelope, expected)
    message = fields.kind(*found)
    if message is None:
        raise _refusal(found, expected, not_registered(found.kind, found.api_version))
    if expected and found.kind != expected.kind:
        group = expected.api_version.rpartition("/")[0].split(".")[0] or "core"
        shown = f"converting ({found.version}.{found.kind}) to ({group}.{expected.kind}): unknown conversion"
        raise _refusal(found, expected, shown)
    obj: Json = {"apiVersion": found.api_version, "kind": found.kind}
    try:
        start, stop = envelope.get("raw", (0, 0))
        message.fill(obj, body, start, stop, 0)
    except TooManyValues:
        raise too_many_values() from None
    except Garbled as error:
        raise _refusal(found, expected, str(error)) from None
    return obj


def _open(body: bytes) -> Json:
    if not body:
        raise Garbled("empty data")
    if not body.startswith(MAGIC):
        raise Garbled("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    if len(body) == len(MAGIC):
        raise Garbled("empty body")
    found: Json = {}
    _UNKNOWN.fill(found, body, len(MAGIC), len(body), 0)
    return found


def _type(envelope: Json, expected: Expected | None) -> _Type:
    named = envelope.get("type", {})
    default = expected or Expected("meta.k8s.io/v1", "DeleteOptions")
    return _Type(named.get("apiVersion") or default.api_version, named.get("kind") or default.kind)


def _refusal(found: _Type, expected: Expected | None, fault: str) -> ApiError:
    if expected is None:
        return bad_request(fault)
    return cannot_be_handled(found.kind, found.version, expected.kind, fault=fault)
