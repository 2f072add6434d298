"""What may be written as a quota, and which one may be deleted: every refusal word by word."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.projects.builders import BOTH, default_quota, details, project, quota, usage
from ullage.ledger.amounts import Amounts
from ullage.projects.api.kkp import Project
from ullage.projects.api.quotas import ResourceQuota
from ullage.projects.quota import amounts_of
from ullage.projects.webhook.quota_rules import QuotaFacts, deletion_refusal, refusals, warnings

ALLOWED = "it is a quantity of 0 or more, such as 4 or 1500m; 0 allows none, and without the field there is no limit"
FIXED = "spec.subject: Operation not permitted: updating ResourceQuota Subject is not allowed!"


def rivals(*names: str) -> frozenset[str]:
    return frozenset(names)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        pytest.param(QuotaFacts(quota(limits=details(cpu=5))), [], id="a quota"),
        pytest.param(QuotaFacts(quota()), [], id="one without any limit"),
        pytest.param(QuotaFacts(quota(limits=details(cpu=0))), [], id="one that allows none"),
        pytest.param(
            QuotaFacts(quota(), rivals=rivals("project-abc")), [], id="its own name is no rival: the API server says that"
        ),
        pytest.param(
            QuotaFacts(quota(), rivals=rivals("project-abc", "mine")),
            ['spec.subject: ResourceQuota: Subject\'s Name "abc" and Kind pair "project" must be unique: mine has it'],
            id="the subject has one already",
        ),
        pytest.param(
            QuotaFacts(quota(name="mine")),
            ["metadata.name: 'mine' is not allowed: the quota of this subject is called project-abc"],
            id="another name",
        ),
        pytest.param(
            QuotaFacts(quota("other", name="project-abc")),
            ["metadata.name: 'project-abc' is not allowed: the quota of this subject is called project-other"],
            id="the name of another project's",
        ),
        pytest.param(QuotaFacts(quota("other", name="project-abc"), quota()), [FIXED], id="the subject is changed"),
        pytest.param(
            QuotaFacts(quota("My Project", name="project-My Project")),
            [
                "spec.subject.name: 'My Project' is no id of a project: that has 1 to 63 lower case letters, digits, dashes and"
                " dots, as in abc-1"
            ],
            id="the name that people read is no id",
        ),
        pytest.param(
            QuotaFacts(quota("My Project", name="x"), quota("My Project", name="x")), [], id="one that is there may be changed"
        ),
        pytest.param(
            QuotaFacts(quota(name="mine"), quota(name="mine"), rivals("mine")), [], id="one that KKP named stays usable"
        ),
        pytest.param(
            QuotaFacts(quota(name="mine"), quota(name="mine"), rivals("mine", "project-abc")),
            [],
            id="one of two that are there already can be mended",
        ),
        pytest.param(
            QuotaFacts(quota(limits=details(cpu="-1")), quota()),
            [f"spec.quota.cpu: '-1' is negative: {ALLOWED}"],
            id="less than nothing",
        ),
        pytest.param(
            QuotaFacts(quota(limits=details(cpu="5 cores"))),
            [f"spec.quota.cpu: '5 cores' is not a quantity: {ALLOWED}"],
            id="no quantity",
        ),
        pytest.param(
            QuotaFacts(quota(limits=details(cpu="-1", memory="1Gi")), quota(limits=details(cpu="-1"))),
            [],
            id="a fault that was there before keeps nobody from mending another",
        ),
        pytest.param(
            QuotaFacts(quota(name="mine", limits=details(cpu="x")), rivals=rivals("project-abc")),
            [
                'spec.subject: ResourceQuota: Subject\'s Name "abc" and Kind pair "project" must be unique: project-abc has it',
                "metadata.name: 'mine' is not allowed: the quota of this subject is called project-abc",
                f"spec.quota.cpu: 'x' is not a quantity: {ALLOWED}",
            ],
            id="all of it at once",
        ),
        pytest.param(
            QuotaFacts(quota(annotations={"ullage.io/max-clusters": "many"})),
            [
                "metadata.annotations[ullage.io/max-clusters]: 'many' is not allowed: it is a whole number from 0 to 1000000;"
                " without it there is no limit"
            ],
            id="a number of clusters that is none",
        ),
    ],
)
def test_what_may_be_written(facts: QuotaFacts, said: list[str]) -> None:
    assert [str(fault) for fault in refusals(facts)] == said


def test_a_limit_below_present_use_is_taken_and_the_author_is_told() -> None:
    used = amounts_of(usage("7", "1Gi"), field="x")
    facts = QuotaFacts(quota(limits=details(cpu=5, memory="1Gi")), quota(limits=details(cpu=10)), used=used)
    assert refusals(facts) == []
    assert warnings(facts) == (
        "cpu: 7 cores used, 2 cores more than the quota of 5 cores: no machine is removed, and new ones are refused until less"
        " is used",
    )


@pytest.mark.parametrize(
    ("new", "old"),
    [
        pytest.param(quota(limits=details(cpu="5000m")), quota(limits=details(cpu=5)), id="the same limit"),
        pytest.param(quota(limits=details(cpu=8)), quota(limits=details(cpu=5)), id="a limit above use"),
        pytest.param(quota(), quota(limits=details(cpu=5)), id="no limit any more"),
    ],
)
def test_nothing_is_told_where_nothing_is_cut(new: ResourceQuota, old: ResourceQuota) -> None:
    assert warnings(QuotaFacts(new, old, used=amounts_of(usage("7"), field="x"))) == ()


BACK = (
    "project-abc is marked as a default quota, and will be what KubermaticSettings say; to keep these values take the labels"
    " default and kkp-default-resource-quota off"
)
HALF = "label default: alone it marks no default; project-abc is a quota of its own, and stays as it is"


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        pytest.param({"new": default_quota(limits=details(cpu=9)), "old": default_quota()}, (BACK,), id="a default is changed"),
        pytest.param({"new": default_quota(), "old": quota()}, (BACK,), id="a custom one is marked"),
        pytest.param({"new": default_quota()}, (BACK,), id="a marked one is created"),
        pytest.param({"new": default_quota(), "old": default_quota()}, (), id="something else of it is changed"),
        pytest.param({"new": quota(labels={"default": "true"}), "old": default_quota()}, (HALF,), id="one label is taken off"),
        pytest.param({"new": quota(), "old": default_quota()}, (), id="both labels are taken off"),
        pytest.param({"new": default_quota(), "default_configured": False}, (), id="there is no default to go back to"),
    ],
)
def test_whoever_marks_or_changes_a_default_is_told_what_becomes_of_it(facts: dict[str, Any], said: tuple[str, ...]) -> None:
    assert warnings(QuotaFacts(**{"default_configured": True, "used": Amounts(), **facts})) == said


STAYS = (
    "Removing default Project Quota resource is not allowed. Either remove the default/global project quota configuration from"
    " KubermaticSettings or update the Project Quota resource to empty or desired values."
)


@pytest.mark.parametrize(
    ("given", "configured", "owner", "said"),
    [
        pytest.param(default_quota(), True, project(), STAYS, id="a default one, while a default is configured"),
        pytest.param(default_quota(), False, project(), "", id="when none is configured"),
        pytest.param(default_quota(), True, project(deleting=True), "", id="when its project is being deleted"),
        pytest.param(default_quota(), True, None, "", id="when its project is gone"),
        pytest.param(default_quota(deleting=True), True, project(), "", id="when it is being deleted already"),
        pytest.param(quota(), True, project(), "", id="a custom one: the default comes in its place"),
        pytest.param(quota(labels={"default": "true"}), True, project(), "", id="one with one of the labels"),
        pytest.param(
            quota(labels={**BOTH, "default": "false"}), True, project(), "", id="one whose label says that it is none"
        ),
    ],
)
def test_a_default_quota_stays_while_there_is_a_default(
    given: ResourceQuota, *, configured: bool, owner: Project | None, said: str
) -> None:
    assert deletion_refusal(given, default_configured=configured, project=owner) == said
