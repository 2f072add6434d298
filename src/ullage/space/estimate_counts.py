"""How the sizes of a namespace's snapshots are known: how many by which method, and by how much those may pass a limit that are
estimated by the last snapshot. A running count, so that a look costs nothing.

The method stands on each object that pays, where Ullage alone writes it. What somebody has written there before is not
believed to be a method.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeVar

from ullage.kube.cache.cache import Cache
from ullage.kube.kinds import Object
from ullage.ledger.amounts import BadAmount
from ullage.ledger.charging.methods import LAST_SNAPSHOT, METHODS
from ullage.ledger.charging.stamps import AT_MOST, ESTIMATED_BY, STAMP, BadStamp, stamp_of
from ullage.ledger.keys import namespace_of
from ullage.space.accounts import bytes_of

T = TypeVar("T", bound=Object)

NOTHING: Final = "{}"  # a stamp that takes nothing
_LONGEST: Final = 19  # digits of an amount


class _Place(NamedTuple):
    namespace: str
    method: str
    excess: int


def method_of(obj: Object) -> str:
    """Empty where it pays nothing, or where nobody has said."""
    annotations = obj.metadata.annotations
    method = annotations.get(ESTIMATED_BY, "")
    return method if method in METHODS and annotations.get(STAMP, NOTHING) != NOTHING else ""


def excess_of(obj: Object) -> int:
    """By how many bytes an object may turn out to take more than it is stamped with."""
    annotations = obj.metadata.annotations
    most = annotations.get(AT_MOST, "")
    if annotations.get(ESTIMATED_BY) != LAST_SNAPSHOT or not (most.isascii() and most.isdigit() and len(most) <= _LONGEST):
        return 0
    try:
        return max(0, int(most) - bytes_of(stamp_of(obj.metadata)))
    except (BadStamp, BadAmount):
        return 0


class EstimateCounts:
    def __init__(self) -> None:
        self._excess: Counter[str] = Counter()  # bytes, by namespace
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

    def may_pass_by(self, namespace: str) -> int:
        """By how many bytes the namespace may pass its limits, since what it asked for are estimates."""
        return self._excess.get(namespace, 0)

    def _add(self, place: _Place | None, sign: int) -> None:
        if place is None:
            return
        namespace, method, excess = place
        self._excess[namespace] += sign * excess
        if not self._excess[namespace]:
            del self._excess[namespace]
        counts = self._counts[namespace]
        counts[method] += sign
        if not counts[method]:
            del counts[method]
            if not counts:
                del self._counts[namespace]
        for listener in self._listeners:
            listener(namespace)


def _place(obj: T | None, ledger_of: Callable[[T], str]) -> _Place | None:
    if obj is None:
        return None
    namespace, method = namespace_of(ledger_of(obj)), method_of(obj)
    return _Place(namespace, method, excess_of(obj)) if namespace and method else None
