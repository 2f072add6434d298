"""Which claims get a volume of their own, and what it is."""

from __future__ import annotations

import pytest

from tests.unit.standalone.world.builders import OTHER_UID, UID, claim, storage_class, volume
from ullage.kube.builtin.core import PersistentVolume, PersistentVolumeClaim
from ullage.kube.builtin.storage import StorageClass
from ullage.standalone.world.controllers.persistent_volume_hostpath_rules import (
    Keep,
    SetPhase,
    Unbind,
    VolumePlan,
    new_volume,
    plan_provision,
    plan_volume,
)
from ullage.standalone.world.controllers.persistent_volume_plans import Delete, Finalize, Provision, Refuse
from ullage.standalone.world.matching import ClaimFacts

OURS = storage_class()
LATE = storage_class(volume_binding_mode="WaitForFirstConsumer")
YES = Provision(f"pvc-{UID}", OURS)


@pytest.mark.parametrize(
    ("wanted", "found", "plan"),
    [
        pytest.param(claim(), OURS, YES, id="a plain one"),
        pytest.param(claim(), None, None, id="of a class that is not there"),
        pytest.param(claim(), storage_class(provisioner="ebs.csi.aws.com"), None, id="of somebody else's class"),
        pytest.param(claim(volume_name="v"), OURS, None, id="that names a volume"),
        pytest.param(claim(going=True), OURS, None, id="that goes"),
        pytest.param(claim(data_source={"kind": "VolumeSnapshot"}), OURS, None, id="with a data source"),
        pytest.param(claim(data_source_ref={"kind": "VolumeSnapshot"}), OURS, None, id="with a reference to one"),
        pytest.param(
            claim(annotations={"snapshot.alpha.kubernetes.io/snapshot": "s"}), OURS, None, id="with one in the old way"
        ),
        pytest.param(claim(), LATE, None, id="that waits for a pod"),
        pytest.param(
            claim(volume_mode="Block"),
            OURS,
            Refuse("spec.volumeMode Block: Filesystem is allowed: the volumes of this class are directories"),
            id="for a block device",
        ),
        pytest.param(
            claim(selector={"matchLabels": {"a": "b"}}),
            OURS,
            Refuse("spec.selector: not allowed where volumes are made on demand"),
            id="with a selector",
        ),
    ],
)
def test_whether_a_claim_gets_a_volume(
    wanted: PersistentVolumeClaim, found: StorageClass | None, plan: Provision | Refuse | None
) -> None:
    assert plan_provision(wanted, ClaimFacts(storage_class=found)) == plan


def test_a_claim_that_finds_a_free_volume_gets_no_new_one() -> None:
    assert plan_provision(claim(), ClaimFacts(storage_class=OURS, candidates=[volume()])) is None


def test_a_claim_that_waited_for_its_pod_gets_one_when_it_is_there() -> None:
    assert plan_provision(claim(), ClaimFacts(storage_class=LATE, consumed=True)) == Provision(f"pvc-{UID}", LATE)


def test_the_volume_names_its_claim_its_node_and_who_made_it() -> None:
    made = new_volume(claim(size="5Gi"), Provision(f"pvc-{UID}", storage_class(reclaim_policy="Retain")), path="/v/x")
    assert made["metadata"]["annotations"] == {"pv.kubernetes.io/provisioned-by": "ullage.io/hostpath"}
    assert made["metadata"]["finalizers"] == ["ullage.io/hostpath"], "it does not go before its directory"
    spec = made["spec"]
    assert (spec["capacity"], spec["hostPath"]) == ({"storage": "5Gi"}, {"path": "/v/x", "type": "Directory"})
    assert (spec["persistentVolumeReclaimPolicy"], spec["storageClassName"]) == ("Retain", "fast")
    assert {key: spec["claimRef"][key] for key in ("namespace", "name", "uid")} == {
        "namespace": "default",
        "name": "data",
        "uid": UID,
    }


MINE = claim(volume_name="v")
RESTORED = {"ullage.io/restored-from": "default/s"}


@pytest.mark.parametrize(
    ("found", "owner", "plan"),
    [
        pytest.param(volume(phase=""), None, SetPhase("Available"), id="a new one is available"),
        pytest.param(volume(), None, Keep(), id="an available one is left alone"),
        pytest.param(volume(claimed_by="", phase=""), None, SetPhase("Available"), id="one that waits for a name is available"),
        pytest.param(volume(claimed_by=UID), MINE, SetPhase("Bound"), id="one that both sides agree on is bound"),
        pytest.param(volume(claimed_by=UID, phase="Bound"), MINE, Keep(), id="a bound one is left alone"),
        pytest.param(volume(claimed_by=UID, phase="Pending"), claim(), Keep(), id="the claim comes first"),
        pytest.param(volume(claimed_by=UID, phase="Bound"), None, SetPhase("Released"), id="its claim is gone"),
        pytest.param(
            volume(claimed_by=UID, phase="Bound"),
            claim(uid=OTHER_UID),
            SetPhase("Released"),
            id="a new claim of that name is another claim",
        ),
        pytest.param(
            volume(claimed_by=UID, phase="Released", persistent_volume_reclaim_policy="Delete", ours=True),
            None,
            Delete(),
            id="ours goes, if its policy says so",
        ),
        pytest.param(volume(claimed_by=UID, phase="Released", ours=True), None, Keep(), id="ours stays, if its policy says so"),
        pytest.param(
            volume(claimed_by=UID, phase="Released", persistent_volume_reclaim_policy="Delete"),
            None,
            Keep(),
            id="somebody else's stays",
        ),
        pytest.param(
            volume(
                claimed_by=UID, phase="Released", persistent_volume_reclaim_policy="Delete", ours=True, annotations=RESTORED
            ),
            None,
            Keep(),
            id="a restored one stays: who restored it takes it away",
        ),
        pytest.param(
            volume(claimed_by=UID, phase="Bound", persistent_volume_reclaim_policy="Delete", ours=True, going=True),
            MINE,
            Keep(),
            id="one that is deleted in use waits",
        ),
        pytest.param(
            volume(claimed_by=UID, phase="Bound", persistent_volume_reclaim_policy="Delete", ours=True, going=True),
            None,
            Finalize(with_data=True),
            id="one that goes takes its data along",
        ),
        pytest.param(
            volume(claimed_by=UID, phase="Released", ours=True, going=True),
            None,
            Finalize(with_data=False),
            id="one that goes leaves data that is to be kept",
        ),
        pytest.param(
            volume(claimed_by=UID, annotations={"pv.kubernetes.io/bound-by-controller": "yes"}),
            claim(volume_name="w"),
            Unbind(free=True),
            id="chosen by us for a claim that took another",
        ),
        pytest.param(
            volume(claimed_by=UID),
            claim(volume_name="w"),
            Unbind(free=False),
            id="given by a person to a claim that took another",
        ),
        pytest.param(
            volume(claimed_by=UID, phase="Pending", ours=True),
            claim(volume_name="w"),
            SetPhase("Released"),
            id="made for a claim that took another",
        ),
    ],
)
def test_what_becomes_of_a_volume(found: PersistentVolume, owner: PersistentVolumeClaim | None, plan: VolumePlan) -> None:
    assert plan_volume(found, owner) == plan
