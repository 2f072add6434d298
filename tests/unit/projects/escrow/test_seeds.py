"""A seed's ledger, in the terms of the escrow."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.unit.projects.escrow.world import BEGIN
from ullage.kube.kinds import Meta
from ullage.ledger.amounts import Amounts, Cell, Takings, Wanted
from ullage.ledger.api import Ledger, LedgerSpec
from ullage.ledger.book import Book, Charge, Observed, book
from ullage.ledger.codec import LedgerError, book_of, status_of
from ullage.ledger.demand import with_demand
from ullage.projects.escrow.seeds import NO_LEDGER, SeedLedger, seed_ledger
from ullage.quantity import Quantity

SOURCE = "machines.cluster.k8s.io/user-1"
CPU, MEMORY = Cell("machines", "cpu"), Cell("machines", "memory")


def ledger(*, used: int = 3, reserved: int = 2, wants: int = 0, limit: int = 6) -> Ledger:
    """Change 7 set the limit, and everything is counted after it."""
    spec = LedgerSpec(
        limits={"machines": {"cpu": str(limit)}, "others": {"pieces": "1"}}, grants={"machines": {"cpu": "9"}}, change=7
    )
    found = Ledger(metadata=Meta(name="project-lab", namespace="ullage-system", generation=4), spec=spec)
    known = book_of(found, now=BEGIN)
    sums = Takings.parse({"machines": {"cpu": str(used), "memory": "4Gi"}, "others": {"pieces": "1"}})
    known = Book.of(
        limits=known.limits,
        grants=known.grants,
        observed={SOURCE: Observed(7, BEGIN, sums)},
        limited=known.limited,
        since=known.since,
        exact_from={SOURCE: 7},
    )
    if reserved:
        now = Takings.parse({"machines": {"cpu": str(reserved)}})
        known, _ = book(known, Charge(key=f"{SOURCE}/kube-system/a", uid="a", now=now, past_limit=True), BEGIN)
    if wants:
        known = with_demand(known, {CPU: Quantity.of(wants)}, BEGIN)
    return replace(found, status=status_of(known, found, sources={SOURCE}, now=BEGIN))


def test_a_ledger_shows_what_is_used_and_reserved_and_wanted_of_machines_alone() -> None:
    assert seed_ledger(ledger(wants=8)) == SeedLedger(
        change=7,
        limits={CPU: Quantity.of(6)},
        grants={CPU: Quantity.of(9)},
        taken=Amounts({"cpu": Quantity.of(5), "memory": Quantity.parse("4Gi")}),
        demand={"cpu": Wanted(Quantity.of(8), BEGIN, BEGIN)},
        unreached="",
    )


@pytest.mark.parametrize(
    ("found", "why"),
    [
        pytest.param(ledger(), "", id="within its limits"),
        pytest.param(ledger(reserved=4), "more is used or reserved than the limits allow", id="what is reserved counts"),
        pytest.param(
            replace(ledger(), spec=replace(ledger().spec, change=8)),
            "nobody has counted since change 8: the status is about change 7",
            id="nobody has counted since",
        ),
        pytest.param(
            replace(ledger(), metadata=replace(ledger().metadata, generation=5)),
            "nobody has counted since change 7: the status is about change 7",
            id="somebody wrote the limits since",
        ),
    ],
)
def test_a_change_is_reached_by_the_ledger_s_own_rules(found: Ledger, why: str) -> None:
    assert seed_ledger(found).unreached.startswith(why)
    assert bool(seed_ledger(found).unreached) == bool(why)


def test_a_seed_without_a_ledger_has_no_limits() -> None:
    assert seed_ledger(None) == NO_LEDGER
    assert NO_LEDGER.limits == {}
    assert NO_LEDGER.unreached == "there is no ledger"


def test_a_ledger_that_cannot_be_read_says_which() -> None:
    broken = replace(ledger(), spec=LedgerSpec(limits={"machines": {"cpu": "-1"}}, change=7))
    with pytest.raises(LedgerError, match=r"ledger project-lab: spec.limits.machines.cpu -1: an amount is not negative"):
        seed_ledger(broken)
