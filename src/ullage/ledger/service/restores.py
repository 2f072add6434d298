"""Noticing that an API server was restored from a backup: by what it says itself, never by a view or a cache alone."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from ullage.errors import UllageError
from ullage.ledger.anew import Memory, is_behind, went_back
from ullage.ledger.api import Ledger
from ullage.ledger.book import Book
from ullage.ledger.service.sources import Sources

logger = logging.getLogger(__name__)

_NEVER: Final = (-1, -1)


class Positions:
    """How far the servers of the sources have come, as they said when they were asked."""

    def __init__(self, sources: Sources, *, call: float) -> None:
        self._sources = sources
        self._call = call  # seconds after which a call counts as lost
        self._known: dict[str, tuple[int, int]] = {}  # by source: in which session, and how far

    async def behind(self, book: Book, ledger: str) -> frozenset[str]:
        """The sources whose servers are not as far as they were when the book was counted. Nobody is asked again while it is
        followed as before, and has said once that it is as far as that: a view may be behind for a minute."""
        found = []
        for name, source in self._sources.of(ledger, counted=book.observed).items():
            counted = book.observed.get(name)
            if counted is None or not source.followed or source.of(ledger).position >= counted.view:
                continue
            session, known = self._known.get(name, _NEVER)
            if session != source.session or is_behind(known, counted):
                session = source.session
                try:
                    async with asyncio.timeout(self._call):
                        known = await source.latest()
                except (UllageError, TimeoutError) as error:
                    logger.info("position could not be read", extra={"source": name, "error": str(error)})
                    continue
                self._known[name] = session, known
            if is_behind(known, counted):
                logger.warning("an API server was restored from a backup", extra={"source": name, "ledger": ledger})
                found.append(name)
        return frozenset(found)


class Remembered:
    """The latest state of one ledger that this process has seen or written."""

    def __init__(self) -> None:
        self._memory: Memory | None = None

    @property
    def epoch(self) -> int:
        return self._memory.epoch if self._memory else 0

    def is_newer_than(self, ledger: Ledger) -> bool:
        """Whether a ledger is older. If the API itself has it so, it was restored; if a cache has, that may be behind."""
        return went_back(ledger, self._memory)

    def see(self, ledger: Ledger) -> None:
        self._memory = Memory.of(ledger)
