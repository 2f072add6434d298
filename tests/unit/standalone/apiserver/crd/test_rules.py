"""CustomResourceDefinitions. The table in data/ is what a kube-apiserver 1.36 answered to the same definitions."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from ullage.standalone.apiserver.crd import rules
from ullage.standalone.apiserver.kinds.resources import ALL_VERBS
from ullage.standalone.apiserver.status import FieldError

DATA = Path(__file__).parent / "data"
NOW = "2026-01-01T00:00:00Z"
LATER = "2026-01-02T00:00:00Z"
Json = dict[str, Any]


def recorded() -> list[Any]:
    cases = json.loads((DATA / "definitions.json").read_text())
    return [
        pytest.param(case, id=f"{case['about']}: {case['errors'][0][2][:80] if case['errors'] else 'accepted'} ({number})")
        for number, case in enumerate(cases)
    ]


def a_crd(plural: str = "widgets", kind: str = "Widget", *, group: str = "example.dev", **names: Any) -> Json:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    spec = {"group": group, "scope": "Namespaced", "names": {"plural": plural, "kind": kind, **names}, "versions": [version]}
    crd = {"metadata": {"name": f"{plural}.{group}"}, "spec": spec}
    rules.default_crd(crd)
    return crd


def accepted(crd: Json, *others: Json, now: str = NOW) -> Json:
    return {**crd, "status": rules.accept(crd, others, now)}


def condition(crd: Json, kind: str) -> Json:
    found: Json = next(one for one in crd["status"]["conditions"] if one["type"] == kind)
    return found


@pytest.mark.parametrize("case", recorded())
def test_a_definition_is_judged_as_recorded(case: Json) -> None:
    crd: Json = {key: case[key] for key in ("metadata", "spec") if key in case}
    rules.default_crd(crd)
    found = [[error.kind, error.field, error.body] for error in rules.validate_crd(crd)]
    assert sorted(found) == sorted(case["errors"])


def test_names_conversion_and_stored_versions_are_filled_in() -> None:
    crd = a_crd()
    assert crd["spec"]["names"] == {"plural": "widgets", "kind": "Widget", "singular": "widget", "listKind": "WidgetList"}
    assert crd["spec"]["conversion"] == {"strategy": "None"}
    assert crd["status"]["storedVersions"] == ["v1"]


def test_conversion_through_a_webhook_is_refused() -> None:
    crd = a_crd()
    crd["spec"]["conversion"] = {"strategy": "Webhook"}
    assert [error.field for error in rules.validate_crd(crd)] == ["spec.conversion.strategy"]


def test_a_definition_without_rivals_is_established() -> None:
    crd = accepted(a_crd(shortNames=["wi"], categories=["all"]))
    assert crd["status"] == {
        "conditions": [
            {
                "type": "NamesAccepted",
                "status": "True",
                "lastTransitionTime": NOW,
                "reason": "NoConflicts",
                "message": "no conflicts found",
            },
            {
                "type": "Established",
                "status": "True",
                "lastTransitionTime": NOW,
                "reason": "InitialNamesAccepted",
                "message": "the initial names have been accepted",
            },
        ],
        "acceptedNames": {
            "plural": "widgets",
            "singular": "widget",
            "shortNames": ["wi"],
            "kind": "Widget",
            "listKind": "WidgetList",
            "categories": ["all"],
        },
        "storedVersions": ["v1"],
    }


ALPHA = accepted(a_crd("alphas", "Alpha", shortNames=["al"]))


@pytest.mark.parametrize(
    ("names", "reason", "message", "kept"),
    [
        pytest.param(
            {"kind": "Alpha"}, "ListKindConflict", '"AlphaList" is already in use', {"plural": "betas", "kind": ""}, id="kind"
        ),
        pytest.param(
            {"listKind": "AlphaList"},
            "ListKindConflict",
            '"AlphaList" is already in use',
            {"plural": "betas", "singular": "beta", "kind": "Beta"},
            id="list kind",
        ),
        pytest.param(
            {"shortNames": ["al"]},
            "ShortNamesConflict",
            '"al" is already in use',
            {"plural": "betas", "singular": "beta", "kind": "Beta", "listKind": "BetaList"},
            id="short name",
        ),
        pytest.param(
            {"singular": "alpha"},
            "SingularConflict",
            '"alpha" is already in use',
            {"plural": "betas", "kind": "Beta", "listKind": "BetaList"},
            id="singular",
        ),
    ],
)
def test_a_taken_name_keeps_a_definition_waiting(names: Json, reason: str, message: str, kept: Json) -> None:
    waiting = accepted(a_crd("betas", **{"kind": "Beta", **names}), ALPHA)
    assert (condition(waiting, "NamesAccepted")["reason"], condition(waiting, "NamesAccepted")["message"]) == (reason, message)
    assert condition(waiting, "Established")["reason"] == "NotAccepted"
    assert waiting["status"]["acceptedNames"] == kept


def test_the_same_name_in_another_group_is_free() -> None:
    crd = accepted(a_crd("alphas", "Alpha", group="other.dev"), ALPHA)
    assert condition(crd, "Established")["status"] == "True"


def test_an_established_definition_stays_so_and_keeps_its_old_name_until_a_new_one_is_free() -> None:
    crd = accepted(a_crd("betas", "Beta", shortNames=["be"]), ALPHA)
    crd["spec"]["names"]["shortNames"] = ["be", "al"]
    clashing = accepted(crd, ALPHA, now=LATER)
    assert clashing["status"]["acceptedNames"]["shortNames"] == ["be"]
    assert condition(clashing, "NamesAccepted")["lastTransitionTime"] == LATER
    assert condition(clashing, "Established") == condition(crd, "Established")


@pytest.mark.parametrize(
    ("note", "status", "reason", "message"),
    [
        pytest.param("https://example.com/1", "True", "ApprovedAnnotation", "approved in https://example.com/1", id="approved"),
        pytest.param(
            "unapproved, trying", "False", "UnapprovedAnnotation", 'not approved: "unapproved, trying"', id="unapproved"
        ),
    ],
)
def test_a_protected_group_shows_who_approved_it(note: str, status: str, reason: str, message: str) -> None:
    crd = a_crd(group="snapshot.storage.k8s.io")
    crd["metadata"]["annotations"] = {"api-approved.kubernetes.io": note}
    assert rules.validate_crd(crd) == []
    shown = condition(accepted(crd), "KubernetesAPIApprovalPolicyConformant")
    assert (shown["status"], shown["reason"], shown["message"]) == (status, reason, message)
    assert condition(accepted(crd), "Established")["status"] == "True"


def immutable(field: str, value: str) -> list[FieldError]:
    return [FieldError("FieldValueInvalid", field, f"Invalid value: {json.dumps(value)}: field is immutable")]


@pytest.mark.parametrize(
    ("path", "value", "errors"),
    [
        pytest.param(("group",), "x.dev", immutable("spec.group", "x.dev"), id="the group stays"),
        pytest.param(("scope",), "Cluster", immutable("spec.scope", "Cluster"), id="the scope stays"),
        pytest.param(("names", "plural"), "zz", immutable("spec.names.plural", "zz"), id="the plural stays"),
        pytest.param(("names", "kind"), "Zz", immutable("spec.names.kind", "Zz"), id="the kind stays"),
        pytest.param(("names", "singular"), "zz", [], id="the singular may change"),
        pytest.param(("names", "listKind"), "ZzList", [], id="the list's kind may change"),
    ],
)
def test_what_an_established_definition_may_change(path: tuple[str, ...], value: str, errors: list[FieldError]) -> None:
    old = accepted(a_crd())
    new = deepcopy(old)
    target = new["spec"]
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    assert rules.validate_crd_update(new, old) == errors
    waiting = {**old, "status": {**old["status"], "conditions": []}}
    assert rules.validate_crd_update(new, waiting) == []


def test_a_version_that_objects_are_stored_in_may_not_go() -> None:
    old = accepted(a_crd())
    new = deepcopy(old)
    new["spec"]["versions"][0]["name"] = "v2"
    rules.default_crd(new)
    assert new["status"]["storedVersions"] == ["v1", "v2"]
    (error,) = rules.validate_crd_update(new, old)
    assert str(error).startswith('status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was previously')


def two_versions() -> Json:
    crd = a_crd(shortNames=["wi"], categories=["all"])
    first = crd["spec"]["versions"][0]
    first["subresources"] = {
        "status": {},
        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
    }
    first["additionalPrinterColumns"] = [{"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1}]
    schema = {"openAPIV3Schema": {"type": "object"}}
    crd["spec"]["versions"] += [
        {"name": "v2", "served": True, "storage": False, "schema": schema},
        {"name": "v0", "served": False, "storage": False, "schema": schema},
    ]
    return accepted(crd)


def test_each_served_version_is_a_resource() -> None:
    first, second = rules.resources_of(two_versions())
    assert (first.api_version, second.api_version) == ("example.dev/v1", "example.dev/v2")
    assert {first.storage, second.storage} == {"widgets.example.dev"}
    assert {first.storage_version, second.storage_version} == {"example.dev/v1"}
    assert (first.kind, first.list_kind, first.singular, first.short_names, first.categories) == (
        "Widget",
        "WidgetList",
        "widget",
        ("wi",),
        ("all",),
    )
    assert sorted(first.verbs) == sorted(ALL_VERBS)
    assert first.namespaced
    assert first.schema is not None


def test_subresources_and_columns_are_those_of_the_version() -> None:
    first, second = rules.resources_of(two_versions())
    scale = first.subresources["scale"]
    assert (scale.kind, scale.group, scale.version) == ("Scale", "autoscaling", "v1")
    assert first.subresources["status"].kind == "Widget"
    assert not second.subresources
    assert [(column.name, column.type, column.json_path, column.priority) for column in first.columns] == [
        ("Size", "integer", ".spec.size", 1)
    ]
    assert [(column.name, column.type, column.json_path) for column in second.columns] == [
        ("Age", "date", ".metadata.creationTimestamp")
    ]
