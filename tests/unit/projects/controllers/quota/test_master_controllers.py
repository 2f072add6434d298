"""Quotas on a master with two seeds, around the escrow: labels, defaults, statuses, copies, Events and figures."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.projects.builders import BOTH
from tests.unit.projects.master_scene import NAME, MasterScene, simulated
from tests.unit.snapshots.api.objects import patched
from ullage.kube.errors import Unavailable
from ullage.projects.api.kkp import PROJECTS, SETTINGS
from ullage.projects.api.quotas import PROJECT_QUOTAS
from ullage.projects.names import COPY_OF, FINALIZER

Json = dict[str, Any]
MARKS = {"subject-name": "abc", "subject-kind": "project"}


# --- labels and owners -----------------------------------------------------------------------------------------------


@simulated
async def test_a_quota_is_marked_with_its_subject_and_owned_by_its_project(scene: MasterScene) -> None:
    async with scene.running():
        scene.set_quota({"cpu": "10"}, labels={"team": "x"})
        await scene.until(lambda: scene.meta().get("labels") == {**MARKS, "team": "x"})
        (owner,) = scene.meta()["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["uid"]) == ("Project", "abc", "master-uid-abc")
        scene.api.edit(PROJECT_QUOTAS, NAME, merge={"metadata": {"labels": {"subject-name": None}}})
        await scene.until(lambda: scene.meta()["labels"] == {**MARKS, "team": "x"})


@simulated
async def test_a_quota_without_its_project_says_so_and_is_owned_when_that_comes(scene: MasterScene) -> None:
    scene.api.remove(PROJECTS, "abc")
    async with scene.running():
        scene.set_quota({"cpu": "10"})
        await scene.until(lambda: scene.condition("Ready").get("reason") == "ProjectMissing")
        assert "there is no project abc" in scene.condition("Ready")["message"]
        scene.api.put(PROJECTS, {"metadata": {"name": "abc"}})
        await scene.until(lambda: len(scene.meta().get("ownerReferences", ())) == 1)
        await scene.until(lambda: scene.condition("Ready").get("status") == "True")


@simulated
async def test_two_who_put_each_other_right_do_not_write_all_the_time(scene: MasterScene) -> None:
    scene.set_quota({"cpu": "10"})
    async with scene.running():
        await scene.until(lambda: scene.condition("Ready").get("status") == "True")
        begin = scene.api.version

        async def fight() -> None:
            while True:
                if scene.meta()["labels"].get("subject-kind"):
                    scene.api.edit(PROJECT_QUOTAS, NAME, merge={"metadata": {"labels": {"subject-kind": None}}})
                await asyncio.sleep(0.05)

        fighting = asyncio.create_task(fight())
        await scene.quiet(600)
        fighting.cancel()
        assert scene.api.version - begin < 60


@simulated
async def test_an_amount_that_cannot_be_closes_its_own_limit_says_so_and_can_be_corrected(scene: MasterScene) -> None:
    async with scene.running():
        scene.set_quota({"cpu": "10", "memory": "1e999"})
        await scene.until(lambda: scene.limits() == {"eu": "5", "us": "5"})
        assert [seed.limit("memory") for seed in scene.seeds.values()] == ["0", "0"]
        await scene.until(lambda: scene.condition("Ready").get("reason") == "InvalidQuota")
        assert "spec.quota.memory: '1e999' is more than 9223372036854775807" in scene.condition("Ready")["message"]
        await scene.until(
            lambda: any(
                "spec.quota.memory" in one for one in [note for reason, note in scene.events() if reason == "InvalidQuota"]
            )
        )
        scene.set_quota({"cpu": "10", "memory": "2Gi"})
        await scene.until(lambda: scene.condition("Ready").get("status") == "True")
        assert [seed.limit("memory") for seed in scene.seeds.values()] == ["1Gi", "1Gi"]


@simulated
async def test_one_that_is_stored_wrong_is_finalized_and_goes(scene: MasterScene) -> None:
    async with scene.running():
        scene.set_quota({"memory": "1e999"})
        await scene.until(lambda: [seed.limit("memory") for seed in scene.seeds.values()] == ["0", "0"])
        await scene.api.delete(PROJECT_QUOTAS, NAME)
        await scene.until(lambda: scene.quota() is None)
        assert [seed.limit("memory") for seed in scene.seeds.values()] == ["", ""]


# --- defaults --------------------------------------------------------------------------------------------------------


@simulated
async def test_the_life_of_a_default_quota(scene: MasterScene) -> None:
    async with scene.running():
        await scene.quiet()
        assert scene.quota() is None, "a project has no quota unless somebody says so"
        scene.set_default({"cpu": "8"})
        await scene.until(lambda: scene.limits() == {"eu": "4", "us": "4"})
        assert scene.meta()["labels"] == {**MARKS, **BOTH}
        scene.set_default({"cpu": "4"})
        await scene.until(lambda: scene.limits() == {"eu": "2", "us": "2"})
        scene.api.put(PROJECTS, {"metadata": {"name": "new"}})
        await scene.until(lambda: scene.quota("project-new") is not None)
        scene.set_default(None)
        await scene.until(lambda: scene.quota() is None and scene.quota("project-new") is None)
        assert scene.limits() == {"eu": "", "us": ""}


@simulated
async def test_while_the_default_is_faulty_a_new_project_is_allowed_nothing_of_it_and_others_keep_theirs(
    scene: MasterScene,
) -> None:
    async with scene.running():
        scene.set_default({"cpu": "8", "memory": "2Gi"})
        await scene.until(lambda: scene.limits() == {"eu": "4", "us": "4"})
        scene.set_default({"cpu": "8", "memory": "1e999"})
        scene.api.put(PROJECTS, {"metadata": {"name": "new"}})
        await scene.until(lambda: scene.quota("project-new") is not None)
        made = scene.quota("project-new")
        assert made is not None
        assert made["spec"]["quota"] == {"cpu": "8", "memory": "0"}
        kept = scene.quota()
        assert kept is not None
        assert kept["spec"]["quota"] == {"cpu": "8", "memory": "2Gi"}
        scene.set_default({"cpu": "8", "memory": "4Gi"})
        await scene.until(lambda: ((scene.quota("project-new") or {}).get("spec") or {})["quota"]["memory"] == "4Gi")


@simulated
async def test_a_quota_of_somebody_s_own_is_never_touched_and_the_default_returns_when_it_is_gone(scene: MasterScene) -> None:
    async with scene.running():
        scene.set_quota({"cpu": "20"})
        scene.set_default({"cpu": "8"})
        await scene.until(lambda: scene.limits() == {"eu": "10", "us": "10"})
        scene.set_default({"cpu": "6"})
        await scene.quiet()
        assert scene.limits() == {"eu": "10", "us": "10"}
        scene.api.remove(PROJECT_QUOTAS, NAME)
        await scene.until(lambda: scene.limits() == {"eu": "3", "us": "3"})
        assert scene.meta()["labels"] == {**MARKS, **BOTH}


@simulated
async def test_the_default_returns_on_all_seeds_in_reach_while_one_is_away_and_takes_its_room_when_it_is_back(
    scene: MasterScene,
) -> None:
    scene.set_default({"cpu": "8"})
    scene.set_quota({"cpu": "10"})
    async with scene.running():
        await scene.until(lambda: scene.limits() == {"eu": "5", "us": "5"})
        scene.seeds["us"].cut_off()
        await scene.quiet(60)
        scene.api.remove(PROJECT_QUOTAS, NAME)
        await scene.until(lambda: scene.limits() == {"eu": "3", "us": "5"})
        await scene.quiet(3600)
        assert sum(scene.seeds["eu"].admit() for _ in range(100)) == 3, "all but what the other may have"
        assert scene.seeds["us"].limit() == "5", "it has heard of nothing"
        said = scene.condition("Ready")
        assert (said["status"], said["reason"]) == ("False", "Pending")
        (since,) = [seed["staleSince"] for seed in scene.status()["seeds"] if "staleSince" in seed]
        assert said["message"] == (
            "it is being deleted: the default is in force in its place: cpu 8 cores, and the seeds are told so; out of reach:"
            f" us since {since}; it waits until each is back. Where a seed does not come back, delete its Seed object or run"
            " `ullage projects drain-seed NAME`"
        )
        waits = "the default is in force in its place: cpu 8 cores, and the seeds are told so; out of reach: us"
        assert any(reason == "DeletionWaits" and waits in note for reason, note in scene.events())
        assert scene.status()["shown"]["cpu"].endswith("/8")
        scene.seeds["us"].come_back()
        await scene.until(lambda: scene.meta().get("labels", {}).keys() >= BOTH.keys(), seconds=300)
        await scene.until(lambda: scene.condition("Ready").get("status") == "True")
        assert "deletionTimestamp" not in scene.meta()
        assert sum(int(limit or 99) for limit in scene.limits().values()) == 8


@simulated
async def test_between_a_quota_and_the_default_no_seed_is_without_a_limit_or_has_more_than_its_part(scene: MasterScene) -> None:
    scene.set_default({"cpu": "4"})
    scene.set_quota({"cpu": "10"})
    async with scene.running():
        await scene.until(lambda: scene.limits() == {"eu": "5", "us": "5"})
        await scene.until(lambda: None not in scene.copies().values())
        lowered, seen = [False], list[dict[str, str | None]]()

        def note() -> None:
            limits = scene.limits()
            lowered[0] = lowered[0] or limits == {"eu": "2", "us": "2"}
            if lowered[0]:
                seen.append(limits)

        for seed in scene.seeds.values():
            seed.committed = note
        scene.api.committed = note
        scene.api.remove(PROJECT_QUOTAS, NAME)
        await scene.until(lambda: scene.quota() is not None and "deletionTimestamp" not in scene.meta())
        scene.seeds["us"].cut_off()  # at once: nobody has looked there since the quota is another
        assert not scene.seeds["eu"].admit() or scene.seeds["eu"].limit() == "2"
        await scene.quiet(600)
        assert lowered[0]
        assert all(sum(int(limit or 99) for limit in limits.values()) <= 4 for limits in seen), seen
        assert None not in scene.copies().values(), "a copy stays, and is of the next quota"
        assert copied(scene, "eu")["metadata"]["annotations"][COPY_OF] == scene.meta()["uid"]


@simulated
async def test_where_nobody_can_tell_whether_there_is_a_default_a_deleted_quota_lifts_no_limit(scene: MasterScene) -> None:
    scene.set_default({"cpu": "many"})
    scene.set_quota({"cpu": "10"})
    async with scene.running():
        await scene.until(lambda: scene.limits() == {"eu": "5", "us": "5"})
        scene.api.remove(PROJECT_QUOTAS, NAME)
        await scene.quiet(600)
        assert scene.limits() == {"eu": "5", "us": "5"}
        assert "mend spec.defaultQuota of the KubermaticSetting globalsettings" in scene.condition("Ready")["message"]
        scene.set_default(None)
        await scene.until(lambda: scene.quota() is None)
        assert scene.limits() == {"eu": "", "us": ""}


@simulated
async def test_a_quota_that_goes_with_its_project_gives_way_to_no_default(scene: MasterScene) -> None:
    scene.set_default({"cpu": "4"})
    scene.set_quota({"cpu": "10"})
    async with scene.running():
        await scene.until(lambda: scene.limits() == {"eu": "5", "us": "5"})
        scene.api.edit(PROJECTS, "abc", merge={"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x"]}})
        scene.api.remove(PROJECT_QUOTAS, NAME)
        await scene.until(lambda: scene.quota() is None)
        assert scene.limits() == {"eu": "", "us": ""}


@simulated
async def test_a_default_that_is_taken_off_while_a_deleted_quota_waits_lifts_the_limits(scene: MasterScene) -> None:
    scene.set_default({"cpu": "8"})
    scene.set_quota({"cpu": "10"})
    async with scene.running():
        await scene.until(lambda: scene.limits() == {"eu": "5", "us": "5"})
        scene.seeds["us"].cut_off()
        await scene.quiet(60)
        scene.api.remove(PROJECT_QUOTAS, NAME)
        await scene.until(lambda: scene.limits()["eu"] == "3")
        scene.set_default(None)
        await scene.until(lambda: scene.limits()["eu"] == "")
        scene.seeds["us"].come_back()
        await scene.until(lambda: scene.quota() is None, seconds=300)


@simulated
async def test_a_default_quota_that_somebody_has_made_his_own_meanwhile_is_not_deleted(scene: MasterScene) -> None:
    async with scene.running():
        scene.set_default({"cpu": "8"})
        await scene.until(lambda: scene.limits() == {"eu": "4", "us": "4"})
        await scene.quiet()

        def make_own(what: str) -> None:
            """Right before the deletion arrives."""
            if what == f"delete {PROJECT_QUOTAS.name} {NAME}":
                scene.api.refuse = lambda what: None
                scene.api.edit(PROJECT_QUOTAS, NAME, merge={"metadata": {"labels": dict.fromkeys(BOTH)}})

        scene.api.refuse = make_own
        scene.set_default(None)
        await scene.quiet(30)
        assert scene.quota() is not None
        assert "deletionTimestamp" not in scene.meta()


@simulated
async def test_a_setting_that_is_wrong_or_gone_lifts_no_limit_and_is_told_once(scene: MasterScene) -> None:
    for number in range(5):
        scene.api.put(PROJECTS, {"metadata": {"name": f"more-{number}"}})
    async with scene.running():
        scene.set_default({"cpu": "8"})
        await scene.until(lambda: scene.limits() == {"eu": "4", "us": "4"})
        scene.set_default({"cpu": "many"})
        await scene.quiet()
        scene.api.edit(SETTINGS, "globalsettings", merge={"metadata": {"labels": {"a": "b"}}})
        await scene.quiet()
        assert [reason for reason, _ in scene.events()].count("InvalidDefaultQuota") == 1
        assert "spec.defaultQuota.quota.cpu" in next(note for reason, note in scene.events() if reason == "InvalidDefaultQuota")
        scene.api.remove(SETTINGS, "globalsettings")
        await scene.quiet()
        assert scene.limits() == {"eu": "4", "us": "4"}


# --- copies ----------------------------------------------------------------------------------------------------------


@simulated
async def test_every_seed_has_a_copy_of_what_the_master_says_and_keeps_its_own_figures(scene: MasterScene) -> None:
    async with scene.running():
        scene.set_quota({"cpu": "10"})
        await scene.until(lambda: scene.copies() == {"eu": {"cpu": "10"}, "us": {"cpu": "10"}})
        assert FINALIZER in scene.meta()["finalizers"], "what is copied is held"
        scene.seeds["eu"].say(cpu="3")
        scene.seeds["us"].say(cpu="4")
        await scene.until(lambda: all(copied(scene, seed)["status"].get("globalUsage", {}).get("cpu") == "7" for seed in both))
        assert [copied(scene, seed)["status"]["localUsage"]["cpu"] for seed in both] == ["3", "4"]
        assert copied(scene, "eu")["status"]["shown"]["cpu"] == "7/10"
        scene.seeds["us"].edit(PROJECT_QUOTAS, NAME, merge={"spec": {"quota": {"cpu": "999"}}})
        await scene.until(lambda: scene.copies()["us"] == {"cpu": "10"})
        scene.seeds["us"].remove(PROJECT_QUOTAS, NAME)
        await scene.until(lambda: scene.copies()["us"] == {"cpu": "10"})


both = ("eu", "us")


def copied(scene: MasterScene, seed: str) -> Json:
    found = scene.seeds[seed].body(PROJECT_QUOTAS, NAME)
    assert found is not None
    return found


@simulated
async def test_a_seed_out_of_reach_or_one_that_refuses_does_not_hold_up_the_others(scene: MasterScene) -> None:
    asia = scene.add_seed("asia")

    def refuse(what: str) -> None:
        raise Unavailable("not now", code=503)

    asia.refuse = refuse
    scene.seeds["us"].cut_off()
    async with scene.running():
        scene.set_quota({"cpu": "10"})
        await scene.until(lambda: scene.copies()["eu"] == {"cpu": "10"})
        await scene.quiet(60)
        assert scene.copies() == {"eu": {"cpu": "10"}, "us": None, "asia": None}
        asia.refuse = lambda what: None
        scene.seeds["us"].come_back()
        await scene.until(lambda: None not in scene.copies().values(), seconds=300)


@simulated
async def test_what_a_seed_s_definition_drops_is_not_written_again_and_again(scene: MasterScene) -> None:
    eu = scene.seeds["eu"]
    store = eu._store

    def without_shown(place: Any, body: Json, event: str) -> Json:
        """KKP's definition does not know it."""
        assert eu.version < 1000, "it is written all the time"
        if place.kind == PROJECT_QUOTAS.name and body.get("status"):
            body = patched(body, {"status": {"shown": None}})
        return store(place, body, event)

    eu._store = without_shown  # type: ignore[method-assign]
    async with scene.running():
        scene.set_quota({"cpu": "10"})
        await scene.until(lambda: scene.copies()["eu"] is not None)
        eu.say(cpu="3")
        scene.seeds["us"].say(cpu="4")
        await scene.until(lambda: copied(scene, "eu")["status"].get("globalUsage", {}).get("cpu") == "7")
        await scene.quiet()
        version = eu.version
        await scene.quiet(3600)
        assert eu.version - version < 20


@simulated
async def test_something_else_under_the_name_of_a_copy_is_replaced(scene: MasterScene) -> None:
    other = {"metadata": {"name": NAME}, "spec": {"subject": {"name": "other", "kind": "project"}, "quota": {}}}
    scene.seeds["eu"].put(PROJECT_QUOTAS, other)
    async with scene.running():
        scene.set_quota({"cpu": "10"})
        await scene.until(lambda: scene.copies()["eu"] == {"cpu": "10"})
        assert copied(scene, "eu")["spec"]["subject"]["name"] == "abc"


# --- statuses --------------------------------------------------------------------------------------------------------


@simulated
async def test_usage_of_all_seeds_adds_up_and_what_is_over_is_told_once(scene: MasterScene) -> None:
    async with scene.running() as wiring:
        scene.set_quota({"cpu": "5"})
        await scene.until(lambda: None not in scene.copies().values())
        scene.seeds["eu"].say(cpu="3")
        await scene.quiet()
        assert scene.condition("UsageFresh")["reason"] == "Incomplete"
        scene.seeds["us"].say(cpu="1500m")
        await scene.until(lambda: scene.status().get("globalUsage", {}).get("cpu") == "4500m")
        assert scene.condition("WithinQuota")["status"] == scene.condition("UsageFresh")["status"] == "True"
        assert {one["name"]: one["usage"]["cpu"] for one in scene.status()["seeds"]} == {"eu": "3", "us": "1500m"}
        for used in ("3", "4", "5"):
            scene.seeds["us"].say(cpu=used)
            await scene.quiet()
        assert scene.condition("WithinQuota")["message"].startswith("cpu: 8 cores used, 3 cores more than the quota of 5 cores")
        assert [reason for reason, _ in scene.events()] == ["OverQuota"]
        assert sample(wiring, "ullage_project_over_quota", project="abc") == 1
        assert sample(wiring, "ullage_project_quota_used", project="abc", resource="cpu") == 8
        assert sample(wiring, "ullage_project_quota_limit", project="abc", resource="cpu") == 5
        assert sample(wiring, "ullage_project_quotas", state="over") == 1
        scene.seeds["us"].say(cpu="1")
        await scene.quiet()
        assert [reason for reason, _ in scene.events()] == ["OverQuota", "WithinQuota"]
        assert sample(wiring, "ullage_project_over_quota", project="abc") is None
        assert sample(wiring, "ullage_project_quota_changes_total", to="over") == 1
        assert sample(wiring, "ullage_project_quota_changes_total", to="within") == 1


def sample(wiring: Any, name: str, **labels: str) -> float | None:
    found: float | None = wiring.metrics.registry.get_sample_value(name, labels)
    return found


@simulated
async def test_a_seed_out_of_reach_keeps_its_last_figures_marked_with_their_age(scene: MasterScene) -> None:
    async with scene.running():
        scene.set_quota({"cpu": "5"})
        await scene.until(lambda: None not in scene.copies().values())
        scene.seeds["eu"].say(cpu="3")
        scene.seeds["us"].say(cpu="1")
        await scene.until(lambda: scene.status().get("globalUsage", {}).get("cpu") == "4")
        scene.seeds["us"].cut_off()
        await scene.until(lambda: scene.condition("UsageFresh").get("reason") == "SeedUnreachable")
        scene.seeds["us"].say(cpu="2")
        scene.seeds["eu"].say(cpu="4")
        await scene.until(lambda: scene.status()["globalUsage"]["cpu"] == "5")
        since = scene.status()["seeds"][1]["staleSince"]
        await scene.quiet(2 * 3600)
        assert "seed us: out of reach for 1 hour" in scene.condition("UsageFresh")["message"]
        assert scene.status()["seeds"][1]["staleSince"] == since
        scene.seeds["us"].come_back()
        await scene.until(lambda: scene.condition("UsageFresh").get("status") == "True", seconds=300)
        assert scene.status()["globalUsage"]["cpu"] == "6"
    async with scene.running():
        await scene.quiet()
        assert scene.status()["globalUsage"]["cpu"] == "6"


@simulated
async def test_figures_that_move_all_the_time_are_written_once_a_second(scene: MasterScene) -> None:
    async with scene.running() as wiring:
        scene.set_quota({"cpu": "5"})
        await scene.until(lambda: None not in scene.copies().values())
        scene.seeds["us"].say(cpu="1")
        await scene.quiet()
        before = sample(wiring, "ullage_project_quota_writes_total") or 0
        for number in range(1000):
            scene.seeds["eu"].say(cpu=f"{number}m")
            await asyncio.sleep(0.01)
        await scene.quiet()
        assert scene.status()["globalUsage"]["cpu"] == "1999m"
        assert 8 <= (sample(wiring, "ullage_project_quota_writes_total") or 0) - before <= 13


@simulated
async def test_where_the_definition_drops_conditions_nothing_is_written_again_and_again(scene: MasterScene) -> None:
    store = scene.api._store

    def usage_only(place: Any, body: Json, event: str) -> Json:
        """KKP's definition."""
        if place.kind == PROJECT_QUOTAS.name and body.get("status"):
            body = {**body, "status": {name: body["status"][name] for name in ("globalUsage",) if name in body["status"]}}
        return store(place, body, event)

    scene.api._store = usage_only  # type: ignore[method-assign]
    async with scene.running():
        scene.set_quota({"cpu": "2"})
        await scene.until(lambda: None not in scene.copies().values())
        for seed in scene.seeds.values():
            seed.say(cpu="3")
        await scene.until(lambda: scene.status().get("globalUsage", {}).get("cpu") == "6")
        await scene.quiet()
        version = scene.api.version
        await scene.quiet(3600)
        assert scene.api.version == version
        assert [reason for reason, _ in scene.events()] == ["OverQuota"]


@pytest.mark.parametrize("seconds", [0.0, 3600.0])
def test_a_seed_that_was_removed_counts_no_more(seconds: float) -> None:
    @simulated
    async def test(scene: MasterScene) -> None:
        async with scene.running():
            scene.set_quota({"cpu": "5"})
            await scene.until(lambda: None not in scene.copies().values())
            scene.seeds["eu"].say(cpu="3")
            scene.seeds["us"].say(cpu="1")
            await scene.until(lambda: scene.status().get("globalUsage", {}).get("cpu") == "4")
            scene.seeds["us"].cut_off()
            await scene.quiet(seconds)
            scene.remove_seed("us")
            await scene.until(lambda: scene.status()["globalUsage"]["cpu"] == "3")
            await scene.until(lambda: scene.condition("UsageFresh").get("status") == "True")

    test()
