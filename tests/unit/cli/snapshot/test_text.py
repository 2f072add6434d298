"""What `ullage snapshot` prints: lists, descriptions, news."""

from __future__ import annotations

import csv
import inspect
import io
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
import yaml

from tests.unit.cli.snapshot.cluster import GA, PROTOTYPE, Cluster
from ullage.cli.common.listing import shown
from ullage.cli.common.options import OutputFormat
from ullage.cli.snapshot import text
from ullage.cli.snapshot.description import SnapshotDetails, described
from ullage.cli.snapshot.found import Found
from ullage.cli.snapshot.progress import NEXT_STEPS, Verdict, judge, news, why_failed
from ullage.kube.builtin import core
from ullage.kube.builtin.events import Event
from ullage.kube.errors import Forbidden
from ullage.kube.kinds import Meta
from ullage.snapshots import binding, source_volume
from ullage.snapshots.api.prototype import translation as parameters
from ullage.snapshots.controllers import record_sync_rules as record_rules
from ullage.snapshots.controllers import snapshot_bind_rules as rules
from ullage.snapshots.model import Problem, Record, Ref, Snapshot, State

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
CUT = datetime(2026, 5, 1, 11, 50, 2, tzinfo=UTC)
READY = {
    "boundVolumeSnapshotContentName": "snapcontent-1",
    "creationTime": "2026-05-01T11:50:02Z",
    "readyToUse": True,
    "restoreSize": "1536Mi",
}
BROKEN = {"error": {"message": "DriverError: the disk\x1b[31m\nis full"}}


def found(name: str = "nightly", claim: str = "data", *, dialect: Any = GA, status: Any = None, **meta: Any) -> Found:
    return Cluster().snapshot(name, claim, dialect=dialect, status=status, **meta)


def table(given: Sequence[Found], *, now: datetime, **how: bool) -> str:
    return shown(given, text.layout(**how), OutputFormat("table"), now=now)


def listed(given: Sequence[Found], output: str) -> str:
    return text.comma_separated(given) if output == "csv" else shown(given, text.layout(), OutputFormat(output), now=NOW)


def cells(shown: str) -> list[list[str]]:
    return [line.split() for line in shown.splitlines()]


# --- lists -----------------------------------------------------------------------------------------------------------


def test_the_table_says_what_it_is_of_how_far_it_is_and_how_large() -> None:
    assert cells(table([found(status=READY)], now=NOW)) == [
        ["NAME", "CLAIM", "STATE", "SIZE", "CUT", "AGE"],
        ["nightly", "data", "ready", "1.5Gi", "2026-05-01T11:50:02Z", "10m"],
    ]


def test_what_is_not_known_is_a_dash() -> None:
    assert cells(table([found()], now=NOW))[1] == ["nightly", "data", "creating", "-", "-", "10m"]


def test_an_import_is_of_no_claim() -> None:
    one = found()
    imported = msgspec.structs.replace(
        one.obj, spec=msgspec.convert({"source": {"volumeSnapshotContentName": "c"}}, type(one.obj.spec))
    )
    assert cells(table([Found(GA, imported)], now=NOW))[1][1] == "(imported)"


def test_the_wide_table_ends_with_the_error_on_one_line_that_no_terminal_obeys() -> None:
    wide = table([found(status=BROKEN), found("b", status=READY)], now=NOW, wide=True, namespaces=True, dialects=True)
    head, broken, ready = wide.splitlines()
    assert head.split() == [
        *("NAMESPACE", "NAME", "DIALECT", "CLAIM", "STATE", "SIZE", "CUT", "AGE"),
        *("RECORD", "CLASS", "READY", "ERROR"),
    ]
    assert broken.endswith("DriverError: the disk?[31m is full")
    assert ready.split() == [
        *("shop", "b", "ga", "data", "ready", "1.5Gi", "2026-05-01T11:50:02Z", "10m"),
        *("snapcontent-1", "-", "yes", "-"),
    ]


def test_lists_are_by_namespace_claim_and_age() -> None:
    given = [
        found("new", creationTimestamp="2026-05-01T11:59:00Z"),
        found("old", creationTimestamp="2026-04-01T00:00:00Z"),
        found("zoo", "aaa"),
        found("far", "zzz", namespace="alpha"),
        found("old", dialect=PROTOTYPE, creationTimestamp="2026-04-01T00:00:00Z"),
    ]
    order = [(one.obj.metadata.name, one.dialect.name) for one in text.in_order(given)]
    assert order == [("far", "ga"), ("zoo", "ga"), ("old", "ga"), ("old", "prototype"), ("new", "ga")]


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_structured_output_is_a_list_of_the_objects(output: str) -> None:
    said = listed([found(status=READY), found(dialect=PROTOTYPE)], output)
    read = json.loads(said) if output == "json" else yaml.safe_load(said)
    assert (read["kind"], [item["apiVersion"] for item in read["items"]]) == (
        "List",
        ["snapshot.storage.k8s.io/v1", "volumesnapshot.external-storage.k8s.io/v1"],
    )
    assert read["items"][0]["status"]["restoreSize"] == "1536Mi"


def test_names_are_what_kubectl_takes() -> None:
    assert listed([found(), found(dialect=PROTOTYPE)], "name").splitlines() == [
        "volumesnapshot.snapshot.storage.k8s.io/nightly",
        "volumesnapshot.volumesnapshot.external-storage.k8s.io/nightly",
    ]


def test_csv_has_bytes_and_times_for_programs() -> None:
    ready, broken = csv.DictReader(io.StringIO(listed([found(status=READY), found(status=BROKEN)], "csv")))
    assert (ready["restoreSizeBytes"], ready["cut"], ready["ready"]) == ("1610612736", "2026-05-01T11:50:02Z", "true")
    assert (broken["restoreSizeBytes"], broken["state"], broken["error"]) == (
        "",
        "error",
        "DriverError: the disk?[31m is full",
    )


# --- descriptions ----------------------------------------------------------------------------------------------------

RECORD = Record(
    meta=Meta(name="snapcontent-1"),
    ref=Ref("shop", "nightly", "uid-nightly"),
    driver="csi.example.com",
    state=State(handle="snap-7"),
)


def lines(known: SnapshotDetails) -> list[str]:
    return [" ".join(line.split()) for line in described(known, now=NOW).splitlines()]


def test_a_description_has_times_sizes_and_what_the_record_says() -> None:
    shown = lines(SnapshotDetails(found=found(status=READY, labels={"ullage.io/volume": "pv-1"}), record=RECORD))
    for line in (
        "State: ready",
        "Claim: data (volume pv-1)",
        "Cut: 2026-05-01T11:50:02Z, 2s after the request",
        "Size: 1.5Gi (1610612736 bytes) is the least for a volume made from it",
        "Record: snapcontent-1",
        "Driver: csi.example.com",
        "Handle: snap-7",
        "Policy: Delete: the data goes with it",
        "No events.",
    ):
        assert line in shown


def test_one_that_was_given_says_by_whom_and_when_its_data_goes() -> None:
    given = replace(RECORD, meta=Meta(name="snapshare-1", annotations={"ullage.io/shared-by": "golden"}))
    shown = lines(SnapshotDetails(found=found(status=READY, annotations={"ullage.io/shared-from": "lab/one"}), record=given))
    assert "Given by: lab/one (namespace/snapshot)" in shown
    assert "Policy: Delete: the data goes with the last snapshot that stands for it" in shown


@pytest.mark.parametrize(
    ("record", "said"),
    [
        pytest.param(
            Forbidden("no"),
            "(you may not read volumesnapshotcontents.snapshot.storage.k8s.io: driver and handle are not shown)",
            id="users of a namespace may not read records",
        ),
        pytest.param(None, "(it does not exist)", id="a record that is gone"),
        pytest.param(replace(RECORD, policy="Retain"), "Policy: Retain: the data outlives it", id="a record that is kept"),
    ],
)
def test_a_description_says_what_it_cannot_show(record: Record | Forbidden | None, said: str) -> None:
    assert said in lines(SnapshotDetails(found=found(status=READY), record=record))


def test_an_error_comes_with_what_to_do() -> None:
    shown = lines(SnapshotDetails(found=found(status={"error": {"message": "ClaimNotBound: claim shop/data is Pending"}})))
    assert "Error: ClaimNotBound: claim shop/data is Pending" in shown
    assert "What to do: wait until the claim is Bound; its events say what it waits for" in shown


def test_an_error_of_another_snapshotter_is_tried_again() -> None:
    assert "What to do: nothing: it is tried again" in lines(
        SnapshotDetails(found=found(status={"error": {"message": "rpc failed"}}))
    )


def test_conditions_restored_claims_and_events_are_tables() -> None:
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "Usable",
        "message": "m",
        "lastTransitionTime": "2026-05-01T11:00:00Z",
    }
    one = found(dialect=PROTOTYPE, status={"conditions": [ready]})
    claim = msgspec.convert(
        {
            "metadata": {"name": "copy", "creationTimestamp": "2026-05-01T11:59:30Z"},
            "spec": {"resources": {"requests": {"storage": "2Gi"}}},
            "status": {"phase": "Bound"},
        },
        core.PersistentVolumeClaim,
    )
    old = {
        "deprecatedLastTimestamp": "2026-05-01T11:59:00Z",
        "deprecatedCount": 3,
        "reason": "R",
        "note": "n\nn",
        "type": "Normal",
    }
    shown = lines(SnapshotDetails(found=one, claims=[claim], events=[msgspec.convert(old, Event)]))
    assert "Ready True 60m Usable m" in shown
    assert "copy Bound 2Gi 30s" in shown
    assert "Normal 60s (x3) R n n" in shown


def test_every_reason_that_the_controller_gives_has_a_next_step() -> None:
    """They are collected from the source of the rules, so that a new one is not forgotten here."""
    source = "".join(map(inspect.getsource, (rules, binding, source_volume, record_rules, parameters)))
    reasons = set(re.findall(r'Problem\(\s*"([A-Z]\w+)"', source)) - {"Creating", "WaitingForTurn"}  # these are waited for
    reasons |= set(re.findall(r'"(Driver\w+)"', inspect.getsource(record_rules)))
    assert len(reasons) > 15
    assert reasons - set(NEXT_STEPS) == set()


# --- progress --------------------------------------------------------------------------------------------------------


def snapshot(*, deleting: bool = False, **state: Any) -> Snapshot:
    meta = Meta(
        name="nightly",
        namespace="shop",
        uid="u",
        creation_timestamp="2026-05-01T11:50:00Z",
        deletion_timestamp="2026-05-01T12:00:00Z" if deleting else None,
    )
    return Snapshot(meta=meta, claim="data", state=State(**state))


TERMINAL, PASSES = Problem("DriverError", "no such volume"), Problem("DriverRetrying", "busy")


@pytest.mark.parametrize(
    ("seen", "goal", "verdict"),
    [
        pytest.param(snapshot(), "ready", Verdict.GOING, id="nothing has happened yet"),
        pytest.param(snapshot(cut=CUT), "ready", Verdict.GOING, id="cut is not ready"),
        pytest.param(snapshot(cut=CUT), "cut", Verdict.DONE, id="cut"),
        pytest.param(snapshot(cut=CUT, ready=True), "ready", Verdict.DONE, id="ready"),
        pytest.param(snapshot(ready=True), "cut", Verdict.DONE, id="ready without a time is cut too"),
        pytest.param(snapshot(problem=TERMINAL), "ready", Verdict.FAILED, id="a problem that only an edit mends"),
        pytest.param(snapshot(problem=PASSES), "ready", Verdict.GOING, id="a problem that is tried again"),
        pytest.param(snapshot(problem=Problem("", "rpc")), "ready", Verdict.GOING, id="a problem of another snapshotter"),
        pytest.param(snapshot(ready=True, deleting=True), "ready", Verdict.FAILED, id="it is being deleted"),
        pytest.param(None, "ready", Verdict.FAILED, id="it is gone"),
        pytest.param(None, "deleted", Verdict.DONE, id="gone, as wished"),
        pytest.param(snapshot(deleting=True, problem=TERMINAL), "deleted", Verdict.GOING, id="deletion goes on"),
    ],
)
def test_whether_it_has_come(seen: Snapshot | None, goal: str, verdict: Verdict) -> None:
    assert judge(seen, goal) is verdict


WRITE = "the application may write again"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        pytest.param(None, snapshot(), ["requested"], id="the first look"),
        pytest.param(
            snapshot(),
            snapshot(cut=CUT),
            [f"cut at 2026-05-01T11:50:02Z after 2 s; {WRITE}"],
            id="the cut frees the application",
        ),
        pytest.param(
            snapshot(cut=CUT),
            snapshot(cut=CUT, ready=True, restore_size=2**30),
            ["ready; a volume made from it needs 1Gi"],
            id="ready, and how large",
        ),
        pytest.param(
            snapshot(),
            snapshot(cut=CUT, ready=True),
            [f"cut at 2026-05-01T11:50:02Z after 2 s; {WRITE}", "ready"],
            id="both between two looks",
        ),
        pytest.param(snapshot(), snapshot(problem=PASSES), ["trouble: DriverRetrying: busy"], id="a problem"),
        pytest.param(snapshot(problem=PASSES), snapshot(problem=PASSES), [], id="the same problem is no news"),
        pytest.param(snapshot(problem=PASSES), snapshot(), [], id="a problem that went"),
        pytest.param(
            snapshot(), snapshot(waiting=Problem("WaitingForTurn", "another one")), ["waits: another one"], id="a wait"
        ),
        pytest.param(snapshot(), snapshot(waiting=Problem("Creating", "asked")), [], id="what all wait for is no news"),
        pytest.param(snapshot(ready=True), snapshot(ready=True, deleting=True), ["deleting"], id="deletion"),
        pytest.param(None, snapshot(cut=CUT, ready=True, deleting=True), ["deleting"], id="what goes is not praised"),
        pytest.param(snapshot(deleting=True), None, ["gone"], id="the end"),
    ],
)
def test_what_is_worth_a_line(old: Snapshot | None, new: Snapshot | None, told: Sequence[str]) -> None:
    assert list(news(old, new)) == told


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        pytest.param(snapshot(problem=TERMINAL), "snapshot n failed: DriverError: no such volume", id="the error's own text"),
        pytest.param(None, "snapshot n was deleted before it was ready", id="gone"),
        pytest.param(snapshot(deleting=True), "snapshot n was deleted before it was ready", id="going"),
    ],
)
def test_why_it_will_not_come(seen: Snapshot | None, said: str) -> None:
    assert why_failed(seen, "ready", name="n") == said
