"""The `scale` subresource: an object's replica counts, in the same form for every kind that has them."""

from __future__ import annotations

from typing import Any

from ullage.selectors import LabelSelector
from ullage.standalone.apiserver.go_text import go_text
from ullage.standalone.apiserver.kinds.resources import Resource
from ullage.standalone.apiserver.objects import Json, dig
from ullage.standalone.apiserver.request.request import as_object
from ullage.standalone.apiserver.status import ApiError, FieldError, bad_request, invalid, invalid_value

_BUILTIN = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".spec.selector",
}


def _paths(resource: Resource) -> Json:
    if resource.custom is None:
        return _BUILTIN
    version = next(v for v in resource.custom["versions"] if v["name"] == resource.version)
    found: Json = version["subresources"]["scale"]
    return found


def replicas_path(resource: Resource) -> tuple[str, ...]:
    return tuple(_paths(resource)["specReplicasPath"].strip(".").split("."))


def _at(obj: Json, path: str | None) -> Any:
    return dig(obj, *path.strip(".").split(".")) if path else None


def scale_of(resource: Resource, obj: Json) -> Json:
    """The Scale that stands for an object."""
    paths, meta = _paths(resource), obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    spec, status = {}, {"replicas": _at(obj, paths["statusReplicasPath"]) or 0}
    if replicas := _at(obj, paths["specReplicasPath"]):
        spec["replicas"] = replicas
    selector = _at(obj, paths.get("labelSelectorPath"))
    if isinstance(selector, dict) and resource.custom is None:
        # A ReplicationController's selector is a plain map of labels.
        plain = "matchLabels" not in selector and "matchExpressions" not in selector
        selector = str(LabelSelector.of({"matchLabels": selector} if plain else selector))
    if isinstance(selector, str) and selector:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: meta[key] for key in kept if key in meta},
        "spec": spec,
        "status": status,
    }


def check_scale(scale: object, name: str) -> Json:
    """What was sent, or came out of a patch, as a Scale of the object of that name. Raises 400 or 422."""
    try:
        found = as_object(scale)
    except ApiError as error:
        raise invalid("", "", "", [invalid_value("patch", go_text(scale), error.message)]) from None
    sent = dig(found, "metadata", "name")
    if not sent:
        raise bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
    if sent != name:
        raise bad_request(f"the name of the object ({sent}) does not match the name on the URL ({name})")
    return found


def scaled(resource: Resource, obj: Json, scale: Json) -> Json:
    """The object with the replicas that a Scale asks for. The Scale names its object: `check_scale` has seen to it."""
    replicas = dig(scale, "spec", "replicas") or 0
    if resource.custom is None and (not isinstance(replicas, int) or replicas < 0):
        fault = invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid("autoscaling", "Scale", obj["metadata"]["name"], [fault])
    *parents, last = replicas_path(resource)
    found = {**obj, "metadata": dict(obj["metadata"])}
    inner = found
    for key in parents:
        inner[key] = dict(inner.get(key) or {})
        inner = inner[key]
    inner[last] = replicas
    for key in ("resourceVersion", "uid"):
        if sent := scale["metadata"].get(key):
            found["metadata"][key] = sent
    return found


def with_replica_faults(resource: Resource, obj: Json, errors: list[FieldError]) -> list[FieldError]:
    """The errors, and what is wrong with the replicas of a custom kind that has a scale."""
    if resource.custom is None or not resource.has("scale"):
        return errors
    path = _paths(resource)["specReplicasPath"]
    found: Any = obj
    for key in path.strip(".").split("."):
        if found is not None and not isinstance(found, dict):
            detail = f"{path} accessor error: {found} is of the type {_go_type(found)}, expected map[string]interface {{}}"
            fault = invalid_value(path, 0, detail)
            break
        found = (found or {}).get(key)
    else:
        if not isinstance(found, int) or found >= 0:
            return errors
        fault = invalid_value(path, found, "should be a non-negative integer")
    last = len(errors) - 1 if errors and errors[-1].field == "<nil>" else len(errors)
    return [*errors[:last], fault, *errors[last:]]


def _go_type(value: object) -> str:
    return "[]interface {}" if isinstance(value, list) else type(value).__name__
