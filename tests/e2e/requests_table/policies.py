"""ValidatingAdmissionPolicies: what they say to a request, and what is wrong with one that cannot be held to.

A server hears of a policy with some delay; so the rows here are refusals, asked for until they come.
"""

# ruff: noqa: E501 - messages stand on one line, as they come over the wire

from __future__ import annotations

from typing import Any

from ..kinds import configmap
from .case import CONFIGMAPS, Case, Json, Step, post

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
RULE: Json = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "DELETE"], "resources": ["configmaps"]}
HERE: Json = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "{ns}"}}}
GONE = (Step("DELETE", f"{BINDINGS}/{{ns}}"), Step("DELETE", f"{POLICIES}/{{ns}}"))
CAUSE = "spec.validations[0].expression"


def policy(*validations: Json, **spec: Any) -> Json:
    whole = {"matchConstraints": {"resourceRules": [RULE]}, "validations": list(validations), **spec}
    return {"metadata": {"name": "{ns}"}, "spec": whole}


def rule(expression: str, **more: str) -> Json:
    return {"expression": expression, **more}


def binding(**spec: Any) -> Json:
    whole = {"policyName": "{ns}", "validationActions": ["Deny"], "matchResources": HERE, **spec}
    return {"metadata": {"name": "{ns}"}, "spec": whole}


def bound(made: Json, **spec: Any) -> tuple[Step, ...]:
    return (post(POLICIES, made), post(BINDINGS, binding(**spec)))


def denied(text: str) -> str:
    return f"configmaps \"a\" is forbidden: ValidatingAdmissionPolicy '{{ns}}' with binding '{{ns}}' denied request: {text}"


PARAM = {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}
MISSING = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
AT_WORK: Json = {"expect": (422, "Invalid"), "eventually": True, "cleanup": GONE}
REFUSED: Json = {"expect": (422, "Invalid")}

CASES = (
    Case("a policy says which rule failed", "POST", f"{CONFIGMAPS}?dryRun=All", configmap("a"), setup=bound(policy(rule("object.metadata.name == 'b'"))), message=denied("failed expression: object.metadata.name == 'b'"), **AT_WORK),
    Case("a policy says its computed message", "POST", f"{CONFIGMAPS}?dryRun=All", configmap("a"), setup=bound(policy(rule("false", messageExpression="'not ' + object.metadata.name"))), message=denied("not a"), **AT_WORK),
    Case("a policy chooses its reason", "POST", f"{CONFIGMAPS}?dryRun=All", configmap("a"), setup=bound(policy(rule("false", message="no", reason="Forbidden"))), message=denied("no"), **{**AT_WORK, "expect": (403, "Forbidden")}),
    Case("a policy that fails refuses", "POST", f"{CONFIGMAPS}?dryRun=All", configmap("a"), setup=bound(policy(rule("object.nothing == 1"))), message=denied("expression 'object.nothing == 1' resulted in error: no such key: nothing"), **AT_WORK),
    Case("a policy reads its variables", "POST", f"{CONFIGMAPS}?dryRun=All", configmap("a"), setup=bound(policy(rule("variables.right", message="no"), variables=[{"name": "right", "expression": "object.metadata.name == 'b'"}])), message=denied("no"), **AT_WORK),
    Case("a policy without its parameter refuses", "POST", f"{CONFIGMAPS}?dryRun=All", configmap("a"), setup=bound(policy(rule("true"), **PARAM), paramRef={"name": "none", "parameterNotFoundAction": "Deny"}), message=denied(MISSING), **AT_WORK),
    Case("a policy guards what there is", "DELETE", f"{CONFIGMAPS}/a?dryRun=All", setup=(post(CONFIGMAPS, configmap("a")), *bound(policy(rule("request.operation != 'DELETE' || oldObject.metadata.name != 'a'", message="a stays")))), message=denied("a stays"), **AT_WORK),
    Case("a policy's rules are true or false", "POST", f"{POLICIES}?dryRun=All", policy(rule("1")), message='ValidatingAdmissionPolicy.admissionregistration.k8s.io "{ns}" is invalid: spec.validations[0].expression: Invalid value: "1": must evaluate to bool but got int', causes=((CAUSE, "FieldValueInvalid"),), **REFUSED),
    Case("a policy's rules compile", "POST", f"{POLICIES}?dryRun=All", policy(rule("object.x ==")), message="…compilation failed: ERROR: <input>:1:12: Syntax error: mismatched input '<EOF>'…", causes=((CAUSE, "FieldValueInvalid"),), **REFUSED),
    Case("a policy has no parameters of no kind", "POST", f"{POLICIES}?dryRun=All", policy(rule("params.x == 1")), message="…undeclared reference to 'params' (in container '')…", causes=((CAUSE, "FieldValueInvalid"),), **REFUSED),
    Case("a policy's variables read those before them", "POST", f"{POLICIES}?dryRun=All", policy(rule("true"), variables=[{"name": "a", "expression": "variables.b"}, {"name": "b", "expression": "1"}]), message="…<input>:1:10: undefined field 'b'…", causes=(("spec.variables[0].expression", "FieldValueInvalid"),), **REFUSED),
    Case("a policy names what it is about", "POST", f"{POLICIES}?dryRun=All", {"metadata": {"name": "{ns}"}, "spec": {"validations": [rule("true")]}}, causes=(("spec.matchConstraints", "FieldValueRequired"),), **REFUSED),
    Case("a binding does not deny and warn", "POST", f"{BINDINGS}?dryRun=All", binding(validationActions=["Deny", "Warn"]), causes=(("spec.validationActions", "FieldValueInvalid"),), **REFUSED),
    Case("a binding says what to do without a parameter", "POST", f"{BINDINGS}?dryRun=All", binding(paramRef={"name": "a"}), causes=(("spec.paramRef.parameterNotFoundAction", "FieldValueRequired"),), **REFUSED),
    Case("a binding finds its parameters in one way", "POST", f"{BINDINGS}?dryRun=All", binding(paramRef={"name": "a", "selector": {}, "parameterNotFoundAction": "Deny"}), causes=(("spec.paramRef.name", "FieldValueForbidden"), ("spec.paramRef.selector", "FieldValueForbidden")), **REFUSED),
)  # fmt: skip
