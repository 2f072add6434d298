"""What the policies say to a request.

Every policy that concerns it is evaluated, once for each binding and each of the binding's parameters. All of them are heard:
the first refusal is the answer, and warnings go along with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ullage.selectors import LabelSelector
from ullage.standalone.apiserver.admission.attributes import Attributes
from ullage.standalone.apiserver.admission.match import OWN_GROUP, selected
from ullage.standalone.apiserver.admission.policies.model import Policy, PolicyBinding, Validation
from ullage.standalone.apiserver.admission.review import admission_request, convert, warning_headers
from ullage.standalone.apiserver.kinds.resources import Registry, Resource
from ullage.standalone.apiserver.kinds.strategies.admission.policy_expressions import Scope
from ullage.standalone.apiserver.kinds.versions import view
from ullage.standalone.apiserver.objects import Json, dig
from ullage.standalone.apiserver.schema.cel.program import Failure
from ullage.standalone.apiserver.status import ApiError, policy_denied
from ullage.standalone.apiserver.storage.store import Store

POLICIES = f"validatingadmissionpolicies.{OWN_GROUP}"
BINDINGS = f"validatingadmissionpolicybindings.{OWN_GROUP}"
NAMELESS = "Unknown"
LONGEST_MESSAGE = 5 * 1024  # bytes that a messageExpression may give
NO_PARAMS = "no params found for policy binding with `Deny` parameterNotFoundAction"


class Misconfigured(Exception):
    """A policy or binding that cannot be evaluated at all. The failurePolicy says what that means."""


@dataclass(frozen=True, slots=True)
class Complaint:
    text: str
    reason: str = "Invalid"


@dataclass(frozen=True, slots=True)
class _Heard:
    """What all policies said so far."""

    refusals: list[Complaint]
    warnings: list[str]

    def misconfigured(self, policy: Policy, text: str) -> None:
        if not policy.lenient:
            self.refusals.append(Complaint(text))

    def complaint(self, binding: PolicyBinding, where: str, complaint: Complaint) -> None:
        if binding.denies:
            self.refusals.append(Complaint(f"{where} denied request: {complaint.text}", complaint.reason))
        if binding.warns:
            self.warnings.append(f"Validation failed for {where}: {complaint.text}")


class Policies:
    def __init__(self, store: Store, registry: Registry) -> None:
        self._store = store
        self._registry = registry
        self._key: tuple[int, int] = (-1, -1)
        self._policies: tuple[Policy, ...] = ()

    def validate(self, attrs: Attributes) -> list[str]:
        """The warnings. Raises the first refusal."""
        policies = self._current()
        if not policies or attrs.resource.group == OWN_GROUP:  # a policy that guards itself could never be repaired
            return []
        heard = _Heard([], [])
        versions = self._versions(attrs)
        for policy in policies:
            seen = policy.constraint.seen_as(attrs, versions)
            if seen is None or not selected(policy.constraint, attrs, self._namespace):
                continue
            bindings = [each for each in policy.bindings if self._concerns(each, attrs, versions)]
            if bindings:
                self._apply(policy, bindings, attrs, seen=seen, heard=heard)
        if heard.refusals:
            raise _refusal(attrs, heard)
        return heard.warnings

    def _concerns(self, binding: PolicyBinding, attrs: Attributes, versions: list[Resource]) -> bool:
        seen = binding.constraint.seen_as(attrs, versions)
        return seen is not None and selected(binding.constraint, attrs, self._namespace)

    def _current(self) -> tuple[Policy, ...]:
        key = self._store.touched(POLICIES), self._store.touched(BINDINGS)
        if key != self._key:
            bindings = [entry.obj() for entry in self._store.items(BINDINGS)]
            found = (Policy.of(entry.obj(), bindings) for entry in self._store.items(POLICIES))
            self._policies = tuple(policy for policy in found if policy.bindings)
            self._key = key
        return self._policies

    def _versions(self, attrs: Attributes) -> list[Resource]:
        """The other versions of the request's resource."""
        mine, sub = attrs.resource, attrs.subresource
        others = (each for each in self._registry if each is not mine and each.storage == mine.storage and mine.storage)
        return [each for each in others if not sub or each.has(sub)]

    def _namespace(self, name: str) -> Json | None:
        entry = self._store.get("namespaces", "", name)
        return entry.obj() if entry else None

    def _apply(
        self, policy: Policy, bindings: list[PolicyBinding], attrs: Attributes, *, seen: Resource, heard: _Heard
    ) -> None:
        label = f"ValidatingAdmissionPolicy '{policy.name}'"
        try:
            kind = self._param_resource(policy)
        except Misconfigured as fault:
            heard.misconfigured(policy, f"{label} denied request: failed to configure policy: {fault}")
            return
        values = self._values(policy, attrs, seen)
        for binding in bindings:
            where = f"{label} with binding '{binding.name}'"
            try:
                params = self._params(kind, binding, attrs)
            except Misconfigured as fault:
                heard.misconfigured(policy, f"{where} denied request: failed to configure binding: {fault}")
                continue
            for param in params:
                for complaint in _complaints(policy, Scope({**values, "params": param}, policy.variables)):
                    heard.complaint(binding, where, complaint)

    def _values(self, policy: Policy, attrs: Attributes, seen: Resource) -> dict[str, Any]:
        inside = attrs.namespace if policy.reads_namespace and not attrs.is_namespace else ""
        return {
            "object": convert(attrs.object, attrs.resource, seen),
            "oldObject": convert(attrs.old, attrs.resource, seen),
            "request": admission_request(attrs, seen, uid=""),
            "namespaceObject": self._namespace(inside) if inside else None,
        }

    # --- parameters ---

    def _param_resource(self, policy: Policy) -> Resource | None:
        wanted: Mapping[str, str] | None = policy.param_kind
        if wanted is None:
            return None
        group, _, version = wanted["apiVersion"].rpartition("/")
        found = self._registry.by_kind(group, version, wanted["kind"])
        if found is None or not found.storage:
            gvk = f"{group}/{version}, Kind={wanted['kind']}"
            raise Misconfigured(f"failed to find resource referenced by paramKind: '{gvk}'")
        return found

    def _params(self, kind: Resource | None, binding: PolicyBinding, attrs: Attributes) -> list[Json | None]:
        """What the policy is evaluated with, one after the other: nothing once, or the objects that the binding names."""
        ref = binding.param
        if kind is None or ref is None:
            return [None]
        namespace = self._param_namespace(kind, ref, attrs)
        if name := ref.get("name"):
            entry = self._store.get(kind.storage, namespace, name)
            entries = [entry] if entry else []
        else:
            selector = LabelSelector.of(ref.get("selector") or {})
            entries = self._store.items(kind.storage, namespace)
            entries = [each for each in entries if selector.matches(dig(each.obj(), "metadata", "labels"))]
        if not entries and ref.get("parameterNotFoundAction") != "Allow":
            raise Misconfigured(NO_PARAMS)
        return [view(kind).obj(entry.data, entry.rv) for entry in entries]

    def _param_namespace(self, kind: Resource, ref: Json, attrs: Attributes) -> str:
        named: str = ref.get("namespace") or ""
        if not kind.namespaced:
            if named:
                raise Misconfigured("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
            return ""
        if not named and not attrs.namespace:
            raise Misconfigured("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
        return named or attrs.namespace


def _complaints(policy: Policy, scope: Scope) -> Iterator[Complaint]:
    """What of the policy the request does not fulfil. What cannot be evaluated is not fulfilled, unless it is to be ignored."""
    for expression in policy.conditions:
        found = scope.evaluate(expression)
        if found is False:
            return
        if found is not True:
            if not policy.lenient:
                yield Complaint(_error(expression, found))
            return
    for validation in policy.validations:
        found = scope.evaluate(validation.expression)
        if found is False:
            yield Complaint(_message(validation, scope), validation.reason)
        elif found is not True and not policy.lenient:
            yield Complaint(_error(validation.expression, found))


def _error(expression: str, found: object) -> str:
    reason = found.message if isinstance(found, Failure) else "must evaluate to bool"
    return f"expression '{expression}' resulted in error: {reason}"


def _message(validation: Validation, scope: Scope) -> str:
    """The expression's text if it is one that can be shown, else the fixed one, else the rule itself."""
    if validation.message_expression:
        said = scope.evaluate(validation.message_expression)
        if isinstance(said, str) and said.strip() and "\n" not in said and len(said.encode()) <= LONGEST_MESSAGE:
            return said.strip()
    return validation.message or f"failed expression: {validation.expression}"


def _refusal(attrs: Attributes, heard: _Heard) -> ApiError:
    """The first refusal; the warnings go along."""
    resource, first = attrs.resource, heard.refusals[0]
    name = attrs.name or NAMELESS
    error = policy_denied(resource.group, resource.plural, name, reason=first.reason, message=first.text)
    error.headers = (*error.headers, *warning_headers(heard.warnings))
    return error
