"""Merging a configuration into a live object by its shape, and taking fields out again."""

from __future__ import annotations

from collections import deque
from typing import Any

from ullage.standalone.apiserver.fields.fieldset import Fields, is_member
from ullage.standalone.apiserver.fields.ownership import LIST, MAP, item_step
from ullage.standalone.apiserver.fields.shape import ABSENT, Shape


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
