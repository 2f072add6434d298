"""What lists print in each format, and how a table goes on."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.cli.snapshot.cluster import Cluster
from ullage.cli.common.listing import ChangingTable, shown
from ullage.cli.common.options import OutputFormat, output_format, selector
from ullage.cli.snapshot.found import Found
from ullage.cli.snapshot.text import layout
from ullage.errors import BadInput

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
READY: dict[str, object] = {"readyToUse": True, "restoreSize": "1536Mi"}


def found(name: str = "a", status: dict[str, object] | None = None) -> Found:
    return Cluster().snapshot(name, "data", status=status)


@pytest.mark.parametrize(
    ("output", "text"),
    [
        pytest.param("jsonpath={.items[*].metadata.name}", "a b", id="jsonpath"),
        pytest.param("custom-columns=N:.metadata.name", "N\na\nb", id="custom columns"),
        pytest.param("name", "volumesnapshot.snapshot.storage.k8s.io/a\nvolumesnapshot.snapshot.storage.k8s.io/b", id="names"),
    ],
)
def test_formats(output: str, text: str) -> None:
    assert shown([found("a"), found("b")], layout(), output_format(output), now=NOW) == text


def test_one_that_was_named_is_no_list() -> None:
    assert json.loads(shown([found()], layout(), OutputFormat("json"), now=NOW, single=True))["kind"] == "VolumeSnapshot"
    assert json.loads(shown([found()], layout(), OutputFormat("json"), now=NOW))["kind"] == "List"


@pytest.mark.parametrize("given", ["xml", "jsonpath", "", "custom-columns", "Table"])
def test_an_unknown_format(given: str) -> None:
    with pytest.raises(BadInput, match=r"^--output .*: table, wide, json, yaml, name, jsonpath=TEMPLATE or custom-col"):
        output_format(given)


def test_a_selector_is_checked_here() -> None:
    assert selector(None) == ""
    assert selector("app=db,tier!=test") == "app=db,tier!=test"
    with pytest.raises(
        BadInput, match=r"^--selector a in: not a selector \(.*\); allowed is something like app=db,tier!=test$"
    ):
        selector("a in")


def test_a_table_goes_on_with_a_row_for_each_change_that_reads_otherwise() -> None:
    lines: list[str] = []
    table = ChangingTable(layout(), OutputFormat("table"), write=lines.append)
    table.begin([found("first-of-all"), found("b")], NOW)
    table.change(found("b"), NOW + timedelta(hours=1))
    assert len(lines) == 1, "only its age is another"
    table.change(found("b", READY), NOW)
    table.change(found("b", READY), NOW, gone=True)
    assert lines[0].splitlines()[0] == "NAME           CLAIM   STATE      SIZE   CUT   AGE"
    assert lines[1:] == [
        "b              data    ready      1.5Gi   -     10m",
        "b              data    gone       1.5Gi   -     10m",
    ]


def test_programs_get_each_object_as_it_is_then() -> None:
    lines: list[str] = []
    table = ChangingTable(layout(), output_format("jsonpath={.metadata.name}:{.status.readyToUse}"), write=lines.append)
    table.begin([found()], NOW)
    table.change(found("a", READY), NOW)
    assert lines == ["a:", "a:true"]
