"""What was refused, a quota's or a webhook's no, and when it is asked for again: later and later, whatever wakes us meanwhile.

Whoever is refused writes that down, and his own write wakes him; what he is told may be different each time, since it has
numbers in it. Without this two controllers would ask as fast as they can. It is memory only: a new process asks at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace

from ullage.kube.backoff import Backoff
from ullage.kube.cache.indexer import Key


@dataclass(frozen=True, slots=True)
class Refusal:
    """What was said, how often there was a no in a row, and until when it is not asked for again. `about`: another version of
    what is wanted is another wish."""

    message: str
    count: int
    until: float
    about: Hashable = None


class Refusals:
    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._last: dict[Key, Refusal] = {}

    def still(self, key: Key, now: float, *, about: Hashable = None) -> Refusal | None:
        """The last one, as long as it is too soon to ask again."""
        last = self._last.get(key)
        return last if last is not None and last.about == about and now < last.until else None

    def add(self, key: Key, message: str, now: float, *, about: Hashable = None) -> Refusal:
        last = self._last.get(key)
        count = last.count + 1 if last is not None and last.about == about else 1
        self._last[key] = made = Refusal(message, count, now + self._backoff.delay(count), about)
        return made

    def said(self, key: Key) -> str:
        """What was said last; empty: nothing was."""
        last = self._last.get(key)
        return last.message if last is not None else ""

    def end(self, key: Key) -> None:
        """It was granted, or is not wanted any more."""
        self._last.pop(key, None)

    def hurry(self, concerned: Callable[[Key], bool]) -> list[Key]:
        """Has some asked for again at once: there may be room now."""
        keys = [key for key in self._last if concerned(key)]
        for key in keys:
            self._last[key] = replace(self._last[key], until=0.0)
        return keys
