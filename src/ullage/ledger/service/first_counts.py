"""The first count of a ledger by one process.

What was made before there was a ledger is in no booking. A cache that lags behind would leave it out of the first count, and
its room would be given away again. So before a process counts a kind for the first time in a ledger, it lists the objects of
the ledger's namespace, and waits until its cache shows all of them. Later counts need nothing of this: all that is made since
is booked.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from ullage.clock import Clock
from ullage.errors import UllageError
from ullage.ledger.api import Ledger
from ullage.ledger.book import Book
from ullage.ledger.keys import cluster_of
from ullage.ledger.service.sources import Sources

logger = logging.getLogger(__name__)

WAIT: Final = 1.0  # seconds for which requests wait until the caches show what was listed; then they are told to try again
LOOK: Final = 0.02  # seconds between two looks at the caches
RETRY: Final = 1.0  # seconds until a list that failed is read again


class FirstCounts:
    """What one process knows of one ledger."""

    def __init__(self, ledger: str, sources: Sources, *, call: float, clock: Clock) -> None:
        self._ledger = ledger
        self._sources = sources
        self._call = call
        self._clock = clock
        self._uid = ""  # of the ledger that all of this is about
        self._shows: dict[str, Callable[[], bool]] = {}  # by source: whether the cache shows what was listed
        self._next_read = 0.0

    def shows_all(self, name: str) -> bool:
        """Whether the cache of a source shows everything that was there when the ledger was. In other clusters nothing is
        listed: to wait for one that cannot be reached would stop all others."""
        if cluster_of(name):
            return True
        shows = self._shows.get(name)
        if shows is None or not shows():
            return False
        self._shows[name] = _yes
        return True

    def waits(self, book: Book) -> bool:
        """Whether a source is not to be counted yet, of those that the ledger needs."""
        return any(not self.shows_all(name) for name in self._uncounted(book))

    async def read(self, ledger: Ledger, book: Book) -> None:
        """Lists what was not listed since the ledger was made. What cannot be listed is tried again later."""
        if ledger.metadata.uid != self._uid:
            self._uid, self._shows, self._next_read = ledger.metadata.uid, {}, 0.0
        unread = [name for name in self._uncounted(book) if name not in self._shows]
        if unread and self._clock.monotonic() >= self._next_read:
            self._next_read = self._clock.monotonic() + RETRY
            await asyncio.gather(*(self._list(name) for name in unread))

    async def wait(self, ledger: Ledger, book: Book) -> None:
        """Lists, and waits a moment until the caches show what is there."""
        await self.read(ledger, book)
        until = self._clock.monotonic() + WAIT
        while self.waits(book) and self._clock.monotonic() < until:
            if any(name not in self._shows for name in self._uncounted(book)):
                return  # a list has failed
            await asyncio.sleep(LOOK)

    def _uncounted(self, book: Book) -> Iterable[str]:
        return [name for name in self._sources.own if name not in book.observed]

    async def _list(self, name: str) -> None:
        source = self._sources.own[name]
        try:
            async with asyncio.timeout(self._call):
                self._shows[name] = await source.listed(self._ledger)
        except (UllageError, TimeoutError) as error:
            logger.info("objects could not be listed", extra={"source": name, "ledger": self._ledger, "error": str(error)})


def _yes() -> bool:
    return True
