"""What a cluster starts with: the roles people know give what they expect, and survive being edited."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from typing import Any

import pytest

from tests.unit.standalone.apiserver.auth.rbac_builders import bind, store_of, user
from ullage.standalone.apiserver.auth.bootstrap import AUTOUPDATE, bootstrap_objects, policy_objects, reconciled
from ullage.standalone.apiserver.auth.rbac import Authorizer
from ullage.standalone.apiserver.auth.rules import AccessAttributes
from ullage.standalone.apiserver.auth.users import ANONYMOUS, User

Json = dict[str, Any]
POLICY = {(obj["kind"], obj["metadata"]["name"]): obj for obj in policy_objects()}


def test_every_namespace_has_its_service_account() -> None:
    objects = bootstrap_objects(port=6443)
    namespaces = [obj["metadata"]["name"] for obj in objects if obj["kind"] == "Namespace"]
    assert namespaces == ["default", "kube-system", "kube-public", "kube-node-lease"]
    for name in namespaces:
        inside = {obj["kind"]: obj for obj in objects if obj["metadata"].get("namespace") == name}
        assert inside["ServiceAccount"]["metadata"]["name"] == "default"
    assert all(obj["apiVersion"] and obj["metadata"]["name"] for obj in objects)
    names = Counter((obj["kind"], obj["metadata"].get("namespace"), obj["metadata"]["name"]) for obj in objects)
    assert max(names.values()) == 1


def test_the_namespaces_are_labelled_and_held_by_their_finalizer() -> None:
    default = bootstrap_objects()[0]
    assert default["metadata"]["labels"] == {"kubernetes.io/metadata.name": "default"}
    assert (default["spec"], default["status"]) == ({"finalizers": ["kubernetes"]}, {"phase": "Active"})


def test_aggregated_roles_show_what_they_gather() -> None:
    counts = {name: len(POLICY["ClusterRole", name]["rules"]) for name in ("view", "edit", "admin")}
    assert counts == {"view": 12, "edit": 27, "admin": 29}
    selectors = POLICY["ClusterRole", "edit"]["aggregationRule"]["clusterRoleSelectors"]
    assert selectors == [{"matchLabels": {"rbac.authorization.k8s.io/aggregate-to-edit": "true"}}]


def on(verb: str, resource: str, **more: str) -> AccessAttributes:
    return AccessAttributes(verb, resource=resource, namespace="ns", **more)


@pytest.mark.parametrize(
    ("role", "asked", "allowed"),
    [
        pytest.param("view", on("list", "pods"), True, id="view sees pods"),
        pytest.param("view", on("get", "pods", subresource="log"), True, id="view sees logs"),
        pytest.param("view", on("get", "secrets"), False, id="view sees no secrets"),
        pytest.param("view", on("create", "pods"), False, id="view makes nothing"),
        pytest.param("edit", on("get", "secrets"), True, id="edit sees secrets"),
        pytest.param("edit", on("patch", "deployments", group="apps"), True, id="edit changes deployments"),
        pytest.param("edit", on("create", "serviceaccounts", subresource="token"), True, id="edit asks for tokens"),
        pytest.param("edit", on("create", "roles", group="rbac.authorization.k8s.io"), False, id="edit gives no rights"),
        pytest.param("admin", on("create", "roles", group="rbac.authorization.k8s.io"), True, id="admin gives rights"),
        pytest.param("admin", on("update", "resourcequotas"), False, id="admin does not raise its own quota"),
        pytest.param("cluster-admin", on("delete", "anything", group="any.group"), True, id="cluster-admin does anything"),
    ],
)
def test_the_roles_that_people_know(role: str, asked: AccessAttributes, allowed: bool) -> None:
    store = store_of(*POLICY.values(), bind("ClusterRole", role, "User bob", namespace="ns", name="bobs"))
    assert Authorizer(store).authorize(user("bob"), asked).allowed is allowed


@pytest.mark.parametrize(
    ("who", "asked", "allowed"),
    [
        pytest.param(ANONYMOUS, AccessAttributes("get", path="/healthz"), True, id="anybody asks for health"),
        pytest.param(ANONYMOUS, AccessAttributes("get", path="/api"), False, id="nobody discovers the API"),
        pytest.param(user("bob"), AccessAttributes("get", path="/apis/apps/v1"), True, id="users discover the API"),
        pytest.param(
            user("bob"),
            AccessAttributes("create", group="authorization.k8s.io", resource="selfsubjectaccessreviews"),
            True,
            id="users ask about themselves",
        ),
        pytest.param(
            user("bob"),
            AccessAttributes("create", group="authorization.k8s.io", resource="subjectaccessreviews"),
            False,
            id="users do not ask about others",
        ),
        pytest.param(
            User("x", groups=("system:serviceaccounts",)),
            AccessAttributes("get", path="/openid/v1/jwks"),
            True,
            id="service accounts see the key that their tokens are signed with",
        ),
    ],
)
def test_what_is_bound_from_the_start(who: User, asked: AccessAttributes, allowed: bool) -> None:
    assert Authorizer(store_of(*POLICY.values())).authorize(who, asked).allowed is allowed


def edited(kind: str, name: str, **change: Any) -> tuple[Json, Json]:
    """What is expected of an object of ours, and the object as somebody has left it."""
    found = deepcopy(POLICY[kind, name]) | change
    found["metadata"] |= {"uid": "u", "resourceVersion": "7"}
    return POLICY[kind, name], found


def test_what_lacks_nothing_is_left_alone() -> None:
    for kind, name in POLICY:
        assert reconciled(*edited(kind, name)) is None


def test_rules_that_were_taken_away_come_back_and_those_that_were_added_stay() -> None:
    extra = {"apiGroups": ["x"], "resources": ["y"], "verbs": ["z"]}
    expected, found = edited("ClusterRole", "system:basic-user", rules=[extra])
    again = reconciled(expected, found)
    assert again is not None
    assert again["rules"] == [extra, *expected["rules"]]
    assert again["metadata"] == found["metadata"]


def test_rules_that_say_the_same_in_other_words_are_enough() -> None:
    everything = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    assert reconciled(*edited("ClusterRole", "system:basic-user", rules=everything)) is None


def test_subjects_come_back() -> None:
    expected, found = edited("ClusterRoleBinding", "cluster-admin", subjects=None)
    again = reconciled(expected, found)
    assert again is not None
    assert again["subjects"] == expected["subjects"]


def test_the_rules_of_aggregated_roles_are_not_ours_to_keep() -> None:
    assert reconciled(*edited("ClusterRole", "view", rules=[])) is None
    again = reconciled(*edited("ClusterRole", "view", aggregationRule=None))
    assert again is not None
    assert again["aggregationRule"] == POLICY["ClusterRole", "view"]["aggregationRule"]


def test_an_object_that_asks_to_be_left_alone_is() -> None:
    expected, found = edited("ClusterRole", "system:basic-user", rules=[])
    assert reconciled(expected, found) is not None
    found["metadata"]["annotations"] = {AUTOUPDATE: "false"}
    assert reconciled(expected, found) is None
