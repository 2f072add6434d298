"""`ullage quota list|get` with `-l` and `-w`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.cli import project_cluster
from tests.unit.cli.project_cluster import answering, busy_master
from tests.unit.cli.space_cluster import GIB, SpaceCluster
from tests.unit.cli.watching import Watcher
from ullage.cli.quota.command import app
from ullage.kube.errors import Forbidden, NotFound
from ullage.projects.api.quotas import PROJECT_QUOTAS
from ullage.space.api import HARVESTER_QUOTAS, NAME


def limited(cluster: SpaceCluster, namespace: str, *labels: str, limit: int | None = None, used: int = 0, **vms: int) -> None:
    usage = {"namespaceTotalSnapshotSizeUsage": used * GIB}
    cluster.quota(namespace=namespace, limit=limit, usage=usage, **vms)
    cluster.objects[HARVESTER_QUOTAS.name, namespace, NAME]["metadata"]["labels"] = dict(one.split("=") for one in labels)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> SpaceCluster:
    made = SpaceCluster()
    limited(made, "shop", "team=a", limit=10, used=2, db=3)
    limited(made, "lab", "team=b", limit=1)
    answering(made, monkeypatch)  # type: ignore[arg-type] # a cluster of another sort answers as well
    return made


def listed(*arguments: str) -> list[str]:
    return project_cluster.called(app, "list", *arguments).stdout.splitlines()


def refused(*arguments: str) -> str:
    return project_cluster.refused(app, *arguments)


# --- -l --------------------------------------------------------------------------------------------------------------


def test_labels_are_those_of_the_quota(cluster: SpaceCluster) -> None:
    assert listed("-A", "-o", "name") == ["ns/lab", "ns/shop", "vm/shop/db"]
    assert listed("-A", "-l", "team=a", "-o", "name") == ["ns/shop", "vm/shop/db"]
    assert listed("-A", "-l", "team!=a", "-o", "name") == ["ns/lab"]
    assert listed("-l", "team=b", "-o", "name") == [], "in the namespace of the context, as without labels"


def test_where_no_quota_has_the_labels_that_is_said_and_not_that_nothing_is_limited(cluster: SpaceCluster) -> None:
    assert (
        project_cluster.called(app, "list", "-A", "-l", "team=c").stderr == "ullage: there is no quota with the labels team=c\n"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["ns/shop", "-l", "team=a"], "TARGET ns/shop with -l: only one of them is allowed", id="a namespace"),
        pytest.param(["project/abc", "-l", "a=b"], "TARGET project/abc with -l: only one of them is allowed", id="a project"),
        pytest.param(
            ["-l", "team in"],
            "--selector team in: not a selector (unable to parse requirement: found '' expected: '('); allowed is something"
            " like app=db,tier!=test",
            id="no selector",
        ),
    ],
)
def test_what_cannot_be_names_the_option_and_asks_nobody(cluster: SpaceCluster, arguments: list[str], said: str) -> None:
    assert refused("get", *arguments) == said
    assert cluster.asked == []


@pytest.mark.parametrize("name", ["list", "get", "ls"])
def test_the_help_tells_of_labels_and_of_watching(name: str) -> None:
    shown = project_cluster.called(app, name, "--help").stdout
    for option in ("--selector", "-l", "--watch", "-w"):
        assert option in shown


# --- -w --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def watcher(cluster: SpaceCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Watcher:
    return Watcher(cluster, monkeypatch, capsys)


def test_a_watch_shows_each_limit_that_changes_and_no_other(cluster: SpaceCluster, watcher: Watcher) -> None:
    told = watcher.called(
        app,
        "list",
        "-w",
        "-A",
        steps=[
            lambda: limited(cluster, "shop", limit=10, used=4, db=3),
            lambda: limited(cluster, "shop", limit=10, used=4, db=3, web=5),
            lambda: limited(cluster, "shop", limit=10, used=4, web=5),
            lambda: cluster.objects.pop((HARVESTER_QUOTAS.name, "lab", NAME)),
        ],
    )
    assert [one.splitlines() for one in told] == [
        [
            "NAMESPACE   OF              LIMIT   USED   FREE",
            "lab         all snapshots   1Gi     0      1Gi",
            "shop        all snapshots   10Gi    2Gi    8Gi",
            "shop        vm/db           3Gi     -      -",
        ],
        ["shop        all snapshots   10Gi    4Gi    6Gi"],
        ["shop        vm/web          5Gi     -      -"],
        ["shop        vm/db           3Gi     -      gone"],
        ["lab         all snapshots   1Gi     0      gone"],
    ]


def test_a_quota_that_loses_the_labels_is_gone_and_one_that_gets_them_comes(cluster: SpaceCluster, watcher: Watcher) -> None:
    told = watcher.called(
        app,
        "list",
        "-wA",
        "-l",
        "team=a",
        steps=[lambda: limited(cluster, "lab", "team=a", limit=1), lambda: limited(cluster, "lab", "team=b", limit=1)],
    )
    assert told[0].split()[5:7] == ["shop", "all"]
    assert [one.split() for one in told[1:]] == [
        ["lab", "all", "snapshots", "1Gi", "0", "1Gi"],
        ["lab", "all", "snapshots", "1Gi", "0", "gone"],
    ]


def test_a_watch_of_one_shows_it_also_while_it_has_no_limit(cluster: SpaceCluster, watcher: Watcher) -> None:
    told = watcher.called(
        app,
        "get",
        "vm/shop/web",
        "-w",
        steps=[
            lambda: limited(cluster, "shop", limit=10, web=7),
            lambda: cluster.objects.pop((HARVESTER_QUOTAS.name, "shop", NAME)),
        ],
    )
    assert [one.splitlines()[-1].split() for one in told] == [
        ["shop", "vm/web", "none", "-", "-"],
        ["shop", "vm/web", "7Gi", "-", "-"],
        ["shop", "vm/web", "none", "-", "-"],
    ]
    assert watcher.server.followed == [(HARVESTER_QUOTAS.name, "shop", f"metadata.name={NAME}")]


def test_for_programs_a_watch_gives_each_limit_by_itself(cluster: SpaceCluster, watcher: Watcher) -> None:
    told = watcher.called(
        app, "get", "ns/shop", "-w", "-o", "json", steps=[lambda: limited(cluster, "shop", limit=10, used=4, db=3)]
    )
    assert [json.loads(one)["used"] for one in told] == [2 * GIB, 4 * GIB]


def test_for_programs_a_limit_that_did_not_change_does_not_come_again(cluster: SpaceCluster, watcher: Watcher) -> None:
    told = watcher.called(app, "list", "-w", "-o", "name", steps=[lambda: limited(cluster, "shop", limit=10, used=2, db=4)])
    assert told == ["ns/shop\nvm/shop/db\n", "vm/shop/db\n"]


def test_where_the_kind_is_not_served_nobody_waits_for_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(NotFound):
        Watcher(SpaceCluster(HARVESTER_QUOTAS), monkeypatch, capsys).called(app, "list", "-w", steps=[])


def test_who_may_not_read_quotas_is_told_so_and_does_not_wait(cluster: SpaceCluster, watcher: Watcher) -> None:
    cluster.hidden.add(HARVESTER_QUOTAS.name)
    with pytest.raises(Forbidden):
        watcher.called(app, "list", "-w", steps=[])


# --- projects --------------------------------------------------------------------------------------------------------


@pytest.fixture
def master() -> Any:
    return busy_master()


@pytest.fixture
def projects(master: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Watcher:
    answering(master, monkeypatch)
    return Watcher(master, monkeypatch, capsys)


def test_a_project_is_shown_whole_again_when_its_quota_changes(master: Any, projects: Watcher) -> None:
    told = projects.called(
        app,
        "get",
        "project/abc",
        "-w",
        steps=[
            lambda: master.stored("abc")["status"]["globalUsage"].update(cpu="33"),
            lambda: master.objects.pop((PROJECT_QUOTAS.name, "", "project-abc")),
            lambda: master.quota("abc", {"cpu": "9"}, name="by-hand"),
        ],
    )
    assert told[0].startswith("Project:   abc (Shop)\n")
    assert told[1].startswith("\nProject:   abc (Shop)\n"), "an empty line is between"
    assert [line.split() for line in told[1].splitlines() if line.startswith("cpu ")] == [
        ["cpu", "50", "cores", "33", "cores", "17", "cores"]
    ]
    assert (told[2], projects.errors[2]) == ("", "ullage: project abc has no quota: its machines are not limited\n")
    assert told[3].splitlines()[2] == "Quota:     by-hand, its own"


def test_of_several_projects_programs_get_the_one_that_changed(master: Any, projects: Watcher) -> None:
    master.quota("beta", {"cpu": "1"})
    told = projects.called(
        app,
        "get",
        "project/abc",
        "project/beta",
        "-w",
        "-o",
        "custom-columns=P:.project,CPU:.limits.cpu",
        steps=[lambda: master.stored("beta")["spec"]["quota"].update(cpu="2")],
    )
    assert told[0].split() == ["P", "CPU", "abc", "50", "P", "CPU", "beta", "1"]
    assert told[1].split() == ["P", "CPU", "beta", "2"]
