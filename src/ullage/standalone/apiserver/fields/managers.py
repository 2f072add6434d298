"""managedFields: who set which field last, kept on every write as kube-apiserver keeps it.

An object's entries become `Owner`s, a write moves fields between them, and they become entries again. `track_update` is the
whole of it for create, update and the patches that are not apply; `merge.py` does the same for apply.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Final

from ullage.standalone.apiserver.fields.fieldset import (
    EMPTY,
    LEAF,
    SELF,
    Fields,
    difference,
    intersection,
    ordered,
    recursive_difference,
    union,
    well_formed,
)
from ullage.standalone.apiserver.fields.ownership import Comparison, compare
from ullage.standalone.apiserver.fields.shape import Shape
from ullage.standalone.apiserver.objects import Json, dig

MOST_UPDATERS: Final = 10
ANCIENT: Final = "ancient-changes"
BEFORE_APPLY: Final = "before-first-apply"

# what the server itself writes on every object, or what names it: nobody owns these
UNOWNED_META: Final = (
    "creationTimestamp", "generation", "managedFields", "name", "namespace", "resourceVersion", "selfLink", "uid",
)  # fmt: skip
_UNOWNED_STEPS: Final = frozenset({SELF, *(f"f:{name}" for name in UNOWNED_META)})


@dataclass(frozen=True, slots=True)
class Owner:
    """One entry of managedFields."""

    manager: str
    operation: str  # Apply or Update
    api_version: str
    subresource: str
    time: str
    fields: Fields

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What makes two entries the same manager. An applier stays the same when it moves to another version."""
        return self.manager, self.operation, "" if self.operation == "Apply" else self.api_version, self.subresource

    @property
    def order(self) -> tuple[str, str, str, str, str]:
        return self.operation, self.time, self.manager, self.api_version, self.subresource

    def entry(self) -> Json:
        found: Json = {"manager": self.manager, "operation": self.operation, "apiVersion": self.api_version, "time": self.time}
        found = {key: value for key, value in found.items() if value}
        found["fieldsType"] = "FieldsV1"
        found["fieldsV1"] = self.fields
        if self.subresource:
            found["subresource"] = self.subresource
        return found


Owners = dict[tuple[str, str, str, str], Owner]


def track_update(
    live: Json | None,
    new: Json,
    *,
    manager: str,
    subresource: str,
    api_version: str,
    time: str,
    shape: Shape,
    reset: Fields = EMPTY,
) -> None:
    """Sets `new["metadata"]["managedFields"]` for a write that is not an apply.

    `reset` are the fields that this endpoint cannot write (`reset_fields`): a change there is no change.
    Call it on the defaulted object, before admission: what webhooks add is owned by nobody.
    """
    meta = new.setdefault("metadata", {})
    sent = meta.pop("managedFields", None)
    before = live["metadata"].get("managedFields") if live is not None else None
    if subresource or (sent == [] and shape.custom):
        sent = None  # the one writes nothing but its own fields, the other reads as "not sent" on custom kinds
    owners = owners_to_start(before, sent)
    if live is not None and not owners:
        return  # ownership was reset, and stays off until somebody applies
    diff = touched(live or {}, new, shape, reset)
    if diff.changed or diff.removed:
        me = Owner(manager, "Update", api_version, subresource, time, diff.changed)
        mine = owners.get(me.key)
        owners = moved(owners, diff)
        if diff.changed:
            owners[me.key] = (
                me if mine is None else replace(me, fields=_grown(difference(mine.fields, diff.removed), diff.changed))
            )
        owners = capped(owners)
    if entries := encode(owners.values()):
        meta["managedFields"] = entries


def _grown(fields: Fields, more: Fields) -> Fields:
    """The union, in order. A manager that writes its own fields again, the usual case, costs no sorting."""
    found = union(fields, more)
    return fields if found is fields else ordered(found)


def track_scale(live: Json, new: Json, *, manager: str, api_version: str, path: Sequence[str] = ("spec", "replicas")) -> None:
    """The same for a write through the scale endpoint, which sees one field of the object, at `path`, and knows no time.

    As on kube-apiserver, a count that nobody owns stays so: only one that is owned changes hands.
    """
    entries = live["metadata"].get("managedFields") or []
    owners = _decoded_or_none(entries)
    field = reduce(lambda inner, name: {f"f:{name}": inner}, reversed(path), LEAF)
    is_owned = any(intersection(owner.fields, field) for owner in owners.values())
    if is_owned and dig(live, *path) != dig(new, *path):
        owners = moved(owners, Comparison(field, EMPTY))
        me = Owner(manager, "Update", api_version, "scale", "", field)
        owners[me.key] = me
        entries = encode(capped(owners).values())
    if entries:
        new["metadata"]["managedFields"] = entries


def touched(old: Json, new: Json, shape: Shape, reset: Fields) -> Comparison:
    """What a write changed and removed, but for what nobody owns and what the endpoint cannot write."""
    changed, removed = compare(old, new, shape)
    return Comparison(recursive_difference(owned(changed), reset), recursive_difference(owned(removed), reset))


def owned(fields: Fields) -> Fields:
    """The set without the fields that are never owned."""
    found = {step: node for step, node in fields.items() if step not in ("f:apiVersion", "f:kind")}
    meta = found.pop("f:metadata", None)
    if meta and (kept := {step: node for step, node in meta.items() if step not in _UNOWNED_STEPS}):
        found["f:metadata"] = kept
    return found if list(found) == sorted(found) else {step: found[step] for step in sorted(found)}


def moved(owners: Owners, diff: Comparison) -> Owners:
    """The owners after somebody else's write: they lose what was changed or removed; who has nothing left is gone."""
    found: Owners = {}
    for key, owner in owners.items():
        fields = difference(difference(owner.fields, diff.changed), diff.removed)
        if fields:
            found[key] = owner if fields is owner.fields else replace(owner, fields=fields)
    return found


def owners_to_start(live: list[Json] | None, sent: Any) -> Owners:
    """The owners before a write: the live object's, unless the client sent others that can be read, or asked for a reset."""
    if sent is None or sent == live:
        return _decoded_or_none(live)
    if sent in ([], [{}]):
        return {}
    try:
        return decode(sent) or _decoded_or_none(live)
    except ValueError:
        return _decoded_or_none(live)


def _decoded_or_none(entries: list[Json] | None) -> Owners:
    try:
        return decode(entries or (), checked=True)
    except ValueError:
        return {}


def decode(entries: Any, *, checked: bool = False) -> Owners:
    """Entries to owners. ValueError says why the entries cannot be read; our own (`checked`) are not searched for faults."""
    if not isinstance(entries, list | tuple):
        raise ValueError("managed fields must be a list")
    found: Owners = {}
    for number, entry in enumerate(entries):
        if not checked and (fault := _fault(entry, number)):
            raise ValueError(fault)
        fields: Fields = entry.get("fieldsV1") or EMPTY
        owner = Owner(
            entry.get("manager") or "",
            entry["operation"],
            entry["apiVersion"],
            entry.get("subresource") or "",
            entry.get("time") or "",
            fields,
        )
        found[owner.key] = owner
    return found


def _fault(entry: Any, number: int) -> str:
    if not isinstance(entry, dict) or entry.get("operation") not in ("Apply", "Update"):
        return "operation must be `Apply` or `Update`"
    if not entry.get("apiVersion"):
        return "apiVersion must not be empty"
    if entry.get("fieldsType") != "FieldsV1":
        return f"missing or invalid fieldsType in managed fields entry {number}"
    return "" if well_formed(entry.get("fieldsV1") or EMPTY) else f"invalid fieldsV1 in managed fields entry {number}"


def encode(owners: Iterable[Owner]) -> list[Json]:
    return [owner.entry() for owner in sorted(owners, key=lambda owner: owner.order) if owner.fields]


def capped(owners: Owners) -> Owners:
    """At most ten updaters: the oldest of each version melt into one entry, so that an object cannot grow for ever."""
    updaters = sorted((o for o in owners.values() if o.operation == "Update"), key=lambda o: (o.time, o.manager, o.api_version))
    excess = len(updaters) - MOST_UPDATERS
    if excess <= 0:
        return owners
    kept = dict(owners)
    first: dict[str, Owner] = {}
    for oldest in updaters:
        if excess <= 0:
            break
        key = (ANCIENT, "Update", oldest.api_version, "")
        previous = first.setdefault(oldest.api_version, oldest)
        if previous is oldest or oldest.key == key:
            continue
        bucket = kept.get(key) or kept.pop(previous.key)
        del kept[oldest.key]
        kept[key] = replace(oldest, manager=ANCIENT, subresource="", fields=ordered(union(bucket.fields, oldest.fields)))
        excess -= 1
    return kept
