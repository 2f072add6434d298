"""What the status of a quota says, word by word."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from tests.unit.projects.builders import NOW, details, quota, usage
from ullage.projects.api.amounts import ResourceDetails
from ullage.projects.api.quotas import ResourceQuota, ResourceQuotaStatus, SeedUsage
from ullage.projects.controllers.quota_status_rules import SeedReport, StatusFacts, Totals, over_quota_note, status_of, totals
from ullage.projects.quota import amounts_of

SEE = "no machine is removed, and new ones are refused; see `ullage usage --group-by cluster` for project abc"


def used(given: ResourceDetails | None, **more: Any) -> Totals:
    seeds = more.pop("seeds", (SeedUsage(name="a", usage=given or details()),))
    return Totals(None if given is None else amounts_of(given, field="x"), seeds, **more)


def facts(limits: ResourceDetails, found: Totals, **more: Any) -> StatusFacts:
    return StatusFacts(quota=quota(limits=limits, generation=3), totals=found, **more)


def said(given: StatusFacts) -> dict[str, tuple[str, str, str]]:
    return {one.type: (one.status, one.reason, one.message) for one in status_of(given, now=NOW).conditions}


@pytest.mark.parametrize(
    ("limits", "found", "status", "reason", "message"),
    [
        pytest.param(
            details(cpu=5), used(usage("3")), "True", "WithinQuota", "project abc uses no more than it may", id="within"
        ),
        pytest.param(
            details(cpu=5), used(usage("5")), "True", "WithinQuota", "project abc uses no more than it may", id="exactly full"
        ),
        pytest.param(details(), used(usage("7")), "True", "NoLimit", "project abc has no limit", id="without a limit"),
        pytest.param(
            details(cpu=5, memory="10Gi", storage="1Ti"),
            used(usage("7", "12Gi", "1Gi")),
            "False",
            "OverQuota",
            "cpu: 7 cores used, 2 cores more than the quota of 5 cores; memory: 12Gi used, 2Gi more than the quota of 10Gi;"
            f" {SEE}",
            id="lowered below use: every resource that is over, with its numbers",
        ),
        pytest.param(
            details(cpu=0),
            used(usage("1")),
            "False",
            "OverQuota",
            f"cpu: 1 core used, 1 core more than the quota of 0; {SEE}",
            id="none is allowed",
        ),
        pytest.param(
            details(cpu=5), used(None), "Unknown", "NotCounted", "what the project uses is not known yet", id="not counted"
        ),
        pytest.param(
            details(cpu=5),
            used(usage("3"), seeds=(SeedUsage(name="a", usage=usage("3")), SeedUsage(name="b")), unknown=("seed b: …",)),
            "Unknown",
            "NotCounted",
            "what project abc uses is not known on every seed: b",
            id="a seed that has said nothing may use anything",
        ),
        pytest.param(
            details(cpu=5),
            used(usage("6"), seeds=(SeedUsage(name="a", usage=usage("6")), SeedUsage(name="b")), unknown=("seed b: …",)),
            "False",
            "OverQuota",
            f"cpu: 6 cores used, 1 core more than the quota of 5 cores; {SEE}",
            id="what is over without it is over",
        ),
        pytest.param(
            details(cpu=5),
            used(usage("3"), unknown=("seed a: the figures of these clusters are not of now: c",)),
            "Unknown",
            "NotOfNow",
            "project abc may use more than its figures say: seed a: the figures of these clusters are not of now: c",
            id="a cluster that cannot be read may use anything",
        ),
        pytest.param(
            details(cpu=5),
            used(usage("6"), unknown=("seed a: the figures of these clusters are not of now: c",)),
            "False",
            "OverQuota",
            f"cpu: 6 cores used, 1 core more than the quota of 5 cores; {SEE}",
            id="what is over by the figures of before is over",
        ),
        pytest.param(
            details(),
            used(usage("6"), unknown=("seed a: …",)),
            "True",
            "NoLimit",
            "project abc has no limit",
            id="without a limit nothing is over it",
        ),
        pytest.param(
            details(cpu=5),
            used(usage("3"), stale=("seed a: out of reach for 1 hour",)),
            "True",
            "WithinQuota",
            "project abc uses no more than it may",
            id="last figures are figures",
        ),
    ],
)
def test_whether_a_project_is_within_its_quota(
    limits: ResourceDetails, found: Totals, status: str, reason: str, message: str
) -> None:
    assert said(facts(limits, found))["WithinQuota"] == (status, reason, message)


TWO_SEEDS = (SeedUsage(name="a", usage=usage("1")), SeedUsage(name="b", usage=usage("1")))


@pytest.mark.parametrize(
    ("found", "status", "reason", "message"),
    [
        pytest.param(used(usage("2"), seeds=TWO_SEEDS), "True", "Fresh", "counted on 2 seeds", id="all of now"),
        pytest.param(used(usage("1")), "True", "Fresh", "counted on 1 seed", id="one seed"),
        pytest.param(used(usage(), seeds=()), "True", "Fresh", "there is no seed", id="none"),
        pytest.param(
            used(usage("1"), stale=("seed a: gone for 1 hour",), unknown=("seed b: no copy",)),
            "False",
            "SeedUnreachable",
            "seed a: gone for 1 hour; seed b: no copy",
            id="a seed that is out of reach, with its age",
        ),
        pytest.param(used(usage("1"), unknown=("seed b: no copy",)), "False", "Incomplete", "seed b: no copy", id="a new seed"),
        pytest.param(used(None, unknown=("seed b: no copy",)), "Unknown", "NotCounted", "seed b: no copy", id="only new seeds"),
        pytest.param(
            used(usage("1"), stale=tuple(f"seed {number}: gone" for number in range(9))),
            "False",
            "SeedUnreachable",
            "seed 0: gone; seed 1: gone; seed 2: gone; seed 3: gone; seed 4: gone; and 4 more",
            id="many seeds",
        ),
    ],
)
def test_whether_the_figures_are_of_now(found: Totals, status: str, reason: str, message: str) -> None:
    assert said(facts(details(cpu=5), found))["UsageFresh"] == (status, reason, message)


@pytest.mark.parametrize(
    ("given", "status", "reason", "message"),
    [
        pytest.param(
            facts(details(cpu="5", memory="10Gi"), used(usage())),
            "True",
            "InForce",
            "in force: cpu 5 cores, memory 10Gi",
            id="all",
        ),
        pytest.param(facts(details(), used(usage())), "True", "InForce", "there is no limit", id="without a limit"),
        pytest.param(
            facts(details(cpu="5"), used(usage()), problem=("ProjectMissing", "there is no project abc")),
            "False",
            "ProjectMissing",
            "there is no project abc",
            id="its project is missing",
        ),
        pytest.param(
            facts(details(cpu="5"), used(usage()), pending="seed b has not taken change 4 yet"),
            "False",
            "Pending",
            "seed b has not taken change 4 yet",
            id="not in force everywhere",
        ),
        pytest.param(
            facts(details(cpu="-5", memory="1Gi"), used(usage())),
            "False",
            "InvalidQuota",
            "these allow nothing until they are corrected: spec.quota.cpu: '-5' is negative: it is a quantity of 0 or more,"
            " such as 4 or 1500m; 0 allows none, and without the field there is no limit",
            id="a value that is none",
        ),
    ],
)
def test_whether_the_quota_is_in_force(given: StatusFacts, status: str, reason: str, message: str) -> None:
    assert said(given)["Ready"] == (status, reason, message)


def test_the_status_has_usage_columns_and_what_each_seed_said() -> None:
    found = status_of(facts(details(cpu=5, memory="10Gi"), used(usage("3", "2560Mi"))), now=NOW)
    assert (found.global_usage, found.seeds) == (usage("3", "2560Mi"), (SeedUsage(name="a", usage=usage("3", "2560Mi")),))
    assert (found.shown.cpu, found.shown.memory, found.shown.storage) == ("3/5", "2.5Gi/10Gi", "0/unlimited")
    assert {one.observed_generation for one in found.conditions} | {found.observed_generation} == {3}


def test_what_nobody_has_counted_is_shown_as_unknown_and_not_as_nothing() -> None:
    found = status_of(facts(details(cpu=5), used(None)), now=NOW)
    assert (found.shown.cpu, found.shown.memory, found.global_usage) == ("unknown/5", "unknown/unlimited", details())


def follow(about: ResourceQuota, found: Totals, *, after: timedelta = timedelta()) -> ResourceQuota:
    status = status_of(StatusFacts(quota=about, totals=found), now=NOW + after)
    return msgspec.structs.replace(about, status=status)


def test_where_nothing_is_new_nothing_is_written() -> None:
    def counted(about: ResourceQuota, cpu: str, memory: str) -> Totals:
        copy = quota(uid="on-a", status=ResourceQuotaStatus(local_usage=usage(cpu, memory)))
        return totals(about, [SeedReport("a", reachable=True, copy=copy)], now=NOW)

    before = quota(limits=details(cpu=5))
    once = follow(before, counted(before, "3", "1Gi"))
    assert follow(once, counted(once, "3000m", "1073741824"), after=timedelta(hours=1)).status is once.status
    assert follow(once, counted(once, "3001m", "1Gi")).status is not once.status


def test_the_seed_s_own_figures_on_a_master_that_is_a_seed_stay() -> None:
    before = quota(status=ResourceQuotaStatus(local_usage=usage("1")))
    assert follow(before, used(usage("3"))).status.local_usage == usage("1")


def test_that_a_project_is_over_its_quota_is_told_once_and_again_after_it_was_within() -> None:
    states = [quota(limits=details(cpu=5))]
    for figure in ("3", "7", "8", "4", "6"):
        states.append(follow(states[-1], used(usage(figure))))
    notes = [over_quota_note(old.status, new.status) for old, new in pairwise(states)]
    assert [note.partition(",")[0] for note in notes] == ["", "cpu: 7 cores used", "", "", "cpu: 6 cores used"]
