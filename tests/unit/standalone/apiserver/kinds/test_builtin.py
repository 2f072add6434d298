"""The table of built-in kinds against the published definitions."""

from __future__ import annotations

import re

import pytest

from tests.unit.standalone.apiserver.served_kinds import builtins, no_schema, registry
from ullage.standalone.apiserver.kinds import builtin
from ullage.standalone.apiserver.kinds.resources import ALL_VERBS, Resource
from ullage.standalone.apiserver.schema import definitions
from ullage.standalone.apiserver.schema.definitions import Definitions

# Kinds that travel in requests and answers, but are not resources.
_ENVELOPES = re.compile(r"\w+List|\w+Options|Status|WatchEvent|APIGroup|APIVersions|AdmissionReview")


def test_every_row_has_a_definition() -> None:
    assert len(builtins()) == len(list(builtin.rows()))
    assert all(
        resource.raw and resource.raw["$ref"].removeprefix("#/$defs/") in definitions.load().raw for resource in builtins()
    )


def test_every_stable_kind_that_is_published_is_in_the_table() -> None:
    stable = {
        (mark["group"], mark["version"], mark["kind"])
        for schema in definitions.load().raw.values()
        for mark in schema.get("x-kubernetes-group-version-kind", ())
        if re.fullmatch(r"v\d+", mark["version"]) and not _ENVELOPES.fullmatch(mark["kind"])
    }
    served = {(resource.group, resource.version, resource.kind) for resource in builtins()}
    in_subresources = {
        (sub.group or resource.group, sub.version or resource.version, sub.kind)
        for resource in builtins()
        for sub in resource.subresources.values()
    }
    assert stable - served - in_subresources == set()
    assert served - stable == set()


def test_a_kind_without_a_definition_is_an_error_at_start() -> None:
    with pytest.raises(LookupError, match="/v1 Binding"):
        builtin.builtin_resources(Definitions({}), no_schema)


def test_the_schema_is_compiled_from_the_definition_of_the_kind() -> None:
    asked: list[str] = []

    def schema_for(name: str) -> None:
        asked.append(name)

    builtin.builtin_resources(definitions.load(), schema_for)  # type: ignore[arg-type] # only its argument matters here
    assert "io.k8s.api.core.v1.Pod" in asked
    assert "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition" in asked


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        pytest.param(
            ("", "v1", "pods"),
            {"singular": "pod", "namespaced": True, "short_names": ("po",), "categories": ("all",), "verbs": ALL_VERBS},
            id="pods have a short name and are in `kubectl get all`",
        ),
        pytest.param(
            ("", "v1", "namespaces"),
            {"namespaced": False, "verbs": ("create", "delete", "get", "list", "patch", "update", "watch")},
            id="namespaces cannot be deleted as a collection",
        ),
        pytest.param(
            ("authorization.k8s.io", "v1", "selfsubjectaccessreviews"),
            {"namespaced": False, "verbs": ("create",)},
            id="a review can only be created",
        ),
        pytest.param(
            ("", "v1", "endpoints"), {"singular": "endpoints", "list_kind": "EndpointsList"}, id="endpoints have no singular"
        ),
        pytest.param(
            ("apiextensions.k8s.io", "v1", "customresourcedefinitions"),
            {"short_names": ("crd", "crds"), "categories": ("api-extensions",)},
            id="a kind may have two short names",
        ),
        pytest.param(
            ("rbac.authorization.k8s.io", "v1", "clusterroles"),
            {"storage": "clusterroles.rbac.authorization.k8s.io", "storage_version": "rbac.authorization.k8s.io/v1"},
            id="a kind is stored under its plural and group",
        ),
        pytest.param(
            ("events.k8s.io", "v1", "events"),
            {"storage": "events", "storage_version": "v1"},
            id="both kinds of events are the same objects",
        ),
        pytest.param(
            ("autoscaling", "v1", "horizontalpodautoscalers"),
            {"storage": "horizontalpodautoscalers.autoscaling", "storage_version": "autoscaling/v2"},
            id="autoscalers are stored in the version that can hold them",
        ),
    ],
)
def test_a_row_says(where: tuple[str, str, str], expected: dict[str, object]) -> None:
    found = _find(*where)
    assert {key: getattr(found, key) for key in expected} == expected


@pytest.mark.parametrize(
    ("where", "name", "kind", "verbs", "group"),
    [
        pytest.param(("", "v1", "pods"), "status", "Pod", ("get", "patch", "update"), "", id="status is the kind itself"),
        pytest.param(("", "v1", "pods"), "eviction", "Eviction", ("create",), "policy", id="eviction is of another group"),
        pytest.param(("", "v1", "pods"), "exec", "PodExecOptions", ("create", "get"), "", id="exec takes options"),
        pytest.param(
            ("", "v1", "nodes"),
            "proxy",
            "NodeProxyOptions",
            ("create", "delete", "get", "patch", "update"),
            "",
            id="node proxy",
        ),
        pytest.param(("", "v1", "namespaces"), "finalize", "Namespace", ("update",), "", id="finalize is only updated"),
        pytest.param(
            ("", "v1", "serviceaccounts"),
            "token",
            "TokenRequest",
            ("create",),
            "authentication.k8s.io",
            id="a token is created",
        ),
        pytest.param(("apps", "v1", "deployments"), "scale", "Scale", ("get", "patch", "update"), "autoscaling", id="scale"),
    ],
)
def test_a_subresource_says(where: tuple[str, str, str], name: str, kind: str, verbs: tuple[str, ...], group: str) -> None:
    found = _find(*where).subresources[name]
    assert (found.name, found.kind, found.verbs, found.group) == (name, kind, verbs, group)


def test_versions_that_share_a_storage_convert_to_it_and_the_others_do_not() -> None:
    converted = {(r.group, r.version, r.plural) for r in builtins() if r.to_storage or r.from_storage}
    foreign = {(r.group, r.version, r.plural) for r in builtins() if r.storage_version != r.api_version}
    assert converted == foreign == set(builtin.SHARED)


def _find(group: str, version: str, plural: str) -> Resource:
    found = registry().find(group, version, plural)
    assert found is not None
    return found
