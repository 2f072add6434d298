"""Ratcheting: on an update, a value that was already so before is not held against the request.

A schema may have become stricter since the object was stored; whoever changes something else must not have to mend it.
Looked at only once something is wrong, so it costs nothing on a good request.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ullage.standalone.apiserver.schema.faults import Fault
from ullage.standalone.apiserver.schema.node import Node, Place
from ullage.standalone.apiserver.status import Json


def still_wrong(node: Node, new: Json, *, old: Json, faults: list[Fault]) -> list[Fault]:
    """The faults that stand: those in values that the request changed, and those of rules on the change itself."""
    return [fault for fault in faults if not fault.ratchets or not _unchanged(node, new, old=old, place=fault.place)]


def _unchanged(node: Node | None, new: Any, *, old: Any, place: Place) -> bool:
    for key in _keys(place):
        if same(new, old):
            return True
        if type(new) is dict and type(old) is dict and key in new and key in old:
            new, old = new[key], old[key]
        elif type(new) is list and type(old) is list and node is not None and key < len(new):
            counterpart = find_counterpart(node, new[key], old)
            if counterpart is None:
                return False
            new, old = new[key], counterpart
        else:
            return False
        node = node.child(key) if node is not None else None
    return same(new, old)


def _keys(place: Place) -> list[Any]:
    keys: list[Any] = []
    while place is not None:
        place, key = place
        keys.append(key)
    return keys[::-1]


def same(a: Any, b: Any) -> bool:
    """Equal as JSON: 1, 1.0 and true are three things."""
    return msgspec.json.encode(a, order="deterministic") == msgspec.json.encode(b, order="deterministic")


def find_counterpart(node: Node, item: Any, old: list[Any]) -> Any:
    """The item of an old list that a new item continues: only lists with keys tell."""
    if node.list_type != "map" or type(item) is not dict:
        return None
    wanted = [item.get(key) for key in node.list_keys]
    return next((one for one in old if type(one) is dict and [one.get(key) for key in node.list_keys] == wanted), None)
