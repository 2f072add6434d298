"""`ullage projects list` with `-l` and `-w`."""

from __future__ import annotations

import pytest

from tests.unit.cli import project_cluster
from tests.unit.cli.project_cluster import ProjectCluster, answering, busy_master
from tests.unit.cli.watching import Watcher
from ullage.cli.projects.command import app
from ullage.projects.api.kkp import PROJECTS
from ullage.projects.api.quotas import PROJECT_QUOTAS


@pytest.fixture
def master(monkeypatch: pytest.MonkeyPatch) -> ProjectCluster:
    made = answering(busy_master(), monkeypatch)
    made.objects[PROJECTS.name, "", "free"]["metadata"]["labels"] = {"team": "a"}
    return made


def test_labels_are_those_of_the_project(master: ProjectCluster) -> None:
    assert project_cluster.called(app, "list", "-l", "team=a", "-o", "name").stdout == "project/free\n"
    assert project_cluster.called(app, "list", "-l", "team!=a", "-o", "name").stdout == "project/abc\n"
    said = project_cluster.called(app, "list", "-l", "team=b").stderr
    assert said == "ullage: there is no project with the labels team=b\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(("-l", "team in"), "--selector team in", id="no selector"),
        pytest.param(("project/abc", "-l", "team=a"), "--selector team=a: projects are named, or chosen by labels", id="both"),
    ],
)
def test_what_cannot_be_is_refused(master: ProjectCluster, arguments: tuple[str, ...], said: str) -> None:
    assert said in project_cluster.refused(app, "list", *arguments)


def test_it_is_shown_again_when_it_reads_otherwise(
    master: ProjectCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def uses(cpu: str) -> None:
        master.objects[PROJECT_QUOTAS.name, "", "project-abc"]["status"]["globalUsage"]["cpu"] = cpu

    def comes() -> None:
        master.project("new", "Another")

    found = Watcher(master, monkeypatch, capsys).called(app, "list", "-w", steps=[lambda: uses("33"), comes])
    assert ["32/50" in found[0], "33/50" in found[1], "new" in found[1], "new" in found[2]] == [True, True, False, True]


def test_programs_are_told_what_is_another(
    master: ProjectCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = Watcher(master, monkeypatch, capsys).called(
        app, "list", "-w", "-o", "name", steps=[lambda: master.project("new", "Another")]
    )
    assert found == ["project/abc\nproject/free\n", "project/new\n"]
