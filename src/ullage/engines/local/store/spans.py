"""Ranges of bytes or blocks: sorted, apart from each other, half open. What two layers hold is compared with these."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Span(NamedTuple):
    """From `start` up to, not including, `end`."""

    start: int
    end: int


def subtract(spans: Iterable[Span], others: Iterable[Span]) -> Iterator[Span]:
    """What is in the first and not in the second."""
    remaining = iter(others)
    other = next(remaining, None)
    for start, end in spans:
        while start < end:
            while other is not None and other.end <= start:
                other = next(remaining, None)
            if other is None or other.start >= end:
                yield Span(start, end)
                break
            if other.start > start:
                yield Span(start, other.start)
            start = other.end


def intersect(spans: Iterable[Span], others: Iterable[Span]) -> Iterator[Span]:
    """What is in both."""
    left, right = iter(spans), iter(others)
    one, other = next(left, None), next(right, None)
    while one is not None and other is not None:
        start, end = max(one.start, other.start), min(one.end, other.end)
        if start < end:
            yield Span(start, end)
        if one.end <= other.end:
            one = next(left, None)
        else:
            other = next(right, None)


def union(*layers: Iterable[Span]) -> Iterator[Span]:
    """What is in any."""
    start = end = 0
    for span in heapq.merge(*layers):
        if span.start > end:
            if start < end:
                yield Span(start, end)
            start = span.start
        end = max(end, span.end)
    if start < end:
        yield Span(start, end)


def pieces(spans: Iterable[Span], *, limit: int) -> Iterator[Span]:
    """The same, in parts of at most `limit`."""
    for start, end in spans:
        for at in range(start, end, limit):
            yield Span(at, min(at + limit, end))


def total(spans: Iterable[Span]) -> int:
    return sum(end - start for start, end in spans)
