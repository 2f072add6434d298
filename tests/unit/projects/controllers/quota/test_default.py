"""The life of default quotas: made, kept like the setting, taken away, and never at the cost of a custom one."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from tests.unit.projects.builders import BOTH, default_quota, details, meta, project, quota, setting
from ullage.projects.api.amounts import ResourceDetails
from ullage.projects.api.kkp import KubermaticSetting, Project
from ullage.projects.api.quotas import ResourceQuota
from ullage.projects.controllers.quota_default_rules import (
    CreateDefault,
    Default,
    RemoveDefault,
    Step,
    UpdateDefault,
    default_in,
    is_empty,
    limits_by_default,
    setting_faults,
    steps,
)

FOUR = details(cpu="4", memory="8Gi")
EIGHT = details(cpu="8")


def spelled(step: Step) -> str:
    match step:
        case CreateDefault(made):
            return f"create {made.metadata.name} {made.spec.quota.cpu}"
        case UpdateDefault(there, spec):
            return f"update {there.metadata.name} to {spec.quota.cpu}"
        case RemoveDefault(there):
            return f"remove {there.metadata.name}"


@pytest.mark.parametrize(
    ("limits", "projects", "quotas", "done"),
    [
        pytest.param(None, [project()], [], [], id="by default projects have no quota"),
        pytest.param(FOUR, [project()], [], ["create project-abc 4"], id="a project without one gets the default"),
        pytest.param(FOUR, [project()], [default_quota(limits=FOUR)], [], id="one that is as it should be stays"),
        pytest.param(
            FOUR, [project()], [default_quota(limits=details(cpu="4000m", memory="8192Mi"))], [], id="4000m is 4: no write"
        ),
        pytest.param(
            EIGHT, [project()], [default_quota(limits=FOUR)], ["update project-abc to 8"], id="a new default is carried over"
        ),
        pytest.param(None, [project()], [default_quota(limits=FOUR)], ["remove project-abc"], id="the setting is emptied"),
        pytest.param(EIGHT, [project()], [quota(limits=FOUR)], [], id="a custom one is not touched"),
        pytest.param(None, [project()], [quota(limits=FOUR)], [], id="a custom one is not removed either"),
        pytest.param(EIGHT, [project()], [quota()], [], id="a custom one without any limit is one"),
        pytest.param(EIGHT, [project()], [quota(limits=FOUR, name="mine")], [], id="a custom one under another name is one"),
        pytest.param(EIGHT, [project()], [quota(labels={"default": "true"})], [], id="one label of two: custom"),
        pytest.param(
            None, [project()], [quota(labels={"kkp-default-resource-quota": "true"})], [], id="the other label of two: custom"
        ),
        pytest.param(
            FOUR,
            [project()],
            [default_quota(limits=FOUR), quota(limits=EIGHT, name="mine")],
            ["remove project-abc"],
            id="beside a custom one the default goes",
        ),
        pytest.param(
            EIGHT,
            [project()],
            [default_quota(limits=FOUR, name="a-default"), default_quota(limits=FOUR)],
            ["update project-abc to 8", "remove a-default"],
            id="of two defaults the one with the right name stays",
        ),
        pytest.param(FOUR, [project()], [quota(deleting=True)], [], id="a custom one that is going still has the name"),
        pytest.param(FOUR, [project()], [default_quota(deleting=True)], [], id="so has a default one"),
        pytest.param(None, [project()], [default_quota(deleting=True)], [], id="what is going is not removed again"),
        pytest.param(FOUR, [project(deleting=True)], [], [], id="a project that is being deleted gets none"),
        pytest.param(EIGHT, [project(deleting=True)], [default_quota(limits=FOUR)], [], id="nor is its own changed"),
        pytest.param(None, [project(deleting=True)], [default_quota(limits=FOUR)], [], id="nor removed: it goes along"),
        pytest.param(FOUR, [], [default_quota("gone", FOUR)], [], id="one whose project is gone goes with its owner"),
        pytest.param(
            EIGHT,
            [project("a"), project("b"), project("c")],
            [default_quota("a", FOUR), quota("b", FOUR)],
            ["update project-a to 8", "create project-c 8"],
            id="each project by itself",
        ),
    ],
)
def test_the_life_of_a_default_quota(
    limits: ResourceDetails | None, projects: Sequence[Project], quotas: Sequence[ResourceQuota], done: list[str]
) -> None:
    found = steps(Default(limits), projects, quotas)
    assert [spelled(step) for step in found] == done


def test_a_custom_quota_that_is_deleted_gives_way_to_the_default() -> None:
    custom = quota(limits=EIGHT)
    going = msgspec.structs.replace(custom, metadata=meta("project-abc", deleting=True))
    seen = [list(steps(Default(FOUR), [project()], there)) for there in ([custom], [going], [])]
    assert [[spelled(step) for step in found] for found in seen] == [[], [], ["create project-abc 4"]]


def test_a_default_quota_is_marked_by_both_labels_and_owned_from_the_beginning() -> None:
    (step,) = steps(Default(FOUR), [project()], [])
    assert isinstance(step, CreateDefault)
    assert step.quota.metadata.labels == {"subject-name": "abc", "subject-kind": "project", **BOTH}
    assert [(one.kind, one.name, one.uid) for one in step.quota.metadata.owner_references] == [("Project", "abc", "uid-of-abc")]
    assert list(steps(Default(FOUR), [project()], [step.quota])) == [], "what it made is what it wants"


def test_a_limit_that_the_new_default_does_not_have_goes() -> None:
    (step,) = steps(Default(EIGHT), [project()], [default_quota(limits=FOUR)])
    assert isinstance(step, UpdateDefault)
    assert step.spec.quota == EIGHT
    assert step.spec.subject == step.quota.spec.subject


@pytest.mark.parametrize(
    ("given", "default"),
    [
        pytest.param(setting(FOUR), Default(FOUR), id="a default"),
        pytest.param(setting(None), Default(None), id="nothing is said: none"),
        pytest.param(setting(details()), Default(None), id="all of it is absent: none"),
        pytest.param(setting(details(cpu=0, memory="0")), Default(None), id="all of it is zero: none"),
        pytest.param(
            setting(details(cpu=0, memory="1Gi")), Default(details(cpu=0, memory="1Gi")), id="zero beside a limit allows none"
        ),
        pytest.param(setting(details(cpu="lots")), None, id="a slip: nobody can tell"),
        pytest.param(setting(details(cpu="-1")), None, id="less than nothing: nobody can tell"),
        pytest.param(None, None, id="no setting at all: nothing is done"),
        pytest.param(
            msgspec.structs.replace(setting(None), metadata=meta("globalsettings", deleting=True)), None, id="one that is going"
        ),
    ],
)
def test_what_the_setting_says(given: KubermaticSetting | None, default: Default | None) -> None:
    assert default_in(given) == default


@pytest.mark.parametrize(
    ("given", "of", "limits"),
    [
        pytest.param(setting(FOUR), project(), FOUR, id="a default"),
        pytest.param(setting(details(cpu=0)), project(), details(), id="a default of nothing is none"),
        pytest.param(None, project(), details(), id="no setting at all"),
        pytest.param(setting(FOUR), None, details(), id="no such project"),
        pytest.param(setting(FOUR), project(deleting=True), details(), id="a project that goes"),
        pytest.param(setting(details(cpu="lots")), project(), None, id="a slip: nobody can tell"),
    ],
)
def test_what_a_project_has_without_a_quota(
    given: KubermaticSetting | None, of: Project | None, limits: ResourceDetails | None
) -> None:
    assert limits_by_default(given, of) == limits


def test_a_slip_in_the_setting_is_said() -> None:
    said = (
        "spec.defaultQuota.quota.cpu: '-1' is negative: it is a quantity of 0 or more, such as 4 or 1500m; 0 allows none, and"
    )
    (fault,) = setting_faults(setting(details(cpu="-1")))
    assert str(fault) == f"{said} without the field there is no limit"
    assert setting_faults(setting(FOUR)) == setting_faults(setting(None)) == []


def test_a_default_of_zero_is_empty_and_a_part_of_one_is_not() -> None:
    assert [is_empty(one) for one in (details(), details(cpu=0), details(cpu=0, storage="1"))] == [True, True, False]


def test_ten_thousand_projects_are_one_pass() -> None:
    """Both can be walked through once only: whoever looked through all quotas for each project would find none."""
    count = 10_000
    projects = (project(f"p{number}") for number in range(count))
    quotas = (default_quota(f"p{number}", FOUR) for number in range(0, count, 2))
    found = list(steps(Default(EIGHT), projects, quotas))
    assert (sum(isinstance(step, UpdateDefault) for step in found), sum(isinstance(step, CreateDefault) for step in found)) == (
        5000,
        5000,
    )
