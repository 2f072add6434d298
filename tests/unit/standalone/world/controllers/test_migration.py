"""Migrations on an API in memory: they go through their phases, wait for each other, are refused, fail, and are aborted; and
every process may die at any single effect."""

from __future__ import annotations

from tests.unit.standalone.world.migrations import SHOP, A, B, C, Moving
from ullage.kube.builtin.core import PODS
from ullage.vms.api.machines import INSTANCES
from ullage.vms.api.migrations import MIGRATIONS

PHASES = ["Pending", "Scheduling", "Scheduled", "PreparingTarget", "TargetReady", "Running", "Succeeded"]


async def test_an_instance_goes_to_another_node_through_every_phase() -> None:
    place = Moving()
    place.instance()
    place.ask()
    await place.live(lambda: place.phase() == "Succeeded" and not place.migration()["metadata"].get("finalizers"))
    assert place.node() in (B, C)
    assert place.is_tidy("db")
    told = place.migration()["status"]
    assert [one["phase"] for one in told["phaseTransitionTimestamps"]] == PHASES
    state = place.status()["migrationState"]
    assert told["migrationState"] == state
    assert (state["sourceNode"], state["targetNode"], state["mode"]) == (A, place.node(), "PreCopy")
    assert state["completed"] is True
    assert state["migrationUid"] == "uid-m"
    assert place.told.reasons == ["SuccessfulMigration"]


async def test_whatever_process_dies_the_instance_has_one_pod_at_the_end() -> None:
    for moment in range(1, 200):
        place = Moving()
        place.fuse.blows_at = moment
        place.instance()
        place.ask()
        await place.live(lambda place=place: place.phase() == "Succeeded")  # type: ignore[misc]
        assert place.is_tidy("db"), place.fuse.log
        place.ask("again")
        place.api.edit(INSTANCES, "db", SHOP, merge={"metadata": {"annotations": {"ullage.io/migration-time": "never"}}})
        await place.live(lambda place=place: place.phase("again") == "Running")  # type: ignore[misc]
        node = place.node()
        place.api.remove(MIGRATIONS, "again", SHOP)
        await place.live(lambda place=place: not place.migration("again"))  # type: ignore[misc]
        assert place.is_tidy("db"), place.fuse.log
        assert place.node() == node
        assert place.status()["migrationState"]["abortStatus"] == "Succeeded"
        if place.fuse.passed < moment:
            return
    raise AssertionError("it never came to an end without a crash")


async def test_no_more_go_at_a_time_than_is_allowed() -> None:
    place = Moving()
    place.settings(parallelMigrationsPerCluster=3, parallelOutboundMigrationsPerNode=2)
    names = [f"vm-{number}" for number in range(9)]
    for number, name in enumerate(names):
        place.instance(name, (A, B)[number % 2])
        place.ask(f"m-{name}", name)
    most, leaving = 0, 0

    def look() -> None:
        nonlocal most, leaving
        active = [one for one in place.api.unfinished() if one.get("status", {}).get("phase") not in ("", "Pending", None)]
        most = max(most, len(active))
        states = [place.status(one["spec"]["vmiName"]).get("migrationState", {}) for one in active]
        left = [one.get("sourceNode") for one in states if one.get("sourceNode") and not one.get("completed")]
        leaving = max([leaving, *(left.count(node) for node in left)])

    place.api.look = look
    await place.live(lambda: all(place.phase(f"m-{name}") == "Succeeded" for name in names))
    assert (most, leaving) == (3, 2)
    assert place.is_tidy(*names)


async def test_a_migration_of_an_instance_that_does_not_run_yet_holds_up_nobody() -> None:
    place = Moving()
    place.settings(parallelMigrationsPerCluster=1)
    place.instance("early")
    place.api.edit(INSTANCES, "early", SHOP, merge={"status": {"phase": "Scheduled"}})
    place.ask("a", "early")
    place.instance("late")
    place.ask("b", "late")
    await place.live(lambda: place.phase("b") == "Succeeded")
    assert place.phase("a") == "Pending"
    place.api.edit(INSTANCES, "early", SHOP, merge={"status": {"phase": "Running"}})
    await place.live(lambda: place.phase("a") == "Succeeded")
    assert place.is_tidy("early", "late")


async def test_a_pod_that_a_quota_refuses_is_tried_again() -> None:
    place = Moving()
    place.instance()
    place.api.pods = 1
    place.ask()

    def rejected() -> bool:
        found = place.migration().get("status", {}).get("conditions", ())
        return any(one["type"] == "migrationRejectedByResourceQuota" and "exceeded quota" in one["message"] for one in found)

    await place.live(rejected)
    assert place.phase() == "Pending"
    assert ("Warning", "FailedCreate") in [one[:2] for one in place.told.events]
    place.api.pods = 2
    await place.live(lambda: place.phase() == "Succeeded")
    assert not rejected()
    assert place.is_tidy("db")


async def test_only_the_first_of_two_migrations_of_an_instance_goes_on() -> None:
    place = Moving(usual=1.0)
    place.instance()
    place.ask("a")
    place.ask("b")
    await place.live(lambda: place.phase("b") == "Failed" and place.phase("a") == "Succeeded")
    reason = place.migration("b")["status"]["migrationState"]["failureReason"]
    assert reason == "migration a of the same instance goes on already"
    assert place.is_tidy("db")


async def test_an_instance_that_stops_ends_its_migration() -> None:
    place = Moving()
    place.instance(annotations={"ullage.io/migration-time": "never"})
    place.ask()
    await place.live(lambda: place.phase() == "Running")
    place.api.edit(INSTANCES, "db", SHOP, merge={"status": {"phase": "Succeeded"}})
    await place.live(lambda: place.phase() == "Failed")
    assert list(place.pods()) == ["virt-launcher-db"]
    place.api.remove(INSTANCES, "db", SHOP)
    await place.live(lambda: not place.migration())


async def test_a_migration_without_a_node_to_go_to_waits_for_one() -> None:
    place = Moving(A)
    place.instance()
    place.ask()
    await place.live(lambda: place.phase() == "Scheduling")
    assert sorted(place.pods().values()) == ["", A]
    place.api.remove(MIGRATIONS, "m", SHOP)
    await place.live(lambda: not place.migration())
    assert place.pods() == {"virt-launcher-db": A}


async def test_a_migration_that_finds_no_node_ends_and_its_pod_goes() -> None:
    place = Moving(A)
    place.instance()
    place.ask()
    await place.live(lambda: place.phase() == "Scheduling")
    long_ago = [{"phase": "Scheduling", "phaseTransitionTimestamp": "2026-11-16T11:00:00Z"}]
    place.api.edit(MIGRATIONS, "m", SHOP, merge={"status": {"phaseTransitionTimestamps": long_ago}})
    await place.live(lambda: place.phase() == "Failed")
    assert place.pods() == {"virt-launcher-db": A}
    assert (
        place.migration()["status"]["migrationState"]["failureReason"]
        == "its pod did not start on another node within 300 seconds"
    )


async def test_of_those_that_are_over_the_last_five_stay() -> None:
    place = Moving()
    place.instance()
    for number in range(8):
        place.ask(f"m-{number}")
        place.api.edit(
            MIGRATIONS, f"m-{number}", SHOP, merge={"metadata": {"creationTimestamp": f"2026-11-16T12:00:0{number}Z"}}
        )
        await place.live(lambda number=number: place.phase(f"m-{number}") == "Succeeded")  # type: ignore[misc]
    await place.live(lambda: len(place.api.bodies(MIGRATIONS)) == 5)
    assert sorted(one["metadata"]["name"] for one in place.api.bodies(MIGRATIONS)) == [f"m-{number}" for number in range(3, 8)]
    assert len(place.api.bodies(PODS)) == 1


async def test_a_pod_that_somebody_else_makes_is_not_moved_to_and_not_taken_away() -> None:
    place = Moving()
    place.instance()
    owner = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "name": "db",
        "uid": "uid-db",
        "controller": True,
    }
    marks = {"labels": {"kubevirt.io/migrationJobUID": "uid-m"}, "annotations": {"kubevirt.io/domain": "db"}}
    meta = {"name": "forged", "namespace": SHOP, "uid": "uid-forged", **marks, "ownerReferences": [owner]}
    place.api.put(PODS, {"metadata": meta, "spec": {"nodeName": B}, "status": {"phase": "Running"}})
    place.ask()
    await place.live(lambda: place.phase() == "Succeeded")
    (active,) = place.status()["activePods"]
    assert active != "uid-forged"
    assert set(place.pods()) == {"forged", place.status()["migrationState"]["targetPod"]}
