"""Whether a claim may be filled from the snapshot that it names: small rules, in the order in which they are of use to people.

Pure. What a claim gets is somebody's data: the snapshot must be of the claim's own namespace, and its record must say so too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ullage.kube.builtin.core import PersistentVolumeClaim
from ullage.kube.builtin.storage import StorageClass
from ullage.kube.objects import is_deleting
from ullage.ledger.amounts import spell
from ullage.quantity import Quantity
from ullage.snapshots.binding import refers_to, was_shared
from ullage.snapshots.data_source import DataSource, has_begun, waits_for
from ullage.snapshots.model import LOST, Record, Snapshot

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
# Where the cluster's binder writes which provisioner is to make a claim's volume, in the old name and the new one.
PROVISIONERS: Final = ("volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner")
MODE_CHANGE: Final = "snapshot.storage.kubernetes.io/allow-volume-mode-change"

# --- what is seen ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreFacts:
    claim: PersistentVolumeClaim
    source: DataSource
    drivers: frozenset[str]  # that we make volumes for
    storage_class: StorageClass | None = None
    snapshot: Snapshot | None = None
    record: Record | None = None  # the one that the snapshot says it is bound to
    made: bool = False  # the claim has its PersistentVolume, from us
    waited: float = 0.0  # seconds for which the claim has waited for the cluster's binder

    @property
    def shown(self) -> str:
        return f"VolumeSnapshot {self.source.namespace}/{self.source.name}"

    @property
    def asked(self) -> int:
        """Bytes."""
        return Quantity.parse(str(self.claim.spec.resources.requests.get("storage", "0"))).value()


@dataclass(frozen=True, slots=True)
class Blocker:
    """Why there is no volume now: for an Event. `waits`: nothing is wrong, it goes on by itself."""

    reason: str
    message: str
    waits: bool = False


Rule = Callable[[RestoreFacts], Blocker | None]

# --- the checks, in their order --------------------------------------------------------------------------------------


def _class_exists(facts: RestoreFacts) -> Blocker | None:
    name = facts.claim.spec.storage_class_name
    if facts.storage_class is not None:
        return None
    if not name:
        return Blocker("NoStorageClass", "spec.storageClassName is empty; name a class of the driver that took the snapshot")
    return Blocker("NoStorageClass", f"StorageClass {name} does not exist")


def _same_namespace(facts: RestoreFacts) -> Blocker | None:
    if facts.source.namespace == facts.claim.metadata.namespace:
        return None
    return Blocker(
        "OtherNamespace",
        f"spec.dataSourceRef.namespace is {facts.source.namespace}; only a snapshot in the claim's own namespace, "
        f"{facts.claim.metadata.namespace}, can be restored",
    )


def _snapshot_exists(facts: RestoreFacts) -> Blocker | None:
    return None if facts.snapshot else Blocker("SnapshotNotFound", f"{facts.shown} ({facts.source.group}) does not exist")


def _snapshot_stays(facts: RestoreFacts) -> Blocker | None:
    """A claim that was begun, or there before, holds the deletion up, so it may be filled. What was shared is held up by those
    that were begun alone."""
    assert facts.snapshot is not None
    if not is_deleting(facts.snapshot.meta) or has_begun(facts.claim):
        return None
    given = facts.record is not None and was_shared(facts.record)
    return None if waits_for(facts.claim, facts.snapshot.meta) and not given else _deleting(facts)


def _record_stays(facts: RestoreFacts) -> Blocker | None:
    assert facts.record is not None
    return _deleting(facts) if is_deleting(facts.record.meta) and not has_begun(facts.claim) else None


def _deleting(facts: RestoreFacts) -> Blocker:
    return Blocker("SnapshotDeleting", f"{facts.shown} is being deleted, no restore of it is begun")


def _bound(facts: RestoreFacts) -> Blocker | None:
    assert facts.snapshot is not None
    if facts.snapshot.state.record:
        return None
    return Blocker("SnapshotNotBound", f"{facts.shown} is not bound yet{_because(facts.snapshot)}", waits=True)


def _record_exists(facts: RestoreFacts) -> Blocker | None:
    assert facts.snapshot is not None
    if facts.record is not None:
        return None
    return Blocker("RecordMissing", f"{facts.shown} is bound to {facts.snapshot.state.record}, which does not exist")


def _bound_back(facts: RestoreFacts) -> Blocker | None:
    """By name, namespace and uid. Whose the record is instead is not this namespace's affair."""
    assert facts.snapshot is not None
    assert facts.record is not None
    if refers_to(facts.record, facts.snapshot):
        return None
    ref, meta = facts.record.ref, facts.snapshot.meta
    if not ref.uid and (ref.namespace, ref.name) == (meta.namespace, meta.name):
        return Blocker("SnapshotNotBound", f"{facts.record.meta.name} is not bound to {facts.shown} yet", waits=True)
    return Blocker("SnapshotMisbound", f"{facts.shown} names {facts.record.meta.name}, which belongs to another snapshot")


def _not_lost(facts: RestoreFacts) -> Blocker | None:
    assert facts.record is not None
    problem = facts.record.state.problem
    return Blocker(LOST, f"{facts.shown} is lost: {problem.message}") if facts.record.lost and problem else None


def _ready(facts: RestoreFacts) -> Blocker | None:
    assert facts.snapshot is not None
    assert facts.record is not None
    if facts.snapshot.state.ready and facts.record.state.ready:
        return None
    return Blocker("SnapshotNotReady", f"{facts.shown} is not ready yet{_because(facts.snapshot)}", waits=True)


def _has_handle(facts: RestoreFacts) -> Blocker | None:
    assert facts.record is not None
    if facts.record.handle:
        return None
    return Blocker("RecordIncomplete", f"{facts.record.meta.name} names no snapshot of the storage system")


def _same_driver(facts: RestoreFacts) -> Blocker | None:
    assert facts.record is not None
    assert facts.storage_class is not None
    name, driver = facts.storage_class.metadata.name, facts.storage_class.provisioner
    if facts.record.driver == driver:
        return None
    return Blocker(
        "ProvisionerMismatch", f"StorageClass {name} is for {driver}, but {facts.shown} was taken by {facts.record.driver}"
    )


def _large_enough(facts: RestoreFacts) -> Blocker | None:
    needed = _restore_size(facts)
    if needed is None or facts.asked >= needed:
        return None
    asked, least = spell("storage", Quantity.of(facts.asked), down=True), spell("storage", Quantity.of(needed))
    return Blocker(
        "SizeTooSmall",
        f"spec.resources.requests.storage is {asked}, and {facts.shown} needs {least}; ask for at least {least}",
    )


def _same_mode(facts: RestoreFacts) -> Blocker | None:
    """A file system read as a device, or the other way round, can harm a kernel: an administrator may allow it by a mark."""
    assert facts.record is not None
    mode, wanted = facts.record.volume_mode, facts.claim.spec.volume_mode
    if not mode or mode == wanted or facts.record.meta.annotations.get(MODE_CHANGE) == "true":
        return None
    return Blocker("VolumeModeMismatch", f"spec.volumeMode is {wanted}, but {facts.shown} was taken of a volume with {mode}")


def _node_chosen(facts: RestoreFacts) -> Blocker | None:
    assert facts.storage_class is not None
    late = facts.storage_class.volume_binding_mode == "WaitForFirstConsumer"
    if not late or facts.claim.metadata.annotations.get(SELECTED_NODE):
        return None
    return Blocker("WaitForFirstConsumer", "the volume is made once a pod that uses the claim is scheduled", waits=True)


def _restore_size(facts: RestoreFacts) -> int | None:
    """The record's word counts for more: no user of the namespace can write it."""
    assert facts.snapshot is not None
    assert facts.record is not None
    size = facts.record.state.restore_size
    return facts.snapshot.state.restore_size if size is None else size


def _because(snapshot: Snapshot) -> str:
    said = snapshot.state.problem or snapshot.state.waiting
    return f": {said.message}" if said else ""


RULES: Final[tuple[Rule, ...]] = (
    _class_exists,
    _same_namespace,
    _snapshot_exists,
    _snapshot_stays,
    _bound,
    _record_exists,
    _bound_back,
    _record_stays,
    _not_lost,
    _ready,
    _has_handle,
    _same_driver,
    _large_enough,
    _same_mode,
    _node_chosen,
)


def review(facts: RestoreFacts) -> Blocker | None:
    """The first thing that keeps the claim from its volume."""
    return next((blocker for rule in RULES if (blocker := rule(facts))), None)


# What it takes to ask for a volume by its name once more.
_NEEDED: Final[tuple[Rule, ...]] = (
    _class_exists,
    _same_namespace,
    _snapshot_exists,
    _bound,
    _record_exists,
    _bound_back,
    _has_handle,
    _same_driver,
)


def cleanup_blocker(facts: RestoreFacts) -> Blocker | None:
    """What is missing to find the volume of a claim that was begun, so that it can be deleted."""
    return next((blocker for rule in _NEEDED if (blocker := rule(facts))), None)
