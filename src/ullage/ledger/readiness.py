"""Whether a book is exact: whether everything is counted that was admitted when there was no ledger, or no limit, to ask.

Pure. No clock is in this: times of two machines say nothing about each other, and positions of one watch do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ullage.ledger.book import Book


def with_positions(book: Book, read: Mapping[str, int]) -> Book:
    """The book that knows from where on counts are exact: by source, a position that was read after all requests had ended that
    were admitted before the latest first limit; they are in no attempt. What is known already stays."""
    return replace(book, exact_from={**read, **book.exact_from}) if read else book


def ready(book: Book, sources: frozenset[str]) -> bool:
    """Whether every source was counted at a position that has all that the ledger did not admit."""
    return not waiting(book, sources)


def waiting(book: Book, sources: frozenset[str]) -> tuple[str, ...]:
    """The sources that still have to be counted before the book is exact."""
    return tuple(sorted(name for name in sources if not is_exact(book, name)))


def is_exact(book: Book, source: str) -> bool:
    counted, exact_from = book.observed.get(source), book.exact_from.get(source)
    return counted is not None and exact_from is not None and counted.view >= exact_from
