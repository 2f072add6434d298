"""Amounts as values, and as people read them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from ullage.ledger.amounts import NOTHING, Amounts, BadAmount, Cell, Takings, parse_limits, spell, total, write_limits
from ullage.ledger.book import Book
from ullage.ledger.limiting.noticing import with_limits
from ullage.quantity import Quantity

A = Amounts.parse({"cpu": "2", "memory": "1Gi"})
B = Amounts.parse({"cpu": "500m", "storage": "10Gi"})
LESS = Quantity.of(-1)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        pytest.param(A + B, {"cpu": "2500m", "memory": "1Gi", "storage": "10Gi"}, id="a sum has the resources of both"),
        pytest.param(A - A, {}, id="a difference of zero leaves no trace"),
        pytest.param(A | B, {"cpu": "2", "memory": "1Gi", "storage": "10Gi"}, id="the larger, of each resource alone"),
        pytest.param(A & B, {"cpu": "500m"}, id="the smaller, of each resource alone"),
        pytest.param(A.beyond(B), {"cpu": "1500m", "memory": "1Gi"}, id="beyond: only what is more"),
        pytest.param(B.beyond(Amounts()), {"cpu": "500m", "storage": "10Gi"}, id="beyond nothing is everything"),
        pytest.param(Amounts() | B, {"cpu": "500m", "storage": "10Gi"}, id="the larger of nothing and something"),
    ],
)
def test_each_resource_is_reckoned_alone(made: Amounts, expected: dict[str, str]) -> None:
    assert made.written() == expected
    assert made == Amounts.parse(expected)
    assert isinstance(made, Amounts)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(lambda: Amounts({"cpu": LESS}), "cpu -1: an amount is not negative", id="an amount"),
        pytest.param(lambda: Amounts.parse({"cpu": "-1"}), "cpu -1: an amount is not negative", id="an amount that is read"),
        pytest.param(lambda: Amounts() - B, "cpu -500m: an amount is not negative", id="more taken away than there is"),
        pytest.param(lambda: Takings({Cell("a/b", "cpu"): LESS}), "a/b.cpu -1: an amount is not negative", id="a taking"),
        pytest.param(
            lambda: Takings.parse({"a/b": {"cpu": "-1n"}}), "a/b.cpu -1n: an amount is not negative", id="a taking that is read"
        ),
        pytest.param(
            lambda: parse_limits({"a/b": {"cpu": "-1"}}, field="spec.limits"),
            "spec.limits.a/b.cpu -1: an amount is not negative",
            id="a limit that is read",
        ),
        pytest.param(
            lambda: parse_limits({"a/b": {"cpu": "much"}}, field="spec.limits"),
            "spec.limits.a/b.cpu much: quantities must match",
            id="a limit that is no quantity",
        ),
        pytest.param(
            lambda: Book.of(limits={Cell("a/b", "cpu"): LESS}), "a/b.cpu -1: an amount is not negative", id="a book's limit"
        ),
        pytest.param(
            lambda: with_limits(Book.of(limits={}), {Cell("a/b", "cpu"): LESS}, datetime.now(UTC)),
            "a/b.cpu -1: an amount is not negative",
            id="a limit that a book gets",
        ),
    ],
)
def test_what_is_no_amount_is_refused_with_its_field(make: Callable[[], object], message: str) -> None:
    with pytest.raises(BadAmount, match=f"^{re.escape(message)}"):
        make()


def test_minus_zero_is_nothing() -> None:
    assert Amounts.parse({"cpu": "-0"}) == Amounts()


@pytest.mark.parametrize(
    ("less", "more", "holds"),
    [
        pytest.param(B, A + B, True, id="part of a sum"),
        pytest.param(A, B, False, id="one more, one less"),
        pytest.param(Amounts(), A, True, id="nothing"),
        pytest.param(A, Amounts(), False, id="something and nothing"),
        pytest.param(A, A, True, id="equal"),
    ],
)
def test_at_most(less: Amounts, more: Amounts, holds: bool) -> None:
    assert (less <= more) == holds


def test_zero_and_nothing_are_the_same_amount_but_not_the_same_limit() -> None:
    assert Amounts.parse({"cpu": "0"}) == Amounts()
    assert parse_limits({"machines": {"cpu": "0"}}) == {Cell("machines", "cpu"): Quantity.of(0)}
    assert write_limits(parse_limits({"b": {"z": "1024Mi", "a": "0"}, "a": {}})) == {"b": {"a": "0", "z": "1Gi"}}


def test_takings_go_by_account_and_back() -> None:
    taken = Takings.of({"machines": A, "compute/vms": B})
    assert taken.account("machines") == A
    assert taken.account("elsewhere") == Amounts()
    assert Takings.parse(taken.written()) == taken
    assert list(taken.written()) == ["compute/vms", "machines"], "in order"
    assert taken.listed() == tuple((cell, str(taken[cell])) for cell in sorted(taken))


def test_a_total_of_many() -> None:
    taken = Takings.of({"machines": A})
    assert total([taken, NOTHING, taken]) == taken + taken
    assert total([]) == NOTHING


def test_equal_amounts_are_one_key() -> None:
    assert len({Amounts.parse({"memory": "1Gi"}), Amounts.parse({"memory": "1024Mi", "cpu": "0"})}) == 1


@pytest.mark.parametrize(
    ("resource", "amount", "up", "down"),
    [
        pytest.param("storage", "1536Mi", "1.5Gi", "1.5Gi", id="bytes with a binary suffix"),
        pytest.param("requests.storage", "10737418241", "10.01Gi", "10Gi", id="one byte more is not hidden"),
        pytest.param("memory", "10.37Gi", "10.37Gi", "10.37Gi", id="two places, which are no whole bytes"),
        pytest.param("memory", "1", "1 byte", "1 byte", id="one byte"),
        pytest.param("memory", "1023", "1023 bytes", "1023 bytes", id="less than a Ki"),
        pytest.param("memory", "500m", "1 byte", "0", id="part of a byte"),
        pytest.param("memory", "0", "0", "0", id="nothing needs no unit"),
        pytest.param("limits.cpu", "1500m", "1.5 cores", "1.5 cores", id="processors"),
        pytest.param("cpu", "1", "1 core", "1 core", id="one processor"),
        pytest.param("cpu", "1m", "0.01 cores", "0", id="very little is not nothing"),
        pytest.param("snapshots", "12", "12", "12", id="pieces"),
        pytest.param("snapshots", "0", "0", "0", id="no pieces"),
        pytest.param("blocks", "3Gi", "3Gi", "3Gi", id="a name that says nothing, an amount that does"),
        pytest.param("storage", "-1Gi", "-1Gi", "-1Gi", id="less than nothing"),
    ],
)
def test_amounts_with_units(resource: str, amount: str, up: str, down: str) -> None:
    quantity = Quantity.parse(amount)
    assert (spell(resource, quantity), spell(resource, quantity, down=True)) == (up, down)
