"""What is to be done next about a claim that is to be filled from a snapshot.

Pure. A claim is looked at as it is, every time anew. The finalizer `ullage.io/restoring` on it says that the storage system may
have been asked for its volume: from then on the claim does not go before that volume has a PersistentVolume, or is gone too.
Nothing else is written down: what a volume is made from follows from the claim, its class and the snapshot, and none of these
can be changed by whoever may only edit claims.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ullage.errors import BadInput, NotNow
from ullage.kube.builtin.core import CLAIMS, PERSISTENT_VOLUMES, Node, PersistentVolumeClaim
from ullage.kube.builtin.storage import CsiNode, StorageClass, TopologyTerm
from ullage.kube.kinds import Kind, Meta, Object
from ullage.kube.objects import is_deleting
from ullage.quantity import Format, Quantity
from ullage.snapshots import class_parameters
from ullage.snapshots.backends.base import Restoration, Restored, Topology
from ullage.snapshots.controllers.claim_restore_eligibility import (
    PROVISIONERS,
    SELECTED_NODE,
    Blocker,
    RestoreFacts,
    cleanup_blocker,
    review,
)
from ullage.snapshots.data_source import RESTORING, has_begun, volume_name
from ullage.snapshots.model import Ref
from ullage.snapshots.restored_volume import FINALIZER, HANDLE, PROVISIONED_BY, RESTORED_FROM, SECRET_NAME, SECRET_NAMESPACE
from ullage.snapshots.source_volume import HOSTNAME

# Where a volume has to be reachable from, and where it can be: from nodes and classes to drivers, and back.


MOST: Final = 1000  # places that a class may allow: more would be a mistake, and a request that no driver takes


def topology_of(node: Node, csi_node: CsiNode, driver: str) -> Topology:
    """Where a driver sees a node; empty where it sees no difference. NotNow while a label is missing."""
    keys = next((one.topology_keys for one in csi_node.spec.drivers if one.name == driver), ())
    labels = node.metadata.labels
    missing = sorted(set(keys) - set(labels))
    if missing:
        raise NotNow(f"node {node.metadata.name} has no label {missing[0]}, by which driver {driver} tells where it is")
    return {key: labels[key] for key in sorted(keys)}


def allowed_topologies(storage_class: StorageClass) -> tuple[Topology, ...]:
    """The places that a class allows, each with one value for each key. Empty: all."""
    places = (place for term in storage_class.allowed_topologies for place in _places(term))
    return tuple(itertools.islice(places, MOST))


def _places(term: TopologyTerm) -> Iterable[Topology]:
    keys = [one.key for one in term.match_label_expressions]
    if keys:
        for chosen in itertools.product(*(one.values for one in term.match_label_expressions)):
            yield dict(zip(keys, chosen, strict=True))


def node_affinity(restored: Restored) -> dict[str, Any] | None:
    """What the PersistentVolume says to the scheduler; None: it can be reached from everywhere."""
    if restored.node:
        return _affinity([{HOSTNAME: restored.node}])
    return _affinity(restored.topologies) if restored.topologies else None


def _affinity(places: Sequence[Topology]) -> dict[str, Any]:
    terms = [
        {"matchExpressions": [{"key": key, "operator": "In", "values": [place[key]]} for key in sorted(place)]}
        for place in places
    ]
    return {"required": {"nodeSelectorTerms": terms}}


BINDER_SECONDS: Final = 2.0  # a cluster's binder writes within milliseconds; after this there is none that writes


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreRequest:
    """What the storage system is asked for. The values of the Secret are read at the last moment."""

    driver: str
    restoration: Restoration
    secret: Ref | None = None
    references: dict[str, dict[str, str]] = field(default_factory=dict)  # to Secrets, for a CSI source


@dataclass(frozen=True, slots=True)
class Leave:
    """Nothing."""


@dataclass(frozen=True, slots=True)
class Report:
    """Say why not, and rest until something changes."""

    blocker: Blocker


@dataclass(frozen=True, slots=True)
class AwaitBinder:
    """Look again after so many seconds, or when the claim changes: the binder is about to write on the claim. A write of ours
    in between makes the binder's fail, which tells the user so with the Event ProvisioningFailed."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Make:
    """Put the finalizer on unless it is, have the volume made, write its PersistentVolume, take the finalizer off."""

    request: RestoreRequest


@dataclass(frozen=True, slots=True)
class Undo:
    """See to it that nothing is left of the volume, then take the finalizer off."""

    request: RestoreRequest


@dataclass(frozen=True, slots=True)
class Release:
    """Take the finalizer off: the PersistentVolume tells of the volume now."""


RestorePlan = Leave | Report | AwaitBinder | Make | Undo | Release


def decide(facts: RestoreFacts) -> RestorePlan:
    begun = has_begun(facts.claim)
    if facts.made:
        return Release() if begun else Leave()
    unwanted = is_deleting(facts.claim.metadata) or bool(facts.claim.spec.volume_name)
    if _is_anothers(facts) or (unwanted and not begun):
        return Leave()
    if blocker := _stuck(facts) if unwanted else review(facts):
        return Report(blocker)
    try:
        request = request_of(facts)
    except BadInput as error:
        name = facts.claim.spec.storage_class_name
        return Report(Blocker("BadStorageClass", f"StorageClass {name}: {error}"))
    if unwanted:
        return Undo(request)
    left = 0.0 if begun or _is_asked_for(facts) else BINDER_SECONDS - facts.waited
    return AwaitBinder(left) if left > 0 else Make(request)


def _is_asked_for(facts: RestoreFacts) -> bool:
    """Whether the cluster's binder has asked the claim's provisioner for its volume: it writes nothing more until that is
    there."""
    notes = facts.claim.metadata.annotations
    return facts.storage_class is not None and facts.storage_class.provisioner in (notes.get(name) for name in PROVISIONERS)


def _is_anothers(facts: RestoreFacts) -> bool:
    """Another provisioner's, or another process of ours has the driver: then what was begun is that one's to finish."""
    return facts.storage_class is not None and facts.storage_class.provisioner not in facts.drivers


def _stuck(facts: RestoreFacts) -> Blocker | None:
    """A claim that goes, and whose volume cannot be looked for. Rather held than leaked."""
    missing = cleanup_blocker(facts)
    if missing is None:
        return None
    return Blocker(
        "CleanupBlocked",
        f"a volume {volume_name(facts.claim)} may have been made for the claim, and cannot be looked for: {missing.message}. "
        f"If there is none, or once it is deleted, take the finalizer {RESTORING} off",
    )


def request_of(facts: RestoreFacts) -> RestoreRequest:
    """For facts that passed the checks. Raises BadInput where the class's parameters cannot be used."""
    claim, found, record = facts.claim, facts.storage_class, facts.record
    assert found is not None
    assert record is not None
    meta, name = claim.metadata, volume_name(claim)
    node = meta.annotations.get(SELECTED_NODE, "")
    variables = class_parameters.claim_variables(namespace=meta.namespace, name=meta.name, volume=name)
    restoration = Restoration(
        name=name,
        snapshot=record.handle,
        size=facts.asked,
        parameters=class_parameters.driver_parameters(found.parameters, roles=class_parameters.RESTORE_ROLES),
        filesystem=found.parameters.get(class_parameters.FILESYSTEM, ""),
        block=claim.spec.volume_mode == "Block",
        access_modes=claim.spec.access_modes or ("ReadWriteOnce",),
        owner=meta.namespace,
        node=node,
        topologies=() if node else allowed_topologies(found),
    )
    return RestoreRequest(
        driver=found.provisioner,
        restoration=restoration,
        secret=class_parameters.secret_of(found.parameters, class_parameters.PROVISIONER, variables=variables),
        references=class_parameters.references(found.parameters, variables=variables),
    )


# The PersistentVolume that is written for a restored claim. Pure; `restored_volume.py` reads it back.


class NewVolume(Object):
    """A PersistentVolume to be created. Its source is whatever the backend says."""

    spec: Mapping[str, Any] = {}


NEW_VOLUMES: Final[Kind[NewVolume]] = Kind(
    PERSISTENT_VOLUMES.group,
    PERSISTENT_VOLUMES.version,
    PERSISTENT_VOLUMES.kind,
    PERSISTENT_VOLUMES.plural,
    NewVolume,
    namespaced=False,
    whole=False,
)


def new_volume(
    claim: PersistentVolumeClaim, request: RestoreRequest, *, storage_class: StorageClass, restored: Restored, snapshot: str
) -> NewVolume:
    """For this claim and no other; the cluster binds the two. `snapshot` is its name."""
    meta, spec = claim.metadata, claim.spec
    annotations = {
        PROVISIONED_BY: request.driver,
        RESTORED_FROM: f"{meta.namespace}/{snapshot}",
        HANDLE: restored.handle,
    }
    if request.secret is not None:
        annotations |= {SECRET_NAME: request.secret.name, SECRET_NAMESPACE: request.secret.namespace}
    body: dict[str, Any] = {
        "capacity": {"storage": str(Quantity.of(restored.size or request.restoration.size, Format.BINARY_SI))},
        "accessModes": list(request.restoration.access_modes),
        "volumeMode": spec.volume_mode,
        "storageClassName": storage_class.metadata.name,
        "persistentVolumeReclaimPolicy": storage_class.reclaim_policy,
        "claimRef": {
            "apiVersion": CLAIMS.api_version,
            "kind": CLAIMS.kind,
            "namespace": meta.namespace,
            "name": meta.name,
            "uid": meta.uid,
        },
        **_source(restored, request),
    }
    if storage_class.mount_options:
        body["mountOptions"] = list(storage_class.mount_options)
    if affinity := node_affinity(restored):
        body["nodeAffinity"] = affinity
    return NewVolume(metadata=Meta(name=request.restoration.name, annotations=annotations, finalizers=(FINALIZER,)), spec=body)


def _source(restored: Restored, request: RestoreRequest) -> dict[str, Any]:
    source = dict(restored.source)
    if "csi" in source:
        source["csi"] = {**source["csi"], **request.references}
    return source
