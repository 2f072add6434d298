"""`ullage world` as its own service account, on a control plane of its own: claims, pods, jobs and sets, as kubectl sees it."""

from __future__ import annotations

import asyncio
import json
import os
import random
import select
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import ullage
from ullage.app.installer.installer import Installer
from ullage.app.installer.manifests import manifests
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.standalone.world.directories import Directories
from ullage.standalone.world.slice import bring_classes
from ullage.standalone.world.slice import world as world_slice

from .apart import IS_BORROWED, own_plane
from .api import Api
from .control_plane import ControlPlane
from .kubectl import Kubectl

Json = dict[str, Any]
SOURCE = Path(ullage.__file__).parents[1]
SECONDS = 60.0
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"

pytestmark = pytest.mark.skipif(IS_BORROWED, reason="a borrowed cluster has a world of its own")


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Not the one of the other tests: there pods and claims stay as they were made."""
    with own_plane(tmp_path_factory.mktemp("world")) as found:
        asyncio.run(install(found))
        yield found


async def install(plane: ControlPlane) -> None:
    """What `ullage up` does before it starts the world."""
    async with Client(Config.load(plane.kubeconfig, environ={})) as client:
        wanted = manifests((), world=world_slice(Directories(Path("unused"))))
        outcomes = await Installer(client).install(wanted, tell=lambda outcome: None)
        assert not [outcome for outcome in outcomes if outcome.verb == "problem"]
        await bring_classes(client)


@pytest.fixture(scope="module")
def root(plane: ControlPlane) -> Api:
    return Api(plane)


class World:
    """`ullage world`, started and ended at will, on one directory."""

    def __init__(self, kubeconfig: Path, directory: Path) -> None:
        self.volumes = directory / "volumes"
        self.log = directory / "world.log"
        self._kubeconfig = kubeconfig
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *, ready: bool = True) -> None:
        read, write = os.pipe()
        command = [sys.executable, "-m", "ullage", "world", "--kubeconfig", str(self._kubeconfig)]
        command += ["--volumes", str(self.volumes), "--ready-fd", str(write)]
        with self.log.open("ab") as log:
            environ = {**os.environ, "PYTHONPATH": str(SOURCE)}
            self.process = subprocess.Popen(command, pass_fds=[write], stderr=log, env=environ)
        os.close(write)
        with os.fdopen(read) as told:
            if ready:
                assert select.select([told], [], [], SECONDS)[0], self.log.read_text()
                assert told.readline(), self.log.read_text()

    def end(self, how: signal.Signals) -> int:
        process, self.process = self.process, None
        if process is None:
            return 0
        process.send_signal(how)
        try:
            return process.wait(SECONDS)
        finally:
            process.kill()

    def directories(self) -> list[str]:
        return sorted(one.name for one in self.volumes.iterdir() if one.name != ".world")

    def notes(self) -> list[str]:
        return sorted(one.name for one in (self.volumes / ".world").iterdir() if one.name != "lock")


@pytest.fixture(scope="module")
def kubeconfig(plane: ControlPlane, root: Api, tmp_path_factory: pytest.TempPathFactory) -> Path:
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}}
    answer = root.create("/api/v1/namespaces/ullage-system/serviceaccounts/world/token", request)
    config = yaml.safe_load(plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": answer["status"]["token"]}
    path = tmp_path_factory.mktemp("login") / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.fixture
def world(kubeconfig: Path, root: Api, tmp_path: Path) -> Iterator[World]:
    made = World(kubeconfig, tmp_path)
    made.start()
    yield made
    made.end(signal.SIGKILL)
    for volume in root.get(VOLUMES).obj["items"]:  # of a directory that goes with the test
        path = f"{VOLUMES}/{volume['metadata']['name']}"
        root.call("DELETE", path)
        root.call(
            "PATCH", path, {"metadata": {"finalizers": None}}, headers={"Content-Type": "application/merge-patch+json"}
        )  # fmt: skip


@pytest.fixture
def namespace(root: Api) -> str:
    name = f"world-{uuid.uuid4().hex[:8]}"
    root.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


@pytest.fixture
def kubectl(plane: ControlPlane, namespace: str, tmp_path: Path) -> Kubectl:
    return Kubectl(plane, home=tmp_path, namespace=namespace)


def eventually(what: str, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"not within {SECONDS:.0f} s: {what}"
        time.sleep(0.05)


# --- builders --------------------------------------------------------------------------------------------------------


def claim(name: str, size: str = "1Gi", **spec: Any) -> Json:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": wanted}


def volume(name: str, size: str = "1Gi", **spec: Any) -> Json:
    source = {"hostPath": {"path": f"/nowhere/{name}"}}
    wanted = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, **source, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": wanted}


def pod_spec(*command: str, **claims: str) -> Json:
    """A container with a command; each claim is mounted under /<name>."""
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in claims]
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": claimed}} for name, claimed in claims.items()]
    container = {"name": "main", "image": "busybox", "command": list(command), "volumeMounts": mounts}
    return {"containers": [container], "volumes": volumes}


def job(name: str, *command: str, backoff: int = 0, **claims: str) -> Json:
    spec = {**pod_spec(*command, **claims), "restartPolicy": "Never"}
    body = {"backoffLimit": backoff, "template": {"spec": spec}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": body}


class Cluster:
    """What kubectl tells, in the few words that these tests compare."""

    def __init__(self, kubectl: Kubectl) -> None:
        self.kubectl = kubectl

    def create(self, *objects: Json) -> None:
        self.kubectl("create", "-f", "-", stdin={"apiVersion": "v1", "kind": "List", "items": list(objects)})

    def get(self, what: str, path: str) -> str:
        return self.kubectl.run("get", what, "-o", f"jsonpath={{{path}}}").out

    def phase(self, what: str) -> str:
        return self.get(what, ".status.phase")

    def bound(self, name: str) -> Path:
        """Waits until a claim is bound; the directory of its volume."""
        eventually(f"claim {name} is bound", lambda: self.phase(f"pvc/{name}") == "Bound")
        return Path(self.get(f"pv/{self.volume(name)}", ".spec.hostPath.path"))

    def volume(self, name: str) -> str:
        return self.get(f"pvc/{name}", ".spec.volumeName")

    def condition(self, name: str, type: str) -> str:
        return self.get(f"job/{name}", f'.status.conditions[?(@.type=="{type}")].reason')


@pytest.fixture
def cluster(kubectl: Kubectl) -> Cluster:
    return Cluster(kubectl)


# --- claims and volumes ----------------------------------------------------------------------------------------------


def test_a_claim_gets_a_directory_in_which_files_can_be_written(world: World, cluster: Cluster) -> None:
    cluster.create(claim("data", "3Gi"))
    path = cluster.bound("data")
    (path / "file").write_text("content")
    assert path.stat().st_mode & 0o777 == 0o700
    name = cluster.volume("data")
    assert path == world.volumes / name
    uid = cluster.get("pvc/data", ".metadata.uid")
    assert name == f"pvc-{uid}"
    found = json.loads(cluster.kubectl("get", "pv", name, "-o", "json").out)
    spec = found["spec"]
    assert found["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"] == "ullage.io/hostpath"
    assert (spec["capacity"], spec["storageClassName"]) == ({"storage": "3Gi"}, "ullage-hostpath")
    assert (spec["persistentVolumeReclaimPolicy"], spec["hostPath"]["type"]) == ("Delete", "Directory")
    assert spec["claimRef"]["uid"] == uid
    terms = spec["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert terms[0]["matchExpressions"] == [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["ullage"]}]
    bound = json.loads(cluster.kubectl("get", "pvc", "data", "-o", "json").out)
    assert bound["status"] == {"phase": "Bound", "capacity": {"storage": "3Gi"}, "accessModes": ["ReadWriteOnce"]}
    marks = bound["metadata"]["annotations"]
    assert (marks["pv.kubernetes.io/bind-completed"], marks["pv.kubernetes.io/bound-by-controller"]) == ("yes", "yes")
    assert cluster.phase(f"pv/{name}") == "Bound"


def test_a_deleted_claim_takes_its_volume_and_its_directory_along(world: World, cluster: Cluster) -> None:
    cluster.create(claim("data"))
    path = cluster.bound("data")
    name = cluster.volume("data")
    (path / "deep").mkdir()
    (path / "deep" / "file").write_text("content")
    (path / "deep").chmod(0o500)
    (path / "link").symlink_to("/")
    cluster.kubectl("delete", "pvc", "data", "--wait=false")
    eventually("the volume is gone", lambda: cluster.kubectl.run("get", "pv", name).code != 0)
    assert (world.directories(), world.notes()) == ([], [])


def test_a_volume_that_is_to_be_kept_stays_released_and_its_files_outlive_it(world: World, cluster: Cluster, root: Api) -> None:
    kept = {"reclaimPolicy": "Retain", "provisioner": "ullage.io/hostpath", "metadata": {"name": "kept"}}
    root.call("POST", CLASSES, {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", **kept})
    cluster.create(claim("data", storageClassName="kept"))
    path = cluster.bound("data")
    name = cluster.volume("data")
    (path / "file").write_text("content")
    cluster.kubectl("delete", "pvc", "data", "--wait=false")
    eventually("the volume is released", lambda: cluster.phase(f"pv/{name}") == "Released")
    cluster.kubectl("delete", "pv", name, "--timeout=30s")
    assert (path / "file").read_text() == "content"
    assert world.notes() == []


def test_a_volume_in_use_that_is_deleted_waits_for_its_claim(world: World, cluster: Cluster) -> None:
    cluster.create(claim("data"))
    path = cluster.bound("data")
    name = cluster.volume("data")
    cluster.kubectl("delete", "pv", name, "--wait=false")
    cluster.create(claim("other"))
    cluster.bound("other")  # by now it has had its chance
    assert path.is_dir()
    assert cluster.phase("pvc/data") == "Bound"
    cluster.kubectl("delete", "pvc", "data", "--wait=false")
    eventually("the volume is gone", lambda: cluster.kubectl.run("get", "pv", name).code != 0)
    assert not path.exists()


SOURCES: dict[str, Json] = {
    "a data source": {"dataSource": {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}},
    "a reference to one": {"dataSourceRef": {"apiGroup": "other.example.com", "kind": "Other", "name": "s"}},
    "Block": {"volumeMode": "Block"},
}


@pytest.mark.parametrize("spec", SOURCES.values(), ids=[f"a claim with {name} stays pending" for name in SOURCES])
def test_what_is_not_an_empty_directory_is_left_to_others(world: World, cluster: Cluster, spec: Json) -> None:
    cluster.create(claim("special", **spec), claim("plain"))
    before = cluster.get("pvc/special", ".metadata.resourceVersion")
    cluster.bound("plain")
    assert cluster.phase("pvc/special") == "Pending"
    assert cluster.get("pvc/special", ".metadata.resourceVersion") == before
    assert world.directories() == [cluster.volume("plain")]


def test_a_claim_that_asks_for_a_snapshot_in_the_old_way_stays_pending(world: World, cluster: Cluster) -> None:
    special = claim("special")
    special["metadata"]["annotations"] = {"snapshot.alpha.kubernetes.io/snapshot": "s"}
    cluster.create(special, claim("plain"))
    cluster.bound("plain")
    assert cluster.phase("pvc/special") == "Pending"


def test_block_volumes_are_refused_in_words(world: World, cluster: Cluster) -> None:
    cluster.create(claim("raw", volumeMode="Block"))
    told = ("events", "--for", "pvc/raw", "-o", "jsonpath={.items[*].message}")
    wanted = "spec.volumeMode Block: Filesystem is allowed"
    eventually("an event says why", lambda: wanted in cluster.kubectl(*told).out)


def test_a_volume_that_names_its_claim_is_bound_to_it_whatever_its_class(world: World, cluster: Cluster) -> None:
    cluster.create(claim("restored", **SOURCES["a data source"]))
    uid = cluster.get("pvc/restored", ".metadata.uid")
    reference = {"namespace": cluster.kubectl.namespace, "name": "restored", "uid": uid}
    made = volume(f"pvc-{uid}", storageClassName="ullage-hostpath", claimRef=reference, persistentVolumeReclaimPolicy="Delete")
    made["metadata"]["annotations"] = {
        "pv.kubernetes.io/provisioned-by": "ullage.io/hostpath",
        "ullage.io/restored-from": "default/s",
    }
    cluster.create(made)
    cluster.bound("restored")
    assert cluster.volume("restored") == f"pvc-{uid}"
    eventually("the volume says so too", lambda: cluster.phase(f"pv/pvc-{uid}") == "Bound")
    cluster.kubectl("delete", "pvc", "restored", "--wait=false")
    eventually("it is released", lambda: cluster.phase(f"pv/pvc-{uid}") == "Released")
    cluster.create(claim("other"))
    cluster.bound("other")
    assert cluster.phase(f"pv/pvc-{uid}") == "Released", "who restored it takes it away"


def test_a_claim_without_class_takes_the_smallest_free_volume_that_fits(world: World, cluster: Cluster) -> None:
    tag = uuid.uuid4().hex[:6]
    names = {size: f"{size.lower()}-{tag}" for size in ("1Gi", "5Gi", "9Gi")}
    cluster.create(*(volume(name, size) for size, name in names.items()))
    cluster.create(claim("data", "2Gi", storageClassName=""))
    cluster.bound("data")
    assert cluster.volume("data") == names["5Gi"]
    eventually("the others are free", lambda: cluster.phase(f"pv/{names['9Gi']}") == "Available")
    cluster.kubectl("delete", "pv", names["5Gi"])
    eventually("the claim has lost it", lambda: cluster.phase("pvc/data") == "Lost")


def test_of_claims_that_want_one_volume_exactly_one_gets_it(world: World, cluster: Cluster) -> None:
    name = f"one-{uuid.uuid4().hex[:6]}"
    claims = [f"claim-{number}" for number in range(6)]
    cluster.create(*(claim(each, storageClassName="", volumeName=name) for each in claims))
    cluster.create(volume(name))
    eventually("one has it", lambda: [cluster.phase(f"pvc/{each}") for each in claims].count("Bound") == 1)
    cluster.create(claim("later"))
    cluster.bound("later")
    phases = [cluster.phase(f"pvc/{each}") for each in claims]
    assert sorted(phases) == ["Bound"] + ["Pending"] * 5
    assert cluster.get(f"pv/{name}", ".spec.claimRef.name") == claims[phases.index("Bound")]


def test_an_administrators_choice_of_default_class_survives_and_waiting_claims_follow_it(
    world: World, cluster: Cluster, plane: ControlPlane
) -> None:
    mark = "storageclass.kubernetes.io/is-default-class"
    cluster.kubectl("annotate", "storageclass", "ullage-hostpath", f"{mark}-")
    try:
        asyncio.run(install(plane))
        assert cluster.get("storageclass/ullage-hostpath", ".metadata.annotations") == ""
        cluster.create(claim("early"), claim("named", storageClassName="ullage-hostpath"))
        cluster.bound("named")
        assert cluster.phase("pvc/early") == "Pending"
    finally:
        cluster.kubectl("annotate", "storageclass", "ullage-hostpath", f"{mark}=true")
    cluster.bound("early")


# --- pods, jobs and sets ---------------------------------------------------------------------------------------------


def test_a_pod_runs_once_its_claim_is_bound_and_goes_when_it_is_deleted(world: World, cluster: Cluster) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "app"}, "spec": pod_spec("mysqld", data="data")}
    cluster.create(pod)
    held = '.status.conditions[?(@.type=="PodScheduled")].reason'
    eventually("it waits, and says so", lambda: cluster.get("pod/app", held) == "Unschedulable")
    cluster.create(claim("data"))
    cluster.kubectl("wait", "pod/app", "--for=condition=Ready", "--timeout=30s")
    assert cluster.get("pod/app", ".spec.nodeName") == "ullage"
    assert cluster.kubectl("get", "pod", "app", "--no-headers").out.split()[1:3] == ["1/1", "Running"]
    cluster.kubectl("delete", "pod", "app", "--timeout=30s")
    assert cluster.kubectl("get", "node", "ullage", "--no-headers").out.split()[1] == "Ready"


def test_a_claim_of_a_class_that_waits_for_pods_is_bound_with_its_first(world: World, cluster: Cluster, root: Api) -> None:
    late = {"volumeBindingMode": "WaitForFirstConsumer", "provisioner": "ullage.io/hostpath", "metadata": {"name": "late"}}
    root.call("POST", CLASSES, {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", **late})
    cluster.create(claim("data", storageClassName="late"), claim("plain"))
    cluster.bound("plain")
    assert cluster.phase("pvc/data") == "Pending"
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "app"}, "spec": pod_spec("mysqld", data="data")}
    cluster.create(pod)
    cluster.kubectl("wait", "pod/app", "--for=condition=Ready", "--timeout=30s")
    assert cluster.phase("pvc/data") == "Bound"


@pytest.mark.parametrize(
    ("command", "copied"),
    [
        pytest.param(("cp", "-a", "/src/.", "/dst/"), "", id="cp -a with all that is in it"),
        pytest.param(("sh", "-c", "cp -a /src/. /dst/"), "", id="the same in a shell's words"),
        pytest.param(("rsync", "-av", "/src/", "/dst"), "", id="rsync with all that is in it"),
        pytest.param(("rsync", "-av", "/src", "/dst"), "src", id="rsync under its own name"),
    ],
)
def test_a_job_really_copies_one_claim_to_another(
    world: World, cluster: Cluster, command: tuple[str, ...], copied: str
) -> None:
    cluster.create(claim("source"), claim("target"))
    source, target = cluster.bound("source"), cluster.bound("target") / copied
    content = random.randbytes(3 << 20)
    (source / "table.ibd").write_bytes(content)
    (source / "deep").mkdir()
    (source / "deep" / "script").write_text("#!/bin/sh\n")
    (source / "deep" / "script").chmod(0o750)
    (source / "secret").symlink_to("/etc/hostname")
    cluster.create(job("copy", *command, src="source", dst="target"))
    cluster.kubectl("wait", "job/copy", "--for=condition=Complete", "--timeout=30s")
    assert (target / "table.ibd").read_bytes() == content
    assert (target / "deep" / "script").stat().st_mode & 0o777 == 0o750
    assert os.readlink(target / "secret") == "/etc/hostname"
    assert (target / "table.ibd").stat().st_mtime_ns == (source / "table.ibd").stat().st_mtime_ns
    status = json.loads(cluster.kubectl("get", "job", "copy", "-o", "json").out)["status"]
    assert [one["type"] for one in status["conditions"]] == ["SuccessCriteriaMet", "Complete"]
    assert status["succeeded"] == 1
    assert status["completionTime"] >= status["startTime"]
    pods = json.loads(cluster.kubectl("get", "pods", "-l", "job-name=copy", "-o", "json").out)["items"]
    assert [pod["status"]["phase"] for pod in pods] == ["Succeeded"]
    assert pods[0]["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0


def test_a_job_that_cannot_be_done_fails_after_its_tries_and_says_what_can_be_done(world: World, cluster: Cluster) -> None:
    cluster.create(job("dump", "mysqldump", "--all", backoff=1))
    cluster.kubectl("wait", "job/dump", "--for=condition=Failed", "--timeout=30s")
    assert cluster.condition("dump", "Failed") == "BackoffLimitExceeded"
    pods = json.loads(cluster.kubectl("get", "pods", "-l", "job-name=dump", "-o", "json").out)["items"]
    assert [pod["status"]["phase"] for pod in pods] == ["Failed", "Failed"]
    ended = pods[0]["status"]["containerStatuses"][0]["state"]["terminated"]
    assert ended["exitCode"] == 127
    assert ended["message"].startswith("mysqldump: not understood; no containers are run here: a job can do cp -a")


def test_several_completions_and_sleeps_run_to_the_end(world: World, cluster: Cluster) -> None:
    many = job("many", "sh", "-c", "echo begun && sleep 0.2 && true")
    many["spec"] |= {"completions": 3, "parallelism": 2}
    cluster.create(many)
    cluster.kubectl("wait", "job/many", "--for=condition=Complete", "--timeout=30s")
    assert cluster.get("job/many", ".status.succeeded") == "3"


def test_a_job_that_is_deleted_takes_its_pods_along(world: World, cluster: Cluster) -> None:
    cluster.create(job("long", "sleep", "infinity"))
    eventually("it runs", lambda: cluster.get("job/long", ".status.ready") == "1")
    cluster.kubectl("delete", "job", "long", "--timeout=30s")
    eventually("its pods are gone", lambda: cluster.kubectl("get", "pods", "-o", "name").out == "")


def stateful_set(replicas: int) -> Json:
    template = {"metadata": {"labels": {"app": "db"}}, "spec": pod_spec("mysqld")}
    template["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    spec = {
        "replicas": replicas,
        "serviceName": "db",
        "selector": {"matchLabels": {"app": "db"}},
        "template": template,
        "volumeClaimTemplates": [claim("data")],
    }
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": spec}


def test_a_stateful_set_gets_pods_and_claims_by_number_and_keeps_the_claims(world: World, cluster: Cluster) -> None:
    cluster.create(stateful_set(2))
    cluster.kubectl("rollout", "status", "statefulset/db", "--timeout=30s")
    assert cluster.kubectl("get", "pods", "-o", "name").out.split() == ["pod/db-0", "pod/db-1"]
    eventually("all are ready", lambda: cluster.get("sts/db", ".status.readyReplicas") == "2")
    path = cluster.bound("data-db-1")
    (path / "file").write_text("content")
    cluster.kubectl("scale", "statefulset/db", "--replicas=1")
    eventually("one is gone", lambda: cluster.kubectl("get", "pods", "-o", "name").out.split() == ["pod/db-0"])
    assert cluster.phase("pvc/data-db-1") == "Bound"
    cluster.kubectl("scale", "statefulset/db", "--replicas=3")
    eventually("three are ready", lambda: cluster.get("sts/db", ".status.readyReplicas") == "3")
    assert cluster.bound("data-db-1") == path
    assert (path / "file").read_text() == "content"
    before = cluster.get("pod/db-0", ".metadata.uid")
    cluster.kubectl("set", "image", "statefulset/db", "main=busybox:2")
    cluster.kubectl("rollout", "status", "statefulset/db", "--timeout=30s")
    assert cluster.get("pod/db-0", ".metadata.uid") != before
    assert {cluster.get(f"pod/db-{number}", ".spec.containers[0].image") for number in range(3)} == {"busybox:2"}
    cluster.kubectl("delete", "statefulset", "db", "--timeout=30s")
    eventually("its pods are gone", lambda: cluster.kubectl("get", "pods", "-o", "name").out == "")


# --- kills -----------------------------------------------------------------------------------------------------------


def test_a_second_start_goes_on_where_the_first_was_stopped(world: World, cluster: Cluster) -> None:
    cluster.create(claim("kept"), claim("gone"))
    kept = cluster.bound("kept")
    cluster.bound("gone")
    (kept / "file").write_text("content")
    cluster.create(job("long", "sh", "-c", "sleep 1; cp -a /a/file /a/copy", a="kept"))
    eventually("the job runs", lambda: cluster.get("job/long", ".status.active") == "1")
    assert world.end(signal.SIGTERM) == 0
    cluster.kubectl("delete", "pvc", "gone", "--wait=false")
    cluster.create(claim("new"))
    world.start()
    cluster.bound("new")
    cluster.kubectl("wait", "job/long", "--for=condition=Complete", "--timeout=30s")
    assert (kept / "copy").read_text() == "content"
    eventually("what went meanwhile is gone", lambda: world.directories() == sorted(map(cluster.volume, ("kept", "new"))))
    assert "Traceback" not in world.log.read_text()


def test_a_deployment_says_that_nobody_makes_pods_for_it(world: World, cluster: Cluster) -> None:
    cluster.kubectl("create", "deployment", "web", "--image=nginx")
    cluster.kubectl("wait", "deployment/web", "--for=condition=Progressing=false", "--timeout=30s")
    described = ""

    def told() -> bool:
        nonlocal described
        described = cluster.kubectl("describe", "deployment/web").out
        return "Events:" in described and "NotSupported" in described.partition("Events:")[2]

    eventually("the Event is there", told)
    assert "No pods are made for a Deployment on this machine" in described
    assert cluster.get("deployment/web", ".status.observedGeneration") == "1"


def test_an_idle_world_writes_nothing(world: World, cluster: Cluster, root: Api) -> None:
    cluster.create(claim("data"), stateful_set(1), job("done", "true"))
    cluster.kubectl("create", "deployment", "web", "--image=nginx")
    cluster.kubectl("wait", "job/done", "--for=condition=Complete", "--timeout=30s")
    eventually("all are ready", lambda: cluster.get("sts/db", ".status.readyReplicas") == "1")
    eventually("events are written", lambda: settled(root))


def settled(root: Api) -> bool:
    """Whether nothing of the world changes for a second."""
    places = ("persistentvolumeclaims", "persistentvolumes", "pods", "nodes")
    paths = [f"/api/v1/{place}" for place in places] + [
        "/apis/batch/v1/jobs",
        "/apis/apps/v1/statefulsets",
        "/apis/apps/v1/deployments",
    ]

    def versions() -> list[str]:
        return [one["metadata"]["resourceVersion"] for path in paths for one in root.get(path).obj["items"]]

    before = versions()
    time.sleep(1.0)  # the claim is that nothing happens meanwhile
    return versions() == before


@pytest.mark.slow
def test_kills_at_any_moment_leak_neither_a_directory_nor_a_volume(world: World, cluster: Cluster, root: Api) -> None:
    chance = random.Random(20260101)
    before = {volume["metadata"]["name"] for volume in root.get(VOLUMES).obj["items"]}
    path = f"/api/v1/namespaces/{cluster.kubectl.namespace}/persistentvolumeclaims"
    alive: list[str] = []
    for number in range(8):
        for each in range(4):
            alive.append(f"claim-{number}-{each}")
            root.create(path, claim(alive[-1]))
        for name in chance.sample(alive, 3):
            alive.remove(name)
            root.delete(f"{path}/{name}")
        time.sleep(chance.uniform(0, 0.25))
        world.end(signal.SIGKILL)
        world.start(ready=chance.random() < 0.7)
        root.delete(f"{path}/{alive.pop(0)}")
    for name in alive:
        cluster.bound(name)
    wanted = sorted(cluster.volume(name) for name in alive)

    def volumes() -> list[str]:
        return sorted({volume["metadata"]["name"] for volume in root.get(VOLUMES).obj["items"]} - before)

    eventually("every volume has a claim", lambda: volumes() == wanted)
    eventually("every directory has a volume", lambda: world.directories() == wanted)
    assert world.notes() == wanted
    for name in alive:
        root.delete(f"{path}/{name}")
    eventually("all volumes are gone", lambda: volumes() == [])
    assert (world.directories(), world.notes()) == ([], [])
