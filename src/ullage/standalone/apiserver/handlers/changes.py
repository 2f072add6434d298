"""What a write may do to an object: pure rules of the pipeline in `writes`, about one object and its version before."""

from __future__ import annotations

from dataclasses import replace

from ullage.standalone.apiserver.handlers.scale import with_replica_faults
from ullage.standalone.apiserver.kinds.metadata import IMMUTABLE, validate_metadata, validate_metadata_update
from ullage.standalone.apiserver.kinds.resources import Resource
from ullage.standalone.apiserver.kinds.strategies.base import Strategy
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.schema.custom import BLOCKING
from ullage.standalone.apiserver.status import (
    ApiError,
    FieldError,
    conflict,
    forbidden_field,
    invalid,
    invalid_value,
    json_string,
)

# Kinds beside the custom ones whose update must name the version it replaces.
_CONDITIONAL = frozenset(
    {
        "apiservices.apiregistration.k8s.io",
        "csidrivers.storage.k8s.io",
        "csinodes.storage.k8s.io",
        "csistoragecapacities.storage.k8s.io",
        "customresourcedefinitions.apiextensions.k8s.io",
        "leases.coordination.k8s.io",
        "mutatingadmissionpolicies.admissionregistration.k8s.io",
        "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "poddisruptionbudgets.policy",
        "runtimeclasses.node.k8s.io",
        "validatingadmissionpolicies.admissionregistration.k8s.io",
        "validatingadmissionpolicybindings.admissionregistration.k8s.io",
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
        "volumeattachments.storage.k8s.io",
    }
)


def is_unversioned(meta: Json) -> bool:
    """Whether a change names no version that it replaces; zero is none."""
    version = meta.get("resourceVersion") or ""
    return not version.strip("0")


def check_preconditions(resource: Resource, new: Json, live: Json, *, patched: bool, subresource: str) -> None:
    """Refuses a change that was made for another object, or for another version of it."""
    meta, old = new["metadata"], live["metadata"]
    name = old["name"]
    # A patch of a custom object's status is read for its status and its version alone.
    unread = patched and subresource == "status" and resource.custom is not None
    if meta.get("uid") and meta["uid"] != old["uid"] and not unread:
        if patched:
            fault = invalid_value("metadata.uid", meta["uid"], IMMUTABLE)
            raise invalid(resource.group, resource.kind, name, [fault] if resource.custom else [fault, fault])
        place = "/".join(part for part in (resource.group if resource.custom else "", resource.plural) if part)
        key = "/".join(part for part in ("/registry", place, old.get("namespace", ""), name) if part)
        text = (
            f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
            f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {old['uid']}"
        )
        raise conflict(resource.group, resource.plural, name, text)
    version = meta.get("resourceVersion")
    if is_unversioned(meta):
        # A patch that names none is made for whatever is there; one that says zero is not.
        if (resource.custom is not None or resource.group_resource in _CONDITIONAL) and (version or not patched):
            fault = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
            raise invalid(resource.group, resource.plural, name, [fault])  # it names the resource where others name the kind
    elif version != old["resourceVersion"]:
        if not version.isascii() or not version.isdigit():
            raise ApiError(500, "", f'strconv.ParseUint: parsing "{version}": invalid syntax')
        raise conflict(resource.group, resource.plural, name)


def count_generation(resource: Resource, strategy: Strategy, *, new: Json, live: Json, subresource: str) -> None:
    """`generation` counts changes of what the user asks for: never status, and of metadata only what the kind counts."""
    meta, old = new["metadata"], live["metadata"]
    if not strategy.generation and not strategy.late_generation:
        return
    ignored = {"metadata", "status"} if resource.custom is None or resource.has("status") else {"metadata"}
    wanted = {key: value for key, value in new.items() if key not in ignored}
    before = {key: value for key, value in live.items() if key not in ignored}
    changed = wanted != before or (
        not subresource and any((meta.get(part) or {}) != (old.get(part) or {}) for part in strategy.counted)
    )
    generation = old.get("generation", 0)
    if changed and not strategy.fixed_generation:
        meta["generation"] = generation + 1
    elif generation:
        meta["generation"] = generation


def validate_new(resource: Resource, strategy: Strategy, obj: Json) -> None:
    """Raises a 422 with every fault of an object that is to be created."""
    meta = obj["metadata"]
    custom = resource.custom is not None
    errors = validate_metadata(meta, namespaced=resource.namespaced, name_rule=strategy.name_rule, custom=custom)
    errors += strategy.validate(obj)
    if resource.schema is not None:
        errors += resource.schema.validate(obj, blocked=any(error.kind in BLOCKING for error in errors))
    errors = with_replica_faults(resource, obj, errors)
    if errors:
        raise invalid(resource.group, resource.kind, meta.get("name", ""), errors)


def validate_changed(resource: Resource, strategy: Strategy, *, new: Json, live: Json, subresource: str) -> None:
    """Raises a 422 with every fault of an object's new version."""
    errors = validate_metadata_update(new["metadata"], live["metadata"], custom=resource.custom is not None)
    if resource.custom is None:
        errors += errors  # kube-apiserver checks them in two places, and tells them twice
    errors += strategy.validate(new)
    if subresource == "ephemeralcontainers":
        errors += _ephemeral_faults(new, live)
    elif subresource not in ("binding", "resize"):  # these set what nobody else may
        errors += strategy.validate_update(new, live)
    if resource.schema is not None:
        errors += resource.schema.validate(new, live, blocked=any(error.kind in BLOCKING for error in errors))
    if subresource == "status":
        errors = [_within_status(error) for error in errors]
    else:
        errors = with_replica_faults(resource, new, errors)
    if errors:
        raise invalid(resource.group, resource.kind, live["metadata"]["name"], errors)


def _ephemeral_faults(new: Json, live: Json) -> list[FieldError]:
    """Ephemeral containers are added, and stay as they are."""
    place = "spec.ephemeralContainers"
    found = {one.get("name"): one for one in new["spec"].get("ephemeralContainers") or ()}
    faults: list[FieldError] = []
    for old in live["spec"].get("ephemeralContainers") or ():
        name = old["name"]
        if name not in found:
            faults.append(forbidden_field(place, f"existing ephemeral containers {json_string(name)} may not be removed\n"))
        elif found[name] != old:
            faults.append(forbidden_field(place, f"existing ephemeral containers {json_string(name)} may not be changed\n"))
    return faults


def _within_status(error: FieldError) -> FieldError:
    """A status is validated as a document of its own, and its messages say so."""
    return replace(error, body=error.body.replace(f"{error.field} in body", f"{error.field.removeprefix('status.')} in body"))


def same(new: Json, live: Json) -> bool:
    """Whether nothing changed but the times in managedFields, which alone are no change."""
    if new == live:
        return True
    new_meta = {key: value for key, value in new["metadata"].items() if key != "managedFields"}
    live_meta = {key: value for key, value in live["metadata"].items() if key != "managedFields"}
    if new_meta != live_meta or new | {"metadata": None} != live | {"metadata": None}:
        return False
    return _owners(new) == _owners(live)


def _owners(obj: Json) -> list[Json]:
    entries = obj["metadata"].get("managedFields") or []
    return [{key: value for key, value in entry.items() if key != "time"} for entry in entries]
