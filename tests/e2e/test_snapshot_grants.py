"""What users of a namespace may do with snapshots, tried with their own tokens: what the cluster's own roles have gathered."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ullage.app.installer.manifests import manifests
from ullage.kube.builtin.rbac import CLUSTER_ROLES
from ullage.kube.crds.definitions import crd_of
from ullage.kube.kinds import Kind
from ullage.kube.slices import Slice
from ullage.snapshots.slice import aggregated_roles

from .api import Api
from .conftest import DEFINITIONS, wait_served
from .snapshot_kinds import OwnKinds

Json = dict[str, Any]
OWN = OwnKinds()
SNAPSHOTS, CONTENTS, CLASSES, REQUESTS, DATAS = OWN.all
RBAC = "rbac.authorization.k8s.io"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
GA_SPEC: Json = {"source": {"persistentVolumeClaimName": "data"}}
PROTOTYPE_SPEC: Json = {"persistentVolumeClaimName": "data"}
BOTH = [pytest.param(SNAPSHOTS, GA_SPEC, id="ga"), pytest.param(REQUESTS, PROTOTYPE_SPEC, id="prototype")]


@pytest.fixture(scope="module")
def granted(api: Api) -> Iterator[Api]:
    """The kinds and the roles, as `ullage install` applies them."""
    grants = tuple(
        dataclasses.replace(grant, kinds=tuple(OWN.like[kind] for kind in grant.kinds)) for grant in aggregated_roles()
    )
    name = f"snapshots-{OWN.mark}"
    roles = [one for one in manifests((Slice(name=name, grants=grants),)) if one.name.startswith(f"ullage:{name}:")]
    for kind in OWN.all:
        api.create(DEFINITIONS, crd_of(kind))
        wait_served(api, kind.path())
    for role in roles:
        api.create(CLUSTER_ROLES.path(), role.body)
    yield api
    for role in roles:
        api.call("DELETE", CLUSTER_ROLES.path("", role.name))
    for kind in OWN.all:
        api.call("DELETE", f"{DEFINITIONS}/{kind.name}")


def user(api: Api, namespace: str, role: str) -> Api:
    """Somebody who has one of the cluster's own roles in a namespace; done when the authorizer knows of it."""
    api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": role}})
    binding = {
        "metadata": {"name": role},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": role, "namespace": namespace}],
    }
    api.create(f"/apis/{RBAC}/v1/namespaces/{namespace}/rolebindings", binding)
    asked = {"namespace": namespace, "verb": "list", "group": REQUESTS.group, "resource": REQUESTS.plural}
    review = {"spec": {"user": f"system:serviceaccount:{namespace}:{role}", "resourceAttributes": asked}}
    deadline = time.monotonic() + 30.0
    while not api.create(REVIEWS, review)["status"]["allowed"]:
        assert time.monotonic() < deadline, f"{role} has not gathered our role after 30 s"
        time.sleep(0.05)
    token = api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts/{role}/token", {})["status"]["token"]
    return Api(api.plane, token=token)


def body(kind: Kind[Any], **content: Any) -> Json:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "a"}, **content}


@pytest.mark.parametrize(("kind", "spec"), BOTH)
@pytest.mark.parametrize("role", ["edit", "admin"])
def test_whoever_edits_a_namespace_has_its_snapshots(
    granted: Api, namespace: str, kind: Kind[Any], spec: Json, role: str
) -> None:
    alice = user(granted, namespace, role)
    path = kind.path(namespace)
    alice.create(path, body(kind, spec=spec))
    alice.merge(f"{path}/a", {"metadata": {"labels": {"x": "y"}}})
    assert [one["metadata"]["name"] for one in alice.get(path).obj["items"]] == ["a"]
    forged = alice.call("PUT", f"{path}/a/status", {**alice.get(f"{path}/a").obj, "status": {"restoreSize": "1"}})
    assert (forged.code, forged.reason) == (403, "Forbidden"), "what came of it is not hers to say"
    alice.delete(f"{path}/a")


@pytest.mark.parametrize(("kind", "spec"), BOTH)
def test_whoever_views_a_namespace_sees_its_snapshots(granted: Api, namespace: str, kind: Kind[Any], spec: Json) -> None:
    bob = user(granted, namespace, "view")
    path = kind.path(namespace)
    granted.create(path, body(kind, spec=spec))
    assert bob.get(f"{path}/a").code == 200
    with bob.watch(f"{path}?timeoutSeconds=1") as watch:
        assert watch.code == 200
    assert bob.call("POST", path, body(kind, spec=spec)).code == 403
    assert bob.call("DELETE", f"{path}/a").code == 403
    assert bob.call("DELETE", path).code == 403


@pytest.mark.parametrize(("kind", "spec"), BOTH)
def test_another_namespace_is_closed(granted: Api, namespace: str, kind: Kind[Any], spec: Json) -> None:
    alice = user(granted, namespace, "admin")
    for answer in (
        alice.get(kind.path("default")),
        alice.get(kind.path()),
        alice.call("POST", kind.path("default"), body(kind, spec=spec)),
        alice.call("DELETE", kind.path("default", "a")),
    ):
        assert (answer.code, answer.reason) == (403, "Forbidden")


@pytest.mark.parametrize("kind", [pytest.param(CONTENTS, id="contents"), pytest.param(DATAS, id="data")])
def test_no_user_reaches_what_belongs_to_administrators(granted: Api, namespace: str, kind: Kind[Any]) -> None:
    alice = user(granted, namespace, "admin")
    for answer in (
        alice.get(kind.path()),
        alice.get(kind.path("", "a")),
        alice.call("POST", kind.path(), body(kind)),
        alice.call("DELETE", kind.path("", "a")),
    ):
        assert (answer.code, answer.reason) == (403, "Forbidden")


def test_classes_are_for_whoever_views_the_whole_cluster(granted: Api, namespace: str) -> None:
    alice = user(granted, namespace, "view")
    assert alice.get(CLASSES.path()).code == 403
    everywhere = {
        "metadata": {"name": f"view-{namespace}"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "ServiceAccount", "name": "view", "namespace": namespace}],
    }
    bindings = f"/apis/{RBAC}/v1/clusterrolebindings"
    granted.create(bindings, everywhere)
    try:
        deadline = time.monotonic() + 30.0
        while alice.get(CLASSES.path()).code != 200:
            assert time.monotonic() < deadline, "the binding has had no effect after 30 s"
            time.sleep(0.05)
        assert alice.call("POST", CLASSES.path(), body(CLASSES, driver="x", deletionPolicy="Delete")).code == 403
    finally:
        granted.delete(f"{bindings}/view-{namespace}")
