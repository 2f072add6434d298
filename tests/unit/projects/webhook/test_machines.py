"""Machines on their way through the hooks: booked in the seed's ledger, refused in KKP's words, stamped by nobody but us."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import jsonpatch
import pytest

from tests.unit.projects.builders import details, quota, usage
from tests.unit.projects.machines.builders import SMALL
from tests.unit.projects.seed_scene import SYSTEM, Json, SeedScene, machine_body, provider_spec, review_of, simulated
from ullage.kube.cache.indexer import Key
from ullage.kube.objects import Condition, find_condition
from ullage.kube.review import Review
from ullage.ledger.amounts import Amounts
from ullage.ledger.api import LEDGERS, NAMESPACE
from ullage.projects.api.machines import MACHINES
from ullage.projects.api.quotas import PROJECT_QUOTAS, ResourceQuotaStatus
from ullage.projects.machines.digests import MOST_PARTS
from ullage.projects.machines.reading import machine_facts
from ullage.projects.machines.signatures import SIGNATURE, Valid, sign_bound, verify
from ullage.projects.settings import Settings
from ullage.projects.webhook.machines import MachineWebhook
from ullage.times import timestamp

TAKES = "ullage.io/takes"


def bound(scene: SeedScene, name: str, amounts: Amounts = SMALL) -> Json:
    """The stored Machine with the stamp that the controller writes."""
    body = scene.body(name)
    facts = machine_facts("c-1", scene.seed.others["c-1"].get(MACHINES, Key(SYSTEM, name)))
    marks = sign_bound(facts, amounts, scene.keys, now=scene.clock.now()).marks()
    body["metadata"]["annotations"] = {**body["metadata"].get("annotations", {}), **marks}
    return body


def aged(body: Json) -> Json:
    """As it was made before the scene began."""
    return {**body, "metadata": {**body["metadata"], "creationTimestamp": "2026-01-01T00:00:00Z"}}


@simulated
async def test_machines_are_made_up_to_the_quota_and_the_next_is_refused_in_the_words_of_kkp(scene: SeedScene) -> None:
    scene.cluster()
    scene.limits(cpu="4", memory="100Gi")
    async with scene.served():
        assert [(await scene.create()).code for _ in range(2)] == [200, 200]
        refused = await scene.create()
        assert refused.code == 403
        assert refused.message.startswith('requested CPU "2" would exceed current quota (quota/used "4"/"')
        assert "over by 2 cores" in refused.message
        assert "Memory" not in refused.message
        assert refused.message.endswith("then delete machines or scale down, or have the quota raised")
        assert "project/abc" in refused.message
        made = [machine_facts("c-1", one) for one in scene.seed.others["c-1"].all(MACHINES)]
        verdicts = [verify(one, scene.keys) for one in made]
        assert [one.amounts for one in verdicts if isinstance(one, Valid)] == [SMALL, SMALL]


@pytest.mark.parametrize(
    ("used", "said"),
    [
        pytest.param(
            "9",
            'requested CPU "2" would exceed current quota (quota/used "10"/"9"): asked 2 cores, used 9 cores on all seeds,'
            " quota 10 cores, over by 1 core (on this seed: used 2 cores, reserved 0, granted to it 3 cores). What is used on"
            " all seeds is not all of now: out of reach: b since 2026-05-01T10:00:00Z. Next: ullage usage --group-by cluster"
            " project/abc, then delete machines or scale down, or have the quota raised",
            id="the project is full on all seeds",
        ),
        pytest.param(
            "4",
            'requested CPU "2" would exceed current quota (quota/used "10"/"4") on this seed: asked 2 cores, used 2 cores on'
            " this seed, reserved 0, granted to it 3 cores, over by 1 core (on all seeds: used 4 cores of 10 cores). What is"
            " used on all seeds is not all of now: out of reach: b since 2026-05-01T10:00:00Z. Next: try again in a moment,"
            " since room may come from other seeds, or ullage usage --group-by cluster project/abc, then delete machines or"
            " scale down, or have the quota raised",
            id="only this seed's part is",
        ),
        pytest.param(
            "much",
            'requested CPU "2" would exceed current quota (quota/used "3"/"2") on this seed: asked 2 cores, used 2 cores on'
            " this seed, reserved 0, granted to it 3 cores of 10 cores in all, over by 1 core (what is used on all seeds is not"
            " known). Next: try again in a moment, since room may come from other seeds, or ullage usage --group-by cluster"
            " project/abc, then delete machines or scale down, or have the quota raised",
            id="what the copy says is no amount",
        ),
    ],
)
@simulated
async def test_a_refusal_has_the_numbers_of_all_seeds_and_of_this_one(scene: SeedScene, used: str, said: str) -> None:
    away = Condition(
        type="UsageFresh",
        status="False",
        reason="SeedUnreachable",
        message="out of reach: b since 2026-05-01T10:00:00Z",
        last_transition_time="2026-05-01T10:00:00Z",
    )
    scene.cluster()
    scene.limits(cpu="3", grants={"cpu": "10"})
    scene.seed.put(PROJECT_QUOTAS, quota(status=ResourceQuotaStatus(global_usage=usage(used), conditions=(away,))))
    async with scene.served():
        assert (await scene.create()).code == 200
        await scene.seen()
        refused = await scene.create()
        assert (refused.code, refused.message) == (403, said)


@pytest.mark.parametrize(
    ("used", "age", "waits"),
    [
        pytest.param("10", 1, False, id="full everywhere, as was heard a moment ago"),
        pytest.param("10", 11, True, id="full everywhere, as was heard a while ago"),
        pytest.param("4", 1, True, id="there is room on other seeds"),
    ],
)
@simulated
async def test_where_the_project_is_full_everywhere_a_refusal_does_not_wait_for_a_grant_and_asks_for_it(
    scene: SeedScene, used: str, age: int, waits: bool
) -> None:
    scene.cluster()
    scene.limits(cpu="0", grants={"cpu": "10"})
    scene.seed.put(PROJECT_QUOTAS, quota(status=ResourceQuotaStatus(global_usage=usage("1"))))
    async with scene.served():
        scene.seed.put(PROJECT_QUOTAS, quota(status=ResourceQuotaStatus(global_usage=usage(used))))
        await asyncio.sleep(age)
        scene.budget = 9.0
        began = asyncio.get_running_loop().time()
        refused = await scene.create()
        took = asyncio.get_running_loop().time() - began
        assert refused.code == 403
        assert (3 <= took < 4) if waits else (took < 1), took
        assert scene.ledger().status.demand["machines"]["cpu"].limit == "2"


@simulated
async def test_a_refusal_names_the_amount_of_the_quota_that_cannot_be(scene: SeedScene) -> None:
    scene.cluster()
    scene.limits(cpu="10", memory="0")  # as the escrow carries it
    scene.seed.put(PROJECT_QUOTAS, quota(limits=details(cpu="10", memory="1e999")))
    async with scene.served():
        refused = await scene.create()
        assert refused.code == 403
        assert 'requested Memory "' in refused.message
        assert (
            "The quota allows nothing until it is corrected: spec.quota.memory: '1e999' is more than 9223372036854775807: it is"
            " a quantity of 0 or more, such as 16Gi or 16G; 0 allows none, and without the field there is no limit."
            " Next: have an administrator correct the quota"
        ) in refused.message


@simulated
async def test_two_clusters_of_a_project_share_its_quota_and_another_project_has_its_own(scene: SeedScene) -> None:
    scene.cluster("c-1")
    scene.cluster("c-2")
    scene.cluster("c-3", of="xyz")
    scene.limits(cpu="2")
    scene.limits("xyz", cpu="2")
    async with scene.served():
        assert (await scene.create(cluster="c-1")).code == 200
        assert (await scene.create(cluster="c-2")).code == 403
        assert (await scene.create(cluster="c-3")).code == 200


@simulated
async def test_a_machine_that_is_gone_makes_room(scene: SeedScene) -> None:
    scene.cluster()
    scene.limits(cpu="2")
    async with scene.served():
        assert (await scene.create(name="a")).code == 200
        await scene.seen()
        assert (await scene.create(name="b")).code == 403
        scene.remove("a")
        await scene.seen()
        assert (await scene.create(name="b")).code == 200


@pytest.mark.parametrize(
    "cluster",
    [
        pytest.param({"of": ""}, id="of no project"),
        pytest.param({"provider": "eks"}, id="that was imported"),
        pytest.param({"of": "No_Project"}, id="of what can be no project"),
    ],
)
@simulated
async def test_a_cluster_is_not_followed(scene: SeedScene, cluster: dict[str, Any]) -> None:
    scene.cluster(**cluster)
    scene.limits(cpu="0")
    async with scene.served():
        assert scene.wiring.clusters.names == []
        assert (await scene.create()).code == 200


@simulated
async def test_a_cluster_that_is_being_deleted_counts_until_its_object_is_gone(scene: SeedScene) -> None:
    scene.cluster(deleting=True)
    scene.limits(cpu="2")
    async with scene.served():
        assert scene.wiring.clusters.names == ["c-1"]
        assert (await scene.create()).code == 200
        assert (await scene.create()).code == 403


@simulated
async def test_a_cluster_that_is_given_to_another_project_is_counted_there(scene: SeedScene) -> None:
    scene.cluster()
    scene.limits(cpu="2")
    scene.limits("xyz", cpu="3")
    async with scene.served():
        assert (await scene.create()).code == 200
        scene.cluster(of="xyz")
        await scene.seen()
        refused = await scene.create()
        assert (refused.code, "project/xyz" in refused.message) == (403, True)


@simulated
async def test_where_there_is_no_ledger_nothing_is_refused_and_machines_are_stamped_all_the_same(scene: SeedScene) -> None:
    scene.cluster()
    async with scene.served():
        assert (await scene.create("l", name="a")).code == 200
        assert TAKES in scene.body("a")["metadata"]["annotations"]


# --- stamps ----------------------------------------------------------------------------------------------------------


@simulated
async def test_a_stamp_that_a_person_sends_is_replaced(scene: SeedScene) -> None:
    scene.cluster()
    async with scene.served():
        forged = {TAKES: '{"machines":{"cpu":"0"}}', SIGNATURE: f"v1:new:1:{'0' * 64}", "kept": "yes"}
        assert (await scene.create(name="a", annotations=forged)).code == 200
        annotations = scene.body("a")["metadata"]["annotations"]
        assert annotations[TAKES] == '{"machines":{"cpu":"2","memory":"4Gi","storage":"20Gi"}}'
        assert annotations["kept"] == "yes"


@simulated
async def test_a_stamp_that_another_webhook_changes_is_not_admitted(scene: SeedScene) -> None:
    scene.cluster()
    async with scene.served():
        decided = await scene.submit(MACHINES, machine_body(), behind={TAKES: '{"machines":{"cpu":"0"}}'})
        assert decided.code == 429
        assert scene.bodies() == []


@simulated
async def test_an_update_may_not_touch_the_stamp_and_may_change_all_that_costs_nothing(scene: SeedScene) -> None:
    scene.cluster()
    scene.limits(cpu="2")
    async with scene.served():
        await scene.create(name="a")
        body = scene.body("a")
        before = dict(body["metadata"]["annotations"])
        body["metadata"]["annotations"] = {"mine": "1"}
        body["metadata"]["finalizers"] = []
        assert (await scene.submit(MACHINES, body)).code == 200
        assert scene.body("a")["metadata"]["annotations"] == {"mine": "1", **before}
        lying = {TAKES: '{"machines":{"cpu":"0"}}'}
        decided = await scene.submit(MACHINES, scene.body("a"), behind=lying)
        assert (decided.code, decided.causes[0].field) == (422, f"metadata.annotations[{TAKES}]")


@simulated
async def test_an_update_that_changes_what_a_machine_costs_is_refused(scene: SeedScene) -> None:
    scene.cluster()
    async with scene.served():
        await scene.create(name="a")
        body = scene.body("a")
        body["spec"]["providerSpec"]["value"] = provider_spec("l")
        decided = await scene.submit(MACHINES, body)
        assert decided.code == 403
        assert decided.message.startswith("spec.providerSpec: Machine a would take cpu 4 cores instead of 2 cores")


@simulated
async def test_a_spec_that_costs_the_same_may_be_changed_once_the_stamp_is_bound(scene: SeedScene) -> None:
    scene.cluster()
    scene.limits(cpu="2")
    async with scene.served():
        await scene.create(name="a")
        await scene.seen()
        changed = scene.body("a")
        changed["spec"]["providerSpec"]["value"] = provider_spec("m2")
        assert (await scene.submit(MACHINES, changed)).code == 429
        assert (await scene.submit(MACHINES, bound(scene, "a"))).code == 200
        changed = {**scene.body("a"), "spec": changed["spec"]}
        assert (await scene.submit(MACHINES, changed)).code == 200
        facts = machine_facts("c-1", scene.seed.others["c-1"].get(MACHINES, Key(SYSTEM, "a")))
        verdict = verify(facts, scene.keys)
        assert isinstance(verdict, Valid)
        assert verdict.form == "bound"


@simulated
async def test_what_our_controller_signs_is_booked_past_the_limit(scene: SeedScene) -> None:
    scene.cluster()
    scene.limits(cpu="2")
    async with scene.served():
        await scene.create(name="a")
        await scene.seen()
        larger = SMALL | scene.sizes.known["l"]
        assert (await scene.submit(MACHINES, bound(scene, "a", larger))).code == 200
        await scene.seen()
        refused = await scene.create()
        assert '(quota/used "2"/"4")' in refused.message


@simulated
async def test_a_machine_without_a_good_stamp_is_named_by_the_ledger_and_may_lose_its_finalizers(scene: SeedScene) -> None:
    scene.cluster()
    scene.limits(cpu="20")
    scene.store(MACHINES, aged(machine_body(name="old")))
    async with scene.served():
        assert (await scene.create()).code == 200
        ready = find_condition(scene.ledger().status.conditions, "Ready")
        assert ready is not None
        assert (ready.reason, "machines.cluster.k8s.io/c-1/kube-system/old" in ready.message) == ("Uncountable", True)
        body = scene.body("old")
        body["metadata"]["finalizers"] = []
        assert (await scene.submit(MACHINES, body)).code == 200


# --- sizes -----------------------------------------------------------------------------------------------------------


@simulated
async def test_a_size_that_nobody_knows_is_refused_where_there_is_a_quota_and_looked_up(scene: SeedScene) -> None:
    scene.cluster()
    scene.limits(cpu="20")
    async with scene.served():
        refused = await scene.create("huge")
        assert refused.code == 403
        assert refused.message.startswith("error getting machine resource request: nobody knows huge")
        assert "looked up, try again in a minute" in refused.message
        assert {key.name for key in scene.sizes.wanted} == {"huge"}
        scene.sizes.known["huge"] = SMALL
        assert (await scene.create("huge")).code == 200


@simulated
async def test_a_size_that_nobody_knows_passes_where_there_is_no_quota(scene: SeedScene) -> None:
    scene.cluster()
    async with scene.served():
        assert (await scene.create("huge", name="a")).code == 200
        assert TAKES not in scene.body("a")["metadata"].get("annotations", {})


@simulated
async def test_a_size_that_nobody_knows_passes_where_the_administrator_allows_it(scene: SeedScene) -> None:
    scene.settings = Settings(unknown_size="allow")
    scene.cluster()
    scene.limits(cpu="20")
    async with scene.served():
        assert (await scene.create("huge")).code == 200


# --- answers ---------------------------------------------------------------------------------------------------------


LARGE = {"tags": list(range(MOST_PARTS))}  # of a size that is known, and cannot be signed for


@simulated
async def test_a_spec_that_cannot_be_signed_for_is_refused_by_its_field_and_not_told_to_try_again(scene: SeedScene) -> None:
    scene.cluster()
    scene.limits(cpu="20")
    async with scene.served():
        refused = await scene.create(spec=LARGE)
        assert (refused.code, [cause.field for cause in refused.causes]) == (422, ["spec.providerSpec"])
        assert "it has more than 5000 fields and elements" in refused.message


@simulated
async def test_a_spec_that_cannot_be_signed_for_passes_where_there_is_no_quota(scene: SeedScene) -> None:
    scene.cluster()
    async with scene.served():
        assert (await scene.create(spec=LARGE)).code == 200


@simulated
async def test_a_machine_whose_spec_cannot_be_read_may_lose_its_finalizers(scene: SeedScene) -> None:
    scene.cluster()
    scene.limits(cpu="20")
    async with scene.served():
        scene.store(MACHINES, machine_body("unheard-of", name="a", spec=LARGE))
        body = scene.body("a")
        body["metadata"]["finalizers"] = []
        assert (await scene.submit(MACHINES, body)).code == 200


@simulated
async def test_a_part_of_a_quota_is_told_with_the_whole(scene: SeedScene) -> None:
    scene.cluster()
    scene.limits(cpu="1", grants={"cpu": "100"})
    async with scene.served():
        review = await _stamped_review(scene)
        refused = await scene.hook("project-machine").answer(replace(review, deadline=scene.clock.monotonic() + 10))
        assert (refused.code, "granted to it 1 core of 100 cores in all" in refused.message) == (403, True)


@simulated
async def test_where_the_ledger_cannot_be_asked_a_create_is_told_to_try_again_and_why(scene: SeedScene) -> None:
    scene.cluster()
    scene.limits(cpu="20")
    async with scene.served():
        review = await _stamped_review(scene)
        scene.seed.slow[LEDGERS.name] = 1000.0
        scene.seed.put(LEDGERS, scene.seed.get(LEDGERS, Key(NAMESPACE, "project-abc")))
        scene.seed.cut_off()
        decided = await scene.hook("project-machine").answer(replace(review, deadline=scene.clock.monotonic() + 2))
        assert decided.code == 429
        assert "whether it fits the project's quota cannot be asked now" in decided.message


async def _stamped_review(scene: SeedScene) -> Review:
    body = machine_body(name="a")
    decided = await scene.hook("project-machine-stamp").answer(review_of(MACHINES, body))
    made = jsonpatch.apply_patch(body, list(decided.patch))
    made["metadata"] |= {"uid": "u-a", "creationTimestamp": timestamp(scene.clock.now())}
    return review_of(MACHINES, made)


def test_hooks_for_changes_pass_when_they_cannot_be_asked_and_those_for_new_machines_do_not() -> None:
    hooks = MachineWebhook(None).hooks()  # type: ignore[arg-type]  # nothing is asked
    assert {hook.name: hook.failure_policy for hook in hooks if hook.phase == "validate"} == {
        "project-machine": "Fail",
        "project-machine-update": "Ignore",
    }
    assert all(hook.elsewhere and not hook.not_in and not hook.only_in for hook in hooks)
    assert all(hook.reinvoke for hook in hooks if hook.phase == "mutate")
    assert all("DELETE" not in target.operations for hook in hooks for target in hook.targets)
