"""What a snapshot can be taken of, and by which class: every refusal with its exact reason and text."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.snapshots.objects import DRIVER, claim, snapshot, snapshot_class, storage_class, volume
from ullage.kube.builtin import core
from ullage.snapshots.model import Problem, Snapshot, SnapshotClass
from ullage.snapshots.source_volume import ClaimContext, SourceVolume, find_class, find_source_volume, node_of


def context(**changed: Any) -> ClaimContext:
    given: dict[str, Any] = {"claim": claim(), "volume": volume(), "storage_class": storage_class()}
    return ClaimContext(**(given | changed))


def source_in(**changed: Any) -> SourceVolume | Problem:
    return find_source_volume(snapshot(), context(**changed))


OTHERS = core.ObjectReference(namespace="team", name="db", uid="an-older-uid")
STRANGERS = core.ObjectReference(namespace="other", name="db", uid="claim-uid")

REFUSALS: list[tuple[str, dict[str, Any], str, str]] = [
    (
        "a claim that is not there",
        {"claim": None},
        "ClaimNotFound",
        "claim team/db does not exist; create it, or snapshot another claim",
    ),
    (
        "a claim that goes",
        {"claim": claim(deletion_timestamp="2026-01-01T00:00:00Z")},
        "ClaimDeleting",
        "claim team/db is being deleted, no new snapshot of it is begun",
    ),
    (
        "an unbound claim",
        {"claim": claim(phase="Pending", spec={"volume_name": ""})},
        "ClaimNotBound",
        "claim team/db is Pending; the snapshot is taken once the claim is Bound",
    ),
    (
        "a claim that says it is bound before it is",
        {"claim": claim(phase="")},
        "ClaimNotBound",
        "claim team/db is not bound; the snapshot is taken once the claim is Bound",
    ),
    ("a volume that is gone", {"volume": None}, "VolumeNotFound", "volume pv-1 of claim team/db does not exist"),
    (
        "a volume of an earlier claim of the name",
        {"volume": volume(claim_ref=OTHERS)},
        "VolumeMisbound",
        "claim team/db names volume pv-1, which belongs to another claim",
    ),
    (
        "a volume of another namespace's claim",
        {"volume": volume(claim_ref=STRANGERS)},
        "VolumeMisbound",
        "claim team/db names volume pv-1, which belongs to another claim",
    ),
    (
        "a volume of nobody",
        {"volume": volume(claim_ref=None)},
        "VolumeMisbound",
        "claim team/db names volume pv-1, which belongs to no claim",
    ),
    (
        "a source without snapshots",
        {"volume": volume(csi=None)},
        "VolumeNotSupported",
        "volume pv-1 has no source that snapshots can be taken of; csi, hostPath, local and awsElasticBlockStore are",
    ),
    (
        "a source without a handle",
        {"volume": volume(csi=core.CsiVolumeSource(driver=DRIVER))},
        "VolumeNotSupported",
        "volume pv-1 has no source that snapshots can be taken of; csi, hostPath, local and awsElasticBlockStore are",
    ),
]


@pytest.mark.parametrize(("changed", "reason", "text"), [row[1:] for row in REFUSALS], ids=[row[0] for row in REFUSALS])
def test_no_snapshot_is_taken_of(changed: dict[str, Any], reason: str, text: str) -> None:
    assert source_in(**changed) == Problem(reason, text)


@pytest.mark.parametrize(
    ("source", "driver", "handle"),
    [
        ({"csi": core.CsiVolumeSource(driver=DRIVER, volume_handle="vol-1")}, DRIVER, "vol-1"),
        ({"csi": None, "host_path": core.HostPathVolumeSource(path="/data/pv")}, "ullage.io/hostpath", "/data/pv"),
        ({"csi": None, "local": core.LocalVolumeSource(path="/data/pv")}, "ullage.io/hostpath", "/data/pv"),
        ({"csi": None, "aws_elastic_block_store": core.EbsVolumeSource(volume_id="vol-0a")}, "kubernetes.io/aws-ebs", "vol-0a"),
    ],
    ids=["csi", "hostPath", "local", "awsElasticBlockStore"],
)
def test_the_backend_follows_from_the_volumes_source(source: dict[str, Any], driver: str, handle: str) -> None:
    found = source_in(volume=volume(**source))
    assert isinstance(found, SourceVolume)
    assert (found.driver, found.volume.handle, found.volume_name) == (driver, handle, "pv-1")


def on_nodes(*nodes: str) -> core.PersistentVolume:
    term = core.NodeSelectorRequirement(key="kubernetes.io/hostname", operator="In", values=nodes)
    terms = (core.NodeSelectorTerm(match_expressions=(term,)),)
    return volume(node_affinity=core.VolumeNodeAffinity(required=core.NodeSelector(node_selector_terms=terms)))


def test_a_volume_on_one_node_can_only_be_reached_there() -> None:
    assert node_of(on_nodes("a")) == "a"
    assert node_of(on_nodes("a", "b")) == ""
    assert node_of(volume()) == ""


# --- classes ---


def source_volume(driver: str = DRIVER) -> SourceVolume:
    found = source_in(volume=volume(csi=core.CsiVolumeSource(driver=driver, volume_handle="vol-1")))
    assert isinstance(found, SourceVolume)
    return found


def chosen(
    wanted: Snapshot, *classes: SnapshotClass, defaults: bool = True, driver: str = DRIVER, **changed: Any
) -> SnapshotClass | Problem:
    return find_class(wanted, source_volume(driver), context=context(**changed), classes=classes, defaults=defaults)


def test_the_only_default_of_the_driver_is_taken() -> None:
    mine, theirs = snapshot_class("mine"), snapshot_class("theirs", driver="other.example.com")
    assert chosen(snapshot(), theirs, mine, snapshot_class("plain", is_default=False)) == mine


def test_a_class_that_is_named_is_taken() -> None:
    plain = snapshot_class("plain", is_default=False)
    assert chosen(snapshot(class_name="plain"), snapshot_class(), plain) == plain


def test_without_defaults_the_claims_own_class_is_taken() -> None:
    fast = snapshot_class("fast", is_default=False)
    assert chosen(snapshot(), snapshot_class("other"), fast, defaults=False) == fast


CLASSLESS: dict[str, Any] = {"claim": claim(spec={"storage_class_name": None}), "storage_class": None}
CLASS_REFUSALS = [
    (
        "no default",
        lambda: chosen(snapshot(), snapshot_class("plain", is_default=False)),
        "NoDefaultClass",
        "no class is marked as the default of driver csi.example.com (classes of this driver: plain); name one in "
        "spec.volumeSnapshotClassName, or mark one with the annotation snapshot.storage.kubernetes.io/is-default-class: true",
    ),
    (
        "no class of the driver at all",
        lambda: chosen(snapshot(), snapshot_class(driver="other.example.com")),
        "NoDefaultClass",
        "no class is marked as the default of driver csi.example.com (there is no class of this driver); name one in "
        "spec.volumeSnapshotClassName, or mark one with the annotation snapshot.storage.kubernetes.io/is-default-class: true",
    ),
    (
        "two defaults",
        lambda: chosen(snapshot(), snapshot_class("b"), snapshot_class("a")),
        "SeveralDefaultClasses",
        "2 classes are marked as the default of driver csi.example.com: a, b; leave the mark on one of them, or name a class "
        "in spec.volumeSnapshotClassName",
    ),
    ("a class that is not there", lambda: chosen(snapshot(class_name="gold")), "ClassNotFound", "class gold does not exist"),
    (
        "a class of another provisioner than the claim's",
        lambda: chosen(snapshot(class_name="daily"), snapshot_class(driver="other.example.com")),
        "ProvisionerMismatch",
        "class daily is for other.example.com, but StorageClass fast of the claim has csi.example.com",
    ),
    (
        "a class of another driver than the volume's, where the claim has no class",
        lambda: chosen(snapshot(class_name="daily"), snapshot_class(driver="other.example.com"), **CLASSLESS),
        "ProvisionerMismatch",
        "class daily is for other.example.com, but volume pv-1 belongs to csi.example.com",
    ),
    (
        "a volume of another driver than its claim's class",
        lambda: chosen(snapshot(class_name="daily"), snapshot_class(), driver="odd.example.com"),
        "ProvisionerMismatch",
        "class daily is for csi.example.com, but volume pv-1 belongs to odd.example.com",
    ),
    (
        "a claim without a class, where its class is to be used",
        lambda: chosen(snapshot(), snapshot_class(), defaults=False, **CLASSLESS),
        "NoStorageClass",
        "claim team/db has no StorageClass; name one with the same provisioner in spec.storageClassName",
    ),
    (
        "a class with something wrong in it",
        lambda: chosen(snapshot(class_name="daily"), snapshot_class(problem=Problem("ClassInvalid", "bad JSON"))),
        "ClassInvalid",
        "bad JSON",
    ),
]


@pytest.mark.parametrize(("ask", "reason", "text"), [row[1:] for row in CLASS_REFUSALS], ids=[row[0] for row in CLASS_REFUSALS])
def test_no_class_is_found_with(ask: Any, reason: str, text: str) -> None:
    assert ask() == Problem(reason, text)
