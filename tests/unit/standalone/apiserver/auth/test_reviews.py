"""The questions that are asked over the API: their answers, and the questions that are refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from tests.unit.standalone.apiserver.auth.rbac_builders import authorizer_of, bind, role, rule, urls, user
from ullage.clock import FakeClock
from ullage.standalone.apiserver.auth.reviews import REVIEWS, Asked
from ullage.standalone.apiserver.auth.tokens import ISSUER, SigningKey, Tokens
from ullage.standalone.apiserver.auth.users import User
from ullage.standalone.apiserver.status import ApiError

Json = dict[str, Any]
AUTHORIZATION, AUTHENTICATION = "authorization.k8s.io", "authentication.k8s.io"
POLICY = (
    role("reader", rule("core", "pods pods/log", "get list"), rule("apps", "*", "get", "a"), namespace="ns"),
    role("visitor", urls("/api /api/*", "get")),
    bind("ClusterRole", "visitor", "Group system:authenticated", name="visitor"),
    bind("Role", "reader", "User bob", namespace="ns", name="reader"),
    bind("Role", "gone", "User bob", namespace="ns", name="broken"),
)
READER = 'RBAC: allowed by RoleBinding "reader/ns" of Role "reader" to User "bob"'
VISITOR = 'RBAC: allowed by ClusterRoleBinding "visitor" of ClusterRole "visitor" to Group "system:authenticated"'
MISSING = 'role.rbac.authorization.k8s.io "gone" not found'


def post(plural: str, obj: Json, *, who: User | None = None, namespace: str = "", policy: tuple[Json, ...] = POLICY) -> Json:
    group = AUTHENTICATION if plural in ("tokenreviews", "selfsubjectreviews") else AUTHORIZATION
    tokens = Tokens(
        SigningKey(ec.generate_private_key(ec.SECP256R1())),
        lookup=lambda *_: None,
        clock=FakeClock(),
        static={"good": User("admin", uid="1", groups=("system:masters",))},
    )
    asked = Asked(
        user=who or user("bob"),
        namespace=namespace,
        now=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        authorizer=authorizer_of(*policy),
        tokens=tokens,
    )
    return REVIEWS[group, plural](obj, asked)


def pods(verb: str, **more: str) -> Json:
    return {"resourceAttributes": {"verb": verb, "resource": "pods", **more}}


def path(path: str) -> Json:
    return {"nonResourceAttributes": {"verb": "get", "path": path}}


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        pytest.param({"user": "bob", **pods("get", namespace="ns")}, {"allowed": True, "reason": READER}, id="a yes says why"),
        pytest.param({"user": "eve", **pods("get", namespace="ns")}, {"allowed": False}, id="a no need not"),
        pytest.param(
            {"user": "bob", **pods("delete", namespace="ns")},
            {"allowed": False, "reason": f"RBAC: {MISSING}"},
            id="a no tells of roles that are missing",
        ),
        pytest.param({"user": "bob", **path("/api")}, {"allowed": False}, id="groups are not assumed"),
        pytest.param(
            {"user": "bob", "groups": ["system:authenticated"], **path("/api/v1")},
            {
                "allowed": True,
                "reason": VISITOR,
            },
            id="a path",
        ),
        pytest.param({"groups": ["system:masters"], **pods("*")}, {"allowed": True}, id="groups alone are a subject"),
        pytest.param(
            {"user": "bob", **pods("get", namespace="ns", subresource="log")},
            {"allowed": True, "reason": READER},
            id="a subresource",
        ),
        pytest.param(
            {"user": "bob", **pods("get", namespace="ns", subresource="exec")},
            {"allowed": False, "reason": f"RBAC: {MISSING}"},
            id="another subresource",
        ),
        pytest.param({"user": "bob", "resourceAttributes": {}}, {"allowed": False}, id="nothing at all"),
    ],
)
def test_a_subject_access_review(spec: Json, status: Json) -> None:
    found = post("subjectaccessreviews", {"spec": spec})
    assert found == {
        "kind": "SubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {},
        "spec": spec,
        "status": status,
    }


def test_empty_members_are_not_repeated() -> None:
    spec = {"user": "bob", "groups": [], "uid": "", **pods("get", namespace="", name="")}
    assert post("subjectaccessreviews", {"spec": spec})["spec"] == {"user": "bob", **pods("get")}


def test_a_self_subject_access_review_is_about_whoever_asks() -> None:
    question = {"spec": pods("get", namespace="ns")}
    assert post("selfsubjectaccessreviews", question)["status"]["allowed"] is True
    assert post("selfsubjectaccessreviews", question, who=user("eve"))["status"]["allowed"] is False


def test_a_local_subject_access_review_carries_its_namespace() -> None:
    spec = {"user": "bob", **pods("get", namespace="ns")}
    found = post("localsubjectaccessreviews", {"spec": spec}, namespace="ns")
    assert (found["metadata"], found["status"]["allowed"]) == ({"namespace": "ns"}, True)


ONE_OF = (
    "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified"
)
NOBODY = 'spec.user: Invalid value: "": at least one of user or group must be specified'
SELECTOR = "spec.resourceAttributes.labelSelector"


def selecting(**selector: Any) -> Json:
    return {"resourceAttributes": {"verb": "list", "resource": "pods", "labelSelector": selector}}


@pytest.mark.parametrize(
    ("plural", "obj", "faults"),
    [
        pytest.param("subjectaccessreviews", {}, f"[{ONE_OF}, {NOBODY}]", id="an empty question has two faults"),
        pytest.param("subjectaccessreviews", {"spec": {"user": "bob"}}, ONE_OF, id="nothing asked"),
        pytest.param("subjectaccessreviews", {"spec": pods("get")}, NOBODY, id="about nobody"),
        pytest.param("selfsubjectaccessreviews", {"spec": {}}, ONE_OF, id="nothing asked about oneself"),
        pytest.param(
            "selfsubjectaccessreviews",
            {"spec": {**pods("get"), **path("/x")}},
            'spec.nonResourceAttributes: Invalid value: {"Path":"/x","Verb":"get"}: '
            "cannot be specified in combination with resourceAttributes",
            id="two questions in one",
        ),
        pytest.param(
            "selfsubjectaccessreviews",
            {"metadata": {"name": "x", "namespace": "gone"}, "spec": pods("get")},
            'metadata: Invalid value: {"name":"x"}: must be empty',
            id="a question has no name",
        ),
        pytest.param(
            "localsubjectaccessreviews",
            {"metadata": {"name": "x"}, "spec": {"user": "bob", **pods("get", namespace="ns")}},
            'metadata: Invalid value: {"name":"x","namespace":"ns"}: must be empty except for namespace',
            id="a local question has only a namespace",
        ),
        pytest.param(
            "localsubjectaccessreviews",
            {"spec": {"user": "bob", **pods("get")}},
            'spec.resourceAttributes.namespace: Invalid value: "": must match metadata.namespace',
            id="a local question is about its namespace",
        ),
        pytest.param(
            "localsubjectaccessreviews",
            {"spec": {"user": "bob", **path("/")}},
            'spec.nonResourceAttributes: Invalid value: {"Path":"/","Verb":"get"}: disallowed on this kind of request',
            id="a local question is not about a path",
        ),
        pytest.param(
            "selfsubjectaccessreviews",
            {"spec": selecting()},
            f"{SELECTOR}.requirements: Required value: when {SELECTOR} is specified, requirements or rawSelector is required",
            id="an empty selector",
        ),
        pytest.param(
            "selfsubjectaccessreviews",
            {"spec": selecting(rawSelector="x", requirements=[{"key": "a", "operator": "Exists"}])},
            f'{SELECTOR}.rawSelector: Invalid value: "x": may not specified at the same time as requirements',
            id="a selector said twice",
        ),
        pytest.param(
            "selfsubjectaccessreviews",
            {"spec": selecting(requirements=[{"key": "a", "operator": "In"}])},
            f"{SELECTOR}.requirements[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
            id="a selector without values",
        ),
    ],
)
def test_a_question_is_refused(plural: str, obj: Json, faults: str) -> None:
    with pytest.raises(ApiError) as error:
        post(plural, obj, namespace="ns")
    assert error.value.code == 422
    assert error.value.message == f'.authorization.k8s.io "" is invalid: {faults}'


def test_a_local_question_in_another_namespace_than_the_path() -> None:
    with pytest.raises(ApiError, match="does not match the namespace sent on the request"):
        post("localsubjectaccessreviews", {"metadata": {"namespace": "other"}, "spec": {}}, namespace="ns")


def test_the_rules_of_a_user_in_a_namespace() -> None:
    found = post("selfsubjectrulesreviews", {"spec": {"namespace": "ns"}})
    assert found == {
        "kind": "SelfSubjectRulesReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {},
        "spec": {},
        "status": {
            "resourceRules": [
                {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "pods/log"]},
                {"verbs": ["get"], "apiGroups": ["apps"], "resources": ["*"], "resourceNames": ["a"]},
            ],
            "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/api", "/api/*"]}],
            "incomplete": False,
            "evaluationError": MISSING,
        },
    }


def test_a_review_lists_ten_thousand_rules_and_says_that_there_are_more() -> None:
    roles = [role(f"r{n}", *(rule("core", f"a{m}", "get") for m in range(3_000)), namespace="ns") for n in range(4)]
    bindings = [bind("Role", f"r{n}", "User bob", namespace="ns", name=f"b{n}") for n in range(4)]
    status = post("selfsubjectrulesreviews", {"spec": {"namespace": "ns"}}, policy=(*roles, *bindings))["status"]
    assert (len(status["resourceRules"]), status["incomplete"]) == (10_000, True)


def test_the_rules_of_a_user_elsewhere_are_those_of_the_cluster() -> None:
    status = post("selfsubjectrulesreviews", {"spec": {"namespace": "other"}})["status"]
    assert status == {
        "resourceRules": [],
        "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/api", "/api/*"]}],
        "incomplete": False,
    }


@pytest.mark.parametrize(
    ("plural", "message"),
    [
        pytest.param("selfsubjectrulesreviews", "no namespace on request", id="rules are those of a namespace"),
        pytest.param("tokenreviews", "token is required for TokenReview in authentication", id="a token is needed"),
    ],
)
def test_an_empty_question_is_a_bad_request(plural: str, message: str) -> None:
    with pytest.raises(ApiError) as error:
        post(plural, {})
    assert (error.value.code, error.value.message) == (400, message)


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        pytest.param(
            {"token": "good"},
            {
                "authenticated": True,
                "user": {"username": "admin", "uid": "1", "groups": ["system:masters", "system:authenticated"]},
                "audiences": [ISSUER],
            },
            id="a good token",
        ),
        pytest.param({"token": "bad"}, {"user": {}, "error": "invalid bearer token"}, id="a bad token"),
        pytest.param(
            {"token": "good", "audiences": ["x"]}, {"user": {}, "error": "invalid bearer token"}, id="a token for somebody else"
        ),
    ],
)
def test_a_token_review(spec: Json, status: Json) -> None:
    found = post("tokenreviews", {"metadata": {"name": "n", "namespace": "x"}, "spec": spec})
    assert found == {
        "kind": "TokenReview",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": "n"},
        "spec": spec,
        "status": status,
    }


def test_who_am_i() -> None:
    who = User("bob", groups=("dev",), extra={"b": ("2",), "a": ("1", "3")})
    assert post("selfsubjectreviews", {"metadata": {"name": "x"}}, who=who) == {
        "kind": "SelfSubjectReview",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"creationTimestamp": "2026-01-02T03:04:05Z"},
        "status": {"userInfo": {"username": "bob", "groups": ["dev"], "extra": {"a": ["1", "3"], "b": ["2"]}}},
    }
