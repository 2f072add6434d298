"""What names and the rest of an object's metadata may be, said in the words of kube-apiserver.

Every write passes here, so the common case (all is well) is a few regular expressions and cached answers.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from ullage import names
from ullage.selectors import key_faults, value_faults
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import FieldError, forbidden_field, invalid_value, required, too_long

NameRule = Callable[[str], list[str]]

MAX_ANNOTATIONS = 256 * 1024
IMMUTABLE = "field is immutable"
PREFER = (
    "prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers"
)
STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})


def subdomain(name: str) -> list[str]:
    """`a.b-c`: what most kinds ask of a name."""
    faults = ["must be no more than 253 characters"] if len(name) > 253 else []
    return faults if names.SUBDOMAIN.fullmatch(name) else [*faults, names.SUBDOMAIN_SENTENCE]


def short_subdomain(limit: int) -> NameRule:
    """A subdomain that leaves room for what a controller will append to it."""

    def rule(name: str) -> list[str]:
        faults = subdomain(name)
        return [*faults, f"must be no more than {limit} characters"] if len(name) > limit else faults

    return rule


def label(name: str) -> list[str]:
    """`a-b`: names that become a part of a host name."""
    faults = ["must be no more than 63 characters"] if len(name) > 63 else []
    if names.LABEL.fullmatch(name):
        return faults
    return [*faults, "must not contain dots"] if names.SUBDOMAIN.fullmatch(name) else [*faults, names.LABEL_SENTENCE]


def label_1035(name: str) -> list[str]:
    """A label that starts with a letter."""
    faults = ["must be no more than 63 characters"] if len(name) > 63 else []
    return faults if names.LABEL_1035.fullmatch(name) else [*faults, names.LABEL_1035_SENTENCE]


def path_segment(name: str) -> list[str]:
    """Anything that can stand between two slashes of an address."""
    if name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{letter}'" for letter in "/%" if letter in name]


def ip_address(name: str) -> list[str]:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    return []


def anything(name: str) -> list[str]:
    """For the kinds whose names the server takes as they come."""
    return []


def validate_metadata(meta: Json, *, namespaced: bool, name_rule: NameRule, custom: bool = False) -> list[FieldError]:
    """Faults in the metadata of an object that is to be stored, its name already made from `generateName`."""
    errors = _name_errors(meta, name_rule)
    if namespaced and not meta.get("namespace"):
        errors.append(required("metadata.namespace"))
    elif meta.get("namespace") and not namespaced:
        errors.append(forbidden_field("metadata.namespace", "not allowed on this type"))
    errors += _common_errors(meta, custom=custom)
    return errors


def validate_metadata_update(new: Json, old: Json, *, custom: bool = False) -> list[FieldError]:
    """Faults in the metadata of a new version of an object. `carry_metadata` has filled what clients may leave out."""
    errors = []
    if new.get("deletionTimestamp") or old.get("deletionTimestamp"):
        errors += _late_finalizers(new, old)
    for name in _FIXED:
        if new.get(name) != old.get(name):
            errors.append(invalid_value(f"metadata.{name}", new.get(name), IMMUTABLE))
    return errors + _common_errors(new, custom=custom)


_FIXED = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
_CARRIED = ("uid", "creationTimestamp", "generation")


def carry_metadata(new: Json, old: Json) -> None:
    """Takes over what a client cannot change and need not send: an update is judged by the rest."""
    for name in _CARRIED:
        _take(name, new, old)
    if old.get("deletionTimestamp"):
        new["deletionTimestamp"] = old["deletionTimestamp"]
    if new.get("deletionGracePeriodSeconds") is None:
        _take("deletionGracePeriodSeconds", new, old)


def _take(name: str, new: Json, old: Json) -> None:
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)


def _name_errors(meta: Json, rule: NameRule) -> list[FieldError]:
    errors = []
    if prefix := meta.get("generateName"):
        # A prefix may end in a dash, the name that it becomes will not.
        seen = f"{prefix[:-2]}a" if prefix.endswith("-") and len(prefix) > 1 else prefix
        errors = [invalid_value("metadata.generateName", prefix, fault) for fault in rule(seen)]
    if not (name := meta.get("name")):
        return [*errors, required("metadata.name", "name or generateName is required")]
    return errors + [invalid_value("metadata.name", name, fault) for fault in rule(name)]


def _common_errors(meta: Json, *, custom: bool) -> list[FieldError]:
    errors = []
    if (meta.get("generation") or 0) < 0:
        errors.append(invalid_value("metadata.generation", meta["generation"], "must be greater than or equal to 0"))
    if labels := meta.get("labels"):
        errors += validate_labels(labels, "metadata.labels")
    if annotations := meta.get("annotations"):
        errors += validate_annotations(annotations, "metadata.annotations")
    if owners := meta.get("ownerReferences"):
        errors += _owner_errors(owners)
    if finalizers := meta.get("finalizers"):
        errors += _finalizer_errors(finalizers, custom=custom)
    return errors


def finalizer_warnings(meta: Json, old: Json | None) -> list[str]:
    """What is said of new finalizers of a custom kind that anybody might use: on built-in kinds they are refused."""
    before = frozenset((old or {}).get("finalizers") or ())
    plain = [name for name in meta.get("finalizers") or () if name not in before and _is_plain(name)]
    return [f'metadata.finalizers: "{name}": {PREFER}' for name in plain]


def validate_labels(labels: Mapping[str, str], path: str) -> list[FieldError]:
    errors = []
    for key, value in labels.items():
        errors += [invalid_value(path, key, fault) for fault in _key_faults(key)]
        errors += [invalid_value(path, value, fault) for fault in _value_faults(value)]
    return errors


def validate_annotations(annotations: Mapping[str, str], path: str) -> list[FieldError]:
    errors = [invalid_value(path, key, fault) for key in annotations for fault in _key_faults(key.lower())]
    # Characters may be several bytes, so the cheap sum only spares the exact one.
    if sum(len(key) + len(value) for key, value in annotations.items()) * 4 > MAX_ANNOTATIONS:
        size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
        if size > MAX_ANNOTATIONS:
            errors.append(too_long(path, MAX_ANNOTATIONS))
    return errors


@lru_cache(maxsize=8192)
def _key_faults(key: str) -> tuple[str, ...]:
    return tuple(key_faults(key))


@lru_cache(maxsize=8192)
def _value_faults(value: str) -> tuple[str, ...]:
    return tuple(value_faults(value))


def _is_plain(finalizer: str) -> bool:
    return "/" not in finalizer and finalizer not in STANDARD_FINALIZERS


def _finalizer_errors(finalizers: Sequence[str], *, custom: bool) -> list[FieldError]:
    path = "metadata.finalizers"
    errors = []
    for index, name in enumerate(finalizers):
        errors += [invalid_value(path, name, fault) for fault in _key_faults(name)]
        if not custom and _is_plain(name):
            fault = "name is neither a standard finalizer name nor is it fully qualified"
            errors.append(invalid_value(f"{path}[{index}]", name, fault))
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        errors.append(invalid_value(path, finalizers, "finalizer orphan and foregroundDeletion cannot be both set"))
    return errors


def _late_finalizers(new: Json, old: Json) -> list[FieldError]:
    added = sorted(set(new.get("finalizers") or ()) - set(old.get("finalizers") or ()))
    if not added:
        return []
    names = ", ".join(f'"{name}"' for name in added)
    detail = f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{names}}}"
    return [forbidden_field("metadata.finalizers", detail)]


def _owner_errors(owners: Sequence[Json]) -> list[FieldError]:
    path = "metadata.ownerReferences"
    errors = []
    controller: Json | None = None
    for owner in owners:
        errors += _one_owner_errors(owner, path)
        if owner.get("controller"):
            if controller is not None:
                first, second = (f"{who.get('kind')}/{who.get('name')}" for who in (controller, owner))
                detail = (
                    f'Only one reference can have Controller set to true. Found "true" in references for {first} and {second}'
                )
                errors.append(invalid_value(path, owners, detail))
            controller = controller or owner
    return errors


def _one_owner_errors(owner: Json, path: str) -> list[FieldError]:
    api_version = owner.get("apiVersion") or ""
    group, _, version = api_version.rpartition("/")
    errors = []
    if not version or "/" in group:
        errors.append(invalid_value(f"{path}.apiVersion", api_version, "version must not be empty"))
    for key in ("kind", "name", "uid"):
        if not owner.get(key):
            errors.append(invalid_value(f"{path}.{key}", owner.get(key, ""), "must not be empty"))
    if (api_version, owner.get("kind")) == ("v1", "Event"):
        errors.append(invalid_value(path, _owner_text(owner), "/v1, Kind=Event is disallowed from being an owner"))
    return errors


def _owner_text(owner: Json) -> dict[str, Any]:
    """Its fields in the order of the published type, as messages show them."""
    order = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
    return {key: owner[key] for key in order if key in owner}
