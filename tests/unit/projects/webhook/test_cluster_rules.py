"""How many clusters a project may have."""

from __future__ import annotations

import pytest

from tests.unit.projects.builders import cluster, quota
from ullage.projects.api.kkp import Cluster
from ullage.projects.api.quotas import ResourceQuota
from ullage.projects.webhook.cluster_rules import ClusterFacts, refusal

NEXT = "Next: delete a cluster of the project, or have an administrator raise the number"
WHERE = "ResourceQuota project-abc, annotation ullage.io/max-clusters"
FULL = f"project abc has 3 clusters, and may have 3 ({WHERE}). {NEXT}"


def allowing(count: str) -> ResourceQuota:
    return quota(annotations={"ullage.io/max-clusters": count})


@pytest.mark.parametrize(
    ("new", "old", "limits", "others", "said"),
    [
        pytest.param(cluster("x"), None, allowing("3"), 2, "", id="exactly full is allowed"),
        pytest.param(cluster("x"), None, allowing("3"), 3, FULL, id="one more is not"),
        pytest.param(
            cluster("x"), None, allowing("0"), 0, f"project abc has 0 clusters, and may have 0 ({WHERE}). {NEXT}", id="none"
        ),
        pytest.param(
            cluster("x"), None, allowing("1"), 1, f"project abc has 1 cluster, and may have 1 ({WHERE}). {NEXT}", id="one"
        ),
        pytest.param(cluster("x"), None, quota(), 1000, "", id="nothing is said: any number"),
        pytest.param(cluster("x"), None, None, 1000, "", id="no quota: any number"),
        pytest.param(cluster("x"), None, allowing("many"), 1000, "", id="what cannot be read limits nothing"),
        pytest.param(cluster("x"), cluster("x"), allowing("3"), 5, "", id="what is there may be changed, past the limit too"),
        pytest.param(
            cluster("x"), cluster("x", of="other"), allowing("3"), 3, FULL, id="one that is moved into the project is new"
        ),
        pytest.param(
            cluster("x"),
            cluster("x", labels={"external-cluster-id": "x"}),
            allowing("3"),
            3,
            FULL,
            id="so is one that is imported no more",
        ),
        pytest.param(cluster("x", of=""), None, allowing("3"), 3, "", id="one of no project"),
        pytest.param(cluster("x", provider="eks"), None, allowing("3"), 3, "", id="an external one is not refused"),
    ],
)
def test_a_project_has_no_more_clusters_than_it_may(
    new: Cluster, old: Cluster | None, limits: ResourceQuota | None, others: int, said: str
) -> None:
    assert refusal(ClusterFacts(new, old, limits, others)) == said
