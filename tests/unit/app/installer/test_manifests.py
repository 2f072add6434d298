"""What is installed for a slice: definitions, roles, and how a change is told from no change."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.sample_app import BARRELS, CASKS, SLICE
from ullage.app.installer.installer import covers, lacking
from ullage.app.installer.manifests import DIGEST, definitions, manifests
from ullage.app.installer.roles import roles
from ullage.kube.builtin.apiextensions import DEFINITIONS
from ullage.kube.crds.definitions import crd_of, is_ours
from ullage.kube.kinds import Kind, Object
from ullage.kube.policies import Demand, Policy
from ullage.kube.slices import Grant, Part, RancherTemplate, Slice, UserRole, Write

Json = dict[str, Any]
PODS = Kind("", "v1", "Pod", "pods", Object, whole=False)


def test_the_namespace_comes_first_and_every_object_says_whose_it_is_and_what_was_applied() -> None:
    found = manifests((SLICE,))
    assert (found[0].kind.kind, found[0].name) == ("Namespace", "ullage-system")
    assert all(is_ours(manifest.body) for manifest in found)
    assert all(manifest.body["metadata"]["annotations"][DIGEST] for manifest in found)
    assert len({(manifest.kind, manifest.namespace, manifest.name) for manifest in found}) == len(found)


def test_the_same_slices_give_the_same_objects() -> None:
    assert manifests((SLICE,)) == manifests((SLICE,))


def test_the_digest_moves_with_the_content() -> None:
    more = Slice(name="barrels", controllers=Part(make=lambda wiring: (), watches=(PODS,)))
    digests = [
        {(one.kind.kind, one.name): one.body["metadata"]["annotations"][DIGEST] for one in manifests((slice,))}
        for slice in (SLICE, more)
    ]
    changed = {key for key in digests[0].keys() & digests[1].keys() if digests[0][key] != digests[1][key]}
    assert changed == {("ClusterRole", "ullage:controller:barrels")}


@pytest.mark.parametrize(
    ("foreign", "brought"),
    [
        pytest.param(
            False, {BARRELS.name: True, CASKS.name: False}, id="on a cluster another product's kind is only looked at"
        ),
        pytest.param(True, {BARRELS.name: True, CASKS.name: True}, id="on one machine it is brought along"),
    ],
)
def test_which_definitions_are_made(foreign: bool, brought: dict[str, bool]) -> None:
    found = definitions((SLICE,), foreign=foreign)
    assert {manifest.name: manifest.brought for manifest in found} == brought


def test_a_policy_comes_with_a_binding_that_puts_it_in_force_and_our_own_are_not_held_to_it() -> None:
    policy = Policy(name="kept", kinds=(BARRELS,), demands=(Demand("object.spec == oldObject.spec", "the spec stays"),))
    found = {one.kind.kind: one.body for one in manifests((Slice(name="barrels", policies=(policy,)),)) if one.name == "kept"}
    assert found["ValidatingAdmissionPolicyBinding"]["spec"] == {"policyName": "kept", "validationActions": ["Deny"]}
    spec = found["ValidatingAdmissionPolicy"]["spec"]
    assert spec["failurePolicy"] == "Fail"
    assert spec["matchConstraints"]["resourceRules"] == [
        {
            "apiGroups": [BARRELS.group],
            "apiVersions": [BARRELS.version],
            "operations": ["UPDATE"],
            "resources": [BARRELS.plural],
            "scope": "Namespaced",
        }
    ]
    assert [one["message"] for one in spec["validations"]] == ["the spec stays"]
    (condition,) = spec["matchConditions"]
    for account in ("controller", "webhook", "world"):
        assert f"'system:serviceaccount:ullage-system:{account}'" in condition["expression"]


def test_two_slices_that_name_a_kind_give_one_definition() -> None:
    other = Slice(name="other", kinds=(BARRELS,), foreign=(BARRELS,))
    assert [one.name for one in definitions((SLICE, other))] == [BARRELS.name, CASKS.name]
    assert definitions((other,))[0].brought, "brought by one is brought"


@pytest.mark.parametrize(
    ("slices", "brought", "whole"),
    [
        pytest.param((Slice(name="a", kinds=(BARRELS,)),), True, True, id="ours must have every field"),
        pytest.param((Slice(name="a", served=(BARRELS,)),), False, False, id="another product's is taken as it is"),
        pytest.param(
            (Slice(name="a", kinds=(BARRELS,), served=(BARRELS,)),),
            True,
            False,
            id="one that is both is made where it is missing, and taken as it is where it is not ours",
        ),
        pytest.param(
            (Slice(name="a", kinds=(BARRELS,)), Slice(name="b", served=(BARRELS,))),
            True,
            True,
            id="a slice that takes it as it is asks no less for the one that brings it",
        ),
    ],
)
def test_what_a_definition_of_somebody_else_must_have(slices: tuple[Slice, ...], brought: bool, whole: bool) -> None:
    (found,) = definitions(slices)
    assert (found.brought, found.whole) == (brought, whole)


def test_versions_of_one_kind_are_one_definition_that_stores_the_first() -> None:
    older = Kind(BARRELS.group, "v1beta1", BARRELS.kind, BARRELS.plural, BARRELS.type)
    (found,) = definitions((Slice(name="two", kinds=(BARRELS, older)),))
    assert [(one["name"], one["storage"]) for one in found.body["spec"]["versions"]] == [("v1", True), ("v1beta1", False)]
    assert found.kind is DEFINITIONS


# --- roles -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "rules"),
    [
        pytest.param(Part(make=lambda wiring: ()), [], id="who needs nothing has no role"),
        pytest.param(
            Part(make=lambda wiring: (), watches=(PODS,)),
            [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}],
            id="a kind that is watched can be read",
        ),
        pytest.param(
            Part(make=lambda wiring: (), watches=(PODS,), writes=(Write(PODS, ("patch",)),)),
            [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "patch"]}],
            id="what is watched and written is one rule",
        ),
        pytest.param(
            Part(make=lambda wiring: (), writes=(Write(BARRELS, ("patch",), ("status",)),)),
            [{"apiGroups": ["app.example.com"], "resources": ["barrels/status"], "verbs": ["patch"]}],
            id="to write a status is not to write the object",
        ),
        pytest.param(
            Part(make=lambda wiring: (), events=True),
            [{"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["get", "create", "patch"]}],
            id="events are asked for",
        ),
    ],
)
def test_a_role_holds_what_the_part_declares(part: Part[Any], rules: list[Json]) -> None:
    found = [role for role in roles((Slice(name="x", controllers=part),)) if role.name == "ullage:controller:x"]
    assert [rule.as_json() for role in found for rule in role.rules] == rules


def test_controllers_and_hooks_of_a_slice_have_roles_of_their_own() -> None:
    found = {role.name: role.account for role in roles((SLICE,))}
    assert found["ullage:controller:barrels"] == "controller"
    assert found["ullage:webhook:barrels"] == "webhook"


def test_what_is_shared_is_a_right_of_both_identities() -> None:
    shared: Part[Any] = Part(make=lambda wiring: (), watches=(BARRELS,))
    events: Part[Any] = Part(make=lambda wiring: (), events=True)
    found = {role.name: role.rules for role in roles((Slice(name="x", shared=shared, controllers=events),))}
    watched, *_ = found["ullage:webhook:x"]
    assert watched.as_json() == {
        "apiGroups": [BARRELS.group],
        "resources": [BARRELS.plural],
        "verbs": ["get", "list", "watch"],
    }
    assert found["ullage:controller:x"][:-1] == found["ullage:webhook:x"]
    assert found["ullage:controller:x"][-1].group == "events.k8s.io"


def test_the_key_to_other_clusters_paths_is_the_webhooks_alone_and_only_where_there_are_any() -> None:
    here, there = (Slice(name="x", shared=Part(make=lambda wiring: (), elsewhere=kinds)) for kinds in ((), (BARRELS,)))
    assert "ullage:webhook:callers" not in {role.name for role in roles((here,))}
    (role,) = (role for role in roles((there,)) if role.name == "ullage:webhook:callers")
    assert (role.account, role.here) == ("webhook", True)
    assert [rule.as_json() for rule in role.rules] == [
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": ["ullage-webhook-callers"]}
    ]
    assert "ullage:controller:x" not in {role.name for role in roles((there,))}, "rights elsewhere are for others to give"


def test_what_the_world_grants_is_there_where_the_world_is() -> None:
    grant = Grant(name="edit", roles=("edit",), kinds=(PODS,), verbs=("get",))
    world = Slice(name="world", grants=(grant,))
    assert "ullage:world:edit" in {one.name for one in manifests((SLICE,), world=world)}
    assert "ullage:world:edit" not in {one.name for one in manifests((SLICE,))}


def test_the_world_is_somebody_of_its_own_and_only_where_it_is_asked_for() -> None:
    world = Slice(name="world", controllers=Part(make=lambda wiring: (), watches=(PODS,)))
    accounts = [one.name for one in manifests((SLICE,), world=world) if one.kind.kind == "ServiceAccount"]
    assert accounts == ["controller", "webhook", "api", "world"]
    (role,) = (role for role in roles((SLICE,), world=world) if role.account == "world")
    assert [rule.as_json()["resources"] for rule in role.rules] == [["pods"]]
    assert "world" not in {one.name for one in manifests((SLICE,))}


# --- what is there already -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("live", "wanted", "covered"),
    [
        pytest.param({"a": 1, "b": 2}, {"a": 1}, True, id="defaults of the server do not count"),
        pytest.param({"a": 2}, {"a": 1}, False, id="another value"),
        pytest.param({}, {"a": 1}, False, id="a field that is gone"),
        pytest.param({}, {"a": {}, "b": []}, True, id="what is empty may be dropped"),
        pytest.param({"a": [1, 2]}, {"a": [1]}, False, id="an item more is a change"),
        pytest.param({"a": [{"b": 1, "c": 2}]}, {"a": [{"b": 1}]}, True, id="defaults inside items"),
        pytest.param({"a": True}, {"a": 1}, False, id="true is not one"),
    ],
)
def test_whether_everything_wanted_is_there(live: Json, wanted: Json, covered: bool) -> None:
    assert covers(live, wanted) is covered


def definition(**changes: Any) -> Json:
    """A definition of casks like ours, with some of its only version changed."""
    found = crd_of(CASKS)
    found["spec"]["versions"][0] |= changes
    return found


def schema(spec: Json) -> Json:
    return {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", **spec}}}}


CASE: list[Any] = [
    pytest.param(crd_of(CASKS), [], id="the very same"),
    pytest.param(
        {**crd_of(CASKS), "spec": {**crd_of(CASKS)["spec"], "scope": "Cluster"}},
        ["its scope is Cluster, Namespaced is needed"],
        id="another scope",
    ),
    pytest.param(definition(name="v2"), ["v1 is not served"], id="another version"),
    pytest.param(definition(served=False), ["v1 is not served"], id="a version that is not served"),
    pytest.param(definition(schema=schema({})), ["v1: spec.owner is missing"], id="a field that is missing"),
    pytest.param(
        definition(schema=schema({"x-kubernetes-preserve-unknown-fields": True})), [], id="fields that are kept unseen"
    ),
    pytest.param(
        definition(schema=schema({"properties": {"owner": {"type": "integer"}}})),
        ["v1: spec.owner is integer, string is needed"],
        id="a field of another type",
    ),
    pytest.param(
        definition(schema=schema({"properties": {"owner": {"x-kubernetes-int-or-string": True}}})),
        [],
        id="a field of either type",
    ),
]


@pytest.mark.parametrize(("found", "faults"), CASE)
def test_what_somebody_elses_definition_lacks(found: Json, faults: list[str]) -> None:
    assert lacking(found, crd_of(CASKS)) == faults


def test_a_status_that_cannot_be_written_is_a_fault() -> None:
    without = crd_of(BARRELS)
    del without["spec"]["versions"][0]["subresources"]
    assert lacking(without, crd_of(BARRELS)) == ["v1 has no status subresource"]


def test_a_role_for_administrators_to_bind_is_bound_to_nobody_and_gathered_by_none() -> None:
    role = UserRole(name="ullage-barrels-admin", kinds=(BARRELS,), verbs=("get", "update"))
    found = [one for one in manifests((Slice(name="barrels", user_roles=(role,)),)) if "ullage-barrels-admin" in str(one.body)]
    assert [(one.kind.kind, one.body["metadata"]["labels"]) for one in found] == [
        ("ClusterRole", {"app.kubernetes.io/managed-by": "ullage"})
    ]
    assert found[0].body["rules"] == [{"apiGroups": [BARRELS.group], "resources": [BARRELS.plural], "verbs": ["get", "update"]}]


def test_rancher_is_on_no_single_machine() -> None:
    template = RancherTemplate(name="barrels", title="Barrels", description="all of them", verbs=("*",))
    slices = (Slice(name="barrels", user_roles=(UserRole(name="a", kinds=(BARRELS,), verbs=("get",), template=template),)),)
    kinds = [[one.kind.kind for one in manifests(slices, foreign=foreign)] for foreign in (False, True)]
    assert ["RoleTemplate" in found for found in kinds] == [True, False]
