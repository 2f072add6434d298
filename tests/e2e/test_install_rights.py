"""The rights that `ullage install` gives: on Secrets and on Longhorn's objects, as far as options and classes go; and what a
purge leaves to other snapshotters."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ullage

from .apart import IS_BORROWED, own_plane
from .api import Api
from .control_plane import ControlPlane

Json = dict[str, Any]
Run = Callable[..., str]
SOURCE = Path(ullage.__file__).parents[1]
RBAC = "/apis/rbac.authorization.k8s.io/v1"
STORAGE = "/apis/storage.k8s.io/v1/storageclasses"
GA = "/apis/snapshot.storage.k8s.io/v1"
PREFIX = "csi.storage.k8s.io/provisioner-secret"

pytestmark = [pytest.mark.slow, pytest.mark.skipif(IS_BORROWED, reason="a borrowed cluster is not installed into")]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with own_plane(tmp_path_factory.mktemp("rights")) as found:
        yield found


@pytest.fixture(scope="module")
def root(plane: ControlPlane) -> Api:
    return Api(plane)


@pytest.fixture(scope="module")
def run(plane: ControlPlane) -> Run:
    """The command; it must succeed."""

    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "ullage", *arguments, "--kubeconfig", str(plane.kubeconfig)]
        env = {**os.environ, "PYTHONPATH": str(SOURCE)}
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=env, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def storage_class(name: str, namespace: str, secret: str) -> Json:
    parameters = {f"{PREFIX}-namespace": namespace, f"{PREFIX}-name": secret}
    kind = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass"}
    return {**kind, "metadata": {"name": name}, "provisioner": "csi.example.com", "parameters": parameters}


def may(root: Api, verb: str, resource: str, *, group: str = "", namespace: str = "", name: str = "") -> bool:
    attributes = {"verb": verb, "group": group, "resource": resource, "namespace": namespace, "name": name}
    user = {"user": "system:serviceaccount:ullage-system:controller", "groups": ["system:serviceaccounts"]}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    asked = {**body, "spec": {**user, "resourceAttributes": attributes}}
    return bool(root.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", asked)["status"]["allowed"])


def test_secrets_are_read_where_a_class_names_them_and_nowhere_else(root: Api, run: Run) -> None:
    root.create("/api/v1/namespaces", {"metadata": {"name": "storage"}})
    root.create(STORAGE, storage_class("literal", "storage", "keys"))
    root.create(STORAGE, storage_class("template", "${pvc.namespace}", "keys"))
    root.create(STORAGE, storage_class("nowhere", "not-there", "keys"))

    said = run("install")
    assert "created     role/storage/ullage:secrets" in said
    assert (
        "StorageClass template takes its Secret from a namespace that each request chooses; install with --all-secrets" in said
    )
    assert "absent      namespace/not-there  (a class names Secrets in it; install again when it is there)" in said
    assert may(root, "get", "secrets", namespace="storage", name="keys")
    for place in ({"namespace": "storage", "name": "other"}, {"namespace": "default", "name": "keys"}):
        assert not may(root, "get", "secrets", **place)
    assert not may(root, "list", "secrets", namespace="storage")
    longhorn = {"group": "longhorn.io", "namespace": "longhorn-system"}
    for plural in ("snapshots", "engines", "volumes"):
        assert may(root, "get", plural, **longhorn), "what they hold is counted, whoever takes it"
    assert may(root, "patch", "snapshots", **longhorn), "what one takes is written on it"
    for resource, verb in itertools.product(("volumes", "engines", "snapshots"), ("create", "delete")):
        assert not may(root, verb, resource, **longhorn)
    assert not any(may(root, "patch", resource, **longhorn) for resource in ("volumes", "engines"))
    assert "longhorn" not in said, "nothing is asked of a product that was not named"

    assert "unchanged   role/storage/ullage:secrets" in run("install"), "a second one has nothing to do"
    root.call("DELETE", f"{STORAGE}/literal")
    assert "deleted     role/storage/ullage:secrets  (no class names a Secret there)" in run("install")
    assert not may(root, "get", "secrets", namespace="storage", name="keys")

    said = run("install", "--all-secrets", "--longhorn")
    assert may(root, "get", "secrets", namespace="anywhere", name="keys")
    assert may(root, "delete", "snapshots", group="longhorn.io", namespace="longhorn-system")
    assert "absent      customresourcedefinition/volumes.longhorn.io  (belongs to another product" in said
    run("install")
    assert not may(root, "get", "secrets", namespace="anywhere", name="keys"), "what is not asked for any more is taken back"
    root.create(STORAGE, storage_class("literal", "storage", "keys"))
    run("install")
    run("uninstall", "--yes")
    assert root.get(f"{RBAC}/namespaces/storage/roles/ullage:secrets").code == 404


def content(name: str, driver: str, **meta: Any) -> Json:
    ref = {"namespace": "default", "name": name}
    spec = {"driver": driver, "deletionPolicy": "Retain", "source": {"snapshotHandle": "h"}, "volumeSnapshotRef": ref}
    kind = {"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent"}
    return {**kind, "metadata": {"name": name, **meta}, "spec": spec}


def test_a_purge_leaves_other_drivers_their_snapshots_and_classes(root: Api, run: Run) -> None:
    run("install")
    root.create(f"{GA}/volumesnapshotcontents", content("ours", "csi.ours.com", annotations={"ullage.io/node": "n"}))
    root.create(f"{GA}/volumesnapshotcontents", content("theirs", "csi.theirs.com"))
    for name in ("ours", "theirs"):
        kind = {"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass", "metadata": {"name": name}}
        body = {**kind, "driver": f"csi.{name}.com", "deletionPolicy": "Retain"}
        root.create(f"{GA}/volumesnapshotclasses", body)

    said = run("uninstall", "--purge", "--yes")
    definition = "customresourcedefinition/volumesnapshotcontents.snapshot.storage.k8s.io"
    assert f"left alone  {definition}  (it has objects of others: 1 of csi.theirs.com)" in said
    assert [one["metadata"]["name"] for one in root.get(f"{GA}/volumesnapshotcontents").obj["items"]] == ["theirs"]
    assert [one["metadata"]["name"] for one in root.get(f"{GA}/volumesnapshotclasses").obj["items"]] == ["theirs"]
    assert root.get(f"{GA}/volumesnapshots").code == 404, "a kind without any object of others goes"

    said = run("uninstall", "--purge", "--yes", "--driver", "csi.theirs.com")
    assert f"deleted     {definition}" in said
    assert root.get(f"{GA}/volumesnapshotcontents").code == 404
