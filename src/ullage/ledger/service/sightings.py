"""How long something has been as it is, by the clock of whoever looks: what others wrote as the time says nothing here."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Sightings(Generic[K, V]):
    """Values by key, each with when it was first seen as it is. Of those that are gone nothing is kept."""

    def __init__(self) -> None:
        self._seen: dict[K, tuple[V, float]] = {}

    def older(self, now_there: Mapping[K, V], now: float, *, than: float) -> list[K]:
        """The keys whose values have been the same for so many seconds. To be told of all of them each time."""
        before, self._seen = self._seen, {}
        for key, one in now_there.items():
            known, first = before.get(key, (one, now))
            self._seen[key] = one, first if known == one else now
        return [key for key, (_, first) in self._seen.items() if now - first >= than]
