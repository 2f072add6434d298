"""What is to be done next about a claim that is to be filled from a snapshot.

Pure. A claim is looked at as it is, every time anew. The finalizer `ullage.io/restoring` on it says that the storage system may
have been asked for its volume: from then on the claim does not go before that volume has a PersistentVolume, or is gone too.
Nothing else is written down: what a volume is made from follows from the claim, its class and the snapshot, and none of these
can be changed by whoever may only edit claims.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from ullage.errors import BadInput
from ullage.kube.objects import is_deleting
from ullage.snapshots import class_parameters
from ullage.snapshots.backends.base import Restoration
from ullage.snapshots.controllers.claim.restore.eligibility import (
    PROVISIONERS,
    SELECTED_NODE,
    Blocker,
    RestoreFacts,
    cleanup_blocker,
    review,
)
from ullage.snapshots.controllers.claim.restore.topology import allowed_topologies
from ullage.snapshots.data_source import RESTORING, has_begun, volume_name
from ullage.snapshots.model import Ref

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
