"""How the sizes of a namespace's snapshots are known: how many by which method. A running count, so that a look costs nothing.

The method stands on each object that pays, where Ullage alone writes it. What somebody has written there before is not
believed to be a method.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from ullage.kube.cache.cache import Cache
from ullage.kube.kinds import Object
from ullage.ledger.charging.methods import METHODS
from ullage.ledger.charging.stamps import ESTIMATED_BY, STAMP
from ullage.ledger.keys import namespace_of

T = TypeVar("T", bound=Object)

NOTHING: Final = "{}"  # a stamp that takes nothing


def method_of(obj: Object) -> str:
    """Empty where it pays nothing, or where nobody has said."""
    annotations = obj.metadata.annotations
    method = annotations.get(ESTIMATED_BY, "")
    return method if method in METHODS and annotations.get(STAMP, NOTHING) != NOTHING else ""


class EstimateCounts:
    def __init__(self) -> None:
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)  # by namespace
        self._listeners: list[Callable[[str], None]] = []

    def follow(self, cache: Cache[T], ledger_of: Callable[[T], str]) -> None:
        """Counts the objects of a cache; `ledger_of` is empty for those that are in none."""

        def changed(old: T | None, new: T | None) -> None:
            before, after = (_place(one, ledger_of) for one in (old, new))
            if before != after:
                self._add(before, -1)
                self._add(after, 1)

        cache.handle(changed)

    def handle(self, listener: Callable[[str], None]) -> None:
        """Has every namespace told whose counts change."""
        self._listeners.append(listener)

    def of(self, namespace: str) -> Mapping[str, int]:
        return dict(self._counts.get(namespace, {}))

    def _add(self, place: tuple[str, str] | None, sign: int) -> None:
        if place is None:
            return
        namespace, method = place
        counts = self._counts[namespace]
        counts[method] += sign
        if not counts[method]:
            del counts[method]
            if not counts:
                del self._counts[namespace]
        for listener in self._listeners:
            listener(namespace)


def _place(obj: T | None, ledger_of: Callable[[T], str]) -> tuple[str, str] | None:
    if obj is None:
        return None
    namespace, method = namespace_of(ledger_of(obj)), method_of(obj)
    return (namespace, method) if namespace and method else None
