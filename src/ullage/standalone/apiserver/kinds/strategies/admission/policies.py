"""Admission policies and their bindings: their defaults, and what makes one unusable.

A policy is stored only if it can be held to: its expressions compile, its selectors can be read.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ullage.standalone.apiserver.kinds.metadata import label_1035, path_segment, subdomain
from ullage.standalone.apiserver.kinds.strategies.admission.policy_expressions import Checker
from ullage.standalone.apiserver.kinds.strategies.admission.webhooks import GROUP, condition_faults, rule_faults
from ullage.standalone.apiserver.kinds.strategies.base import (
    Check,
    Faults,
    Strategy,
    collect,
    fill,
    items,
    label_selector,
    named,
    one_of,
    optional_name,
    part,
)
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.schema.cel.syntax import RESERVED
from ullage.standalone.apiserver.status import duplicate, forbidden_field, invalid_value, required

CONSTRAINTS: Json = {"namespaceSelector": {}, "objectSelector": {}, "matchPolicy": "Equivalent"}
ACTIONS = ("Audit", "Deny", "Warn")
REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
REPEATED = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers "
    "serves no purpose)"
)
UNSPECIFIED = "expression is not specified"
_IDENTIFIER = re.compile("[A-Za-z_][A-Za-z0-9_]*")


def _default(field: str) -> Callable[[Json], None]:
    def apply(obj: Json) -> None:
        if isinstance(spec := obj.get("spec"), dict):
            if field == "matchConstraints":
                fill(spec, {"failurePolicy": "Fail"})
            if isinstance(rules := spec.get(field), dict):
                fill(rules, CONSTRAINTS)
                for rule in [*items(rules, "resourceRules"), *items(rules, "excludeResourceRules")]:
                    fill(rule, {"scope": "*"})

    return apply


def _policy_faults(obj: Json) -> Faults:
    spec = part(obj, "spec")
    yield from one_of("spec.failurePolicy", spec.get("failurePolicy"), ("Fail", "Ignore"))
    if (kind := spec.get("paramKind")) is not None:
        yield from _param_kind_faults(kind)
    if (match := spec.get("matchConstraints")) is None:
        yield required("spec.matchConstraints")
    else:
        if not items(match, "resourceRules"):
            yield required("spec.matchConstraints.resourceRules")
        yield from _match_faults(match, "spec.matchConstraints")
    checker = Checker(params=kind is not None, variables=None)
    yield from condition_faults(items(spec, "matchConditions"), "spec.matchConditions")
    for index, condition in enumerate(items(spec, "matchConditions")):
        if expression := condition.get("expression"):
            yield from _expression_faults(checker, expression, f"spec.matchConditions[{index}].expression", "bool")
    yield from _content_faults(spec, checker)


def _content_faults(spec: Json, checker: Checker) -> Faults:
    """Variables, and what is said with them: each may read those before it."""
    variables = items(spec, "variables")
    if variables:
        checker = Checker(checker.params, {})
    for index, variable in enumerate(variables):
        yield from _variable_faults(variable, f"spec.variables[{index}]", checker)
        checker = checker.with_variable(variable.get("name") or "", variable.get("expression") or "")
    validations, annotations = items(spec, "validations"), items(spec, "auditAnnotations")
    if not validations and not annotations:
        detail = "validations or auditAnnotations must contain at least one item"
        yield from (required(f"spec.{field}", detail) for field in ("validations", "auditAnnotations"))
    for index, validation in enumerate(validations):
        yield from _validation_faults(validation, f"spec.validations[{index}]", checker)
    for index, annotation in enumerate(annotations):
        expression, path = annotation.get("valueExpression") or "", f"spec.auditAnnotations[{index}].valueExpression"
        yield from _expression_faults(checker, expression, path, "")


def _expression_faults(checker: Checker, expression: str, path: str, wanted: str) -> Faults:
    if not expression.strip():
        yield required(path, UNSPECIFIED)
    elif fault := checker.fault(expression, wanted):
        yield invalid_value(path, expression, fault)


def _variable_faults(variable: Json, path: str, checker: Checker) -> Faults:
    name = variable.get("name") or ""
    if not name:
        yield required(f"{path}.name", "name is not specified")
    elif not _IDENTIFIER.fullmatch(name) or name in RESERVED:
        yield invalid_value(f"{path}.name", name, "must be a valid CEL identifier")
    yield from _expression_faults(checker, variable.get("expression") or "", f"{path}.expression", "")


def _validation_faults(validation: Json, path: str, checker: Checker) -> Faults:
    message = validation.get("message")
    yield from _expression_faults(checker, validation.get("expression") or "", f"{path}.expression", "bool")
    if message and not message.strip():
        yield invalid_value(f"{path}.message", message, "must be non-empty if specified")
    elif message and "\n" in message.strip():
        yield invalid_value(f"{path}.message", message, "must not contain line breaks")
    if said := validation.get("messageExpression"):
        yield from _expression_faults(checker, said, f"{path}.messageExpression", "string")
    if reason := validation.get("reason"):
        yield from one_of(f"{path}.reason", reason, REASONS)


def _param_kind_faults(kind: Json) -> Faults:
    version, name = kind.get("apiVersion") or "", kind.get("kind") or ""
    if not version:
        yield required("spec.paramKind.apiVersion")
    elif version.count("/") > 1:
        yield invalid_value("spec.paramKind.apiVersion", version, f"unexpected GroupVersion string: {version}")
    if not name:
        yield required("spec.paramKind.kind")
    for fault in label_1035(name.lower()) if name else ():
        yield invalid_value("spec.paramKind.kind", name, f"may have mixed case, but should otherwise match: {fault}")


def _match_faults(match: Json, path: str) -> Faults:
    yield from one_of(f"{path}.matchPolicy", match.get("matchPolicy"), ("Equivalent", "Exact"))
    for field in ("namespaceSelector", "objectSelector"):
        yield from label_selector(f"{path}.{field}", match.get(field))
    for field in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(items(match, field)):
            place, names = f"{path}.{field}[{index}]", items(rule, "resourceNames")
            yield from rule_faults(rule, place)
            for at, name in enumerate(names):
                yield from optional_name(f"{place}.resourceNames[{at}]", name, path_segment)
                if name in names[:at]:
                    yield duplicate(f"{place}.resourceNames[{at}]", name)


def _binding_faults(*, actions: bool) -> Check:
    def check(obj: Json) -> Faults:
        spec = part(obj, "spec")
        yield from named("spec.policyName", spec.get("policyName"), subdomain)
        if (ref := spec.get("paramRef")) is not None:
            yield from _param_faults(ref)
        if (match := spec.get("matchResources")) is not None:
            yield from _match_faults(match, "spec.matchResources")
        if actions:
            yield from _action_faults(items(spec, "validationActions"))

    return check


def _param_faults(ref: Json) -> Faults:
    name, selector, action = ref.get("name"), ref.get("selector"), ref.get("parameterNotFoundAction")
    if name and selector is not None:
        detail = "name and selector are mutually exclusive"
        yield from (forbidden_field(f"spec.paramRef.{field}", detail) for field in ("name", "selector"))
    elif not name and selector is None:
        yield required("spec.paramRef", "one of name or selector must be specified")
    yield from optional_name("spec.paramRef.name", name, path_segment)
    yield from label_selector("spec.paramRef.selector", selector)
    if not action:
        yield required("spec.paramRef.parameterNotFoundAction")
    else:
        yield from one_of("spec.paramRef.parameterNotFoundAction", action, ("Deny", "Allow"))


def _action_faults(actions: list[str]) -> Faults:
    if not actions:
        yield required("spec.validationActions", "at least one validation action is required")
    for index, action in enumerate(actions):
        yield from one_of(f"spec.validationActions[{index}]", action, ACTIONS)
        if action in actions[:index]:
            yield duplicate(f"spec.validationActions[{index}]", action)
    if "Deny" in actions and "Warn" in actions:
        yield invalid_value("spec.validationActions", actions, REPEATED)


STRATEGIES = {
    (GROUP, "ValidatingAdmissionPolicy"): Strategy(
        generation=True,
        unstored_status=True,
        default=_default("matchConstraints"),
        prepare_create=lambda obj: fill(obj, {"status": {}}),
        validate=collect(_policy_faults),
    ),
    (GROUP, "ValidatingAdmissionPolicyBinding"): Strategy(
        generation=True, default=_default("matchResources"), validate=collect(_binding_faults(actions=True))
    ),
    (GROUP, "MutatingAdmissionPolicy"): Strategy(generation=True, default=_default("matchConstraints")),
    (GROUP, "MutatingAdmissionPolicyBinding"): Strategy(
        generation=True, default=_default("matchResources"), validate=collect(_binding_faults(actions=False))
    ),
}
