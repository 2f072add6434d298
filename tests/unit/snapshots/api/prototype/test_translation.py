"""`volumesnapshot.external-storage.k8s.io/v1` on the wire: conditions, sources, both spellings, parameters of a class."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.snapshots.api.objects import CSI_SAMPLE, EBS_SAMPLE, HOSTPATH_SAMPLE, REF, Json, Sample, applied, read
from ullage.kube.builtin.storage import StorageClass
from ullage.kube.kinds import Meta
from ullage.snapshots.api.prototype.translation import PROTOTYPE
from ullage.snapshots.model import NODE, SOURCE, Problem, Record, Ref, SnapshotClass, State

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
LATER = datetime(2026, 5, 1, 13, tzinfo=UTC)
CUT = datetime(2026, 5, 1, 11, 59, 58, 123456, tzinfo=UTC)
WAITS = Problem("Queued", "after team/other")
FAILS = Problem("ClaimNotBound", "claim team/data is Pending")


def snapshot(status: Json | None = None, **spec: Any) -> Any:
    wanted = spec or {"persistentVolumeClaimName": "data"}
    return read(PROTOTYPE.snapshots, {**CSI_SAMPLE.snapshot, "spec": wanted, "status": status or {}})


# --- conditions ------------------------------------------------------------------------------------------------------


def said(status: Json) -> dict[str, str]:
    return {one["type"]: f"{one['status']} {one['reason']}" for one in status["conditions"]}


@pytest.mark.parametrize(
    ("state", "phase", "conditions"),
    [
        pytest.param(
            State(),
            "creating",
            {"Creating": "True BeingTaken", "Uploading": "False NotCut", "Ready": "False BeingTaken", "Error": "False NoError"},
            id="nothing is known yet",
        ),
        pytest.param(
            State(waiting=WAITS),
            "creating",
            {"Creating": "True Queued", "Uploading": "False NotCut", "Ready": "False Queued", "Error": "False NoError"},
            id="it waits for something",
        ),
        pytest.param(
            State(cut=CUT),
            "uploading",
            {"Creating": "False Cut", "Uploading": "True BeingStored", "Ready": "False BeingStored", "Error": "False NoError"},
            id="it is cut",
        ),
        pytest.param(
            State(cut=CUT, ready=True),
            "ready",
            {"Creating": "False Cut", "Uploading": "False Stored", "Ready": "True Usable", "Error": "False NoError"},
            id="it is ready",
        ),
        pytest.param(
            State(problem=FAILS),
            "error",
            {
                "Creating": "False Stopped",
                "Uploading": "False NotCut",
                "Ready": "False ClaimNotBound",
                "Error": "True ClaimNotBound",
            },
            id="it cannot be taken",
        ),
        pytest.param(
            State(cut=CUT, problem=FAILS),
            "error",
            {
                "Creating": "False Cut",
                "Uploading": "False Stopped",
                "Ready": "False ClaimNotBound",
                "Error": "True ClaimNotBound",
            },
            id="it is cut and cannot be stored",
        ),
    ],
)
def test_a_state_as_conditions(state: State, phase: str, conditions: dict[str, str]) -> None:
    change = PROTOTYPE.snapshot_change(snapshot(), state, now=NOW)
    assert change.status is not None
    assert change.status["status"]["phase"] == phase
    assert said(change.status["status"]) == conditions
    data = PROTOTYPE.record_change(read(PROTOTYPE.records, CSI_SAMPLE.record), state, now=NOW)
    assert data.status is not None
    assert said(data.status["status"]) == {type: text for type, text in conditions.items() if type != "Creating"}


def test_reason_and_message_stand_where_people_look() -> None:
    change = PROTOTYPE.snapshot_change(snapshot(), State(problem=FAILS), now=NOW)
    assert change.status is not None
    by_type = {one["type"]: one for one in change.status["status"]["conditions"]}
    assert by_type["Error"] == {
        "type": "Error",
        "status": "True",
        "lastTransitionTime": "2026-05-01T12:00:00Z",
        "reason": "ClaimNotBound",
        "message": "claim team/data is Pending",
    }
    assert by_type["Ready"]["message"] == "claim team/data is Pending"


def test_transition_times_move_only_when_the_status_does_and_conditions_of_others_stay() -> None:
    theirs = {"type": "Audited", "status": "True", "reason": "Yes", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    body = {**CSI_SAMPLE.snapshot, "status": {"conditions": [theirs]}}
    for state, now in ((State(waiting=WAITS), NOW), (State(), LATER)):
        body = applied(body, PROTOTYPE.snapshot_change(read(PROTOTYPE.snapshots, body), state, now=now))
    assert said(body["status"])["Creating"] == "True BeingTaken"
    times = {one["type"]: one["lastTransitionTime"] for one in body["status"]["conditions"]}
    assert times["Creating"] == "2026-05-01T12:00:00Z", "another reason, the same status"
    body = applied(body, PROTOTYPE.snapshot_change(read(PROTOTYPE.snapshots, body), State(cut=CUT), now=LATER))
    times = {one["type"]: one["lastTransitionTime"][11:13] for one in body["status"]["conditions"]}
    assert times == {"Creating": "13", "Uploading": "13", "Ready": "12", "Error": "12", "Audited": "00"}


@pytest.mark.parametrize(
    ("status", "state"),
    [
        pytest.param({}, State(), id="nothing said"),
        pytest.param({"conditions": [{"type": "Ready", "status": "True"}]}, State(ready=True), id="another program's Ready"),
        pytest.param({"conditions": [{"type": "Ready", "status": "Unknown"}]}, State(), id="Ready is not known"),
        pytest.param({"conditions": [{"type": "Error", "status": "True"}]}, State(problem=Problem("", "")), id="a bare Error"),
        pytest.param({"creationTimestamp": "soon", "restoreSize": "much"}, State(), id="what cannot be read"),
        pytest.param({"snapshotDataName": "snapdata-1"}, State(record="snapdata-1"), id="bound"),
    ],
)
def test_what_a_snapshot_says(status: Json, state: State) -> None:
    assert PROTOTYPE.read_snapshot(snapshot(status)).state == state


# --- what is asked for -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "claim", "wanted"),
    [
        pytest.param({"persistentVolumeClaimName": "data"}, "data", "", id="the field"),
        pytest.param({"persistentVolumeClaim": "data"}, "data", "", id="its other spelling"),
        pytest.param({"persistentVolumeClaim": "data", "persistentVolumeClaimName": ""}, "data", "", id="one of them empty"),
        pytest.param({"persistentVolumeClaim": "data", "persistentVolumeClaimName": "data"}, "data", "", id="both"),
        pytest.param({"snapshotDataName": "old"}, "", "old", id="a snapshot that exists"),
        pytest.param(
            {"persistentVolumeClaim": "data", "snapshotDataName": "x"}, "data", "", id="a claim, and a name beside it"
        ),
    ],
)
def test_what_a_snapshot_asks_for(spec: Json, claim: str, wanted: str) -> None:
    found = PROTOTYPE.read_snapshot(snapshot(**spec))
    assert (found.claim, found.imported_record) == (claim, wanted)
    assert found.state.record == "", "whatever a user writes into the spec, nothing is bound by it"


@pytest.mark.parametrize(
    ("given", "written"),
    [
        pytest.param("", {"spec": {"snapshotDataName": "snapdata-1"}}, id="it is filled in"),
        pytest.param("snapdata-1", None, id="it is there"),
        pytest.param("snapdata-of-others", {"spec": {"snapshotDataName": "snapdata-1"}}, id="it is put right"),
    ],
)
def test_the_name_of_the_data_is_in_spec_and_status(given: str, written: Json | None) -> None:
    obj = snapshot(persistentVolumeClaimName="data", snapshotDataName=given)
    change = PROTOTYPE.snapshot_change(obj, State(record="snapdata-1"), now=NOW)
    assert change.main == written
    assert change.status is not None
    assert change.status["status"]["snapshotDataName"] == "snapdata-1"


def test_a_snapshot_that_is_not_bound_keeps_the_name_that_it_asks_for() -> None:
    change = PROTOTYPE.snapshot_change(snapshot(snapshotDataName="old"), State(problem=FAILS), now=NOW)
    assert change.main is None


# --- data ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("driver", "source"),
    [
        pytest.param("ullage.io/hostpath", {"hostPath": {"snapshot": ""}}, id="hostPath"),
        pytest.param("kubernetes.io/aws-ebs", {"awsElasticBlockStore": {"snapshotId": ""}}, id="EBS, as it was in Kubernetes"),
        pytest.param(
            "ebs.csi.aws.com",
            {"csiVolumeSnapshotSource": {"driver": "ebs.csi.aws.com", "snapshotHandle": ""}},
            id="EBS, as it is now",
        ),
        pytest.param(
            "csi.example.com", {"csiVolumeSnapshotSource": {"driver": "csi.example.com", "snapshotHandle": ""}}, id="any driver"
        ),
    ],
)
def test_new_data_on_the_wire(driver: str, source: Json) -> None:
    record = Record(
        meta=Meta(name="snapdata-uid-snap", labels={"c": "d"}),
        ref=Ref("team", "snap", "uid-snap"),
        driver=driver,
        volume="vol-1",
        volume_name="pv-1",
        volume_mode="Block",
        class_name="gold",
        secret=Ref("kube-system", "keys"),
        node="node-7",
    )
    assert PROTOTYPE.new_record(record) == {
        "apiVersion": "volumesnapshot.external-storage.k8s.io/v1",
        "kind": "VolumeSnapshotData",
        "metadata": {
            "name": "snapdata-uid-snap",
            "labels": {"c": "d"},
            "annotations": {
                SOURCE: "vol-1",
                NODE: "node-7",
                "ullage.io/source-volume-mode": "Block",
                "ullage.io/storage-class": "gold",
                "ullage.io/deletion-secret-name": "keys",
                "ullage.io/deletion-secret-namespace": "kube-system",
            },
            "finalizers": ["ullage.io/snapshot-data"],
        },
        "spec": {
            **source,
            "volumeSnapshotRef": {"kind": "VolumeSnapshot", "apiVersion": "volumesnapshot.external-storage.k8s.io/v1", **REF},
            "persistentVolumeRef": {"kind": "PersistentVolume", "apiVersion": "v1", "name": "pv-1"},
        },
    }


@pytest.mark.parametrize(
    ("sample", "written"),
    [
        pytest.param(HOSTPATH_SAMPLE, {"hostPath": {"snapshot": "/shots/1"}}, id="hostPath"),
        pytest.param(EBS_SAMPLE, {"awsElasticBlockStore": {"snapshotId": "/shots/1"}}, id="EBS"),
        pytest.param(
            CSI_SAMPLE,
            {"csiVolumeSnapshotSource": {"snapshotHandle": "/shots/1", "createdAt": 1777636798123456000}},
            id="csi, with its exact time",
        ),
    ],
)
def test_a_handle_goes_into_the_spec_and_stays_there(sample: Sample, written: Json) -> None:
    state = State(handle="/shots/1", cut=CUT, restore_size=2**30)
    change = PROTOTYPE.record_change(read(PROTOTYPE.records, sample.record), state, now=NOW)
    assert change.main == {"spec": written}
    assert change.status is not None
    assert change.status["status"]["creationTimestamp"] == "2026-05-01T11:59:58Z"
    assert change.status["status"]["restoreSize"] == "1Gi"
    body = applied(sample.record, change)
    for again in (PROTOTYPE.read_record(read(PROTOTYPE.records, body)).state, State(problem=FAILS)):
        assert PROTOTYPE.record_change(read(PROTOTYPE.records, body), again, now=LATER).main is None
    found = PROTOTYPE.read_record(read(PROTOTYPE.records, body))
    assert (found.handle, found.imported, found.volume) == ("/shots/1", "", "vol-1")


def test_data_without_any_source_is_read() -> None:
    body = {**CSI_SAMPLE.record, "spec": {"volumeSnapshotRef": REF}}
    assert PROTOTYPE.read_record(read(PROTOTYPE.records, body)).driver == ""
    assert PROTOTYPE.record_change(read(PROTOTYPE.records, body), State(handle="x"), now=NOW).main is None


# --- classes ---------------------------------------------------------------------------------------------------------


def storage_class(text: str | None) -> StorageClass:
    annotations = {} if text is None else {"ullage.io/snapshot-parameters": text}
    return StorageClass(metadata=Meta(name="gold", annotations=annotations), provisioner="csi.example.com")


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        pytest.param(None, {}, id="no annotation"),
        pytest.param("{}", {}, id="an empty object"),
        pytest.param(
            '{"tier": "cold", "csi.storage.k8s.io/x": ""}', {"tier": "cold", "csi.storage.k8s.io/x": ""}, id="strings"
        ),
        pytest.param(json.dumps({f"k{n}": "" for n in range(512)}), {f"k{n}": "" for n in range(512)}, id="512 parameters"),
        pytest.param(json.dumps({"é": "x" * (256 * 1024 - 2)}), {"é": "x" * (256 * 1024 - 2)}, id="exactly 256 KiB"),
    ],
)
def test_parameters_on_a_class(text: str | None, parameters: Json) -> None:
    wanted = SnapshotClass(name="gold", driver="csi.example.com", policy="Delete", parameters=parameters)
    assert PROTOTYPE.read_class(storage_class(text)) == wanted


_WHERE = "StorageClass gold, annotation ullage.io/snapshot-parameters: "
_MUST = 'it must be a JSON object of strings, such as {"tier": "cold"}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param('{"tier": "cold", "copies": 3}', f"the value of 'copies' is not a string; {_MUST}", id="a number"),
        pytest.param('{"a": {"b": "c"}}', f"the value of 'a' is not a string; {_MUST}", id="an object inside"),
        pytest.param('{"a": null}', f"the value of 'a' is not a string; {_MUST}", id="null"),
        pytest.param('{"": "x"}', f"a key is empty; {_MUST}, whose keys are not empty", id="an empty key"),
        pytest.param(
            json.dumps({f"k{n}": "" for n in range(513)}), "it has 513 parameters; 512 are allowed", id="one parameter too many"
        ),
        pytest.param(
            json.dumps({"é": "x" * (256 * 1024 - 1)}),
            "keys and values have 262145 bytes; 262144 bytes (256 KiB) are allowed",
            id="one byte too many",
        ),
    ],
)
def test_parameters_that_cannot_be_used(text: str, message: str) -> None:
    found = PROTOTYPE.read_class(storage_class(text))
    assert found.problem == Problem("BadParameters", _WHERE + message)
    assert found.parameters == {}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param('{"a": ', id="half of it"),
        pytest.param("tier=cold", id="no JSON"),
        pytest.param('["a"]', id="a list"),
        pytest.param("[" * 100_000, id="lists in lists without end"),
        pytest.param('{"a": ' * 50_000, id="objects in objects without end"),
        pytest.param('{"a": ' + "[" * 50_000 + "]" * 50_000 + "}", id="a deep value"),
        pytest.param('{"a": "\\ud800"}', id="half a character"),
    ],
)
def test_no_text_of_a_class_is_too_odd_to_read(text: str) -> None:
    problem = PROTOTYPE.read_class(storage_class(text)).problem
    assert problem is not None
    assert problem.message.startswith(_WHERE)
    assert problem.message.endswith(_MUST)
