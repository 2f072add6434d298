"""What the roles of tenants gather of KubeVirt's kinds, on one machine."""

from __future__ import annotations

import pytest

from ullage.standalone.world.slice import GRANTS
from ullage.vms.api.instance_types import CLUSTER_INSTANCE_TYPES, CLUSTER_PREFERENCES, INSTANCE_TYPES, PREFERENCES
from ullage.vms.api.machines import VIRTUAL_MACHINES


@pytest.mark.parametrize(
    ("role", "verb", "names"),
    [
        pytest.param(
            "edit", "create", {VIRTUAL_MACHINES, INSTANCE_TYPES, PREFERENCES}, id="who edits a namespace makes its own types"
        ),
        pytest.param(
            "view", "get", {CLUSTER_INSTANCE_TYPES, CLUSTER_PREFERENCES, INSTANCE_TYPES}, id="who views sees all types"
        ),
    ],
)
def test_what_tenants_may_do_with_instance_types(role: str, verb: str, names: set[object]) -> None:
    granted = {kind for one in GRANTS if role in one.roles and verb in one.verbs for kind in one.kinds}
    assert names <= granted


def test_nobody_makes_instance_types_of_the_cluster_with_a_namespace() -> None:
    made = {kind for one in GRANTS if "create" in one.verbs for kind in one.kinds}
    assert all(kind.namespaced for kind in made)
