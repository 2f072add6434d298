"""What both APIs write down in the same way, and how it is read.

Schemas let more through than makes sense: a leap second, a size below zero, a time before the calendar begins. What cannot be
read is as good as absent. Nothing here raises: an object that cannot be read would stop everything that waits for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

import msgspec

from ullage.kube.kinds import QUANTITY, Meta, Value
from ullage.kube.objects import MESSAGE_LIMIT, Json, merge_patch
from ullage.quantity import Format, Quantity, QuantityError
from ullage.snapshots.model import Ref
from ullage.times import read_time, timestamp

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

INT64: Final = msgspec.Meta(extra_json_schema={"format": "int64"})
TIME: Final = msgspec.Meta(extra_json_schema={"format": "date-time"})
WHOLE: Final = msgspec.Meta(extra_json_schema={"x-kubernetes-map-type": "atomic"})  # one owner for all of its fields
Size = Annotated[str | int, QUANTITY]


class ObjectReference(Value):
    """Names another object."""

    api_version: str = ""
    """The group and version that the object is known by."""
    field_path: str = ""
    """A part of the object; not used here."""
    kind: str = ""
    """The kind of the object."""
    name: str = ""
    """The name of the object."""
    namespace: str = ""
    """The namespace of the object; empty for objects that are in none."""
    resource_version: str = ""
    """The version of the object that is meant; not used here."""
    uid: str = ""
    """The uid of the object: another one of the same name, later or elsewhere, is not meant."""


# --- reading ---------------------------------------------------------------------------------------------------------


def read_nanoseconds(since_1970: int) -> datetime | None:
    try:
        return _EPOCH + timedelta(microseconds=since_1970 // 1000)
    except OverflowError:
        return None


def read_size(size: str | int) -> int | None:
    """Bytes from a quantity."""
    try:
        found = Quantity.parse(str(size)).value()
    except QuantityError:
        return None
    return found if found >= 0 else None


def read_ref(ref: ObjectReference) -> Ref:
    return Ref(ref.namespace, ref.name, ref.uid)


def read_secret(meta: Meta, *, name: str, namespace: str) -> Ref | None:
    """The secret that two annotations name; half a name is none."""
    found = Ref(meta.annotations.get(namespace, ""), meta.annotations.get(name, ""))
    return found if found.namespace and found.name else None


# --- writing ---------------------------------------------------------------------------------------------------------
#
# What is there is left alone where it reads as what is wanted: another program may have written it in its own way, and
# neither must correct the other for ever.


def write_time(moment: datetime | None, old: str) -> str:
    """To the second, as the API does."""
    if moment is None:
        return ""
    kept = read_time(old)
    return old if kept is not None and timestamp(kept) == timestamp(moment) else timestamp(moment)


def write_nanoseconds(moment: datetime | None, old: int | msgspec.UnsetType) -> int | msgspec.UnsetType:
    if moment is None:
        return msgspec.UNSET
    if isinstance(old, int) and read_nanoseconds(old) == moment:
        return old
    return (moment - _EPOCH) // _MICROSECOND * 1000


def write_size(size: int | None, old: str | int) -> str | int:
    if size is None:
        return ""
    return old if read_size(old) == size else str(Quantity.of(size, Format.BINARY_SI))


def clipped(message: str) -> str:
    return message if len(message) <= MESSAGE_LIMIT else f"{message[: MESSAGE_LIMIT - 1]}…"


def bound_to(old: ObjectReference, ref: Ref) -> Json | None:
    """The change to a reference that makes it name this snapshot."""
    return merge_patch(old, msgspec.structs.replace(old, namespace=ref.namespace, name=ref.name, uid=ref.uid))


def reference(ref: Ref, *, kind: str, api_version: str) -> Json:
    return {"kind": kind, "apiVersion": api_version, "namespace": ref.namespace, "name": ref.name, "uid": ref.uid}


def secret_names(secret: Ref | None, *, name: str, namespace: str) -> dict[str, str | None]:
    """The change to two annotations that makes them name a Secret, or none."""
    return {name: secret.name if secret else None, namespace: secret.namespace if secret else None}


def new_metadata(meta: Meta, *, finalizer: str, more: Mapping[str, str]) -> Json:
    """The metadata of a record that is to be created, with more annotations. One that would be empty is left out."""
    return {
        "name": meta.name,
        "labels": dict(meta.labels),
        "annotations": {**meta.annotations, **{key: value for key, value in more.items() if value}},
        "finalizers": [finalizer],
    }
