"""CEL: rules of definitions and of policies, and values for them."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.e2e.hostile.kinds import VESSELS

from .documents import changed, config_map, vessel
from .harness import DEFINITIONS, Server, for_a_while

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
MAPS = "/api/v1/namespaces/default/configmaps"
PLACE = "/apis/fuzz.example.com/v1/namespaces/default/casks"

atoms = st.sampled_from(
    (
        "self",
        "self.size",
        "self.set",
        "self.rows",
        "self.numbers",
        "self.words",
        "self.anything",
        "oldSelf",
        "object",
        "object.data",
        "1",
        "0",
        "-1",
        "1.5",
        "9223372036854775807",
        "'a'",
        "''",
        "true",
        "false",
        "null",
        "[]",
        "[1, 2]",
        "{}",
        "{'a': 1}",
        "x",
        "object.metadata.name",
        "request.operation",
        "variables.v",
        "duration('1h')",
        "quantity('1Gi')",
        "b'a'",
        "1u",
    )
)


def _combined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    binary = st.sampled_from(("+", "-", "*", "/", "%", "==", "!=", "<", ">=", "&&", "||", "in"))
    unary = st.sampled_from(("!({})", "-({})", "has({}.a)", "size({})", "string({})", "int({})", "type({})", "({})"))
    called = st.sampled_from(
        (
            ".all(x, {})",
            ".exists(x, {})",
            ".map(x, {})",
            ".filter(x, {})",
            ".contains({})",
            ".matches({})",
            ".size()",
            "[{}]",
            ".startsWith({})",
            ".split({})",
            ".isSorted()",
            ".sum()",
            ".min()",
            ".indexOf({})",
            ".a",
            ".replace({}, 'b')",
        )
    )
    return st.one_of(
        st.tuples(inner, binary, inner).map(lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"),
        st.tuples(unary, inner).map(lambda parts: parts[0].format(parts[1])),
        st.tuples(inner, called, inner).map(lambda parts: parts[0] + parts[1].format(parts[2])),
        st.tuples(inner, inner, inner).map(lambda parts: f"({parts[0]} ? {parts[1]} : {parts[2]})"),
    )


expressions = st.one_of(st.recursive(atoms, _combined, max_leaves=8), st.text(max_size=15))


def definition(rule: str) -> dict[str, Any]:
    found = copy.deepcopy(VESSELS)
    found["metadata"]["name"] = "casks.fuzz.example.com"
    found["spec"]["group"] = "fuzz.example.com"
    found["spec"]["names"] = {"plural": "casks", "singular": "cask", "kind": "Cask", "listKind": "CaskList"}
    schema = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["x-kubernetes-validations"] = [{"rule": rule}]
    return found


def test_rules_of_definitions(api: Server) -> None:
    """A rule is refused, or judges objects; either way the server lives on."""
    bodies = changed(vessel()).map(lambda body: body | {"apiVersion": "fuzz.example.com/v1", "kind": "Cask"})

    def check(asked: tuple[str, list[Any]]) -> None:
        rule, objects = asked
        made = api.ask("POST", DEFINITIONS, json.dumps(definition(rule)).encode("utf-8", "replace"))
        if not made.accepted:
            return
        api.settle()
        for body in objects:
            answer = api.ask("POST", PLACE, json.dumps(body).encode("utf-8", "replace"))
            if answer.accepted:
                name = answer.json["metadata"]["name"]
                assert api.ask("DELETE", f"{PLACE}/{name}").code in (200, 202)
        gone = api.ask("DELETE", f"{DEFINITIONS}/casks.fuzz.example.com")
        assert gone.code == 200, gone.body
        api.settle()

    for_a_while(st.tuples(expressions, st.lists(bodies, max_size=3)), check)


def policy(expression: str, variable: str) -> dict[str, Any]:
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "fuzz"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": rules},
            "variables": [{"name": "v", "expression": variable}],
            "validations": [{"expression": expression}],
        },
    }


def test_expressions_of_policies(api: Server) -> None:
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "fuzz"},
        "spec": {"policyName": "fuzz", "validationActions": ["Deny"]},
    }
    assert api.ask("POST", BINDINGS, json.dumps(binding).encode()).accepted

    def check(asked: tuple[str, str, Any]) -> None:
        expression, variable, body = asked
        made = api.ask("POST", POLICIES, json.dumps(policy(expression, variable)).encode("utf-8", "replace"))
        if not made.accepted:
            return
        answer = api.ask("POST", MAPS, json.dumps(body).encode("utf-8", "replace"))
        assert api.ask("DELETE", f"{POLICIES}/fuzz").code == 200
        if answer.accepted:
            api.sound(MAPS, answer.json)

    try:
        for_a_while(st.tuples(expressions, expressions, changed(config_map())), check)
    finally:
        assert api.ask("DELETE", f"{BINDINGS}/fuzz").code == 200
