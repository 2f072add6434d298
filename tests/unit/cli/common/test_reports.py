"""Reports: what is printed once, and what is printed again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ullage.cli.common.listing import RepeatedReport, Report, Table, print_report
from ullage.cli.common.options import OutputFormat

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
Thing = tuple[str, int]

TABLE: Table[Thing] = Table(
    head=("NAME", "COUNT", "HOUR"),
    cells=lambda one, now: (one[0], str(one[1]), str(now.hour)),
    name=lambda one: f"thing/{one[0]}",
    uid=lambda one: one[0],
    body=lambda one: {"name": one[0], "count": one[1]},
    state="COUNT",
)


def report(*rows: Thing, notes: tuple[str, ...] = ()) -> Report[Thing]:
    return Report(rows=rows, table=TABLE, notes=notes, nothing="there is nothing")


def repeated(how: str, *reports: Report[Thing], capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str]]:
    """What each says, the first at noon and the others an hour later."""
    written: RepeatedReport[Thing] = RepeatedReport(OutputFormat(how))
    said = []
    for place, one in enumerate(reports):
        written.show(one, LATER if place else NOW)
        found = capsys.readouterr()
        said.append((found.out, found.err))
    return said


def test_that_time_goes_by_is_no_reason_to_show_it_again(capsys: pytest.CaptureFixture[str]) -> None:
    said = repeated("table", report(("a", 1)), report(("a", 1)), report(("a", 2)), capsys=capsys)
    assert [out.split() for out, _ in said] == [
        ["NAME", "COUNT", "HOUR", "a", "1", "12"],
        [],
        ["NAME", "COUNT", "HOUR", "a", "2", "13"],
    ]
    assert said[2][0].startswith("\nNAME")


def test_what_comes_back_as_it_was_is_shown_again(capsys: pytest.CaptureFixture[str]) -> None:
    said = repeated("table", report(("a", 1)), report(), report(("a", 1)), capsys=capsys)
    assert [bool(out) for out, _ in said] == [True, False, True]
    assert [err for _, err in said] == ["", "ullage: there is nothing\n", ""]


def test_a_remark_is_made_again_when_it_did_not_hold_meanwhile(capsys: pytest.CaptureFixture[str]) -> None:
    odd = report(("a", 1), notes=("it is odd",))
    said = repeated("table", odd, odd, report(("a", 1)), odd, capsys=capsys)
    assert [err for _, err in said] == ["ullage: it is odd\n", "", "", "ullage: it is odd\n"]


def test_for_programs_what_changed_and_what_is_gone_come_by_themselves(capsys: pytest.CaptureFixture[str]) -> None:
    both = report(("a", 1), ("b", 1))
    said = repeated("name", both, both, report(("a", 2), ("b", 1)), report(("a", 2)), report(), capsys=capsys)
    assert said == [("thing/a\nthing/b\n", ""), ("", ""), ("thing/a\n", ""), ("thing/b\n", ""), ("thing/a\n", "")]


@pytest.mark.parametrize(
    ("how", "out", "err"),
    [
        pytest.param("table", "", "ullage: it is odd\nullage: there is nothing\n", id="people are told"),
        pytest.param("name", "", "ullage: it is odd\n", id="no name"),
        pytest.param("jsonpath", "v1", "ullage: it is odd\n", id="an empty list"),
    ],
)
def test_nothing_is_printed_once(how: str, out: str, err: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_report(report(notes=("it is odd",)), OutputFormat(how, "{.apiVersion}"), now=NOW)
    found = capsys.readouterr()
    assert (found.out.strip(), found.err) == (out, err)
