"""Columns of admission's own kinds and of dynamic resource allocation."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from ullage.standalone.apiserver.objects import Json, dig
from ullage.standalone.apiserver.tables.ages import age
from ullage.standalone.apiserver.tables.cells import AGE, NAME, UNSET, Printer, col, deleting, many, name, text


def counted(*path: str) -> Callable[[Json, datetime], list[Any]]:
    """Name, length of one list, age."""
    return lambda obj, now: [name(obj), len(many(obj, *path)), age(obj, now)]


def admission_policy(rules: str) -> Callable[[Json, datetime], list[Any]]:
    def cells(obj: Json, now: datetime) -> list[Any]:
        kind = dig(obj, "spec", "paramKind")
        shown = f"{text(kind, 'apiVersion')}/{text(kind, 'kind')}" if kind else UNSET
        return [name(obj), len(many(obj, "spec", rules)), shown, age(obj, now)]

    return cells


def policy_binding(obj: Json, now: datetime) -> list[Any]:
    return [name(obj), text(obj, "spec", "policyName"), _parameters(dig(obj, "spec", "paramRef")), age(obj, now)]


def _parameters(found: Json | None) -> str:
    if not found:
        return UNSET
    if found.get("name"):
        return f"{found['namespace']}/{found['name']}" if found.get("namespace") else str(found["name"])
    labels = dig(found, "selector", "matchLabels") or {}
    shown = "".join(f"{key}: {labels[key]}," for key in sorted(labels))  # as the server prints the structure, unchanged
    return f"&LabelSelector{{MatchLabels:map[string]string{{{shown}}},MatchExpressions:[]LabelSelectorRequirement{{}},}}"


def resource_claim(obj: Json, now: datetime) -> list[Any]:
    states = ["allocated"] if dig(obj, "status", "allocation") else []
    if many(obj, "status", "reservedFor"):
        states.append("reserved")
    if deleting(obj):
        states.insert(0, "deleted")
    return [name(obj), ",".join(states) or "pending", age(obj, now)]


def resource_slice(obj: Json, now: datetime) -> list[Any]:
    spec = obj.get("spec") or {}
    return [name(obj), text(spec, "nodeName", empty=UNSET), text(spec, "driver"), text(spec, "pool", "name"), age(obj, now)]


def plain(obj: Json, now: datetime) -> list[Any]:
    return [name(obj), age(obj, now)]


GROUP, DRA, SLICE = "admissionregistration.k8s.io", "resource.k8s.io", "resource.v1.ResourceSliceSpec#"
WEBHOOKS = Printer((NAME, col("Webhooks", "How many webhooks it registers", type="integer"), AGE), counted("webhooks"))
PARAM_KIND = col("ParamKind", "The kind of its parameters")
BINDING = Printer(
    (NAME, col("PolicyName", "The policy that it puts to use"), col("ParamRef", "The parameters that it gives"), AGE),
    policy_binding,
)

PRINTERS = {
    (GROUP, "validatingwebhookconfigurations"): WEBHOOKS,
    (GROUP, "mutatingwebhookconfigurations"): WEBHOOKS,
    (GROUP, "validatingadmissionpolicies"): Printer(
        (NAME, col("Validations", "How many rules it has", type="integer"), PARAM_KIND, AGE), admission_policy("validations")
    ),
    (GROUP, "mutatingadmissionpolicies"): Printer(
        (NAME, col("Mutations", "How many rules it has", type="integer"), PARAM_KIND, AGE), admission_policy("mutations")
    ),
    (GROUP, "validatingadmissionpolicybindings"): BINDING,
    (GROUP, "mutatingadmissionpolicybindings"): BINDING,
    (DRA, "deviceclasses"): Printer((NAME, AGE), plain),
    (DRA, "resourceclaimtemplates"): Printer((NAME, AGE), plain),
    (DRA, "resourceclaims"): Printer((NAME, col("State", "Whether it is allocated and reserved"), AGE), resource_claim),
    (DRA, "resourceslices"): Printer(
        (
            NAME,
            col("Node", SLICE + "nodeName"),
            col("Driver", SLICE + "driver"),
            col("Pool", "resource.v1.ResourcePool#name"),
            AGE,
        ),
        resource_slice,
    ),
}
