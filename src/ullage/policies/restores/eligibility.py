"""Whether a claim may be brought back to a snapshot: small rules, in the order in which they are of use to people. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from ullage.kube.objects import is_deleting
from ullage.ledger.amounts import spell
from ullage.policies.restores.model import RestoreJob
from ullage.quantity import Quantity, QuantityError
from ullage.snapshots.binding import refers_to
from ullage.snapshots.model import Problem, Snapshot

WAITS: Final = frozenset({"SnapshotNotReady", "SnapshotBeingTaken", "ClaimNotBound"})  # these go on by themselves

Rule = Callable[[RestoreJob], Problem | None]


def _snapshot_exists(job: RestoreJob) -> Problem | None:
    if job.snapshot is None:
        return Problem("SnapshotNotFound", f"{_shown(job)} does not exist; see: ullage snapshot list")
    if is_deleting(job.snapshot.meta):
        return Problem("SnapshotDeleting", f"{_shown(job)} is being deleted")
    return None


def _of_the_claim(job: RestoreJob) -> Problem | None:
    """Another claim's data under this claim's name would be a surprise: that is what a new claim is for."""
    assert job.snapshot is not None
    name, wanted = job.snapshot.meta.name, job.restore.spec.claim_name
    if job.snapshot.claim == wanted:
        return None
    of = f"of claim {job.snapshot.claim}" if job.snapshot.claim else "imported, and not known to be of any claim here"
    return Problem(
        "OtherClaim",
        f"{_shown(job)} is {of}; only snapshots of claim {wanted} can be restored in place. "
        f"To a new claim: ullage snapshot restore {name} --to NEW-CLAIM",
    )


def _claim_exists(job: RestoreJob) -> Problem | None:
    where = f"claim {job.restore.spec.claim_name}"
    if job.claim is None:
        return Problem("ClaimNotFound", f"{where} does not exist; restore to a new claim of this name instead")
    if is_deleting(job.claim.metadata):
        return Problem("ClaimDeleting", f"{where} is being deleted")
    if not job.claim.spec.volume_name or job.claim.status.phase != "Bound":
        return Problem("ClaimNotBound", f"{where} is {job.claim.status.phase or 'not bound'}; it must have a volume first")
    return None


def _has_volume(job: RestoreJob) -> Problem | None:
    assert job.claim is not None
    if job.volume is None:
        return Problem("VolumeMisbound", f"claim {job.claim.metadata.name} and its volume do not belong to each other")
    if job.source is None:
        return Problem("VolumeNotSupported", f"volume {job.volume.metadata.name} has no source that can have snapshots")
    return None


def _bound(job: RestoreJob) -> Problem | None:
    assert job.snapshot is not None
    if job.record is None:
        said = job.snapshot.state.problem or job.snapshot.state.waiting
        return Problem("SnapshotNotReady", f"{_shown(job)} is not bound yet{f': {said.message}' if said else ''}")
    if not refers_to(job.record, job.snapshot):
        return Problem("SnapshotMisbound", f"{_shown(job)} names {job.record.meta.name}, which belongs to another snapshot")
    if is_deleting(job.record.meta):
        return Problem("SnapshotDeleting", f"{_shown(job)} is being deleted")
    return None


def _ready(job: RestoreJob) -> Problem | None:
    assert job.snapshot is not None
    assert job.record is not None
    problem = job.record.state.problem
    if job.record.lost and problem is not None:
        return Problem("SnapshotLost", f"{_shown(job)} is lost: {problem.message}")
    if job.snapshot.state.ready and job.record.state.ready and job.record.handle:
        return None
    return Problem("SnapshotNotReady", f"{_shown(job)} is not ready yet")


def _same_driver(job: RestoreJob) -> Problem | None:
    assert job.record is not None
    assert job.source is not None
    if job.record.driver == job.source.driver:
        return None
    return Problem(
        "ProvisionerMismatch",
        f"{_shown(job)} was taken by {job.record.driver}, and volume {job.source.volume_name} of the claim is of "
        f"{job.source.driver}",
    )


def _same_mode(job: RestoreJob) -> Problem | None:
    assert job.record is not None
    assert job.claim is not None
    mode, now = job.record.volume_mode, job.claim.spec.volume_mode
    if not mode or mode == now:
        return None
    return Problem("VolumeModeMismatch", f"{_shown(job)} was taken of a volume with volumeMode {mode}, the claim has {now}")


def _large_enough(job: RestoreJob) -> Problem | None:
    assert job.record is not None
    assert job.snapshot is not None
    size = job.record.state.restore_size
    needed, has = job.snapshot.state.restore_size if size is None else size, capacity_of(job)
    if needed is None or has >= needed:
        return None
    least, there = spell("storage", Quantity.of(needed)), spell("storage", Quantity.of(has), down=True)
    return Problem("SizeTooSmall", f"{_shown(job)} needs {least}, and the claim's volume has {there}")


RULES: Final[tuple[Rule, ...]] = (
    _snapshot_exists,
    _of_the_claim,
    _claim_exists,
    _has_volume,
    _bound,
    _ready,
    _same_driver,
    _same_mode,
    _large_enough,
)


def review(job: RestoreJob) -> Problem | None:
    """The first thing that keeps the claim from the snapshot's data."""
    return next((problem for rule in RULES if (problem := rule(job))), None)


def being_taken(snapshots: Iterable[Snapshot]) -> Problem | None:
    """A snapshot of the claim that is not cut yet would have one half of its data, or the other."""
    for one in snapshots:
        is_cut = one.state.cut is not None or one.state.ready
        if one.claim and not is_cut and one.state.problem is None and not is_deleting(one.meta):
            return Problem("SnapshotBeingTaken", f"snapshot {one.meta.name} of the claim is being taken; it is waited for")
    return None


def capacity_of(job: RestoreJob) -> int:
    """Bytes that the claim's volume has, as its PersistentVolume says; no user can write that."""
    text = job.volume.spec.capacity.get("storage", "0") if job.volume is not None else "0"
    try:
        return Quantity.parse(str(text)).value()
    except QuantityError:
        return 0


def _shown(job: RestoreJob) -> str:
    return f"VolumeSnapshot {job.restore.metadata.namespace}/{job.restore.spec.source.name}"
