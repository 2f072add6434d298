"""Pruning: fields that a schema does not name are dropped, and their paths told.

Numbers are put in order on the same walk: `1.0` in a field of numbers is stored as `1`, as Go writes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.schema.node import RESOURCE_FIELDS, Node, Place

_CLOSED = Node(raw={})
_NUMERIC = ("integer", "number")
MetadataPruner = Callable[[Json], list[str]]


class MapKey(str):
    """A key that is written `[key]`, as rules name the entries of a map."""

    __slots__ = ()


def spell(place: Place) -> str:
    """`spec.ports[0].name`."""
    parts: list[str] = []
    while place is not None:
        place, key = place
        parts.append(f".{key}" if type(key) is str else f"[{key}]")
    return "".join(reversed(parts)).removeprefix(".")


def prune(
    node: Node, value: Any, place: Place, unknown: list[str], *, metadata: MetadataPruner | None, root: bool = False
) -> None:
    """Drops from `value` what `node` does not name. `metadata` prunes the metadata of embedded objects."""
    if type(value) is list:
        items = node.items
        if items is None:
            if node.open:
                return
            items = _CLOSED
        for index, item in enumerate(value):
            if type(item) is dict or type(item) is list:
                prune(items, item, (place, index), unknown, metadata=metadata)
        return
    properties, additional = node.properties, node.additional
    unnamed: list[str] = []
    whole = root or node.embedded
    for key, item in value.items():
        if whole and key in RESOURCE_FIELDS:
            if key == "metadata" and not root and metadata is not None and type(item) is dict:
                unknown.extend(f"{spell((place, key))}.{field}" for field in metadata(item))
            continue
        child = properties.get(key) or additional
        if child is None:
            if not node.open:
                unnamed.append(key)
        elif type(item) is dict or type(item) is list:
            prune(child, item, (place, key), unknown, metadata=metadata)
        elif type(item) is float and item.is_integer() and abs(item) < 1e21 and child.type in _NUMERIC:
            value[key] = int(item)
    for key in unnamed:
        del value[key]
        unknown.append(spell((place, key)))
