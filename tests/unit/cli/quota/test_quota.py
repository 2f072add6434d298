"""What `ullage quota` understands and prints."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tests.unit.cli.space_cluster import GIB, NOW, SpaceCluster
from ullage.cli.common.listing import shown
from ullage.cli.common.options import OutputFormat
from ullage.cli.quota import targets, text
from ullage.errors import BadInput
from ullage.kube.builtin.core import NAMESPACES
from ullage.space.api import ALLOW_ZERO, NAME, ResourceQuota
from ullage.space.limit_setting import Limited
from ullage.vms.api.machines import VIRTUAL_MACHINES


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("ns/team-a", ("team-a", "")),
        ("namespace/team-a", ("team-a", "")),
        ("vm/team-a/db", ("team-a", "db")),
        ("virtualmachine/team-a/db.1", ("team-a", "db.1")),
    ],
)
def test_a_target_is_a_namespace_or_a_virtual_machine(given: str, found: tuple[str, str]) -> None:
    assert targets.parse(given) == found


@pytest.mark.parametrize("given", ["", "team-a", "ns/", "ns/a/b", "vm/db", "vm/a/b/c", "pod/a/b", "ns/A", "ns/a.b"])
def test_anything_else_is_refused_with_what_is_allowed(given: str) -> None:
    with pytest.raises(BadInput, match="ns/NAME or vm/NAMESPACE/NAME is allowed"):
        targets.parse(given)


def quota(**spec: Any) -> ResourceQuota:
    usage = {"namespaceTotalSnapshotSizeUsage": 12 * GIB, "vmTotalSnapshotSizeUsage": {"db": GIB}}
    meta = {"name": NAME, "namespace": "team-a", "annotations": spec.pop("annotations", {})}
    return msgspec.convert(
        {"metadata": meta, "spec": {"snapshotLimit": spec}, "status": {"snapshotLimitStatus": usage}}, ResourceQuota
    )


def lines(found: ResourceQuota, how: str = "table") -> list[str]:
    return shown(list(text.rows("team-a", found)), text.layout(), OutputFormat(how), now=NOW).splitlines()


def test_limits_are_listed_with_what_is_used_and_what_is_free_of_them() -> None:
    found = quota(namespaceTotalSnapshotSizeQuota=10 * GIB, vmTotalSnapshotSizeQuota={"web": 5 * GIB, "db": 3 * GIB, "no": 0})
    assert lines(found) == [
        "NAMESPACE   OF              LIMIT   USED   FREE",
        "team-a      all snapshots   10Gi    12Gi   2Gi over",
        "team-a      vm/db           3Gi     1Gi    2Gi",
        "team-a      vm/no           none    -      -",
        "team-a      vm/web          5Gi     -      -",
    ]
    assert lines(found, "name") == ["ns/team-a", "vm/team-a/db", "vm/team-a/no", "vm/team-a/web"]


def test_zero_is_a_limit_where_the_annotation_says_so() -> None:
    found = quota(namespaceTotalSnapshotSizeQuota=0, annotations={ALLOW_ZERO: "true"})
    assert lines(found)[1] == "team-a      all snapshots   0       12Gi   12Gi over"


def test_for_programs_there_are_bytes() -> None:
    found = quota(vmTotalSnapshotSizeQuota={"db": 3 * GIB})
    told = json.loads("\n".join(lines(found, "json")))["items"]
    assert told == [
        {"namespace": "team-a", "used": 12 * GIB},
        {"namespace": "team-a", "vm": "db", "limit": 3 * GIB, "used": GIB, "free": 2 * GIB},
    ]


def test_what_was_done_is_one_sentence() -> None:
    here, vm = Limited("team-a"), Limited("team-a", "db")
    assert text.was_set(here, 10 * GIB, zero=False, dry_run=False) == "snapshots of namespace team-a are limited to 10Gi"
    assert text.was_set(vm, 0, zero=False, dry_run=False) == "snapshots of virtual machine team-a/db are without a limit"
    assert text.was_set(vm, 0, zero=True, dry_run=True) == "snapshots of virtual machine team-a/db would be limited to 0"
    assert text.was_removed(vm, had=True, dry_run=False) == (
        "snapshots of virtual machine team-a/db are without a limit of their own"
    )
    assert text.was_removed(here, had=False, dry_run=False) == "snapshots of namespace team-a have no limit: nothing to remove"


@pytest.fixture
def cluster() -> SpaceCluster:
    made = SpaceCluster()
    for namespace in ("shop", "lab"):
        made.put(NAMESPACES, {"metadata": {"name": namespace}})
        made.put(VIRTUAL_MACHINES, {"metadata": {"name": "db"}}, namespace=namespace)
    return made


async def test_the_shell_is_offered_what_there_is(cluster: SpaceCluster) -> None:
    assert await targets.known(cluster.session()) == ["ns/shop", "ns/lab", "vm/shop/db", "vm/lab/db"]


async def test_who_may_read_his_own_namespace_alone_is_offered_that(cluster: SpaceCluster) -> None:
    cluster.only_in = "shop"
    assert await targets.known(cluster.session("shop")) == ["ns/shop", "vm/shop/db"]


async def test_without_kubevirt_there_are_namespaces() -> None:
    cluster = SpaceCluster(VIRTUAL_MACHINES)
    cluster.put(NAMESPACES, {"metadata": {"name": "shop"}})
    assert await targets.known(cluster.session()) == ["ns/shop"]
