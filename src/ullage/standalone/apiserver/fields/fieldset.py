"""Sets of field paths, in the very form in which managedFields carries them (FieldsV1).

A set is the tree of its paths, as plain dicts: `{"f:spec": {"f:tags": {".": {}, 'v:"a"': {}}}}`. A node is a member of the set
if it is empty or holds `.`; else it only leads to members. The root is no path and so never a member: an empty root is an empty
set. A path's step reads `f:<field>`, `k:<keys of a list item>`, `v:<value in a set>` or `i:<index>`.

Nodes are shared between sets and never changed: every operation returns its operand itself where nothing had to change, so that
"did anything change" is an identity test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from ullage.standalone.apiserver.go_text import go_json

Fields = dict[str, "Fields"]

LEAF: Final[Fields] = {}
SELF: Final = "."
EMPTY: Final[Fields] = {}


def is_member(node: Fields) -> bool:
    return not node or SELF in node


def union(left: Fields, right: Fields) -> Fields:
    """Every path of either set."""
    if not right:
        return left
    return _join(left, right) if left else right


def _join(left: Fields, right: Fields) -> Fields:
    if left is right:
        return left
    if not right:
        return left if is_member(left) else {SELF: LEAF, **left}
    if not left:
        return right if is_member(right) else {SELF: LEAF, **right}
    out = left
    for step, theirs in right.items():
        ours = left.get(step)
        joined = theirs if ours is None else _join(ours, theirs)
        if joined is not ours:
            out = dict(left) if out is left else out
            out[step] = joined
    return out


def difference(left: Fields, right: Fields) -> Fields:
    """The paths of the left set that are not in the right one. A path's children are paths of their own."""
    if not left or not right:
        return left
    return _minus(left, right) or EMPTY


def _minus(left: Fields, right: Fields) -> Fields | None:
    if not right:
        return _without(left)
    if not left:
        return None if SELF in right else left
    return _subtract(left, right, _minus)


def recursive_difference(left: Fields, right: Fields) -> Fields:
    """The left set without the right one's paths and everything below them."""
    if not left or not right:
        return left
    return _cut(left, right) or EMPTY


def _cut(left: Fields, right: Fields) -> Fields | None:
    if is_member(right):
        return None
    return _subtract(left, right, _cut) if left else left


def _subtract(left: Fields, right: Fields, minus: Callable[[Fields, Fields], Fields | None]) -> Fields | None:
    out = left
    for step, theirs in right.items():
        ours = left.get(step)
        if ours is None:
            continue
        rest = minus(ours, theirs)
        if rest is not ours:
            out = dict(left) if out is left else out
            if rest is None:
                del out[step]
            else:
                out[step] = rest
    return _tidy(out)


def _without(node: Fields) -> Fields | None:
    """The node, no longer a member itself."""
    if SELF not in node:
        return node or None
    return {step: child for step, child in node.items() if step != SELF} or None


def _tidy(node: Fields) -> Fields | None:
    """None for a node that leads nowhere; a member without children is a leaf."""
    if len(node) == 1 and SELF in node:
        return LEAF
    return node or None


def intersection(left: Fields, right: Fields) -> Fields:
    """The paths that are in both sets."""
    if not left or not right:
        return EMPTY
    return _common(left, right) or EMPTY


def _common(left: Fields, right: Fields) -> Fields | None:
    if not left or not right:
        return LEAF if is_member(left) and is_member(right) else None
    out: Fields = {}
    for step, ours in left.items():
        theirs = right.get(step)
        if theirs is None:
            continue
        both = LEAF if step == SELF else _common(ours, theirs)
        if both is not None:
            out[step] = both
    return _tidy(out)


def ordered(fields: Fields) -> Fields:
    """The same set with the steps of every node in order, as the server writes them."""
    if not fields:
        return fields
    return {step: ordered(fields[step]) for step in sorted(fields)}


def walk(fields: Fields, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every path: at each node first the members among the children, then what lies below them."""
    steps = sorted(step for step in fields if step != SELF)
    for step in steps:
        if is_member(fields[step]):
            yield (*path, step)
    for step in steps:
        yield from walk(fields[step], (*path, step))


def well_formed(fields: Any) -> bool:
    """Whether a client's FieldsV1 can be read as a set."""
    if not isinstance(fields, dict):
        return False
    return all((step == SELF or _readable(step)) and well_formed(child) for step, child in fields.items())


def _readable(step: str) -> bool:
    kind, _, rest = step.partition(":")
    if kind == "f":
        return ":" in step
    try:
        value = msgspec.json.decode(rest)
    except msgspec.DecodeError:
        return False
    return kind == "v" or (kind == "k" and isinstance(value, dict)) or (kind == "i" and isinstance(value, int))


def show_path(path: tuple[str, ...]) -> str:
    """`.spec.containers[name="web"].image`, as messages print a path."""
    return "".join(map(_show_step, path))


def _show_step(step: str) -> str:
    kind, _, rest = step.partition(":")
    match kind:
        case "f":
            return f".{rest}"
        case "k":
            keys: dict[str, Any] = msgspec.json.decode(rest)
            return f"[{','.join(f'{key}={go_json(value)}' for key, value in keys.items())}]"
        case "v":
            return f"[={rest}]"
        case _:
            return f"[{rest}]"
