"""Which Secrets may be read: what classes and records say."""

from __future__ import annotations

from typing import Any

import pytest

from ullage.app.installer.secret_access import NamedSecrets, NamingObjects, named_secrets
from ullage.kube.builtin.core import PersistentVolume
from ullage.kube.builtin.storage import StorageClass
from ullage.kube.kinds import Meta
from ullage.snapshots.model import Record, Ref, SnapshotClass
from ullage.snapshots.restored_volume import HANDLE, PROVISIONED_BY, RESTORED_FROM, SECRET_NAME, SECRET_NAMESPACE

PREFIX = "csi.storage.k8s.io/"


def secret(role: str, namespace: str, name: str) -> dict[str, str]:
    return {f"{PREFIX}{role}-secret-namespace": namespace, f"{PREFIX}{role}-secret-name": name}


def storage_class(name: str = "fast", *, driver: str = "csi.x", **parameters: str) -> StorageClass:
    return StorageClass(metadata=Meta(name=name), provisioner=driver, parameters=parameters)


def snapshot_class(name: str = "snap", *, driver: str = "csi.x", **parameters: str) -> SnapshotClass:
    return SnapshotClass(name=name, driver=driver, parameters=parameters)


def restored(namespace: str, name: str) -> PersistentVolume:
    marks = dict.fromkeys((RESTORED_FROM, HANDLE, PROVISIONED_BY), "x")
    return PersistentVolume(metadata=Meta(name="pv", annotations={**marks, SECRET_NAMESPACE: namespace, SECRET_NAME: name}))


def record(ref: Ref | None) -> Record:
    meta = Meta(name="content")
    return Record(meta=meta, driver="csi.x", ref=Ref("a", "b"), policy="Delete", secret=ref)


@pytest.mark.parametrize(
    ("found", "by_namespace"),
    [
        pytest.param({}, {}, id="nothing"),
        pytest.param(
            {"storage_classes": [storage_class(**secret("provisioner", "storage", "keys"))]},
            {"storage": frozenset({"keys"})},
            id="of a StorageClass",
        ),
        pytest.param(
            {"storage_classes": [storage_class(**secret("node-stage", "storage", "keys"))]}, {}, id="that only a node reads"
        ),
        pytest.param(
            {"classes": [snapshot_class(**secret("snapshotter", "storage", "keys"))]},
            {"storage": frozenset({"keys"})},
            id="of a class of snapshots",
        ),
        pytest.param(
            {
                "classes": [snapshot_class(**secret("snapshotter", "storage", "one"))],
                "storage_classes": [storage_class(**secret("provisioner", "storage", "two"))],
            },
            {"storage": frozenset({"one", "two"})},
            id="two of one namespace",
        ),
        pytest.param(
            {
                "classes": [
                    snapshot_class("a", **secret("snapshotter", "storage", "${volumesnapshot.name}")),
                    snapshot_class("b", **secret("snapshotter", "storage", "keys")),
                ]
            },
            {"storage": None},
            id="a name that each request chooses: all of the namespace",
        ),
        pytest.param({"records": [record(Ref("old", "keys"))]}, {"old": frozenset({"keys"})}, id="that a deletion will need"),
        pytest.param({"volumes": [restored("old", "keys")]}, {"old": frozenset({"keys"})}, id="of a restored volume"),
        pytest.param({"classes": [snapshot_class(**{f"{PREFIX}snapshotter-secret-name": "half"})]}, {}, id="half of one"),
    ],
)
def test_what_may_be_read(found: dict[str, Any], by_namespace: dict[str, Any]) -> None:
    assert named_secrets(NamingObjects(**found)) == NamedSecrets(by_namespace)


def test_a_namespace_that_each_request_chooses_is_told_and_not_given() -> None:
    found = NamingObjects(storage_classes=[storage_class("tenants", **secret("provisioner", "${pvc.namespace}", "keys"))])
    assert named_secrets(found) == NamedSecrets({}, ("StorageClass tenants",))


def test_only_of_some_drivers() -> None:
    found = NamingObjects(
        storage_classes=[
            storage_class("a", driver="csi.x", **secret("provisioner", "x", "keys")),
            storage_class("b", driver="csi.y", **secret("provisioner", "y", "keys")),
        ]
    )
    assert named_secrets(found, drivers=frozenset({"csi.y"})).by_namespace == {"y": frozenset({"keys"})}
