"""Nobody hands out rights that they do not hold.

Writing a Role or ClusterRole needs every right in it, or the verb `escalate` on it; writing a binding needs every right of
its role, or the verb `bind` on that role. The write path asks here once the new object is complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ullage.standalone.apiserver.auth.rbac import GROUP, Authorizer, Grant
from ullage.standalone.apiserver.auth.rules import (
    EVERYTHING,
    AccessAttributes,
    PolicyRule,
    compact,
    covers,
    parse_rules,
    quoted,
    uncovered,
)
from ullage.standalone.apiserver.auth.users import MASTERS, User
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import ApiError, forbidden, json_string, not_found

_ROLES = frozenset({"roles", "clusterroles"})
_BINDINGS = frozenset({"rolebindings", "clusterrolebindings"})
_NEED_ALL = "must have cluster-admin privileges to use the aggregationRule"
# What the garbage collector and the server itself write: no change of rights.
_HOUSEKEEPING = frozenset({"ownerReferences", "finalizers", "managedFields", "resourceVersion", "generation"})


class Escalation:
    """The check, over one authorizer's policy."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def check(self, user: User, plural: str, *, new: Json, old: Json | None, namespace: str) -> ApiError | None:
        """The refusal of a write of an RBAC object; None for any other kind and where nothing is handed out.

        `old` is None for a create; `namespace` is "" for the cluster-wide kinds.
        """
        if plural not in _ROLES and plural not in _BINDINGS:
            return None
        if MASTERS in user.groups or (old is not None and _core(new) == _core(old)):
            return None
        if plural in _ROLES:
            return self._role(user, plural, new=new, old=old, namespace=namespace)
        return self._binding(user, plural, new=new, namespace=namespace)

    def _role(self, user: User, plural: str, *, new: Json, old: Json | None, namespace: str) -> ApiError | None:
        name = new["metadata"].get("name", "")
        # A create is authorized without a name, so `escalate` limited to names does not cover it.
        known_name = name if old is not None else ""
        if self._may(user, "escalate", plural, namespace=namespace, name=known_name):
            return None
        grants = self._authorizer.grants(user, namespace)
        lacking = uncovered(_held(grants), parse_rules(new.get("rules")))
        if lacking:
            return _refusal(user, plural, name, lacking=lacking, grants=grants)
        aggregated = new.get("aggregationRule") or (old or {}).get("aggregationRule")
        if aggregated and not covers(_held(grants), EVERYTHING):
            return forbidden(GROUP, plural, name, _NEED_ALL)
        return None

    def _binding(self, user: User, plural: str, *, new: Json, namespace: str) -> ApiError | None:
        ref = new.get("roleRef") or {}
        kind, role = ref.get("kind", ""), ref.get("name", "")
        role_plural = "roles" if kind == "Role" else "clusterroles"
        if self._may(user, "bind", role_plural, namespace=namespace, name=role):
            return None
        wanted = self._authorizer.rules_of(kind, role, namespace=namespace)
        if wanted is None:
            return not_found(GROUP, plural, role)
        grants = self._authorizer.grants(user, namespace)
        lacking = uncovered(_held(grants), wanted)
        if lacking:
            return _refusal(user, plural, new["metadata"].get("name", ""), lacking=lacking, grants=grants)
        return None

    def _may(self, user: User, verb: str, plural: str, *, namespace: str, name: str) -> bool:
        asked = AccessAttributes(verb, group=GROUP, version="v1", resource=plural, namespace=namespace, name=name)
        return self._authorizer.authorize(user, asked).allowed


def _held(grants: Iterable[Grant]) -> list[PolicyRule]:
    return [rule for grant in grants for rule in grant.rules or ()]


def _core(obj: Json) -> Json:
    """The object without what its housekeeping changes."""
    kept = {key: value for key, value in obj["metadata"].items() if key not in _HOUSEKEEPING}
    return {**obj, "metadata": kept}


def _refusal(user: User, plural: str, name: str, *, lacking: Sequence[PolicyRule], grants: Sequence[Grant]) -> ApiError:
    lines = "\n".join(sorted(str(rule) for rule in compact(lacking)))
    text = (
        f"user {json_string(user.name)} (groups={quoted(user.groups)}) is attempting to grant RBAC permissions "
        f"not currently held:\n{lines}"
    )
    missing = dict.fromkeys(
        f"{grant.binding.role_kind.lower()}s.{GROUP} {json_string(grant.binding.role_name)} not found"
        for grant in grants
        if grant.rules is None
    )
    if missing:
        text += f"; resolution errors: [{', '.join(missing)}]"
    return forbidden(GROUP, plural, name, text)
