"""Whether a book is exact: whether everything is counted that was admitted when there was no ledger, or no limit, to ask.

Pure. No clock is in this: times of two machines say nothing about each other, and positions of one watch do.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace

from ullage.ledger.book import NOT_YET, Book


def with_needed(book: Book, needed: Set[str]) -> Book:
    """The book that says which sources, of other clusters, it needs and is not exact about. It stays said until they are
    counted: whoever has not heard of a cluster yet would call the book exact without it."""
    return replace(book, exact_from={**book.exact_from, **dict.fromkeys(needed, NOT_YET)}) if needed else book


def with_positions(book: Book, read: Mapping[str, int]) -> Book:
    """The book that knows from where on counts are exact: by source, a position that was read after all requests had ended that
    were admitted before the latest first limit; they are in no attempt. What is known already stays."""
    new = {name: position for name, position in read.items() if not is_known(book, name)}
    return replace(book, exact_from={**book.exact_from, **new}) if new else book


def ready(book: Book, sources: Set[str]) -> bool:
    """Whether every source was counted at a position that has all that the ledger did not admit."""
    return not waiting(book, sources)


def waiting(book: Book, sources: Set[str]) -> tuple[str, ...]:
    """The sources that still have to be counted before the book is exact."""
    said = (name for name, position in book.exact_from.items() if position == NOT_YET)
    return tuple(sorted(name for name in {*sources, *said} if not is_exact(book, name)))


def is_known(book: Book, source: str) -> bool:
    """Whether the position is known from which a count of the source is exact."""
    return book.exact_from.get(source, NOT_YET) != NOT_YET


def still_restored(book: Book) -> tuple[str, ...]:
    """The sources that were restored from a backup and are not exact since. Not those of a cluster that was removed."""
    needed = {*book.observed, *book.exact_from}
    return tuple(sorted(name for name in book.epochs.restored & needed if not is_exact(book, name)))


def is_exact(book: Book, source: str) -> bool:
    counted = book.observed.get(source)
    return counted is not None and is_known(book, source) and counted.view >= book.exact_from[source]
