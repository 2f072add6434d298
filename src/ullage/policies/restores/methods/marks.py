"""What is written on PersistentVolumes while a claim is made again, and the claim itself, as it was and as it is made. Pure.

No user of a namespace can write a PersistentVolume. So what is done to one follows from these marks alone, and never from what
a restore's status says: whose it is, whether it has the old data or the new, and what its reclaim policy was before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from ullage.kube.builtin.core import BETA_STORAGE_CLASS, CLAIMS, PersistentVolume, PersistentVolumeClaim
from ullage.kube.cache.indexer import Key
from ullage.kube.kinds import Kind, Meta, Object
from ullage.kube.objects import Json, is_owned_by, name_for, owner_reference
from ullage.policies.restores.api import SNAPSHOT_RESTORES, EarlierClaim, SnapshotRestore
from ullage.quantity import Quantity, QuantityError
from ullage.snapshots.data_source import SNAPSHOT_KIND
from ullage.snapshots.model import PROGRESS
from ullage.snapshots.source_volume import node_of

# On a PersistentVolume: NAMESPACE/NAME/UID of the restore, whether it is `old` or `new`, and the policy that it had.
RESTORE: Final = "ullage.io/in-place-restore"
ROLE: Final = "ullage.io/in-place-role"
POLICY: Final = "ullage.io/in-place-reclaim-policy"
OLD: Final = "old"
NEW: Final = "new"
# On the claim that the new volume is made for, and on the one that is made again.
MADE_BY: Final = "ullage.io/in-place-restore-uid"

# On a claim, by the scheduler: the node that its first pod is to run on.
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"

# What a cluster writes on a claim about its binding: the next one has its own.
_OF_BINDING: Final = (
    "pv.kubernetes.io/bind-completed",
    "pv.kubernetes.io/bound-by-controller",
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/storage-provisioner",
    "kubectl.kubernetes.io/last-applied-configuration",
    PROGRESS,
    MADE_BY,
)
_KEPT: Final = ("labels", "annotations", "ownerReferences")


class WholeClaim(Object):
    """A claim with all that its spec has."""

    spec: Mapping[str, Any] = {}


WHOLE_CLAIMS: Final[Kind[WholeClaim]] = Kind(
    CLAIMS.group, CLAIMS.version, CLAIMS.kind, CLAIMS.plural, WholeClaim, namespaced=True, whole=False
)


def mark_of(restore: SnapshotRestore) -> str:
    meta = restore.metadata
    return f"{meta.namespace}/{meta.name}/{meta.uid}"


def restores_of(volume: PersistentVolume) -> Iterable[Key]:
    """The restore that a volume is marked for, if any."""
    namespace, _, rest = volume.metadata.annotations.get(RESTORE, "").partition("/")
    name, _, uid = rest.partition("/")
    return (Key(namespace, name),) if uid else ()


def role_of(volume: PersistentVolume, mark: str) -> str:
    """What a volume is to a restore; empty: nothing."""
    found = volume.metadata.annotations
    return found.get(ROLE, "") if found.get(RESTORE) == mark else ""


def marking(volume: PersistentVolume, mark: str, role: str) -> Json | None:
    """What to write so that a volume is known to belong to a restore; None where it is."""
    return None if role_of(volume, mark) == role else {"metadata": {"annotations": {RESTORE: mark, ROLE: role}}}


def holding(volume: PersistentVolume) -> Json | None:
    """What to write so that a marked volume stays; None where it does."""
    if volume.spec.persistent_volume_reclaim_policy == "Retain" and POLICY in volume.metadata.annotations:
        return None
    notes = {POLICY: volume.metadata.annotations.get(POLICY, volume.spec.persistent_volume_reclaim_policy)}
    return {"metadata": {"annotations": notes}, "spec": {"persistentVolumeReclaimPolicy": "Retain"}}


def policy_back(volume: PersistentVolume) -> Json | None:
    """What to write so that the volume's policy is its own again; None where it is."""
    policy = volume.metadata.annotations.get(POLICY)
    if policy is None:
        return None
    return {"metadata": {"annotations": {POLICY: None}}, "spec": {"persistentVolumeReclaimPolicy": policy}}


def letting_go(volume: PersistentVolume, *, stays: bool) -> Json:
    """What to write so that nothing of a restore is on a volume, and its policy is its own again, unless it is to stay."""
    policy = "Retain" if stays else volume.metadata.annotations.get(POLICY, volume.spec.persistent_volume_reclaim_policy)
    return {
        "metadata": {"annotations": {RESTORE: None, ROLE: None, POLICY: None}},
        "spec": {"persistentVolumeReclaimPolicy": policy},
    }


def reserving(restore: SnapshotRestore) -> Json:
    """What to write so that a volume is for whichever claim has the name next: also one that somebody else makes."""
    ref = {"apiVersion": CLAIMS.api_version, "kind": CLAIMS.kind, "namespace": restore.metadata.namespace}
    return {"spec": {"claimRef": {**ref, "name": restore.spec.claim_name, "uid": None, "resourceVersion": None}}}


def unreserving(restore: SnapshotRestore) -> Json:
    """What to write so that a reserved volume is one whose claim is gone: its reclaim policy holds again."""
    return {"spec": {"claimRef": {"uid": restore.status.claim_uid}}}


def is_reserved(volume: PersistentVolume, restore: SnapshotRestore) -> bool:
    ref = volume.spec.claim_ref
    return ref is not None and (ref.namespace, ref.name) == (restore.metadata.namespace, restore.spec.claim_name)


# --- claims ----------------------------------------------------------------------------------------------------------


def temporary_name(restore: SnapshotRestore) -> str:
    """Of the claim that the new volume is made for."""
    return name_for("restore", restore.metadata.uid)


def temporary_claim(restore: SnapshotRestore, claim: WholeClaim, *, volume: PersistentVolume) -> WholeClaim:
    """As the claim itself, to be filled from the snapshot. On which node it is to be is said here: no pod will say it."""
    spec = {key: claim.spec[key] for key in ("accessModes", "storageClassName", "volumeMode") if key in claim.spec}
    size = str(volume.spec.capacity.get("storage", "")) or claim.spec["resources"]["requests"]["storage"]
    source = {"apiGroup": restore.spec.source.api_group, "kind": SNAPSHOT_KIND, "name": restore.spec.source.name}
    found = claim.metadata.annotations
    notes = {MADE_BY: restore.metadata.uid}
    if node := found.get(SELECTED_NODE) or node_of(volume):
        notes[SELECTED_NODE] = node
    if BETA_STORAGE_CLASS in found:
        notes[BETA_STORAGE_CLASS] = found[BETA_STORAGE_CLASS]
    meta = Meta(
        name=temporary_name(restore),
        namespace=restore.metadata.namespace,
        annotations=notes,
        owner_references=(owner_reference(SNAPSHOT_RESTORES, restore.metadata, controller=True),),
    )
    return WholeClaim(metadata=meta, spec={**spec, "resources": {"requests": {"storage": size}}, "dataSourceRef": source})


def is_temporary(claim: PersistentVolumeClaim, restore: SnapshotRestore) -> bool:
    return is_owned_by(claim.metadata, restore.metadata.uid)


def remembered(claim: WholeClaim) -> EarlierClaim:
    """What is made again of a claim. Its finalizers were others' holds on the one that goes."""
    meta: Json = msgspec.to_builtins(claim.metadata)
    return EarlierClaim(metadata={key: meta[key] for key in _KEPT if meta.get(key)}, spec=claim.spec)


def claim_again(restore: SnapshotRestore, earlier: EarlierClaim, *, volume: PersistentVolume) -> WholeClaim:
    """The claim as it was, with another volume, and asking for no more than that has: it would not be bound otherwise. It holds
    its owners' deletion up no more: that takes rights on them."""
    known = msgspec.convert(dict(earlier.metadata), Meta)
    notes = {key: text for key, text in known.annotations.items() if key not in _OF_BINDING}
    meta = Meta(
        name=restore.spec.claim_name,
        namespace=restore.metadata.namespace,
        labels=known.labels,
        annotations={**notes, MADE_BY: restore.metadata.uid},
        owner_references=tuple(replace(one, block_owner_deletion=None) for one in known.owner_references),
    )
    spec = {**earlier.spec, "volumeName": volume.metadata.name}
    has = str(volume.spec.capacity.get("storage", ""))
    requests = dict((spec.get("resources") or {}).get("requests") or {})
    if _is_less(has, str(requests.get("storage", ""))):
        spec["resources"] = {**spec["resources"], "requests": {**requests, "storage": has}}
    return WholeClaim(metadata=meta, spec=spec)


def _is_less(one: str, other: str) -> bool:
    try:
        return Quantity.parse(one) < Quantity.parse(other)
    except QuantityError:
        return False


def is_bound(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    ref = volume.spec.claim_ref
    both = claim.spec.volume_name == volume.metadata.name and ref is not None and ref.uid == claim.metadata.uid
    return both and claim.status.phase == "Bound"
