"""The rules of the design for project quotas: a test for each that decisions alone can show. Machines are refused elsewhere."""

from __future__ import annotations

import msgspec

from tests.unit.projects.builders import NOW, cluster, details, project, quota, setting, usage
from ullage.kube.crds.definitions import crd_of
from ullage.kube.objects import find_condition
from ullage.ledger.amounts import Amounts
from ullage.projects.api.amounts import ResourceDetails
from ullage.projects.api.quotas import PROJECT_QUOTAS, WITHIN_QUOTA, ResourceQuota, ResourceQuotaStatus
from ullage.projects.controllers.cluster_usage_rules import cluster_usage
from ullage.projects.controllers.quota_default_rules import CreateDefault, default_in, steps
from ullage.projects.controllers.quota_local_usage_rules import local_usage
from ullage.projects.controllers.quota_status_rules import SeedReport, StatusFacts, status_of, totals
from ullage.projects.webhook.quota_rules import QuotaFacts, refusals, warnings

MACHINE = Amounts.parse({"cpu": "2", "memory": "4Gi", "storage": "20Gi"})


def on_seeds(about: ResourceQuota, *clusters_of_each: tuple[int, ...]) -> ResourceQuotaStatus:
    """The whole way up: so many machines in each cluster of each seed, to the status on the master."""
    reports = []
    for number, counts in enumerate(clusters_of_each):
        found = []
        for index, count in enumerate(counts):
            machines = Amounts()
            for _ in range(count):
                machines = machines + MACHINE
            used = cluster_usage(machines, vanished=Amounts(), uncounted={}, before=None).usage
            found.append(cluster(f"c{index}", used))
        local = local_usage(found, "abc", before=details()).usage
        copy = quota(uid=f"on-{number}", status=ResourceQuotaStatus(local_usage=local))
        reports.append(SeedReport(f"seed-{number}", reachable=True, copy=copy))
    return status_of(StatusFacts(quota=about, totals=totals(about, reports, now=NOW)), now=NOW)


def test_the_quotas_are_for_node_resources_of_machines_over_all_clusters_and_seeds() -> None:
    assert on_seeds(quota(), (1, 2), (), (3,)).global_usage == usage("12", "24Gi", "120Gi")


def test_by_default_projects_do_not_have_a_quota_and_use_what_they_want() -> None:
    default = default_in(setting(None))
    assert default is not None
    assert list(steps(default, [project()], [])) == []
    within = find_condition(on_seeds(quota(), (1000,)).conditions, WITHIN_QUOTA)
    assert within is not None
    assert (within.status, within.reason) == ("True", "NoLimit")


def test_there_is_a_way_to_set_a_default_quota_for_all_projects() -> None:
    default = default_in(setting(details(cpu="4")))
    assert default is not None
    found = list(steps(default, [project("a"), project("b"), project("c")], [quota("b", details(cpu="9"))]))
    made = [step.quota for step in found if isinstance(step, CreateDefault)]
    assert [(one.metadata.name, one.spec.quota.cpu) for one in made] == [("project-a", "4"), ("project-c", "4")]


def test_when_a_machine_is_deleted_the_usage_decreases_for_the_project() -> None:
    before = on_seeds(quota(), (2,), (2,))
    after = on_seeds(quota(status=before), (2,), (1,))
    assert (before.global_usage.cpu, after.global_usage.cpu) == ("8", "6")


def test_a_quota_that_is_lowered_below_use_is_taken_said_and_removes_no_machine() -> None:
    old, new = quota(limits=details(cpu="10")), quota(limits=details(cpu="5"))
    used = Amounts.parse({"cpu": "8"})
    assert refusals(QuotaFacts(new, old, used=used)) == []
    assert len(warnings(QuotaFacts(new, old, used=used))) == 1
    said = on_seeds(msgspec.structs.replace(new, status=on_seeds(old, (2,), (2,))), (2,), (2,))
    within = find_condition(said.conditions, WITHIN_QUOTA)
    assert within is not None
    assert (said.global_usage.cpu, within.status, within.reason) == ("8", "False", "OverQuota")
    assert within.message.startswith("cpu: 8 cores used, 3 cores more than the quota of 5 cores; no machine is removed")


def test_the_storage_quota_is_about_the_disks_of_nodes_and_says_so() -> None:
    schema = crd_of(PROJECT_QUOTAS)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    said = schema["properties"]["spec"]["properties"]["quota"]["properties"]["storage"]["description"]
    assert "Volumes that pods claim are not among them" in said
    assert on_seeds(quota(), (1,)).global_usage.storage == "20Gi"


def test_the_quotas_do_not_work_for_imported_external_clusters() -> None:
    imported = cluster("x", usage("100"), provider="eks")  # those that are of a kind of their own are never read
    assert local_usage([imported, cluster("y", usage("1"))], "abc", before=details()).usage == usage("1")


def test_what_is_absent_is_unlimited_and_zero_allows_none() -> None:
    def within(limits: ResourceDetails) -> str:
        found = find_condition(on_seeds(quota(limits=limits), (1,)).conditions, WITHIN_QUOTA)
        assert found is not None
        return found.status

    assert [within(one) for one in (details(), details(memory="1Ti"), details(cpu=2), details(cpu=0))] == [
        "True",
        "True",
        "True",
        "False",
    ]
