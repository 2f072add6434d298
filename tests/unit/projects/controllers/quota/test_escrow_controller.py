"""A master with two seeds: quotas come, change and go, seeds are out of reach, processes are killed between any two steps."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.unit.kube.virtual_time import in_virtual_time
from tests.unit.projects.master_scene import NAME, MasterScene, bugs_fail, simulated
from tests.unit.snapshots.memory_api import Crash, Fuse
from ullage.kube.errors import Unavailable
from ullage.kube.kinds import Kind
from ullage.ledger.api import LEDGERS
from ullage.ledger.api import NAMESPACE as LEDGER_NAMESPACE
from ullage.projects.api.kkp import SEEDS
from ullage.projects.api.quotas import PROJECT_QUOTAS
from ullage.projects.names import ESCROW
from ullage.projects.settings import SEED_NAMESPACE

TEN = {"cpu": "10"}


def granted(scene: MasterScene) -> dict[str, str | None]:
    return {name: share.get("granted", {}).get("cpu") for name, share in scene.record().items()}


async def in_force(scene: MasterScene, **limits: str) -> None:
    await scene.until(lambda: scene.limits() == limits and granted(scene) == limits)


# --- quotas that come, change and go ---------------------------------------------------------------------------------


@simulated
async def test_a_first_quota_is_divided_and_each_seed_has_its_part(scene: MasterScene) -> None:
    async with scene.running():
        scene.set_quota(TEN)
        await in_force(scene, eu="5", us="5")
        await scene.until(lambda: scene.condition("Ready").get("status") == "True")
        writes = scene.api.version
        await scene.quiet(3600)
        assert scene.api.version == writes, "where all is as it should be nothing is written"


@simulated
async def test_a_first_quota_begins_with_what_is_used(scene: MasterScene) -> None:
    for _ in range(7):
        scene.seeds["eu"].admit()
    async with scene.running():
        scene.set_quota(TEN)
        await in_force(scene, eu="9", us="1")


@simulated
async def test_a_raised_quota_is_divided_and_a_lowered_one_taken_back(scene: MasterScene) -> None:
    async with scene.running():
        scene.set_quota(TEN)
        await in_force(scene, eu="5", us="5")
        scene.set_quota({"cpu": "20"})
        await in_force(scene, eu="10", us="10")
        scene.set_quota({"cpu": "4"})
        await in_force(scene, eu="2", us="2")
        await scene.until(lambda: scene.condition("Ready").get("status") == "True")


@simulated
async def test_a_quota_below_use_stops_growth_and_says_that_it_is_not_in_force_yet(scene: MasterScene) -> None:
    async with scene.running():
        scene.set_quota(TEN)
        await in_force(scene, eu="5", us="5")
        assert all(scene.seeds["eu"].admit() for _ in range(5))
        scene.set_quota({"cpu": "4"})
        await scene.until(lambda: total(scene) <= 4)
        assert not any(seed.admit() for seed in scene.seeds.values())
        await scene.until(lambda: scene.condition("Ready").get("reason") == "Pending")
        assert "cpu: the seeds may still use 5 cores together, and 4 cores are allowed" in scene.condition("Ready")["message"]
        scene.seeds["eu"].machines = 3
        scene.seeds["eu"].fold()
        await scene.until(lambda: scene.condition("Ready").get("status") == "True")


@simulated
async def test_room_that_is_not_used_goes_to_whoever_asks_and_never_more_than_the_quota(scene: MasterScene) -> None:
    async with scene.running():
        scene.set_quota(TEN)
        await in_force(scene, eu="5", us="5")
        for _ in range(600):
            scene.seeds["eu"].admit()
            assert scene.machines() <= 10
            await asyncio.sleep(0.5)
        assert scene.seeds["eu"].machines == 10
        assert not scene.seeds["us"].admit()
        await in_force(scene, eu="10", us="0")


@simulated
async def test_a_quota_that_is_deleted_goes_when_the_seeds_know_that_they_have_no_limit(scene: MasterScene) -> None:
    async with scene.running():
        scene.set_quota(TEN)
        await in_force(scene, eu="5", us="5")
        await scene.until(lambda: None not in scene.copies().values())
        order: list[str] = []
        for api in (scene.api, *scene.seeds.values()):
            api.fuse.log = order
        scene.api.remove(PROJECT_QUOTAS, NAME)
        await scene.until(lambda: scene.quota() is None)
        assert scene.limits() == {"eu": "", "us": ""}
        assert scene.copies() == {"eu": None, "us": None}
    told, gone = f"patch {LEDGERS.name} {NAME}", f"delete {PROJECT_QUOTAS.name} {NAME}"
    assert [step for step in order if step in (told, gone)] == [told, told, gone, gone]


@simulated
async def test_a_quota_that_comes_again_goes_on_with_the_numbers(scene: MasterScene) -> None:
    async with scene.running():
        scene.set_quota(TEN)
        await in_force(scene, eu="5", us="5")
        scene.api.remove(PROJECT_QUOTAS, NAME)
        await scene.until(lambda: scene.quota() is None)
        before = {name: seed.change() for name, seed in scene.seeds.items()}
        scene.set_quota({"cpu": "2"})
        await in_force(scene, eu="1", us="1")
        assert all(seed.change() > before[name] for name, seed in scene.seeds.items())


@simulated
async def test_a_quota_that_changes_all_the_time_comes_to_rest_with_the_last_value(scene: MasterScene) -> None:
    async with scene.running():
        for number in range(1000):
            scene.set_quota({"cpu": str(number % 50 + 2)})
            await asyncio.sleep(0.06)
        scene.set_quota(TEN)
        await in_force(scene, eu="5", us="5")


@simulated
async def test_one_resource_that_has_no_limit_any_more_is_free_on_all_seeds(scene: MasterScene) -> None:
    async with scene.running():
        scene.set_quota({"cpu": "10", "memory": "8Gi"})
        await in_force(scene, eu="5", us="5")
        assert scene.seeds["eu"].limit("memory") == "4Gi"
        scene.set_quota({"cpu": "10", "memory": None})
        await scene.until(lambda: [seed.limit("memory") for seed in scene.seeds.values()] == ["", ""])
        assert scene.limits() == {"eu": "5", "us": "5"}


# --- seeds that are out of reach, come and leave ---------------------------------------------------------------------


@simulated
async def test_a_seed_out_of_reach_keeps_its_part_and_nobody_else_gets_it(scene: MasterScene) -> None:
    async with scene.running():
        scene.set_quota(TEN)
        await in_force(scene, eu="5", us="5")
        scene.seeds["us"].cut_off()
        await scene.quiet(60)
        for _ in range(120):
            scene.seeds["eu"].admit()
            await asyncio.sleep(0.5)
        assert scene.seeds["eu"].machines == 5
        assert all(scene.seeds["us"].admit() for _ in range(5)), "what it was granted it goes on with"
        assert not scene.seeds["us"].admit()
        scene.set_quota({"cpu": "4"})
        await scene.until(lambda: scene.limits() == {"eu": "2", "us": "5"})
        scene.set_quota({"cpu": "30"})
        for _ in range(600):
            scene.seeds["eu"].admit()
            await asyncio.sleep(0.5)
        assert scene.seeds["eu"].machines == 25, "all but what the other may have"
        scene.seeds["us"].come_back()
        scene.set_quota({"cpu": "40"})
        await scene.until(lambda: total(scene) == 40, seconds=300)


@simulated
async def test_the_others_are_told_while_one_seed_does_not_answer(scene: MasterScene) -> None:
    async with scene.running():
        scene.set_quota(TEN)
        await in_force(scene, eu="5", us="5")

        def silent(what: str) -> None:
            raise Unavailable("no answer", reason="NoAnswer")

        scene.seeds["us"].refuse = silent
        scene.set_quota({"cpu": "20"})
        await scene.until(lambda: scene.limits() == {"eu": "10", "us": "5"})
        scene.seeds["us"].refuse = lambda what: None
        await in_force(scene, eu="10", us="10")


@simulated
async def test_a_seed_that_was_never_heard_of_holds_up_nobody_and_is_named(scene: MasterScene) -> None:
    scene.seeds["us"].cut_off()
    async with scene.running():
        scene.set_quota(TEN)
        await scene.until(lambda: scene.limits() == {"eu": "10", "us": None})
        await scene.until(lambda: scene.condition("Ready").get("reason") == "Pending")
        assert "never heard of, and without a limit there: us" in scene.condition("Ready")["message"]
        scene.seeds["us"].come_back()
        await scene.until(lambda: scene.limits() == {"eu": "10", "us": "0"}, seconds=300)
        await scene.until(lambda: scene.condition("Ready").get("status") == "True")


@simulated
async def test_a_deleted_quota_waits_for_a_seed_out_of_reach_and_says_so(scene: MasterScene) -> None:
    async with scene.running():
        scene.set_quota(TEN)
        await in_force(scene, eu="5", us="5")
        scene.seeds["us"].cut_off()
        await scene.quiet(60)
        scene.api.remove(PROJECT_QUOTAS, NAME)
        await scene.until(lambda: scene.limits()["eu"] == "")
        await scene.quiet(600)
        assert scene.quota() is not None
        since = next(seed["staleSince"] for seed in scene.status()["seeds"] if seed["name"] == "us")
        waits = (
            f"the seeds are told that there is no limit any more; out of reach: us since {since}; it waits until each is back"
        )
        assert any(reason == "DeletionWaits" and waits in note for reason, note in scene.events())
        assert waits in scene.condition("Ready")["message"]
        scene.seeds["us"].come_back()
        await scene.until(lambda: scene.quota() is None, seconds=300)
        assert scene.limits() == {"eu": "", "us": ""}


@simulated
async def test_a_deleted_quota_does_not_wait_for_a_seed_that_was_removed_which_is_told_should_it_come_back(
    scene: MasterScene,
) -> None:
    async with scene.running():
        scene.set_quota(TEN)
        await in_force(scene, eu="5", us="5")
        far = scene.seeds["us"]
        far.cut_off()
        scene.api.remove(PROJECT_QUOTAS, NAME)
        scene.remove_seed("us")
        await scene.until(lambda: scene.quota() is None)
        assert far.limit() == "5"
        far.come_back()
        body = {"name": "us", "namespace": SEED_NAMESPACE}
        scene.api.put(SEEDS, {"metadata": body, "spec": {"kubeconfig": {"name": "kubeconfig-us"}}})
        await scene.until(lambda: far.limit() == "", seconds=300)


@simulated
async def test_a_deleted_quota_waits_for_ever_for_a_seed_out_of_reach_until_a_person_gives_it_up(scene: MasterScene) -> None:
    async with scene.running():
        scene.set_quota(TEN)
        await in_force(scene, eu="5", us="5")
        far = scene.seeds["us"]
        far.cut_off()
        await scene.quiet(60)
        scene.api.remove(PROJECT_QUOTAS, NAME)
        await scene.quiet(3600)
        assert scene.quota() is not None, "time alone frees nothing"
        scene.annotate_seed("us", drained="true")
        await scene.until(lambda: scene.quota() is None, seconds=300)
        assert far.limit() == "5"
        far.come_back()
        await scene.until(lambda: far.limit() == "" and scene.copies()["us"] is None, seconds=300)


@simulated
async def test_a_new_seed_gets_nothing_before_it_asks(scene: MasterScene) -> None:
    async with scene.running():
        scene.set_quota(TEN)
        await in_force(scene, eu="5", us="5")
        scene.add_seed("asia")
        await in_force(scene, asia="0", eu="5", us="5")
        for _ in range(10):
            scene.seeds["asia"].admit()
            await asyncio.sleep(0.5)
        assert scene.seeds["asia"].machines > 0


@simulated
async def test_a_seed_that_is_to_leave_keeps_what_it_uses(scene: MasterScene) -> None:
    async with scene.running():
        scene.set_quota(TEN)
        await in_force(scene, eu="5", us="5")
        assert scene.seeds["us"].admit()
        scene.annotate_seed("us", draining="true")
        await in_force(scene, eu="9", us="1")
        scene.annotate_seed("us", draining=None)
        scene.seeds["us"].admit()
        await scene.until(lambda: scene.limits()["us"] != "1", seconds=120)


@simulated
async def test_of_a_dead_seed_what_it_used_stays_and_the_rest_is_free(scene: MasterScene) -> None:
    async with scene.running():
        scene.set_quota(TEN)
        await in_force(scene, eu="5", us="5")
        assert scene.seeds["us"].admit()
        await scene.quiet()
        scene.seeds["us"].cut_off()
        await scene.quiet(60)
        scene.annotate_seed("us", drained="true")
        await scene.until(lambda: scene.limits()["eu"] == "9")
        assert granted(scene) == {"eu": "9", "us": "1"}
        record = scene.record()
        await scene.quiet(600)
        assert scene.record() == record, "it is done once"
        scene.seeds["us"].come_back()
        await scene.until(lambda: scene.limits() == {"eu": "9", "us": "1"}, seconds=300)


@simulated
async def test_a_dead_seed_keeps_what_was_reserved_there_also_after_the_master_was_restarted(scene: MasterScene) -> None:
    async with scene.running():
        scene.set_quota(TEN)
        await in_force(scene, eu="5", us="5")
        await scene.until(lambda: None not in scene.copies().values())
        assert all(scene.seeds["us"].admit() for _ in range(3))
        scene.seeds["us"].say(cpu="1")  # two of them are admitted, and not there yet
        await scene.quiet()
        scene.seeds["us"].cut_off()
        await scene.quiet(60)
        scene.annotate_seed("us", drained="true")
        await scene.until(lambda: granted(scene) == {"eu": "7", "us": "3"})
    async with scene.running():
        await scene.quiet(600)
        assert granted(scene) == {"eu": "7", "us": "3"}, "nobody has said that they are not"
        scene.annotate_seed("us", drained="gone")
        await scene.until(lambda: granted(scene) == {"eu": "10", "us": "0"})


@simulated
async def test_a_seed_that_is_marked_dead_and_lives_gives_back_only_what_it_does_not_use(scene: MasterScene) -> None:
    async with scene.running():
        scene.set_quota(TEN)
        await in_force(scene, eu="5", us="5")
        assert all(scene.seeds["us"].admit() for _ in range(3))
        scene.annotate_seed("us", drained="true")
        await in_force(scene, eu="7", us="3")


@simulated
async def test_a_dead_seed_of_which_nothing_is_known_keeps_all_unless_its_machines_are_said_to_be_gone(
    scene: MasterScene,
) -> None:
    async with scene.running():
        scene.set_quota(TEN)
        await in_force(scene, eu="5", us="5")
    scene.seeds["us"].cut_off()
    scene.annotate_seed("us", drained="true")
    scene.api.edit(PROJECT_QUOTAS, NAME, merge={"status": {"seeds": None}})
    async with scene.running():
        await scene.quiet(60)
        assert granted(scene) == {"eu": "5", "us": "5"}
        scene.annotate_seed("us", drained="gone")
        await scene.until(lambda: scene.limits()["eu"] == "10")
        assert granted(scene) == {"eu": "10", "us": "0"}


# --- records and ledgers that are not what they should be ------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [pytest.param("", id="empty"), pytest.param("{", id="no JSON"), pytest.param('{"eu":{"change":-1}}', id="no record")],
)
def test_a_record_that_cannot_be_read_is_not_taken_for_an_empty_one(text: str) -> None:
    @simulated
    async def test(scene: MasterScene) -> None:
        scene.set_quota(TEN, annotations={ESCROW: text})
        async with scene.running():
            await scene.until(lambda: scene.condition("Ready").get("reason") == "EscrowUnreadable")
            await scene.quiet(60)
            assert scene.limits() == {"eu": None, "us": None}
            assert f"metadata.annotations[{ESCROW}]" in scene.condition("Ready")["message"]
            scene.api.remove(PROJECT_QUOTAS, NAME)
            await scene.quiet(60)
            assert scene.quota() is not None
            scene.api.edit(PROJECT_QUOTAS, NAME, merge={"metadata": {"annotations": {ESCROW: None}}})
            await scene.until(lambda: scene.quota() is None)

    test()


@simulated
async def test_a_seed_whose_ledger_cannot_be_read_keeps_what_it_has(scene: MasterScene) -> None:
    async with scene.running():
        scene.set_quota(TEN)
        await in_force(scene, eu="5", us="5")
        scene.seeds["us"].edit(LEDGERS, NAME, LEDGER_NAMESPACE, merge={"status": {"sums": "9rubbish"}})
        scene.set_quota({"cpu": "20"})
        await scene.until(lambda: scene.limits()["eu"] == "15")
        assert scene.limits()["us"] == "5"


@simulated
async def test_limits_that_somebody_writes_by_hand_are_counted_as_granted_and_taken_back(scene: MasterScene) -> None:
    async with scene.running():
        scene.set_quota(TEN)
        await in_force(scene, eu="5", us="5")
        by_hand = {"spec": {"limits": {"machines": {"cpu": "99"}}, "change": 7}}
        scene.seeds["us"].edit(LEDGERS, NAME, LEDGER_NAMESPACE, merge=by_hand)
        await in_force(scene, eu="5", us="5")


@simulated
async def test_of_two_quotas_of_a_project_the_one_with_the_record_is_in_force(scene: MasterScene) -> None:
    async with scene.running():
        scene.set_quota(TEN)
        await in_force(scene, eu="5", us="5")
        scene.set_quota({"cpu": "99"}, name="another")
        await scene.until(lambda: bool((scene.quota("another") or {}).get("status", {}).get("conditions")))
        await scene.quiet()
        ready = next(one for one in (scene.quota("another") or {})["status"]["conditions"] if one["type"] == "Ready")
        assert (ready["status"], ready["reason"]) == ("False", "AnotherQuota")
        assert scene.limits() == {"eu": "5", "us": "5"}
        scene.api.remove(PROJECT_QUOTAS, NAME)
        await scene.until(lambda: scene.quota() is None)
        await scene.until(lambda: scene.limits() == {"eu": "50", "us": "49"})


# --- conflicts, and processes that are killed ------------------------------------------------------------------------


@simulated
async def test_a_record_is_not_written_for_a_quota_that_was_lowered_meanwhile(scene: MasterScene) -> None:
    async with scene.running():
        scene.set_quota(TEN)
        await in_force(scene, eu="5", us="5")
        lowered: list[str] = []

        def lower(what: str) -> None:
            """Between the look and the write."""
            if what == f"patch {PROJECT_QUOTAS.name} {NAME}" and not lowered:
                lowered.append(what)
                scene.set_quota({"cpu": "2"})

        scene.api.refuse = lower
        seen = watched(scene)
        scene.set_quota({"cpu": "100"})
        await in_force(scene, eu="1", us="1")
        assert lowered
        assert max(seen) <= 10, "nobody had more than before"


@simulated
async def test_whoever_comes_too_late_to_a_seed_takes_it_for_done_and_looks_again(scene: MasterScene) -> None:
    async with scene.running() as wiring:
        scene.set_quota(TEN)
        await in_force(scene, eu="5", us="5")
        far = scene.seeds["us"]
        find = far.find

        async def overtaken(kind: Kind[Any], name: str, namespace: str = "") -> Any:
            """Another master has carried a later change."""
            far.find = find  # type: ignore[method-assign]
            far.edit(LEDGERS, NAME, LEDGER_NAMESPACE, merge={"spec": {"limits": {"machines": {"cpu": "3"}}, "change": 50}})
            far.fold()
            return await find(kind, name, namespace)

        far.find = overtaken  # type: ignore[method-assign]
        scene.set_quota({"cpu": "20"})
        await scene.until(lambda: far.change() > 50 and total(scene) == 20)
        ended = {"controller": "project-quota-escrow", "result": "terminal"}
        assert wiring.metrics.registry.get_sample_value("ullage_reconcile_total", ended) == 0


def watched(scene: MasterScene) -> list[int]:
    """What the seeds' limits come to, at every write that any of them takes."""
    found: list[int] = []
    for seed in scene.seeds.values():
        seed.committed = lambda: found.append(total(scene))
    return found


def total(scene: MasterScene) -> int:
    return sum(int(limit) for limit in scene.limits().values() if limit)


async def killed_once(scene: MasterScene, moment: int, act: Callable[[], None]) -> bool:
    """Something happens, and the process is killed at this moment: before or after an effect, on the master or on a seed.
    Whether it was: there are only so many."""
    fuse = Fuse(blows_at=moment)
    for api in (scene.api, *scene.seeds.values()):
        api.fuse = fuse
    try:
        async with scene.running():
            act()
            await scene.quiet(10)
    except BaseExceptionGroup as group:
        if group.subgroup(Crash) is None:
            raise
    for api in (scene.api, *scene.seeds.values()):
        api.fuse = Fuse()
    for seed in scene.seeds.values():
        seed.fold()  # whoever counts there was not killed
    return fuse.passed >= moment


def at_every_moment(test: Callable[[MasterScene, int], Awaitable[bool]]) -> None:
    for moment in range(1, 1000):

        async def run(moment: int = moment) -> bool:
            return await test(MasterScene(), moment)

        if not bugs_fail(lambda: in_virtual_time(run())):
            assert moment > 10, "there was hardly anything to kill"
            return
    raise AssertionError("it never ends")


@pytest.mark.parametrize(
    ("first", "second"),
    [pytest.param(10, 20, id="a raise"), pytest.param(20, 6, id="a lowering"), pytest.param(0, 10, id="a first quota")],
)
def test_a_process_that_is_killed_at_any_moment_of_a_change_is_replaced_by_another(first: int, second: int) -> None:
    async def test(scene: MasterScene, moment: int) -> bool:
        if first:
            async with scene.running():
                scene.set_quota({"cpu": str(first)})
                await scene.until(lambda: total(scene) == first == sum(int(one or 0) for one in granted(scene).values()))
                await scene.quiet()
        seen = watched(scene)
        killed = await killed_once(scene, moment, lambda: scene.set_quota({"cpu": str(second)}))
        async with scene.running():
            await scene.until(lambda: total(scene) == second == sum(int(one or 0) for one in granted(scene).values()))
        assert max(seen) <= max(first, second)
        return killed

    at_every_moment(test)


def test_a_process_that_is_killed_at_any_moment_of_a_deletion_is_replaced_by_another() -> None:
    async def test(scene: MasterScene, moment: int) -> bool:
        async with scene.running():
            scene.set_quota(TEN)
            await in_force(scene, eu="5", us="5")
            await scene.quiet()
        killed = await killed_once(scene, moment, lambda: scene.api.remove(PROJECT_QUOTAS, NAME))
        async with scene.running():
            await scene.until(lambda: scene.quota() is None)
        assert scene.limits() == {"eu": "", "us": ""}
        assert scene.copies() == {"eu": None, "us": None}
        return killed

    at_every_moment(test)


@pytest.mark.slow
def test_a_process_that_is_killed_at_any_moment_of_a_deletion_leaves_the_default_to_another() -> None:
    """Never is a seed without a limit, and never do they have more than the larger of the two quotas."""

    async def test(scene: MasterScene, moment: int) -> bool:
        scene.set_default({"cpu": "4"})
        async with scene.running():
            scene.set_quota(TEN)
            await in_force(scene, eu="5", us="5")
            assert all(scene.seeds["us"].admit() for _ in range(2))
            await scene.quiet()
        seen: list[dict[str, str | None]] = []
        for seed in scene.seeds.values():
            seed.committed = lambda: seen.append(scene.limits())
        killed = await killed_once(scene, moment, lambda: scene.api.remove(PROJECT_QUOTAS, NAME))
        async with scene.running():
            await scene.until(
                lambda: scene.quota() is not None and "deletionTimestamp" not in scene.meta() and total(scene) == 4
            )
            await scene.until(lambda: sum(int(one or 0) for one in granted(scene).values()) == 4, seconds=300)
        assert not any("" in limits.values() for limits in seen), "one of them is without a limit"
        sums = [sum(int(limit or 0) for limit in limits.values()) for limits in seen]
        first = next(place for place, sum in enumerate(sums) if sum <= 4)
        assert max(sums) <= 10
        assert max(sums[first:]) <= 4, "once the default is in force, it is"
        return killed

    at_every_moment(test)
