"""Which Secrets a class names, and which of its parameters are not for the storage system.

Kubernetes reserves a prefix for parameters that are meant for whoever calls a driver: they name Secrets and the file system.
The name of a Secret may have variables (`${pvc.namespace}`). One that stands for nothing is refused, and so is a reserved
parameter that nobody knows: a misspelt one would otherwise mean a call without the Secret.

Pure. The values of Secrets are read elsewhere, in `secrets.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from ullage.errors import BadInput
from ullage.names import is_label, is_subdomain
from ullage.snapshots.backends.base import Parameters
from ullage.snapshots.model import Record, Ref, SnapshotClass

PREFIX: Final = "csi.storage.k8s.io/"
FILESYSTEM: Final = f"{PREFIX}fstype"
PROVISIONER: Final = "provisioner"
SNAPSHOTTER: Final = "snapshotter"
SNAPSHOT_LISTER: Final = "snapshotter-list"
# On a record: the parameters of its class, as they were when the driver took the snapshot. The class may change, or go.
PARAMETERS: Final = "ullage.io/class-parameters"
LONGEST_STAMP: Final = 32768  # characters
# Whose Secrets a PersistentVolume refers to, and in which field of its CSI source.
REFERENCES: Final = {
    "controller-publish": "controllerPublishSecretRef",
    "controller-expand": "controllerExpandSecretRef",
    "node-stage": "nodeStageSecretRef",
    "node-publish": "nodePublishSecretRef",
    "node-expand": "nodeExpandSecretRef",
}

SNAPSHOT_ROLES: Final = (SNAPSHOTTER, SNAPSHOT_LISTER)  # whose Secrets a class of snapshots may name
RESTORE_ROLES: Final = (PROVISIONER, *REFERENCES)  # whose Secrets a StorageClass may name

_VARIABLE: Final = re.compile(r"\$\{([^}]*)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Variables:
    """What `${…}` stands for in the name of a Secret, and in its namespace. The second has less: whoever may choose the name
    of an object in their own namespace must not choose the namespace that a Secret is read from."""

    name: Mapping[str, str]
    namespace: Mapping[str, str]


def claim_variables(*, namespace: str, name: str, volume: str) -> Variables:
    """In a StorageClass, for one claim and the volume that is made for it."""
    common = {"pvc.namespace": namespace, "pv.name": volume}
    return Variables(name={**common, "pvc.name": name}, namespace=common)


def snapshot_variables(*, namespace: str, name: str, record: str) -> Variables:
    """In a VolumeSnapshotClass, for one snapshot and its record."""
    common = {"volumesnapshot.namespace": namespace, "volumesnapshotcontent.name": record}
    return Variables(name={**common, "volumesnapshot.name": name}, namespace=common)


def secret_of(parameters: Parameters, role: str, *, variables: Variables) -> Ref | None:
    """The Secret that a class names for a role (`provisioner`, `snapshotter`…); None where it names none."""
    name_key, namespace_key = f"{PREFIX}{role}-secret-name", f"{PREFIX}{role}-secret-namespace"
    name, namespace = parameters.get(name_key, ""), parameters.get(namespace_key, "")
    if not name and not namespace:
        return None
    for key, value, other in ((name_key, name, namespace_key), (namespace_key, namespace, name_key)):
        if not value:
            raise BadInput("parameter", other, f"it is set and {key} is not; a Secret needs both")
    return Ref(
        _expanded(namespace_key, namespace, variables=variables.namespace, allowed=is_label),
        _expanded(name_key, name, variables=variables.name, allowed=is_subdomain),
    )


def named_secret(parameters: Parameters, role: str) -> Ref | None:
    """The Secret that a class names for a role, with its variables as they are written; None where there is none, or half."""
    name, namespace = (parameters.get(f"{PREFIX}{role}-secret-{half}", "") for half in ("name", "namespace"))
    return Ref(namespace, name) if name and namespace else None


def varies(text: str) -> bool:
    """Whether it stands for something else with each request."""
    return "$" in text


def parameters_stamp(parameters: Parameters) -> str | None:
    """The class's parameters for a record whose snapshot was taken with them; None for more than an annotation should hold."""
    text = msgspec.json.encode(dict(sorted(parameters.items()))).decode()
    return text if len(text) <= LONGEST_STAMP else None


def stamped_parameters(record: Record) -> Parameters | None:
    """Those that a record's snapshot was taken with; None where that is not known."""
    text = record.meta.annotations.get(PARAMETERS)
    try:
        return msgspec.json.decode(text, type=dict[str, str]) if text is not None else None
    except msgspec.MsgspecError:
        return None


def list_secret(record: Record, found: SnapshotClass | None) -> Ref | None:
    """The Secret for questions about a record's snapshot: the one that its class names for lists, else the one for all else."""
    parameters, ref = stamped_parameters(record) or (found.parameters if found is not None else {}), record.ref
    variables = snapshot_variables(namespace=ref.namespace, name=ref.name, record=record.meta.name)
    try:
        return secret_of(parameters, SNAPSHOT_LISTER, variables=variables) or record.secret
    except BadInput:
        return record.secret


def references(parameters: Parameters, *, variables: Variables) -> dict[str, dict[str, str]]:
    """What a PersistentVolume says about Secrets to those who attach and mount it: `{"nodeStageSecretRef": {…}}`."""
    found = {field: secret_of(parameters, role, variables=variables) for role, field in REFERENCES.items()}
    return {field: {"name": ref.name, "namespace": ref.namespace} for field, ref in found.items() if ref}


def driver_parameters(parameters: Parameters, *, roles: tuple[str, ...]) -> dict[str, str]:
    """What of a class the storage system gets: all without the prefix. `roles` are those that it may name Secrets for."""
    known = {f"{PREFIX}{role}-secret-{half}" for role in roles for half in ("name", "namespace")}
    if PROVISIONER in roles:
        known.add(FILESYSTEM)
    for key in sorted(parameters):
        if key.startswith(PREFIX) and key not in known:
            raise BadInput("parameter", key, f"not known; with the prefix {PREFIX} there are {', '.join(sorted(known))}")
    return {key: value for key, value in parameters.items() if not key.startswith(PREFIX)}


def _expanded(key: str, template: str, *, variables: Mapping[str, str], allowed: Callable[[str], bool]) -> str:
    unknown = next((variable for variable in _VARIABLE.findall(template) if variable not in variables), None)
    if unknown is not None:
        there = ", ".join(f"${{{variable}}}" for variable in sorted(variables))
        raise BadInput(f"parameter {key}", template, f"${{{unknown}}} stands for nothing here; there are {there}")
    expanded = _VARIABLE.sub(lambda variable: variables[variable[1]], template)
    if not allowed(expanded):
        raise BadInput(f"parameter {key}", template, f"{expanded} cannot be the name of an object")
    return expanded
