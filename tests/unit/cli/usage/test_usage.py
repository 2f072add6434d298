"""What `ullage usage` reads and prints."""

from __future__ import annotations

import json

import pytest

from tests.unit.cli.space_cluster import GIB, NOW, SpaceCluster
from ullage.cli.common.listing import shown
from ullage.cli.common.options import OutputFormat
from ullage.cli.usage import text
from ullage.cli.usage.reading import Reading, read_usage
from ullage.cli.usage.text import GroupBy, nothing
from ullage.engines.api import ENGINE_SNAPSHOTS
from ullage.kube.builtin import core
from ullage.ledger.api import LEDGERS
from ullage.space.api import HARVESTER_QUOTAS
from ullage.vms.api.backups import VM_BACKUPS

NS = "snapshots/namespace"


def table(found: Reading, group: GroupBy, how: str = "table") -> str:
    return shown(found.rows, text.layout(group), OutputFormat(how), now=NOW)


@pytest.fixture
def cluster() -> SpaceCluster:
    made = SpaceCluster()
    made.ledger(
        used={NS: 30, "snapshots/vm/db": 20, "snapshots/vm/web": 10},
        limits={NS: 100, "snapshots/vm/db": 15},
        reserved={NS: 5, "snapshots/vm/web": 5},
    )
    made.ledger("lab", used={NS: 1}, limits={}, reserved={})
    return made


async def test_by_namespace_with_what_is_reserved_and_what_is_free(cluster: SpaceCluster) -> None:
    found = await read_usage(cluster.session(), "namespace", everywhere=True)
    assert table(found, "namespace").splitlines() == [
        "NAMESPACE   USED   RESERVED   LIMIT   FREE   %",
        "lab         1Gi    0          none    -      -",
        "shop        30Gi   5Gi        100Gi   65Gi   35",
    ]
    assert found.notes == []


async def test_by_virtual_machine_one_that_is_over_its_limit_says_by_how_much(cluster: SpaceCluster) -> None:
    found = await read_usage(cluster.session(), "vm", everywhere=False)
    assert table(found, "vm").splitlines() == [
        "NAMESPACE   VM    USED   RESERVED   LIMIT   FREE       %",
        "shop        db    20Gi   0          15Gi    5Gi over   133",
        "shop        web   10Gi   5Gi        none    -          -",
    ]


async def test_for_programs_there_are_bytes_and_nothing_that_is_not_known(cluster: SpaceCluster) -> None:
    found = await read_usage(cluster.session(), "vm", everywhere=False)
    told = json.loads(table(found, "vm", "json"))["items"]
    assert told == [
        {"namespace": "shop", "vm": "db", "used": 20 * GIB, "reserved": 0, "limit": 15 * GIB, "free": -5 * GIB},
        {"namespace": "shop", "vm": "web", "used": 10 * GIB, "reserved": 5 * GIB},
    ]
    assert table(found, "vm", "name").splitlines() == ["vm/shop/db", "vm/shop/web"]


async def test_who_may_not_read_ledgers_is_told_what_the_quota_says(cluster: SpaceCluster) -> None:
    cluster.hidden.add(LEDGERS.name)
    usage = {"namespaceTotalSnapshotSizeUsage": 3 * GIB, "vmTotalSnapshotSizeUsage": {"db": 2 * GIB}}
    cluster.quota(limit=10, usage=usage, db=0, web=4)
    found = await read_usage(cluster.session(), "namespace", everywhere=False)
    assert table(found, "namespace").splitlines()[1:] == ["shop        3Gi    -          10Gi    7Gi    30"]
    assert found.notes == ["ledgers may not be read: this is what the quotas say, with what is reserved among what is used"]
    found = await read_usage(cluster.session(), "vm", everywhere=False)
    assert table(found, "vm").splitlines()[1:] == [
        "shop        db    2Gi    -          none    -      -",
        "shop        web   0      -          4Gi     4Gi    0",
    ]


async def test_by_how_much_a_limit_may_be_passed_is_told_where_snapshots_are_estimates(cluster: SpaceCluster) -> None:
    cluster.quota(limit=100)
    cluster.quota(namespace="lab", limit=100)
    body = cluster.objects[HARVESTER_QUOTAS.name, "shop", "default-resource-quota"]
    body["status"] = {"shown": {"mayPassBy": "3Gi"}}
    found = await read_usage(cluster.session(), "namespace", everywhere=True)
    assert found.notes == ["shop: estimated: may pass by up to 3Gi"]
    cluster.hidden.add(HARVESTER_QUOTAS.name)
    found = await read_usage(cluster.session(), "namespace", everywhere=True)
    assert found.notes == []


async def test_a_ledger_that_cannot_be_read_is_named_and_the_others_are_shown(cluster: SpaceCluster) -> None:
    cluster.objects[LEDGERS.name, "ullage-system", "ns-lab"]["status"]["sums"] = "nonsense"
    found = await read_usage(cluster.session(), "namespace", everywhere=True)
    assert [row.namespace for row in found.rows] == ["shop"]
    assert found.notes[0].startswith("ledger ns-lab cannot be read: ")


async def test_by_volume_every_snapshot_counts_with_what_it_was_booked_with() -> None:
    cluster = SpaceCluster()
    cluster.taking("a", "disk", 3, "db")
    cluster.taking("b", "disk", 4)
    cluster.taking("member", "data", 0)
    cluster.taking("new", "disk", None)
    cluster.taking("elsewhere", "disk", 7, namespace="lab")
    plan = json.dumps({"data": 2 * GIB})
    spec = {"source": {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "db"}}
    cluster.put(VM_BACKUPS, {"metadata": {"name": "nightly", "annotations": {"ullage.io/plan": plan}}, "spec": spec})
    charged = {"ullage.io/charged-namespace": "shop", "ullage.io/takes": '{"snapshots/namespace":{"storage":"1Gi"}}'}
    body = {"metadata": {"name": "by-hand", "annotations": charged}, "spec": {"volume": "pvc-1"}}
    cluster.put(ENGINE_SNAPSHOTS, body, namespace="longhorn-system")
    paid = {"ullage.io/charged-namespace": "shop", "ullage.io/takes": "{}"}
    behind = {"metadata": {"name": "snapshot-uid-a", "annotations": paid}, "spec": {"volume": "pvc-1"}}
    cluster.put(ENGINE_SNAPSHOTS, behind, namespace="longhorn-system")
    volume = {
        "csi": {"driver": "driver.longhorn.io", "volumeHandle": "pvc-1"},
        "claimRef": {"namespace": "shop", "name": "disk"},
    }
    cluster.put(core.PERSISTENT_VOLUMES, {"metadata": {"name": "pv-1"}, "spec": volume})
    theirs = {"csi": {"driver": "csi.example.com", "volumeHandle": "pvc-1"}, "claimRef": {"namespace": "shop", "name": "other"}}
    cluster.put(core.PERSISTENT_VOLUMES, {"metadata": {"name": "pv-2"}, "spec": theirs})  # handles are each driver's own

    found = await read_usage(cluster.session(), "volume", everywhere=False)
    assert table(found, "volume").splitlines() == [
        "NAMESPACE   VOLUME   SNAPSHOTS   USED",
        "shop        data     1           2Gi",
        "shop        disk     3           8Gi",
    ]
    assert found.notes == ["left out are snapshots that say nothing yet about what they take: 1"]
    everywhere = await read_usage(cluster.session(), "volume", everywhere=True)
    assert [(row.namespace, row.name) for row in everywhere.rows] == [("lab", "disk"), ("shop", "data"), ("shop", "disk")]


async def test_by_volume_what_may_not_be_read_is_told_and_what_is_not_installed_is_not() -> None:
    cluster = SpaceCluster(VM_BACKUPS)
    cluster.hidden.add(ENGINE_SNAPSHOTS.name)
    cluster.taking("a", "disk", 3)
    found = await read_usage(cluster.session(), "volume", everywhere=False)
    assert [row.used for row in found.rows] == [3 * GIB]
    assert found.notes == ["snapshots.longhorn.io may not be read: what they take is not among this"]


@pytest.mark.parametrize(
    ("group", "said"),
    [
        pytest.param("namespace", "no snapshot takes anything, and nothing is limited", id="namespaces"),
        pytest.param("vm", "no virtual machine has snapshots that take anything, or a limit", id="virtual machines"),
        pytest.param("volume", "no volume has snapshots", id="volumes"),
    ],
)
async def test_where_there_is_nothing_that_is_said_of_what_was_asked_for(group: GroupBy, said: str) -> None:
    found = await read_usage(SpaceCluster().session(), group, everywhere=False)
    assert (found.rows, found.notes) == ([], [])
    assert nothing(group, complete=not found.notes) == said


@pytest.mark.parametrize("group", ["namespace", "vm", "volume"])
async def test_where_something_may_not_be_read_nobody_says_that_there_is_nothing(group: GroupBy) -> None:
    cluster = SpaceCluster()
    cluster.hidden |= {LEDGERS.name, ENGINE_SNAPSHOTS.name}
    found = await read_usage(cluster.session(), group, everywhere=False)
    assert found.notes
    assert nothing(group, complete=not found.notes) == "nothing is known besides"
