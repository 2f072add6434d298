"""What several slices charge for one kind, as one: an object has one key in one ledger, and is booked in one go.

Were each slice to book its own part, an object that one of them refuses would stay booked with the other until that expires.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from ullage.kube.kinds import Object
from ullage.ledger.amounts import Takings, total
from ullage.ledger.service.views import Evaluator

T = TypeVar("T", bound=Object)


class SharedEvaluator(Generic[T]):
    """To be added to until the service starts: nothing is counted before that."""

    def __init__(self, *parts: Evaluator[T]) -> None:
        self._parts = list(parts)
        self.evaluator = Evaluator(ledger_of=self._ledger_of, takes=self._takes)

    def add(self, part: Evaluator[T]) -> None:
        self._parts.append(part)

    def _ledger_of(self, obj: T) -> str:
        """The one that they agree on; a part that knows of none takes nothing."""
        found = {ledger for _, ledger in self._placed(obj)}
        if len(found) > 1:
            raise RuntimeError(f"{obj.metadata.name}: slices put it into {len(found)} ledgers: {', '.join(sorted(found))}")
        return found.pop() if found else ""

    def _takes(self, obj: T) -> Takings:
        return total(part.takes(obj) for part, _ in self._placed(obj))

    def _placed(self, obj: T) -> Iterator[tuple[Evaluator[T], str]]:
        return ((part, ledger) for part in self._parts if (ledger := part.ledger_of(obj)))
