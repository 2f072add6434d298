"""Calls that are timed, by how they ended: for whoever measures what is asked of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ullage.clock import Clock
from ullage.errors import Retryable, Terminal, Uncertain


@contextmanager
def timed(observe: Callable[[str, float], None], *, clock: Clock) -> Iterator[None]:
    """Tells how the block ended, in a word, and after how many seconds."""
    began, outcome = clock.monotonic(), "done"
    try:
        yield
    except BaseException as error:
        outcome = outcome_of(error)
        raise
    finally:
        observe(outcome, clock.monotonic() - began)


def outcome_of(error: BaseException) -> str:
    """How a call ended that raised this."""
    match error:
        case Uncertain():
            return "uncertain"
        case Retryable():
            return "not_now"
        case Terminal():
            return "impossible"
    return "error" if isinstance(error, Exception) else "cancelled"  # the others say that nobody wants it any more
