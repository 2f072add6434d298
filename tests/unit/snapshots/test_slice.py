"""What users of a namespace get, as `ullage install` applies it."""

from __future__ import annotations

from ullage.app.installer.manifests import manifests
from ullage.kube.slices import Slice
from ullage.snapshots.slice import aggregated_roles

GATHERED = "rbac.authorization.k8s.io/aggregate-to-"
READ = ["get", "list", "watch"]
WRITE = [*READ, "create", "update", "patch", "delete", "deletecollection"]


def test_the_roles_that_the_clusters_own_ones_gather() -> None:
    found = manifests((Slice(name="snapshots", grants=tuple(aggregated_roles())),))
    roles = {one.name: one.body for one in found if one.name.startswith("ullage:snapshots:")}
    assert set(roles) == {"ullage:snapshots:edit", "ullage:snapshots:view"}, "and no binding of them"
    labels = {
        name: sorted(label for label in body["metadata"]["labels"] if label.startswith(GATHERED))
        for name, body in roles.items()
    }
    assert labels == {
        "ullage:snapshots:edit": [f"{GATHERED}admin", f"{GATHERED}edit"],
        "ullage:snapshots:view": [f"{GATHERED}view"],
    }
    assert roles["ullage:snapshots:edit"]["rules"] == [
        {"apiGroups": ["snapshot.storage.k8s.io"], "resources": ["volumesnapshots"], "verbs": WRITE},
        {"apiGroups": ["volumesnapshot.external-storage.k8s.io"], "resources": ["volumesnapshots"], "verbs": WRITE},
    ]
    assert roles["ullage:snapshots:view"]["rules"] == [
        {"apiGroups": ["snapshot.storage.k8s.io"], "resources": ["volumesnapshots", "volumesnapshotclasses"], "verbs": READ},
        {"apiGroups": ["volumesnapshot.external-storage.k8s.io"], "resources": ["volumesnapshots"], "verbs": READ},
    ]


def test_a_slice_without_grants_adds_no_role() -> None:
    assert not [one for one in manifests((Slice(name="snapshots"),)) if one.name.startswith("ullage:snapshots:")]
