"""Migrations: what they are stamped with, what is booked of the share kept for them, and who says that one has ended."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.unit.headroom.builders import ONE_COST, TEAM, instance, made, migration
from tests.unit.headroom.scene import KUBEVIRT, OURS, PERSON, Scene, simulated
from ullage.headroom.settings import Settings
from ullage.headroom.webhook.migrations import MigrationFacts, review_migration
from ullage.kube.builtin.core import CORE_QUOTAS
from ullage.kube.builtin.watched_pods import WATCHED_PODS
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


# --- the core ResourceQuota of the namespace --------------------------------------------------------------------------

CORE_HARD = {"limits.cpu": "4", "limits.memory": "5Gi"}


def core_quota(scene: Scene, cpu: str, *, memory: str = "1Gi") -> None:
    used = {"limits.cpu": cpu, "limits.memory": memory}
    body = {"metadata": {"name": "default-q", "namespace": TEAM}, "spec": {"hard": CORE_HARD}}
    scene.server.put(CORE_QUOTAS, made(CORE_QUOTAS, {**body, "status": {"hard": CORE_HARD, "used": used}}))


def pod(scene: Scene, name: str, *, cpu: str = "1", migration_uid: str = "", deleted: bool = False) -> None:
    limits = {"name": "compute", "resources": {"limits": {"cpu": cpu, "memory": "1Gi"}}}
    meta: Json = {"name": name, "namespace": TEAM, "labels": {}}
    meta |= {"labels": {"kubevirt.io/migrationJobUID": migration_uid}} if migration_uid else {}
    meta |= {"deletionTimestamp": "2026-05-01T12:00:00Z"} if deleted else {}
    scene.server.put(WATCHED_PODS, made(WATCHED_PODS, {"metadata": meta, "spec": {"containers": [limits]}}))


TWO_FIT = {"cpu": "2", "memory": "2560Mi"}


@simulated
async def test_a_migration_whose_pod_the_core_quota_would_refuse_is_refused_with_both_numbers_and_books_nothing(
    scene: Scene,
) -> None:
    scene.limits(maintenance=TWO_FIT)
    runs(scene, "db")
    async with scene.served():
        core_quota(scene, "3001m")
        pod(scene, "all", cpu="3001m")
        refused = await scene.submit(MIGRATIONS, migration(), user=KUBEVIRT)
        assert (refused.code, refused.reason) == (403, "Forbidden")
        assert "the maintenance share has 2 cores of cpu and 2.5Gi of memory free" in refused.message
        assert "ResourceQuota default-q: limits.cpu: asked 1 core, used 3.01 cores, limit 4 cores" in refused.message
        core_quota(scene, "3")
        assert (await scene.submit(MIGRATIONS, migration(), user=KUBEVIRT)).allowed


@simulated
async def test_a_share_that_is_full_is_told_before_the_core_quota(scene: Scene) -> None:
    scene.limits(maintenance={"cpu": "0", "memory": "0"})
    runs(scene, "db")
    async with scene.served():
        core_quota(scene, "4")
        refused = await scene.submit(MIGRATIONS, migration())
    assert refused.message.startswith("maintenance resource is insufficient: cpu: asked 1 core")


@pytest.mark.parametrize(
    ("settings", "limited"),
    [
        pytest.param(Settings(migration="scale-quota"), True, id="where the quota is raised for migrations"),
        pytest.param(Settings(), False, id="without a share KubeVirt waits for the quota"),
    ],
)
@simulated
async def test_where_the_core_quota_is_left_alone(scene: Scene, settings: Settings, limited: bool) -> None:
    scene.settings = settings
    if limited:
        scene.limits(maintenance=TWO_FIT)
    runs(scene, "db")
    async with scene.served():
        core_quota(scene, "4")
        assert (await scene.submit(MIGRATIONS, migration())).allowed


@simulated
async def test_a_migration_whose_pod_is_not_there_yet_takes_room_of_the_core_quota(scene: Scene) -> None:
    scene.limits(maintenance=TWO_FIT)
    runs(scene, "db", "web")
    async with scene.served():
        core_quota(scene, "3")
        pod(scene, "all", cpu="3")
        assert (await scene.submit(MIGRATIONS, migration())).allowed
        refused = await scene.submit(MIGRATIONS, migration("second", of="web"))
        assert refused.code == 403
        assert "used 3 cores, 1 core waited for by other migrations, limit 4 cores" in refused.message
        pod(scene, "target", migration_uid=scene.body(MIGRATIONS, "move")["metadata"]["uid"])
        assert (await scene.submit(MIGRATIONS, migration("second", of="web"))).allowed, "the quota counts the pod by then"


@simulated
async def test_room_of_a_pod_that_is_being_deleted_is_room(scene: Scene) -> None:
    scene.limits(maintenance=TWO_FIT)
    runs(scene, "db")
    async with scene.served():
        core_quota(scene, "4")
        for name in ("a", "b", "c", "goes"):
            pod(scene, name)
        assert (await scene.submit(MIGRATIONS, migration())).code == 403
        pod(scene, "goes", deleted=True)
        assert (await scene.submit(MIGRATIONS, migration())).allowed


@pytest.mark.parametrize(
    ("used", "fits"),
    [
        pytest.param("894m", True, id="a guest of 1 CPU asks for 106m, with its console's log"),
        pytest.param("896m", False, id="two thousandths less are not enough"),
    ],
)
@simulated
async def test_what_the_pod_asks_for_counts_as_kubevirt_renders_it(scene: Scene, used: str, fits: bool) -> None:
    scene.settings = Settings()
    scene.limits(maintenance={"cpu": "2", "memory": "4Gi"})
    scene.store(WHOLE_INSTANCES, instance("db", annotations={STAMP: "{}"}, given={"memory": {"guest": "1Gi"}}))
    hard = {"requests.cpu": "1"}
    meta = {"name": "asks", "namespace": TEAM}
    body = {"metadata": meta, "spec": {"hard": hard}, "status": {"hard": hard, "used": {"requests.cpu": used}}}
    asks = {"name": "c", "resources": {"requests": {"cpu": used}}}
    scene.server.put(WATCHED_PODS, made(WATCHED_PODS, {"metadata": {**meta, "labels": {}}, "spec": {"containers": [asks]}}))
    async with scene.served():
        scene.server.put(CORE_QUOTAS, made(CORE_QUOTAS, body))
        await scene.seen()
        decided = await scene.submit(MIGRATIONS, migration())
    assert decided.allowed is fits, decided.message
    assert fits or "ResourceQuota asks: requests.cpu: asked 0.11 cores" in decided.message
