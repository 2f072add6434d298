"""Names and marks."""

from __future__ import annotations

import pytest

from ullage.kube.kinds import Meta
from ullage.projects.names import half_marked, is_default, project_of, quota_name


def test_a_quota_and_a_ledger_are_called_after_their_project() -> None:
    assert quota_name("abc") == "project-abc"
    assert [project_of(name) for name in ("project-abc", "ns-project-abc", "project-")] == ["abc", "", ""]


@pytest.mark.parametrize(
    ("labels", "default", "half"),
    [
        pytest.param({"default": "true", "kkp-default-resource-quota": "true"}, True, "", id="both labels mark a default"),
        pytest.param({"default": "true"}, False, "default", id="KKP's API took its own label off: somebody set other values"),
        pytest.param({"kkp-default-resource-quota": "true"}, False, "kkp-default-resource-quota", id="the other one is off"),
        pytest.param({"default": "false", "kkp-default-resource-quota": "false"}, False, "", id="labels that say no"),
        pytest.param({}, False, "", id="a custom one"),
    ],
)
def test_only_both_labels_together_mark_a_default(labels: dict[str, str], default: bool, half: str) -> None:
    assert (is_default(Meta(labels=labels)), half_marked(Meta(labels=labels))) == (default, half)
