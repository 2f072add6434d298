"""From a valid CustomResourceDefinition to a served one: the names it may use, its conditions, its resources.

Two definitions of one group may not use a name twice; the later one waits, unserved, until the name is free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ullage.standalone.apiserver.kinds.builtin import builtin_groups, builtin_storages
from ullage.standalone.apiserver.kinds.resources import Column, Resource, Schema, Subresource
from ullage.standalone.apiserver.objects import Json, dig
from ullage.standalone.apiserver.schema import OBJECT_META, compile_custom, definitions
from ullage.standalone.apiserver.status import json_string

VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_SUB_VERBS = ("get", "patch", "update")
_APPROVAL = "KubernetesAPIApprovalPolicyConformant"
_ANNOTATION = "api-approved.kubernetes.io"


class Reserved(Exception):
    """A definition whose objects would lie among those of a built-in kind."""


def storage_of(crd: Json) -> str:
    """The key space of a definition's objects. It has the definition's name, and is never that of a built-in kind: a
    definition that got its name by whatever way has none."""
    name: str = crd["metadata"]["name"]
    if name in builtin_storages():
        raise Reserved(f"{name} is a kind of the API server itself")
    return name


def is_own_group(group: str) -> bool:
    """Whether the API server answers for all of a group: as with kube-apiserver, definitions add nothing to it."""
    return group in builtin_groups()


def accept(crd: Json, others: Iterable[Json], now: str) -> Json:
    """The status of a definition beside all other ones: accepted names, conditions, stored versions."""
    spec, status = crd["spec"], crd.get("status") or {}
    names, before = spec["names"], status.get("acceptedNames") or {}
    resources, kinds = _taken(crd, others)
    accepted: Json = {"plural": before.get("plural", ""), "kind": before.get("kind", "")}
    reason, message = "NoConflicts", "no conflicts found"
    for key, taken, title in (
        ("plural", resources, "Plural"),
        ("singular", resources, "Singular"),
        ("shortNames", resources, "ShortNames"),
        ("kind", kinds, "Kind"),
        ("listKind", kinds, "ListKind"),
    ):
        wanted = names.get(key)
        clashes = [name for name in (wanted if isinstance(wanted, list) else [wanted]) if name in taken]
        if clashes:
            reason = f"{title}Conflict"
            message = ", ".join(f"{json_string(name)} is already in use" for name in clashes)
        value = before.get(key) if clashes else wanted
        if value:
            accepted[key] = value
    if names.get("categories"):
        accepted["categories"] = names["categories"]
    conditions = _conditions(crd, reason=reason, message=message, now=now)
    order = ("plural", "singular", "shortNames", "kind", "listKind", "categories")
    accepted = {key: accepted[key] for key in order if key in accepted}
    return {"conditions": conditions, "acceptedNames": accepted, "storedVersions": list(status.get("storedVersions") or ())}


def _taken(crd: Json, others: Iterable[Json]) -> tuple[set[str], set[str]]:
    """The names that other definitions of the group hold: of resources, and of kinds."""
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        if (
            dig(other, "metadata", "name") == dig(crd, "metadata", "name")
            or dig(other, "spec", "group") != crd["spec"]["group"]
        ):
            continue
        held = dig(other, "status", "acceptedNames") or {}
        resources |= {held.get("plural", ""), held.get("singular", ""), *(held.get("shortNames") or ())} - {""}
        kinds |= {held.get("kind", ""), held.get("listKind", "")} - {""}
    return resources, kinds


def _conditions(crd: Json, *, reason: str, message: str, now: str) -> list[Json]:
    conditions: list[Json] = [dict(one) for one in dig(crd, "status", "conditions") or ()]
    note = (dig(crd, "metadata", "annotations") or {}).get(_ANNOTATION, "")
    group = crd["spec"]["group"]
    if note and (group.endswith((".k8s.io", ".kubernetes.io")) or group in ("k8s.io", "kubernetes.io")):
        if note.startswith("unapproved"):
            _set(conditions, _APPROVAL, "False", "UnapprovedAnnotation", f"not approved: {json_string(note)}", now=now)
        else:
            _set(conditions, _APPROVAL, "True", "ApprovedAnnotation", f"approved in {note}", now=now)
    free = reason == "NoConflicts"
    _set(conditions, "NamesAccepted", "True" if free else "False", reason, message, now=now)
    established = any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions)
    if free:
        _set(conditions, "Established", "True", "InitialNamesAccepted", "the initial names have been accepted", now=now)
    elif not established:
        _set(conditions, "Established", "False", "NotAccepted", "not all names are accepted", now=now)
    return conditions


def _set(conditions: list[Json], kind: str, status: str, reason: str, message: str, *, now: str) -> None:
    """Puts a condition in its place; its time changes only with its status."""
    found = next((one for one in conditions if one.get("type") == kind), None)
    since = (found.get("lastTransitionTime") if found is not None and found.get("status") == status else None) or now
    value = {"type": kind, "status": status, "lastTransitionTime": since, "reason": reason, "message": message}
    if found is None:
        conditions.append(value)
    else:
        found.clear()
        found.update(value)


def resources_of(crd: Json, compile_schema: Callable[[Json], Schema] = compile_custom) -> list[Resource]:
    """One resource for each version that is served, in the order of the definition."""
    spec = crd["spec"]
    held = dig(crd, "status", "acceptedNames") or {}
    names = held if held.get("kind") else spec["names"]
    storage, plural = storage_of(crd), spec["names"]["plural"]
    stored = next(version["name"] for version in spec["versions"] if version.get("storage"))
    return [
        Resource(
            group=spec["group"],
            version=version["name"],
            plural=plural,
            singular=names.get("singular", ""),
            kind=names["kind"],
            namespaced=spec["scope"] == "Namespaced",
            verbs=VERBS,
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            subresources=_subresources(version.get("subresources") or {}, names["kind"]),
            storage=storage,
            storage_version=f"{spec['group']}/{stored}",
            schema=compile_schema(version["schema"]["openAPIV3Schema"]),
            raw=version["schema"]["openAPIV3Schema"],
            custom=spec,
            columns=_columns(version.get("additionalPrinterColumns") or ()),
            list_kind=names.get("listKind") or f"{names['kind']}List",
        )
        for version in spec["versions"]
        if version.get("served")
    ]


def _subresources(raw: Json, kind: str) -> dict[str, Subresource]:
    found: dict[str, Subresource] = {}
    if raw.get("status") is not None:
        found["status"] = Subresource("status", kind, _SUB_VERBS)
    if raw.get("scale") is not None:
        found["scale"] = Subresource("scale", "Scale", _SUB_VERBS, group="autoscaling", version="v1")
    return found


def _columns(raw: Iterable[Json]) -> tuple[Column, ...]:
    """The definition's columns; where it has none, the age (the name is every table's first column anyhow)."""
    columns = tuple(
        Column(
            name=column["name"],
            type=column["type"],
            format=column.get("format", ""),
            description=column.get("description", ""),
            priority=column.get("priority", 0),
            json_path=column["jsonPath"],
        )
        for column in raw
    )
    return columns or (Column("Age", "date", description=_age(), json_path=".metadata.creationTimestamp"),)


def _age() -> str:
    schema: Any = definitions.load().raw[OBJECT_META]
    return str(dig(schema, "properties", "creationTimestamp", "description") or "")
