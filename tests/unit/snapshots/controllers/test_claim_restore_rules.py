"""Which claims get a volume from a snapshot, and what is said to the others: reason and text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as changed

from tests.unit.snapshots import objects
from tests.unit.snapshots.objects import GA, reference
from tests.unit.snapshots.objects import restoring_claim as claim
from ullage.kube.builtin.storage import TopologyRequirement, TopologyTerm
from ullage.kube.kinds import Meta
from ullage.snapshots.backends.base import Restoration
from ullage.snapshots.controllers.claim_restore_eligibility import (
    MODE_CHANGE,
    PROVISIONERS,
    SELECTED_NODE,
    Blocker,
    RestoreFacts,
)
from ullage.snapshots.controllers.claim_restore_rules import (
    BINDER_SECONDS,
    AwaitBinder,
    Leave,
    Make,
    Release,
    Report,
    RestoreRequest,
    Undo,
    decide,
)
from ullage.snapshots.data_source import RESTORING, DataSource
from ullage.snapshots.model import Problem, Record, Ref, Snapshot, State

GIB = 1 << 30
READY = State(record="snapcontent-snap-uid", ready=True)
SNAPSHOT: Snapshot = objects.snapshot(state=READY)
RECORD: Record = objects.record(state=State(handle="shot-1", ready=True, restore_size=GIB))
RECORD_GOING = replace(RECORD, meta=changed(RECORD.meta, deletion_timestamp=objects.DELETED))
RECORD_GIVEN = replace(RECORD, meta=changed(RECORD.meta, annotations={"ullage.io/shared-by": "grant"}))
AFTERWARDS = "2026-01-01T00:05:01Z"


def facts(**fields: Any) -> RestoreFacts:
    given: dict[str, Any] = {
        "claim": claim(),
        "source": DataSource(GA, "team", "snap"),
        "drivers": frozenset({objects.DRIVER, "another.example.com"}),
        "storage_class": objects.storage_class(),
        "snapshot": SNAPSHOT,
        "record": RECORD,
        "waited": BINDER_SECONDS,
    }
    return RestoreFacts(**(given | fields))


def snapshot(state: State = READY, **meta: Any) -> Snapshot:
    return objects.snapshot(state=state, meta=meta)


def late() -> Any:
    return changed(objects.storage_class(), volume_binding_mode="WaitForFirstConsumer")


REQUEST = RestoreRequest(
    driver=objects.DRIVER,
    restoration=Restoration(name="pvc-claim-uid", snapshot="shot-1", size=GIB, access_modes=("ReadWriteOnce",), owner="team"),
)

# --- who gets nothing, and why ---------------------------------------------------------------------------------------

REFUSALS = [
    pytest.param(
        facts(storage_class=None, claim=claim(spec={"storage_class_name": None})),
        Blocker("NoStorageClass", "spec.storageClassName is empty; name a class of the driver that took the snapshot"),
        id="a claim without a class",
    ),
    pytest.param(
        facts(storage_class=None), Blocker("NoStorageClass", "StorageClass fast does not exist"), id="a class that is not there"
    ),
    pytest.param(
        facts(source=DataSource(GA, "other", "snap")),
        Blocker(
            "OtherNamespace",
            "spec.dataSourceRef.namespace is other; only a snapshot in the claim's own namespace, team, can be restored",
        ),
        id="a snapshot of another namespace, even one that is there and ready",
    ),
    pytest.param(
        facts(snapshot=None, record=None),
        Blocker("SnapshotNotFound", "VolumeSnapshot team/snap (snapshot.storage.k8s.io) does not exist"),
        id="a snapshot that is not there",
    ),
    pytest.param(
        facts(snapshot=snapshot(deletion_timestamp=objects.DELETED), claim=claim(creation_timestamp=AFTERWARDS)),
        Blocker("SnapshotDeleting", "VolumeSnapshot team/snap is being deleted, no restore of it is begun"),
        id="a snapshot whose deletion was asked for before the claim",
    ),
    pytest.param(
        facts(snapshot=snapshot(deletion_timestamp=objects.DELETED), record=RECORD_GOING),
        Blocker("SnapshotDeleting", "VolumeSnapshot team/snap is being deleted, no restore of it is begun"),
        id="a snapshot that is being deleted, and its record too",
    ),
    pytest.param(
        facts(
            snapshot=snapshot(deletion_timestamp=objects.DELETED),
            claim=claim(creation_timestamp=objects.DELETED),
            record=RECORD_GIVEN,
        ),
        Blocker("SnapshotDeleting", "VolumeSnapshot team/snap is being deleted, no restore of it is begun"),
        id="a snapshot that was shared and is taken back, though the claim was there before",
    ),
    pytest.param(
        facts(snapshot=snapshot(State()), record=None),
        Blocker("SnapshotNotBound", "VolumeSnapshot team/snap is not bound yet", waits=True),
        id="a snapshot that nothing came of yet",
    ),
    pytest.param(
        facts(snapshot=snapshot(State(problem=Problem("ClaimNotFound", "claim team/db does not exist"))), record=None),
        Blocker("SnapshotNotBound", "VolumeSnapshot team/snap is not bound yet: claim team/db does not exist", waits=True),
        id="a snapshot that failed says why",
    ),
    pytest.param(
        facts(record=None),
        Blocker("RecordMissing", "VolumeSnapshot team/snap is bound to snapcontent-snap-uid, which does not exist"),
        id="a record that is gone",
    ),
    pytest.param(
        facts(record=replace(RECORD, ref=Ref("other", "snap", "snap-uid"))),
        Blocker("SnapshotMisbound", "VolumeSnapshot team/snap names snapcontent-snap-uid, which belongs to another snapshot"),
        id="a record of a snapshot in another namespace",
    ),
    pytest.param(
        facts(record=replace(RECORD, ref=Ref("team", "other", "snap-uid"))),
        Blocker("SnapshotMisbound", "VolumeSnapshot team/snap names snapcontent-snap-uid, which belongs to another snapshot"),
        id="a record of a snapshot with another name",
    ),
    pytest.param(
        facts(record=replace(RECORD, ref=Ref("team", "snap", "earlier-uid"))),
        Blocker("SnapshotMisbound", "VolumeSnapshot team/snap names snapcontent-snap-uid, which belongs to another snapshot"),
        id="a record of an earlier snapshot of that name",
    ),
    pytest.param(
        facts(record=replace(RECORD, ref=Ref("team", "snap"))),
        Blocker("SnapshotNotBound", "snapcontent-snap-uid is not bound to VolumeSnapshot team/snap yet", waits=True),
        id="an imported record that is not bound yet",
    ),
    pytest.param(
        facts(snapshot=snapshot(State(record="snapcontent-snap-uid", waiting=Problem("Uploading", "it is being uploaded")))),
        Blocker("SnapshotNotReady", "VolumeSnapshot team/snap is not ready yet: it is being uploaded", waits=True),
        id="a snapshot that is not ready",
    ),
    pytest.param(
        facts(
            record=replace(RECORD, state=State(handle="shot-1", problem=Problem("SnapshotLost", "the driver has it no more")))
        ),
        Blocker("SnapshotLost", "VolumeSnapshot team/snap is lost: the driver has it no more"),
        id="a snapshot that is lost is not waited for",
    ),
    pytest.param(
        facts(record=replace(RECORD, state=State(handle="shot-1"))),
        Blocker("SnapshotNotReady", "VolumeSnapshot team/snap is not ready yet", waits=True),
        id="a record that is not ready, whatever the snapshot says",
    ),
    pytest.param(
        facts(record=replace(RECORD, state=State(ready=True))),
        Blocker("RecordIncomplete", "snapcontent-snap-uid names no snapshot of the storage system"),
        id="a record without a handle",
    ),
    pytest.param(
        facts(storage_class=objects.storage_class("another.example.com")),
        Blocker(
            "ProvisionerMismatch",
            "StorageClass fast is for another.example.com, but VolumeSnapshot team/snap was taken by csi.example.com",
        ),
        id="a class of another driver",
    ),
    pytest.param(
        facts(claim=claim("1023Mi")),
        Blocker(
            "SizeTooSmall",
            "spec.resources.requests.storage is 1023Mi, and VolumeSnapshot team/snap needs 1Gi; ask for at least 1Gi",
        ),
        id="a claim that is too small",
    ),
    pytest.param(
        facts(
            record=replace(RECORD, state=State(handle="shot-1", ready=True)),
            snapshot=snapshot(replace(READY, restore_size=GIB + 1)),
        ),
        Blocker(
            "SizeTooSmall",
            "spec.resources.requests.storage is 1Gi, and VolumeSnapshot team/snap needs 1.01Gi; ask for at least 1.01Gi",
        ),
        id="one byte too small, by the snapshot's own word",
    ),
    pytest.param(
        facts(record=replace(RECORD, volume_mode="Block")),
        Blocker(
            "VolumeModeMismatch",
            "spec.volumeMode is Filesystem, but VolumeSnapshot team/snap was taken of a volume with Block",
        ),
        id="a device read as a file system",
    ),
    pytest.param(
        facts(storage_class=late()),
        Blocker("WaitForFirstConsumer", "the volume is made once a pod that uses the claim is scheduled", waits=True),
        id="a class that waits for a pod",
    ),
    pytest.param(
        facts(storage_class=changed(objects.storage_class(), parameters={"csi.storage.k8s.io/provisioner-secret-name": "key"})),
        Blocker(
            "BadStorageClass",
            "StorageClass fast: parameter csi.storage.k8s.io/provisioner-secret-name: it is set and "
            "csi.storage.k8s.io/provisioner-secret-namespace is not; a Secret needs both",
        ),
        id="a class whose parameters make no sense",
    ),
]


@pytest.mark.parametrize(("seen", "blocker"), REFUSALS)
def test_a_claim_that_gets_no_volume_is_told_why(seen: RestoreFacts, blocker: Blocker) -> None:
    assert decide(seen) == Report(blocker)


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(facts(), id="exactly the restore size"),
        pytest.param(
            facts(snapshot=snapshot(deletion_timestamp=objects.DELETED), claim=claim(creation_timestamp=objects.DELETED)),
            id="a snapshot whose deletion waits for the claim, which was there before",
        ),
        pytest.param(facts(claim=claim(spec={"data_source_ref": None, "data_source": reference()})), id="by dataSource"),
        pytest.param(facts(claim=claim(spec={"data_source_ref": reference(namespace="team")})), id="naming its own namespace"),
        pytest.param(
            facts(record=replace(RECORD, state=State(handle="shot-1", ready=True))), id="a restore size that nobody knows"
        ),
        pytest.param(facts(record=replace(RECORD, volume_mode="Filesystem")), id="the same volume mode"),
        pytest.param(
            facts(record=replace(RECORD, volume_mode="Block", meta=Meta(name="x", annotations={MODE_CHANGE: "true"}))),
            id="another volume mode that an administrator allows",
        ),
        pytest.param(
            facts(claim=claim(finalizers=(RESTORING,)), snapshot=snapshot(deletion_timestamp=objects.DELETED)),
            id="a snapshot that waits for this very claim before it goes",
        ),
        pytest.param(facts(record=replace(RECORD, imported="shot-1", state=State(ready=True))), id="an imported snapshot"),
    ],
)
def test_a_claim_that_gets_its_volume(seen: RestoreFacts) -> None:
    assert decide(seen) == Make(REQUEST)


ZONES = TopologyTerm(match_label_expressions=(TopologyRequirement(key="zone", values=("a", "b")),))


def test_the_node_of_a_pod_that_was_scheduled_goes_along() -> None:
    waits = changed(late(), allowed_topologies=(ZONES,))
    placed = replace(REQUEST, restoration=replace(REQUEST.restoration, node="node-1"))
    assert decide(facts(storage_class=waits, claim=claim(annotations={SELECTED_NODE: "node-1"}))) == Make(placed)


def test_without_a_pod_the_places_that_the_class_allows_go_along() -> None:
    placed = replace(REQUEST, restoration=replace(REQUEST.restoration, topologies=({"zone": "a"}, {"zone": "b"})))
    assert decide(facts(storage_class=changed(objects.storage_class(), allowed_topologies=(ZONES,)))) == Make(placed)


def test_what_the_storage_system_is_asked_for() -> None:
    prefix = "csi.storage.k8s.io/"
    parameters = {
        "type": "ssd",
        f"{prefix}fstype": "xfs",
        f"{prefix}provisioner-secret-name": "${pvc.name}",
        f"{prefix}provisioner-secret-namespace": "storage",
        f"{prefix}node-stage-secret-name": "stage",
        f"{prefix}node-stage-secret-namespace": "${pvc.namespace}",
    }
    wanted = claim("3Gi", spec={"volume_mode": "Block", "access_modes": ("ReadWriteMany",)})
    found = decide(facts(claim=wanted, storage_class=changed(objects.storage_class(), parameters=parameters)))
    assert found == Make(
        RestoreRequest(
            driver=objects.DRIVER,
            restoration=Restoration(
                name="pvc-claim-uid",
                snapshot="shot-1",
                size=3 * GIB,
                parameters={"type": "ssd"},
                filesystem="xfs",
                block=True,
                access_modes=("ReadWriteMany",),
                owner="team",
            ),
            secret=Ref("storage", "copy"),
            references={"nodeStageSecretRef": {"name": "stage", "namespace": "team"}},
        )
    )


# --- the binder writes first -------------------------------------------------------------------------------------------


def asked(provisioner: str, *, name: str = PROVISIONERS[0]) -> Any:
    return claim(annotations={name: provisioner})


@pytest.mark.parametrize(
    ("seen", "plan"),
    [
        pytest.param(facts(waited=0.0), AwaitBinder(BINDER_SECONDS), id="the binder has not written on the claim"),
        pytest.param(facts(waited=BINDER_SECONDS - 0.5), AwaitBinder(0.5), id="nor after a while"),
        pytest.param(facts(waited=BINDER_SECONDS), Make(REQUEST), id="there is none that writes"),
        pytest.param(facts(waited=0.0, claim=asked(objects.DRIVER)), Make(REQUEST), id="it has asked the driver"),
        pytest.param(
            facts(waited=0.0, claim=asked(objects.DRIVER, name=PROVISIONERS[1])), Make(REQUEST), id="under the old name"
        ),
        pytest.param(
            facts(waited=0.0, claim=asked("another.example.com")), AwaitBinder(BINDER_SECONDS), id="it has asked another one"
        ),
        pytest.param(facts(waited=0.0, claim=claim(finalizers=(RESTORING,))), Make(REQUEST), id="it was begun before"),
        pytest.param(
            facts(waited=0.0, claim=claim(finalizers=(RESTORING,), deletion_timestamp=objects.DELETED)),
            Undo(REQUEST),
            id="it was begun and goes",
        ),
        pytest.param(
            facts(waited=0.0, snapshot=None, record=None),
            Report(Blocker("SnapshotNotFound", "VolumeSnapshot team/snap (snapshot.storage.k8s.io) does not exist")),
            id="what is wrong is told at once",
        ),
    ],
)
def test_nothing_is_written_on_a_claim_before_the_clusters_binder_has_asked_for_its_volume(
    seen: RestoreFacts, plan: object
) -> None:
    assert decide(seen) == plan


# --- what becomes of a claim that was begun --------------------------------------------------------------------------

BEGUN: dict[str, Any] = {"finalizers": (RESTORING,)}
BLOCKED = (
    "a volume pvc-claim-uid may have been made for the claim, and cannot be looked for: {}. "
    "If there is none, or once it is deleted, take the finalizer ullage.io/restoring off"
)


@pytest.mark.parametrize(
    ("seen", "plan"),
    [
        pytest.param(
            facts(storage_class=objects.storage_class("theirs.example.com")), Leave(), id="a class of a foreign provisioner"
        ),
        pytest.param(facts(claim=claim(deletion_timestamp=objects.DELETED)), Leave(), id="it goes, and nothing was begun"),
        pytest.param(facts(claim=claim(spec={"volume_name": "pv-1"})), Leave(), id="it is bound"),
        pytest.param(facts(made=True), Leave(), id="its volume is there"),
        pytest.param(facts(made=True, claim=claim(**BEGUN)), Release(), id="its volume is there, the finalizer too"),
        pytest.param(
            facts(made=True, claim=claim(deletion_timestamp=objects.DELETED, **BEGUN)),
            Release(),
            id="it goes, and the PersistentVolume tells of the volume",
        ),
        pytest.param(facts(claim=claim(**BEGUN)), Make(REQUEST), id="it was begun and goes on"),
        pytest.param(
            facts(claim=claim(**BEGUN), record=replace(RECORD, state=State(handle="shot-1"))),
            Report(Blocker("SnapshotNotReady", "VolumeSnapshot team/snap is not ready yet", waits=True)),
            id="it was begun and has to wait",
        ),
        pytest.param(
            facts(claim=claim(deletion_timestamp=objects.DELETED, **BEGUN), drivers=frozenset({"another.example.com"})),
            Leave(),
            id="what another process of ours has begun is left to that one",
        ),
        pytest.param(
            facts(claim=claim(deletion_timestamp=objects.DELETED, **BEGUN)), Undo(REQUEST), id="it goes in the middle"
        ),
        pytest.param(
            facts(claim=claim(spec={"volume_name": "pv-9"}, **BEGUN)),
            Undo(REQUEST),
            id="it was bound to something else meanwhile",
        ),
        pytest.param(
            facts(
                claim=claim(deletion_timestamp=objects.DELETED, **BEGUN),
                snapshot=snapshot(State(record="snapcontent-snap-uid"), deletion_timestamp=objects.DELETED),
                record=replace(RECORD, state=State(handle="shot-1")),
            ),
            Undo(REQUEST),
            id="what is asked of a snapshot to be restored is not asked to clean up",
        ),
        pytest.param(
            facts(claim=claim(deletion_timestamp=objects.DELETED, **BEGUN), storage_class=None),
            Report(Blocker("CleanupBlocked", BLOCKED.format("StorageClass fast does not exist"))),
            id="it goes, and its class is gone",
        ),
        pytest.param(
            facts(claim=claim(deletion_timestamp=objects.DELETED, **BEGUN), record=None),
            Report(
                Blocker(
                    "CleanupBlocked",
                    BLOCKED.format("VolumeSnapshot team/snap is bound to snapcontent-snap-uid, which does not exist"),
                )
            ),
            id="it goes, and the record is gone",
        ),
    ],
)
def test_what_comes_next(seen: RestoreFacts, plan: object) -> None:
    assert decide(seen) == plan


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        pytest.param(
            facts(snapshot=snapshot(deletion_timestamp=objects.DELETED), claim=claim("1", creation_timestamp=AFTERWARDS)),
            "SnapshotDeleting",
            id="going",
        ),
        pytest.param(
            facts(snapshot=snapshot(State(record="x")), record=replace(RECORD, ref=Ref("other", "snap", "snap-uid"))),
            "SnapshotMisbound",
            id="misbound and not ready",
        ),
        pytest.param(
            facts(claim=claim("1"), storage_class=objects.storage_class("another.example.com")),
            "ProvisionerMismatch",
            id="of another driver and too small",
        ),
        pytest.param(
            facts(claim=claim("1"), record=replace(RECORD, volume_mode="Block")), "SizeTooSmall", id="small, other mode"
        ),
        pytest.param(
            facts(storage_class=late(), record=replace(RECORD, volume_mode="Block")), "VolumeModeMismatch", id="and it waits"
        ),
    ],
)
def test_of_several_things_that_are_wrong_the_first_in_order_is_told(seen: RestoreFacts, reason: str) -> None:
    found = decide(seen)
    assert isinstance(found, Report)
    assert found.blocker.reason == reason
