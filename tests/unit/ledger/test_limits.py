"""Changes of limits: what is written for one, and when it is reached."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from tests.unit.ledger.simulated import merged
from tests.unit.ledger.world import BEGIN, KIND
from ullage.kube.kinds import Meta
from ullage.ledger.amounts import BadAmount, Cell, Limits, Takings, parse_limits
from ullage.ledger.api import Ledger, LedgerSpec
from ullage.ledger.book import Book, Charge, Observed, book
from ullage.ledger.codec import book_of, status_of
from ullage.ledger.limits import has_limits, limits_patch, unreached
from ullage.quantity import Quantity

Written = dict[str, dict[str, str]]
BOTH: Written = {"snapshots/vm/db": {"storage": "5Gi", "pieces": "3"}, "machines": {"cpu": "8"}}


@pytest.mark.parametrize(
    ("wanted", "about", "limits"),
    [
        pytest.param({"machines": {"cpu": "4"}}, "", {"machines": {"cpu": "4"}}, id="all others go"),
        pytest.param({}, "", {}, id="none are left"),
        pytest.param(BOTH, "", BOTH, id="the same ones stay"),
        pytest.param({"machines": {"cpu": "0"}}, "machines", {**BOTH, "machines": {"cpu": "0"}}, id="zero is a limit"),
        pytest.param(
            {"snapshots/vm/db": {"storage": "5Gi"}},
            "snapshots",
            {**BOTH, "snapshots/vm/db": {"storage": "5Gi"}},
            id="one resource of an account goes",
        ),
        pytest.param({}, "snapshots", {"machines": {"cpu": "8"}}, id="others' accounts stay"),
        pytest.param({}, "snap", BOTH, id="a name that begins alike is another account"),
    ],
)
def test_the_patch_turns_what_was_seen_into_what_is_wanted(wanted: Written, about: str, limits: Written) -> None:
    seen = LedgerSpec(limits=BOTH, change=4)
    patch = limits_patch(seen, parse_limits(wanted), number=5, about=about)
    assert patch["metadata"] == {"managedFields": [{}]}
    after = merged({"limits": BOTH, "change": 4}, patch["spec"])
    assert after == {"limits": limits, "change": 5}, "limits and number come together"
    assert has_limits(LedgerSpec(limits=after["limits"]), parse_limits(wanted), about=about)
    assert has_limits(seen, parse_limits(wanted), about=about) == (limits == BOTH)


@pytest.mark.parametrize(
    ("wanted", "about", "error", "message"),
    [
        pytest.param(
            {Cell("machines", "cpu"): Quantity.of(-1)},
            "",
            BadAmount,
            "machines.cpu -1: an amount is not negative",
            id="less than none",
        ),
        pytest.param(
            parse_limits(BOTH),
            "snapshots",
            ValueError,
            "limits on machines: this change is about snapshots",
            id="an account of others",
        ),
    ],
)
def test_limits_that_are_not_written(wanted: Limits, about: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        limits_patch(LedgerSpec(), wanted, number=1, about=about)


# --- is it reached? --------------------------------------------------------------------------------------------------


def ledger(*, limit: int = 5, used: int = 5, reserved: int = 0, exact: bool = True, noticed: bool = True) -> Ledger:
    """Change 7 set the limit; it is counted after that, unless nobody has `noticed`."""
    before = Ledger(
        metadata=Meta(name="ns-lab", namespace="ullage-system", generation=3),
        spec=LedgerSpec(limits={"cups": {"pieces": "9"}}, change=6),
    )
    after = replace(
        before,
        metadata=replace(before.metadata, generation=4),
        spec=LedgerSpec(limits={"cups": {"pieces": str(limit)}}, change=7),
    )
    written = after if noticed else before
    sums = Takings.parse({"cups": {"pieces": str(used)}})
    counted = {KIND: Observed(7, BEGIN, sums)}
    found = book_of(written, now=BEGIN)
    found = Book.of(
        limits=found.limits, observed=counted, limited=found.limited, since=found.since, exact_from={KIND: 7 if exact else 8}
    )
    if reserved:
        asked = Charge(key=f"{KIND}//lab/a", uid="a", now=Takings.parse({"cups": {"pieces": str(reserved)}}), past_limit=True)
        found, _ = book(found, asked, BEGIN)
    status = status_of(found, written, sources={KIND}, now=BEGIN)
    return replace(after, status=status)


def by_hand(found: Ledger) -> Ledger:
    """Somebody has written the spec over since, with the number that it had."""
    return replace(found, metadata=replace(found.metadata, generation=5))


@pytest.mark.parametrize(
    ("found", "number", "why"),
    [
        pytest.param(ledger(), 7, "", id="full to the last piece"),
        pytest.param(ledger(used=2, reserved=3), 7, "", id="what is reserved fits too"),
        pytest.param(
            ledger(), 8, "change 8 has not come: the limits are those of change 7", id="a change that is still on its way"
        ),
        pytest.param(ledger(), 6, "change 7 has taken the place of change 6", id="a change that another has replaced"),
        pytest.param(
            ledger(noticed=False),
            7,
            "nobody has counted since change 7: the status is about change 6",
            id="exact and within limits, but of the change before",
        ),
        pytest.param(
            by_hand(ledger()), 7, "nobody has counted since change 7: the status is about change 7", id="another generation"
        ),
        pytest.param(
            ledger(exact=False),
            7,
            "the count is not exact: new requests are held to what is set, and what was admitted before may still arrive;"
            " to be counted after all requests have ended that began before"
            f" 2026-01-01T00:00:00Z: {KIND}",
            id="not counted since the first limit",
        ),
        pytest.param(
            ledger(used=6),
            7,
            "more is used or reserved than the limits allow: cups pieces: used 6, reserved 0, limit 5, over by 1",
            id="more is used",
        ),
        pytest.param(
            ledger(used=5, reserved=1),
            7,
            "more is used or reserved than the limits allow: cups pieces: used 5, reserved 1, limit 5, over by 1",
            id="what was admitted before is on its way",
        ),
        pytest.param(
            replace(ledger(), spec=LedgerSpec(change=7), status=replace(ledger().status, conditions=())),
            7,
            "the count is not exact",
            id="no conditions",
        ),
    ],
)
def test_a_change_is_reached_once_nothing_can_be_past_it(found: Ledger, number: int, why: str) -> None:
    assert unreached(found, number) == why
