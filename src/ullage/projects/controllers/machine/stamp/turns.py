"""Who may write now, where many clusters are written to and each decides how long that takes.

Whoever administers a user cluster can have every write there wait for a webhook of his own. If all workers waited with it, no
other cluster would be served. So no more than a few are at work in one cluster; what comes on top waits in line, and is named
when one of them is done. Pure bookkeeping.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

AT_ONCE: Final = 2  # in one cluster


class Turns(Generic[K]):
    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._at_once = at_once
        self._busy: defaultdict[str, int] = defaultdict(int)
        self._line: defaultdict[str, dict[K, None]] = defaultdict(dict)

    def take(self, cluster: str, key: K) -> bool:
        """Whether it is the key's turn. If not, it is in line from now on. If so, `end` is to be called, whatever comes of it:
        those in line are named by nobody else."""
        if self._busy[cluster] >= self._at_once:
            self._line[cluster][key] = None
            return False
        self._busy[cluster] += 1
        return True

    def end(self, cluster: str) -> K | None:
        """One is done. Who was longest in line, to be tried again; None: nobody is."""
        self._busy[cluster] -= 1
        if not self._busy[cluster]:
            del self._busy[cluster]
        line = self._line.get(cluster)
        if not line:
            return None
        found = next(iter(line))
        del line[found]
        if not line:
            del self._line[cluster]
        return found

    def __len__(self) -> int:
        """How many are at work or in line."""
        return sum(self._busy.values()) + sum(map(len, self._line.values()))
