"""What each endpoint of an object may write: the main one no status, `status` nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ullage.standalone.apiserver.auth import signing_requests
from ullage.standalone.apiserver.fields.fieldset import EMPTY, LEAF, Fields
from ullage.standalone.apiserver.kinds.resources import Resource
from ullage.standalone.apiserver.objects import Json, dig

# kinds whose status endpoint ignores labels too
_STATUS_KEEPS_LABELS: Final = frozenset({"daemonsets", "deployments", "replicasets", "statefulsets"})


def reset_fields(resource: Resource, subresource: str) -> Fields:
    """The fields that an endpoint ignores: `status` on the main one if it has an endpoint of its own, the rest on that one."""
    if not subresource:
        return {"f:status": LEAF} if resource.has("status") else EMPTY
    if subresource != "status":
        return EMPTY
    if resource.custom is not None:
        return {"f:metadata": LEAF, "f:spec": LEAF}
    if resource.group == "apps" and resource.plural in _STATUS_KEEPS_LABELS:
        return {"f:metadata": {"f:labels": LEAF}, "f:spec": LEAF}
    return {"f:spec": LEAF}


def _without_status(resource: Resource, new: Json, live: Json) -> Json:
    if resource.group_resource == signing_requests.RESOURCE:  # what was asked for, and by whom, is settled
        new = {**new, "spec": live.get("spec", {})}
    if not resource.has("status"):
        return new
    if "status" in live:
        return {**new, "status": live["status"]}
    return {key: value for key, value in new.items() if key != "status"}


def _status_only(resource: Resource, new: Json, live: Json) -> Json:
    found = {**live, "metadata": _status_metadata(resource, new, live)}
    found.pop("status", None)
    if "status" in new:
        found["status"] = new["status"]
    if resource.group_resource == signing_requests.RESOURCE:
        asked, held = new.get("status") or {}, live.get("status") or {}
        found["status"] = signing_requests.keep_decisions(asked, held, name=live["metadata"]["name"])
    return found


def _status_metadata(resource: Resource, new: Json, live: Json) -> Json:
    """Built-in kinds let a status update touch labels, annotations and finalizers; custom ones do not."""
    keys = ("managedFields", "labels", "annotations", "finalizers") if resource.custom is None else ("managedFields",)
    kept = {key: value for key, value in live["metadata"].items() if key not in keys}
    return kept | {key: new["metadata"][key] for key in keys if key in new["metadata"]}


def _finalizers_only(resource: Resource, new: Json, live: Json) -> Json:
    spec = {**live.get("spec", {}), "finalizers": dig(new, "spec", "finalizers") or []}
    return {**live, "spec": spec}


def _approval(resource: Resource, new: Json, live: Json) -> Json:
    conditions = dig(new, "status", "conditions") or []
    meta = _status_metadata(resource, new, live)
    return {**live, "metadata": meta, "status": {**live.get("status", {}), "conditions": conditions}}


def _ephemeral_containers(resource: Resource, new: Json, live: Json) -> Json:
    spec = {key: value for key, value in live.get("spec", {}).items() if key != "ephemeralContainers"}
    if added := dig(new, "spec", "ephemeralContainers"):
        spec["ephemeralContainers"] = added
    return {**_with_fields(new, live), "spec": spec}


def _resources(resource: Resource, new: Json, live: Json) -> Json:
    """What the endpoint `resize` may write: the resources of containers. Others than those that are there are refused later."""
    spec = dict(live.get("spec", {}))
    for name in ("containers", "initContainers"):
        wanted, held = dig(new, "spec", name) or [], spec.get(name) or []
        if [one.get("name") for one in wanted] != [one.get("name") for one in held]:
            return {**_with_fields(new, live), "spec": {**spec, name: wanted}}
        if held:
            spec[name] = [_resized(old, one) for old, one in zip(held, wanted, strict=True)]
    return {**_with_fields(new, live), "spec": spec}


def _resized(container: Json, wanted: Json) -> Json:
    kept = {key: value for key, value in container.items() if key not in ("resources", "resizePolicy")}
    return kept | {key: wanted[key] for key in ("resources", "resizePolicy") if key in wanted}


def _with_fields(new: Json, live: Json) -> Json:
    """The live object, with who owns its fields from now on."""
    meta = {key: value for key, value in live["metadata"].items() if key != "managedFields"}
    if "managedFields" in new["metadata"]:
        meta["managedFields"] = new["metadata"]["managedFields"]
    return {**live, "metadata": meta}


_RULES: dict[str, Callable[[Resource, Json, Json], Json]] = {
    "": _without_status,
    "scale": _without_status,
    "status": _status_only,
    "finalize": _finalizers_only,
    "approval": _approval,
    "ephemeralcontainers": _ephemeral_containers,
    "resize": _resources,
}


def written_part(resource: Resource, subresource: str, new: Json, live: Json) -> Json:
    """What of a new version an endpoint may write; the rest is as it was."""
    return _RULES.get(subresource, _without_status)(resource, new, live)
