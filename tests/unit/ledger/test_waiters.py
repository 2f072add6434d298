"""Who waits for room that somebody else makes: written down once for each name, and gone with its booking."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.unit.ledger.simulated import creating, takes
from ullage.ledger.amounts import Waiter
from ullage.ledger.book import Book
from ullage.ledger.demand import MOST_WAITERS, RENEW, STALE, milliseconds, with_waiters, without_waiters
from ullage.ledger.packing import waiters
from ullage.ledger.service.decisions import Verdict, decide, with_wanted
from ullage.ledger.service.expiry import Sightings

NOW = datetime(2026, 1, 1, tzinfo=UTC)
EMPTY = Book.of(limits={})


def later(milli: int) -> datetime:
    return NOW + timedelta(milliseconds=milli)


def test_many_tries_of_one_name_are_one_and_say_nothing_new() -> None:
    one = with_waiters(EMPTY, [creating("a"), creating("a", uid="again")], NOW)
    assert len(one.waiting) == 1
    assert with_waiters(one, [creating("a", uid="third")], later(RENEW)) is one
    renewed = with_waiters(one, [creating("a")], later(RENEW + 1))
    (found,) = renewed.waiting.values()
    assert (found.since, found.asked) == (milliseconds(NOW), milliseconds(NOW) + RENEW + 1)


def test_what_it_would_take_is_what_it_said_last() -> None:
    book = with_waiters(with_waiters(EMPTY, [creating("a", 5)], NOW), [creating("a", 2)], NOW)
    assert [one.takes for one in book.waiting.values()] == [takes(2)]


def test_there_are_so_many_places_and_those_who_stay_away_lose_theirs() -> None:
    full = with_waiters(EMPTY, [creating(f"a-{n}") for n in range(MOST_WAITERS + 5)], NOW)
    assert len(full.waiting) == MOST_WAITERS
    assert with_waiters(full, [creating("late")], later(STALE)) is full
    asking = with_waiters(full, [creating("late")], later(STALE + 1))
    assert len(asking.waiting) == MOST_WAITERS
    assert any(key.endswith("/late") for key in asking.waiting)


def test_it_goes_in_the_write_that_books_it() -> None:
    book = with_waiters(EMPTY, [creating("a"), creating("b")], NOW)
    booked, said = decide(book, [creating("a")], NOW)
    assert said == [Verdict()]
    assert [key.rpartition("/")[2] for key in booked.waiting] == ["b"]
    tried, _ = decide(book, [creating("b", dry_run=True)], NOW)
    assert tried is book, "a dry run changes nothing"


def test_only_those_who_are_refused_and_would_wait_are_written_down() -> None:
    from tests.unit.ledger.simulated import ledger
    from ullage.ledger.codec import book_of

    book = book_of(ledger(0), now=NOW)
    charges = [creating("no"), creating("yes", waits=True), creating("dry", waits=True, dry_run=True)]
    decided, verdicts = decide(book, charges, NOW)
    asking, said = with_wanted(decided, charges, verdicts, NOW, renewed=False)
    assert [key.rpartition("/")[2] for key in asking.waiting] == ["yes"]
    assert [isinstance(one, Verdict) and one.waits for one in said] == [False, True, False]


def test_as_a_string_and_back() -> None:
    book = with_waiters(EMPTY, [creating("a", 3), creating("b")], NOW)
    text = waiters.encode(book.waiting)
    assert waiters.decode(text, ledger="ns-team") == book.waiting
    assert waiters.encode(without_waiters(book, list(book.waiting)).waiting) == ""


def test_who_does_not_ask_any_more_is_told_by_a_clock_of_ones_own() -> None:
    seen: Sightings[str, Waiter] = Sightings()
    one, other = Waiter(takes(1), 0, 0), Waiter(takes(1), 0, 9)
    assert seen.older({"a": one, "b": one}, 100.0, than=20.0) == []
    assert seen.older({"a": one, "b": other}, 119.0, than=20.0) == []
    assert seen.older({"a": one, "b": other}, 120.0, than=20.0) == ["a"]
    assert seen.older({}, 121.0, than=20.0) == []
    assert seen.older({"a": one}, 122.0, than=20.0) == [], "it came back"
