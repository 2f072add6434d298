"""`ullage projects list` and `ullage projects drain-seed`."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from typer.testing import Result

from tests.unit.cli import project_cluster
from tests.unit.cli.project_cluster import MARKS, STALE, ProjectCluster, answering, busy_master
from ullage.cli.common.completion import seeds
from ullage.cli.projects.command import app
from ullage.projects.api.kkp import PROJECTS, SEEDS
from ullage.projects.names import DRAINED

GIVEN_UP = "seed eu is given up: it keeps what it used when it was last seen, and the rest is free for other seeds"
WHERE = "Seeds are on the master, in the namespace that --seed-namespace names"
HOLDS = [
    "seed eu has been out of reach for 3h (since 2026-05-01T09:00:00Z)",
    "PROJECT   RESOURCE   GRANTED    USED WHEN LAST SEEN   GIVEN BACK",
    "abc       cpu        30 cores   20 cores              10 cores",
    "abc       storage    500Gi      100Gi                 400Gi",
]


@pytest.fixture
def master(monkeypatch: pytest.MonkeyPatch) -> ProjectCluster:
    return answering(busy_master(), monkeypatch)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody sits there."""
    monkeypatch.setattr("ullage.cli.projects.command.sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True)))


def called(*arguments: str, typed: str | None = None) -> Result:
    return project_cluster.called(app, *arguments, typed=typed)


def refused(*arguments: str) -> str:
    return project_cluster.refused(app, *arguments)


def held(seed: str, *options: str) -> list[str]:
    """The rows about a seed, without their columns."""
    return [" ".join(line.split()) for line in called("drain-seed", seed, "--dry-run", *options).stdout.splitlines()[2:]]


def drained(cluster: ProjectCluster, seed: str = "eu", namespace: str = "kubermatic") -> str | None:
    found: str | None = cluster.objects[SEEDS.name, namespace, seed]["metadata"]["annotations"].get(DRAINED)
    return found


# --- list ------------------------------------------------------------------------------------------------------------


def test_projects_are_listed_with_their_quotas_and_whether_they_are_within(master: ProjectCluster) -> None:
    over = [{"type": "WithinQuota", "status": "False", "reason": "OverQuota", "message": ""}]
    master.quota("beta", {"cpu": "1"}, labels=MARKS, globalUsage={"cpu": "2"}, conditions=over)
    assert called("list").stdout.splitlines() == [
        "PROJECT   NAME                CPU     MEMORY           STORAGE       WITHIN   QUOTA     AGE",
        "abc       Shop                32/50   20Gi/unlimited   200Gi/1Ti     True     own       10m",
        "beta      (no such project)   2/1     0/unlimited      0/unlimited   False    default   -",
        "free      -                   -       -                -             -        none      10m",
    ]


def test_a_wide_table_tells_whether_the_figures_are_of_now(master: ProjectCluster) -> None:
    lines = called("list", "-o", "wide").stdout.splitlines()
    assert lines[0].endswith("QUOTA   AGE   FRESH   PHASE")
    assert lines[1].endswith("own     10m   -       -")


def test_one_for_programs(master: ProjectCluster) -> None:
    assert json.loads(called("get", "project/abc", "-o", "json").stdout) == {
        "project": "abc",
        "name": "Shop",
        "quota": "own",
        "limits": {"cpu": "50", "storage": "1Ti"},
        "used": {"cpu": "32", "memory": "20Gi", "storage": "200Gi"},
        "within": True,
    }
    assert called("list", "-o", "name").stdout == "project/abc\nproject/free\n"


def test_a_name_from_somebody_else_is_no_command_to_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = answering(ProjectCluster(), monkeypatch)
    cluster.project("abc", "Sh\x1b[31mop\n")
    assert "\x1b" not in called("list").stdout


@pytest.mark.parametrize(
    ("given", "said"),
    [
        pytest.param("project/x", "there is no project x. Next: ullage projects list", id="one that is not there"),
        pytest.param("abc", "project/ID abc: project/ID is allowed", id="only the id"),
    ],
)
def test_what_cannot_be_listed_is_said(master: ProjectCluster, given: str, said: str) -> None:
    assert refused("list", given) == said


def test_where_there_are_no_projects_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(ProjectCluster(), monkeypatch)
    assert called("list").stderr == "ullage: there are no projects here: they are on the master\n"
    answering(ProjectCluster(PROJECTS), monkeypatch)
    assert refused("list").startswith(f"this cluster does not serve {PROJECTS.name}: ")


# --- drain-seed ------------------------------------------------------------------------------------------------------


def test_a_seed_that_is_out_of_reach_is_given_up(master: ProjectCluster) -> None:
    assert called("drain-seed", "eu", "--yes").stdout.splitlines() == [*HOLDS, GIVEN_UP]
    assert drained(master) == "true"
    again = called("drain-seed", "eu", "--yes").stdout
    assert again == "seed eu is given up already: nothing to do; `ullage projects drain-seed eu --undo` takes that back\n"
    assert len(master.patches) == 1


@pytest.mark.parametrize(("typed", "after"), [("y\n", "true"), ("n\n", None), ("\n", None)], ids=["yes", "no", "nothing"])
def test_it_is_asked_first(master: ProjectCluster, terminal: None, typed: str, after: str | None) -> None:
    done = called("drain-seed", "eu", typed=typed)
    assert done.stdout.splitlines()[: len(HOLDS)] == HOLDS
    assert "Should seed eu run on, more may be used than the quotas allow. Is it gone for good? [y/N]: " in done.stdout
    assert drained(master) == after
    assert done.exit_code == (0 if after else 1)


def test_where_nobody_can_be_asked_it_is_refused(master: ProjectCluster) -> None:
    assert refused("drain-seed", "eu") == (
        "--yes (absent): nobody can be asked here whether seed eu is gone for good: look with --dry-run"
    )
    assert master.asked == []


def test_a_dry_run_shows_what_would_be(master: ProjectCluster) -> None:
    told = called("drain-seed", "eu", "--dry-run").stdout.splitlines()
    assert told == [*HOLDS, GIVEN_UP.replace(" is given up", " would be given up")]
    assert drained(master) is None


def test_a_seed_that_is_in_reach_is_not_given_up(master: ProjectCluster) -> None:
    assert refused("drain-seed", "us", "--yes") == (
        "seed us is in reach: it can be asked what projects use there (abc), and is not dead. Given up, it is told to keep to"
        " that, and no project gets another machine on it. If that is meant, say --force; if it is going down, wait until"
        " `ullage usage --group-by seed` shows it as STALE"
    )
    assert drained(master, "us") is None


def test_one_that_can_be_asked_about_a_single_project_is_in_reach(master: ProjectCluster) -> None:
    master.quota("beta", {"cpu": "1"}, seeds=[{"name": "eu"}])
    assert "(beta)" in refused("drain-seed", "eu", "--yes")


def test_it_is_given_up_all_the_same_where_somebody_insists(master: ProjectCluster) -> None:
    told = called("drain-seed", "us", "--yes", "--force").stdout.splitlines()
    assert told[0] == "seed us is in reach: it is told to keep to what it uses, and the rest is free when it does"
    assert told[3] == "abc       storage    no limit yet   100Gi                 all but what it used"
    assert drained(master, "us") == "true"


def test_one_that_can_be_asked_says_itself_whether_its_machines_are_gone(master: ProjectCluster) -> None:
    assert refused("drain-seed", "us", "--yes", "--force", "--machines-gone") == (
        "seed us is in reach, and says itself what its machines use: --machines-gone is for one that cannot be asked. When they"
        " are gone it uses nothing, and --force is enough"
    )
    assert drained(master, "us") is None


def test_what_it_used_beyond_its_grant_is_not_given_back(master: ProjectCluster) -> None:
    master.stored("abc")["status"]["seeds"][0]["usage"]["cpu"] = "31"
    assert held("eu")[0] == "abc cpu 30 cores 31 cores 0"


def test_what_nobody_has_counted_is_unknown_and_all_of_it_is_kept(master: ProjectCluster) -> None:
    master.stored("abc")["status"]["seeds"][0] = {"name": "eu", "staleSince": STALE}
    assert held("eu")[0] == "abc cpu 30 cores unknown nothing"


@pytest.mark.parametrize(
    ("share", "options", "row"),
    [
        pytest.param(
            {"target": {"clusters": "3"}, "granted": {"clusters": "3"}, "taken": {"clusters": "2"}},
            (),
            "3 2 1",
            id="some are used",
        ),
        pytest.param({"target": {"clusters": "3"}, "granted": {"clusters": "3"}}, (), "3 unknown nothing", id="nobody knows"),
        pytest.param(
            {"target": {"clusters": "3"}, "granted": {"clusters": "3"}}, ("--machines-gone",), "3 unknown 3", id="all are gone"
        ),
    ],
)
def test_what_a_seed_has_of_the_number_of_clusters_is_shown_too(
    master: ProjectCluster, share: dict[str, object], options: tuple[str, ...], row: str
) -> None:
    annotations = master.stored("abc")["metadata"]["annotations"]
    annotations["ullage.io/cluster-escrow"] = json.dumps({"eu": {"change": 1, **share}})
    assert held("eu", *options)[2] == f"abc clusters {row}"


def test_a_seed_that_has_a_part_of_the_number_of_clusters_alone_is_shown_with_that(master: ProjectCluster) -> None:
    share = {"change": 1, "target": {"clusters": "3"}, "granted": {"clusters": "3"}, "taken": {"clusters": "0"}}
    meta = {"annotations": {"ullage.io/cluster-escrow": json.dumps({"asia": share})}}
    master.seed("asia")
    master.quota("beta", {}, meta=meta)
    assert held("asia")[0] == "beta clusters 3 0 3"


def test_what_a_seed_has_given_back_before_is_not_given_back_twice(master: ProjectCluster) -> None:
    """It keeps what was reserved there, which its last figures do not have."""
    annotations = master.stored("abc")["metadata"]["annotations"]
    record = json.loads(annotations["ullage.io/escrow"])
    record["eu"]["drained"] = True
    annotations["ullage.io/escrow"] = json.dumps(record)
    assert held("eu")[0] == "abc cpu 30 cores 20 cores 0"
    assert held("eu", "--machines-gone")[0] == "abc cpu 30 cores 20 cores 30 cores"


def test_a_seed_that_has_nothing_may_be_given_up(master: ProjectCluster) -> None:
    master.seed("asia")
    assert called("drain-seed", "asia", "--yes").stdout.splitlines()[:2] == [
        "seed asia has said nothing about any project",
        "seed asia has nothing of any quota: there is nothing to give back",
    ]


def test_a_record_that_cannot_be_read_is_named(master: ProjectCluster) -> None:
    master.stored("abc")["metadata"]["annotations"]["ullage.io/escrow"] = "{"
    done = called("drain-seed", "eu", "--yes")
    assert done.stderr.startswith("ullage: what seeds have of project-abc cannot be read: metadata.annotations[")
    assert "nothing to give back" not in done.stdout


def test_a_seed_whose_machines_are_gone_keeps_nothing(master: ProjectCluster) -> None:
    called("drain-seed", "eu", "--yes")
    told = called("drain-seed", "eu", "--yes", "--machines-gone").stdout.splitlines()
    assert told[2:] == [
        "abc       cpu        30 cores   20 cores              30 cores",
        "abc       storage    500Gi      100Gi                 500Gi",
        "seed eu is given up: it keeps nothing, and all of it is free for other seeds",
    ]
    assert drained(master) == "gone"
    assert called("drain-seed", "eu", "--yes").stdout.startswith("seed eu is given up already: nothing to do; ")
    assert drained(master) == "gone"


def test_where_its_machines_are_gone_that_is_asked_too(master: ProjectCluster, terminal: None) -> None:
    done = called("drain-seed", "eu", "--machines-gone", typed="n\n")
    assert "Is it gone for good, and all of its machines too? [y/N]: " in done.stdout
    assert drained(master) is None


def test_undo_takes_the_mark_off(master: ProjectCluster) -> None:
    called("drain-seed", "eu", "--yes")
    assert called("drain-seed", "eu", "--undo").stdout == (
        "seed eu is counted on again: when it is seen, it gets a part of each quota like the others\n"
    )
    assert drained(master) is None
    assert called("drain-seed", "eu", "--undo").stdout == "seed eu is not given up: nothing to undo\n"


def test_seeds_may_be_in_another_namespace(master: ProjectCluster) -> None:
    master.seed("eu", namespace="kkp")
    called("drain-seed", "eu", "--yes", "--seed-namespace", "kkp")
    assert (drained(master), drained(master, namespace="kkp")) == (None, "true")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(
            ["asia"],
            f"there is no seed asia in namespace kubermatic: there are these: eu, us. {WHERE}",
            id="one that is not there",
        ),
        pytest.param(
            ["eu", "--seed-namespace", "x"],
            f"there is no seed eu in namespace x: there is none. {WHERE}",
            id="in another namespace",
        ),
        pytest.param(["A/B"], "NAME A/B: not a name; ", id="no name"),
        pytest.param(["eu", "--seed-namespace", ""], "--seed-namespace (empty): not a name; ", id="no namespace"),
        pytest.param(["eu", "--undo", "--force"], "--undo with --force: only one of them is allowed", id="two at once"),
        pytest.param(
            ["eu", "--undo", "--machines-gone"], "--undo with --machines-gone: only one of them is allowed", id="two others"
        ),
    ],
)
def test_what_cannot_be_given_up_is_said(master: ProjectCluster, arguments: list[str], said: str) -> None:
    assert refused("drain-seed", *arguments, "--yes").startswith(said)
    assert master.patches == []


def test_where_seeds_are_not_served_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(ProjectCluster(SEEDS), monkeypatch)
    assert refused("drain-seed", "eu", "--yes").startswith(f"this cluster does not serve {SEEDS.name}: ")


# --- completion ------------------------------------------------------------------------------------------------------


def test_the_shell_is_offered_seeds(master: ProjectCluster) -> None:
    line = SimpleNamespace(params={})
    assert seeds(line, "") == ["eu", "us"]
    master.only_in = "kubermatic"
    assert seeds(line, "u") == ["us"]
