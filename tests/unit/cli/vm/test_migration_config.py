"""`ullage vm migration-config`: what it shows, what it writes into the KubeVirt object, and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.cli.vm.cluster import VmCluster
from tests.unit.cli.vm.test_command import at, called, refused
from ullage.vms.api.kubevirts import KUBEVIRTS

COUNT = "a whole number from 1 to 2147483647 is allowed"
SPAN = "a whole number of seconds up to 2147483647, 0 for never, is allowed"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> VmCluster:
    return at(VmCluster(), monkeypatch)


def kubevirt(cluster: VmCluster, name: str = "kubevirt", namespace: str = "kubevirt", **migrations: Any) -> None:
    spec = {"configuration": {"migrations": migrations}} if migrations else {}
    meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": ""}
    cluster.put(KUBEVIRTS, {"metadata": meta, "spec": spec}, namespace=namespace)


def test_what_is_not_set_shows_the_default_of_kubevirt(cluster: VmCluster) -> None:
    kubevirt(cluster, parallelMigrationsPerCluster=12, bandwidthPerMigration="64Mi", progressTimeout=0)
    rows = [line.split("   ") for line in called("migration-config", "get").output.splitlines()]
    shown = {row[0]: [one.strip() for one in row[1:] if one.strip()][:2] for row in rows}
    assert shown == {
        "SETTING": ["VALUE", "DEFAULT"],
        "parallelMigrationsPerCluster": ["12", "5"],
        "parallelOutboundMigrationsPerNode": ["-", "2"],
        "bandwidthPerMigration": ["64Mi/s", "no bound"],
        "completionTimeoutPerGiB": ["-", "150s"],
        "progressTimeout": ["never", "150s"],
        "allowAutoConverge": ["-", "false"],
        "allowPostCopy": ["-", "false"],
    }


def test_as_json_it_tells_what_holds(cluster: VmCluster) -> None:
    kubevirt(cluster, allowPostCopy=True)
    found = json.loads(called("migration-config", "get", "-o", "json").output)
    assert (found["allowPostCopy"], found["parallelMigrationsPerCluster"], found["bandwidthPerMigration"]) == (True, 5, 0)


def test_only_what_is_named_is_written(cluster: VmCluster) -> None:
    kubevirt(cluster, parallelMigrationsPerCluster=12, progressTimeout=60)
    done = called(
        *("migration-config", "set", "--parallel-migrations-per-cluster", "8", "--bandwidth-per-migration", "64Mi"),
        *("--completion-timeout-per-gib", "90s", "--progress-timeout", "default", "--allow-post-copy", "true"),
    )
    wanted = {
        "parallelMigrationsPerCluster": 8,
        "bandwidthPerMigration": "64Mi",
        "completionTimeoutPerGiB": 90,
        "progressTimeout": None,
        "allowPostCopy": True,
    }
    assert cluster.written == [
        ("kubevirts", "kubevirt", {"spec": {"configuration": {"migrations": wanted}}}, False),
    ]
    assert done.output.splitlines() == [
        "kubevirt.kubevirt.io/kubevirt configured",
        "  parallelMigrationsPerCluster: 8",
        "  bandwidthPerMigration: 64Mi/s",
        "  completionTimeoutPerGiB: 90s",
        "  progressTimeout: 150s",
        "  allowPostCopy: true",
    ]


def test_a_dry_run_changes_nothing(cluster: VmCluster) -> None:
    kubevirt(cluster)
    done = called("migration-config", "set", "--progress-timeout", "9", "--dry-run")
    assert done.output.splitlines()[0] == "kubevirt.kubevirt.io/kubevirt would be configured (dry run)"
    assert [dry for *_, dry in cluster.written] == [True]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param(
            ["--parallel-migrations-per-cluster", "0"], f"--parallel-migrations-per-cluster 0: {COUNT}", id="none at a time"
        ),
        pytest.param(
            ["--parallel-outbound-migrations-per-node", "-1"],
            f"--parallel-outbound-migrations-per-node -1: {COUNT}",
            id="fewer than none",
        ),
        pytest.param(
            ["--bandwidth-per-migration", "fast"],
            "--bandwidth-per-migration fast: an amount for each second, such as 64Mi, or 0 for no bound, is allowed",
            id="no amount",
        ),
        pytest.param(["--progress-timeout", "1h"], f"--progress-timeout 1h: {SPAN}", id="hours"),
        pytest.param(["--progress-timeout", ""], f"--progress-timeout (empty): {SPAN}", id="nothing given"),
        pytest.param(["--allow-post-copy", "yes"], "--allow-post-copy yes: true or false is allowed", id="no truth"),
        pytest.param(
            [],
            "migration-config set (nothing): name what is to be set: --parallel-migrations-per-cluster, "
            "--parallel-outbound-migrations-per-node, --bandwidth-per-migration, --completion-timeout-per-gib, "
            "--progress-timeout, --allow-auto-converge, --allow-post-copy",
            id="nothing named",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_before_a_cluster_is_asked(arguments: list[str], text: str) -> None:
    assert refused("migration-config", "set", *arguments) == text


def test_without_kubevirt_it_says_so(cluster: VmCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused("migration-config", "get") == "there is no KubeVirt object in this cluster, so nothing to configure"
    at(VmCluster(KUBEVIRTS), monkeypatch)
    said = "this cluster does not serve kubevirts.kubevirt.io: KubeVirt is not installed"
    assert refused("migration-config", "get") == said


def test_of_two_objects_none_is_chosen(cluster: VmCluster) -> None:
    kubevirt(cluster)
    kubevirt(cluster, "other", "harvester-system")
    said = "there are 2 KubeVirt objects, and KubeVirt allows one: harvester-system/other, kubevirt/kubevirt"
    assert refused("migration-config", "set", "--progress-timeout", "9") == said
