"""Ratcheting: on an update, a value that was already so before is not held against the request.

A schema may have become stricter since the object was stored; whoever changes something else must not have to mend it.
Looked at only once something is wrong, so it costs nothing on a good request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.schema.faults import Fault
from ullage.standalone.apiserver.schema.node import Node, Place


def still_wrong(node: Node, new: Json, *, old: Json, faults: list[Fault]) -> list[Fault]:
    """The faults that stand: those in values that the request changed, and those of rules on the change itself."""
    changes = _Changes(node, new, old)
    return [fault for fault in faults if not fault.ratchets or not changes.at(fault.place).unchanged]


@dataclass(frozen=True, slots=True)
class _Change:
    """A place in the new object, and what was there before."""

    unchanged: bool  # it or anything around it
    node: Node | None = None
    new: Any = None
    old: Any = None
    counterparts: Counterparts | None = None  # of a list's items


class _Changes:
    """Every place is compared once, however many faults are below it."""

    def __init__(self, node: Node, new: Json, old: Json) -> None:
        self._known: dict[Place, _Change] = {None: _change(node, new, old)}

    def at(self, place: Place) -> _Change:
        way = [place]
        while way[-1] not in self._known:
            way.append(way[-1][0] if way[-1] is not None else None)
        found = self._known[way.pop()]
        while way:
            here = way.pop()
            if here is not None:
                found = self._known[here] = _below(found, here[1])
        return found


def _below(around: _Change, key: Any) -> _Change:
    new, old, node = around.new, around.old, around.node
    if around.unchanged:
        return around
    if type(new) is dict and type(old) is dict and key in new and key in old:
        return _change(node.child(key) if node is not None else None, new[key], old[key])
    if around.counterparts is not None and node is not None and type(new) is list and key < len(new):
        counterpart = around.counterparts.find(new[key])
        if counterpart is not None:
            return _change(node.child(key), new[key], counterpart)
    return _Change(unchanged=False)


def _change(node: Node | None, new: Any, old: Any) -> _Change:
    lists = node is not None and type(new) is list and type(old) is list
    return _Change(same(new, old), node, new, old, Counterparts(node, old) if lists and node is not None else None)


def same(a: Any, b: Any) -> bool:
    """Equal as JSON: 1, 1.0 and true are three things."""
    return msgspec.json.encode(a, order="deterministic") == msgspec.json.encode(b, order="deterministic")


class Counterparts:
    """The items of an old list, by what new items that continue them are known by: only lists with keys tell."""

    def __init__(self, node: Node, old: list[Any]) -> None:
        self._keys = node.list_keys
        self._items: dict[bytes, Any] = {}
        if node.list_type == "map":
            for item in old:
                if type(item) is dict:
                    self._items.setdefault(self._mark(item), item)

    def find(self, item: Any) -> Any:
        return self._items.get(self._mark(item)) if self._items and type(item) is dict else None

    def _mark(self, item: Json) -> bytes:
        return msgspec.json.encode([item.get(key) for key in self._keys], order="deterministic")
