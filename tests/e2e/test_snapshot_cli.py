"""`ullage snapshot` as a person runs it, on a control plane of its own with controllers and a world: real files come and go."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import ullage

from .apart import IS_BORROWED, own_plane
from .api import Api
from .control_plane import ControlPlane
from .leash import Leash

Json = dict[str, Any]
SOURCE = Path(ullage.__file__).parents[1]
SECONDS = 60.0
DRIVER = "ullage.io/hostpath"
STORAGE_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
CLASSES = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotclasses"
GA, PROTOTYPE = "volumesnapshot.snapshot.storage.k8s.io", "volumesnapshot.volumesnapshot.external-storage.k8s.io"
BOTH = [pytest.param("ga", GA, id="ga"), pytest.param("prototype", PROTOTYPE, id="prototype")]

pytestmark = [pytest.mark.slow, pytest.mark.skipif(IS_BORROWED, reason="a borrowed cluster has a world of its own")]


class Ran:
    """A finished command."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


def environment(kubeconfig: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SOURCE), "KUBECONFIG": str(kubeconfig), "COLUMNS": "80"}


def run(kubeconfig: Path, *arguments: str) -> Ran:
    command = [sys.executable, "-m", "ullage", *arguments]
    env = environment(kubeconfig)
    return Ran(subprocess.run(command, capture_output=True, text=True, timeout=2 * SECONDS, env=env, check=False))


class Shop:
    """A namespace, and the command in it."""

    def __init__(self, api: Api, kubeconfig: Path) -> None:
        self.api = api
        self.kubeconfig = kubeconfig
        self.namespace = f"e2e-{uuid.uuid4().hex[:10]}"
        api.create("/api/v1/namespaces", {"metadata": {"name": self.namespace}})

    def run(self, *arguments: str) -> Ran:
        """Whatever the exit code."""
        return run(self.kubeconfig, "snapshot", *arguments, "-n", self.namespace)

    def __call__(self, *arguments: str) -> Ran:
        """Must succeed."""
        ran = self.run(*arguments)
        assert ran.code == 0, f"ullage snapshot {' '.join(arguments)}: exit {ran.code}\n{ran.out}\n{ran.err}"
        return ran

    def refused(self, *arguments: str) -> str:
        """Must fail with exit code 1 and one line."""
        ran = self.run(*arguments)
        assert ran.code == 1, f"ullage snapshot {' '.join(arguments)}: exit {ran.code}\n{ran.out}\n{ran.err}"
        assert ran.err.startswith("ullage: ")
        assert ran.err.count("\n") == 1, ran.err
        return ran.err.removeprefix("ullage: ").rstrip("\n")

    def path(self, plural: str) -> str:
        return f"/api/v1/namespaces/{self.namespace}/{plural}"

    def claim(self, name: str) -> Path:
        """A bound claim, and where its files are."""
        self.ask(name)
        return self.files(name)

    def ask(self, name: str, **more: str) -> None:
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **more}
        self.api.create(self.path("persistentvolumeclaims"), {"metadata": {"name": name}, "spec": spec})

    def files(self, claim: str) -> Path:
        path = self.path("persistentvolumeclaims") + f"/{claim}"
        eventually(lambda: self.api.get(path).obj.get("status", {}).get("phase") == "Bound", f"{claim} is bound")
        volume = self.api.get(path).obj["spec"]["volumeName"]
        return Path(self.api.get(f"/api/v1/persistentvolumes/{volume}").obj["spec"]["hostPath"]["path"])


def eventually(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"not so after {SECONDS:.0f} s: {what}"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with own_plane(tmp_path_factory.mktemp("cli")) as found:
        yield found


@pytest.fixture(scope="module")
def bare(plane: ControlPlane) -> ControlPlane:
    """Before anything was installed: this must be asked for before `shop`, in the first test of the module."""
    return plane


@pytest.fixture(scope="module")
def served(plane: ControlPlane) -> Iterator[Api]:
    """With what `ullage install` brings, and the processes that do the work."""
    installed = run(plane.kubeconfig, "install")
    assert installed.code == 0, installed.out + installed.err
    api = Api(plane)
    _bring_classes(api)
    leash = Leash(Path(tempfile.mkdtemp(prefix="ullage-cli-")))
    volumes, snapshots = str(leash.directory / "volumes"), str(leash.directory / "snapshots")
    log = leash.directory / "processes.log"
    program = ["env", f"PYTHONPATH={SOURCE}", sys.executable, "-m", "ullage"]
    common = ["--kubeconfig", str(plane.kubeconfig), "--metrics-port", "0"]
    leash.start([*program, "world", *common, "--volumes", volumes], log=log)
    places = ["--hostpath-volumes", volumes, "--hostpath-snapshots", snapshots, "--node", "ullage"]
    leash.start([*program, "controller", *common, "--no-leader-elect", "--only-snapshotter", *places], log=log)
    try:
        yield api
    finally:
        print(log.read_text(errors="replace")[-4000:])
        leash.end()


def _bring_classes(api: Api) -> None:
    """As `ullage up` does."""
    marks = ("storageclass.kubernetes.io/is-default-class", "snapshot.storage.kubernetes.io/is-default-class")
    bodies: list[Json] = [{"provisioner": DRIVER}, {"driver": DRIVER, "deletionPolicy": "Delete"}]
    kinds = (("storage.k8s.io/v1", "StorageClass"), ("snapshot.storage.k8s.io/v1", "VolumeSnapshotClass"))
    for path, mark, body, (version, kind) in zip((STORAGE_CLASSES, CLASSES), marks, bodies, kinds, strict=True):
        metadata = {"name": "ullage-hostpath", "annotations": {mark: "true"}}
        api.create(path, {"apiVersion": version, "kind": kind, "metadata": metadata, **body})


@pytest.fixture
def shop(served: Api, plane: ControlPlane) -> Shop:
    return Shop(served, plane.kubeconfig)


def test_a_cluster_without_ullage_says_how_to_install_it(bare: ControlPlane) -> None:
    for arguments in (("list",), ("create", "a", "--pvc", "b"), ("describe", "a")):
        ran = run(bare.kubeconfig, "snapshot", *arguments)
        assert ran.code == 1
        assert ran.err.startswith("ullage: this cluster does not serve ")
        assert ran.err.endswith("; is Ullage installed on it? ullage install\n")


@pytest.mark.parametrize(("dialect", "kind"), BOTH)
def test_taken_restored_and_deleted(shop: Shop, dialect: str, kind: str) -> None:
    source = shop.claim("data")
    (source / "file").write_text("before")
    foretold = shop("create", "a", "--pvc", "data", "--dialect", dialect, "--dry-run").lines
    assert foretold[0] == f"{kind}/a would be created (dry run)"
    assert shop("list", "-o", "name").out == "", "a dry run makes nothing"

    told = shop("create", "a", "--pvc", "data", "--dialect", dialect, "--wait").lines
    assert told[0] == f"{kind}/a created"
    assert [line for line in told if line.startswith("a: cut at ")]
    assert told[-1].startswith("a: ready; a volume made from it needs ")

    (source / "file").write_text("after")
    restored = shop("restore", "a", "--to", "copy", "--wait", "--dialect", dialect)
    assert restored.lines[0] == "persistentvolumeclaim/copy created"
    assert (shop.files("copy") / "file").read_text() == "before"
    assert shop("describe", "a").out.count("copy") == 1

    claim = shop.path("persistentvolumeclaims") + "/data"
    shop.api.delete(claim)
    eventually(lambda: shop.api.get(claim).code == 404, "the source is gone")
    again = shop("restore", "a", "--to", "later", "--dialect", dialect, "--dry-run").lines
    assert again[2:] == ["  1Gi, ReadWriteOnce, Filesystem", "  class ullage-hostpath"], (
        "as the claim was, not as small as its data"
    )

    assert shop("delete", "a", "--wait").lines[0] == f"{kind}/a deleted"
    assert "snapshot a does not exist" in shop.refused("describe", "a")
    shop("wait", "a", "--for", "deleted", "--timeout", "0")


@pytest.mark.slow
def test_lists_by_what_uses_the_claims_in_every_format(shop: Shop) -> None:
    shop.claim("shared")
    volumes = [{"name": "s", "persistentVolumeClaim": {"claimName": "shared"}}]
    pod = {"containers": [{"name": "c", "image": "x"}], "volumes": volumes}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec = {
        "replicas": 2,
        "serviceName": "db",
        "selector": {"matchLabels": {"app": "db"}},
        "template": {"metadata": {"labels": {"app": "db"}}, "spec": pod},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
    }
    sets = f"/apis/apps/v1/namespaces/{shop.namespace}/statefulsets"
    shop.api.create(sets, {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": spec})
    shop.claim("alone")
    for name, of, dialect in (
        ("zero", "data-db-0", "ga"),
        ("one", "data-db-1", "prototype"),
        ("both", "shared", "ga"),
        ("none", "alone", "ga"),
    ):
        shop.files(of)
        shop("create", name, "--pvc", of, "--dialect", dialect)
    shop("wait", "zero", "one", "both", "none")
    shop.api.merge(f"{sets}/db/scale", {"spec": {"replicas": 1}})

    def names(*arguments: str) -> list[str]:
        return [line.split("/")[1] for line in shop("list", "-o", "name", *arguments).lines]

    assert names() == ["none", "zero", "one", "both"], "by claim"
    assert names("--statefulset", "db") == ["zero", "one", "both"], "of the ordinal that is scaled away too"
    assert names("--pod", "db-0") == ["zero", "both"]
    assert names("--pvc", "data-db-1") == ["one"]
    assert names("--pvc", "data-db-1", "--dialect", "ga") == []
    volume = shop.api.get(shop.path("persistentvolumeclaims/alone")).obj["spec"]["volumeName"]
    assert names("--pv", volume) == ["none"]
    assert "Pod ghost does not exist" in shop.refused("list", "--pod", "ghost")

    rows = [line.split() for line in shop("list", "-o", "wide").lines]
    assert rows[0][:7] == ["NAME", "DIALECT", "CLAIM", "STATE", "SIZE", "CUT", "AGE"]
    assert {row[3] for row in rows[1:]} == {"ready"}
    assert shop.namespace in shop("list", "-o", "yaml").out
    assert {item["kind"] for item in json.loads(shop("list", "-o", "json").out)["items"]} == {"VolumeSnapshot"}
    assert len(yaml.safe_load(shop("list", "-o", "yaml").out)["items"]) == 4
    table = list(csv.DictReader(io.StringIO(shop("list", "-o", "csv").out)))
    assert all(int(row["restoreSizeBytes"]) > 0 for row in table)


def test_what_fails_for_good_ends_the_wait_with_the_error(shop: Shop) -> None:
    shop.claim("data")
    spec = {"source": {"persistentVolumeClaimName": "data"}, "volumeSnapshotClassName": "ghost"}
    path = f"/apis/snapshot.storage.k8s.io/v1/namespaces/{shop.namespace}/volumesnapshots"
    body = {"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot", "metadata": {"name": "a"}, "spec": spec}
    shop.api.create(path, body)
    assert shop.refused("wait", "a") == "snapshot a failed: ClassNotFound: class ghost does not exist"
    assert "What to do: create the class" in shop("describe", "a").out
    assert "already exists" in shop.refused("create", "a", "--pvc", "data")


def test_what_cannot_be_taken_leaves_nothing(shop: Shop) -> None:
    shop.claim("data")
    said = shop.refused("create", "a", "--pvc", "ghost", "--wait")
    assert said.startswith(f"snapshot a was not created: ClaimNotFound: claim {shop.namespace}/ghost does not exist")
    assert "was not created: ClassNotFound" in shop.refused("create", "b", "--pvc", "data", "--class", "ghost")
    assert "would not be created: ClaimNotFound" in shop.refused("create", "b", "--pvc", "ghost", "--dry-run")
    assert shop("list", "-o", "name").out == ""


def test_a_restore_that_cannot_be_done_ends_the_wait_with_the_error(shop: Shop) -> None:
    shop.claim("data")
    shop("create", "a", "--pvc", "data", "--wait")
    other = f"other-{uuid.uuid4().hex[:6]}"
    body = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": other}, "provisioner": DRIVER}
    shop.api.create(STORAGE_CLASSES, {**body, "parameters": {"csi.storage.k8s.io/provisioner-secret-name": "${none}"}})
    said = shop.refused("restore", "a", "--to", "copy", "--class", other, "--wait", "--timeout", "50s")
    assert said.startswith(f"claim copy is not filled: BadStorageClass: StorageClass {other}: ")
    assert said.endswith(f"kubectl delete persistentvolumeclaim copy -n {shop.namespace}")


def test_what_takes_too_long_goes_on(shop: Shop) -> None:
    late = f"late-{uuid.uuid4().hex[:6]}"
    shop.ask("data", storageClassName=late)
    said = shop.refused("create", "a", "--pvc", "data", "--wait", "--timeout", "1s")
    assert said.startswith("not ready within 1 s: a is ")
    assert said.endswith(f"nothing was stopped, wait again with: ullage snapshot wait a -n {shop.namespace}")
    body = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": late}, "provisioner": DRIVER}
    shop.api.create(STORAGE_CLASSES, body)
    shop("wait", "a")


def test_a_missing_name_keeps_the_others(shop: Shop) -> None:
    shop.claim("data")
    shop("create", "a", "--pvc", "data")
    assert shop.refused("delete", "a", "b") == (
        f"snapshot b does not exist in namespace {shop.namespace}, in snapshot.storage.k8s.io (ga) or "
        "volumesnapshot.external-storage.k8s.io (prototype); nothing was deleted"
    )
    assert shop("delete", "a", "--dry-run").out.startswith(f"{GA}/a would be deleted (dry run): claim data, ")
    assert shop("list", "-o", "name").lines == [f"{GA}/a"]


def test_ctrl_c_leaves_the_snapshot(shop: Shop) -> None:
    shop.ask("data", storageClassName="ghost")
    command = [sys.executable, "-m", "ullage", "snapshot", "create", "a", "--pvc", "data", "--wait", "-n", shop.namespace]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(shop.kubeconfig),
    ) as waiting:
        try:
            assert waiting.stdout is not None
            while "requested" not in waiting.stdout.readline():
                assert waiting.poll() is None
            waiting.send_signal(signal.SIGINT)
            _, err = waiting.communicate(timeout=SECONDS)
        finally:
            waiting.kill()
    assert waiting.returncode == 130
    assert err.strip() == "ullage: stopped waiting; snapshot a goes on: ullage snapshot wait a"
    assert shop("list", "-o", "name").lines == [f"{GA}/a"]


def test_a_watch_shows_each_change_until_ctrl_c(shop: Shop) -> None:
    shop.claim("data")
    shop("create", "old", "--pvc", "data", "--wait")
    command = [sys.executable, "-m", "ullage", "snapshot", "get", "-w", "-n", shop.namespace]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(shop.kubeconfig)) as watching:
        try:
            assert watching.stdout is not None
            assert watching.stdout.readline().split()[:4] == ["NAME", "DIALECT", "CLAIM", "STATE"]
            assert watching.stdout.readline().split()[:4] == ["old", "ga", "data", "ready"]
            shop("create", "new", "--pvc", "data")
            states = []
            while "ready" not in states:
                name, _, _, state = watching.stdout.readline().split()[:4]
                assert name == "new"
                states.append(state)
            shop("delete", "old")
            while watching.stdout.readline().split()[:4] != ["old", "ga", "data", "gone"]:
                assert watching.poll() is None
            watching.send_signal(signal.SIGINT)
            watching.wait(SECONDS)
        finally:
            watching.kill()
    assert watching.returncode == 130


def test_a_user_of_the_namespace_sees_snapshots_and_is_told_what_is_not_hers(shop: Shop, tmp_path: Path) -> None:
    shop.claim("data")
    shop("create", "a", "--pvc", "data", "--wait")
    hers = Shop(shop.api, user(shop, tmp_path, "edit"))
    hers.namespace = shop.namespace
    eventually(lambda: hers.run("list").code == 0, "the role has gathered ours")
    described = hers("describe", "a").out
    assert "(you may not read volumesnapshotcontents.snapshot.storage.k8s.io: driver and handle are not shown)" in described
    assert "not checked: you may not read volume pvc-" in hers("create", "b", "--pvc", "data", "--dry-run").out
    hers("create", "b", "--pvc", "data", "--wait")
    everywhere = run(hers.kubeconfig, "snapshot", "list", "-A")
    assert everywhere.code == 1
    assert "is forbidden" in everywhere.err
    assert everywhere.err.count("\n") == 1


def user(shop: Shop, directory: Path, role: str) -> Path:
    """The kubeconfig of somebody who has one of the cluster's own roles in the namespace."""
    api, namespace = shop.api, shop.namespace
    api.create(shop.path("serviceaccounts"), {"metadata": {"name": role}})
    group = "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": role},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": role, "namespace": namespace}],
    }
    api.create(f"/apis/{group}/v1/namespaces/{namespace}/rolebindings", binding)
    token = api.create(shop.path(f"serviceaccounts/{role}/token"), {})["status"]["token"]
    config = yaml.safe_load(shop.kubeconfig.read_text())
    for one in config["users"]:
        one["user"] = {"token": token}
    path = directory / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path
