"""Grants: what may be waited for, and what is said to be wanted."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from ullage.ledger.amounts import Cell, Takings, Wanted, parse_limits
from ullage.ledger.api import LedgerSpec
from ullage.ledger.book import Book, Charge, Observed, Refusal, book
from ullage.ledger.demand import may_be_granted, wanted_by, with_demand, without_demand, without_met
from ullage.ledger.limits import has_limits, limits_patch
from ullage.ledger.refusals import refusal_text
from ullage.quantity import Quantity

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(seconds=30)
KIND = "machines.cluster.k8s.io"
CPU, MEMORY, PIECES = Cell("machines", "cpu"), Cell("machines", "memory"), Cell("pieces", "pieces")
LIMITS = {"machines": {"cpu": "10", "memory": "10Gi"}, "pieces": {"pieces": "5"}}
GRANTS = {"machines": {"cpu": "100", "memory": "100Gi"}}


def opened(*, used: Mapping[str, Mapping[str, str]] | None = None, demand: Mapping[Cell, Wanted] | None = None) -> Book:
    return Book.of(
        limits=parse_limits(LIMITS),
        observed={KIND: Observed(1, NOW, Takings.parse(used or {}))},
        grants=parse_limits(GRANTS),
        demand=demand,
    )


def machine(name: str, *, cpu: str = "0", memory: str = "0", pieces: str = "0") -> Charge:
    takes = {"machines": {"cpu": cpu, "memory": memory}, "pieces": {"pieces": pieces}}
    return Charge(key=f"{KIND}//lab/{name}", uid=f"uid-{name}", now=Takings.parse(takes))


def refused(state: Book, charge: Charge) -> Refusal:
    _, refusal = book(state, charge, NOW)
    assert isinstance(refusal, Refusal)
    return refusal


@pytest.mark.parametrize(
    ("charge", "may"),
    [
        pytest.param(machine("a", cpu="11"), True, id="a grant is too small"),
        pytest.param(machine("a", cpu="100"), True, id="the whole would do"),
        pytest.param(machine("a", cpu="101"), False, id="the whole would not do"),
        pytest.param(machine("a", cpu="11", memory="11Gi"), True, id="two grants are too small"),
        pytest.param(machine("a", cpu="11", memory="101Gi"), False, id="the whole of one of them would not do"),
        pytest.param(machine("a", pieces="6"), False, id="an ordinary limit"),
        pytest.param(machine("a", cpu="11", pieces="6"), False, id="a grant, and an ordinary limit"),
    ],
)
def test_what_may_be_waited_for(charge: Charge, may: bool) -> None:
    state = opened()
    assert may_be_granted(state, refused(state, charge)) is may


def test_what_is_used_counts_against_the_whole() -> None:
    state = opened(used={"machines": {"cpu": "60"}})
    assert may_be_granted(state, refused(state, machine("a", cpu="40")))
    assert not may_be_granted(state, refused(state, machine("a", cpu="41")))


def test_what_many_want_is_added_up_and_tries_of_one_name_are_one() -> None:
    state = opened(used={"machines": {"cpu": "9"}})
    charges = [machine("a", cpu="2"), machine("b", cpu="3"), machine("a", cpu="4"), machine("c", memory="1Gi")]
    assert {cell: str(limit) for cell, limit in wanted_by(state, charges).items()} == {CPU: "16", MEMORY: "1Gi"}


def wants(limit: int, *, since: datetime = NOW, asked: datetime = NOW) -> dict[Cell, Wanted]:
    return {CPU: Wanted(Quantity.of(limit), since, asked)}


@pytest.mark.parametrize(
    ("standing", "needed", "renewed", "said"),
    [
        pytest.param({}, 20, False, wants(20, since=LATER, asked=LATER), id="a first demand"),
        pytest.param({}, 10, False, {}, id="the limit would do"),
        pytest.param({}, 400, False, wants(100, since=LATER, asked=LATER), id="no more than the whole"),
        pytest.param(wants(20), 20, False, wants(20), id="as much as stands there"),
        pytest.param(wants(20), 15, False, wants(20), id="less than stands there"),
        pytest.param(wants(20), 30, False, wants(30, asked=LATER), id="more than stands there"),
        pytest.param(wants(20), 15, True, wants(20, asked=LATER), id="still asked for"),
    ],
)
def test_what_is_said_to_be_wanted(standing: dict[Cell, Wanted], needed: int, renewed: bool, said: dict[Cell, Wanted]) -> None:
    state = opened(demand=standing)
    after = with_demand(state, {CPU: Quantity.of(needed), PIECES: Quantity.of(9)}, LATER, renewed=renewed)
    assert after.demand == said, "and of an ordinary limit nothing"
    assert (after is state) == (said == standing)


@pytest.mark.parametrize(
    ("limits", "grants", "left"),
    [
        pytest.param({"cpu": "19"}, {"cpu": "100"}, wants(20), id="a limit that has not risen enough"),
        pytest.param({"cpu": "20"}, {"cpu": "100"}, {}, id="a limit that has"),
        pytest.param({}, {"cpu": "100"}, {}, id="no limit any more"),
        pytest.param({"cpu": "10"}, {}, {}, id="a limit that is no grant any more"),
    ],
)
def test_what_is_met_is_not_wanted_any_more(
    limits: Mapping[str, str], grants: Mapping[str, str], left: dict[Cell, Wanted]
) -> None:
    state = Book.of(limits=parse_limits({"machines": limits}), grants=parse_limits({"machines": grants}), demand=wants(20))
    assert without_met(state).demand == left
    assert without_demand(state, [CPU]).demand == {}


def test_a_refusal_says_that_more_was_asked_for() -> None:
    state = opened()
    refusal = refused(state, machine("a", cpu="11"))
    said = "does not fit: machines cpu: asked 11 cores, used 0, reserved 0, limit 10 cores, over by 1 core"
    assert refusal_text(refusal, next_step="wait", more="asked") == (
        f"{said}. More was asked for, and has not been granted in time: try again in a moment. Next: wait"
    )
    assert refusal_text(refusal, more="possible") == (
        f"{said}. More may be granted: it is asked for when this is tried without dry run"
    )


def test_grants_change_with_the_limits() -> None:
    seen = LedgerSpec(limits=LIMITS, grants={"machines": {"cpu": "100"}, "old": {"cpu": "1"}}, change=3)
    wanted, grants = parse_limits(LIMITS), parse_limits(GRANTS)
    patch = limits_patch(seen, wanted, number=4, grants=grants)
    assert patch["spec"]["grants"] == {"machines": {"cpu": "100", "memory": "100Gi"}, "old": None}
    assert "grants" not in limits_patch(seen, wanted, number=4)["spec"], "without a word they stay"
    assert has_limits(seen, wanted)
    assert not has_limits(seen, wanted, grants=grants)
