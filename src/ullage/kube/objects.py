"""What controllers do to objects, as pure functions: conditions, owners, finalizers, names, and "did anything change?".

Nothing here talks to an API. Each function gives back the very value that it was given where there is nothing to change, so a
caller may compare with `is` and skip the write.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal

import msgspec

from ullage import names
from ullage.kube.kinds import Kind, Meta, Object, OwnerReference, Value, listed_by
from ullage.times import timestamp

Json = dict[str, Any]

MESSAGE_LIMIT: Final = 32768  # characters, of a condition's message: the API's own limit for its own conditions
_HASH: Final = 10

_REASON: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_LOOKS_HASHED: Final = re.compile(rf".*-[0-9a-f]{{{_HASH}}}")

# --- conditions ------------------------------------------------------------------------------------------------------


# Everything is sent, empty or not, since the usual schema of conditions requires it; little is demanded of what others wrote.
class Condition(Value, omit_defaults=False):
    """One observation of an object's state."""

    type: str
    """The aspect that this is about, in PascalCase: `Ready`, `WithinLimits`."""
    status: Literal["True", "False", "Unknown"]
    """Whether the aspect holds: True, False or Unknown."""
    reason: str = ""
    """Why, in one PascalCase word for programs."""
    message: Annotated[str, msgspec.Meta(extra_json_schema={"maxLength": MESSAGE_LIMIT})] = ""
    """Why, in a sentence for people."""
    observed_generation: int = 0
    """The metadata.generation that this was said about; older than the object's own means that it may be out of date."""
    last_transition_time: Annotated[str, msgspec.Meta(extra_json_schema={"format": "date-time"})] = ""
    """When status last changed."""


Conditions = Annotated[tuple[Condition, ...], listed_by("type")]


def find_condition(conditions: tuple[Condition, ...], type: str) -> Condition | None:
    return next((one for one in conditions if one.type == type), None)


def is_true(conditions: tuple[Condition, ...], type: str, *, generation: int = 0) -> bool:
    """Whether a condition holds; with a generation, whether that was said about this generation or a later one."""
    found = find_condition(conditions, type)
    return found is not None and found.status == "True" and found.observed_generation >= generation


def set_condition(
    conditions: tuple[Condition, ...],
    type: str,
    *,
    status: bool | None,
    reason: str,
    message: str,
    generation: int,
    now: datetime,
) -> tuple[Condition, ...]:
    """The conditions with one set; None is Unknown. The transition time moves only when the status does."""
    if not _REASON.fullmatch(reason):
        raise ValueError(f"condition {type}: the reason {reason!r} is not one PascalCase word")
    old = find_condition(conditions, type)
    said: Literal["True", "False", "Unknown"] = "Unknown" if status is None else "True" if status else "False"
    since = old.last_transition_time if old and old.status == said and old.last_transition_time else timestamp(now)
    new = Condition(
        type=type,
        status=said,
        reason=reason,
        message=message if len(message) <= MESSAGE_LIMIT else f"{message[: MESSAGE_LIMIT - 1]}…",
        observed_generation=generation,
        last_transition_time=since,
    )
    if new == old:
        return conditions
    if old is None:
        return (*conditions, new)
    return tuple(new if one is old else one for one in conditions if one is old or one.type != type)


def drop_condition(conditions: tuple[Condition, ...], type: str) -> tuple[Condition, ...]:
    kept = tuple(one for one in conditions if one.type != type)
    return kept if len(kept) < len(conditions) else conditions


# --- metadata --------------------------------------------------------------------------------------------------------


def is_deleting(meta: Meta) -> bool:
    return meta.deletion_timestamp is not None


def with_finalizer(meta: Meta, finalizer: str) -> Meta:
    if finalizer in meta.finalizers:
        return meta
    return msgspec.structs.replace(meta, finalizers=(*meta.finalizers, finalizer))


def without_finalizer(meta: Meta, finalizer: str) -> Meta:
    if finalizer not in meta.finalizers:
        return meta
    return msgspec.structs.replace(meta, finalizers=tuple(one for one in meta.finalizers if one != finalizer))


def owner_reference(kind: Kind[Any], owner: Meta, *, controller: bool = False) -> OwnerReference:
    """How an object names its owner. The controller's deletion in the foreground waits for what it owns."""
    if not owner.uid:
        raise ValueError(f"{kind.name} {owner.name!r} has no uid yet: only what is in the API can own")
    mark = True if controller else None
    return OwnerReference(
        api_version=kind.api_version,
        kind=kind.kind,
        name=owner.name,
        uid=owner.uid,
        controller=mark,
        block_owner_deletion=mark,
    )


def controller_of(meta: Meta) -> OwnerReference | None:
    return next((one for one in meta.owner_references if one.controller), None)


def is_owned_by(meta: Meta, uid: str) -> bool:
    return any(one.uid == uid for one in meta.owner_references)


# --- names -----------------------------------------------------------------------------------------------------------


def name_for(prefix: str, *parts: str, limit: int = names.SUBDOMAIN_LIMIT) -> str:
    """A name that follows from what it is made for, so that doing something twice makes one object: `snapcontent-<uid>`.

    One part that fits stands as it is. Anything else (too long, characters that names may not have, several parts) is cut
    and ends in a hash of the whole, so different parts never give the same name. Up to 63 characters it is a DNS label.
    """
    if not parts:
        raise ValueError("a name needs something to be made from")
    plain = f"{prefix}-{parts[0]}"
    allowed = names.LABEL if limit <= names.LABEL_LIMIT else names.SUBDOMAIN
    if len(parts) == 1 and len(plain) <= limit and allowed.fullmatch(plain) and not _LOOKS_HASHED.fullmatch(plain):
        return plain
    digest = hashlib.sha256("\0".join((prefix, *parts)).encode()).hexdigest()[:_HASH]
    readable = re.sub(r"[^a-z0-9]+", "-", "-".join((prefix, *parts)).lower())[: limit - _HASH - 1].strip("-")
    return f"{readable}-{digest}" if readable else f"x-{digest}"


# --- changes ---------------------------------------------------------------------------------------------------------


def same(old: object, new: object) -> bool:
    """Whether two values read the same in the API. Unlike `==`, it tells 1 from True and does not ask for equal types."""
    return msgspec.json.encode(old, order="deterministic") == msgspec.json.encode(new, order="deterministic")


def merge_patch(old: Value | Object | Mapping[str, Any], new: Value | Object | Mapping[str, Any]) -> Json | None:
    """The merge patch from one value to another, or None where there is nothing to send.

    A field that went back to its default is sent as null: it is left out of what is encoded, and would otherwise stay.
    """
    return _patch(msgspec.to_builtins(old), msgspec.to_builtins(new)) or None


def _patch(old: Json, new: Json) -> Json:
    made: Json = dict.fromkeys(key for key in old if key not in new)
    for key, value in new.items():
        before = old.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            if inner := _patch(before, value):
                made[key] = inner
        elif key not in old or not same(before, value):
            made[key] = value
    return made
