"""From a claim to the volume that a snapshot is taken of, and the class that says how: what fits together, and what does not.

Pure. Every refusal names what does not fit, and what would.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ullage.kube.builtin import core, storage
from ullage.kube.kinds import Meta
from ullage.kube.objects import is_deleting
from ullage.quantity import Quantity, QuantityError
from ullage.snapshots.backends.base import VolumeHandle
from ullage.snapshots.model import Problem, Snapshot, SnapshotClass
from ullage.snapshots.settings import EBS, HOSTPATH

HOSTNAME = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceVolume:
    """What a snapshot is taken of."""

    driver: str
    volume: VolumeHandle
    volume_name: str  # of the PersistentVolume
    mode: str = "Filesystem"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimContext:
    """What a claim leads to, as far as it is there."""

    claim: core.PersistentVolumeClaim | None = None
    volume: core.PersistentVolume | None = None  # the one that the claim names
    storage_class: storage.StorageClass | None = None  # the claim's


# On a record, and for its users on the snapshot too: what the claim was when the snapshot was asked for. Claim and class may be
# gone when somebody restores it.
SOURCE_SIZE: Final = "ullage.io/source-size"
SOURCE_CLASS: Final = "ullage.io/source-class"
SOURCE_ACCESS_MODES: Final = "ullage.io/source-access-modes"
SOURCE_MODE: Final = "ullage.io/source-volume-mode"
SOURCE_STAMPS: Final = (SOURCE_SIZE, SOURCE_CLASS, SOURCE_ACCESS_MODES, SOURCE_MODE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceClaim:
    """What a snapshot's claim was when it was asked for, as far as it is stamped."""

    size: int | None = None  # bytes
    class_name: str | None = None
    access_modes: tuple[str, ...] = ()
    volume_mode: str = ""


def source_stamps(context: ClaimContext, source: SourceVolume) -> dict[str, str]:
    """The annotations of a new record."""
    if context.claim is None:
        return {}
    spec = context.claim.spec
    size = spec.resources.requests.get("storage") or context.claim.status.capacity.get("storage")
    found = {
        SOURCE_SIZE: "" if size is None else str(size),
        SOURCE_CLASS: context.claim.class_name or "",
        SOURCE_ACCESS_MODES: ",".join(spec.access_modes),
        SOURCE_MODE: source.mode,
    }
    return {key: value for key, value in found.items() if value}


def stamps_on(meta: Meta) -> dict[str, str]:
    return {key: meta.annotations[key] for key in SOURCE_STAMPS if key in meta.annotations}


def source_claim_of(meta: Meta) -> SourceClaim | None:
    """What is stamped on a record or a snapshot; None: nothing is, it was made before there were stamps, or by others."""
    found = stamps_on(meta)
    if SOURCE_SIZE not in found:
        return None
    try:
        size = Quantity.parse(found[SOURCE_SIZE]).value()
    except QuantityError:
        return None
    modes = found.get(SOURCE_ACCESS_MODES, "")
    return SourceClaim(
        size=size if size > 0 else None,
        class_name=found.get(SOURCE_CLASS),
        access_modes=tuple(modes.split(",")) if modes else (),
        volume_mode=found.get(SOURCE_MODE, ""),
    )


def source_volume_of(volume: core.PersistentVolume) -> SourceVolume | None:
    """How the storage system knows a PersistentVolume; None for a source that has no snapshots here."""
    spec = volume.spec
    found: tuple[str, str] | None = None
    if spec.csi is not None:
        found = spec.csi.driver, spec.csi.volume_handle
    elif spec.host_path is not None:
        found = HOSTPATH, spec.host_path.path
    elif spec.local is not None:
        found = HOSTPATH, spec.local.path
    elif spec.aws_elastic_block_store is not None:
        found = EBS, spec.aws_elastic_block_store.volume_id
    if found is None or not all(found):
        return None
    driver, handle = found
    name = volume.metadata.name
    return SourceVolume(
        driver=driver, volume=VolumeHandle(handle=handle, node=node_of(volume)), volume_name=name, mode=spec.volume_mode
    )


def node_of(volume: core.PersistentVolume) -> str:
    """The only node that a volume can be reached from; empty where there may be several."""
    required = volume.spec.node_affinity.required if volume.spec.node_affinity else None
    terms = required.node_selector_terms if required else ()
    nodes = {
        value
        for term in terms
        for one in term.match_expressions
        if one.key == HOSTNAME and one.operator == "In"
        for value in one.values
    }
    return nodes.pop() if len(nodes) == 1 and len(terms) == 1 else ""


def find_source_volume(snapshot: Snapshot, context: ClaimContext) -> SourceVolume | Problem:
    """The volume behind the claim, once claim and volume agree about each other."""
    where = f"{snapshot.meta.namespace}/{snapshot.claim}"
    claim, volume = context.claim, context.volume
    if claim is None:
        return Problem("ClaimNotFound", f"claim {where} does not exist; create it, or snapshot another claim")
    if is_deleting(claim.metadata):
        return Problem("ClaimDeleting", f"claim {where} is being deleted, no new snapshot of it is begun")
    if not claim.spec.volume_name or claim.status.phase != "Bound":
        phase = claim.status.phase or "not bound"
        return Problem("ClaimNotBound", f"claim {where} is {phase}; the snapshot is taken once the claim is Bound")
    if volume is None:
        return Problem("VolumeNotFound", f"volume {claim.spec.volume_name} of claim {where} does not exist")
    ref = volume.spec.claim_ref
    if ref is None or (ref.namespace, ref.name, ref.uid) != (snapshot.meta.namespace, snapshot.claim, claim.metadata.uid):
        # Whose it is instead is not told: a user may name any volume, and would learn of other tenants' claims.
        other = "belongs to another claim" if ref else "belongs to no claim"
        return Problem("VolumeMisbound", f"claim {where} names volume {volume.metadata.name}, which {other}")
    found = source_volume_of(volume)
    if found is None:
        return Problem(
            "VolumeNotSupported",
            f"volume {volume.metadata.name} has no source that snapshots can be taken of; "
            "csi, hostPath, local and awsElasticBlockStore are",
        )
    return found


def find_class(
    snapshot: Snapshot, source: SourceVolume, *, context: ClaimContext, classes: Sequence[SnapshotClass], defaults: bool
) -> SnapshotClass | Problem:
    """The class that a snapshot names, or its default: the only one marked so for the driver (`defaults`), or else the
    StorageClass of the claim. `classes` are all there are."""
    found = _named(snapshot, context, classes) if snapshot.class_name or not defaults else _default(source.driver, classes)
    if isinstance(found, Problem):
        return found
    if found.problem is not None:
        return found.problem
    return _mismatch(found, source, context) or found


def _named(snapshot: Snapshot, context: ClaimContext, classes: Sequence[SnapshotClass]) -> SnapshotClass | Problem:
    claims = context.claim.spec.storage_class_name if context.claim else None
    wanted = snapshot.class_name or claims
    if not wanted:
        claim = f"{snapshot.meta.namespace}/{snapshot.claim}"
        return Problem(
            "NoStorageClass", f"claim {claim} has no StorageClass; name one with the same provisioner in spec.storageClassName"
        )
    found = next((one for one in classes if one.name == wanted), None)
    return found or Problem("ClassNotFound", f"class {wanted} does not exist")


def _default(driver: str, classes: Sequence[SnapshotClass]) -> SnapshotClass | Problem:
    marked = sorted((one for one in classes if one.is_default and one.driver == driver), key=lambda one: one.name)
    if len(marked) == 1:
        return marked[0]
    if marked:
        names = ", ".join(one.name for one in marked)
        return Problem(
            "SeveralDefaultClasses",
            f"{len(marked)} classes are marked as the default of driver {driver}: {names}; "
            "leave the mark on one of them, or name a class in spec.volumeSnapshotClassName",
        )
    others = sorted(one.name for one in classes if one.driver == driver)
    known = f"classes of this driver: {', '.join(others)}" if others else "there is no class of this driver"
    return Problem(
        "NoDefaultClass",
        f"no class is marked as the default of driver {driver} ({known}); name one in spec.volumeSnapshotClassName, "
        "or mark one with the annotation snapshot.storage.kubernetes.io/is-default-class: true",
    )


def _mismatch(found: SnapshotClass, source: SourceVolume, context: ClaimContext) -> Problem | None:
    """The class's driver must be the one that provisioned the claim, and the one that serves its volume."""
    claims = context.storage_class
    if claims is not None and found.driver != claims.provisioner:
        other = f"StorageClass {claims.metadata.name} of the claim has {claims.provisioner}"
    elif found.driver != source.driver:
        other = f"volume {source.volume_name} belongs to {source.driver}"
    else:
        return None
    return Problem("ProvisionerMismatch", f"class {found.name} is for {found.driver}, but {other}")
