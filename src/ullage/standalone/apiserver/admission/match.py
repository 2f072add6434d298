"""Which webhooks a request concerns.

Configurations are compiled when they change. What can be told from a request's address alone (rules) is looked up in a
table that fills itself; so a request that no webhook asks for costs one dictionary lookup. Selectors and conditions, which
need the object, are looked at only for the webhooks that are left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from ullage.selectors import LabelSelector
from ullage.standalone.apiserver.admission.attributes import Attributes
from ullage.standalone.apiserver.kinds.resources import Registry, Resource
from ullage.standalone.apiserver.objects import Json, dig
from ullage.standalone.apiserver.schema.cel.loops import Budget
from ullage.standalone.apiserver.schema.cel.program import CelError, Failure, Program, compile_condition
from ullage.standalone.apiserver.status import forbidden, not_found

OWN_GROUP = "admissionregistration.k8s.io"  # a webhook that guards itself could never be repaired
ANY = "*"
NamespaceOf = Callable[[str], Json | None]


@dataclass(frozen=True, slots=True)
class RuleWithOperations:
    """One entry of a webhook's `rules`."""

    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[tuple[str, str], ...]  # resource and subresource; either may be `*`
    operations: frozenset[str]
    scope: str

    @classmethod
    def of(cls, rule: Json) -> RuleWithOperations:
        return cls(
            groups=frozenset(rule.get("apiGroups") or ()),
            versions=frozenset(rule.get("apiVersions") or ()),
            resources=tuple(_split(pattern) for pattern in rule.get("resources") or ()),
            operations=frozenset(rule.get("operations") or ()),
            scope=rule.get("scope") or ANY,
        )

    def covers(self, resource: Resource, subresource: str, operation: str) -> bool:
        return (
            _within(operation, self.operations)
            and _within(resource.group, self.groups)
            and _within(resource.version, self.versions)
            and self.scope in (ANY, "Namespaced" if resource.namespaced else "Cluster")
            and any(name in (ANY, resource.plural) and sub in (ANY, subresource) for name, sub in self.resources)
        )


def _split(pattern: str) -> tuple[str, str]:
    name, _, sub = pattern.partition("/")
    return name, sub


def _within(value: str, allowed: frozenset[str]) -> bool:
    return ANY in allowed or value in allowed


@dataclass(frozen=True, slots=True)
class Hook:
    """One webhook of one configuration, ready to be asked."""

    name: str
    key: str  # unique over all configurations
    client: Json
    rules: tuple[RuleWithOperations, ...]
    exact: bool
    namespaces: LabelSelector
    objects: LabelSelector
    conditions: tuple[str, ...]
    ignore_failure: bool
    reinvoke: bool
    side_effects: str
    timeout: int

    @classmethod
    def of(cls, hook: Json, configuration: str) -> Hook:
        return cls(
            name=hook["name"],
            key=f"{configuration}/{hook['name']}",
            client=hook.get("clientConfig") or {},
            rules=tuple(RuleWithOperations.of(rule) for rule in hook.get("rules") or ()),
            exact=hook.get("matchPolicy") == "Exact",
            namespaces=LabelSelector.of(hook.get("namespaceSelector") or {}),
            objects=LabelSelector.of(hook.get("objectSelector") or {}),
            conditions=tuple(condition["expression"] for condition in hook.get("matchConditions") or ()),
            ignore_failure=hook.get("failurePolicy") == "Ignore",
            reinvoke=hook.get("reinvocationPolicy") == "IfNeeded",
            side_effects=hook.get("sideEffects") or "",
            timeout=hook.get("timeoutSeconds") or 10,
        )


@dataclass(frozen=True, slots=True)
class Match:
    """A webhook that wants a request, and the version of the resource in which it wants to see it."""

    hook: Hook
    resource: Resource


class Index:
    """All webhooks of one sort (mutating or validating), by what they want to see."""

    def __init__(self, configurations: Iterable[Json], registry: Registry) -> None:
        ordered = sorted(configurations, key=lambda each: str(dig(each, "metadata", "name")))
        self._hooks = tuple(
            Hook.of(hook, f"{dig(each, 'metadata', 'name')}/{at}")
            for each in ordered
            for at, hook in enumerate(each.get("webhooks") or ())
        )
        self._registry = registry
        self._generation = registry.generation
        self._found: dict[tuple[Resource, str, str], tuple[Match, ...]] = {}

    def candidates(self, resource: Resource, subresource: str, operation: str) -> tuple[Match, ...]:
        """Webhooks whose rules name the request, in their order."""
        if not self._hooks:
            return ()
        if self._generation != self._registry.generation:  # resources came or went: equivalent versions, too
            self._found.clear()
            self._generation = self._registry.generation
        key = (resource, subresource, operation)
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = tuple(self._search(resource, subresource, operation))
        return found

    def _search(self, resource: Resource, subresource: str, operation: str) -> Iterable[Match]:
        if resource.group == OWN_GROUP:
            return
        others = [
            each
            for each in self._registry
            if each is not resource and each.storage == resource.storage and resource.storage and _offers(each, subresource)
        ]
        for hook in self._hooks:
            if any(rule.covers(resource, subresource, operation) for rule in hook.rules):
                yield Match(hook, resource)
            elif not hook.exact:
                seen = (each for rule in hook.rules for each in others if rule.covers(each, subresource, operation))
                if (chosen := next(seen, None)) is not None:
                    yield Match(hook, chosen)


def _offers(resource: Resource, subresource: str) -> bool:
    return not subresource or resource.has(subresource)


class Selective(Protocol):
    """What asks for labels: a webhook, or a policy."""

    @property
    def namespaces(self) -> LabelSelector: ...

    @property
    def objects(self) -> LabelSelector: ...


def selected(hook: Selective, attrs: Attributes, namespace_of: NamespaceOf) -> bool:
    """Whether the labels of the request's namespace and object are those that the webhook asks for."""
    if hook.namespaces and not _in_namespace(hook.namespaces, attrs, namespace_of):
        return False
    if not hook.objects:
        return True
    versions = [obj for obj in (attrs.object, attrs.old) if obj is not None]
    return any(hook.objects.matches(dig(obj, "metadata", "labels")) for obj in versions)


def _in_namespace(selector: LabelSelector, attrs: Attributes, namespace_of: NamespaceOf) -> bool:
    """A Namespace is selected by its own, new labels; what lies in no namespace passes."""
    if attrs.is_namespace and not attrs.subresource and attrs.operation in ("CREATE", "UPDATE"):
        return selector.matches(dig(attrs.object, "metadata", "labels"))
    name = attrs.name if attrs.is_namespace else attrs.namespace
    if not name:
        return True
    namespace = namespace_of(name)
    if namespace is None:
        raise not_found("", "namespaces", name)
    return selector.matches(dig(namespace, "metadata", "labels"))


def conditions_hold(hook: Hook, attrs: Attributes, variables: Mapping[str, Any]) -> bool:
    """Whether all matchConditions are true. One that is false settles it, whatever became of the others."""
    faults = []
    budget = Budget()  # of all conditions together
    for expression in hook.conditions:
        found = _evaluate(expression, variables, budget)
        if found is False:
            return False
        if found is not True:
            reason = found.message if isinstance(found, Failure) else "must evaluate to bool"
            faults.append(f"expression '{expression}' resulted in error: {reason}")
    if not faults:
        return True
    if hook.ignore_failure:
        return False
    text = faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"
    raise forbidden(attrs.resource.group, attrs.resource.plural, attrs.name, text)


def _evaluate(expression: str, variables: Mapping[str, Any], budget: Budget) -> Any:
    program = _program(expression)
    return program.evaluate(variables, budget) if isinstance(program, Program) else program


@lru_cache(maxsize=512)
def _program(expression: str) -> Program | Failure:
    try:
        return compile_condition(expression)
    except CelError as error:
        return Failure(f"compilation failed: {error}")
