"""What is checked beside the keywords: lists that are sets or maps have no duplicates, embedded objects say what they are.

Compiled apart from them since most schemas have none of it, and since a list that had duplicates before may keep them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.schema.faults import Check, Fault
from ullage.standalone.apiserver.schema.node import Node, Place
from ullage.standalone.apiserver.schema.prune import spell
from ullage.standalone.apiserver.status import duplicate, invalid_value


def compile_lists(node: Node) -> Check | None:
    """Finds duplicates in the lists at and below a node; None where no list forbids them."""
    return _walk(node, _unique(node), compile_lists)


def compile_embedded(node: Node) -> Check | None:
    """Judges apiVersion and kind of the objects embedded at and below a node; None where there are none."""
    return _walk(node, _identified if node.embedded else None, compile_embedded)


def _walk(node: Node, here: Check | None, compile_below: Callable[[Node], Check | None]) -> Check | None:
    fields = {name: below for name, child in node.properties.items() if (below := compile_below(child)) is not None}
    additional = compile_below(node.additional) if node.additional else None
    items = compile_below(node.items) if node.items else None
    if not (here or fields or additional or items):
        return None

    def check(value: Any, place: Place, faults: list[Fault]) -> None:
        if here is not None:
            here(value, place, faults)
        if type(value) is dict:
            for key, item in value.items():
                if (below := fields.get(key) or additional) is not None:
                    below(item, (place, key), faults)
        elif type(value) is list and items is not None:
            for index, item in enumerate(value):
                items(item, (place, index), faults)

    return check


def _unique(node: Node) -> Check | None:
    if node.list_type not in ("set", "map"):
        return None
    keys = tuple(sorted(node.list_keys)) if node.list_type == "map" else None

    def check(value: Any, place: Place, faults: list[Fault]) -> None:
        if type(value) is not list or len(value) < 2:
            return
        seen: dict[Any, int] = {}
        for index, item in enumerate(value):
            if keys is not None and type(item) is not dict:
                continue
            identity = item if keys is None else {key: item[key] for key in keys if key in item}
            mark = identity if type(identity) is str else msgspec.json.encode(identity, order="deterministic")
            seen[mark] = seen.get(mark, 0) + 1
            if seen[mark] == 2:  # told once, however many follow
                faults.append(Fault(place, duplicate(spell((place, index)), identity)))

    return check


def _identified(value: Any, place: Place, faults: list[Fault]) -> None:
    if type(value) is not dict:
        return
    kind, version = value.get("kind"), value.get("apiVersion")
    if type(kind) is str:
        detail = "must not be empty" if not kind else "may not contain '/'" if "/" in kind else ""
        if detail:
            faults.append(Fault(place, invalid_value(spell((place, "kind")), kind, detail)))
    if type(version) is str:
        detail = "must not be empty" if not version else ""
        if version.count("/") > 1:
            detail = f"unexpected GroupVersion string: {version}"
        if detail:
            faults.append(Fault(place, invalid_value(spell((place, "apiVersion")), version, detail)))


def embedded_objects(node: Node, value: Any, place: Place = None) -> list[tuple[Place, Json]]:
    """Every embedded object with its place."""
    found: list[tuple[Place, Json]] = []
    if type(value) is dict:
        if node.embedded:
            found.append((place, value))
        for key, item in value.items():
            if (child := node.child(key)) is not None and type(item) in (dict, list):
                found += embedded_objects(child, item, (place, key))
    elif type(value) is list and node.items is not None:
        for index, item in enumerate(value):
            found += embedded_objects(node.items, item, (place, index))
    return found
