"""Limits over time: those of a book change, and accounts that get their first limit are noticed. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from ullage.ledger.amounts import LimitAttempt, LimitId, Limits, in_force, refuse_negative
from ullage.ledger.book import NOT_YET, Book
from ullage.ledger.keys import cluster_of


def with_limits(book: Book, limits: Limits, now: datetime) -> Book:
    """The book under other limits. Nothing that is taken is taken back: a limit below present use only refuses growth.

    A first limit on an account starts the wait until the ledger is exact (`readiness.py`).
    """
    if limits is not book.carried:
        refuse_negative(limits)
    return noticed(book, now, carried=limits)


def noticed(
    book: Book,
    now: datetime,
    *,
    carried: Limits | None = None,
    shown: Limits | None = None,
    in_flight: Mapping[LimitId, LimitAttempt] | None = None,
    forget: bool = True,
) -> Book:
    """The book with some of what its limits follow from changed, and the accounts noticed that have a limit. Accounts that have
    none any more are forgotten by those alone who know all limits."""
    carried = book.carried if carried is None else carried
    shown = book.shown if shown is None else shown
    in_flight = book.in_flight if in_flight is None else in_flight
    limits = in_force(carried, shown, in_flight)
    accounts = frozenset(cell.account for cell in limits)
    first = accounts - book.limited or book.since is None
    accounts = accounts if forget else accounts | book.limited
    same = limits == book.limits and carried == book.carried and shown == book.shown and in_flight == book.in_flight
    if same and accounts == book.limited and not first:
        return book
    changed = replace(book, limits=limits, carried=carried, shown=shown, in_flight=in_flight, limited=accounts)
    return replace(changed, since=since_after(book, now), exact_from=unknown_positions(book)) if first else changed


def since_after(book: Book, now: datetime) -> datetime:
    """The time, but always later than the last: it names one wait, even where clocks differ."""
    return now if book.since is None or now > book.since else book.since + timedelta(microseconds=1)


def unknown_positions(book: Book) -> Mapping[str, int]:
    """What everybody knows to be needed of our own cluster; of others it stays said."""
    return {source: NOT_YET for source in book.exact_from if cluster_of(source)}
