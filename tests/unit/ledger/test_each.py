"""A limit on each account of a sort: held by accounts that nobody has named, and shown where something is used."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ullage.ledger.accounts import accounts, limits_on, passed
from ullage.ledger.amounts import Cell, Takings, limit_on
from ullage.ledger.book import Book, Charge, Observed, Refusal, book
from ullage.ledger.codec import fullest, summary
from ullage.ledger.limiting.noticing import with_limits
from ullage.quantity import Quantity

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KIND = "cups.test"


def cell(account: str) -> Cell:
    return Cell(account, "cups")


def cups(**taken: int) -> Takings:
    return Takings({cell(f"team/{name}"): Quantity.of(count) for name, count in taken.items()})


def opened(limits: dict[str, int], **used: int) -> Book:
    wanted = {cell(account): Quantity.of(limit) for account, limit in limits.items()}
    return with_limits(Book.of(limits={}, observed={KIND: Observed(1, NOW, cups(**used))}), wanted, NOW)


@pytest.mark.parametrize(
    ("account", "limit"),
    [
        pytest.param("team/a", 5, id="one that is not named has the limit of each"),
        pytest.param("team/own", 9, id="one that is named has its own"),
        pytest.param("team", None, id="the account above has none"),
        pytest.param("team/a/b", None, id="one below has none"),
        pytest.param("other/a", None, id="one of another sort has none"),
    ],
)
def test_which_limit_an_account_has(account: str, limit: int | None) -> None:
    limits = opened({"team/*": 5, "team/own": 9}).limits
    assert limit_on(limits, cell(account)) == (None if limit is None else Quantity.of(limit))


def test_each_account_is_held_to_it_by_itself() -> None:
    state = opened({"team/*": 2}, a=2, b=1)
    charge = Charge(key=f"{KIND}//team/x", uid="x", now=cups(a=1))
    _, refused = book(state, charge, NOW)
    assert isinstance(refused, Refusal)
    assert [(one.account, one.limit.value(), one.over.value()) for one in refused.over] == [("team/a", 2, 1)]
    state, allowed = book(state, Charge(key=f"{KIND}//team/x", uid="x", now=cups(b=1, new=2)), NOW)
    assert allowed is None
    _, refused = book(state, Charge(key=f"{KIND}//team/y", uid="y", now=cups(new=1)), NOW)
    assert isinstance(refused, Refusal), "what is reserved counts"


def test_only_accounts_that_use_something_are_shown_with_it() -> None:
    state = opened({"team/*": 2, "team/own": 1}, a=3, b=1)
    assert set(limits_on(state)) == {cell("team/a"), cell("team/b"), cell("team/own")}
    assert [one.account for one in passed(state)] == ["team/a"]
    assert fullest(state).account == "team/a"
    assert summary(state, "ns-team")[0] == "team/a cups: used 3, reserved 0, limit 2"
    assert {one.name: one.limit for one in accounts(state)}["team/b"] == Quantity.of(2)


def test_a_first_limit_on_each_has_everything_counted_anew() -> None:
    state = opened({"team/own": 1})
    later = with_limits(state, {**state.limits, cell("team/*"): Quantity.of(1)}, NOW)
    assert later.since != state.since
