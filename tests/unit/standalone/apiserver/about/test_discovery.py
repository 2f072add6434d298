"""Discovery documents. Orders, names and hashes are those of kube-apiserver 1.36."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.standalone.apiserver.served_kinds import gadget, registry, widget
from ullage.standalone.apiserver.about import discovery
from ullage.standalone.apiserver.about.discovery import AGGREGATED, Discovery
from ullage.standalone.apiserver.kinds.resources import Registry

Json = dict[str, Any]


def read(served: Registry, path: str, accept: str = "application/json") -> Json:
    found = Discovery(served, "10.0.0.1:6443").answer(path, accept=accept)
    assert found is not None
    content: Json = json.loads(found.body)
    return content


@pytest.mark.parametrize(
    ("accept", "aggregated"),
    [
        pytest.param("", False, id="no wish gets the older form"),
        pytest.param("*/*", False, id="any form is the older one"),
        pytest.param("application/json", False, id="plain JSON is the older one"),
        pytest.param(AGGREGATED, True, id="the newer form by its name"),
        pytest.param(f"{AGGREGATED},application/json", True, id="the newer one first"),
        pytest.param(f"application/json, {AGGREGATED}", True, id="the newer one wins even when it stands last"),
        pytest.param(
            AGGREGATED.replace("v=v2;as=APIGroupDiscoveryList", "as=APIGroupDiscoveryList;v=v2"), True, id="any order"
        ),
        pytest.param(f"{AGGREGATED};profile=nopeer", True, id="further parameters do not matter"),
        pytest.param(f"{AGGREGATED.replace('v2', 'v2beta1')},application/json", False, id="the beta is gone"),
        pytest.param(AGGREGATED.replace("application/json", "application/yaml"), False, id="the newer form is JSON only"),
    ],
)
def test_the_form_is_chosen_by_media_type(accept: str, aggregated: bool) -> None:
    kind = read(registry(), "/apis", accept)["kind"]
    assert kind == ("APIGroupDiscoveryList" if aggregated else "APIGroupList")


def test_the_newer_form_says_how_it_may_be_cached() -> None:
    found = Discovery(registry()).answer("/apis", accept=AGGREGATED)
    assert found is not None
    headers = dict(found.headers())
    assert headers["content-type"] == AGGREGATED
    assert headers["vary"] == "Accept"
    assert headers["cache-control"] == "public"
    assert headers["etag"] == f'"{found.etag}"'


@pytest.mark.parametrize(
    ("tag", "status"),
    [
        pytest.param('"{}"', 304, id="the same tag"),
        pytest.param('"other", W/"{}"', 304, id="one of several, marked as weak"),
        pytest.param('"other"', 200, id="another tag"),
        pytest.param("", 200, id="no tag"),
    ],
)
def test_a_client_that_has_it_gets_304_and_nothing_else(tag: str, status: int) -> None:
    documents = Discovery(registry())
    whole = documents.answer("/api", accept=AGGREGATED)
    assert whole is not None
    found = documents.answer("/api", accept=AGGREGATED, if_none_match=tag.format(whole.etag))
    assert found is not None
    assert (found.status, found.body) == (status, b"" if status == 304 else whole.body)
    assert found.etag == whole.etag


def test_a_new_kind_shows_at_once_and_changes_the_tag() -> None:
    served = registry()
    documents = Discovery(served)
    before = documents.answer("/apis", accept=AGGREGATED)
    assert documents.answer("/apis/example.com/v1") is None
    served.add(widget())
    after = documents.answer("/apis", accept=AGGREGATED)
    assert before is not None
    assert after is not None
    assert before.etag != after.etag
    assert documents.answer("/apis/example.com/v1") is not None
    served.remove("example.com", "widgets")
    again = documents.answer("/apis", accept=AGGREGATED)
    assert again is not None
    assert again.etag == before.etag


def test_a_document_is_built_once() -> None:
    documents = Discovery(registry())
    assert documents.answer("/apis/apps/v1") is documents.answer("/apis/apps/v1/")


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/apis/nope.example.com", id="an unknown group"),
        pytest.param("/apis/apps/v2", id="an unknown version"),
        pytest.param("/api/v2", id="an unknown core version"),
        pytest.param("/apis//v1", id="the core group under its empty name"),
        pytest.param("/apis/apps/v1/deployments", id="a resource"),
    ],
)
def test_nothing_is_there(path: str) -> None:
    assert Discovery(registry()).answer(path) is None


BUILTIN_GROUPS = [
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
]


def test_groups_stand_in_the_order_of_a_cluster() -> None:
    custom = registry(gadget("v1", "b.io"), gadget("v1", "z.io"), gadget("v1alpha1", "a.io"), gadget("v3", "a.io"))
    older = [group["name"] for group in read(custom, "/apis")["groups"]]
    newer = [group["metadata"]["name"] for group in read(custom, "/apis", AGGREGATED)["items"]]
    assert older == [*BUILTIN_GROUPS, "b.io", "z.io", "a.io"]
    assert newer == [*BUILTIN_GROUPS, "a.io", "b.io", "z.io"]


def test_versions_stand_best_first() -> None:
    versions = ["v3", "v1beta1", "foo", "bar10", "v1beta2", "v2alpha1", "v11"]
    served = registry(*(gadget(version, "a.io") for version in versions))
    expected = ["v11", "v3", "v1beta2", "v1beta1", "v2alpha1", "bar10", "foo"]
    group = read(served, "/apis/a.io")
    assert [version["version"] for version in group["versions"]] == expected
    assert group["preferredVersion"] == {"groupVersion": "a.io/v11", "version": "v11"}
    [newer] = [one for one in read(served, "/apis", AGGREGATED)["items"] if one["metadata"]["name"] == "a.io"]
    assert [version["version"] for version in newer["versions"]] == expected


def test_a_built_in_resource_list() -> None:
    found = read(registry(), "/apis/apps/v1")
    assert (found["kind"], found["apiVersion"], found["groupVersion"]) == ("APIResourceList", "v1", "apps/v1")
    [deployments, scale] = [one for one in found["resources"] if one["name"] in ("deployments", "deployments/scale")]
    assert deployments == {
        "name": "deployments",
        "singularName": "deployment",
        "namespaced": True,
        "kind": "Deployment",
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        "shortNames": ["deploy"],
        "categories": ["all"],
        "storageVersionHash": "8aSe+NMegvE=",
    }
    assert scale == {
        "name": "deployments/scale",
        "singularName": "",
        "namespaced": True,
        "group": "autoscaling",
        "version": "v1",
        "kind": "Scale",
        "verbs": ["get", "patch", "update"],
    }


@pytest.mark.parametrize(
    ("path", "name", "expected"),
    [
        pytest.param("/api/v1", "pods", "xPOwRZ+Yhw8=", id="pods"),
        pytest.param("/api/v1", "events", "r2yiGXH7wu8=", id="events"),
        pytest.param("/apis/events.k8s.io/v1", "events", "r2yiGXH7wu8=", id="events of the newer group, which are the same"),
        pytest.param("/apis/autoscaling/v1", "horizontalpodautoscalers", "qwQve8ut294=", id="stored in the other version"),
        pytest.param("/api/v1", "bindings", None, id="not stored"),
        pytest.param("/apis/authorization.k8s.io/v1", "subjectaccessreviews", None, id="a question"),
    ],
)
def test_the_hash_of_the_stored_version(path: str, name: str, expected: str | None) -> None:
    [entry] = [one for one in read(registry(), path)["resources"] if one["name"] == name]
    assert entry.get("storageVersionHash") == expected


def test_a_custom_resource_in_both_forms() -> None:
    served = registry(widget())
    older = read(served, "/apis/example.com/v1")["resources"]
    assert [entry["name"] for entry in older] == ["widgets", "widgets/status", "widgets/scale"]
    verbs = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]
    assert older[0]["verbs"] == verbs
    [group] = [one for one in read(served, "/apis", AGGREGATED)["items"] if one["metadata"]["name"] == "example.com"]
    own = {"group": "example.com", "version": "v1", "kind": "Widget"}
    scale = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    changed = ["get", "patch", "update"]
    assert group["versions"] == [
        {
            "version": "v1",
            "resources": [
                {
                    "resource": "widgets",
                    "responseKind": own,
                    "scope": "Namespaced",
                    "singularResource": "widget",
                    "verbs": verbs,
                    "shortNames": ["wd"],
                    "categories": ["all"],
                    "subresources": [
                        {"subresource": "status", "responseKind": own, "verbs": changed},
                        {"subresource": "scale", "responseKind": scale, "verbs": changed},
                    ],
                }
            ],
            "freshness": "Current",
        }
    ]


def test_the_core_group_has_documents_of_its_own() -> None:
    assert read(registry(), "/api") == {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "10.0.0.1:6443"}],
    }
    [core] = read(registry(), "/api", AGGREGATED)["items"]
    assert core["metadata"] == {}
    [pods] = [one for one in core["versions"][0]["resources"] if one["resource"] == "pods"]
    [eviction] = [one for one in pods["subresources"] if one["subresource"] == "eviction"]
    assert pods["responseKind"] == {"group": "", "version": "", "kind": "Pod"}
    assert eviction["responseKind"] == {"group": "policy", "version": "v1", "kind": "Eviction"}


def test_the_version_names_the_kubernetes_that_is_spoken() -> None:
    found = discovery.version_info()
    assert (found["major"], found["minor"], found["gitVersion"]) == ("1", "36", "v1.36.0+ullage")
    required = {"gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"}
    assert required <= set(found)


def test_the_root_lists_groups_and_versions() -> None:
    paths = discovery.root_paths(registry(widget()))["paths"]
    assert paths == sorted(paths)
    assert {"/api/v1", "/apis/apps", "/apis/apps/v1", "/apis/example.com", "/apis/example.com/v1", "/version"} <= set(paths)
