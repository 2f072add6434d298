"""Where the items of a merged list go: in the patch's order, and those only the server has near their old neighbours."""

from __future__ import annotations

from typing import Any

from ullage.standalone.apiserver.go_text import go_json, go_text
from ullage.standalone.apiserver.status import unclassified

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
