"""`ullage usage --group-by project|seed|cluster`."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import Result

from tests.unit.cli import project_cluster
from tests.unit.cli.project_cluster import STALE, ProjectCluster, answering, busy_master
from ullage.cli.usage.command import usage
from ullage.projects.api.kkp import CLUSTERS, PROJECTS, SEEDS
from ullage.projects.api.quotas import PROJECT_QUOTAS
from ullage.projects.api.records import MACHINE_RECORDS

app = typer.Typer()
app.command()(usage)
ASK = "ask there, with --context or --kubeconfig"


@pytest.fixture
def master(monkeypatch: pytest.MonkeyPatch) -> ProjectCluster:
    return answering(busy_master(), monkeypatch)


@pytest.fixture
def seed(monkeypatch: pytest.MonkeyPatch) -> ProjectCluster:
    """One cluster is counted and one not; one is run by others; one belongs to a project without a quota, and one to nobody."""
    made = answering(ProjectCluster(), monkeypatch)
    made.quota("abc", {"cpu": "50"}, globalUsage={"cpu": "32"}, localUsage={"cpu": "20"})
    made.user_cluster("one", "abc", {"cpu": "3", "memory": "5Gi"}, humanReadableName="First", cloud={"providerName": "aws"})
    made.user_cluster("two", "abc", None)
    made.user_cluster("theirs", "abc", {"cpu": "9"}, cloud={"providerName": "eks"})
    made.user_cluster("other", "free", {"cpu": "4"})
    made.user_cluster("nobodys", "", {"cpu": "4"})
    return made


def called(*arguments: str) -> Result:
    return project_cluster.called(app, *arguments)


def refused(*arguments: str) -> str:
    return project_cluster.refused(app, *arguments)


# --- projects --------------------------------------------------------------------------------------------------------


def test_projects_show_what_is_used_of_what_is_allowed_and_since_when_that_is_old(master: ProjectCluster) -> None:
    master.quota("beta", {"cpu": "1"})
    done = called("--group-by", "project")
    assert done.stdout.splitlines() == [
        "PROJECT   CPU         MEMORY              STORAGE             STALE",
        "abc       32/50       20Gi/unlimited      200Gi/1Ti           3h",
        "beta      unknown/1   unknown/unlimited   unknown/unlimited   -",
    ]
    assert done.stderr == (
        "ullage: 1 project has no quota, and is left out: what clusters use is shown on each seed by --group-by cluster\n"
    )


def test_a_wide_table_names_the_seeds_that_are_out_of_reach(master: ProjectCluster) -> None:
    assert called("--group-by", "project", "-o", "wide").stdout.splitlines() == [
        "PROJECT   CPU     MEMORY           STORAGE     STALE   WITHIN   STALE SEEDS",
        "abc       32/50   20Gi/unlimited   200Gi/1Ti   3h      True     eu",
    ]


def test_of_several_seeds_the_one_that_is_away_longest_counts(master: ProjectCluster) -> None:
    master.stored("abc")["status"]["seeds"][1]["staleSince"] = "2026-04-29T12:00:00Z"
    assert called("--group-by", "project", "-o", "wide").stdout.splitlines()[1].endswith("2d      True     eu, us")


def test_one_project_is_enough_to_say_what_is_meant(master: ProjectCluster) -> None:
    done = called("project/abc")
    assert done.stdout.splitlines()[1:] == ["abc       32/50   20Gi/unlimited   200Gi/1Ti   3h"]
    assert done.stderr == ""


def test_for_programs_there_are_quantities(master: ProjectCluster) -> None:
    [told] = json.loads(called("--group-by", "project", "-o", "json").stdout)["items"]
    assert told == {
        "project": "abc",
        "used": {"cpu": "32", "memory": "20Gi", "storage": "200Gi"},
        "limits": {"cpu": "50", "storage": "1Ti"},
        "staleSince": STALE,
    }
    assert called("--group-by", "project", "-o", "name").stdout == "project/abc\n"


def test_a_project_without_a_quota_and_one_that_is_not_there_are_told_apart(master: ProjectCluster) -> None:
    done = called("project/free")
    assert (done.exit_code, done.stderr) == (0, "ullage: project free has no quota: its machines are not limited\n")
    assert refused("project/nobody") == "there is no project nobody here. Next: ullage projects list, on the master"


def test_of_two_quotas_of_a_project_the_one_with_the_record_holds(master: ProjectCluster) -> None:
    master.quota("abc", {"cpu": "1"}, name="another")
    assert called("--group-by", "project", "-o", "name").stdout == "project/abc\n"
    assert called("project/abc").stdout.splitlines()[1].startswith("abc       32/50 ")


def test_who_may_not_read_projects_sees_quotas(master: ProjectCluster) -> None:
    master.hidden.add(PROJECTS.name)
    done = called("--group-by", "project")
    assert done.stdout.splitlines()[1].startswith("abc ")
    assert done.stderr == ""


# --- seeds -----------------------------------------------------------------------------------------------------------


def test_seeds_show_what_they_use_of_what_they_may_have(master: ProjectCluster) -> None:
    assert called("--group-by", "seed").stdout.splitlines() == [
        "PROJECT   SEED   CPU     MEMORY           STORAGE           STALE",
        "abc       eu     20/30   10Gi/unlimited   100Gi/500Gi       3h",
        "abc       us     12/20   10Gi/unlimited   100Gi/unlimited   -",
    ]
    told = json.loads(called("--group-by", "seed", "-o", "json").stdout)["items"]
    assert told[0]["granted"] == {"cpu": "30", "storage": "500Gi"}
    assert called("--group-by", "seed", "-o", "name").stdout == "seed/eu/abc\nseed/us/abc\n"


def test_without_a_record_the_usage_of_seeds_is_shown_all_the_same(master: ProjectCluster) -> None:
    master.stored("abc")["metadata"]["annotations"] = {"ullage.io/escrow": "[]"}
    done = called("--group-by", "seed")
    assert done.stdout.splitlines()[1:] == [
        "abc       eu     20/-   10Gi/-   100Gi/-   3h",
        "abc       us     12/-   10Gi/-   100Gi/-   -",
    ]
    assert done.stderr.startswith("ullage: what the seeds may have of project-abc cannot be read: ")


def test_a_seed_that_was_granted_something_and_says_nothing_is_shown(master: ProjectCluster) -> None:
    del master.stored("abc")["status"]["seeds"][0]
    assert called("--group-by", "seed").stdout.splitlines()[1].split()[:3] == ["abc", "eu", "unknown/30"]


def test_a_seed_does_not_know_the_others_and_says_who_does(seed: ProjectCluster) -> None:
    assert (
        refused("--group-by", "seed")
        == f"--group-by seed: what each seed uses is known on the master, and not on a seed: {ASK}"
    )


@pytest.mark.parametrize("hidden", [True, False], ids=["Seeds may not be read", "Seeds are registered"])
def test_on_a_master_where_no_seed_has_said_anything_that_is_said(monkeypatch: pytest.MonkeyPatch, hidden: bool) -> None:
    master = answering(ProjectCluster(), monkeypatch)
    master.quota("abc", {"cpu": "5"})
    if hidden:
        master.hidden.add(SEEDS.name)
    else:
        master.seed("eu")
    assert called("--group-by", "seed").stderr == "ullage: no seed has said what it uses of a quota\n"


# --- clusters --------------------------------------------------------------------------------------------------------


def test_clusters_stand_beside_the_quota_of_their_project(seed: ProjectCluster) -> None:
    assert called("--group-by", "cluster").stdout.splitlines() == [
        "PROJECT   CLUSTER   CPU           MEMORY              STORAGE             STALE",
        "abc       one       3/50          5Gi/unlimited       0/unlimited         -",
        "abc       two       unknown/50    unknown/unlimited   unknown/unlimited   -",
        "free      other     4/unlimited   0/unlimited         0/unlimited         -",
    ]


def stale_record(seed: ProjectCluster, name: str, *, uid: str = "") -> None:
    """That the figures of a cluster are of before is in its record."""
    fresh = {"type": "UsageFresh", "status": "False", "reason": "MachinesNotRead", "lastTransitionTime": STALE}
    cluster = seed.objects[CLUSTERS.name, "", name]
    meta = {"name": name, "annotations": {"ullage.io/cluster-uid": uid or cluster["metadata"]["uid"]}}
    seed.put(MACHINE_RECORDS, {"metadata": meta, "status": {"conditions": [fresh]}})


def test_clusters_whose_figures_are_not_of_now_say_for_how_long(seed: ProjectCluster) -> None:
    stale_record(seed, "one")
    stale_record(seed, "other", uid="of an earlier one")
    assert [line.split()[-1] for line in called("--group-by", "cluster").stdout.splitlines()] == ["STALE", "3h", "-", "-"]
    shown = json.loads(called("--group-by", "cluster", "project/abc", "-o", "json").stdout)
    assert [one.get("staleSince") for one in shown["items"]] == [STALE, None]
    seed.hidden.add(MACHINE_RECORDS.name)
    assert [line.split()[-1] for line in called("--group-by", "cluster").stdout.splitlines()] == ["STALE", "-", "-", "-"]


def test_a_project_with_a_cluster_whose_figures_are_not_of_now_is_stale_and_so_is_its_seed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    master = answering(ProjectCluster(), monkeypatch)
    seeds = [{"name": "eu", "usage": {"cpu": "2"}, "incompleteSince": STALE}, {"name": "us", "usage": {"cpu": "1"}}]
    master.quota("abc", {"cpu": "5"}, globalUsage={"cpu": "3"}, seeds=seeds)
    assert called("--group-by", "project").stdout.splitlines()[1].split()[-1] == "3h"
    assert [line.split()[-1] for line in called("--group-by", "seed").stdout.splitlines()[1:]] == ["3h", "-"]


def test_clusters_of_one_project(seed: ProjectCluster) -> None:
    assert called("--group-by", "cluster", "project/abc", "-o", "wide").stdout.splitlines() == [
        "PROJECT   CLUSTER   CPU          MEMORY              STORAGE             STALE   NAME    PROVIDER   PHASE",
        "abc       one       3/50         5Gi/unlimited       0/unlimited         -       First   aws        -",
        "abc       two       unknown/50   unknown/unlimited   unknown/unlimited   -       -       -          -",
    ]
    assert called("--group-by", "cluster", "project/free", "-o", "name").stdout == "cluster/other/free\n"
    assert called("--group-by", "cluster", "project/x").stderr == "ullage: no cluster here belongs to project x\n"


def test_the_master_does_not_know_clusters_and_says_who_does(master: ProjectCluster) -> None:
    assert refused("--group-by", "cluster") == (
        f"--group-by cluster: clusters are known on the seed that runs them, and not on the master: {ASK}"
    )


def test_a_master_that_is_a_seed_shows_its_clusters(master: ProjectCluster) -> None:
    master.user_cluster("one", "abc", {"cpu": "3"})
    assert called("--group-by", "cluster", "-o", "name").stdout == "cluster/one/abc\n"


def test_an_empty_seed_has_no_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(ProjectCluster(), monkeypatch)
    assert called("--group-by", "cluster").stderr == "ullage: no cluster here belongs to a project\n"


# --- what cannot be --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(
            ["--group-by", "region"],
            "--group-by region: namespace, vm, volume, project, seed or cluster is allowed",
            id="a word",
        ),
        pytest.param(
            ["--group-by", ""], "--group-by (empty): namespace, vm, volume, project, seed or cluster is allowed", id="none"
        ),
        pytest.param(
            ["--group-by", "seed", "-n", "shop"],
            "--namespace shop: not allowed with --group-by seed: projects are in no namespace",
            id="a namespace",
        ),
        pytest.param(
            ["--group-by", "vm", "project/abc"],
            "project/ID project/abc: not allowed with --group-by vm: project, seed or cluster is",
            id="VMs of a project",
        ),
        pytest.param(["abc"], "project/ID abc: project/ID is allowed", id="only the id"),
    ],
)
def test_what_cannot_be_asked_names_the_option(master: ProjectCluster, arguments: list[str], said: str) -> None:
    assert refused(*arguments) == said
    assert master.asked == []


@pytest.mark.parametrize(("kind", "group"), [(PROJECT_QUOTAS, "project"), (CLUSTERS, "cluster")], ids=["quotas", "clusters"])
def test_where_a_kind_is_not_served_that_is_said(monkeypatch: pytest.MonkeyPatch, kind: object, group: str) -> None:
    answering(ProjectCluster(kind), monkeypatch)  # type: ignore[arg-type] # of two types
    assert refused("--group-by", group).startswith(f"this cluster does not serve {kind.name}: ")  # type: ignore[attr-defined]
