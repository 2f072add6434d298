"""What is said of one cluster too many."""

from __future__ import annotations

import pytest

from tests.unit.projects.builders import quota
from ullage.projects.api.quotas import ResourceQuota
from ullage.projects.webhook.clusters import NEXT, refusal


def says(most: str, name: str = "") -> ResourceQuota:
    return quota(annotations={"ullage.io/max-clusters": most}, name=name)


WHERE = "ResourceQuota project-abc, annotation ullage.io/max-clusters"


@pytest.mark.parametrize(
    ("here", "allowed", "quotas", "said"),
    [
        pytest.param(3, 3, [says("3")], f"project abc has 3 clusters, and may have 3 ({WHERE}). {NEXT}", id="full"),
        pytest.param(1, 1, [says("1")], f"project abc has 1 cluster, and may have 1 ({WHERE}). {NEXT}", id="one"),
        pytest.param(0, 0, [says("0")], f"project abc has 0 clusters, and may have 0 ({WHERE}). {NEXT}", id="none"),
        pytest.param(5, 3, [says("3")], f"project abc has 5 clusters, and may have 3 ({WHERE}). {NEXT}", id="past it already"),
        pytest.param(
            1,
            1,
            [says("3")],
            f"project abc may have 3 clusters in all ({WHERE}), and has 1 cluster on this seed, which may have 1 of them now:"
            " the rest is granted to other seeds. Next: try again in a minute, since room may come from there, or delete a"
            " cluster of the project, or have an administrator raise the number",
            id="a part: whether the rest is used nobody knows here",
        ),
        pytest.param(
            2,
            2,
            [says("9"), says("2", name="by-hand")],
            f"project abc has 2 clusters, and may have 2 (ResourceQuota by-hand, annotation ullage.io/max-clusters). {NEXT}",
            id="the quota that is in the way",
        ),
        pytest.param(
            1,
            0,
            [says("many")],
            "project abc has 1 cluster on this seed, and gets no more until its quota is corrected:"
            " metadata.annotations[ullage.io/max-clusters]: 'many' is not allowed: it is a whole number from 0 to 1000000;"
            " without it there is no limit. Next: have an administrator correct it",
            id="a number that cannot be read",
        ),
        pytest.param(
            1, 1, [], f"project abc has 1 cluster on this seed, and may have 1 there. {NEXT}", id="nor that the quota went"
        ),
    ],
)
def test_a_refusal_has_the_numbers_and_where_they_come_from(
    here: int, allowed: int, quotas: list[ResourceQuota], said: str
) -> None:
    assert refusal("abc", here=here, allowed=allowed, quotas=quotas) == said
