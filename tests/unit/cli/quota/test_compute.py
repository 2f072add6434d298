"""`ullage quota set` of CPUs and memory: what the options stand for, and what is said."""

from __future__ import annotations

import pytest

from ullage.cli.quota.compute import change_of, was_set
from ullage.errors import BadInput
from ullage.headroom.share_setting import ShareChange
from ullage.headroom.shares import MAINTENANCE_QUOTA, RESOURCE_QUOTA

PERCENT = "a whole number from 0 to 100 is allowed, and 0 keeps nothing back"


def test_options_are_values_of_the_annotations() -> None:
    found = change_of({"cpu": "4000m", "memory": "5120Mi"}, {"cpu": "50", "memory": "25%"})
    assert found == ShareChange(
        quota={"limitsCpu": "4", "limitsMemory": "5Gi"}, maintenance={"limitsCpuPercent": 50, "limitsMemoryPercent": 25}
    )
    assert change_of({"cpu": "none", "memory": None}, {"cpu": "0", "memory": None}) == ShareChange(
        quota={"limitsCpu": None}, maintenance={"limitsCpuPercent": None}
    )
    assert change_of({"cpu": None, "memory": None}, {"cpu": None, "memory": None}) is None


@pytest.mark.parametrize(
    ("quotas", "percents", "said"),
    [
        pytest.param(
            {"cpu": "four"}, {}, "--cpu four: not a quantity; a quantity such as 4 or 4000m is allowed, or none", id="a word"
        ),
        pytest.param(
            {"memory": ""},
            {},
            "--memory (empty): not a quantity; a quantity such as 5Gi or 5120Mi is allowed, or none",
            id="empty",
        ),
        pytest.param(
            {"memory": "-1"}, {}, "--memory -1: negative; a quantity such as 5Gi or 5120Mi is allowed, or none", id="less"
        ),
        pytest.param(
            {"cpu": "1e30"}, {}, "--cpu 1e30: more than 9223372036854775807 thousandths of a CPU; a quantity", id="too much"
        ),
        pytest.param({}, {"cpu": "101"}, f"--maintenance-cpu 101: not a percentage; {PERCENT}", id="more than all"),
        pytest.param({}, {"memory": "-1"}, f"--maintenance-memory -1: not a percentage; {PERCENT}", id="less than none"),
        pytest.param({}, {"memory": "half"}, f"--maintenance-memory half: not a percentage; {PERCENT}", id="half"),
        pytest.param({}, {"memory": "12.5"}, f"--maintenance-memory 12.5: not a percentage; {PERCENT}", id="a fraction"),
        pytest.param({}, {"cpu": "9" * 9999}, f"9: not a percentage; {PERCENT}", id="many digits"),
    ],
)
def test_what_cannot_be_names_the_option(quotas: dict[str, str | None], percents: dict[str, str | None], said: str) -> None:
    with pytest.raises(BadInput) as refused:
        change_of(quotas, percents)
    assert said in str(refused.value)


def test_what_was_done_is_a_line_for_each_resource_with_units() -> None:
    annotations = {
        RESOURCE_QUOTA: '{"limit":{"limitsCpu":"4","limitsMemory":"5Gi"}}',
        MAINTENANCE_QUOTA: '{"limit":{"limitsCpuPercent":25}}',
    }
    assert list(was_set("team-a", annotations, dry_run=False)) == [
        "cpu of namespace team-a is limited to 4 cores: 3 cores for VMs, 1 core for maintenance",
        "memory of namespace team-a is limited to 5Gi, and nothing of it is kept for maintenance",
    ]
    assert list(was_set("team-a", {}, dry_run=True)) == [
        "cpu of namespace team-a would be without a limit",
        "memory of namespace team-a would be without a limit",
    ]
