"""The accounts of a book as values."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ullage.ledger.accounts import Account, accounts
from ullage.ledger.amounts import Cell, Takings
from ullage.ledger.book import Book, Charge, Observed, book
from ullage.quantity import ZERO, Quantity

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
ALL, DB = Cell("snapshots/namespace", "storage"), Cell("snapshots/vm/db", "storage")
CUPS, PLATES = "cups.example.com", "plates.example.com"


def takes(size: int, *cells: Cell) -> Takings:
    return Takings({cell: Quantity.of(size) for cell in cells})


def counted(**sums: Takings) -> dict[str, Observed]:
    return {f"{kind}.example.com": Observed(7, NOW, taken) for kind, taken in sums.items()}


def with_booking(known: Book, name: str, size: int, *, old: int = 0, ago: int) -> Book:
    version = 5 if old else None
    asked = Charge(key=f"{CUPS}//a/{name}", uid=name, on_version=version, now=takes(size, ALL), old=takes(old, ALL))
    booked, refusal = book(known, asked, NOW - timedelta(seconds=ago))
    assert refusal is None
    return booked


def account(cell: Cell, **numbers: Any) -> Account:
    return replace(Account.empty(cell), **numbers)


@pytest.mark.parametrize(
    ("known", "wanted"),
    [
        pytest.param(Book.of(limits={}), [], id="a book without anything has none"),
        pytest.param(
            Book.of(limits={ALL: ZERO}), [account(ALL, limit=ZERO)], id="a limit of nothing is a limit, and is listed unused"
        ),
        pytest.param(
            Book.of(limits={}, observed=counted(cups=takes(3, ALL, DB), plates=takes(4, ALL))),
            [
                account(ALL, used=Quantity.of(7), by_kind={CUPS: Quantity.of(3), PLATES: Quantity.of(4)}),
                account(DB, used=Quantity.of(3), by_kind={CUPS: Quantity.of(3)}),
            ],
            id="what is used is told by kind, without those that use none",
        ),
        pytest.param(
            with_booking(with_booking(Book.of(limits={}), "old", 2, ago=30), "new", 1, ago=10),
            [account(ALL, reserved=Quantity.of(3), since=NOW - timedelta(seconds=30))],
            id="the earliest booking says since when room is reserved",
        ),
        pytest.param(
            with_booking(
                Book.of(limits={ALL: Quantity.of(9)}, observed=counted(cups=takes(4, ALL))), "grows", 6, old=4, ago=10
            ),
            [
                account(
                    ALL,
                    used=Quantity.of(4),
                    reserved=Quantity.of(2),
                    limit=Quantity.of(9),
                    since=NOW - timedelta(seconds=10),
                    by_kind={CUPS: Quantity.of(4)},
                )
            ],
            id="what grows has the difference reserved",
        ),
    ],
)
def test_accounts_are_values(known: Book, wanted: list[Account]) -> None:
    assert list(accounts(known)) == wanted


@pytest.mark.parametrize(
    ("one", "free"),
    [
        pytest.param(account(ALL, used=Quantity.of(5)), None, id="without a limit nobody can say what is free"),
        pytest.param(account(ALL, used=Quantity.of(5), limit=Quantity.of(5)), ZERO, id="exactly full has nothing free"),
        pytest.param(
            account(ALL, used=Quantity.of(5), reserved=Quantity.of(1), limit=Quantity.of(4)),
            Quantity.of(-2),
            id="past its limit less than nothing is free",
        ),
    ],
)
def test_what_is_free_follows(one: Account, free: Quantity | None) -> None:
    assert one.free == free
