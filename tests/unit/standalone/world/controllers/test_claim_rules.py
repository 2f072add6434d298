"""Which claim and which volume belong together, and what becomes of a volume whose claim is gone."""

from __future__ import annotations

import pytest

from tests.unit.standalone.world.builders import OTHER_UID, UID, claim, storage_class, volume
from ullage.kube.builtin.core import PersistentVolume, PersistentVolumeClaim
from ullage.standalone.world.controllers.claim_rules import AskFor, Bind, ClaimPlan, MarkLost, SetClass, Wait, plan_claim
from ullage.standalone.world.matching import ClaimFacts

SNAPSHOT = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}
LATE = storage_class(volume_binding_mode="WaitForFirstConsumer")


def told(plan: ClaimPlan) -> str:
    match plan:
        case Bind(found):
            return f"bind {found.metadata.name}"
        case SetClass(name):
            return f"class {name}"
        case AskFor(provisioner):
            return f"ask for {provisioner}"
        case MarkLost(reason):
            return f"lost {reason.name}"
        case Wait(reason, note):
            return f"wait {reason.name} {note}" if reason else "wait"


@pytest.mark.parametrize(
    ("wanted", "candidates", "plan"),
    [
        pytest.param(claim(), [], "wait", id="nothing is there"),
        pytest.param(claim(), [volume()], "bind v", id="one that fits exactly"),
        pytest.param(claim(size="2Gi"), [volume()], "wait", id="one that is too small"),
        pytest.param(
            claim(size="2Gi"),
            [volume("a", size="9Gi"), volume("b", size="3Gi"), volume("c")],
            "bind b",
            id="the smallest that fits",
        ),
        pytest.param(claim(access_modes=("ReadWriteMany",)), [volume()], "wait", id="an access mode that it lacks"),
        pytest.param(claim(volume_mode="Block"), [volume()], "wait", id="another volume mode"),
        pytest.param(claim(storage_class_name=""), [volume()], "wait", id="no class is not any class"),
        pytest.param(claim(storage_class_name=""), [volume(storage_class_name="")], "bind v", id="no class on both sides"),
        pytest.param(
            claim(selector={"matchLabels": {"disk": "ssd"}}),
            [volume("a"), volume("b", labels={"disk": "ssd"})],
            "bind b",
            id="one that the selector chooses",
        ),
        pytest.param(claim(), [volume(phase="Released")], "wait", id="one that was used before is not free"),
        pytest.param(claim(), [volume(going=True)], "wait", id="one that goes is not taken"),
        pytest.param(claim(), [volume("a"), volume("b", size="5Gi", claimed_by="")], "bind b", id="one that names it by name"),
        pytest.param(
            claim(),
            [volume("b", claimed_by=UID, storage_class_name="other")],
            "bind b",
            id="one that names it, of any class",
        ),
        pytest.param(claim(), [volume("b", claimed_by=OTHER_UID)], "wait", id="one that names an earlier claim of that name"),
        pytest.param(claim(size="2Gi"), [volume(claimed_by=UID)], "wait", id="one that names it and is too small"),
        pytest.param(claim(data_source=SNAPSHOT), [volume()], "wait", id="a claim that wants data takes no empty volume"),
        pytest.param(
            claim(data_source=SNAPSHOT), [volume(claimed_by=UID)], "bind v", id="it takes the one that was made for it"
        ),
        pytest.param(
            claim(annotations={"snapshot.alpha.kubernetes.io/snapshot": "s"}), [volume()], "wait", id="data in the old way"
        ),
        pytest.param(claim(going=True), [volume()], "wait", id="a claim that goes takes nothing"),
    ],
)
def test_a_claim_that_names_no_volume(wanted: PersistentVolumeClaim, candidates: list[PersistentVolume], plan: str) -> None:
    assert told(plan_claim(wanted, ClaimFacts(candidates=candidates))) == plan


ASKED = {"volume.kubernetes.io/storage-provisioner": storage_class().provisioner}


@pytest.mark.parametrize(
    ("wanted", "facts", "plan"),
    [
        pytest.param(
            claim(data_source=SNAPSHOT),
            ClaimFacts(storage_class=storage_class()),
            f"ask for {storage_class().provisioner}",
            id="once",
        ),
        pytest.param(
            claim(data_source=SNAPSHOT, annotations=ASKED), ClaimFacts(storage_class=storage_class()), "wait", id="not twice"
        ),
        pytest.param(claim(data_source=SNAPSHOT), ClaimFacts(storage_class=LATE), "wait", id="not before the first pod"),
        pytest.param(
            claim(data_source=SNAPSHOT),
            ClaimFacts(storage_class=LATE, consumed=True),
            f"ask for {LATE.provisioner}",
            id="with the first pod",
        ),
        pytest.param(claim(data_source=SNAPSHOT), ClaimFacts(), "wait", id="not without a class"),
        pytest.param(
            claim(data_source=SNAPSHOT),
            ClaimFacts(storage_class=storage_class(provisioner="kubernetes.io/no-provisioner")),
            "wait",
            id="not where volumes are made by hand",
        ),
        pytest.param(claim(), ClaimFacts(storage_class=storage_class()), "wait", id="the world's own is not asked"),
    ],
)
def test_the_provisioner_of_a_claim_with_data_is_asked(wanted: PersistentVolumeClaim, facts: ClaimFacts, plan: str) -> None:
    assert told(plan_claim(wanted, facts)) == plan


@pytest.mark.parametrize(
    ("found", "plan"),
    [
        pytest.param(None, 'wait FailedBinding volume "v" not found', id="it is not there"),
        pytest.param(volume(), "bind v", id="it is free"),
        pytest.param(volume(claimed_by=""), "bind v", id="it names the claim back"),
        pytest.param(
            volume(claimed_by=OTHER_UID),
            'wait FailedBinding volume "v" already bound to a different claim.',
            id="another one has it",
        ),
        pytest.param(
            volume(size="1Mi"),
            'wait VolumeMismatch Cannot bind to requested volume "v": requested PV is too small: 1Mi, and 1Gi is asked for',
            id="it is too small",
        ),
        pytest.param(
            volume(storage_class_name="slow"),
            'wait VolumeMismatch Cannot bind to requested volume "v": '
            "storageClassName does not match: 'slow', and 'fast' is asked for",
            id="it is of another class",
        ),
        pytest.param(volume(going=True), 'wait FailedBinding volume "v" is being deleted', id="it is going"),
    ],
)
def test_a_claim_that_names_a_volume(found: PersistentVolume | None, plan: str) -> None:
    assert told(plan_claim(claim(volume_name="v"), ClaimFacts(named=found))) == plan


@pytest.mark.parametrize(
    ("wanted", "found", "plan"),
    [
        pytest.param(claim(bound=True, volume_name="v"), volume(claimed_by=UID), "bind v", id="as it should be"),
        pytest.param(claim(bound=True, volume_name="v"), volume(), "bind v", id="the volume forgot it"),
        pytest.param(claim(bound=True, volume_name="v"), None, "lost ClaimLost", id="the volume vanished"),
        pytest.param(claim(bound=True), None, "lost ClaimLost", id="the claim forgot its volume"),
        pytest.param(
            claim(bound=True, volume_name="v"), volume(claimed_by=OTHER_UID), "lost ClaimMisbound", id="another one has it"
        ),
    ],
)
def test_a_claim_that_was_bound(wanted: PersistentVolumeClaim, found: PersistentVolume | None, plan: str) -> None:
    assert told(plan_claim(wanted, ClaimFacts(named=found))) == plan


@pytest.mark.parametrize(
    ("consumed", "candidates", "plan"),
    [
        pytest.param(False, [volume()], "wait", id="not before the first pod"),
        pytest.param(True, [volume()], "bind v", id="with the first pod"),
        pytest.param(False, [volume(claimed_by=UID)], "bind v", id="what was made for it at once"),
    ],
)
def test_a_claim_of_a_class_that_waits_for_pods(consumed: bool, candidates: list[PersistentVolume], plan: str) -> None:
    assert told(plan_claim(claim(), ClaimFacts(candidates=candidates, storage_class=LATE, consumed=consumed))) == plan


def test_a_claim_without_any_class_takes_the_default_one_as_soon_as_there_is_one() -> None:
    bare = claim(storage_class_name=None)
    assert told(plan_claim(bare, ClaimFacts())) == "wait"
    assert told(plan_claim(bare, ClaimFacts(default_class="fast"))) == "class fast"
    assert told(plan_claim(claim(storage_class_name=""), ClaimFacts(default_class="fast"))) == "wait", "no class is a choice"
