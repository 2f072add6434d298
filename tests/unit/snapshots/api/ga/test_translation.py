"""`snapshot.storage.k8s.io/v1` on the wire: what is written is what the group's own controllers write, and what they wrote
is read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.snapshots.api.objects import GA_SAMPLE, REF, Json, applied, read
from ullage.kube.kinds import Meta
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.model import NODE, Problem, Record, Ref, SnapshotClass, State

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
LATER = datetime(2026, 5, 1, 13, tzinfo=UTC)
CUT = datetime(2026, 5, 1, 11, 59, 58, 123456, tzinfo=UTC)
NANOSECONDS = 1777636798123456000


def snapshot(status: Json, **spec: Any) -> Any:
    body = {**GA_SAMPLE.snapshot, "spec": {**GA_SAMPLE.snapshot["spec"], **spec}, "status": status}
    return read(GA.snapshots, body)


def content(status: Json) -> Any:
    return read(GA.records, {**GA_SAMPLE.record, "status": status})


def test_a_snapshot_on_the_wire() -> None:
    state = State(record="snapcontent-1", cut=CUT, restore_size=10 * 2**30)
    change = GA.snapshot_change(snapshot({}), state, now=NOW)
    assert change.main is None
    assert change.status == {
        "status": {
            "boundVolumeSnapshotContentName": "snapcontent-1",
            "creationTime": "2026-05-01T11:59:58Z",
            "readyToUse": False,
            "restoreSize": "10Gi",
        }
    }


def test_a_content_on_the_wire() -> None:
    state = State(handle="shot-1", cut=CUT, ready=True, restore_size=10 * 2**30)
    change = GA.record_change(content({}), state, now=NOW)
    assert change.main is None
    assert change.status == {
        "status": {
            "snapshotHandle": "shot-1",
            "creationTime": NANOSECONDS,
            "readyToUse": True,
            "restoreSize": 10737418240,
        }
    }


def test_a_new_content_on_the_wire() -> None:
    record = Record(
        meta=Meta(name="snapcontent-uid-snap", annotations={"a": "b"}, labels={"c": "d"}),
        ref=Ref("team", "snap", "uid-snap"),
        driver="csi.example.com",
        volume="vol-1",
        volume_mode="Block",
        policy="Retain",
        class_name="gold",
        secret=Ref("kube-system", "keys"),
        node="node-7",
    )
    assert GA.new_record(record) == {
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshotContent",
        "metadata": {
            "name": "snapcontent-uid-snap",
            "labels": {"c": "d"},
            "annotations": {
                "a": "b",
                NODE: "node-7",
                "snapshot.storage.kubernetes.io/deletion-secret-name": "keys",
                "snapshot.storage.kubernetes.io/deletion-secret-namespace": "kube-system",
            },
            "finalizers": ["snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection"],
        },
        "spec": {
            "volumeSnapshotRef": {"kind": "VolumeSnapshot", "apiVersion": "snapshot.storage.k8s.io/v1", **REF},
            "deletionPolicy": "Retain",
            "driver": "csi.example.com",
            "source": {"volumeHandle": "vol-1"},
            "volumeSnapshotClassName": "gold",
            "sourceVolumeMode": "Block",
        },
    }


def test_the_finalizers_are_those_of_the_ecosystem() -> None:
    prefix = "snapshot.storage.kubernetes.io/"
    names = ["volumesnapshot-as-source-protection", "volumesnapshot-bound-protection"]
    assert list(GA.finalizers) == [prefix + name for name in names]
    assert GA.record_finalizer == prefix + "volumesnapshotcontent-bound-protection"
    assert GA.claim_finalizer == prefix + "pvc-as-source-protection"


# --- reading ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "state"),
    [
        pytest.param({}, State(), id="nothing said"),
        pytest.param({"readyToUse": False}, State(), id="not ready"),
        pytest.param(
            {"creationTime": "2026-05-01T13:59:58+02:00"}, State(cut=CUT.replace(microsecond=0)), id="a time with an offset"
        ),
        pytest.param({"creationTime": "2026-05-01T11:59:58.123456789Z"}, State(cut=CUT), id="a time with nine digits"),
        pytest.param({"creationTime": "2026-05-01T11:59:58.123456"}, State(cut=CUT), id="a time without an offset"),
        pytest.param({"creationTime": "2026-06-30T23:59:60Z"}, State(), id="a leap second"),
        pytest.param({"creationTime": "0001-01-01T00:00:00+14:00"}, State(), id="a time before the calendar begins"),
        pytest.param({"creationTime": "soon"}, State(), id="no time at all"),
        pytest.param({"restoreSize": 1024}, State(restore_size=1024), id="a size as a number"),
        pytest.param({"restoreSize": "1.5Ki"}, State(restore_size=1536), id="a size with a fraction"),
        pytest.param({"restoreSize": "0"}, State(restore_size=0), id="a size of nothing"),
        pytest.param({"restoreSize": "-1"}, State(), id="a size below zero"),
        pytest.param({"restoreSize": "much"}, State(), id="no size at all"),
        pytest.param({"error": {}}, State(problem=Problem("", "")), id="an error without words"),
        pytest.param(
            {"error": {"message": "Failed to create: rpc error: code = Internal"}},
            State(problem=Problem("", "Failed to create: rpc error: code = Internal")),
            id="an error in another controller's words",
        ),
        pytest.param(
            {"error": {"time": "2026-05-01T11:00:00Z", "message": "ClaimNotBound: claim a/b is Pending\nsince today"}},
            State(problem=Problem("ClaimNotBound", "claim a/b is Pending\nsince today")),
            id="an error in ours",
        ),
    ],
)
def test_what_a_snapshot_says(status: Json, state: State) -> None:
    assert GA.read_snapshot(snapshot(status)).state == state


@pytest.mark.parametrize(
    ("status", "state"),
    [
        pytest.param({"creationTime": NANOSECONDS + 789}, State(cut=CUT), id="nanoseconds"),
        pytest.param({"creationTime": 2**63 - 1}, State(cut=datetime(2262, 4, 11, 23, 47, 16, 854775, tzinfo=UTC)), id="late"),
        pytest.param({"creationTime": 10**24}, State(), id="later than the calendar ends"),
        pytest.param({"restoreSize": 0}, State(restore_size=0), id="a size of nothing"),
    ],
)
def test_what_a_content_says(status: Json, state: State) -> None:
    assert GA.read_record(content(status)).state == state


@pytest.mark.parametrize(
    ("spec", "claim", "wanted", "class_name"),
    [
        pytest.param({}, "data", "", None, id="of a claim"),
        pytest.param({"volumeSnapshotClassName": "gold"}, "data", "", "gold", id="with a class"),
        pytest.param({"source": {"volumeSnapshotContentName": "old"}}, "", "old", None, id="of a snapshot that exists"),
    ],
)
def test_what_a_snapshot_asks_for(spec: Json, claim: str, wanted: str, class_name: str | None) -> None:
    found = GA.read_snapshot(snapshot({}, **spec))
    assert (found.claim, found.imported_record, found.class_name) == (claim, wanted, class_name)


def test_half_a_secret_is_none() -> None:
    body = {**GA_SAMPLE.record}
    body["metadata"] = {"name": "x", "annotations": {"snapshot.storage.kubernetes.io/deletion-secret-name": "keys"}}
    assert GA.read_record(read(GA.records, body)).secret is None


@pytest.mark.parametrize(
    ("annotations", "default"),
    [
        pytest.param({"snapshot.storage.kubernetes.io/is-default-class": "true"}, True, id="the default"),
        pytest.param({"snapshot.storage.kubernetes.io/is-default-class": "false"}, False, id="not any more"),
        pytest.param({}, False, id="never"),
    ],
)
def test_a_class(annotations: Json, default: bool) -> None:
    body = {
        "metadata": {"name": "gold", "annotations": annotations},
        "driver": "csi.example.com",
        "deletionPolicy": "Retain",
        "parameters": {"tier": "cold"},
    }
    assert GA.read_class(read(GA.classes, body)) == SnapshotClass(
        name="gold", driver="csi.example.com", policy="Retain", parameters={"tier": "cold"}, is_default=default
    )


# --- writing over what is there --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({"creationTime": "2026-05-01T13:59:58+02:00", "readyToUse": True}, id="a time with an offset"),
        pytest.param({"restoreSize": "1024Mi", "readyToUse": True}, id="a size that is not canonical"),
        pytest.param({"volumeGroupSnapshotName": "group", "readyToUse": True}, id="a member of a group"),
        pytest.param({}, id="nothing"),
    ],
)
def test_what_others_wrote_in_their_own_way_is_not_corrected(status: Json) -> None:
    obj = snapshot(status)
    assert not GA.snapshot_change(obj, GA.read_snapshot(obj).state, now=NOW)


def test_a_time_that_differs_in_what_a_snapshot_cannot_say_is_the_same() -> None:
    obj = snapshot({"creationTime": "2026-05-01T13:59:58+02:00", "readyToUse": True})
    assert not GA.snapshot_change(obj, State(cut=CUT, ready=True), now=NOW)


def test_nanoseconds_that_others_wrote_stay_exact() -> None:
    status = {"creationTime": NANOSECONDS + 789, "snapshotHandle": "shot-1", "readyToUse": False}
    obj = content({**status, "volumeGroupSnapshotHandle": "group"})
    state = State(handle="shot-1", cut=CUT, ready=True)
    assert GA.record_change(obj, state, now=NOW).status == {"status": {"readyToUse": True}}


def test_the_time_of_an_error_is_when_it_was_first_seen() -> None:
    first = State(problem=Problem("Busy", "try again"))
    body = applied(GA_SAMPLE.snapshot, GA.snapshot_change(snapshot({}), first, now=NOW))
    assert body["status"]["error"] == {"time": "2026-05-01T12:00:00Z", "message": "Busy: try again"}
    assert not GA.snapshot_change(read(GA.snapshots, body), first, now=LATER)
    other = State(problem=Problem("Busy", "try later"))
    assert GA.snapshot_change(read(GA.snapshots, body), other, now=LATER).status == {
        "status": {"error": {"time": "2026-05-01T13:00:00Z", "message": "Busy: try later"}}
    }
    assert GA.snapshot_change(read(GA.snapshots, body), State(), now=LATER).status == {"status": {"error": None}}
