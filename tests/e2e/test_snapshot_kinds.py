"""The kinds of both snapshot APIs: accepted by the API server, guarded by schema and rules, readable for people, and fit to
hold every object that the GA API's own controllers write."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ullage.kube.crds.definitions import crd_of, to_yaml
from ullage.kube.kinds import Kind, Meta
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.prototype.translation import PROTOTYPE
from ullage.snapshots.model import Change, Dialect, Problem, Record, Ref, State

from .api import Api
from .conftest import DEFINITIONS, wait_served
from .kubectl import Kubectl
from .snapshot_kinds import OwnKinds, until_explained

Json = dict[str, Any]
OWN = OwnKinds()
MARK, ALL = OWN.mark, OWN.all
SNAPSHOTS, CONTENTS, CLASSES, REQUESTS, DATAS = ALL
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def kubectl_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kubectl-snapshots")


@pytest.fixture(scope="module")
def served(api: Api, kubectl_home: Path) -> Iterator[Api]:
    """Applied as `ullage install` does it: server-side, from the text."""
    admin = Kubectl(api.plane, namespace="default", home=kubectl_home)
    text = to_yaml(*(crd_of(kind) for kind in ALL))
    assert admin("apply", "--server-side", "--field-manager=ullage", "-f", "-", stdin=text).err == "", "no warnings"
    for kind in ALL:
        wait_served(api, kind.path())
    for kind in ALL:
        until_explained(admin, kind)
    yield api
    for kind in ALL:
        api.call("DELETE", f"{DEFINITIONS}/{kind.name}")


@pytest.fixture
def kubectl(served: Api, namespace: str, kubectl_home: Path) -> Kubectl:
    return Kubectl(served.plane, namespace=namespace, home=kubectl_home)


def body(kind: Kind[Any], name: str = "a", **content: Any) -> Json:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, **content}


def place(kind: Kind[Any], namespace: str) -> str:
    return kind.path(namespace if kind.namespaced else "")


def own_name(namespace: str) -> str:
    """Objects outside of namespaces are shared by all tests."""
    return f"a-{namespace}"


# --- accepted --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.plural.removesuffix(MARK)) for kind in ALL])
def test_the_definition_is_accepted_as_it_is(served: Api, kind: Kind[Any]) -> None:
    found = served.get(f"{DEFINITIONS}/{kind.name}").obj
    conditions = {one["type"]: one["status"] for one in found["status"]["conditions"]}
    assert conditions["Established"] == "True"
    assert conditions["NamesAccepted"] == "True"
    assert "NonStructuralSchema" not in conditions


REF: Json = {"namespace": "team", "name": "snap"}
WHOLE_REF: Json = {
    **REF,
    "kind": "VolumeSnapshot",
    "apiVersion": "snapshot.storage.k8s.io/v1",
    "uid": "8f1c4a54-93e4-4c7b-9a3f-0d5b4d5b6c7d",
    "resourceVersion": "527",
    "fieldPath": "spec",
}
ERROR: Json = {"time": "2026-05-01T12:00:00Z", "message": "Failed to check and update snapshot content"}
CONTENT: Json = {
    "volumeSnapshotRef": REF,
    "deletionPolicy": "Delete",
    "driver": "csi.example.com",
    "source": {"volumeHandle": "v"},
}
CSI: Json = {"driver": "csi.example.com", "snapshotHandle": "shot-1"}

THEIRS = [
    pytest.param(
        SNAPSHOTS,
        {
            "spec": {"source": {"persistentVolumeClaimName": "data"}, "volumeSnapshotClassName": "gold"},
            "status": {
                "boundVolumeSnapshotContentName": "snapcontent-1",
                "creationTime": "2026-05-01T11:59:58Z",
                "readyToUse": False,
                "restoreSize": "10Gi",
                "error": ERROR,
                "volumeGroupSnapshotName": "group",
            },
        },
        id="a GA snapshot",
    ),
    pytest.param(
        SNAPSHOTS,
        {
            "spec": {"source": {"volumeSnapshotContentName": "snapcontent-1"}},
            "status": {"readyToUse": True, "restoreSize": "0"},
        },
        id="a GA snapshot that was there already",
    ),
    pytest.param(
        CONTENTS,
        {
            "spec": {
                **CONTENT,
                "volumeSnapshotRef": WHOLE_REF,
                "volumeSnapshotClassName": "gold",
                "sourceVolumeMode": "Filesystem",
            },
            "status": {
                "snapshotHandle": "shot-1",
                "creationTime": 1777636798123456789,
                "readyToUse": False,
                "restoreSize": 0,
                "error": ERROR,
                "volumeGroupSnapshotHandle": "group",
            },
        },
        id="a GA content",
    ),
    pytest.param(
        CLASSES, {"driver": "csi.example.com", "deletionPolicy": "Retain", "parameters": {"tier": "cold"}}, id="a GA class"
    ),
    pytest.param(
        REQUESTS,
        {
            "spec": {
                "persistentVolumeClaimName": "",
                "persistentVolumeClaim": "d",
                "snapshotDataName": "",
                "storageClassName": "",
            },
            "status": {
                "creationTimestamp": "2026-05-01T11:59:58Z",
                "conditions": [
                    {
                        "type": "Ready",
                        "status": "True",
                        "lastTransitionTime": "2026-05-01T11:59:58Z",
                        "reason": "",
                        "message": "Snapshot created successfully",
                    }
                ],
            },
        },
        id="a prototype snapshot as its first clients wrote it",
    ),
    pytest.param(
        DATAS,
        {
            "spec": {
                "csiVolumeSnapshotSource": {**CSI, "createdAt": 1777636798123456789},
                "volumeSnapshotRef": WHOLE_REF,
                "persistentVolumeRef": {"kind": "PersistentVolume", "name": "pv-1"},
            },
            "status": {"phase": "ready", "restoreSize": "1Gi", "conditions": [{"type": "Ready", "status": "True"}]},
        },
        id="prototype data",
    ),
]


@pytest.mark.parametrize(("kind", "content"), THEIRS)
def test_what_controllers_write_is_kept_whole_and_nothing_is_added(
    served: Api, namespace: str, kind: Kind[Any], content: Json
) -> None:
    name = own_name(namespace)
    path = f"{place(kind, namespace)}/{name}"
    found = served.create(f"{place(kind, namespace)}?fieldValidation=Strict", body(kind, name, **content))
    if kind.status:
        assert "status" not in found, "whoever creates an object does not say what came of it"
        found = served.replace(f"{path}/status?fieldValidation=Strict", {**found, "status": content["status"]})
    assert {key: found[key] for key in content} == content
    again = json.loads(msgspec.json.encode(msgspec.convert(found, kind.type)))
    assert {key: again[key] for key in content} == _without_empty(content)


def _without_empty(content: Json) -> Json:
    """Empty texts are what is not set, and are not sent again."""
    found: Json = json.loads(
        json.dumps(content), object_hook=lambda one: {key: value for key, value in one.items() if value != ""}
    )
    return found


# --- refused at creation ---------------------------------------------------------------------------------------------

ONE_SOURCE = "set exactly one: persistentVolumeClaimName (take a snapshot) or volumeSnapshotContentName (use one that exists)"
ONE_HANDLE = "set exactly one: volumeHandle (take a snapshot) or snapshotHandle (use one that exists)"
BOTH_NAMES = "name and namespace of the VolumeSnapshot must both be set"
ONE_OF_THREE = "set exactly one of hostPath, awsElasticBlockStore and csiVolumeSnapshotSource"
SPELLINGS = "persistentVolumeClaim and persistentVolumeClaimName are two spellings of one field and must name the same claim"
SOMETHING = "set persistentVolumeClaimName (take a snapshot of a claim) or snapshotDataName (use a snapshot that exists)"

REFUSED = [
    pytest.param(SNAPSHOTS, {}, "spec: Required value", id="GA snapshot: no spec"),
    pytest.param(SNAPSHOTS, {"spec": {}}, "spec.source: Required value", id="GA snapshot: no source"),
    pytest.param(SNAPSHOTS, {"spec": {"source": {}}}, f": {ONE_SOURCE}", id="GA snapshot: an empty source"),
    pytest.param(
        SNAPSHOTS,
        {"spec": {"source": {"persistentVolumeClaimName": "a", "volumeSnapshotContentName": "b"}}},
        f": {ONE_SOURCE}",
        id="GA snapshot: two sources",
    ),
    pytest.param(
        SNAPSHOTS,
        {"spec": {"source": {"persistentVolumeClaimName": "a"}, "volumeSnapshotClassName": ""}},
        'spec.volumeSnapshotClassName: Invalid value: "": name a class, or leave the field out for the default class',
        id="GA snapshot: an empty class",
    ),
    pytest.param(CONTENTS, {"spec": {}}, "spec.deletionPolicy: Required value", id="GA content: no policy"),
    pytest.param(CONTENTS, {"spec": {}}, "spec.driver: Required value", id="GA content: no driver"),
    pytest.param(CONTENTS, {"spec": {}}, "spec.volumeSnapshotRef: Required value", id="GA content: no snapshot"),
    pytest.param(
        CONTENTS,
        {"spec": {**CONTENT, "deletionPolicy": "Keep"}},
        'spec.deletionPolicy: Unsupported value: "Keep": supported values: "Delete", "Retain"',
        id="GA content: no such policy",
    ),
    pytest.param(CONTENTS, {"spec": {**CONTENT, "source": {}}}, f": {ONE_HANDLE}", id="GA content: an empty source"),
    pytest.param(
        CONTENTS,
        {"spec": {**CONTENT, "source": {"volumeHandle": "v", "snapshotHandle": "s"}}},
        f": {ONE_HANDLE}",
        id="GA content: two sources",
    ),
    pytest.param(
        CONTENTS, {"spec": {**CONTENT, "volumeSnapshotRef": {"name": "a"}}}, f": {BOTH_NAMES}", id="GA content: no namespace"
    ),
    pytest.param(CLASSES, {"driver": "x"}, "deletionPolicy: Required value", id="GA class: no policy"),
    pytest.param(CLASSES, {"deletionPolicy": "Delete"}, "driver: Required value", id="GA class: no driver"),
    pytest.param(
        CLASSES,
        {"driver": "x", "deletionPolicy": "Delete", "parameters": {"copies": 3}},
        "parameters.copies: Invalid value",
        id="GA class: a parameter that is no string",
    ),
    pytest.param(REQUESTS, {}, "spec: Required value", id="prototype snapshot: no spec"),
    pytest.param(REQUESTS, {"spec": {}}, f": {SOMETHING}", id="prototype snapshot: of nothing"),
    pytest.param(
        REQUESTS, {"spec": {"persistentVolumeClaim": ""}}, f": {SOMETHING}", id="prototype snapshot: of an empty name"
    ),
    pytest.param(
        REQUESTS,
        {"spec": {"persistentVolumeClaim": "a", "persistentVolumeClaimName": "b"}},
        f": {SPELLINGS}",
        id="prototype snapshot: two claims",
    ),
    pytest.param(
        REQUESTS,
        {"spec": {"persistentVolumeClaimName": "a" * 254}},
        "spec.persistentVolumeClaimName: Too long",
        id="prototype snapshot: a name that is too long",
    ),
    pytest.param(DATAS, {"spec": {}}, "spec.volumeSnapshotRef: Required value", id="prototype data: no snapshot"),
    pytest.param(DATAS, {"spec": {"volumeSnapshotRef": REF}}, f": {ONE_OF_THREE}", id="prototype data: no source"),
    pytest.param(
        DATAS,
        {"spec": {"volumeSnapshotRef": REF, "hostPath": {"snapshot": "/a"}, "csiVolumeSnapshotSource": CSI}},
        f": {ONE_OF_THREE}",
        id="prototype data: two sources",
    ),
    pytest.param(
        DATAS,
        {"spec": {"volumeSnapshotRef": REF, "hostPath": {}}},
        "spec.hostPath.snapshot: Required value",
        id="prototype data: a source that says nothing",
    ),
    pytest.param(
        DATAS,
        {"spec": {"volumeSnapshotRef": REF, "csiVolumeSnapshotSource": {**CSI, "driver": ""}}},
        "spec.csiVolumeSnapshotSource.driver: Invalid value",
        id="prototype data: no driver",
    ),
    pytest.param(
        DATAS,
        {"spec": {"volumeSnapshotRef": {"name": "a", "namespace": ""}, "hostPath": {"snapshot": ""}}},
        f": {BOTH_NAMES}",
        id="prototype data: an empty namespace",
    ),
]


@pytest.mark.parametrize(("kind", "content", "message"), REFUSED)
def test_what_is_refused_at_creation(kubectl: Kubectl, kind: Kind[Any], content: Json, message: str) -> None:
    said = kubectl.fails("create", "-f", "-", stdin=body(kind, own_name(kubectl.namespace), **content))
    assert message in said


# --- changes ---------------------------------------------------------------------------------------------------------

GA_SPEC: Json = {"source": {"persistentVolumeClaimName": "data"}}
HOSTPATH: Json = {"volumeSnapshotRef": REF, "hostPath": {"snapshot": ""}}
FILLED: Json = {"volumeSnapshotRef": {**REF, "uid": "u"}, "hostPath": {"snapshot": "/shots/1"}}
FIXED_SOURCE = "the source of a snapshot cannot be changed"
FIXED_HANDLE = "the handle of a snapshot cannot be changed once it is set"
FIXED_CLAIM = "the claim of a snapshot cannot be changed"
FIXED_REF = "volumeSnapshotRef cannot be changed: it is bound to that VolumeSnapshot"
FIXED_KIND = "the source of a snapshot cannot be changed to one of another kind"
FIXED_CLASS = "storageClassName cannot be changed once it is set"

CHANGES = [
    pytest.param(
        SNAPSHOTS, GA_SPEC, {"source": {"persistentVolumeClaimName": "b"}}, FIXED_SOURCE, id="GA snapshot: another claim"
    ),
    pytest.param(
        SNAPSHOTS,
        GA_SPEC,
        {"source": {"persistentVolumeClaimName": None, "volumeSnapshotContentName": "b"}},
        FIXED_SOURCE,
        id="GA snapshot: a content instead of a claim",
    ),
    pytest.param(SNAPSHOTS, GA_SPEC, {"volumeSnapshotClassName": "gold"}, "", id="GA snapshot: its default class is filled in"),
    pytest.param(CONTENTS, CONTENT, {"source": {"volumeHandle": "w"}}, FIXED_SOURCE, id="GA content: another volume"),
    pytest.param(CONTENTS, CONTENT, {"volumeSnapshotRef": {"uid": "u"}}, "", id="GA content: it is bound"),
    pytest.param(CONTENTS, CONTENT, {"deletionPolicy": "Retain"}, "", id="GA content: an administrator keeps the snapshot"),
    pytest.param(CONTENTS, CONTENT, {"sourceVolumeMode": "Block"}, "", id="GA content: the mode becomes known"),
    pytest.param(
        CONTENTS,
        {**CONTENT, "sourceVolumeMode": "Block"},
        {"sourceVolumeMode": "Filesystem"},
        "sourceVolumeMode cannot be changed once it is set",
        id="GA content: another mode",
    ),
    pytest.param(
        CONTENTS,
        {**CONTENT, "sourceVolumeMode": "Block"},
        {"sourceVolumeMode": None},
        "sourceVolumeMode cannot be changed once it is set",
        id="GA content: the mode is taken away",
    ),
    pytest.param(
        REQUESTS,
        {"persistentVolumeClaimName": "a"},
        {"persistentVolumeClaimName": "b"},
        FIXED_CLAIM,
        id="prototype snapshot: another claim",
    ),
    pytest.param(
        REQUESTS,
        {"snapshotDataName": "a"},
        {"persistentVolumeClaim": "b"},
        FIXED_CLAIM,
        id="prototype snapshot: a claim where there was none",
    ),
    pytest.param(
        REQUESTS,
        {"persistentVolumeClaim": "a"},
        {"persistentVolumeClaim": None, "persistentVolumeClaimName": "a"},
        "",
        id="prototype snapshot: the same claim, spelled otherwise",
    ),
    pytest.param(
        REQUESTS, {"persistentVolumeClaimName": "a"}, {"storageClassName": "gold"}, "", id="prototype snapshot: its class"
    ),
    pytest.param(
        REQUESTS,
        {"persistentVolumeClaimName": "a", "storageClassName": "gold"},
        {"storageClassName": "iron"},
        FIXED_CLASS,
        id="prototype snapshot: another class",
    ),
    pytest.param(
        REQUESTS, {"persistentVolumeClaimName": "a"}, {"snapshotDataName": "d"}, "", id="prototype snapshot: its data is named"
    ),
    pytest.param(
        REQUESTS,
        {"snapshotDataName": "a"},
        {"snapshotDataName": "b"},
        "",
        id="prototype snapshot: a name not bound is put right",
    ),
    pytest.param(DATAS, HOSTPATH, {"hostPath": {"snapshot": "/shots/1"}}, "", id="prototype data: the handle becomes known"),
    pytest.param(DATAS, FILLED, {"hostPath": {"snapshot": "/shots/2"}}, FIXED_HANDLE, id="prototype data: another handle"),
    pytest.param(DATAS, FILLED, {"hostPath": {"snapshot": ""}}, FIXED_HANDLE, id="prototype data: the handle is taken away"),
    pytest.param(
        DATAS,
        FILLED,
        {"hostPath": None, "awsElasticBlockStore": {"snapshotId": "snap-1"}},
        FIXED_KIND,
        id="prototype data: another kind of source",
    ),
    pytest.param(
        DATAS,
        {"volumeSnapshotRef": REF, "csiVolumeSnapshotSource": CSI},
        {"csiVolumeSnapshotSource": {"driver": "other.example.com"}},
        "the driver of a snapshot cannot be changed",
        id="prototype data: another driver",
    ),
    pytest.param(
        DATAS,
        {"volumeSnapshotRef": REF, "csiVolumeSnapshotSource": CSI},
        {"csiVolumeSnapshotSource": {"snapshotHandle": "shot-2"}},
        FIXED_HANDLE,
        id="prototype data: another handle of a driver",
    ),
    pytest.param(
        DATAS,
        {"volumeSnapshotRef": REF, "awsElasticBlockStore": {"snapshotId": "snap-1"}},
        {"awsElasticBlockStore": {"snapshotId": "snap-2"}},
        FIXED_HANDLE,
        id="prototype data: another id",
    ),
    pytest.param(DATAS, HOSTPATH, {"volumeSnapshotRef": {"uid": "u"}}, "", id="prototype data: it is bound"),
    pytest.param(DATAS, HOSTPATH, {"volumeSnapshotRef": {"name": "x"}}, "", id="prototype data: a name not bound is put right"),
    pytest.param(DATAS, FILLED, {"volumeSnapshotRef": {"uid": "w"}}, FIXED_REF, id="prototype data: bound to another one"),
    pytest.param(DATAS, FILLED, {"volumeSnapshotRef": {"uid": None}}, FIXED_REF, id="prototype data: set free"),
    pytest.param(
        DATAS, FILLED, {"volumeSnapshotRef": {"namespace": "other"}}, FIXED_REF, id="prototype data: moved to another namespace"
    ),
]


@pytest.mark.parametrize(("kind", "spec", "change", "message"), CHANGES)
def test_what_may_change(served: Api, namespace: str, kind: Kind[Any], spec: Json, change: Json, message: str) -> None:
    name = own_name(namespace)
    served.create(place(kind, namespace), body(kind, name, spec=spec))
    answer = served.call(
        "PATCH",
        f"{place(kind, namespace)}/{name}",
        {"spec": change},
        headers={"Content-Type": "application/merge-patch+json"},
    )
    if not message:
        assert answer.code == 200, answer.raw
        return
    assert answer.reason == "Invalid"
    assert [cause["message"] for cause in answer.causes if message in cause["message"]], answer.message


def test_a_name_that_is_bound_stays(served: Api, namespace: str) -> None:
    path = f"{place(REQUESTS, namespace)}/a"
    served.create(place(REQUESTS, namespace), body(REQUESTS, spec={"snapshotDataName": "old"}))
    served.merge(f"{path}/status", {"status": {"snapshotDataName": "old"}})
    with pytest.raises(AssertionError, match=r"spec\.snapshotDataName cannot be changed: the snapshot is bound to it"):
        served.merge(path, {"spec": {"snapshotDataName": "other"}})
    served.merge(path, {"metadata": {"labels": {"x": "y"}}})


@pytest.mark.parametrize(
    ("kind", "spec"),
    [pytest.param(SNAPSHOTS, GA_SPEC, id="ga"), pytest.param(REQUESTS, {"snapshotDataName": "x"}, id="prototype")],
)
def test_only_the_status_subresource_writes_the_status(served: Api, namespace: str, kind: Kind[Any], spec: Json) -> None:
    served.create(place(kind, namespace), body(kind, spec=spec))
    found = served.merge(f"{place(kind, namespace)}/a", {"status": {"restoreSize": "1Gi"}})
    assert "status" not in found
    found = served.merge(f"{place(kind, namespace)}/a/status", {"status": {"restoreSize": "1Gi"}})
    assert found["status"] == {"restoreSize": "1Gi"}


# --- what the dialects write -----------------------------------------------------------------------------------------


def write(api: Api, path: str, change: Change) -> None:
    if change.main is not None:
        api.merge(path, change.main)
    if change.status is not None:
        api.merge(f"{path}/status", change.status)


@pytest.mark.parametrize(
    ("dialect", "spec", "driver"),
    [
        pytest.param(GA, GA_SPEC, "csi.example.com", id="ga"),
        pytest.param(PROTOTYPE, {"persistentVolumeClaim": "data"}, "csi.example.com", id="prototype, csi"),
        pytest.param(PROTOTYPE, {"persistentVolumeClaim": "data"}, "ullage.io/hostpath", id="prototype, hostPath"),
        pytest.param(PROTOTYPE, {"persistentVolumeClaim": "data"}, "kubernetes.io/aws-ebs", id="prototype, EBS"),
    ],
)
def test_a_snapshots_life_as_a_dialect_writes_it(
    served: Api, namespace: str, dialect: Dialect[Any, Any], spec: Json, driver: str
) -> None:
    snapshots, records = OWN.like[dialect.snapshots], OWN.like[dialect.records]
    made = served.create(place(snapshots, namespace), body(snapshots, spec=spec))
    asked = dialect.read_snapshot(msgspec.convert(made, snapshots.type))
    record = Record(
        meta=Meta(name=dialect.record_name(asked)),
        ref=Ref(namespace, "a", asked.meta.uid),
        driver=driver,
        volume="vol-1",
        volume_mode="Filesystem",
        class_name="gold",
        secret=Ref("kube-system", "keys"),
        node="node-7",
    )
    new = {**dialect.new_record(record), "apiVersion": records.api_version, "kind": records.kind}
    served.create(f"{records.path()}?fieldValidation=Strict", new)
    snapshot_path, record_path = f"{place(snapshots, namespace)}/a", records.path("", record.meta.name)
    cut = datetime(2026, 5, 1, 11, 59, 58, tzinfo=UTC)
    for said in (
        State(problem=Problem("Busy", "try again")),
        State(handle="shot-1", cut=cut),
        State(handle="shot-1", cut=cut, ready=True, restore_size=10 * 2**30),
    ):
        obj = msgspec.convert(served.get(record_path).obj, records.type)
        write(served, record_path, dialect.record_change(obj, said, now=NOW))
        obj = msgspec.convert(served.get(record_path).obj, records.type)
        assert dialect.read_record(obj).state == said
        assert not dialect.record_change(obj, said, now=NOW)
        shown = State(record=record.meta.name, cut=said.cut, ready=said.ready, restore_size=said.restore_size)
        one = msgspec.convert(served.get(snapshot_path).obj, snapshots.type)
        write(served, snapshot_path, dialect.snapshot_change(one, shown, now=NOW))
        one = msgspec.convert(served.get(snapshot_path).obj, snapshots.type)
        assert dialect.read_snapshot(one).state == shown
        assert not dialect.snapshot_change(one, shown, now=NOW), "also after the server has counted a new generation"
    found = dialect.read_record(msgspec.convert(served.get(record_path).obj, records.type))
    assert (found.ref, found.driver, found.secret, found.node) == (record.ref, driver, record.secret, "node-7")
    served.merge(record_path, {"metadata": {"finalizers": None}})
    served.delete(record_path)


# --- what people see -------------------------------------------------------------------------------------------------


def test_columns_of_the_ga_kinds(served: Api, kubectl: Kubectl) -> None:
    name = own_name(kubectl.namespace)
    served.create(place(SNAPSHOTS, kubectl.namespace), body(SNAPSHOTS, spec={**GA_SPEC, "volumeSnapshotClassName": "gold"}))
    status = {"readyToUse": True, "restoreSize": "10Gi", "boundVolumeSnapshotContentName": "content-1"}
    served.merge(f"{place(SNAPSHOTS, kubectl.namespace)}/a/status", {"status": status})
    table = kubectl("get", f"vs{MARK}")
    columns = "NAME READYTOUSE SOURCEPVC SOURCESNAPSHOTCONTENT RESTORESIZE SNAPSHOTCLASS SNAPSHOTCONTENT CREATIONTIME AGE"
    assert table.lines[0].split() == columns.split()
    assert table.row("a")[1:6] == ["true", "data", "10Gi", "gold", "content-1"]
    served.create(CONTENTS.path(), body(CONTENTS, name, spec=CONTENT))
    table = kubectl("get", f"vsc{MARK}", name)
    columns = "NAME READYTOUSE RESTORESIZE DELETIONPOLICY DRIVER VOLUMESNAPSHOTCLASS VOLUMESNAPSHOT VOLUMESNAPSHOTNAMESPACE AGE"
    assert table.lines[0].split() == columns.split()
    assert table.row(name)[1:5] == ["Delete", "csi.example.com", "snap", "team"]
    served.create(CLASSES.path(), body(CLASSES, name, driver="csi.example.com", deletionPolicy="Retain"))
    table = kubectl("get", f"vsclasses{MARK}", name)
    assert table.lines[0].split() == ["NAME", "DRIVER", "DELETIONPOLICY", "AGE"]
    assert table.row(name)[1:3] == ["csi.example.com", "Retain"]


def test_columns_of_the_prototype_in_the_words_of_the_proposal(served: Api, kubectl: Kubectl) -> None:
    path, name = place(REQUESTS, kubectl.namespace), own_name(kubectl.namespace)
    for one, asked in (("a", {"persistentVolumeClaimName": "data"}), ("b", {"persistentVolumeClaim": "other"})):
        made = served.create(path, body(REQUESTS, one, spec=asked))
        obj = msgspec.convert(made, REQUESTS.type)
        state = State(record=f"data-{one}", cut=NOW, ready=True, restore_size=2**30)
        write(served, f"{path}/{one}", PROTOTYPE.snapshot_change(obj, state, now=NOW))
    table = kubectl("get", REQUESTS.plural)
    assert table.lines[0].split() == ["NAME", "STATUS", "CLAIM", "DATA", "SIZE", "AGE"]
    assert table.row("a")[1:5] == ["ready", "data", "data-a", "1Gi"]
    assert table.row("b")[1:5] == ["ready", "other", "data-b", "1Gi"]
    kubectl("wait", "--for=condition=Ready", "--timeout=5s", REQUESTS.plural, "a", "b")
    spec = {**HOSTPATH, "persistentVolumeRef": {"name": "pv-1"}}
    obj = msgspec.convert(served.create(DATAS.path(), body(DATAS, name, spec=spec)), DATAS.type)
    write(served, DATAS.path("", name), PROTOTYPE.record_change(obj, State(handle="/shots/1", cut=NOW), now=NOW))
    table = kubectl("get", DATAS.plural, name)
    assert table.lines[0].split() == ["NAME", "STATUS", "NAMESPACE", "SNAPSHOT", "VOLUME", "SIZE", "AGE"]
    assert table.row(name)[1:5] == ["uploading", "team", "snap", "pv-1"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        pytest.param(f"{SNAPSHOTS.plural}", "Asks for a snapshot of a claim's volume", id="a kind"),
        pytest.param(f"{SNAPSHOTS.plural}.spec.source", "exactly one of the fields is set", id="a choice"),
        pytest.param(f"{SNAPSHOTS.plural}.status.restoreSize", "The least size, in bytes", id="units of a quantity"),
        pytest.param(
            f"{CONTENTS.plural}.status.creationTime", "in nanoseconds since the beginning of 1970", id="units of a time"
        ),
        pytest.param(f"{CONTENTS.plural}.spec.deletionPolicy", "ENUM: Delete Retain", id="a policy"),
        pytest.param(f"{CLASSES.plural}", "snapshot.storage.kubernetes.io/is-default-class", id="how a class is the default"),
        pytest.param(f"{REQUESTS.plural}.spec.persistentVolumeClaim", "Another spelling of", id="a spelling"),
        pytest.param(f"{REQUESTS.plural}.spec.storageClassName", "ullage.io/snapshot-parameters", id="where parameters are"),
        pytest.param(f"{REQUESTS.plural}.status.phase", "creating, uploading (it is cut", id="a status in one word"),
        pytest.param(f"{DATAS.plural}.spec", "exactly one of hostPath, awsElasticBlockStore and csi", id="sources"),
    ],
)
def test_explain(kubectl: Kubectl, path: str, words: str) -> None:
    assert words in " ".join(kubectl("explain", path).out.split())
