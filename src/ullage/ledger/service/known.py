"""What a process knows of one ledger."""

from __future__ import annotations

from dataclasses import dataclass

from ullage.ledger.api import Ledger
from ullage.ledger.book import Book

Sessions = tuple[tuple[object, int], ...]


@dataclass(frozen=True, slots=True)
class Known:
    """The last known state. With `tick` 0 it may be of any age; `ledger` and `book` are None where there is no ledger. Of a
    `beaten` one a write has shown that there is a newer one."""

    ledger: Ledger | None
    book: Book | None
    tick: int
    sessions: Sessions = ()  # of our own cluster's sources, when it was read: after these a backup may have undone it
    beaten: bool = False
    changed: bool = False  # the book says something that the ledger does not, and that is to be written

    @property
    def version(self) -> str:
        return self.ledger.metadata.resource_version if self.ledger else ""
