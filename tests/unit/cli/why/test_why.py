"""What `ullage why` says."""

from __future__ import annotations

import pytest

from tests.unit.cli.space_cluster import GIB, NOW, SpaceCluster
from ullage.cli.common.session import Missing
from ullage.cli.why import subjects, text
from ullage.cli.why.reading import explain
from ullage.engines.api import ENGINE_SNAPSHOTS
from ullage.errors import BadInput
from ullage.kube.builtin.core import NAMESPACES
from ullage.kube.builtin.events import EVENTS
from ullage.ledger.api import LEDGERS
from ullage.policies.counts.api import SNAPSHOT_LIMITS
from ullage.vms.api.backups import VM_BACKUPS
from ullage.vms.api.machines import VIRTUAL_MACHINES

NS, DB, ALL, CLAIM = "snapshots/namespace", "snapshots/vm/db", "snapshot-count/namespace", "snapshot-count/claim/"


async def said(cluster: SpaceCluster, asked: str) -> list[str]:
    found = await explain(cluster.session(), *subjects.parse(asked))
    return [
        *(f"note: {note}" for note in found.notes),
        *text.answer(found.head, found.accounts, found.events, now=NOW).splitlines(),
    ]


@pytest.fixture
def cluster() -> SpaceCluster:
    made = SpaceCluster()
    made.ledger(used={NS: 30, DB: 20}, limits={NS: 100, DB: 15}, reserved={NS: 5})
    return made


async def test_a_snapshot_that_waits_says_what_it_takes_from_whom_and_why_it_is_not_ready(cluster: SpaceCluster) -> None:
    status = {"error": {"message": "SnapshotSpaceExceeded: it does not fit", "time": "2026-05-01T11:55:00Z"}}
    cluster.taking("nightly", "disk", 10, "db", annotations={"ullage.io/estimated-by": "engine-head"}, status=status)
    event = {"type": "Warning", "reason": "NoRoom", "note": "5Gi too much", "regarding": {"uid": "uid-nightly"}}
    cluster.put(EVENTS, {"metadata": {"name": "e1"}, "eventTime": "2026-05-01T11:58:00.000000Z", **event})
    lines = await said(cluster, "volumesnapshot/nightly")
    assert lines[0] == "Object:    volumesnapshot.snapshot.storage.k8s.io shop/nightly"
    assert lines[1].startswith("State:     not ready: ")
    assert "it does not fit" in lines[1]
    assert lines[2] == "Takes:     10Gi, known by what the engine's head holds"
    assert lines[4:8] == [
        "ACCOUNT               TAKES   USED   RESERVED   LIMIT   FREE",
        "snapshots/vm/db       10Gi    20Gi   0          15Gi    0",
        "snapshots/namespace   10Gi    30Gi   5Gi        100Gi   65Gi",
        "snapshots/vm/db is 5Gi over its limit: no new snapshot is admitted",
    ]
    assert lines[9].split() == ["EVENT", "LAST", "SEEN", "REASON", "MESSAGE"]
    assert "5Gi too much" in lines[10]


async def test_a_member_of_a_backup_takes_nothing_and_says_who_pays(cluster: SpaceCluster) -> None:
    owner = {"apiVersion": "x/v1", "kind": "VirtualMachineBackup", "name": "b", "uid": "u", "controller": True}
    cluster.taking("member", "disk", 0, ownerReferences=[owner], status={"readyToUse": True})
    lines = await said(cluster, "vs/member")
    assert lines[1:3] == ["State:     ready", "Takes:     nothing: VirtualMachineBackup b pays for it"]


async def test_what_nobody_has_stamped_is_not_known_yet(cluster: SpaceCluster) -> None:
    cluster.taking("new", "disk", None)
    assert "Takes:     not known yet: nobody has said what it takes" in await said(cluster, "volumesnapshots/new")


async def test_a_failed_backup_says_why(cluster: SpaceCluster) -> None:
    failed = {"type": "Failed", "status": "True", "reason": "SnapshotSpaceExceeded", "message": "volume disk: 5Gi too much"}
    spec = {"source": {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "db"}}
    annotations = {"ullage.io/takes": '{"snapshots/namespace":{"storage":"2Gi"}}', "ullage.io/estimated-by": "capacity"}
    meta = {"name": "b", "annotations": annotations}
    cluster.put(VM_BACKUPS, {"metadata": meta, "spec": spec, "status": {"conditions": [failed]}})
    lines = await said(cluster, "vmbackup/b")
    assert lines[0:3] == [
        "Object:    virtualmachinebackup.harvesterhci.io shop/b",
        "State:     failed: volume disk: 5Gi too much (SnapshotSpaceExceeded)",
        "Takes:     2Gi, known by the capacity of the claim, which is an upper bound",
    ]


async def test_an_engines_snapshot_is_paid_for_by_the_namespace_of_the_claim(cluster: SpaceCluster) -> None:
    charged = {"ullage.io/charged-namespace": "shop", "ullage.io/takes": '{"snapshots/namespace":{"storage":"1Gi"}}'}
    for name, marks in (("paid", charged), ("free", {})):
        body = {
            "metadata": {"name": name, "annotations": marks},
            "spec": {"volume": "v"},
            "status": {"error": "detached"},
        }
        cluster.put(ENGINE_SNAPSHOTS, body, namespace="longhorn-system")
    lines = await said(cluster, "snapshots.longhorn.io/paid")
    assert lines[1:3] == ["State:     not ready: detached", "Takes:     1Gi"]
    assert lines[5] == "snapshots/namespace   1Gi     30Gi   5Gi        100Gi   65Gi"
    assert (await said(cluster, "snapshots.longhorn.io/free"))[2:] == ["Takes:     nothing: no namespace pays for it"]


async def test_of_a_virtual_machine_and_a_namespace_the_accounts_are_shown(cluster: SpaceCluster) -> None:
    cluster.put(VIRTUAL_MACHINES, {"metadata": {"name": "db"}})
    cluster.put(NAMESPACES, {"metadata": {"name": "shop"}})
    assert (await said(cluster, "vm/db"))[2:5] == [
        "ACCOUNT               TAKES   USED   RESERVED   LIMIT   FREE",
        "snapshots/vm/db       -       20Gi   0          15Gi    0",
        "snapshots/namespace   -       30Gi   5Gi        100Gi   65Gi",
    ]
    assert (await said(cluster, "ns/shop"))[0] == "Object:    namespace shop"


async def test_who_may_not_read_ledgers_is_told_so(cluster: SpaceCluster) -> None:
    cluster.hidden.add(LEDGERS.name)
    cluster.quota(limit=10, usage={"namespaceTotalSnapshotSizeUsage": 3 * GIB})
    cluster.taking("nightly", "disk", 1)
    lines = await said(cluster, "vs/nightly")
    assert lines[0].startswith("note: ledgers may not be read")
    assert lines[-1] == "snapshots/namespace   1Gi     3Gi    -          10Gi    7Gi"


async def test_a_snapshot_has_a_place_among_those_of_its_claim_and_of_its_namespace() -> None:
    cluster = SpaceCluster()
    counts = {ALL: 9, f"{CLAIM}disk": 5, f"{CLAIM}other": 4}
    cluster.ledger(used={NS: 3}, limits={}, reserved={}, counts=counts, most={ALL: 20, f"{CLAIM}*": 4})
    cluster.taking("nightly", "disk", 1)
    assert (await said(cluster, "vs/nightly"))[4:] == [
        "ACCOUNT                     TAKES        USED          RESERVED   LIMIT          FREE",
        "snapshots/namespace         1Gi          3Gi           0          none           -",
        "snapshot-count/claim/disk   1 snapshot   5 snapshots   0          4 snapshots    0",
        "snapshot-count/namespace    1 snapshot   9 snapshots   0          20 snapshots   11 snapshots",
        "snapshot-count/claim/disk is 1 snapshot over its limit: no new snapshot is admitted",
    ]
    found = await explain(cluster.session(), "vs", "nightly")
    assert text.written({}, found.accounts)["accounts"][1] == {
        "account": f"{CLAIM}disk",
        "used": 5,
        "takes": 1,
        "reserved": 0,
        "limit": 4,
        "free": -1,
    }
    cluster.put(NAMESPACES, {"metadata": {"name": "shop"}})
    assert [row.split()[:2] for row in (await said(cluster, "ns/shop"))[3:]] == [[NS, "-"], [ALL, "-"]]


async def test_who_may_not_read_ledgers_is_told_what_the_snapshot_limits_say(cluster: SpaceCluster) -> None:
    cluster.hidden.add(LEDGERS.name)
    status = {"used": 2, "claims": [{"claim": "disk", "used": 2}]}
    cluster.put(SNAPSHOT_LIMITS, {"metadata": {"name": "limit"}, "spec": {"snapshotsPerClaim": 2}, "status": status})
    cluster.taking("nightly", "disk", 1)
    rows = [line.split() for line in (await said(cluster, "vs/nightly"))[-2:]]
    assert rows == [
        [f"{CLAIM}disk", "1", "snapshot", "2", "snapshots", "-", "2", "snapshots", "0"],
        [ALL, "1", "snapshot", "2", "snapshots", "-", "none", "-"],
    ]


async def test_where_nothing_is_limited_nobody_is_said_to_use_nothing() -> None:
    cluster = SpaceCluster()
    cluster.taking("nightly", "disk", 1)
    lines = await said(cluster, "vs/nightly")
    assert lines[0] == "note: nothing is limited in namespace shop, so no ledger counts there; see: ullage usage -n shop"
    assert lines[-1] == "snapshots/namespace   1Gi     -      -          none    -"


@pytest.mark.parametrize(
    "word",
    [
        *("volumesnapshot", "volumesnapshots", "VolumeSnapshot", "vs", "volumesnapshots.snapshot.storage.k8s.io"),
        *("vmbackup", "vmbackups", "vmb", "virtualmachinebackup", "virtualmachinebackups.harvesterhci.io"),
        *("vm", "vms", "virtualmachine", "virtualmachines.kubevirt.io", "ns", "namespace", "namespaces"),
        *("lhsnap", "snapshot.longhorn.io", "snapshots.longhorn.io", "volumesnapshot.volumesnapshot.external-storage.k8s.io"),
    ],
)
def test_a_kind_is_called_as_kubectl_calls_it(word: str) -> None:
    assert subjects.parse(f"{word}/db") == (word.lower(), "db")


async def test_what_an_object_is_called_in_the_answer_can_be_asked_for(cluster: SpaceCluster) -> None:
    spec = {"source": {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "db"}}
    cluster.put(VM_BACKUPS, {"metadata": {"name": "db"}, "spec": spec})
    cluster.put(VIRTUAL_MACHINES, {"metadata": {"name": "db"}})
    cluster.taking("db", "disk", 1)
    cluster.put(ENGINE_SNAPSHOTS, {"metadata": {"name": "db"}, "spec": {"volume": "v"}}, namespace="longhorn-system")
    for word in ("vmb", "vm", "vs", "lhsnap"):
        (first, *_) = await said(cluster, f"{word}/db")
        kind = first.split()[1]
        assert (await said(cluster, f"{kind}/db"))[0] == first


@pytest.mark.parametrize(
    "asked",
    [
        *("", "nightly", "volumesnapshot/", "pods/a", "vs/Not_A_Name", "snapshot/a"),
        *("volumesnapshot.example.com/a", "vmbackup.kubevirt.io/a"),
    ],
)
def test_what_cannot_be_asked_about_is_refused_with_what_can(asked: str) -> None:
    with pytest.raises(BadInput, match=r"volumesnapshot/NAME, vmbackup/NAME, snapshots\.longhorn\.io/NAME, vm/NAME or ns/NAME"):
        subjects.parse(asked)


@pytest.mark.parametrize(
    ("asked", "text_"),
    [
        ("vs/gone", "there is no volumesnapshot gone in namespace shop"),
        ("vmb/gone", "there is no virtualmachinebackup.harvesterhci.io gone in namespace shop"),
        ("ns/gone", "there is no namespace gone"),
    ],
)
async def test_what_is_not_there_is_named(cluster: SpaceCluster, asked: str, text_: str) -> None:
    with pytest.raises(Missing, match=text_):
        await said(cluster, asked)


async def test_for_programs_there_are_bytes(cluster: SpaceCluster) -> None:
    cluster.taking("nightly", "disk", 10)
    found = await explain(cluster.session(), "vs", "nightly")
    told = text.written({"object": "x"}, found.accounts)
    assert told == {
        "object": "x",
        "accounts": [
            {
                "account": NS,
                "used": 30 * GIB,
                "takes": 10 * GIB,
                "reserved": 5 * GIB,
                "limit": 100 * GIB,
                "free": 65 * GIB,
            }
        ],
    }
