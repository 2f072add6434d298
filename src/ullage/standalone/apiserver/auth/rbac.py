"""Roles and bindings, compiled into decisions.

The compiled policy follows the store: it is looked at again when the store says that one of the four kinds was touched, and
then only objects whose bytes changed are decoded. A decision walks the grants of one user, found by name and groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from ullage.selectors import NOTHING, LabelSelector, SelectorError
from ullage.standalone.apiserver.auth.rules import AccessAttributes, PolicyRule, parse_rules
from ullage.standalone.apiserver.auth.users import MASTERS, User
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import ApiError, forbidden, forbidden_path, json_string
from ullage.standalone.apiserver.storage.entries import StoredObject

GROUP = "rbac.authorization.k8s.io"
_KINDS = ("clusterroles", "roles", "clusterrolebindings", "rolebindings")
_STORAGES = tuple(f"{plural}.{GROUP}" for plural in _KINDS)
_MOST_USERS = 1024  # whose grants are remembered between two changes of the policy

__all__ = ["GROUP", "Authorizer", "Decision", "Grant", "PolicyStore", "aggregate", "denied", "missing_roles"]


class PolicyStore(Protocol):
    def items(self, storage: str) -> Sequence[StoredObject]: ...

    def touched(self, storage: str) -> int: ...


@dataclass(frozen=True, slots=True)
class Decision:
    allowed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Role:
    namespace: str
    name: str
    rules: tuple[PolicyRule, ...]
    source: Json  # labels and aggregation are read from it


@dataclass(frozen=True, slots=True)
class RoleBinding:
    """A binding, its subjects under the key by which a user is looked up."""

    namespace: str
    name: str
    role_kind: str
    role_name: str
    subjects: tuple[tuple[tuple[str, str], str], ...]  # (kind, name) and the text that a reason shows


@dataclass(frozen=True, slots=True)
class Grant:
    """One binding as it reaches one user. `rules` is None where the role does not exist."""

    binding: RoleBinding
    rules: tuple[PolicyRule, ...] | None
    allowed: Decision  # the answer, where one of the rules allows a request

    @property
    def missing(self) -> str:
        """That the role does not exist, as a decision's reason says it."""
        return f"{self.binding.role_kind.lower()}.{GROUP} {json_string(self.binding.role_name)} not found"


def missing_roles(grants: Iterable[Grant]) -> str:
    """The roles that bindings name and that do not exist; several are bracketed."""
    texts = list(dict.fromkeys(grant.missing for grant in grants if grant.rules is None))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]" if texts else ""


_ALWAYS = Decision(True)
_NO = Decision(False)


class _Held:
    """The grants of one user: those that hold everywhere, and those of each namespace."""

    __slots__ = ("everywhere", "within")

    def __init__(self, grants: Iterable[Grant]) -> None:
        self.everywhere: list[Grant] = []
        self.within: dict[str, list[Grant]] = {}
        seen: set[tuple[str, int]] = set()  # a role that many bindings give counts once: the first of them answers
        for grant in grants:
            namespace = grant.binding.namespace
            if grant.rules is not None:
                if (namespace, id(grant.rules)) in seen:
                    continue
                seen.add((namespace, id(grant.rules)))
            (self.within.setdefault(namespace, []) if namespace else self.everywhere).append(grant)

    def grants(self, namespace: str) -> Iterator[Grant]:
        """Those that count for a request in a namespace; of none (""): at the cluster scope."""
        yield from self.everywhere
        if namespace:
            yield from self.within.get(namespace, ())


class _Policy:
    """All roles and bindings at one moment."""

    def __init__(self, roles: Iterable[Role], bindings: Sequence[RoleBinding]) -> None:
        self._roles = {(role.namespace, role.name): role.rules for role in roles}  # a ClusterRole's namespace is ""
        self.users: dict[tuple[str, tuple[str, ...]], _Held] = {}
        self._by_subject: dict[tuple[str, str], list[tuple[int, str]]] = {}
        self._bindings = bindings
        for position, binding in enumerate(bindings):
            for subject, text in binding.subjects:
                self._by_subject.setdefault(subject, []).append((position, text))

    def rules_of(self, binding: RoleBinding) -> tuple[PolicyRule, ...] | None:
        if binding.role_kind == "ClusterRole":
            return self._roles.get(("", binding.role_name))
        return self._roles.get((binding.namespace, binding.role_name)) if binding.namespace else None

    def held(self, user: User) -> _Held:
        key = (user.name, user.groups)
        found = self.users.get(key)
        if found is None:
            if len(self.users) >= _MOST_USERS:
                self.users.clear()
            found = self.users[key] = _Held(self._grants(user))
        return found

    def _grants(self, user: User) -> Iterator[Grant]:
        reached: dict[int, str] = {}
        for subject in (("User", user.name), *(("Group", group) for group in user.groups)):
            for position, text in self._by_subject.get(subject, ()):
                reached.setdefault(position, text)
        for position, text in sorted(reached.items()):
            binding = self._bindings[position]
            yield Grant(binding, self.rules_of(binding), _allowed_by(binding, text))


class Authorizer:
    """Answers "may this user do this?" from the roles and bindings in a store."""

    def __init__(self, store: PolicyStore) -> None:
        self._store = store
        self._seen: tuple[int, ...] = ()
        self._parsed: dict[tuple[str, bytes], Any] = {}  # an object's bytes to what was made of it
        self._aggregated: list[Role] = []  # follow the ClusterRoles alone, which change less often than bindings
        self._policy = _Policy((), ())

    def authorize(self, user: User, asked: AccessAttributes) -> Decision:
        if MASTERS in user.groups:
            return _ALWAYS
        missing: list[Grant] = []
        for grant in self._current().held(user).grants("" if asked.path is not None else asked.namespace):
            if grant.rules is None:
                missing.append(grant)
                continue
            for rule in grant.rules:
                if rule.allows(asked):
                    return grant.allowed
        return Decision(False, f"RBAC: {missing_roles(missing)}") if missing else _NO

    def grants(self, user: User, namespace: str) -> list[Grant]:
        """Every binding that reaches the user in a namespace, those of the whole cluster first."""
        return list(self._current().held(user).grants(namespace))

    def rules_of(self, role_kind: str, role_name: str, *, namespace: str) -> tuple[PolicyRule, ...] | None:
        """What a binding in `namespace` to this role would give; None where there is no such role."""
        return self._current().rules_of(RoleBinding(namespace, "", role_kind, role_name, ()))

    def _current(self) -> _Policy:
        touched = tuple(map(self._store.touched, _STORAGES))
        if touched != self._seen:
            self._policy = self._compile(same_cluster_roles=touched[:1] == self._seen[:1])
            self._seen = touched
        return self._policy

    def _compile(self, *, same_cluster_roles: bool) -> _Policy:
        known, self._parsed = self._parsed, {}

        def parsed(storage: str, parse: Callable[[Json], Any]) -> list[Any]:
            found = []
            for entry in self._store.items(storage):
                key = (storage, entry.data)
                made = self._parsed[key] = known.get(key) or parse(entry.obj())
                found.append(made)
            return found

        cluster_roles, roles = parsed(_STORAGES[0], _role), parsed(_STORAGES[1], _role)
        bindings = [*parsed(_STORAGES[2], _binding), *parsed(_STORAGES[3], _binding)]
        if not same_cluster_roles:
            gathered = aggregate(role.source for role in cluster_roles)
            self._aggregated = [Role("", name, parse_rules(rules), {}) for name, rules in gathered.items()]
        return _Policy([*cluster_roles, *roles, *self._aggregated], bindings)


def denied(user: User, asked: AccessAttributes, decision: Decision) -> ApiError:
    """The 403 for a decision, in kube-apiserver's words."""
    who = f"User {json_string(user.name)} cannot {asked.verb}"
    tail = f": {decision.reason}" if decision.reason else ""
    if asked.path is not None:
        return forbidden_path(f"{who} path {json_string(asked.path)}{tail}")
    where = f"in the namespace {json_string(asked.namespace)}" if asked.namespace else "at the cluster scope"
    what = f"resource {json_string(asked.full_resource)} in API group {json_string(asked.group)}"
    return forbidden(asked.group, asked.resource, asked.name, f"{who} {what} {where}{tail}")


def aggregate(cluster_roles: Iterable[Json]) -> dict[str, list[Json]]:
    """For each ClusterRole with an aggregationRule: the rules of all that its selectors choose, in order of name.

    Roles that are themselves aggregated count with what they gather; a circle of them gathers each of its members once.
    """
    roles = {role["metadata"]["name"]: role for role in cluster_roles}
    labels = {name: roles[name]["metadata"].get("labels") for name in sorted(roles)}
    chosen: dict[str, list[str]] = {}  # by each role with selectors, in the order in which it gathers
    for name, role in roles.items():
        if selectors := (role.get("aggregationRule") or {}).get("clusterRoleSelectors"):
            matching = map(_selector, selectors)
            chosen[name] = list(dict.fromkeys(one for selector in matching for one in labels if selector.matches(labels[one])))

    def gather(name: str) -> list[Json]:
        found: dict[bytes, Json] = {}
        seen: set[str] = set()
        waiting = [name]
        while waiting:
            here = waiting.pop()
            if here in seen:  # however many ways lead to a role, it counts once: a circle ends
                continue
            seen.add(here)
            if here in chosen:
                waiting.extend(other for other in reversed(chosen[here]) if other not in seen)
            else:
                for rule in roles[here].get("rules") or ():
                    found.setdefault(msgspec.json.encode(rule, order="deterministic"), rule)
        return list(found.values())

    return {name: gather(name) for name, role in roles.items() if role.get("aggregationRule")}


def _selector(selector: Json) -> LabelSelector:
    try:
        return LabelSelector.of(selector)
    except SelectorError:  # refused when it was written; one that came in by another way gathers nothing
        return NOTHING


def _allowed_by(binding: RoleBinding, subject: str) -> Decision:
    kind, where = ("RoleBinding", f"/{binding.namespace}") if binding.namespace else ("ClusterRoleBinding", "")
    role = f"{binding.role_kind} {json_string(binding.role_name)}"
    return Decision(True, f"RBAC: allowed by {kind} {json_string(binding.name + where)} of {role} to {subject}")


def _role(obj: Json) -> Role:
    metadata = obj["metadata"]
    return Role(metadata.get("namespace", ""), metadata["name"], parse_rules(obj.get("rules")), obj)


def _binding(obj: Json) -> RoleBinding:
    metadata, ref = obj["metadata"], obj.get("roleRef") or {}
    namespace = metadata.get("namespace", "")
    subjects = tuple(_subject(subject, namespace) for subject in obj.get("subjects") or ())
    return RoleBinding(namespace, metadata["name"], ref.get("kind", ""), ref.get("name", ""), subjects)


def _subject(subject: Json, namespace: str) -> tuple[tuple[str, str], str]:
    kind, name = subject.get("kind", ""), subject.get("name", "")
    if kind != "ServiceAccount":
        return (kind, name), f"{kind} {json_string(name)}"
    where = subject.get("namespace") or namespace
    return ("User", f"system:serviceaccount:{where}:{name}"), f"ServiceAccount {json_string(f'{name}/{where}')}"
