"""Which claims get a volume of their own, and what it is."""

from __future__ import annotations

import pytest

from ullage.kube.builtin.core import PersistentVolumeClaim
from ullage.kube.builtin.storage import StorageClass
from ullage.standalone.world.model import uid_of, volume_name
from ullage.standalone.world.rules.binding import ClaimFacts
from ullage.standalone.world.rules.provision import Provision, Refuse, plan_provision, volume_for

from .builders import UID, claim, storage_class, volume

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
    made = volume_for(claim(size="5Gi"), Provision(f"pvc-{UID}", storage_class(reclaim_policy="Retain")), path="/v/x")
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


@pytest.mark.parametrize("uid", ["", "..", "../../etc", f"{UID}/x", UID.replace("1", "A"), f"{UID}\n"])
def test_only_a_uid_makes_a_name(uid: str) -> None:
    with pytest.raises(ValueError, match="not a UUID"):
        volume_name(uid)
    assert uid_of(f"pvc-{uid}") is None


def test_a_name_gives_its_uid_back() -> None:
    assert uid_of(volume_name(UID)) == UID
