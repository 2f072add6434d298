"""ValidatingAdmissionPolicies. Every text here is what kube-apiserver 1.36 said to the same policy and request."""

# ruff: noqa: E501 - rows and messages stand on one line

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ullage.standalone.apiserver.admission.attributes import Attributes
from ullage.standalone.apiserver.admission.policies.enforce import BINDINGS, POLICIES, Policies
from ullage.standalone.apiserver.auth.users import User
from ullage.standalone.apiserver.kinds.resources import Registry, Resource
from ullage.standalone.apiserver.kinds.strategies.admission.policy_expressions import Checker
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import ApiError
from ullage.standalone.apiserver.storage.database import Database
from ullage.standalone.apiserver.storage.store import Store

CONFIG_MAPS = Resource("", "v1", "configmaps", "configmap", "ConfigMap", namespaced=True, storage="configmaps")
OLD_WIDGETS = Resource("example.com", "v1beta1", "widgets", "widget", "Widget", namespaced=True, storage="widgets.example.com")
WIDGETS = Resource("example.com", "v1", "widgets", "widget", "Widget", namespaced=True, storage="widgets.example.com")
LIMITS = Resource("example.com", "v1", "limits", "limit", "Limit", namespaced=False, storage="limits.example.com")
BY_POLICY = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: "
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}
ANYTHING = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
NAMESPACE = {"metadata": {"name": "team", "labels": {"env": "prod"}}}
PARAMS = [
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "team", "labels": {"is": "param"}},
     "data": {"max": value}}
    for name, value in (("first", "3"), ("second", "4"))
]  # fmt: skip
LIMIT = {"apiVersion": "example.com/v1", "kind": "Limit", "metadata": {"name": "first"}, "max": 3}
OF_CONFIG_MAPS = {"apiVersion": "v1", "kind": "ConfigMap"}
OF_LIMITS = {"apiVersion": "example.com/v1", "kind": "Limit"}


def rule(expression: str, **more: str) -> list[Json]:
    return [{"expression": expression, **more}]


def policy(validations: list[Json], name: str = "p", **spec: Any) -> Json:
    spec = {"matchConstraints": {"resourceRules": [RULE]}, "validations": validations, **spec}
    return {"metadata": {"name": name}, "spec": spec}


def binding(name: str = "b", policy_name: str = "p", **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": {"policyName": policy_name, "validationActions": ["Deny"], **spec}}


def attributes(**more: Any) -> Attributes:
    given: Json = {
        "operation": "CREATE",
        "resource": CONFIG_MAPS,
        "subresource": "",
        "namespace": "team",
        "name": "a",
        "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "y"}},
        "old": None,
        "options": {},
        "user": User("jane"),
    }
    return Attributes(**(given | more))


def judged(folder: Path, objects: list[tuple[str, Json]], attrs: Attributes) -> list[str]:
    """The warnings of the stored policies; raises their refusal."""

    async def run() -> list[str]:
        store = Store(Database(folder / "state.db", durable=False))
        try:
            for storage, obj in [("namespaces", NAMESPACE), *objects]:
                await store.stage(storage, {**obj, "metadata": dict(obj["metadata"])}, expect=0)
            return Policies(store, Registry([CONFIG_MAPS, OLD_WIDGETS, WIDGETS, LIMITS])).validate(attrs)
        finally:
            await store.close()

    return asyncio.run(run())


def pair(made: Json, bound: Json | None = None) -> list[tuple[str, Json]]:
    stored = [(POLICIES, made), (BINDINGS, bound or binding())]
    return [*stored, *(("configmaps", param) for param in PARAMS), ("limits.example.com", LIMIT)]


def ref(**more: Any) -> Json:
    return {"paramRef": {"parameterNotFoundAction": "Deny", **more}}


REFUSALS = [
    pytest.param(policy(rule("object.data.x == 'z'")), {}, "failed expression: object.data.x == 'z'", id="a rule says itself"),
    pytest.param(policy(rule("false", message="no")), {}, "no", id="a rule says its message"),
    pytest.param(policy(rule("false", message="no", messageExpression="'x is ' + object.data.x")), {}, "x is y", id="a computed message wins"),
    pytest.param(policy(rule("false", message="no", messageExpression="object.data.none")), {}, "no", id="a message that cannot be computed is not said"),
    pytest.param(policy(rule("false", messageExpression="'  '")), {}, "failed expression: false", id="a blank message is not said"),
    pytest.param(policy(rule("false", message="no", messageExpression="'a\\nb'")), {}, "no", id="a message of two lines is not said"),
    pytest.param(policy([*rule("false", message="one"), *rule("false", message="two")]), {}, "one", id="the first rule speaks"),
    pytest.param(policy(rule("object.data.none == 'z'")), {}, "expression 'object.data.none == 'z'' resulted in error: no such key: none", id="a rule that fails refuses"),
    pytest.param(policy(rule("variables.v", message="no"), variables=[{"name": "v", "expression": "object.data.x == 'z'"}]), {}, "no", id="a variable is computed"),
    pytest.param(policy(rule("variables.w", message="no"), variables=[{"name": "v", "expression": "object.data.x"}, {"name": "w", "expression": "variables.v == 'z'"}]), {}, "no", id="a variable reads the one before"),
    pytest.param(policy(rule("variables.v == 'z'"), variables=[{"name": "v", "expression": "object.data.none"}]), {}, "expression 'variables.v == 'z'' resulted in error: composited variable \"v\" fails to evaluate: no such key: none", id="a variable that fails is blamed"),
    pytest.param(policy(rule("false", message="no"), matchConditions=[{"name": "c", "expression": "object.metadata.name == 'a'"}]), {}, "no", id="a condition that holds"),
    pytest.param(policy(rule("true"), matchConditions=[{"name": "c", "expression": "object.data.none == 'a'"}]), {}, "expression 'object.data.none == 'a'' resulted in error: no such key: none", id="a condition that fails refuses"),
    pytest.param(policy(rule("namespaceObject.metadata.labels['env'] == 'test'", message="no")), {}, "no", id="the namespace is known"),
    pytest.param(policy(rule("oldObject != null", message="no")), {}, "no", id="a create has no old object"),
    pytest.param(policy(rule("request.userInfo.username == 'joe'", message="no")), {}, "no", id="the request is known"),
    pytest.param(policy(rule("object.data.x == params.data.max", messageExpression="'max ' + params.data.max"), paramKind=OF_CONFIG_MAPS), ref(name="second"), "max 4", id="a parameter by name in the request's namespace"),
    pytest.param(policy(rule("params.data.max == '3'", messageExpression="'max ' + params.data.max"), paramKind=OF_CONFIG_MAPS), ref(selector={"matchLabels": {"is": "param"}}), "max 4", id="every parameter that is selected"),
    pytest.param(policy(rule("params.max > 3", message="no"), paramKind=OF_LIMITS), ref(name="first"), "no", id="a parameter of a custom, cluster-scoped kind"),
    pytest.param(policy(rule("params == null && false", message="no"), paramKind=OF_CONFIG_MAPS), {}, "no", id="no parameter is null"),
    pytest.param(policy(rule("true"), paramKind=OF_CONFIG_MAPS), ref(name="none"), "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction", id="a parameter that is missing"),
    pytest.param(policy(rule("true"), paramKind=OF_CONFIG_MAPS), ref(selector={"matchLabels": {"is": "none"}}), "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction", id="a selector that finds nothing"),
    pytest.param(policy(rule("false", message="no")), {"matchResources": {"namespaceSelector": {"matchLabels": {"env": "prod"}}}}, "no", id="a binding for the namespace"),
    pytest.param(policy(rule("false", message="no"), matchConstraints={"resourceRules": [{**RULE, "resourceNames": ["a"]}]}), {}, "no", id="a rule for the name"),
]  # fmt: skip


@pytest.mark.parametrize(("made", "bound", "text"), REFUSALS)
def test_a_policy_refuses(made: Json, bound: Json, text: str, tmp_path: Path) -> None:
    with pytest.raises(ApiError) as raised:
        judged(tmp_path, pair(made, binding(**bound)), attributes())
    status = raised.value.status()
    assert status["message"] == f'configmaps "a" is forbidden: {BY_POLICY}{text}'
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert status["details"] == {"name": "a", "kind": "configmaps", "causes": [{"message": f"{BY_POLICY}{text}"}]}


PASSES = [
    pytest.param(policy(rule("object.data.x == 'y'")), {}, id="a rule that holds"),
    pytest.param(policy(rule("object.data.none == 'z'"), failurePolicy="Ignore"), {}, id="a rule that fails and is ignored"),
    pytest.param(policy(rule("true"), variables=[{"name": "v", "expression": "object.data.none"}]), {}, id="a variable that nobody reads"),
    pytest.param(policy(rule("true || variables.v"), variables=[{"name": "v", "expression": "object.data.none"}]), {}, id="a variable that need not be read"),
    pytest.param(policy(rule("false"), matchConditions=[{"name": "c", "expression": "object.metadata.name == 'b'"}]), {}, id="a condition that does not hold"),
    pytest.param(policy(rule("false"), failurePolicy="Ignore", matchConditions=[{"name": "c", "expression": "object.data.none == 'b'"}]), {}, id="a condition that fails and is ignored"),
    pytest.param(policy(rule("false"), matchConstraints={"resourceRules": [RULE], "excludeResourceRules": [ANYTHING]}), {}, id="an excluded resource"),
    pytest.param(policy(rule("false"), matchConstraints={"resourceRules": [{**RULE, "resourceNames": ["b"]}]}), {}, id="a rule for another name"),
    pytest.param(policy(rule("false"), matchConstraints={"resourceRules": [{**RULE, "operations": ["DELETE"]}]}), {}, id="a rule for another operation"),
    pytest.param(policy(rule("false"), matchConstraints={"resourceRules": [RULE], "objectSelector": {"matchLabels": {"a": "b"}}}), {}, id="another object"),
    pytest.param(policy(rule("false")), {"matchResources": {"namespaceSelector": {"matchLabels": {"env": "test"}}}}, id="a binding for another namespace"),
    pytest.param(policy(rule("false")), {"matchResources": {"excludeResourceRules": [ANYTHING]}}, id="a binding that excludes the resource"),
    pytest.param(policy(rule("false")), {"policyName": "other"}, id="a policy without a binding"),
    pytest.param(policy(rule("false")), {"validationActions": ["Audit"]}, id="a binding that only writes it down"),
    pytest.param(policy(rule("false"), paramKind=OF_CONFIG_MAPS), {"paramRef": {"name": "none", "parameterNotFoundAction": "Allow"}}, id="a missing parameter that may be missing"),
    pytest.param(policy(rule("false"), paramKind={"apiVersion": "none.io/v1", "kind": "None"}, failurePolicy="Ignore"), {}, id="an unknown kind of parameter that is ignored"),
]  # fmt: skip


@pytest.mark.parametrize(("made", "bound"), PASSES)
def test_a_policy_has_nothing_to_say(made: Json, bound: Json, tmp_path: Path) -> None:
    assert judged(tmp_path, pair(made, binding(**bound)), attributes()) == []


@pytest.mark.parametrize(("reason", "code"), [("Forbidden", 403), ("RequestEntityTooLarge", 413), ("Invalid", 422)])
def test_a_rule_chooses_its_code(reason: str, code: int, tmp_path: Path) -> None:
    with pytest.raises(ApiError) as raised:
        judged(tmp_path, pair(policy(rule("false", reason=reason))), attributes())
    assert (raised.value.code, raised.value.reason) == (code, reason)


def test_a_binding_may_only_warn(tmp_path: Path) -> None:
    made = policy([*rule("false", message="careful"), *rule("object.data.none == 'z'")])
    assert judged(tmp_path, pair(made, binding(validationActions=["Warn"])), attributes()) == [
        "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': careful",
        "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': "
        "expression 'object.data.none == 'z'' resulted in error: no such key: none",
    ]


def test_warnings_go_along_with_a_refusal(tmp_path: Path) -> None:
    objects = [
        *pair(policy(rule("false", message="no"))),
        (BINDINGS, binding("w", validationActions=["Warn"])),
    ]
    with pytest.raises(ApiError) as raised:
        judged(tmp_path, objects, attributes())
    text = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'w': no"
    assert raised.value.headers == (("warning", f'299 - "{text}"'),)


def test_an_unknown_kind_of_parameter_is_the_policy_s_fault(tmp_path: Path) -> None:
    made = policy(rule("true"), paramKind={"apiVersion": "none.io/v1", "kind": "None"})
    with pytest.raises(ApiError) as raised:
        judged(tmp_path, pair(made), attributes())
    assert raised.value.message == (
        "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: "
        "failed to find resource referenced by paramKind: 'none.io/v1, Kind=None'"
    )


def test_a_policy_sees_the_version_that_its_rules_name(tmp_path: Path) -> None:
    rules = [{"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["widgets"]}]
    made = policy(rule("false", messageExpression="object.apiVersion"), matchConstraints={"resourceRules": rules})
    obj = {"apiVersion": "example.com/v1beta1", "kind": "Widget", "metadata": {"name": "a"}}
    with pytest.raises(ApiError, match=r"denied request: example\.com/v1$"):
        judged(tmp_path, pair(made), attributes(resource=OLD_WIDGETS, object=obj))


def test_a_policy_that_insists_on_its_version_does_not_see_another(tmp_path: Path) -> None:
    rules = [{"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["widgets"]}]
    made = policy(rule("false"), matchConstraints={"resourceRules": rules, "matchPolicy": "Exact"})
    obj = {"apiVersion": "example.com/v1beta1", "kind": "Widget", "metadata": {"name": "a"}}
    assert judged(tmp_path, pair(made), attributes(resource=OLD_WIDGETS, object=obj)) == []


def test_a_delete_is_judged_by_what_there_was(tmp_path: Path) -> None:
    rules = {"resourceRules": [{**RULE, "operations": ["DELETE"]}]}
    made = policy(rule("object == null && oldObject.metadata.name != 'a'", message="a stays"), matchConstraints=rules)
    old = {"metadata": {"name": "a"}}
    with pytest.raises(ApiError, match=r'configmaps "Unknown" is forbidden.*a stays$'):
        judged(tmp_path, pair(made), attributes(operation="DELETE", name="", object=None, old=old))


@pytest.mark.parametrize(
    ("expression", "wanted", "fault"),
    [
        pytest.param("object.x == 1", "bool", "", id="a comparison is a bool"),
        pytest.param("object.x", "bool", "must evaluate to bool but got dyn", id="a field may be anything"),
        pytest.param("1", "bool", "must evaluate to bool but got int", id="a number is no bool"),
        pytest.param("variables.yes", "bool", "", id="a variable has the type of its expression"),
        pytest.param("variables.any", "string", "must evaluate to string but got dyn", id="a variable may be anything, too"),
        pytest.param("'it is ' + variables.any", "string", "", id="a text with anything in it is a text"),
        pytest.param("request.name", "string", "", id="a request's fields have types"),
        pytest.param("variables.none", "", "compilation failed: ERROR: <input>:1:10: undefined field 'none'\n | variables.none\n | .........^", id="a variable must exist"),
        pytest.param("params.x == 1", "bool", "compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')\n | params.x == 1\n | ^", id="parameters must have a kind"),
    ],
)  # fmt: skip
def test_an_expression_is_checked_when_its_policy_is_written(expression: str, wanted: str, fault: str) -> None:
    checker = Checker(params=False, variables={}).with_variable("yes", "1 == 1").with_variable("any", "object.x")
    assert checker.fault(expression, wanted) == fault


def test_an_authorizer_is_not_known_and_not_forgotten() -> None:
    fault = Checker(params=False, variables=None).fault("authorizer.group('').resource('pods').check('get').allowed()", "bool")
    assert "undeclared reference to 'authorizer'" in fault
