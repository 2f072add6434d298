"""The labels and the owner that a quota is to have."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.unit.projects.builders import project, quota
from ullage.kube.kinds import OwnerReference
from ullage.projects.controllers.quota_label import marked, problem

LABELS = {"subject-name": "abc", "subject-kind": "project"}
OWNER = OwnerReference(api_version="kubermatic.k8c.io/v1", kind="Project", name="abc", uid="uid-of-abc")
OLD_OWNER = msgspec.structs.replace(OWNER, uid="uid-of-one-that-is-gone")
STRANGER = OwnerReference(api_version="example.dev/v1", kind="Project", name="abc", uid="7")


@pytest.mark.parametrize(
    ("given", "labels", "owners"),
    [
        pytest.param({}, LABELS, (OWNER,), id="a new quota is labelled and owned"),
        pytest.param({"labels": {"team": "a"}}, {"team": "a", **LABELS}, (OWNER,), id="other labels stay"),
        pytest.param({"labels": {"subject-name": "other"}}, LABELS, (OWNER,), id="a label that points to another is put right"),
        pytest.param({"owner_references": (OLD_OWNER,)}, LABELS, (OWNER,), id="a project of before is replaced as owner"),
        pytest.param({"owner_references": (STRANGER,)}, LABELS, (STRANGER, OWNER), id="owners of other kinds stay"),
        pytest.param({"owner_references": (OWNER, OLD_OWNER)}, LABELS, (OWNER,), id="one project owns it, not two"),
    ],
)
def test_a_quota_is_labelled_with_its_subject_and_owned_by_its_project(
    given: dict[str, Any], labels: dict[str, str], owners: tuple[OwnerReference, ...]
) -> None:
    found = marked(quota(**given), project())
    assert (found.labels, found.owner_references) == (labels, owners)


def test_where_nothing_is_missing_nothing_is_written() -> None:
    done = quota(labels=LABELS, owner_references=(OWNER,))
    assert marked(done, project()) is done.metadata
    kept = msgspec.structs.replace(OWNER, block_owner_deletion=True)
    blocking = quota(labels=LABELS, owner_references=(kept,))
    assert marked(blocking, project()) is blocking.metadata, "how somebody else wrote the same owner is left alone"


def test_a_quota_whose_project_is_missing_is_labelled_not_owned_and_that_is_said() -> None:
    found = marked(quota(), None)
    assert (found.labels, found.owner_references) == (LABELS, ())
    assert problem(quota(), None) == (
        "ProjectMissing",
        "spec.subject.name: there is no project abc; the quota holds when there is. Next: kubectl get projects",
    )
    assert problem(quota(), project()) == ("", "")


def test_a_quota_keeps_its_owner_when_the_project_cannot_be_seen() -> None:
    owned = quota(labels=LABELS, owner_references=(OWNER,))
    assert marked(owned, None) is owned.metadata


def test_a_quota_that_is_being_deleted_is_left_alone() -> None:
    going = quota(deleting=True)
    assert marked(going, project()) is going.metadata
    assert problem(going, None) == ("", "")


@pytest.mark.parametrize("subject", ["x" * 64, "no good", ""])
def test_a_subject_that_no_label_can_have_is_said_and_not_tried_again_and_again(subject: str) -> None:
    given = quota(subject, name="odd")
    assert marked(given, None) is given.metadata
    reason, said = problem(given, None)
    assert reason == "BadSubject"
    shown = subject if len(subject) <= 63 else f"{subject[:63]}…"
    allowed = "that has 1 to 63 lower case letters, digits, dashes and dots, as in abc-1"
    assert said == f"spec.subject.name: {shown!r} is no id of a project: {allowed}"
