"""From objects to field sets: what an object declares, and what one version of it changed against another.

`declared` is what a manager claims by applying a configuration; `compare` is what a manager touched by any other write.
The two differ on purpose, as on kube-apiserver: a written struct is touched as a whole, a declared one only in its fields.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any, Final, NamedTuple

from ullage.standalone.apiserver.fields.fieldset import EMPTY, LEAF, SELF, Fields
from ullage.standalone.apiserver.fields.shape import ABSENT, Shape
from ullage.standalone.apiserver.go_text import go_json
from ullage.standalone.apiserver.objects import Json

# decoded JSON holds no subclasses, and a test by type is what keeps a create cheap
CONTAINERS: Final = frozenset({dict, list})
NOTHING: Final = type(None)
MAP: Final = (dict, NOTHING)  # null stands for an empty one of either
LIST: Final = (list, NOTHING)
_NAME: Final = itemgetter(0)


class Comparison(NamedTuple):
    """What differs between two versions of an object."""

    changed: Fields  # new or other values
    removed: Fields


def item_step(item: Any, shape: Shape) -> str:
    """The path step of an item in a keyed list or a set."""
    if shape.list_type != "map":
        return f"v:{go_json(item)}"
    keys = shape.map_keys
    if not isinstance(item, dict):
        return "k:{}"
    if len(keys) == 1 and (key := keys[0]) in item:
        return f'k:{{"{key}":{go_json(item[key])}}}'
    found = ((key, item.get(key, shape.key_defaults.get(key, ABSENT))) for key in keys)
    inner = ",".join(f'"{key}":{go_json(value)}' for key, value in found if value is not ABSENT)
    return f"k:{{{inner}}}"


def granular(items: list[Any], shape: Shape) -> bool:
    """Whether the list's items are owned one by one."""
    return shape.list_type in ("map", "set")


def everything(value: Any, shape: Shape) -> Fields:
    """The node of a value that was not there at all before: all that lies in it, and itself."""
    if type(value) is dict:
        if not value or shape.atomic:
            return LEAF
        out: Fields = {SELF: LEAF}
        for name, child in sorted(value.items(), key=_NAME) if len(value) > 1 else value.items():
            out["f:" + name] = everything(child, shape.field(name)) if type(child) in CONTAINERS else LEAF
        return out
    if isinstance(value, list) and value and granular(value, shape):
        inner = shape.element()
        found = {item_step(item, shape): everything(item, inner) for item in value}
        return {SELF: LEAF, **{step: found[step] for step in sorted(found)}}
    return LEAF


def declared(value: Any, shape: Shape) -> Fields:
    """The paths that a configuration claims. The root of the result is the value itself, and no member."""
    if isinstance(value, dict):
        out: Fields = {}
        for name in sorted(value):
            node = _claim(value[name], shape.field(name), member=not shape.declares(name))
            if node is not None:
                out["f:" + name] = node
        return out
    if isinstance(value, list):
        inner = shape.element()
        found = {item_step(item, shape): _claim(item, inner, member=True) for item in value}
        return {step: node for step in sorted(found) if (node := found[step]) is not None}
    return EMPTY


def _claim(value: Any, shape: Shape, *, member: bool) -> Fields | None:
    if isinstance(value, dict):
        if not value or shape.atomic:
            return LEAF
    elif not isinstance(value, list) or not granular(value, shape):
        return LEAF
    inside = declared(value, shape)
    if member:
        return {SELF: LEAF, **inside} if inside else LEAF
    return inside or None


def compare(old: Json, new: Json, shape: Shape) -> Comparison:
    """What a write changed and removed. An object that did not exist is compared as an empty one."""
    changed, removed = _compare_maps(old, new, shape)
    return Comparison(changed or EMPTY, removed or EMPTY)


Pair = tuple[Fields | None, Fields | None]


def _compare(old: Any, new: Any, shape: Shape) -> Pair:
    """Two values of one field, both present."""
    if old == new and isinstance(old, bool) == isinstance(new, bool):
        return None, None
    if isinstance(old, MAP) and isinstance(new, MAP) and (old or new):
        return (LEAF, None) if shape.atomic else _compare_maps(old or {}, new or {}, shape)
    if isinstance(old, LIST) and isinstance(new, LIST) and (old or new) and shape.list_type != "atomic":
        return _compare_lists(old or [], new or [], shape)
    if type(old) not in CONTAINERS and type(new) not in CONTAINERS:
        return LEAF, None
    # from one kind of value to another, where no schema forbids it: what lay inside the old one is gone
    gone = {step: node for step, node in everything(old, shape).items() if step != SELF}
    return everything(new, shape), gone or None


def _compare_maps(old: Json, new: Json, shape: Shape) -> Pair:
    changed: Fields = {}
    removed: Fields = {}
    for name, value in new.items():
        before = old.get(name, ABSENT)
        if before is ABSENT and (before := shape.implied(name)) is ABSENT:
            if value is not None or shape.custom:  # in built-in structs, null is what was there all the time
                changed["f:" + name] = everything(value, shape.field(name)) if type(value) in CONTAINERS else LEAF
        elif before is not value:
            _note(_compare(before, value, shape.field(name)), "f:" + name, changed, removed)
    for name, value in old.items():
        if name in new:
            continue
        if (after := shape.implied(name)) is ABSENT:
            removed["f:" + name] = everything(value, shape.field(name))
        else:
            _note(_compare(value, after, shape.field(name)), "f:" + name, changed, removed)
    return _sorted(changed), removed or None


def _note(pair: Pair, step: str, changed: Fields, removed: Fields) -> None:
    if pair[0] is not None:
        changed[step] = pair[0]
    if pair[1] is not None:
        removed[step] = pair[1]


def _sorted(fields: Fields) -> Fields | None:
    """What was changed is written as it is when it is all that its manager owns, so it is kept in order from the start."""
    if len(fields) < 2:
        return fields or None
    return {step: fields[step] for step in sorted(fields)}


def _compare_lists(old: list[Any], new: list[Any], shape: Shape) -> Pair:
    inner = shape.element()
    before, after = _by_step(old, shape), _by_step(new, shape)
    changed: Fields = {}
    removed: Fields = {}
    for step, items in after.items():
        if step not in before:
            changed[step] = everything(items[-1], inner)
        elif len(items) == len(before[step]) == 1:
            _note(_compare(before[step][0], items[0], inner), step, changed, removed)
        elif items != before[step]:  # an item more than once: no telling which is which, so the whole step changed
            changed[step] = LEAF
    for step, items in before.items():
        if step not in after:
            removed[step] = everything(items[-1], inner)
    return _sorted(changed), removed or None


def _by_step(items: list[Any], shape: Shape) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for item in items:
        found.setdefault(item_step(item, shape), []).append(item)
    return found


def with_named(fields: Fields, shape: Shape) -> Fields:
    """The set, with every declared struct field that leads to a member made a member: removal then takes the struct with it."""
    out = fields
    for step, child in fields.items():
        if not child:
            continue
        name = step[2:]
        is_field = step.startswith("f:")
        inner = shape.field(name) if is_field else shape.element()
        grown = with_named(child, inner)
        if is_field and shape.declares(name) and SELF not in grown:
            grown = {SELF: LEAF, **grown}
        if grown is not child:
            out = dict(fields) if out is fields else out
            out[step] = grown
    return out
