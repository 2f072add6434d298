"""A ValidatingAdmissionPolicy, declared by a slice: what the API server itself holds everybody else to, with CEL.

It needs no process of ours: so an edit that it lets pass goes through while the webhook is away. `ullage install` puts it in
place with a binding of the same name. Our own identities are not held to it, nor are those who end namespaces and owners.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ullage.kube import identities
from ullage.kube.kinds import Kind
from ullage.kube.objects import Json

_CLUSTER: Final = (
    "system:kube-controller-manager",
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:namespace-controller",
)
EXEMPT: Final = (*sorted(identities.OWN), identities.account(identities.WORLD), *_CLUSTER)


@dataclass(frozen=True, slots=True)
class Demand:
    """What has to hold of every edit, and what is said where it does not."""

    rule: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Demands on updates of these kinds. `variables` are CEL expressions that the rules share: `variables.NAME`."""

    name: str
    kinds: tuple[Kind[Any], ...]
    demands: tuple[Demand, ...]
    variables: Mapping[str, str] = field(default_factory=dict)

    def spec(self) -> Json:
        return {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [self._watched(kind) for kind in self.kinds]},
            "matchConditions": [{"name": "by-others", "expression": f"!(request.userInfo.username in {list(EXEMPT)!r})"}],
            "variables": [{"name": name, "expression": rule} for name, rule in self.variables.items()],
            "validations": [{"expression": one.rule, "message": one.message, "reason": "Forbidden"} for one in self.demands],
        }

    def binding(self) -> Json:
        return {"policyName": self.name, "validationActions": ["Deny"]}

    @staticmethod
    def _watched(kind: Kind[Any]) -> Json:
        return {
            "apiGroups": [kind.group],
            "apiVersions": [kind.version],
            "operations": ["UPDATE"],
            "resources": [kind.plural],
            "scope": "Namespaced" if kind.namespaced else "Cluster",
        }
