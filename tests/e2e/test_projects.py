"""A project's quota over three seeds: the rules of the document, one by one, and what becomes of a quota from its first day to
its last."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from ullage.ledger.api import LEDGERS, NAMESPACE
from ullage.projects.api.kkp import CLUSTERS
from ullage.projects.api.quotas import PROJECT_QUOTAS

from .apart import IS_BORROWED
from .projects_scene import CREATED, FORBIDDEN, Platform, SeedCluster, UserCluster, eventually_is, platform
from .snapshot_scene import eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(IS_BORROWED, reason="the quotas of a cluster are its owner's"),
]

SEEDS = ("fra", "ams", "nyc")


@pytest.fixture(scope="module")
def kkp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    with platform(tmp_path_factory.mktemp("master")) as made:
        for name in SEEDS:
            made.add_seed(name)
        yield made


@pytest.fixture
def project(kkp: Platform, request: pytest.FixtureRequest) -> str:
    name = f"p{abs(hash(request.node.name)) % 10**8}"
    kkp.project(name)
    return name


def with_clusters(kkp: Platform, project: str, *seeds: str) -> list[UserCluster]:
    return [kkp.seeds[seed].add(f"{project}-{seed}", project) for seed in seeds]


def whole(seed: SeedCluster, project: str) -> str:
    """What a seed says that the project uses everywhere."""
    return str(seed.quota(project)["status"].get("globalUsage", {}).get("cpu", ""))


def used(cpu: int, memory: str, storage: str) -> dict[str, str]:
    return {"cpu": str(cpu), "memory": memory, "storage": storage}


def test_by_default_a_project_uses_what_it_wants_and_what_it_uses_is_counted(kkp: Platform, project: str) -> None:
    (user,) = with_clusters(kkp, project, "fra")
    for number in range(20):
        user.create(f"m-{number}", cpu="64", memory="512Gi", storage="4Ti")
    assert not kkp.seeds["fra"].ledger(project), "nothing is limited"
    wanted = used(1280, "10Ti", "80Ti")
    eventually_is("the cluster says so", wanted, lambda: kkp.seeds["fra"].usage(user.name))


def test_a_machine_past_the_quota_is_refused_and_one_that_fills_it_is_not(kkp: Platform, project: str) -> None:
    (user,) = with_clusters(kkp, project, "fra")
    kkp.set_quota(project, cpu="5", memory="8Gi", storage="100Gi")
    kkp.in_force(project)
    user.create("first", cpu="3", memory="4Gi", storage="50Gi")
    eventually_is("the seed hears what is used everywhere", "3", partial(whole, kkp.seeds["fra"], project))
    answer = user.ask("second", cpu="3", memory="5Gi", storage="51Gi")
    assert answer.code == FORBIDDEN, answer.raw
    said = answer.message
    for part in (
        'requested CPU "3" would exceed current quota (quota/used "5"/"3")',
        'requested Memory "5Gi" would exceed current quota (quota/used "8Gi"/"4Gi")',
        'requested disk size "51Gi" would exceed current quota (quota/used "100Gi"/"50Gi")',
        f"Next: ullage usage --group-by cluster project/{project}",
    ):
        assert part in said, said
    eventually("one that fills it comes in", lambda: user.ask("second", cpu="2", memory="4Gi", storage="50Gi").code == CREATED)
    assert user.ask("third", cpu="1m", memory="0", storage="0").code == FORBIDDEN
    assert user.names() == {"first", "second"}


def test_usage_on_all_seeds_adds_up_and_falls_when_machines_are_deleted(kkp: Platform, project: str) -> None:
    users = with_clusters(kkp, project, *SEEDS)
    kkp.set_quota(project, cpu="30", memory="60Gi", storage="1Ti")
    kkp.in_force(project)
    for number, user in enumerate(users, start=1):
        for one in range(number):
            user.create(f"m-{one}", cpu="2", memory="4Gi", storage="20Gi")
    eventually_is("six machines are counted", used(12, "24Gi", "120Gi"), lambda: kkp.used(project))
    for seed, number in zip(SEEDS, (1, 2, 3), strict=True):
        copy = kkp.seeds[seed].quota(project)
        assert copy["status"]["localUsage"]["cpu"] == str(2 * number)
        eventually_is(f"{seed} knows the whole", "12", partial(whole, kkp.seeds[seed], project))
    users[2].delete("m-0")
    users[2].delete("m-1")
    eventually_is("four machines are counted", used(8, "16Gi", "80Gi"), lambda: kkp.used(project))


def test_a_quota_below_present_use_takes_nothing_away_and_stops_growth(kkp: Platform, project: str) -> None:
    near, far = with_clusters(kkp, project, "fra", "ams")
    kkp.set_quota(project, cpu="10")
    kkp.in_force(project)
    near.create("a", cpu="4")
    far.create("b", cpu="4")
    eventually_is("both are counted", "8", lambda: kkp.used(project).get("cpu"))
    kkp.set_quota(project, cpu="6")
    eventually_is("it says so", "False", lambda: kkp.condition(project, "WithinQuota").get("status"))
    assert "cpu: 8 cores used, 2 cores more than the quota of 6 cores" in kkp.condition(project, "WithinQuota")["message"]
    eventually(
        "nobody may grow",
        lambda: {user.ask("probe", cpu="1", dry_run=True).code for user in (near, far)} == {FORBIDDEN},
    )
    assert near.names() == {"a"}
    assert far.names() == {"b"}

    # Less is used, and what was freed may be used again, on the other seed.
    far.delete("b")
    eventually_is("it is within the quota", "True", lambda: kkp.condition(project, "WithinQuota").get("status"))
    eventually("there is room again", lambda: near.ask("c", cpu="2").code == CREATED, seconds=240, every=0.2)


def test_room_goes_to_the_seed_that_asks_for_it(kkp: Platform, project: str) -> None:
    """Each seed has a part of the quota. Whoever asks for more than that gets what the others do not use."""
    users = with_clusters(kkp, project, *SEEDS)
    kkp.set_quota(project, cpu="9")
    kkp.in_force(project)

    def fill() -> bool:
        number = len(users[0].names())
        return number == 9 or (users[0].ask(f"m-{number}").code == CREATED and False)

    eventually("all of it is used on one seed", fill, seconds=240, every=0.2)
    assert {user.ask("one-more", dry_run=True).code for user in users} == {FORBIDDEN}


def test_a_raised_quota_may_be_used_at_once(kkp: Platform, project: str) -> None:
    (user,) = with_clusters(kkp, project, "nyc")
    kkp.set_quota(project, cpu="1")
    kkp.in_force(project)
    user.create("a")
    assert user.ask("b").code == FORBIDDEN
    kkp.set_quota(project, cpu="2")
    eventually("the second one fits", lambda: user.ask("b").code == CREATED)


def test_the_storage_quota_is_about_the_disks_of_nodes(kkp: Platform, project: str) -> None:
    (user,) = with_clusters(kkp, project, "fra")
    kkp.set_quota(project, storage="50Gi")
    kkp.in_force(project)
    user.create("large", cpu="512", memory="4Ti", storage="50Gi")
    answer = user.ask("small", cpu="1", memory="1Gi", storage="1")
    assert (answer.code, "disk size" in answer.message, "CPU" in answer.message) == (FORBIDDEN, True, False), answer.raw


def test_nodes_without_a_machine_are_neither_counted_nor_refused(kkp: Platform, project: str) -> None:
    (user,) = with_clusters(kkp, project, "fra")
    kkp.set_quota(project, cpu="0")
    kkp.in_force(project)
    status = {"capacity": {"cpu": "64", "memory": "512Gi"}}
    user.api.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "joined"}, "status": status})
    assert user.ask("m").code == FORBIDDEN, "0 allows none"
    eventually_is("nothing is counted", used(0, "0", "0"), lambda: kkp.seeds["fra"].usage(user.name))


def test_a_default_quota_comes_follows_the_setting_and_goes(kkp: Platform, project: str) -> None:
    kkp.default(cpu="4")
    try:
        eventually_is("it is there", {"cpu": "4"}, lambda: kkp.quota(project).get("spec", {}).get("quota"))
        labels = kkp.quota(project)["metadata"]["labels"]
        assert {labels.get("default"), labels.get("kkp-default-resource-quota")} == {"true"}
        assert labels["subject-name"] == project
        kkp.default(cpu="6")
        eventually_is("it follows", {"cpu": "6"}, lambda: kkp.quota(project)["spec"]["quota"])
        refused = kkp.api.call("DELETE", PROJECT_QUOTAS.path("", f"project-{project}"))
        assert (refused.code, "Removing default Project Quota" in refused.message) == (FORBIDDEN, True), refused.raw

        # Somebody gives the project a quota of its own: it stays, whatever the default is, until it is deleted.
        marks = {"default": None, "kkp-default-resource-quota": None}
        kkp.api.merge(
            PROJECT_QUOTAS.path("", f"project-{project}"), {"metadata": {"labels": marks}, "spec": {"quota": {"cpu": "9"}}}
        )
        kkp.default(cpu="7")
        other = f"{project}-other"
        kkp.project(other)
        eventually_is("another project has the default", {"cpu": "7"}, lambda: kkp.quota(other).get("spec", {}).get("quota"))
        assert kkp.quota(project)["spec"]["quota"] == {"cpu": "9"}
        assert kkp.api.call("DELETE", PROJECT_QUOTAS.path("", f"project-{project}")).code == 200
        eventually_is("the default is back", {"cpu": "7"}, lambda: kkp.quota(project).get("spec", {}).get("quota"))
    finally:
        kkp.default()
    eventually("no default is left", lambda: not kkp.quota(project) and not kkp.quota(other))


def test_a_deleted_quota_takes_its_copies_along_and_limits_nobody(kkp: Platform, project: str) -> None:
    users = with_clusters(kkp, project, "fra", "ams")
    kkp.set_quota(project, cpu="1")
    kkp.in_force(project)
    eventually("every seed has a copy", lambda: all(seed.quota(project) for seed in kkp.seeds.values()))
    assert users[0].ask("m", cpu="2").code == FORBIDDEN
    assert kkp.api.call("DELETE", PROJECT_QUOTAS.path("", f"project-{project}")).code == 200
    eventually("the quota is gone", lambda: not kkp.quota(project))
    assert not any(seed.quota(project) for seed in kkp.seeds.values())
    for number, user in enumerate(users):
        eventually("nothing is limited", lambda user=user, number=number: user.ask(f"m-{number}", cpu="2").code == CREATED)  # type: ignore[misc]


def test_only_administrators_set_quotas(kkp: Platform, project: str) -> None:
    """A member of a project has no right on quotas but to read its own; nobody else may touch ledgers, stamps or the record."""
    (user,) = with_clusters(kkp, project, "fra")
    kkp.set_quota(project, cpu="2")
    kkp.in_force(project)
    user.create("m")
    stamped = user.api.get(f"{user.machines}/m").obj["metadata"]["annotations"]
    forged = {"ullage.io/takes": '{"machines":{"cpu":"0","memory":"0","storage":"0"}}'}
    answer = user.api.call("PATCH", f"{user.machines}/m", {"metadata": {"annotations": forged}}, headers=MERGE)
    assert answer.code == 200, "an update of a Machine is not refused for its stamp: that stays"
    assert answer.obj["metadata"]["annotations"]["ullage.io/takes"] == stamped["ullage.io/takes"]
    assert user.ask("two", cpu="2").code == FORBIDDEN
    before = kkp.quota(project)["metadata"]["annotations"]["ullage.io/escrow"]
    answer = kkp.api.call("PATCH", PROJECT_QUOTAS.path("", f"project-{project}"), ESCROW, headers=MERGE)
    assert answer.code == 200, "the record of grants is put back as it was, too"
    assert answer.obj["metadata"]["annotations"]["ullage.io/escrow"] == before


def test_a_second_quota_of_a_project_and_another_subject_are_refused(kkp: Platform, project: str) -> None:
    kkp.set_quota(project, cpu="2")
    spec = {"subject": {"name": project, "kind": "project"}, "quota": {"cpu": "9"}}
    body = {"apiVersion": PROJECT_QUOTAS.api_version, "kind": PROJECT_QUOTAS.kind, "metadata": {"name": "second"}, "spec": spec}
    answer = kkp.api.call("POST", PROJECT_QUOTAS.path(), body)
    assert (answer.code, "the quota of a project is called project-<id>" in answer.message) == (422, True), answer.raw
    change = {"spec": {"subject": {"name": f"{project}-x"}}}
    answer = kkp.api.call("PATCH", PROJECT_QUOTAS.path("", f"project-{project}"), change, headers=MERGE)
    assert (answer.code, "updating ResourceQuota Subject is not allowed" in answer.message) == (422, True), answer.raw
    bad = kkp.api.call(
        "PATCH", PROJECT_QUOTAS.path("", f"project-{project}"), {"spec": {"quota": {"cpu": "-1"}}}, headers=MERGE
    )
    assert (bad.code, "spec.quota.cpu" in bad.message) == (422, True), bad.raw


def test_a_removed_webhook_is_put_back_and_what_came_meanwhile_counts(kkp: Platform, project: str) -> None:
    """Who administers a user cluster can take the webhook out. What he makes then is sized, stamped, counted past the limit,
    and told."""
    seed = kkp.seeds["fra"]
    (user,) = with_clusters(kkp, project, "fra")
    kkp.set_quota(project, cpu="2")
    kkp.in_force(project)
    user.create("m-0", cpu="2")
    kinds = ("validatingwebhookconfigurations", "mutatingwebhookconfigurations")
    paths = [f"/apis/admissionregistration.k8s.io/v1/{kind}" for kind in kinds]

    def sneak() -> bool:
        for path in paths:
            for one in user.api.get(path).obj["items"]:
                user.api.call("DELETE", f"{path}/{one['metadata']['name']}")
        return user.ask("sneaked", cpu="3").code == CREATED

    eventually("one comes in unasked", sneak, every=0.0)
    eventually_is("it is counted", "5", lambda: seed.usage(user.name).get("cpu"))
    eventually_is("the project is over its quota", "False", lambda: kkp.condition(project, "WithinQuota").get("status"))
    eventually("the webhook is back", lambda: user.ask("m-1", dry_run=True).code == FORBIDDEN, seconds=120)
    assert "ullage.io/takes-signature" in user.api.get(f"{user.machines}/sneaked").obj["metadata"]["annotations"]


MERGE = {"Content-Type": "application/merge-patch+json"}
ESCROW: dict[str, Any] = {"metadata": {"annotations": {"ullage.io/escrow": "{}"}}}


def test_the_ledger_of_a_seed_has_its_part_and_no_more(kkp: Platform, project: str) -> None:
    with_clusters(kkp, project, *SEEDS)
    kkp.set_quota(project, cpu="10", memory="100Gi", storage="1Ti")
    kkp.in_force(project)

    def parts(seed: SeedCluster) -> int:
        return int(seed.limits(project).get("cpu", "0"))

    assert sum(parts(seed) for seed in kkp.seeds.values()) == 10
    ledger = kkp.seeds["fra"].ledger(project)
    assert ledger["metadata"]["namespace"] == NAMESPACE
    assert kkp.seeds["fra"].api.get(LEDGERS.path(NAMESPACE)).code == 200


HOOKS = [
    f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/ullage-seed-elsewhere"
    for kind in ("validating", "mutating")
]


@pytest.mark.parametrize("killed", [False, True], ids=["the webhook goes on", "the webhook is killed at that moment"])
def test_a_cluster_that_loses_its_project_loses_its_hooks_and_is_told_why_until_then(
    kkp: Platform, project: str, killed: bool
) -> None:
    (user,) = with_clusters(kkp, project, "fra")
    seed = kkp.seeds["fra"]
    user.create("before")
    assert [user.api.get(path).code for path in HOOKS] == [200, 200]
    place = CLUSTERS.path(name=user.name)
    seed.api.merge(place, {"metadata": {"labels": {"project-id": None}}})
    if killed:
        seed.processes.kill("webhook")
    answers = []

    def admitted() -> bool:
        answers.append(user.ask("without-a-project"))
        return answers[-1].code == CREATED

    eventually("Machines are not asked about any more", admitted)
    for answer in answers[:-1]:
        told = answer.code == 429 and "counts for no project" in answer.message
        assert told or (killed and "failed calling webhook" in answer.message), answer.raw
    eventually("both hooks are gone", lambda: [user.api.get(path).code for path in HOOKS] == [404, 404])

    seed.api.merge(place, {"metadata": {"labels": {"project-id": project}}})
    eventually("the hooks are there again", lambda: [user.api.get(path).code for path in HOOKS] == [200, 200])
