"""`ullage usage` with `-l` and `-w`."""

from __future__ import annotations

import json
from typing import Any

import pytest
import typer
from typer.testing import Result

from tests.unit.cli import project_cluster
from tests.unit.cli.project_cluster import ProjectCluster, answering, busy_master
from tests.unit.cli.snapshot.cluster import GA, PROTOTYPE
from tests.unit.cli.space_cluster import GIB, SpaceCluster
from tests.unit.cli.watching import Watcher
from ullage.cli.common.session import NotInstalled
from ullage.cli.usage.command import usage
from ullage.engines.api import ENGINE_SNAPSHOTS
from ullage.headroom.shares import MAINTENANCE_QUOTA, RESOURCE_QUOTA
from ullage.kube.builtin.core import NAMESPACES
from ullage.kube.errors import Unavailable
from ullage.kube.kinds import Kind
from ullage.ledger.api import LEDGERS
from ullage.policies.counts.api import SNAPSHOT_LIMITS
from ullage.projects.api.kkp import CLUSTERS
from ullage.projects.api.quotas import PROJECT_QUOTAS
from ullage.projects.api.records import MACHINE_RECORDS
from ullage.space.api import HARVESTER_QUOTAS
from ullage.vms.api.backups import VM_BACKUPS
from ullage.vms.api.machines import INSTANCES, VIRTUAL_MACHINES
from ullage.vms.api.migrations import MIGRATIONS

NS = "snapshots/namespace"
SHARES = {
    RESOURCE_QUOTA: '{"limit":{"limitsCpu":"4"}}',
    MAINTENANCE_QUOTA: '{"limit":{"limitsCpuPercent":25}}',
}
app = typer.Typer()
app.command()(usage)


def namespace(cluster: SpaceCluster, name: str, **labels: str) -> dict[str, Any]:
    return cluster.put(NAMESPACES, {"metadata": {"name": name, "labels": labels}})


def using(cluster: SpaceCluster, name: str, count: int, **vms: int) -> None:
    used = {NS: count, **{f"snapshots/vm/{vm}": size for vm, size in vms.items()}}
    cluster.ledger(name, used=used, limits={NS: 10}, reserved={})


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> SpaceCluster:
    made = SpaceCluster()
    for name, team, count in (("shop", "a", 2), ("lab", "b", 1), ("empty", "c", 0)):
        namespace(made, name, team=team)
        if count:
            using(made, name, count, db=count)
    answering(made, monkeypatch)  # type: ignore[arg-type] # a cluster of another sort answers as well
    return made


@pytest.fixture
def watcher(cluster: SpaceCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Watcher:
    return Watcher(cluster, monkeypatch, capsys)


def called(*arguments: str) -> Result:
    return project_cluster.called(app, *arguments)


def names(*arguments: str) -> list[str]:
    return called(*arguments, "-o", "name").stdout.split()


# --- -l of namespaces ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("everywhere", [[], ["-A"]], ids=["without -A", "with -A"])
def test_labels_choose_among_all_namespaces(cluster: SpaceCluster, everywhere: list[str]) -> None:
    assert names("-l", "team=b", *everywhere) == ["ns/lab"]
    assert names("-l", "team in (a, b)", *everywhere) == ["ns/lab", "ns/shop"]
    assert names("-l", "team!=b", "--group-by", "vm", *everywhere) == ["vm/shop/db"]


def test_labels_choose_whose_volumes_are_shown(cluster: SpaceCluster) -> None:
    cluster.taking("a", "disk", 3)
    cluster.taking("b", "disk", 4, namespace="lab")
    cluster.taking("c", "disk", None, namespace="lab", annotations={"ullage.io/takes": "nonsense"})
    done = called("-l", "team=a", "--group-by", "volume", "-o", "name")
    assert (done.stdout, done.stderr) == ("pvc/shop/disk\n", ""), "what is wrong elsewhere is not told of"
    assert "left out are snapshots" in called("-l", "team=b", "--group-by", "volume").stderr


def test_a_ledger_that_cannot_be_read_is_told_of_where_it_was_asked_for(cluster: SpaceCluster) -> None:
    cluster.objects[LEDGERS.name, "ullage-system", "ns-lab"]["status"]["sums"] = "nonsense"
    assert called("-l", "team=a").stderr == ""
    assert called("-l", "team=b").stderr.startswith("ullage: ledger ns-lab cannot be read: ")


def test_who_may_not_read_ledgers_is_told_of_the_chosen_namespaces_too(cluster: SpaceCluster) -> None:
    cluster.hidden.add(LEDGERS.name)
    cluster.quota(limit=10)
    cluster.quota(namespace="lab", limit=10)
    assert names("-l", "team=a") == ["ns/shop"]


def test_no_namespace_with_the_labels_and_none_that_takes_anything_are_told_apart(cluster: SpaceCluster) -> None:
    assert called("-l", "team=z").stderr == "ullage: no namespace has the labels team=z\n"
    assert called("-l", "team=c").stderr == (
        "ullage: of namespaces with the labels team=c: no snapshot takes anything, and nothing is limited\n"
    )


def test_who_may_not_list_namespaces_is_told_what_to_do(cluster: SpaceCluster) -> None:
    cluster.hidden.add(NAMESPACES.name)
    assert project_cluster.refused(app, "-l", "team=a") == (
        "--selector team=a: chooses namespaces by their labels, and you may not list them: name one with -n"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(
            ["-l", "team=a", "-n", "shop"],
            "--namespace shop: not allowed with -l, which chooses among all namespaces",
            id="a namespace",
        ),
        pytest.param(
            ["project/abc", "-l", "team=a"],
            "project/ID project/abc with -l: only one of them is allowed with --group-by project",
            id="a project",
        ),
        pytest.param(
            ["project/abc", "-l", "team=a", "--group-by", "seed"],
            "project/ID project/abc with -l: only one of them is allowed with --group-by seed",
            id="the seeds of a project",
        ),
        pytest.param(
            ["-l", "=", "--group-by", "cluster"],
            "--selector =: not a selector (found '=', expected: !, identifier, or 'end of string'); allowed is something like",
            id="no selector",
        ),
    ],
)
def test_what_cannot_be_names_the_option_and_asks_nobody(cluster: SpaceCluster, arguments: list[str], said: str) -> None:
    assert project_cluster.refused(app, *arguments).startswith(said)
    assert cluster.asked == []


# --- -w of namespaces ------------------------------------------------------------------------------------------------


def test_the_table_comes_again_when_it_reads_otherwise(cluster: SpaceCluster, watcher: Watcher) -> None:
    told = watcher.called(app, "-A", "-w", steps=[lambda: using(cluster, "shop", 3), lambda: using(cluster, "new", 1)])
    assert told[0].splitlines() == [
        "NAMESPACE   USED   RESERVED   LIMIT   FREE   %",
        "lab         1Gi    0          10Gi    9Gi    10",
        "shop        2Gi    0          10Gi    8Gi    20",
    ]
    assert told[1].splitlines() == [
        "",
        "NAMESPACE   USED   RESERVED   LIMIT   FREE   %",
        "lab         1Gi    0          10Gi    9Gi    10",
        "shop        3Gi    0          10Gi    7Gi    30",
    ]
    assert [line.split()[0] for line in told[2].splitlines()[2:]] == ["lab", "new", "shop"]
    assert watcher.server.followed == [(LEDGERS.name, "ullage-system", "")]


def test_where_there_is_nothing_that_is_said_once_until_something_comes(cluster: SpaceCluster, watcher: Watcher) -> None:
    nothing = "ullage: no snapshot takes anything, and nothing is limited\n"
    told = watcher.called(
        app,
        "-n",
        "empty",
        "-w",
        steps=[
            lambda: using(cluster, "empty", 1),
            lambda: cluster.objects.pop((LEDGERS.name, "ullage-system", "ns-empty")),
        ],
    )
    assert (told[0], watcher.errors[0]) == ("", nothing)
    assert told[1].startswith("NAMESPACE "), "no empty line comes first"
    assert (told[2], watcher.errors[2]) == ("", nothing)


def test_of_one_namespace_its_vms_and_annotations_are_followed_too(cluster: SpaceCluster, watcher: Watcher) -> None:
    told = watcher.called(
        app,
        "-w",
        steps=[
            lambda: namespace(cluster, "shop")["metadata"].update(annotations=SHARES),
            lambda: cluster.put(VIRTUAL_MACHINES, {"metadata": {"name": "db"}, "spec": {"runStrategy": "Halted"}}),
        ],
    )
    assert "SHARE" not in told[0]
    assert [line.split()[:5] for line in told[1].splitlines() if "VMs" in line] == [["shop", "VMs,", "pods", "cpu", "0"]]
    assert told[1].endswith("no VM runs\n")
    assert told[2].endswith("no VM runs, and 1 stopped\n")
    assert sorted(watcher.server.followed) == sorted(
        [
            (LEDGERS.name, "ullage-system", "metadata.name=ns-shop"),
            (NAMESPACES.name, "", "metadata.name=shop"),
            (VIRTUAL_MACHINES.name, "shop", ""),
            (INSTANCES.name, "shop", ""),
            (MIGRATIONS.name, "shop", ""),
            (GA.snapshots.name, "shop", ""),
            (PROTOTYPE.snapshots.name, "shop", ""),
        ]
    )


def test_where_nothing_is_limited_snapshots_are_followed(cluster: SpaceCluster, watcher: Watcher) -> None:
    cluster.taking("a", "disk", 1, namespace="empty")
    told = watcher.called(app, "-n", "empty", "-w", steps=[lambda: cluster.taking("b", "disk", 2, namespace="empty")])
    rows = [[line.split() for line in one.splitlines() if line.startswith("empty")] for one in told]
    assert [(space[1], count[4]) for space, count in rows] == [("1Gi", "1"), ("3Gi", "2")]


def test_a_namespace_that_gets_the_labels_comes(cluster: SpaceCluster, watcher: Watcher) -> None:
    told = watcher.called(app, "-l", "team=a", "--group-by", "vm", "-w", steps=[lambda: namespace(cluster, "lab", team="a")])
    assert [[line.split()[0] for line in one.splitlines() if "db" in line] for one in told] == [["shop"], ["lab", "shop"]]


def test_who_may_not_read_ledgers_follows_quotas(cluster: SpaceCluster, watcher: Watcher) -> None:
    cluster.hidden |= {LEDGERS.name, NAMESPACES.name, MIGRATIONS.name}
    cluster.quota(limit=10)
    told = watcher.called(app, "-w", steps=[lambda: cluster.quota(limit=11)])
    assert [one.splitlines()[-1].split()[3] for one in told] == ["10Gi", "11Gi"]
    assert watcher.errors[0].startswith("ullage: ledgers may not be read: ")
    assert watcher.errors[1] == "", "what was said is not said again"
    assert sorted(kind for kind, *_ in watcher.server.followed) == sorted(
        [
            HARVESTER_QUOTAS.name,
            SNAPSHOT_LIMITS.name,
            VIRTUAL_MACHINES.name,
            INSTANCES.name,
            GA.snapshots.name,
            PROTOTYPE.snapshots.name,
        ]
    )


def test_by_volume_snapshots_are_followed(cluster: SpaceCluster, watcher: Watcher) -> None:
    cluster.taking("a", "disk", 3)
    told = watcher.called(app, "--group-by", "volume", "-w", steps=[lambda: cluster.taking("b", "disk", 4)])
    assert [one.splitlines()[-1].split() for one in told] == [["shop", "disk", "1", "3Gi"], ["shop", "disk", "2", "7Gi"]]
    assert {VM_BACKUPS.name, ENGINE_SNAPSHOTS.name} < {kind for kind, *_ in watcher.server.followed}


def test_for_programs_each_row_comes_when_it_has_changed(cluster: SpaceCluster, watcher: Watcher) -> None:
    told = watcher.called(
        app,
        "-w",
        "-o",
        "json",
        steps=[
            lambda: using(cluster, "shop", 3),
            lambda: namespace(cluster, "shop")["metadata"].update(annotations=SHARES),
            lambda: (
                namespace(cluster, "shop"),
                cluster.objects.pop((LEDGERS.name, "ullage-system", "ns-shop")),
            ),
        ],
    )
    found = [json.loads(one) for one in told]
    assert [one["used"] // GIB for one in found] == [2, 3, 3, 3], "the last is one that is gone"
    assert ["compute" in one for one in found] == [False, False, True, True]


def test_of_many_rows_programs_get_the_one_that_changed(cluster: SpaceCluster, watcher: Watcher) -> None:
    told = watcher.called(app, "-A", "-w", "-o", "name", steps=[lambda: using(cluster, "shop", 3)])
    assert told == ["ns/lab\nns/shop\n", "ns/shop\n"]


def test_a_server_that_is_away_for_a_moment_does_not_end_it(cluster: SpaceCluster, watcher: Watcher) -> None:
    failures: list[int] = []

    def step() -> None:
        using(cluster, "shop", 3)
        cluster.before = fail

    def fail() -> None:
        failures.append(1)
        if len(failures) <= 3:
            raise Unavailable("nobody answers", reason="NoAnswer")

    told = watcher.called(app, "-A", "-w", steps=[step])
    assert told[1].splitlines()[-1].split()[:2] == ["shop", "3Gi"]
    assert len(failures) > 3


def test_where_nothing_can_be_followed_that_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    absent: tuple[Kind[Any], ...] = (
        *(
            LEDGERS,
            HARVESTER_QUOTAS,
            SNAPSHOT_LIMITS,
            VIRTUAL_MACHINES,
            INSTANCES,
            MIGRATIONS,
            GA.snapshots,
            PROTOTYPE.snapshots,
        ),
    )
    bare = SpaceCluster(*absent)
    bare.hidden.add(NAMESPACES.name)
    with pytest.raises(NotInstalled, match=r"^--watch: none of what this is read from is served here and may be read\."):
        Watcher(bare, monkeypatch, capsys).called(app, "-w", steps=[])


# --- projects --------------------------------------------------------------------------------------------------------


@pytest.fixture
def master(monkeypatch: pytest.MonkeyPatch) -> ProjectCluster:
    made = answering(busy_master(), monkeypatch)
    made.stored("abc")["metadata"]["labels"]["tier"] = "gold"
    made.quota("beta", {"cpu": "1"}, labels={"tier": "tin"})
    return made


@pytest.fixture
def seed(monkeypatch: pytest.MonkeyPatch) -> ProjectCluster:
    made = answering(ProjectCluster(), monkeypatch)
    made.quota("abc", {"cpu": "50"})
    made.user_cluster("one", "abc", {"cpu": "3"}, labels={"env": "prod"})
    made.user_cluster("two", "abc", {"cpu": "4"})
    made.user_cluster("other", "free", {"cpu": "5"}, labels={"env": "prod"})
    return made


def test_labels_of_quotas_choose_projects_and_seeds(master: ProjectCluster) -> None:
    done = called("--group-by", "project", "-l", "tier=tin", "-o", "name")
    assert (done.stdout, done.stderr) == ("project/beta\n", ""), "who has no quota was not asked for"
    assert names("--group-by", "seed", "-l", "tier=gold") == ["seed/eu/abc", "seed/us/abc"]


def test_labels_of_a_quota_that_is_not_in_force_choose_nothing(master: ProjectCluster) -> None:
    master.quota("abc", {"cpu": "1"}, name="another", labels={"tier": "tin"})
    assert names("--group-by", "project", "-l", "tier=tin") == ["project/beta"]


def test_labels_of_clusters_choose_clusters(seed: ProjectCluster) -> None:
    assert names("--group-by", "cluster", "-l", "env=prod") == ["cluster/one/abc", "cluster/other/free"]
    assert names("--group-by", "cluster", "-l", "env=prod", "project/abc") == ["cluster/one/abc"]


@pytest.mark.parametrize(
    ("group", "said"),
    [
        pytest.param(["project"], "no quota of a project has the labels a=b", id="projects"),
        pytest.param(["seed"], "no seed has said what it uses of a quota with the labels a=b", id="seeds"),
        pytest.param(["cluster"], "no cluster here that belongs to a project has the labels a=b", id="clusters"),
        pytest.param(
            ["cluster", "project/abc"],
            "no cluster here that belongs to project abc has the labels a=b",
            id="clusters of one project",
        ),
    ],
)
def test_where_nothing_has_the_labels_that_is_said(master: ProjectCluster, group: list[str], said: str) -> None:
    master.user_cluster("one", "abc", {"cpu": "3"})
    done = called("--group-by", *group, "-l", "a=b")
    assert (done.stdout, done.stderr) == ("", f"ullage: {said}\n")


def test_projects_come_again_when_a_quota_changes(
    master: ProjectCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    watcher = Watcher(master, monkeypatch, capsys)
    told = watcher.called(
        app,
        "--group-by",
        "project",
        "-w",
        steps=[lambda: master.stored("abc")["status"]["globalUsage"].update(cpu="40")],
    )
    assert [line.split()[:2] for line in told[1].splitlines()] == [
        [],
        ["PROJECT", "CPU"],
        ["abc", "40/50"],
        ["beta", "unknown/1"],
    ]
    assert watcher.errors[0].startswith("ullage: 1 project has no quota")
    assert watcher.errors[1] == ""


def test_of_one_project_its_quota_alone_is_followed(
    master: ProjectCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    watcher = Watcher(master, monkeypatch, capsys)
    told = watcher.called(
        app,
        "project/abc",
        "--group-by",
        "seed",
        "-w",
        "-o",
        "wide",
        steps=[lambda: master.stored("abc")["status"]["seeds"][1]["usage"].update(cpu="13")],
    )
    assert told[1].splitlines()[-1].split()[:3] == ["abc", "us", "13/20"]
    assert watcher.server.followed == [
        (PROJECT_QUOTAS.name, "", "metadata.name=project-abc"),
        (PROJECT_QUOTAS.name, "", "subject-name=abc"),
    ]


def test_clusters_come_again_when_one_changes(
    seed: ProjectCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    watcher = Watcher(seed, monkeypatch, capsys)
    told = watcher.called(
        app,
        "--group-by",
        "cluster",
        "-w",
        "-l",
        "env=prod",
        steps=[
            lambda: seed.user_cluster("one", "abc", {"cpu": "7"}, labels={"env": "prod"}),
            lambda: seed.stored("abc")["spec"]["quota"].update(cpu="51"),
        ],
    )
    assert [[line.split()[2] for line in one.splitlines() if " one " in line] for one in told] == [["3/50"], ["7/50"], ["7/51"]]
    assert {kind for kind, *_ in watcher.server.followed} == {PROJECT_QUOTAS.name, CLUSTERS.name, MACHINE_RECORDS.name}
