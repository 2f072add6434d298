"""A structural schema, taken apart once: what defaulting, pruning and validation look at on every write.

A `Node` stands for one place in the schema; what is slow to find out (is there any default below?) is an attribute of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from ullage.standalone.apiserver.objects import Json

# A place in an object: the parent's place and the key or index in it. Spelt out only when something is wrong there.
Place = tuple[Any, Any] | None

RESOURCE_FIELDS = frozenset(("apiVersion", "kind", "metadata"))


@dataclass(frozen=True, slots=True)
class Node:
    """One place in a schema."""

    raw: Json
    type: str = ""
    nullable: bool = False
    int_or_string: bool = False
    embedded: bool = False  # a whole Kubernetes object: apiVersion, kind and metadata are fields of it
    open: bool = False  # fields that the schema does not name are kept
    properties: Mapping[str, Node] = field(default_factory=dict)
    additional: Node | None = None
    items: Node | None = None
    list_type: str = ""
    list_keys: tuple[str, ...] = ()
    default: Callable[[], Any] | None = None  # makes a fresh copy
    defaults: tuple[tuple[str, Callable[[], Any]], ...] = ()  # of the properties

    def child(self, key: object) -> Node | None:
        """The schema of a field or an item."""
        if isinstance(key, int):
            return self.items
        return self.properties.get(str(key)) or self.additional


def build(raw: Json) -> Node:
    """The node tree of a structural schema (see `crd.structural` for what makes one structural)."""
    properties = {name: build(schema) for name, schema in (raw.get("properties") or {}).items()}
    additional = raw.get("additionalProperties")
    items = raw.get("items")
    node = Node(
        raw=raw,
        type=raw.get("type", ""),
        nullable=bool(raw.get("nullable")),
        int_or_string=bool(raw.get("x-kubernetes-int-or-string")),
        embedded=bool(raw.get("x-kubernetes-embedded-resource")),
        open=bool(raw.get("x-kubernetes-preserve-unknown-fields")) or additional is True,
        properties=properties,
        additional=build(additional) if isinstance(additional, dict) else None,
        items=build(items) if isinstance(items, dict) else None,
        list_type=raw.get("x-kubernetes-list-type", ""),
        list_keys=tuple(raw.get("x-kubernetes-list-map-keys") or ()),
        defaults=tuple((name, child.default) for name, child in properties.items() if child.default is not None),
    )
    if raw.get("default") is None:
        return node
    return replace(node, default=_maker(node, raw["default"]))


def _maker(node: Node, value: Any) -> Callable[[], Any]:
    """A maker of copies of a default, with the defaults inside it already filled in."""
    if not isinstance(value, (dict, list)):
        return lambda: value
    copy = msgspec.json.decode(msgspec.json.encode(value))
    fill(node, copy)
    frozen = msgspec.json.encode(copy)
    return lambda: msgspec.json.decode(frozen)


def fill(node: Node, value: Any) -> None:
    """Defaults, in place. A null where none may be counts as absent: it becomes the default, or goes."""
    if type(value) is dict:
        for key, make in node.defaults:
            if key not in value:
                value[key] = make()
        nulls: list[str] = []
        properties, additional = node.properties, node.additional
        for key, item in value.items():
            if item is None:
                nulls.append(key)
            elif type(item) is dict or type(item) is list:
                child = properties.get(key) or additional
                if child is not None:
                    fill(child, item)
        if nulls:
            _settle(node, value, nulls)
    elif type(value) is list and node.items is not None:
        items = node.items
        for place, item in enumerate(value):
            if type(item) is dict or type(item) is list:
                fill(items, item)
            elif item is None and items.default is not None and not items.nullable:
                value[place] = items.default()


def _settle(node: Node, value: Json, nulls: list[str]) -> None:
    for key in nulls:
        child = node.child(key)
        if child is None or child.nullable:
            continue
        if child.default is not None:
            value[key] = child.default()
        else:
            del value[key]
