"""Policies and bindings, compiled when they change: requests only ask."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ullage.selectors import LabelSelector
from ullage.standalone.apiserver.admission.attributes import Attributes
from ullage.standalone.apiserver.admission.match import RuleWithOperations
from ullage.standalone.apiserver.kinds.resources import Resource
from ullage.standalone.apiserver.objects import Json, dig
from ullage.standalone.apiserver.schema.cel.syntax import mentions


@dataclass(frozen=True, slots=True)
class NamedRule:
    """A rule as webhooks have them, that may be about some names only."""

    rule: RuleWithOperations
    names: frozenset[str]

    @classmethod
    def of(cls, rule: Json) -> NamedRule:
        return cls(RuleWithOperations.of(rule), frozenset(rule.get("resourceNames") or ()))

    def covers(self, resource: Resource, attrs: Attributes) -> bool:
        if self.names and attrs.name not in self.names:
            return False
        return self.rule.covers(resource, attrs.subresource, attrs.operation)


@dataclass(frozen=True, slots=True)
class Constraint:
    """`matchConstraints` of a policy, or `matchResources` of a binding."""

    rules: tuple[NamedRule, ...]
    excluded: tuple[NamedRule, ...]
    exact: bool
    namespaces: LabelSelector
    objects: LabelSelector

    @classmethod
    def of(cls, match: Json | None) -> Constraint:
        match = match or {}
        return cls(
            rules=tuple(map(NamedRule.of, match.get("resourceRules") or ())),
            excluded=tuple(map(NamedRule.of, match.get("excludeResourceRules") or ())),
            exact=match.get("matchPolicy") == "Exact",
            namespaces=LabelSelector.of(match.get("namespaceSelector") or {}),
            objects=LabelSelector.of(match.get("objectSelector") or {}),
        )

    def seen_as(self, attrs: Attributes, versions: Iterable[Resource]) -> Resource | None:
        """The version of the resource in which the rules want to see the request; None where they do not."""
        shown = (attrs.resource,) if self.exact else (attrs.resource, *versions)
        if any(rule.covers(resource, attrs) for rule in self.excluded for resource in shown):
            return None
        if not self.rules:
            return attrs.resource
        return next((resource for resource in shown for rule in self.rules if rule.covers(resource, attrs)), None)


@dataclass(frozen=True, slots=True)
class Validation:
    expression: str
    message: str
    message_expression: str
    reason: str

    @classmethod
    def of(cls, validation: Json) -> Validation:
        return cls(
            validation.get("expression") or "",
            (validation.get("message") or "").strip(),
            validation.get("messageExpression") or "",
            validation.get("reason") or "Invalid",
        )


@dataclass(frozen=True, slots=True)
class PolicyBinding:
    name: str
    constraint: Constraint
    denies: bool
    warns: bool
    param: Json | None  # paramRef

    @classmethod
    def of(cls, obj: Json) -> PolicyBinding:
        spec = obj["spec"]
        actions = spec.get("validationActions") or ()
        return cls(
            obj["metadata"]["name"],
            Constraint.of(spec.get("matchResources")),
            "Deny" in actions,
            "Warn" in actions,
            spec.get("paramRef"),
        )


@dataclass(frozen=True, slots=True)
class Policy:
    name: str
    constraint: Constraint
    bindings: tuple[PolicyBinding, ...]
    conditions: tuple[str, ...]
    variables: Mapping[str, str]
    validations: tuple[Validation, ...]
    lenient: bool  # failurePolicy Ignore: what cannot be evaluated counts as fulfilled
    param_kind: Json | None
    reads_namespace: bool

    @classmethod
    def of(cls, obj: Json, bindings: Iterable[Json]) -> Policy:
        spec = obj["spec"]
        name = obj["metadata"]["name"]
        variables = {variable["name"]: variable["expression"] for variable in spec.get("variables") or ()}
        conditions = tuple(condition["expression"] for condition in spec.get("matchConditions") or ())
        validations = tuple(map(Validation.of, spec.get("validations") or ()))
        texts = [*variables.values(), *conditions]
        texts += [text for each in validations for text in (each.expression, each.message_expression)]
        return cls(
            name=name,
            constraint=Constraint.of(spec.get("matchConstraints")),
            bindings=tuple(PolicyBinding.of(each) for each in bindings if dig(each, "spec", "policyName") == name),
            conditions=conditions,
            variables=variables,
            validations=validations,
            lenient=spec.get("failurePolicy") == "Ignore",
            param_kind=spec.get("paramKind"),
            reads_namespace=any(mentions(text, "namespaceObject") for text in texts),
        )
