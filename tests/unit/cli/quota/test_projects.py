"""`ullage quota set|get|delete project/ID`."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import Result

from tests.unit.cli import project_cluster
from tests.unit.cli.project_cluster import FIFTY, MARKS, ProjectCluster, answering, busy_master, gone
from ullage.cli.quota import project_setting
from ullage.cli.quota.command import app
from ullage.cli.quota.targets import names
from ullage.kube.backoff import Backoff
from ullage.projects.api.kkp import PROJECTS, SETTINGS
from ullage.projects.api.quotas import PROJECT_QUOTAS
from ullage.projects.names import FINALIZER, MAX_CLUSTERS

OWN = {"subject-name": "abc", "subject-kind": "project"}
AMOUNT = "a quantity such as 4 or 1500m is allowed, or none"
SIZE = "a quantity such as 16Gi or 16G is allowed, or none"
ID = "is no id of a project: that has 1 to 63 lower case letters, digits, dashes and dots, as in abc-1"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> ProjectCluster:
    monkeypatch.setattr(project_setting, "PAUSE", Backoff(first=0.0001, cap=0.0001))
    made = answering(ProjectCluster(), monkeypatch)
    made.project("abc", "Shop")
    return made


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> ProjectCluster:
    return answering(busy_master(), monkeypatch)


def called(*arguments: str) -> Result:
    return project_cluster.called(app, *arguments)


def refused(*arguments: str) -> str:
    return project_cluster.refused(app, *arguments)


# --- set -------------------------------------------------------------------------------------------------------------


def test_the_first_limit_makes_the_quota(cluster: ProjectCluster) -> None:
    done = called("set", "project/abc", "--cpu", "50000m", "--memory", "100Gi")
    assert done.stdout.splitlines() == [
        "cpu of project abc is limited to 50 cores",
        "memory of project abc is limited to 100Gi",
        "storage of project abc is without a limit",
    ]
    assert done.stderr == ""
    made = cluster.stored("abc")
    assert made["metadata"]["labels"] == OWN
    assert made["spec"] == {"subject": {"name": "abc", "kind": "project"}, "quota": FIFTY}


@pytest.mark.parametrize(
    ("options", "after"),
    [
        pytest.param(["--cpu", "60"], {"cpu": "60", "memory": "100Gi"}, id="only what is named changes"),
        pytest.param(["--storage", "1Ti"], {**FIFTY, "storage": "1Ti"}, id="a limit is added"),
        pytest.param(["--cpu", "none"], {"memory": "100Gi"}, id="none takes one away"),
        pytest.param(["--cpu", "none", "--memory", "none"], {}, id="all may go, and the quota stays"),
        pytest.param(["--cpu", "0"], {"cpu": "0", "memory": "100Gi"}, id="0 is a limit"),
    ],
)
def test_a_quota_that_is_there_is_changed(cluster: ProjectCluster, options: list[str], after: dict[str, str]) -> None:
    cluster.quota("abc", FIFTY, escrow={})
    called("set", "project/abc", *options)
    assert cluster.stored("abc")["spec"]["quota"] == after
    assert cluster.stored("abc")["metadata"]["annotations"], "what others wrote on it stays"


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(["--cpu", "50000m"], id="the same amount in other words"),
        pytest.param(["--storage", "none"], id="no limit where there is none"),
    ],
)
def test_what_is_so_already_is_not_written(cluster: ProjectCluster, options: list[str]) -> None:
    cluster.quota("abc", FIFTY)
    assert "cpu of project abc is limited to 50 cores" in called("set", "project/abc", *options).stdout
    assert cluster.patches == []


def test_a_value_that_cannot_be_read_is_taken_away_too(cluster: ProjectCluster) -> None:
    cluster.quota("abc", {"cpu": "many"})
    called("set", "project/abc", "--cpu", "none")
    assert cluster.stored("abc")["spec"]["quota"] == {}


def test_no_limit_needs_no_quota(cluster: ProjectCluster) -> None:
    assert called("set", "project/abc", "--cpu", "none").stdout.splitlines()[0] == "cpu of project abc is without a limit"
    assert (PROJECT_QUOTAS.name, "", "project-abc") not in cluster.objects


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        pytest.param(MARKS, True, id="a default one"),
        pytest.param({"default": "true"}, False, id="one that had half of the marks was its own already"),
    ],
)
def test_a_quota_that_somebody_sets_is_no_default_any_more(cluster: ProjectCluster, labels: Any, says: bool) -> None:
    cluster.quota("abc", FIFTY, labels={**labels, "team": "a"})
    told = called("set", "project/abc", "--cpu", "50").stdout
    assert cluster.stored("abc")["metadata"]["labels"] == {**OWN, "team": "a"}
    sentence = (
        "the quota of project abc was the default one, and is its own: it does not follow KubermaticSetting globalsettings"
        " any more"
    )
    assert (sentence in told) is says


def test_a_dry_run_says_what_would_be_and_changes_nothing(cluster: ProjectCluster) -> None:
    cluster.quota("abc", {"cpu": "1"}, labels=MARKS)
    told = called("set", "project/abc", "--cpu", "5", "--dry-run").stdout
    assert "cpu of project abc would be limited to 5 cores" in told
    assert "is the default one, and would be its own: it would not follow" in told
    assert [dry for _, dry in cluster.patches] == [True]
    assert cluster.stored("abc")["spec"]["quota"] == {"cpu": "1"}


def test_a_dry_run_makes_nothing(cluster: ProjectCluster) -> None:
    assert "would be limited to 5 cores" in called("set", "project/abc", "--cpu", "5", "--dry-run").stdout
    assert ("dry create", PROJECT_QUOTAS.name, "project-abc") in cluster.asked


def test_a_quota_of_another_name_is_the_one_of_its_subject(cluster: ProjectCluster) -> None:
    cluster.quota("abc", FIFTY, name="made-by-hand")
    called("set", "project/abc", "--cpu", "7")
    assert cluster.objects[PROJECT_QUOTAS.name, "", "made-by-hand"]["spec"]["quota"]["cpu"] == "7"


def test_where_there_is_no_such_project_that_is_said(cluster: ProjectCluster) -> None:
    done = called("set", "project/nobody", "--cpu", "1")
    assert cluster.stored("nobody")["spec"]["quota"] == {"cpu": "1"}
    assert done.stderr == (
        "ullage: there is no project nobody here: its quota holds when there is. Quotas are set on the master cluster. "
        "Next: kubectl get projects\n"
    )


def test_who_may_not_read_projects_is_told_nothing_of_them(cluster: ProjectCluster) -> None:
    cluster.hidden.add(PROJECTS.name)
    assert called("set", "project/nobody", "--cpu", "1").stderr == ""


def test_who_is_overtaken_tries_again(cluster: ProjectCluster) -> None:
    cluster.quota("abc", FIFTY)
    cluster.conflicts = 3
    called("set", "project/abc", "--cpu", "7")
    assert cluster.stored("abc")["spec"]["quota"]["cpu"] == "7"
    cluster.conflicts = 99
    assert refused("set", "project/abc", "--cpu", "8") == (
        "the quota of project abc is changed by others all the time: 8 tries were in vain"
    )


def test_a_quota_that_goes_meanwhile_is_made_anew(cluster: ProjectCluster) -> None:
    cluster.quota("abc", FIFTY)

    def delete() -> None:
        if any(verb == "patch" for verb, *_ in cluster.asked) or not cluster.asked:
            return
        cluster.objects.pop((PROJECT_QUOTAS.name, "", "project-abc"), None)

    cluster.before = delete  # before the patch
    called("set", "project/abc", "--cpu", "7")
    assert cluster.stored("abc")["spec"]["quota"] == {"cpu": "7"}


def test_a_quota_that_is_being_deleted_is_not_set(cluster: ProjectCluster) -> None:
    cluster.quota("abc", FIFTY, meta={"deletionTimestamp": "2026-05-01T11:00:00Z", "finalizers": [FINALIZER]})
    assert refused("set", "project/abc", "--cpu", "7").startswith(
        f"{PROJECT_QUOTAS.name} project-abc is being deleted: it goes when no seed has a copy of it; set it again then."
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["project/abc", "--cpu", "four"], f"--cpu four: not a quantity; {AMOUNT}", id="a word"),
        pytest.param(["project/abc", "--cpu", ""], f"--cpu (empty): not a quantity; {AMOUNT}", id="nothing"),
        pytest.param(["project/abc", "--memory", "-1"], f"--memory -1: negative; {SIZE}", id="less than nothing"),
        pytest.param(["project/abc", "--memory", "1e30"], f"--memory 1e30: more than {2**63 - 1}; {SIZE}", id="too much"),
        pytest.param(
            ["project/abc", "--cpu", "9" * 999],
            f"--cpu {'9' * 64}…: more than {2**63 - 1}; {AMOUNT}",
            id="more digits than there are",
        ),
        pytest.param(
            ["project/abc"],
            "TARGET project/abc: nothing was said to limit; --cpu, --memory or --storage is needed",
            id="nothing to set",
        ),
        pytest.param(["project/ABC", "--cpu", "1"], f"TARGET project/ABC: 'ABC' {ID}", id="capitals"),
        pytest.param(["project/", "--cpu", "1"], f"TARGET project/: '' {ID}", id="no id"),
        pytest.param(["project/a/b", "--cpu", "1"], f"TARGET project/a/b: 'a/b' {ID}", id="a path"),
        pytest.param(
            ["project", "--cpu", "1"],
            "TARGET project: ns/NAME or vm/NAMESPACE/NAME is allowed, or project/ID",
            id="no slash",
        ),
        pytest.param(
            ["project/abc", "--snapshots", "1Gi"],
            "--snapshots 1Gi: not of a project: --cpu, --memory and --storage are allowed",
            id="snapshots of a project",
        ),
        pytest.param(
            ["project/abc", "--cpu", "1", "--maintenance-cpu", "5"],
            "--maintenance-cpu 5: not of a project: --cpu, --memory and --storage are allowed",
            id="maintenance of a project",
        ),
        pytest.param(
            ["ns/shop", "--storage", "1Gi"],
            "--storage 1Gi: only of a project: project/ID is allowed, or --snapshots instead",
            id="disks of a namespace",
        ),
    ],
)
def test_what_cannot_be_set_names_the_option(cluster: ProjectCluster, arguments: list[str], said: str) -> None:
    assert refused("set", *arguments) == said
    assert cluster.asked == []


@pytest.mark.parametrize("verb", [["set", "--cpu", "1"], ["get"], ["delete"]], ids=["set", "get", "delete"])
def test_where_the_kind_is_not_served_that_is_said(monkeypatch: pytest.MonkeyPatch, verb: list[str]) -> None:
    answering(ProjectCluster(PROJECT_QUOTAS), monkeypatch)
    assert refused(verb[0], "project/abc", *verb[1:]) == (
        f"this cluster does not serve {PROJECT_QUOTAS.name}: it is neither a master nor a seed that has project quotas"
    )


# --- get -------------------------------------------------------------------------------------------------------------


def test_a_quota_is_shown_whole(busy: ProjectCluster) -> None:
    busy.stored("abc")["metadata"]["annotations"][MAX_CLUSTERS] = "5"
    done = called("get", "project/abc")
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "Project:   abc (Shop)",
        "Quota:     project-abc, its own",
        "Clusters:  5 at most",
        "",
        "RESOURCE   LIMIT      USED       FREE",
        "cpu        50 cores   32 cores   18 cores",
        "memory     none       20Gi       -",
        "storage    1Ti        200Gi      824Gi",
        "",
        "SEED   CPU     MEMORY           STORAGE           STALE",
        "eu     20/30   10Gi/unlimited   100Gi/500Gi       3h",
        "us     12/20   10Gi/unlimited   100Gi/unlimited   -",
        "seed eu: cpu is to be 25 cores, and counts as 30 cores until the seed is known to keep to it",
        "seed us: storage is to be 524Gi, and counts as unlimited until the seed is known to keep to it",
        "",
        "CONDITION     STATUS   SINCE   REASON        MESSAGE",
        "WithinQuota   True     60m     WithinQuota   project abc uses no more than it may",
    ]


def test_for_programs_there_are_quantities(busy: ProjectCluster) -> None:
    told = json.loads(called("get", "project/abc", "-o", "json").stdout)
    assert told["limits"] == {"cpu": "50", "storage": "1Ti"}
    assert told["used"] == {"cpu": "32", "memory": "20Gi", "storage": "200Gi"}
    assert told["default"] is False
    assert told["seeds"][0] == {
        "name": "eu",
        "used": {"cpu": "20", "memory": "10Gi", "storage": "100Gi"},
        "staleSince": "2026-05-01T09:00:00Z",
        "granted": {"cpu": "30", "storage": "500Gi"},
        "limits": {"cpu": "25", "storage": "500Gi"},
    }
    assert [one["type"] for one in told["conditions"]] == ["WithinQuota"]


def test_on_a_seed_what_is_used_there_stands_beside(cluster: ProjectCluster) -> None:
    cluster.quota("abc", {"cpu": "5"}, labels=MARKS, globalUsage={"cpu": "7"}, localUsage={"cpu": "3", "memory": "1Gi"})
    done = called("get", "project/abc")
    assert done.stderr == ""
    assert done.stdout.splitlines()[1:] == [
        "Quota:     project-abc, the default of KubermaticSetting globalsettings",
        "",
        "RESOURCE   LIMIT     USED      FREE           USED HERE",
        "cpu        5 cores   7 cores   2 cores over   3 cores",
        "memory     none      0         -              1Gi",
        "storage    none      0         -              0",
    ]


def test_before_anybody_has_counted_nothing_is_said_to_be_used(cluster: ProjectCluster) -> None:
    cluster.quota("abc", {"cpu": "5"})
    done = called("get", "project/abc")
    assert "cpu        5 cores   unknown   -" in done.stdout.splitlines()
    assert done.stderr == (
        "ullage: nobody has written down what each seed may have of the quota of project abc: `ullage controller --role master`"
        " does, and it stands on the master\n"
    )
    assert "used" not in json.loads(called("get", "project/abc", "-o", "json").stdout)


@pytest.mark.parametrize(
    ("escrow", "why"),
    [
        pytest.param('{"eu":', ": it is not JSON", id="cut off"),
        pytest.param(
            {"eu": {"change": -1}}, ".eu.change -1: a whole number of 0 or more is allowed", id="a number that cannot be"
        ),
    ],
)
def test_a_record_that_cannot_be_read_is_named_and_the_rest_is_shown(cluster: ProjectCluster, escrow: Any, why: str) -> None:
    cluster.quota("abc", {"cpu": "5"}, escrow=escrow)
    done = called("get", "project/abc")
    assert done.stderr.startswith("ullage: what the seeds may have cannot be read: metadata.annotations[ullage.io/escrow]")
    assert why in done.stderr
    assert done.stderr.count("\n") == 1
    assert "cpu        5 cores   unknown   -" in done.stdout


def test_a_project_without_a_quota_is_not_limited(cluster: ProjectCluster) -> None:
    done = called("get", "project/abc")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == "ullage: project abc has no quota: its machines are not limited\n"
    assert json.loads(called("get", "project/abc", "-o", "json").stdout) == {"project": "abc", "limits": {}}


def test_a_project_that_is_not_there_is_an_error(cluster: ProjectCluster) -> None:
    assert refused("get", "project/nobody") == "there is no project nobody, and no quota of it. Next: kubectl get projects"


def test_several_are_a_table(busy: ProjectCluster) -> None:
    assert called("get", "project/abc", "project/free").stdout.splitlines() == [
        "PROJECT   CPU     MEMORY           STORAGE     WITHIN",
        "abc       32/50   20Gi/unlimited   200Gi/1Ti   True",
        "free      -       -                -           -",
    ]
    assert called("get", "project/abc", "project/free", "-o", "name").stdout == "project/abc\nproject/free\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(
            ["project/abc", "ns/shop"],
            "TARGET ns/shop: projects are shown by themselves: project/ID is allowed beside another project",
            id="a namespace beside a project",
        ),
        pytest.param(
            ["project/abc", "-A"],
            "TARGET project/abc: not allowed with -n or -A: a project is in no namespace",
            id="a project in all namespaces",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(cluster: ProjectCluster, arguments: list[str], said: str) -> None:
    assert refused("get", *arguments) == said


# --- delete ----------------------------------------------------------------------------------------------------------


def test_a_quota_is_deleted(cluster: ProjectCluster) -> None:
    cluster.quota("abc", FIFTY)
    assert called("delete", "project/abc", "--dry-run").stdout == "the quota of project abc would be removed\n"
    assert called("delete", "project/abc").stdout == "the quota of project abc is removed\n"
    assert called("delete", "project/abc").stdout == "project abc has no quota: nothing to remove\n"


def test_one_that_seeds_have_copies_of_goes_later(cluster: ProjectCluster) -> None:
    cluster.quota("abc", FIFTY, meta={"finalizers": [FINALIZER]})
    assert called("delete", "project/abc").stdout == (
        "the quota of project abc is being removed: it goes when no seed has a copy of it any more\n"
    )


WAITS = (
    f"out of reach: eu since {project_cluster.STALE}; it waits until each is back. Where a seed does not come back, delete its"
    " Seed object or run `ullage projects drain-seed NAME`"
)


def test_one_that_waits_for_a_seed_out_of_reach_says_since_when_and_what_to_do(busy: ProjectCluster) -> None:
    busy.stored("abc")["metadata"]["deletionTimestamp"] = "2026-05-01T11:00:00Z"
    shown = called("get", "project/abc").stdout.splitlines()[1]
    assert shown == f"Quota:     project-abc, its own, being deleted: it goes when no seed has a copy; {WAITS}"
    assert called("delete", "project/abc").stdout.splitlines()[1] == WAITS


def test_where_a_default_takes_its_place_that_is_said(cluster: ProjectCluster) -> None:
    cluster.quota("abc", FIFTY)
    cluster.default({"cpu": "10", "memory": "1Gi"})
    assert called("delete", "project/abc").stdout.splitlines()[1] == (
        "then the default of KubermaticSetting globalsettings takes its place: cpu 10 cores, memory 1Gi"
    )


@pytest.mark.parametrize("absent", [True, False], ids=["not served", "not to be read"])
def test_without_the_setting_a_quota_is_deleted_all_the_same(monkeypatch: pytest.MonkeyPatch, absent: bool) -> None:
    cluster = answering(ProjectCluster(*([SETTINGS] if absent else [])), monkeypatch)
    cluster.hidden |= set() if absent else {SETTINGS.name}
    cluster.quota("abc", FIFTY)
    assert called("delete", "project/abc").stdout == "the quota of project abc is removed\n"


async def test_one_that_went_meanwhile_is_no_error(cluster: ProjectCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.quota("abc", FIFTY)

    async def delete(*_: Any, **given: Any) -> None:
        raise gone(PROJECT_QUOTAS, "project-abc")

    monkeypatch.setattr(cluster, "delete", delete)
    found = await project_setting.delete_quota(cluster.session().client, "abc", dry_run=False)
    assert found.quota is None


# --- completion ------------------------------------------------------------------------------------------------------


def test_the_shell_is_offered_projects_too(busy: ProjectCluster) -> None:
    assert names(SimpleNamespace(params={}), "proj") == ["project/abc", "project/free"]


def test_patches_are_about_what_was_named_alone() -> None:
    made = project_setting.new_quota("abc", {"cpu": "5", "memory": None})
    assert project_setting.patch_for(made, {"cpu": "6", "memory": None}) == {"spec": {"quota": {"cpu": "6"}}}
    assert project_setting.patch_for(made, {"cpu": "5"}) is None
