"""One RBAC rule: what it allows, and whether other rules cover it. Pure.

Matching is what kube-apiserver does, not what one may hope for: `*` and `*/scale` are wildcards, `pods/*` is not; a rule
with resourceNames never matches a request without a name; a URL matches whole, or up to a trailing `*`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import json_string


@dataclass(frozen=True, slots=True)
class AccessAttributes:
    """One question: may somebody do this? `path` is given for requests that are not about a resource."""

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str | None = None

    @property
    def full_resource(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """A PolicyRule. The order of each member is kept: reviews and refusals show it."""

    verbs: tuple[str, ...]
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    def allows(self, asked: AccessAttributes) -> bool:
        if asked.verb not in self.verbs and "*" not in self.verbs:
            return False
        if asked.path is not None:
            return _url_matches(self.urls, asked.path)
        return (
            (asked.group in self.groups or "*" in self.groups)
            and _resource_matches(self.resources, asked.full_resource, asked.subresource)
            and (not self.names or (asked.name != "" and asked.name in self.names))
        )

    def __str__(self) -> str:
        """As a refusal shows it: `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`."""
        members = (
            ("APIGroups", self.groups),
            ("Resources", self.resources),
            ("ResourceNames", self.names),
            ("NonResourceURLs", self.urls),
            ("Verbs", self.verbs),
        )
        return "{" + ", ".join(f"{name}:{quoted(values)}" for name, values in members if values) + "}"


MOST_LACKING: Final = 1_000  # rights that a refusal names
MOST_COMPARED: Final = 500_000
EVERYTHING = (PolicyRule(("*",), groups=("*",), resources=("*",)), PolicyRule(("*",), urls=("*",)))


class _Members(tuple[str, ...]):
    """A long list of a rule's members. Every request asks whether something is in it, which must not take a walk."""

    _known: frozenset[str]

    def __new__(cls, values: Iterable[str]) -> _Members:
        made = super().__new__(cls, values)
        made._known = frozenset(made)
        return made

    def __contains__(self, value: object) -> bool:
        return value in self._known


def _members(values: Sequence[str] | None) -> tuple[str, ...]:
    return _Members(values) if values and len(values) > 16 else tuple(values or ())


def parse_rules(rules: Sequence[Json] | None) -> tuple[PolicyRule, ...]:
    """The rules of a Role or ClusterRole."""
    return tuple(
        PolicyRule(
            verbs=_members(rule.get("verbs")),
            groups=_members(rule.get("apiGroups")),
            resources=_members(rule.get("resources")),
            names=_members(rule.get("resourceNames")),
            urls=_members(rule.get("nonResourceURLs")),
        )
        for rule in rules or ()
    )


def uncovered(owned: Sequence[PolicyRule], wanted: Iterable[PolicyRule]) -> list[PolicyRule]:
    """The single rights in `wanted` that no one rule in `owned` gives, in the order in which they are wanted.

    One rule can stand for more single rights than there are atoms. So no more than `MOST_LACKING` are named, and whoever
    asks for more of them than `MOST_COMPARED` comparisons settle, lacks the one at which the counting ended.
    """
    lacking: list[PolicyRule] = []
    held = dict.fromkeys(owned)
    owned = list(held)
    compared = 0
    for rule in dict.fromkeys(wanted):
        compared += len(owned)
        if rule in held or (compared <= MOST_COMPARED and any(_contains(own, rule) for own in owned)):
            continue
        for right in _single(rule):
            compared += len(owned) + 1
            if compared > MOST_COMPARED or not any(_covers(own, right) for own in owned):
                lacking.append(right)
            if compared > MOST_COMPARED or len(lacking) == MOST_LACKING:
                return lacking
    return lacking


def _contains(own: PolicyRule, rule: PolicyRule) -> bool:
    """Whether one rule gives all of another, member by member: so it is with most, and needs no single rights."""
    return (
        ("*" in own.verbs or set(rule.verbs) <= set(own.verbs))
        and (not rule.groups or "*" in own.groups or set(rule.groups) <= set(own.groups))
        and (not rule.resources or "*" in own.resources or set(rule.resources) <= set(own.resources))
        and (not own.names or (bool(rule.names) and set(rule.names) <= set(own.names)))
        and (not rule.urls or "*" in own.urls or set(rule.urls) <= set(own.urls))
    )


def covers(owned: Sequence[PolicyRule], wanted: Iterable[PolicyRule]) -> bool:
    """Whether whoever holds `owned` may hand out `wanted`."""
    return not uncovered(owned, wanted)


def compact(rights: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Single rights that differ only in their verb, as one rule each. URLs stay apart."""
    merged: dict[tuple[object, ...], PolicyRule] = {}
    for right in rights:
        key: tuple[object, ...] = (right.groups, right.resources, right.names) if not right.urls else (right.urls, right.verbs)
        held = merged.get(key)
        if held is None:
            merged[key] = right
        elif not right.urls:
            merged[key] = PolicyRule((*held.verbs, *right.verbs), held.groups, held.resources, held.names)
    return list(merged.values())


def quoted(values: Iterable[str]) -> str:
    """A list of strings as Go prints it: quoted, with spaces between."""
    return "[" + " ".join(json_string(value) for value in values) + "]"


def _resource_matches(resources: tuple[str, ...], full: str, subresource: str) -> bool:
    return full in resources or "*" in resources or (subresource != "" and f"*/{subresource}" in resources)


def _url_matches(urls: tuple[str, ...], path: str) -> bool:
    return any(url in ("*", path) or (url.endswith("*") and path.startswith(url[:-1])) for url in urls)


def _single(rule: PolicyRule) -> Iterator[PolicyRule]:
    """The rule as rights of one verb on one thing each: what one rule lacks another may give."""
    names: tuple[tuple[str, ...], ...] = tuple((name,) for name in rule.names) or ((),)
    for group in rule.groups:
        for resource in rule.resources:
            for name in names:
                for verb in rule.verbs:
                    yield PolicyRule((verb,), groups=(group,), resources=(resource,), names=name)
    for url in rule.urls:
        for verb in rule.verbs:
            yield PolicyRule((verb,), urls=(url,))


def _covers(own: PolicyRule, right: PolicyRule) -> bool:
    if right.verbs[0] not in own.verbs and "*" not in own.verbs:
        return False
    if right.urls:
        return _url_matches(own.urls, right.urls[0])
    resource = right.resources[0]
    return (
        (right.groups[0] in own.groups or "*" in own.groups)
        and _resource_matches(own.resources, resource, resource.partition("/")[2])
        and (not own.names or (bool(right.names) and right.names[0] in own.names))
    )
