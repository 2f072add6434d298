"""How the migration settings of the KubeVirt object are read: KubeVirt's defaults, and what is not obeyed."""

from __future__ import annotations

from typing import Any

import pytest

from ullage.vms.migration_settings import SETTINGS, MigrationSettings, obeyed, values_of

GI = 1 << 30
WHERE = "spec.configuration.migrations"


def test_where_nothing_is_said_the_defaults_of_kubevirt_hold() -> None:
    assert obeyed({}) == MigrationSettings(
        per_cluster=5,
        per_node=2,
        bandwidth=0,
        completion_timeout=150,
        progress_timeout=150,
        auto_converge=False,
        post_copy=False,
        drain_taint="kubevirt.io/drain",
    )


def test_what_is_said_is_obeyed() -> None:
    found = obeyed(
        {
            "parallelMigrationsPerCluster": 20,
            "parallelOutboundMigrationsPerNode": 7,
            "bandwidthPerMigration": "64Mi",
            "completionTimeoutPerGiB": 800,
            "progressTimeout": 0,
            "allowAutoConverge": True,
            "allowPostCopy": True,
            "nodeDrainTaintKey": "example.com/drain",
        }
    )
    assert found == MigrationSettings(
        per_cluster=20,
        per_node=7,
        bandwidth=64 << 20,
        completion_timeout=800,
        progress_timeout=0,
        auto_converge=True,
        post_copy=True,
        drain_taint="example.com/drain",
    )


@pytest.mark.parametrize(
    ("field", "given", "problem"),
    [
        pytest.param(
            "parallelMigrationsPerCluster",
            0,
            f"{WHERE}.parallelMigrationsPerCluster 0: a whole number from 1 to 2147483647 is allowed; 5 holds",
            id="none at a time would stop every migration",
        ),
        pytest.param(
            "bandwidthPerMigration",
            "-1",
            f"{WHERE}.bandwidthPerMigration -1: an amount for each second, such as 64Mi, or 0 for no bound, "
            "is allowed; no bound holds",
            id="a negative amount",
        ),
        pytest.param(
            "progressTimeout",
            True,
            f"{WHERE}.progressTimeout True: a whole number of seconds up to 2147483647, 0 for never, is allowed; 150s holds",
            id="a truth in the place of a number",
        ),
    ],
)
def test_what_makes_no_sense_is_not_obeyed_and_told(field: str, given: Any, problem: str) -> None:
    values, problems = values_of({field: given})
    assert problems == [problem]
    assert values == {one.field: one.default for one in SETTINGS}


@pytest.mark.parametrize(
    ("memory", "seconds"),
    [
        pytest.param(0, 150, id="a guest that does not say has one GiB"),
        pytest.param(924 << 20, 150, id="a GiB that is begun counts whole"),
        pytest.param(GI, 150, id="exactly one"),
        pytest.param(GI + 1, 300, id="one byte more is two"),
    ],
)
def test_the_time_for_a_migration_grows_with_the_memory(memory: int, seconds: int) -> None:
    assert MigrationSettings().deadline(memory) == seconds
