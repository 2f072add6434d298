"""What one row of the requests table says: a request, what must be there before, what must come back and what stays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..kinds import OWN_MAPS

Json = dict[str, Any]

JSON_PATCH = {"Content-Type": "application/json-patch+json"}
MERGE_PATCH = {"Content-Type": "application/merge-patch+json"}
STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}

NAMESPACE = "/api/v1/namespaces/{ns}"
CONFIGMAPS = f"{NAMESPACE}/configmaps"
OWN_CONFIGMAPS = f"{CONFIGMAPS}?{OWN_MAPS}"
PODS = f"{NAMESPACE}/pods"
SECRETS = f"{NAMESPACE}/secrets"
SERVICES = f"{NAMESPACE}/services"
CLAIMS = f"{NAMESPACE}/persistentvolumeclaims"
ACCOUNTS = f"{NAMESPACE}/serviceaccounts"
DEPLOYMENTS = "/apis/apps/v1/namespaces/{ns}/deployments"
ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/rolebindings"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases"
GAUGES = "/apis/e2e.example.com/v1/namespaces/{ns}/gauges"
TANKS = "/apis/e2e.example.com/v1/tanks"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@dataclass(frozen=True, slots=True)
class Step:
    """A request that must succeed before the case. `save` keeps values of its answer for later: `{rv}` in any string.

    `until` repeats it until the answer has these values: authorizers and namespaces follow a write with some delay.
    """

    method: str
    path: str
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)
    save: Mapping[str, str] = field(default_factory=dict)
    until: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Check:
    """A GET after the case: what is stored. A value of None in `has` says that the path is absent."""

    path: str
    code: int = 200
    has: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Case:
    """`expect` is code and Status reason: empty where there is none, None where it is not asked for.

    In a message, `…` stands for anything: what only Go's own types and parsers would say.
    """

    id: str
    method: str
    path: str
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)
    expect: tuple[int, str | None] = (200, "")
    message: str | None = None
    causes: tuple[tuple[str, str], ...] | None = None  # (field, reason) of each cause, in any order
    text: str | None = None  # the whole body, where it is not JSON
    has: Mapping[str, object] = field(default_factory=dict)
    warnings: tuple[str, ...] | None = None
    setup: tuple[Step, ...] = ()
    then: tuple[Check, ...] = ()
    eventually: bool = False  # asked again until the code is right: the server hears of the setup with some delay
    cleanup: tuple[Step, ...] = ()  # releases what would outlive the namespace; its success is not asked for
    token: str | None = None  # "" sends none


def post(path: str, body: Json, **save: str) -> Step:
    return Step("POST", path, body, save=save)


def fill(value: Any, saved: Mapping[str, str]) -> Any:
    """Puts the namespace and saved values into every string of a body, path or expectation."""
    if isinstance(value, str):
        for name, text in saved.items():
            value = value.replace("{" + name + "}", text)
        return value
    if isinstance(value, Mapping):
        return {fill(key, saved): fill(item, saved) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [fill(item, saved) for item in value]
    return value


def dig(obj: Any, path: str) -> Any:
    """The value at `spec.ports[0].name`, or None. Dots inside a key are written `~`; `#` at the end counts."""
    for part in path.replace("[", ".[").split("."):
        key = part.replace("~", ".")
        if obj is None:
            return None
        if key == "#":
            obj = len(obj)
        elif key.startswith("["):
            index = int(key[1:-1])
            obj = obj[index] if isinstance(obj, list) and -len(obj) <= index < len(obj) else None
        else:
            obj = obj.get(key) if isinstance(obj, dict) else None
    return obj
