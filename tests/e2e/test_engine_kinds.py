"""Longhorn's kinds as we bring them along, and the door in front of Snapshots: accepted by API servers, readable for people,
and fit to hold what Longhorn itself writes."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ullage.admission.run import Settings, run_webhook
from ullage.engines.api import ENGINE_SNAPSHOTS, ENGINES, KINDS, VOLUMES
from ullage.engines.chain import HEAD
from ullage.engines.policy import POLICY
from ullage.engines.settings import Settings as EngineSettings
from ullage.engines.slice import Options, engines
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.kube.crds.definitions import crd_of, to_yaml
from ullage.kube.kinds import Kind
from ullage.kube.slices import Wiring
from ullage.serving.certificates import Terms

from .api import Api
from .choice import DISPOSABLE
from .conftest import DEFINITIONS, wait_served
from .control_plane import ControlPlane
from .kubectl import Kubectl, Ran
from .snapshot_kinds import until_explained

Json = dict[str, Any]
CREATED = "2026-05-01T11:59:58Z"
SYSTEM = "system:serviceaccount:ullage-system:controller"
START_SECONDS = 60.0
PREFER = (
    "prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers"
)


@pytest.fixture(scope="module")
def kubectl_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kubectl-engines")


@pytest.fixture(scope="module")
def served(api: Api, kubectl_home: Path) -> Api:
    """Under their own names, since the hooks know them by these: workers share them, and nobody takes them away."""
    if os.environ.get("E2E_KUBECONFIG") and not os.environ.get(DISPOSABLE):
        pytest.skip("a cluster of somebody's own may have Longhorn's kinds for real")
    admin = Kubectl(api.plane, namespace="default", home=kubectl_home)
    text = to_yaml(*map(crd_of, KINDS))
    assert admin("apply", "--server-side", "--field-manager=ullage", "-f", "-", stdin=text).err == "", "no warnings"
    for kind in KINDS:
        wait_served(api, kind.path())
    for kind in KINDS:
        until_explained(admin, kind)
    return api


@pytest.fixture
def kubectl(served: Api, namespace: str, kubectl_home: Path) -> Kubectl:
    return Kubectl(served.plane, namespace=namespace, home=kubectl_home)


def body(kind: Kind[Any], name: str, **content: Any) -> Json:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, **content}


# --- the kinds -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.plural) for kind in KINDS])
def test_the_definition_is_accepted_as_it_is(served: Api, kind: Kind[Any]) -> None:
    found = served.get(f"{DEFINITIONS}/{kind.name}").obj
    conditions = {one["type"]: one["status"] for one in found["status"]["conditions"]}
    assert (conditions["Established"], conditions["NamesAccepted"]) == ("True", "True")
    assert "NonStructuralSchema" not in conditions


SNAPSHOT_STATUS: Json = {
    "parent": "",
    "children": {HEAD: True},
    "markRemoved": False,
    "userCreated": True,
    "requestedTime": CREATED,
    "creationTime": CREATED,
    "size": 4096,
    "labels": None,
    "ownerID": "node-1",
    "error": "",
    "restoreSize": 1073741824,
    "readyToUse": True,
    "checksum": "c4f2b5d6",
    "checksumCalculatedAt": CREATED,
}
ENTRY: Json = {
    "name": HEAD,
    "parent": "a",
    "children": None,
    "removed": False,
    "usercreated": False,
    "created": CREATED,
    "size": "0",
    "labels": None,
}
THEIRS = [
    pytest.param(
        ENGINE_SNAPSHOTS,
        {"spec": {"volume": "vol", "createSnapshot": False, "labels": None}, "status": SNAPSHOT_STATUS},
        id="a snapshot",
    ),
    pytest.param(
        VOLUMES,
        {
            "spec": {
                "size": "1073741824",
                "numberOfReplicas": 3,
                "snapshotMaxCount": 250,
                "snapshotMaxSize": "0",
                "nodeID": "node-1",
                "frontend": "blockdev",
                "dataLocality": "disabled",
            },
            "status": {
                "state": "attached",
                "robustness": "healthy",
                "actualSize": 4096,
                "currentNodeID": "node-1",
                "conditions": [{"type": "Scheduled", "status": "True", "reason": "", "message": "", "lastProbeTime": ""}],
                "kubernetesStatus": {"pvName": "pv-1"},
            },
        },
        id="a volume",
    ),
    pytest.param(
        ENGINES,
        {
            "spec": {"volumeName": "vol", "volumeSize": "1073741824", "desireState": "running", "active": True, "image": "x"},
            "status": {
                "currentState": "running",
                "currentSize": "1073741824",
                "endpoint": "/dev/longhorn/vol",
                "snapshots": {HEAD: ENTRY},
                "snapshotsError": "",
                "purgeStatus": {"tcp://10.0.0.1:1": {"error": "", "isPurging": False, "progress": 0, "state": ""}},
                "snapshotMaxCount": 250,
                "snapshotMaxSize": "0",
                "replicaModeMap": {"r-1": "RW"},
            },
        },
        id="an engine",
    ),
]


@pytest.mark.parametrize(("kind", "content"), THEIRS)
def test_what_longhorn_writes_is_kept_whole_and_can_be_read(
    served: Api, namespace: str, kind: Kind[Any], content: Json
) -> None:
    path = kind.path(namespace)
    found = served.create(path, body(kind, "a", **content))
    found = served.replace(f"{path}/a/status", {**found, "status": content["status"]})
    assert {key: found[key] for key in content} == content
    msgspec.convert(found, kind.type)


def test_a_field_that_longhorn_does_not_know_is_dropped_from_a_snapshot(served: Api, namespace: str) -> None:
    spec = {"volume": "vol", "createSnapshot": True, "dataEngine": "v3", "colour": "red"}
    found = served.create(ENGINE_SNAPSHOTS.path(namespace), body(ENGINE_SNAPSHOTS, "a", spec=spec))
    assert found["spec"] == {"volume": "vol", "createSnapshot": True}


def test_a_person_reads_snapshots_in_columns(served: Api, namespace: str, kubectl: Kubectl) -> None:
    path = ENGINE_SNAPSHOTS.path(namespace)
    found = served.create(path, body(ENGINE_SNAPSHOTS, "daily", spec={"volume": "vol", "createSnapshot": False}))
    served.replace(f"{path}/daily/status", {**found, "status": SNAPSHOT_STATUS})
    table = kubectl("get", "lhsnap")
    assert table.lines[0].split() == ["NAME", "VOLUME", "CREATED", "READY", "SIZE", "RESTORE-SIZE", "AGE"]
    row = table.row("daily")
    assert (row[1], row[3], row[4], row[5]) == ("vol", "true", "4096", "1073741824")
    wide = kubectl("get", "snapshots.longhorn.io", "-o", "wide").lines[0].split()
    assert wide[-4:] == ["PARENT", "REMOVED", "USER", "ERROR"]


def test_every_field_is_explained(kubectl: Kubectl) -> None:
    text = " ".join(kubectl("explain", "snapshots.longhorn.io.status.requestedTime").out.split())
    assert "It is written before the engine is asked" in text
    text = " ".join(kubectl("explain", "volumes.longhorn.io.spec.attachmentTickets").out.split())
    assert "Demands that the volume be attached, by id" in text


GOOD: Json = {"size": "1073741824"}
TICKET: Json = {"owner": {"kind": "Snapshot", "name": "a", "uid": "u"}, "since": CREATED, "until": CREATED}
BAD_VOLUMES = [
    ("no spec at all", None, "spec is required"),
    ("no size", {"numberOfReplicas": 1}, "size: a number of bytes, a multiple of 2097152 (2Mi), is required"),
    ("a size with a unit", {"size": "1Gi"}, "size: a number of bytes, a multiple of 2097152 (2Mi), is required"),
    ("a size of nothing", {"size": "0"}, "size: a number of bytes, a multiple of 2097152 (2Mi), is required"),
    ("a size less than nothing", {"size": "-2097152"}, "size: a number of bytes, a multiple of 2097152 (2Mi), is required"),
    ("a size that is no multiple", {"size": "2097153"}, "size: a number of bytes, a multiple of 2097152 (2Mi), is required"),
    ("a size beyond any disk", {"size": "9" * 30}, "size: a number of bytes, a multiple of 2097152 (2Mi), is required"),
    ("one snapshot", {**GOOD, "snapshotMaxCount": 1}, "snapshotMaxCount: 2 to 250 are allowed, or 0, which is 250"),
    ("251 snapshots", {**GOOD, "snapshotMaxCount": 251}, "snapshotMaxCount: 2 to 250 are allowed, or 0, which is 250"),
    ("fewer than none", {**GOOD, "snapshotMaxCount": -1}, "snapshotMaxCount: 2 to 250 are allowed, or 0, which is 250"),
    ("bytes in words", {**GOOD, "snapshotMaxSize": "1Gi"}, "snapshotMaxSize: a number of bytes is allowed, or 0: no limit"),
    ("bytes below none", {**GOOD, "snapshotMaxSize": "-1"}, "snapshotMaxSize: a number of bytes is allowed, or 0: no limit"),
    ("too many replicas", {**GOOD, "numberOfReplicas": 21}, "numberOfReplicas: 0 to 20 are allowed"),
    ("a source that is none", {**GOOD, "dataSource": "vol/snap"}, "dataSource: snap://VOLUME/SNAPSHOT is allowed"),
    (
        "a ticket of nobody",
        {**GOOD, "attachmentTickets": {"t": {"until": CREATED}}},
        "an attachment ticket has an end (until) and an owner: its kind, and of a Snapshot name and uid",
    ),
    (
        "a ticket without an end",
        {**GOOD, "attachmentTickets": {"t": {"owner": TICKET["owner"]}}},
        "an attachment ticket has an end (until) and an owner: its kind, and of a Snapshot name and uid",
    ),
    (
        "a ticket of any Snapshot",
        {**GOOD, "attachmentTickets": {"t": {**TICKET, "owner": {"kind": "Snapshot", "name": "a"}}}},
        "an attachment ticket has an end (until) and an owner: its kind, and of a Snapshot name and uid",
    ),
    ("a ticket until whenever", {**GOOD, "attachmentTickets": {"t": {**TICKET, "until": "whenever"}}}, "date-time"),
]


@pytest.mark.parametrize(("spec", "words"), [row[1:] for row in BAD_VOLUMES], ids=[row[0] for row in BAD_VOLUMES])
def test_a_volume_that_cannot_be_is_refused_by_the_server_itself(
    served: Api, namespace: str, spec: Json | None, words: str
) -> None:
    answer = served.call("POST", VOLUMES.path(namespace), body(VOLUMES, "v", **({"spec": spec} if spec is not None else {})))
    assert answer.code == 422, answer.raw
    assert words in answer.obj["message"]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(GOOD, id="a size is enough"),
        pytest.param({**GOOD, "snapshotMaxCount": 0, "snapshotMaxSize": "0"}, id="no limits, said"),
        pytest.param({**GOOD, "snapshotMaxCount": 2, "snapshotMaxSize": ""}, id="the fewest"),
        pytest.param({**GOOD, "snapshotMaxCount": 250, "snapshotMaxSize": "1"}, id="the most"),
        pytest.param({**GOOD, "dataSource": "snap://vol/Snap_1.2"}, id="a source"),
        pytest.param({**GOOD, "attachmentTickets": {"t": TICKET}}, id="a ticket"),
    ],
)
def test_a_volume_that_can_be_is_stored(served: Api, namespace: str, spec: Json) -> None:
    served.create(VOLUMES.path(namespace), body(VOLUMES, "v", spec=spec))


def test_the_name_of_a_volume_fits_into_a_label(served: Api, namespace: str) -> None:
    served.create(VOLUMES.path(namespace), body(VOLUMES, "v" * 63, spec=GOOD))
    answer = served.call("POST", VOLUMES.path(namespace), body(VOLUMES, "v" * 64, spec=GOOD))
    assert answer.code == 422
    assert "metadata.name has 63 characters at most: its snapshots have it as a label" in answer.obj["message"]


EDITS = [
    (VOLUMES, "another source", {"dataSource": "snap://a/c"}, "dataSource cannot be changed: the volume has its data already"),
    (VOLUMES, "no source any more", {"dataSource": None}, "dataSource cannot be changed: the volume has its data already"),
    (VOLUMES, "a smaller size", {"size": "536870912"}, "size cannot be changed"),
    (VOLUMES, "a larger size", {"size": "2147483648"}, "size cannot be changed"),
    (
        ENGINE_SNAPSHOTS,
        "another volume",
        {"volume": "other"},
        "volume cannot be changed; delete the snapshot and create another",
    ),
    (ENGINE_SNAPSHOTS, "no volume", {"volume": None}, "volume cannot be changed; delete the snapshot and create another"),
    (
        ENGINE_SNAPSHOTS,
        "no request",
        {"createSnapshot": False},
        "createSnapshot cannot be changed; delete the snapshot and create",
    ),
    (
        ENGINE_SNAPSHOTS,
        "other labels",
        {"labels": {"a": "c"}},
        "labels cannot be changed; delete the snapshot and create another",
    ),
    (ENGINE_SNAPSHOTS, "no labels", {"labels": None}, "labels cannot be changed; delete the snapshot and create another"),
    (ENGINE_SNAPSHOTS, "no spec", None, "spec is required"),
]


@pytest.mark.parametrize(("kind", "change", "words"), [(a, c, d) for a, b, c, d in EDITS], ids=[b for a, b, c, d in EDITS])
@pytest.mark.parametrize("going", [False, True], ids=["standing", "going"])
def test_what_was_asked_for_stands_without_any_webhook(
    served: Api, namespace: str, kind: Kind[Any], change: Json | None, words: str, going: bool
) -> None:
    spec = {
        VOLUMES: {**GOOD, "dataSource": "snap://a/b"},
        ENGINE_SNAPSHOTS: {"volume": "vol", "createSnapshot": True, "labels": {"a": "b"}},
    }[kind]
    made = body(kind, "it", spec=spec)
    made["metadata"]["finalizers"] = ["example.com/held"]
    path = f"{kind.path(namespace)}/it"
    served.create(kind.path(namespace), made)
    if going:
        served.delete(path)
    answer = served.call("PATCH", path, {"spec": change}, headers=MERGE)
    assert answer.code == 422, answer.raw
    assert words in answer.obj["message"]
    served.merge(path, {"metadata": {"finalizers": None, "labels": {"app": "db"}}})
    assert served.get(path).code == (404 if going else 200), "it can be let go of"


# --- who may change what ----------------------------------------------------------------------------------------------

HELD = json.dumps(
    {"kind": "VolumeSnapshot", "namespace": "a", "name": "b", "keptBy": "VolumeSnapshotContent/c"}, separators=(",", ":")
)
STAMPS = {"ullage.io/takes": "{}", "hold.ullage.io/1": HELD, "hold.ullage.io/2": "mine", "note": "any"}
OTHER = {"apiVersion": "longhorn.io/v1beta2", "kind": "Volume", "name": "vol", "uid": "00000000-0000-0000-0000-000000000000"}
LABEL = "metadata.labels[longhornvolume] of a Snapshot is its spec.volume, and stays"
OWNER = "metadata.ownerReferences: the Volume that a Snapshot belongs to stays its owner, and the only one"
FINALIZERS = "metadata.finalizers: Ullage's controllers take longhorn.io and ullage.io/… off, once the object is deleted"
STAMP = "metadata.annotations: ullage.io/… and pv.kubernetes.io/provisioned-by are set by Ullage alone"
HOLD = "metadata.annotations: a hold of Ullage's own (hold.ullage.io/…) ends with the object that it is kept by: delete that"
GUARDED = [
    ("no label", ENGINE_SNAPSHOTS, {"labels": {"longhornvolume": None}}, LABEL),
    ("the label of another", ENGINE_SNAPSHOTS, {"labels": {"longhornvolume": "other"}}, LABEL),
    ("no owner", ENGINE_SNAPSHOTS, {"ownerReferences": None}, OWNER),
    ("another owner of the name", ENGINE_SNAPSHOTS, {"ownerReferences": [OTHER]}, OWNER),
    ("no finalizer", ENGINE_SNAPSHOTS, {"finalizers": ["example.com/held"]}, FINALIZERS),
    ("no finalizer of a volume", VOLUMES, {"finalizers": ["example.com/held", "ullage.io/engine"]}, FINALIZERS),
    ("no other one of a volume", VOLUMES, {"finalizers": ["example.com/held", "longhorn.io"]}, FINALIZERS),
    ("no finalizers at all", VOLUMES, {"finalizers": None}, FINALIZERS),
    ("another stamp", ENGINE_SNAPSHOTS, {"annotations": {"ullage.io/takes": "{1}"}}, STAMP),
    ("no stamp", ENGINE_SNAPSHOTS, {"annotations": {"ullage.io/takes": None}}, STAMP),
    ("a stamp of one's own", VOLUMES, {"annotations": {"ullage.io/made-up": "1"}}, STAMP),
    ("a mark that it goes with a claim", VOLUMES, {"annotations": {"pv.kubernetes.io/provisioned-by": "me"}}, STAMP),
    ("no annotations", VOLUMES, {"annotations": None}, STAMP),
    ("no hold", VOLUMES, {"annotations": {"hold.ullage.io/1": None}}, HOLD),
    ("another hold", ENGINE_SNAPSHOTS, {"annotations": {"hold.ullage.io/1": "mine"}}, HOLD),
]
FREE = [
    pytest.param(ENGINE_SNAPSHOTS, {"labels": {"app": "db"}}, id="other labels"),
    pytest.param(ENGINE_SNAPSHOTS, {"annotations": {"note": None, "hold.ullage.io/2": None}}, id="notes, and holds of persons"),
    pytest.param(VOLUMES, {"annotations": {"hold.ullage.io/3": "until friday"}}, id="a hold of a person"),
]


@pytest.fixture(scope="module")
def guarded(served: Api) -> Iterator[tuple[Api, str]]:
    """The policy as it is installed, in force in one namespace."""
    namespace = f"guarded-{os.getpid()}"
    served.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    _let_in(served, namespace)
    place = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
    spec = POLICY.spec()
    spec["matchConstraints"]["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    made = served.create(f"{place}ies", {"metadata": {"name": namespace}, "spec": spec})
    bound = {**POLICY.binding(), "policyName": namespace}
    served.create(f"{place}ybindings", {"metadata": {"name": namespace}, "spec": bound})
    served.create(VOLUMES.path(namespace), body(VOLUMES, "probe", spec=GOOD))
    deadline = time.monotonic() + START_SECONDS
    change = {"metadata": {"annotations": {"ullage.io/probe": "1"}}}
    while served.call("PATCH", f"{VOLUMES.path(namespace)}/probe?dryRun=All", change, headers=MERGE).code == 200:
        assert time.monotonic() < deadline, "the policy is not in force"
        time.sleep(0.05)
    assert not made.get("status", {}).get("typeChecking", {}).get("expressionWarnings"), made
    yield served, namespace
    for kind in ("ybindings", "ies"):
        served.delete(f"{place}{kind}/{namespace}")
    served.delete(f"/api/v1/namespaces/{namespace}")


@contextlib.contextmanager
def tied(api: Api, namespace: str, kind: Kind[Any], *, going: bool) -> Iterator[str]:
    """An object with everything that is guarded; its path."""
    volume = api.create(VOLUMES.path(namespace), body(VOLUMES, f"v-{uuid.uuid4().hex[:8]}", spec=GOOD))["metadata"]
    owner = {**OTHER, "name": volume["name"], "uid": volume["uid"]}
    name = f"it-{uuid.uuid4().hex[:8]}"
    made = body(kind, name, spec={"volume": volume["name"]} if kind is ENGINE_SNAPSHOTS else GOOD)
    made["metadata"] |= {"annotations": STAMPS, "finalizers": ["example.com/held", "longhorn.io", "ullage.io/engine"]}
    if kind is ENGINE_SNAPSHOTS:
        made["metadata"] |= {"labels": {"longhornvolume": volume["name"]}, "ownerReferences": [owner]}
    path = f"{kind.path(namespace)}/{name}"
    api.create(kind.path(namespace), made)
    if going:
        api.delete(path)
    yield path
    for one in (path, f"{VOLUMES.path(namespace)}/{volume['name']}"):
        api.call("DELETE", one)
        api.call("PATCH", one, {"metadata": {"finalizers": None}}, headers=AS_SYSTEM)


MERGE = {"Content-Type": "application/merge-patch+json"}
AS_SYSTEM = {**MERGE, "Impersonate-User": SYSTEM}


@pytest.mark.parametrize("going", [False, True], ids=["standing", "going"])
@pytest.mark.parametrize(("kind", "change", "words"), [row[1:] for row in GUARDED], ids=[row[0] for row in GUARDED])
def test_what_ties_and_holds_objects_is_changed_by_ullage_alone(
    guarded: tuple[Api, str], kind: Kind[Any], change: Json, words: str, going: bool
) -> None:
    api, namespace = guarded
    with tied(api, namespace, kind, going=going) as path:
        answer = api.call("PATCH", path, {"metadata": change}, headers=MERGE)
        assert answer.code == 403, answer.raw
        assert words in answer.obj["message"]
        done = api.call("PATCH", path, {"metadata": change}, headers=AS_SYSTEM)
        assert done.code == 200, done.raw


@pytest.mark.parametrize("going", [False, True], ids=["standing", "going"])
@pytest.mark.parametrize(("kind", "change"), FREE)
def test_the_rest_of_an_object_is_everybody_s(guarded: tuple[Api, str], kind: Kind[Any], change: Json, going: bool) -> None:
    api, namespace = guarded
    with tied(api, namespace, kind, going=going) as path:
        api.merge(path, {"metadata": change})


# --- the door --------------------------------------------------------------------------------------------------------


class Doorkeeper:
    """The webhook of the slice in a thread of its own, asked about one namespace only."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._plane = plane
        self._namespace = namespace
        self._serves = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()
        assert self._serves.wait(START_SECONDS), f"the webhook does not serve: {self._problem!r}"

    def end(self) -> None:
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as problem:
            self._problem = problem
            raise

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        part = engines(Options(settings=EngineSettings(manage=True))).hooks
        assert part is not None
        name = f"e2e-{self._namespace}"
        settings = Settings(namespace=self._namespace, name=name, terms=Terms(hosts=("localhost",)), drain=0.0, stop_seconds=5)
        async with Client(Config.load(self._plane.kubeconfig), user_agent="ullage-e2e-door") as client:
            wiring = Wiring(client)
            hooks = [dataclasses.replace(hook, only_in=(self._namespace,)) for hook in wiring.made(part)]
            reading = [asyncio.create_task(cache.run()) for cache in wiring.caches]
            checks = {cache.kind.name: cache.synced.is_set for cache in wiring.caches}
            try:
                await run_webhook(
                    hooks, client, settings, stop=self._stop, checks=checks, serves=lambda host, port: self._serves.set()
                )
            finally:
                for task in reading:
                    task.cancel()
                await asyncio.gather(*reading, return_exceptions=True)


@pytest.fixture
def door(control_plane: ControlPlane, served: Api, namespace: str) -> Iterator[Api]:
    if "127.0.0.1" not in control_plane.url and "localhost" not in control_plane.url:
        pytest.skip("a control plane on another machine cannot call a webhook on loopback")
    keeper = Doorkeeper(control_plane, namespace)
    keeper.start()
    _let_in(served, namespace)
    served.create(VOLUMES.path(namespace), body(VOLUMES, "vol", spec={"size": "1073741824", "snapshotMaxCount": 2}))
    _until_asked(served, namespace)
    yield served
    for kind in ("validatingwebhookconfigurations", "mutatingwebhookconfigurations"):
        served.call("DELETE", f"/apis/admissionregistration.k8s.io/v1/{kind}/e2e-{namespace}")
    keeper.end()


def _let_in(api: Api, namespace: str) -> None:
    """The system may do in the namespace whatever its role lets it do elsewhere."""
    api.create(
        f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings",
        {
            "metadata": {"name": "system"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "controller", "namespace": "ullage-system"}],
        },
    )


def _until_asked(api: Api, namespace: str) -> None:
    """API servers learn of a registration a moment after it is stored."""
    deadline = time.monotonic() + START_SECONDS
    probe = body(ENGINE_SNAPSHOTS, HEAD, spec={"volume": "vol"})
    while api.call("POST", f"{ENGINE_SNAPSHOTS.path(namespace)}?dryRun=All", probe).code != 422:
        assert time.monotonic() < deadline, "the door is not asked"
        time.sleep(0.05)


def refused(ran: Ran, *words: str) -> None:
    assert ran.code != 0, ran.out
    assert all(word in ran.err for word in words), ran.err


def test_what_a_person_creates_is_tied_to_its_volume(door: Api, namespace: str, kubectl: Kubectl) -> None:
    said = kubectl("create", "-f", "-", stdin=body(ENGINE_SNAPSHOTS, "mine", spec={"volume": "vol"})).err
    assert said == f'Warning: metadata.finalizers: "longhorn.io": {PREFER}\n', "Longhorn chose the name, on every server"
    found = kubectl("get", "lhsnap", "mine", "-o", "json").json
    volume = door.get(f"{VOLUMES.path(namespace)}/vol").obj
    assert found["spec"] == {"volume": "vol", "createSnapshot": True}
    assert found["metadata"]["finalizers"] == ["longhorn.io"]
    assert found["metadata"]["labels"] == {"longhornvolume": "vol"}
    owner = {"apiVersion": "longhorn.io/v1beta2", "kind": "Volume", "name": "vol", "uid": volume["metadata"]["uid"]}
    assert found["metadata"]["ownerReferences"] == [owner]
    assert kubectl("get", "lhsnap", "-l", "longhornvolume=vol", "-o", "name").out.split() == ["snapshot.longhorn.io/mine"]

    refused(
        kubectl.run("patch", "lhsnap", "mine", "--type=merge", "-p", '{"spec":{"volume":"other"}}'),
        "spec.volume: Invalid value: volume cannot be changed; delete the snapshot and create another",
    )
    kubectl("label", "lhsnap", "mine", "app=db")
    kubectl("delete", "lhsnap", "mine", "--wait=false")
    kubectl("patch", "lhsnap", "mine", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    assert kubectl("get", "lhsnap", "-o", "name").out == ""


def test_what_cannot_be_is_refused_with_the_reason(door: Api, namespace: str, kubectl: Kubectl) -> None:
    def create(name: str, *options: str, **spec: Any) -> Ran:
        return kubectl.run("create", "-f", "-", *options, stdin=body(ENGINE_SNAPSHOTS, name, spec={"volume": "vol", **spec}))

    refused(create("a", createSnapshot=False), "only the system creates those; to take a snapshot, leave it out")
    refused(create("a", volume="vlo"), f"spec.volume: volume 'vlo' does not exist in namespace {namespace}")
    refused(create("a", volume=""), "spec.volume: is required")
    refused(create("a", labels={"job": "a=b"}), "spec.labels[job]: 'job': 'a=b' has a '='")
    refused(create(HEAD), "volume-head is what the volume writes to")
    assert create("shown", f"--as={SYSTEM}", createSnapshot=False).code == 0
    assert create("shown-too", f"--as={SYSTEM}").code == 0, "for the system absent means false"
    assert kubectl("get", "lhsnap", "shown-too", "-o", "json").json["spec"]["createSnapshot"] is False


def test_limits_of_the_volume_hold_at_the_door(door: Api, namespace: str, kubectl: Kubectl) -> None:
    entries = {name: {**ENTRY, "name": name, "parent": ""} for name in ("a", HEAD)}
    made = door.create(ENGINES.path(namespace), body(ENGINES, "vol-e-0", spec={"volumeName": "vol"}))
    status = {"currentState": "running", "snapshots": entries}
    door.replace(f"{ENGINES.path(namespace)}/vol-e-0/status", {**made, "status": status})
    kubectl("create", "-f", "-", stdin=body(ENGINE_SNAPSHOTS, "second", spec={"volume": "vol"}))
    third = body(ENGINE_SNAPSHOTS, "third", spec={"volume": "vol"})
    deadline = time.monotonic() + 20  # the door hears of the engine and of the second snapshot a moment later
    while (ran := kubectl.run("create", "--dry-run=server", "-f", "-", stdin=third)).code == 0:
        assert time.monotonic() < deadline, "the limit does not hold"
    refused(ran, "Forbidden", "volume vol has 1 snapshot and 1 being taken, and 2 are allowed (snapshotMaxCount)")
    shown = body(ENGINE_SNAPSHOTS, "a", spec={"volume": "vol", "createSnapshot": False})
    kubectl("create", f"--as={SYSTEM}", "-f", "-", stdin=shown)
