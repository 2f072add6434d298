"""Server-side apply: a manager says what it wants, and owns what it says.

The configuration is merged into the live object; what the manager applied before and no longer names goes, unless somebody else
owns it too; what others own and the configuration would change is a conflict, unless forced.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from ullage.standalone.apiserver.fields.fieldset import (
    EMPTY,
    Fields,
    difference,
    intersection,
    is_member,
    recursive_difference,
    show_path,
    union,
    walk,
)
from ullage.standalone.apiserver.fields.managers import (
    BEFORE_APPLY,
    UNOWNED_META,
    Owner,
    Owners,
    decode,
    encode,
    moved,
    owned,
    touched,
)
from ullage.standalone.apiserver.fields.ownership import LIST, MAP, Comparison, compare, declared, item_step, with_named
from ullage.standalone.apiserver.fields.shape import ABSENT, Shape
from ullage.standalone.apiserver.go_text import go_json, go_text
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import ApiError, apply_conflict, bad_request, unclassified

# Merging a configuration into a live object by its shape, and taking fields out again.


def merge(live: Any, config: Any, shape: Shape) -> Any:
    """The live value with the configuration's laid over it. Neither is changed; what is untouched is shared."""
    if isinstance(live, MAP) and isinstance(config, MAP) and (live or config) and not shape.atomic:
        if not config:
            return live
        out = dict(live or {})
        for name, value in config.items():
            out[name] = merge(out.get(name, ABSENT), value, shape.field(name))
        return out
    if isinstance(live, LIST) and isinstance(config, LIST) and (live or config) and shape.list_type != "atomic":
        return merge_lists(live or [], config or [], shape)
    return config


def merge_lists(live: list[Any], config: list[Any], shape: Shape) -> list[Any]:
    """Items that match by key merge. The configuration's order rules; the others stay near their neighbours."""
    inner = shape.element()
    ours = {item_step(item, shape): item for item in config}
    theirs = [(item_step(item, shape), item) for item in live]
    known = dict(reversed(theirs))  # of repeated items, the first counts
    shared = deque(step for step in ours if step in known)
    waiting = deque(theirs)
    out: list[Any] = []
    for step, item in ours.items():
        while waiting and waiting[0][0] != step:
            if waiting[0][0] not in ours:
                out.append(waiting.popleft()[1])
            elif shared and waiting[0][0] == shared[0]:
                break  # its turn comes after what the configuration puts before it
            else:
                waiting.popleft()  # out of order: it moves to where the configuration has it
        if waiting and waiting[0][0] == step:
            waiting.popleft()
        out.append(merge(known.get(step, ABSENT), item, inner))
        if shared and shared[0] == step:
            shared.popleft()
    out.extend(item for step, item in waiting if step not in ours)
    return out


def without(value: Any, fields: Fields, shape: Shape) -> Any:
    """The value less the fields of a set. A map or list that loses its last item becomes null: it was not to go."""
    if isinstance(value, dict):
        if not value or shape.atomic:
            return None
        kept = {}
        for name, child in value.items():
            node = fields.get("f:" + name)
            if node is None:
                kept[name] = child
            elif not is_member(node):
                kept[name] = without(child, node, shape.field(name))
        return kept or None
    if isinstance(value, list):
        return None if shape.list_type == "atomic" else _without_items(value, fields, shape)
    return value


def _without_items(items: list[Any], fields: Fields, shape: Shape) -> list[Any] | None:
    inner = shape.element()
    kept = []
    for item in items:
        node = fields.get(item_step(item, shape))
        if node is None:
            kept.append(item)
        elif not is_member(node):
            kept.append(without(item, node, inner))
    return kept or None


# What an applied configuration must be before it can be merged: of the schema's form, each list item once. Apply merges
# by the schema, so a configuration that does not fit it cannot be merged at all; kube-apiserver says so in these words.


Path = tuple[str, ...]


def faults(config: Json, shape: Shape) -> str:
    """Everything that keeps the configuration from being merged, as one text; empty if nothing does."""
    found: list[str] = []
    _check(config, shape, (), found)
    if len(found) < 2:
        return "".join(found)
    return "\n  ".join(["errors:", *found])


def _check(value: Any, shape: Shape, path: Path, found: list[str]) -> None:
    if value is None:
        return
    if shape.container == "map":
        if not isinstance(value, dict):
            found.append(f"{show_path(path)}: expected map, got &{{{go_text(value)}}}")
            return
        _check_map(value, shape, path, found)
    elif shape.container == "list":
        if not isinstance(value, list):
            found.append(f"{show_path(path)}: expected list, got &{{{go_text(value)}}}")
            return
        _check_list(value, shape, path, found)
    elif shape.scalar and (fault := _scalar_fault(value, shape.scalar)):
        found.append(f"{show_path(path)}: {fault}")


def _check_map(value: Json, shape: Shape, path: Path, found: list[str]) -> None:
    for name in sorted(value):
        here = (*path, f"f:{name}")
        if shape.closed and not shape.declares(name):
            found.append(f"{show_path(here)}: field not declared in schema")
            return
        _check(value[name], shape.field(name), here, found)


def _check_list(items: list[Any], shape: Shape, path: Path, found: list[str]) -> None:
    inner = shape.element()
    seen: set[str] = set()
    for number, item in enumerate(items):
        if shape.list_type == "atomic":
            step = f"i:{number}"
        elif fault := _item_fault(item, keyed=shape.list_type == "map"):
            found.append(f"{show_path(path)}: element {number}: {fault}")
            return
        else:
            step = item_step(item, shape)
        if step in seen:
            found.append(f"{show_path(path)}: duplicate entries for key {show_path((step,))}")
        seen.add(step)
        _check(item, inner, (*path, step), found)


def _item_fault(item: Any, *, keyed: bool) -> str:
    if keyed:
        return "" if isinstance(item, dict) else "associative list with keys may not have non-map elements"
    match item:
        case None:
            return "associative list without keys has an element that's an explicit null"
        case dict():
            return "associative list without keys has an element that's a map type"
        case list():
            return "not supported: associative list with lists as elements"
        case _:
            return ""


def _scalar_fault(value: Any, want: str) -> str:
    match want:
        case "numeric":
            fits = isinstance(value, int | float) and not isinstance(value, bool)
            return "" if fits else f"expected numeric (int or float), got {_go_type(value)}"
        case "string":
            return "" if isinstance(value, str) else f"expected string, got &value.valueUnstructured{{Value:{go_text(value)}}}"
        case _:
            return "" if isinstance(value, bool) else f"expected boolean, got &{{{go_text(value)}}}"


def _go_type(value: Any) -> str:
    names = {str: "string", bool: "bool", dict: "map[string]interface {}", list: "[]interface {}"}
    return names.get(type(value), "float64")


def where(config: Json, *, api_version: str) -> str:
    """`ns/name; apps/v1, Kind=Deployment`: how the server names the configuration that it refuses."""
    meta = config.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    group_version = api_version if "/" in api_version else f"/{api_version}"
    return f"{meta.get('namespace') or ''}/{meta.get('name') or ''}; {group_version}, Kind={config.get('kind', '')}"


KUBECTL: Final = "kubectl"
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True, slots=True)
class _Apply:
    """One apply: everything that its steps need to know."""

    live: Json  # without managedFields; empty if the object does not exist
    config: Json
    shape: Shape
    reset: Fields
    me: Owner
    owners: Owners  # before this apply


def apply(
    live: Json | None,
    config: Json,
    *,
    manager: str,
    force: bool,
    shape: Shape,
    time: str,
    subresource: str,
    api_version: str,
    reset: Fields = EMPTY,
) -> Json:
    """The object after the apply, with its managedFields. Equal to the live one if nothing changed. 409 on conflicts."""
    config = _checked(config, shape, api_version)
    claims = recursive_difference(owned(declared(config, shape)), reset)
    me = Owner(manager, "Apply", api_version, subresource, "", claims)
    owners = _owners_before(live, me, shape=shape, time=time)
    request = _Apply(_plain(live or {}), config, shape, reset, me, owners)
    result = _pruned(request, merge(request.live, config, shape))
    diff = touched(request.live, result, shape, reset)
    if not force:
        _refuse_conflicts(request, diff)
    previous = owners.get(me.key)
    others = {key: owner for key, owner in owners.items() if key != me.key}
    after = moved(others, diff)
    unchanged = result == request.live
    # the server stamps an applier only when the object itself changed; one that merely shares fields has no time at all
    after[me.key] = replace(me, time=(previous.time if previous else "") if unchanged else time)
    return _finished(request, result, after)


def _checked(config: Json, shape: Shape, api_version: str) -> Json:
    meta = config.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    if meta.get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    nulls = [name for name in UNOWNED_META if name in meta and meta[name] is None]
    if nulls:  # `creationTimestamp: null`, as older clients write it, asks for nothing
        config = {**config, "metadata": {name: value for name, value in meta.items() if name not in nulls}}
    if text := faults(config, shape):
        raise unclassified(f"failed to create typed patch object ({where(config, api_version=api_version)}): {text}")
    return config


def _owners_before(live: Json | None, me: Owner, *, shape: Shape, time: str) -> Owners:
    """The live object's owners. If it has none, a stand-in owns all its fields, so that they are not silently taken."""
    if live is None:
        return {}
    try:
        owners = decode(live["metadata"].get("managedFields") or [], checked=True)
    except (KeyError, ValueError) as error:
        raise unclassified(f"failed to decode managed fields: {error}") from error
    if owners:
        return owners
    fields = owned(compare({}, _plain(live), shape).changed)
    stand_in = Owner(BEFORE_APPLY, "Update", me.api_version, me.subresource, time, fields)
    return {stand_in.key: stand_in} if fields else {}


def _plain(obj: Json) -> Json:
    """The object without managedFields: they take no part in what they describe."""
    meta = obj.get("metadata")
    if not meta or "managedFields" not in meta:
        return obj
    return {**obj, "metadata": {name: value for name, value in meta.items() if name != "managedFields"}}


def _pruned(request: _Apply, merged: Json) -> Json:
    """The merged object less what this manager applied before, names no more, and nobody else owns."""
    previous = request.owners.get(request.me.key)
    shape = request.shape
    if previous is None or not difference(previous.fields, request.me.fields):
        return merged
    last = with_named(previous.fields, shape)
    everything = with_named(declared(merged, shape), shape)
    held = request.me.fields
    for owner in request.owners.values():
        if owner is not previous:
            held = union(held, owner.fields)
    # first everything that was applied goes, with all that lies in it; then what is owned comes back; then what was never ours
    left = _fields_left(merged, last, shape)
    kept = union(left, with_named(held, shape))
    left = _fields_left(merged, difference(everything, kept), shape)
    result: Json = without(merged, intersection(difference(everything, left), last), shape)
    return result


def _fields_left(merged: Json, gone: Fields, shape: Shape) -> Fields:
    return with_named(declared(without(merged, gone, shape) or {}, shape), shape)


def _refuse_conflicts(request: _Apply, diff: Comparison) -> None:
    found = [
        (owner, path)
        for owner in sorted(request.owners.values(), key=_named)
        if owner.key != request.me.key
        for path in walk(intersection(owner.fields, diff.changed))
    ]
    if found and request.me.manager == KUBECTL:
        allowed = set(walk(_client_side_applied(request)))
        found = [(owner, path) for owner, path in found if path not in allowed]
    if found:
        raise _conflict(found)


def _client_side_applied(request: _Apply) -> Fields:
    """What a client-side `kubectl apply` put there and nobody changed since: kubectl takes it over without a conflict."""
    text = (request.live.get("metadata", {}).get("annotations") or {}).get(LAST_APPLIED)
    try:
        applied = msgspec.json.decode(text or "null")
    except msgspec.DecodeError:
        return EMPTY
    if not isinstance(applied, dict):
        return EMPTY
    return difference(declared(applied, request.shape), compare(applied, request.live, request.shape).changed)


def _named(owner: Owner) -> str:
    """`"kubectl-edit" with subresource "scale" using apps/v1`."""
    name = go_json(owner.manager)
    if owner.subresource:
        name += f" with subresource {go_json(owner.subresource)}"
    return f"{name} using {owner.api_version}" if owner.operation == "Update" else name


def _conflict(found: list[tuple[Owner, tuple[str, ...]]]) -> ApiError:
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {_named(owner)}", "field": show_path(path)}
        for owner, path in found
    ]
    if len(causes) == 1:
        return apply_conflict(f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}", causes)
    lines: dict[str, list[str]] = {}
    for owner, path in found:
        lines.setdefault(f"conflicts with {_named(owner)}:", []).append(f"- {show_path(path)}")
    text = "\n".join(line for head, paths in lines.items() for line in (head, *paths))
    return apply_conflict(f"Apply failed with {len(causes)} conflicts: {text}", causes)


def _finished(request: _Apply, result: Json, owners: Owners) -> Json:
    meta: dict[str, Any] = dict(result.get("metadata") or {})
    annotations = meta.get("annotations") or {}
    if request.me.manager == KUBECTL and LAST_APPLIED in annotations:
        # keeps a later client-side apply from undoing this one
        meta["annotations"] = {**annotations, LAST_APPLIED: go_json(_bare(request.config)) + "\n"}
    entries = encode(owners.values())
    if entries:
        meta["managedFields"] = entries
    return {**result, "metadata": meta}


def _bare(config: Json) -> Json:
    meta = config.get("metadata") or {}
    annotations = meta.get("annotations") or {}
    if LAST_APPLIED not in annotations:
        return config
    rest = {name: value for name, value in annotations.items() if name != LAST_APPLIED}
    return {**config, "metadata": {**meta, "annotations": rest}}
