"""Strategic merge patch: a merge patch that knows which lists have keys, with directives for what merging cannot say.

The directives: `$patch: delete | replace` in a map or in an item of a keyed list, `$deleteFromPrimitiveList/<field>`,
`$setElementOrder/<field>`, `$retainKeys`. Only built-in kinds have the marks it needs; custom kinds refuse it.
Nothing of the object or of the patch is changed; what the patch does not touch is shared.
"""

from __future__ import annotations

from typing import Any, Final

from ullage.standalone.apiserver.fields.patch.form import must_be_object
from ullage.standalone.apiserver.fields.patch.merge import pruned
from ullage.standalone.apiserver.fields.shape import Shape
from ullage.standalone.apiserver.go_text import go_json, go_text
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import ApiError, bad_request, unclassified

# Where the items of a merged list go: in the patch's order, and those only the server has near their old neighbours.


Items = list[Any]


def key_of(item: Any, merge_key: str) -> Any:
    """What identifies an item: its merge key's value, or itself in a list of plain values."""
    if merge_key and isinstance(item, dict):
        if merge_key not in item:
            raise unclassified(f"map: {go_text(item)} does not contain declared merge key: {merge_key}")
        item = item[merge_key]
    return go_json(item) if isinstance(item, dict | list) else item


def in_order(merged: Items, wanted: Items, *, server: Items, merge_key: str) -> Items:
    """The merged items: those in `wanted` in its order, the others in the server's, each before the first it preceded there."""
    rank = {key_of(item, merge_key): at for at, item in reversed(list(enumerate(wanted)))}
    before = {key_of(item, merge_key): at for at, item in reversed(list(enumerate(server)))}
    keyed = [(key_of(item, merge_key), item) for item in merged]
    first = sorted(((key, item) for key, item in keyed if key in rank), key=lambda pair: rank[pair[0]])
    rest = sorted(((key, item) for key, item in keyed if key not in rank), key=lambda pair: before.get(pair[0], len(before)))
    out: Items = []
    used = 0  # items of the rest that are in `out`
    for key, item in first:
        while used < len(rest) and key in before and before.get(rest[used][0], len(before)) < before[key]:
            out.append(rest[used][1])
            used += 1
        out.append(item)
    return out + [item for _, item in rest[used:]]


DIRECTIVE: Final = "$patch"
RETAIN_KEYS: Final = "$retainKeys"
DELETE_FROM: Final = "$deleteFromPrimitiveList"
SET_ORDER: Final = "$setElementOrder"


def strategic_merge(obj: Json, patch: Any, shape: Shape) -> Json:
    """The object after the patch."""
    if patch is None:
        return obj
    must_be_object(patch)
    return _merge_map(obj, patch, shape)


def _merge_map(old: Json, patch: Json, shape: Shape) -> Json:
    if DIRECTIVE in patch:
        return _whole_map(patch)
    out = dict(old)
    patch = _retain_keys(out, dict(patch))
    patch = _set_orders(out, patch, shape)
    for key, value in patch.items():
        if key.startswith(DELETE_FROM):
            _delete_primitives(out, _field_of(key, DELETE_FROM, "primitive list"), value)
        elif value is None:
            out.pop(key, None)
        elif key not in out:
            out[key] = pruned(value)
        else:
            out[key] = _merge_value(out[key], value, shape.field(key))
    return out


def _whole_map(patch: Json) -> Json:
    match patch[DIRECTIVE]:
        case "replace":
            return {key: value for key, value in patch.items() if key != DIRECTIVE}
        case "delete":
            return {}
        case other:
            raise _unknown_directive(other, patch)


def _unknown_directive(directive: Any, patch: Json) -> ApiError:
    shown = go_text(directive) if isinstance(directive, str) else f"%!s(int64={go_text(directive)})"
    return unclassified(f"unknown patch type: {shown} in map: {go_text(patch)}")


def _merge_value(old: Any, value: Any, shape: Shape) -> Any:
    if isinstance(old, dict) and isinstance(value, dict):
        return value if "replace" in shape.patch_strategy else _merge_map(old, value, shape)
    if isinstance(old, list) and isinstance(value, list) and "merge" in shape.patch_strategy:
        return _merge_list(old, value, shape)
    return value


def _retain_keys(out: Json, patch: Json) -> Json:
    """`$retainKeys` names all the fields that may be left: of a union, the old member goes when a new one comes."""
    if RETAIN_KEYS not in patch:
        return patch
    names = patch.pop(RETAIN_KEYS)
    named = [key for key, value in patch.items() if value is not None and not key.startswith((DELETE_FROM, SET_ORDER))]
    kept = {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()
    if not isinstance(names, list) or any(key not in kept for key in named):
        raise bad_request("invalid patch format of retainKeys")
    for key in [key for key in out if key not in kept]:
        del out[key]
    return patch


def _field_of(key: str, directive: str, what: str) -> str:
    head, slash, field = key.partition("/")
    if head != directive or not slash:
        raise bad_request(f"invalid patch format of {what}")
    return field


def _set_orders(out: Json, patch: Json, shape: Shape) -> Json:
    """Lists that come with an order: merged here, with it, and taken out of the patch."""
    for key in [key for key in patch if key.startswith(SET_ORDER)]:
        order = patch.pop(key)
        field = _field_of(key, SET_ORDER, "setElementOrder list")
        if not isinstance(order, list):
            raise unclassified(f"expected a []interface {{}}, but received a {_go_type(order)}")
        old, new = out.get(field), patch.get(field)
        inner = shape.field(field)
        if isinstance(new, list):
            _check_order(new, order, inner.merge_key)
            del patch[field]
            merged = _merge_value(old, new, inner) if isinstance(old, list) else new
        elif isinstance(old, list):
            merged = old
        else:
            continue
        out[field] = in_order(merged, order, server=old if isinstance(old, list) else [], merge_key=inner.merge_key)
    return patch


def _go_type(value: Any) -> str:
    return {str: "string", bool: "bool", dict: "map[string]interface {}", type(None): "<nil>"}.get(type(value), "int64")


def _check_order(items: Items, order: Items, merge_key: str) -> None:
    """Every item that the patch brings must stand in the order, in that order."""
    wanted = [key_of(item, merge_key) for item in order]
    at = 0
    for item in items:
        if isinstance(item, dict) and item.get(DIRECTIVE) == "delete":
            continue
        key = key_of(item, merge_key)
        while at < len(wanted) and wanted[at] != key:
            at += 1
        if at == len(wanted):
            raise unclassified(
                f"The order in patch list:\n{go_text(items)}\n doesn't match $setElementOrder list:\n{go_text(order)}\n"
            )
        at += 1


def _delete_primitives(out: Json, field: str, values: Any) -> None:
    old = out.get(field)
    if not isinstance(old, list) or not isinstance(values, list):
        return
    _same_kind(old, values)
    gone = {key_of(value, "") for value in values}
    out[field] = [item for item in old if key_of(item, "") not in gone]


def _merge_list(old: Items, patch: Items, shape: Shape) -> Items:
    if not old and not patch:
        return old
    _same_kind(old, patch)
    if not isinstance((old or patch)[0], dict):
        merged = list(dict.fromkeys([*old, *patch]))
        return in_order(merged, patch, server=old, merge_key="")
    if not shape.merge_key:
        raise unclassified("cannot merge lists without merge key")
    old, patch = _list_directives(old, patch, shape.merge_key)
    merged = list(old)
    places: dict[Any, int] = {}  # the first item of each key, of the items that were looked at
    looked_at = 0
    for item in patch:
        key = key_of(item, shape.merge_key)
        while key not in places and looked_at < len(merged):
            places.setdefault(key_of(merged[looked_at], shape.merge_key), looked_at)
            looked_at += 1
        if key in places:
            merged[places[key]] = _merge_map(merged[places[key]], item, shape.element())
        else:
            merged.append(pruned(item))
    return in_order(merged, patch, server=old, merge_key=shape.merge_key)


def _same_kind(old: Items, patch: Items) -> None:
    kinds = {_kind(item) for item in (*old, *patch)}
    if len(kinds) > 1:
        raise unclassified(f"list element types are not identical: {go_text([old, patch])}")
    if list in kinds:
        raise unclassified("lists of lists are not supported")


def _kind(item: Any) -> type:
    return float if type(item) is int else type(item)


def _list_directives(old: Items, patch: Items, merge_key: str) -> tuple[Items, Items]:
    """Carries out `$patch` in items; returns the list to merge into and the items left to merge."""
    plain: Items = []
    replaced = False
    keys: Items | None = None  # of the old items, once they are asked for
    gone: set[Any] = set()
    for item in patch:
        match item.get(DIRECTIVE):
            case None:
                plain.append(item)
            case "delete":
                gone.add(key_of(item, merge_key))
                keys = [key_of(mine, merge_key) for mine in old] if keys is None else keys
            case "replace":
                replaced = True
            case "merge":
                raise unclassified("merging lists cannot yet be specified in the patch")
            case other:
                raise _unknown_directive(other, item)
    if replaced:
        return plain, []
    return [mine for mine, key in zip(old, keys, strict=True) if key not in gone] if keys else old, plain
