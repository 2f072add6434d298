"""What `ullage ledger` prints."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
import yaml
from msgspec.structs import replace

from tests.unit.ledger.counted import counted
from ullage.cli.common.listing import shown
from ullage.cli.common.options import OutputFormat
from ullage.cli.common.text import structured
from ullage.cli.ledger import text
from ullage.kube.kinds import Meta
from ullage.ledger.amounts import Cell, Takings
from ullage.ledger.anew import rebuilt
from ullage.ledger.api import Count, Ledger, LedgerSpec, LedgerStatus
from ullage.ledger.book import Charge, book
from ullage.ledger.codec import book_of, status_of
from ullage.ledger.packing.strings import PackedError
from ullage.ledger.packing.sums import Sums, encode
from ullage.quantity import Quantity

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
CELL = Cell("snapshots/namespace", "storage")
KIND = "snapshots.longhorn.io"
UID = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"


def gib(count: int) -> Takings:
    return Takings({CELL: Quantity.parse(f"{count}Gi")})


def ledger(*, pending: bool = True) -> Ledger:
    """10 of 100 GiB are counted; 3 more were asked for, by an update, half a minute ago."""
    sums = Sums({KIND: gib(10)}, frozenset({CELL.account}))
    plain = Ledger(
        metadata=Meta(name="ns-team-a", namespace="ullage-system", creation_timestamp="2026-04-28T12:00:00Z"),
        spec=LedgerSpec(limits={"snapshots/namespace": {"storage": "100Gi"}}),
        status=LedgerStatus(
            observed={KIND: Count(view=4711, time="2026-05-01T11:50:00Z")},
            sums=encode(sums),
            since="2026-05-01T11:00:00Z",
            exact_from={KIND: 4711},
        ),
    )
    found = book_of(plain, now=NOW)
    if pending:
        asked = Charge(key=f"{KIND}//team-a/nightly", uid=UID, on_version=7, now=gib(13), old=gib(10))
        found, refusal = book(found, asked, NOW - timedelta(seconds=30))
        assert refusal is None
    return replace(plain, status=status_of(found, plain, sources={KIND}, now=NOW))


def table(given: list[Ledger], *, now: datetime) -> str:
    return shown(given, text.layout(), OutputFormat("table"), now=now)


def test_the_table_has_the_columns_of_kubectl() -> None:
    assert [line.split() for line in table([ledger()], now=NOW).splitlines()] == [
        ["NAME", "USED", "LIMIT", "%", "RESERVED", "READY", "AGE"],
        ["ns-team-a", "10Gi", "100Gi", "13%", "3Gi", "True", "3d"],
    ]


def test_a_ledger_that_nobody_has_counted_shows_no_numbers() -> None:
    fresh = Ledger(metadata=Meta(name="ns-new"))
    assert table([fresh], now=NOW).splitlines()[1].split() == ["ns-new", "-", "-", "-", "-", "-", "-"]


def test_a_description_shows_accounts_counts_and_what_is_pending() -> None:
    lines = [line.split() for line in text.described(ledger(), now=NOW).splitlines()]
    assert ["snapshots/namespace", "storage", "10Gi", "3Gi", "100Gi", "87Gi", "30s", "ago"] in lines
    assert ["Counted:", "snapshots.longhorn.io,", "at", "4711,", "10m", "ago"] in lines
    assert ["Pending:", "1"] in lines
    [attempt] = [line for line in lines if line and line[0] == f"{KIND}//team-a/nightly"]
    assert attempt[1] == UID
    assert " ".join(attempt[2:]) == (
        "update of version 7 snapshots/namespace storage: 13Gi snapshots/namespace storage: 10Gi 30s ago"
    )


def test_accounts_are_listed_for_programs_with_exact_quantities() -> None:
    assert text.account_list(ledger(), now=NOW) == [
        {
            "account": "snapshots/namespace",
            "resource": "storage",
            "used": "10Gi",
            "reserved": "3Gi",
            "limit": "100Gi",
            "free": "87Gi",
            "since": "2026-05-01T11:59:30Z",
            "byKind": {KIND: "10Gi"},
        }
    ]


@pytest.mark.parametrize(
    ("number", "noticed", "line"),
    [
        pytest.param(0, 0, None, id="limits that nobody numbers"),
        pytest.param(7, 7, "Change:   7, reached", id="reached"),
        pytest.param(
            7, 6, "Change:   7, nobody has counted since change 7: the status is about change 6", id="not noticed yet"
        ),
    ],
)
def test_a_description_says_whether_the_limits_are_reached(number: int, noticed: int, line: str | None) -> None:
    found = ledger()
    found = replace(found, spec=replace(found.spec, change=number), status=replace(found.status, change=noticed))
    said = [one for one in text.described(found, now=NOW).splitlines() if one.startswith("Change:")]
    assert said == ([] if line is None else [line])


def test_nothing_pending_is_said() -> None:
    assert "Pending:  none" in text.described(ledger(pending=False), now=NOW)


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_structured_output_is_the_object(output: str) -> None:
    shown = structured(text.as_json(ledger()), output)
    read = json.loads(shown) if output == "json" else yaml.safe_load(shown)
    assert (read["kind"], read["metadata"]["name"]) == ("Ledger", "ns-team-a")
    assert read["status"]["summary"] == ["snapshots/namespace storage: used 10Gi, reserved 3Gi, limit 100Gi"]


def test_a_ledger_that_cannot_be_read_says_how_to_go_on() -> None:
    broken = replace(ledger(), status=LedgerStatus(pending="2garbage"))
    with pytest.raises(PackedError, match="ullage ledger rebuild ns-team-a"):
        text.described(broken, now=NOW)


def test_a_rebuilt_ledger_is_empty_and_not_ready_and_its_stamps_go_on() -> None:
    before = ledger()
    broken = replace(before, status=replace(before.status, pending="2garbage"))
    after = rebuilt(broken, now=NOW)
    assert (after.status.pending, after.status.observed, counted(after.status.sums)) == ("", {}, {})
    assert after.spec == before.spec
    assert after.status.last_booking == before.status.last_booking, "no stamp is given twice"
    assert {one.type: one.status for one in after.status.conditions} == {"Ready": "False", "WithinLimits": "True"}
