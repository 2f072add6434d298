"""Migrations: what they are stamped with, what is booked of the share kept for them, and who says that one has ended."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.unit.headroom.builders import ONE_COST, TEAM, instance, migration
from tests.unit.headroom.scene import KUBEVIRT, OURS, PERSON, Scene, simulated
from ullage.headroom.webhook.migrations import MigrationFacts, review_migration
from ullage.ledger.charging.stamps import COST, STAMP
from ullage.vms.api.machines import WHOLE_INSTANCES, WholeInstance
from ullage.vms.api.migrations import MIGRATIONS

Json = dict[str, Any]
TAKES = {"compute/maintenance": {"cpu": "1", "memory": "1222Mi"}}
ONE_FITS = {"cpu": "1", "memory": "1280Mi"}


def runs(scene: Scene, *names: str, cost: str = ONE_COST, phase: str = "Running") -> None:
    for name in names:
        annotations = {STAMP: "{}", **({COST: cost} if cost else {})}
        scene.store(WHOLE_INSTANCES, instance(name, annotations=annotations, phase=phase))


@simulated
async def test_a_migration_is_stamped_with_what_its_instance_costs(scene: Scene) -> None:
    runs(scene, "db", cost='{"cpu":"3","memory":"4Gi"}')
    async with scene.served():
        assert (await scene.submit(MIGRATIONS, migration())).allowed
    assert scene.marks(MIGRATIONS, "move") == {"takes": {"compute/maintenance": {"cpu": "3", "memory": "4Gi"}}}


@simulated
async def test_an_instance_from_before_there_were_stamps_is_priced_as_it_is(scene: Scene) -> None:
    runs(scene, "db", cost="")
    async with scene.served():
        assert (await scene.submit(MIGRATIONS, migration())).allowed
    assert scene.marks(MIGRATIONS, "move") == {"takes": TAKES}


@pytest.mark.parametrize("user", [PERSON, KUBEVIRT, OURS], ids=["a person", "KubeVirt, which empties a node", "ourselves"])
@simulated
async def test_one_more_than_the_reserve_holds_is_refused_whoever_asks(scene: Scene, user: str) -> None:
    scene.limits(maintenance=ONE_FITS)
    runs(scene, "db", "web")
    async with scene.served():
        assert (await scene.submit(MIGRATIONS, migration(), user=user)).allowed
        refused = await scene.submit(MIGRATIONS, migration("second", of="web"), user=user)
    assert (refused.code, refused.message) == (
        403,
        "maintenance resource is insufficient: cpu: asked 1 core, used 1 core, pending 0, share 1 core; memory: asked 1.2Gi,"
        " used 1.2Gi, pending 0, share 1.25Gi. Next: kubectl get vmim -n team, and try again when one of them has ended, or"
        " have the reserve raised",
    )


@simulated
async def test_of_the_share_of_vms_it_takes_nothing(scene: Scene) -> None:
    scene.limits(vms={"cpu": "0", "memory": "0"}, maintenance=ONE_FITS)
    runs(scene, "db")
    async with scene.served():
        assert (await scene.submit(MIGRATIONS, migration())).allowed


@pytest.mark.parametrize(
    ("phase", "fits"),
    [
        pytest.param("", False, id="one that has just been made"),
        pytest.param("Pending", False, id="one that waits"),
        pytest.param("Running", False, id="one that goes on"),
        pytest.param("Succeeded", True, id="one that has arrived takes nothing"),
        pytest.param("Failed", True, id="one that has failed takes nothing"),
    ],
)
@simulated
async def test_another_counts_until_it_has_ended(scene: Scene, phase: str, fits: bool) -> None:
    scene.limits(maintenance=ONE_FITS)
    runs(scene, "db", "web")
    scene.store(MIGRATIONS, migration("first", phase=phase, annotations={STAMP: msgspec.json.encode(TAKES).decode()}))
    async with scene.served():
        assert (await scene.submit(MIGRATIONS, migration("second", of="web"))).allowed is fits


@simulated
async def test_one_that_is_deleted_takes_nothing(scene: Scene) -> None:
    scene.limits(maintenance=ONE_FITS)
    runs(scene, "db", "web")
    scene.store(MIGRATIONS, migration("first", annotations={STAMP: msgspec.json.encode(TAKES).decode()}))
    scene.remove(MIGRATIONS, "first")
    async with scene.served():
        assert (await scene.submit(MIGRATIONS, migration("second", of="web"))).allowed


# --- what names no instance ------------------------------------------------------------------------------------------


def whole(phase: str) -> WholeInstance:
    return msgspec.convert(instance(phase=phase), WholeInstance)


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        pytest.param(MigrationFacts(namespace=TEAM, names="db", instance=whole("Running")), None, id="it runs"),
        pytest.param(MigrationFacts(namespace=TEAM, names="db", instance=whole("")), None, id="it is about to start"),
        pytest.param(
            MigrationFacts(namespace=TEAM, names=""), "name the instance that is to move: kubectl get vmi -n team", id="no name"
        ),
        pytest.param(
            MigrationFacts(namespace=TEAM, names="db"),
            "VirtualMachineInstance team/db does not exist: a VM that does not run is where it is started next",
            id="no instance",
        ),
        pytest.param(
            MigrationFacts(namespace=TEAM, names="db", instance=whole("Failed")),
            "VirtualMachineInstance team/db has ended (Failed): there is nothing to move",
            id="one that has ended",
        ),
    ],
)
def test_what_can_move(facts: MigrationFacts, problem: str | None) -> None:
    found = review_migration(facts)
    assert (found.problem if found else None) == problem


@pytest.mark.parametrize(
    ("of", "reason"), [pytest.param("", "FieldValueRequired", id="none"), pytest.param("gone", "FieldValueNotFound", id="gone")]
)
@simulated
async def test_one_without_an_instance_is_refused_by_its_field(scene: Scene, of: str, reason: str) -> None:
    async with scene.served():
        refused = await scene.submit(MIGRATIONS, migration(of=of))
    assert (refused.code, refused.causes[0].field, refused.causes[0].reason) == (422, "spec.vmiName", reason)


# --- what others write on it -----------------------------------------------------------------------------------------


@simulated
async def test_a_forged_stamp_is_written_over_and_cannot_be_changed(scene: Scene) -> None:
    runs(scene, "db")
    async with scene.served():
        assert (await scene.submit(MIGRATIONS, migration(annotations={STAMP: "{}", COST: "{}"}))).allowed
        assert scene.marks(MIGRATIONS, "move") == {"takes": TAKES}
        assert (await scene.change(MIGRATIONS, "move", metadata={"annotations": {STAMP: None, "mine": "1"}})).allowed
    assert scene.marks(MIGRATIONS, "move") == {"takes": TAKES}
    assert scene.body(MIGRATIONS, "move")["metadata"]["annotations"]["mine"] == "1"


@simulated
async def test_another_webhook_behind_ours_cannot_make_it_free(scene: Scene) -> None:
    runs(scene, "db")
    async with scene.served():
        refused = await scene.submit(MIGRATIONS, migration(), behind={STAMP: "{}"})
    assert refused.code == 429
    assert refused.message.startswith("metadata.annotations[ullage.io/takes]: it is {}, and Ullage had stamped ")


@simulated
async def test_it_cannot_be_turned_to_another_instance(scene: Scene) -> None:
    runs(scene, "db")
    runs(scene, "giant", cost='{"cpu":"64","memory":"1Ti"}')
    async with scene.served():
        assert (await scene.submit(MIGRATIONS, migration())).allowed
        refused = await scene.change(MIGRATIONS, "move", spec={"vmiName": "giant"})
    assert (refused.code, refused.message) == (
        422,
        "spec.vmiName: it cannot be changed: delete the migration, and create another",
    )


@pytest.mark.parametrize(
    ("user", "allowed"),
    [
        pytest.param(PERSON, False, id="a person"),
        pytest.param(KUBEVIRT, True, id="KubeVirt"),
        pytest.param(OURS, True, id="we"),
    ],
)
@simulated
async def test_who_may_say_that_it_has_ended(scene: Scene, user: str, allowed: bool) -> None:
    runs(scene, "db")
    async with scene.served():
        assert (await scene.submit(MIGRATIONS, migration())).allowed
        said = await scene.change(MIGRATIONS, "move", user=user, status={"phase": "Failed"})
    assert said.allowed is allowed
    if not allowed:
        assert said.message == (
            "status.phase Failed: only KubeVirt says how VirtualMachineInstanceMigration team/move has ended."
            " Next: kubectl delete vmim move -n team"
        )


@pytest.mark.parametrize(
    ("user", "allowed"),
    [
        pytest.param(PERSON, False, id="by a person has to fit"),
        pytest.param(KUBEVIRT, True, id="by KubeVirt has happened, and counts"),
    ],
)
@simulated
async def test_one_that_goes_on_again(scene: Scene, user: str, allowed: bool) -> None:
    scene.limits(maintenance=ONE_FITS)
    runs(scene, "db", "web")
    stamp = {STAMP: msgspec.json.encode(TAKES).decode()}
    scene.store(MIGRATIONS, migration("first", phase="Running", annotations=stamp))
    scene.store(MIGRATIONS, migration("ended", phase="Failed", annotations=stamp))
    async with scene.served():
        assert (await scene.change(MIGRATIONS, "ended", user=user, status={"phase": "Running"})).allowed is allowed
