"""What `ullage usage` says of VMs: how the shares stand, what VMs ask for and cost, which migrations hold the reserve."""

from __future__ import annotations

import json
from collections.abc import Mapping

import msgspec
import pytest
from msgspec.structs import replace

from tests.unit.cli.space_cluster import NOW, SpaceCluster
from ullage.cli.common.listing import shown
from ullage.cli.common.options import OutputFormat
from ullage.cli.usage import compute_text, text
from ullage.cli.usage.reading import Reading, read_usage
from ullage.headroom.namespaces import EXCEEDS
from ullage.headroom.shares import MAINTENANCE_QUOTA, RESOURCE_QUOTA
from ullage.kube.builtin.core import NAMESPACES, PODS
from ullage.kube.kinds import Meta
from ullage.ledger.amounts import Takings
from ullage.ledger.api import LEDGERS, NAMESPACE, Count, Ledger, LedgerSpec, LedgerStatus
from ullage.ledger.book import Charge, book
from ullage.ledger.codec import book_of, status_of
from ullage.ledger.packing.sums import Sums, encode
from ullage.vms.api.machines import INSTANCES, VIRTUAL_MACHINES
from ullage.vms.api.migrations import MIGRATIONS

Accounts = Mapping[str, Mapping[str, str]]
COST = {"cpu": "1", "memory": "1222Mi"}
HALVES = {"compute/vms": {"cpu": "2", "memory": "2560Mi"}, "compute/maintenance": {"cpu": "2", "memory": "2560Mi"}}
SHARES = {
    RESOURCE_QUOTA: '{"limit":{"limitsCpu":"4","limitsMemory":"5Gi"}}',
    MAINTENANCE_QUOTA: '{"limit":{"limitsCpuPercent":50,"limitsMemoryPercent":50}}',
}


class VmCluster(SpaceCluster):
    def compute(
        self,
        used: Accounts,
        limits: Accounts = HALVES,
        *,
        reserved: Accounts | None = None,
        name: str = "shop",
        kind: str = VIRTUAL_MACHINES.name,
    ) -> None:
        """A ledger. What is used is of one kind."""
        plain = Ledger(
            metadata=Meta(name=f"ns-{name}", namespace=NAMESPACE),
            spec=LedgerSpec(limits=limits),
            status=LedgerStatus(
                observed={kind: Count(view=4711, time="2026-05-01T11:50:00Z")},
                sums=encode(Sums({kind: Takings.parse(used)}, frozenset({*used, *limits, *(reserved or {})}))),
                since="2026-05-01T11:00:00Z",
                exact_from={kind: 4711},
            ),
        )
        found = book_of(plain, now=NOW)
        if reserved:
            charge = Charge(key=f"{kind}//{name}/next", uid="u", on_version=None, now=Takings.parse(reserved), old=Takings())
            found, refusal = book(found, charge, NOW)
            assert refusal is None
        written = replace(plain, status=status_of(found, plain, sources={kind}, now=NOW))
        self.put(LEDGERS, msgspec.to_builtins(written), namespace=NAMESPACE)

    def machine(
        self, name: str, status: str = "Running", *, strategy: str = "Always", uid: str = "", typed: bool = False
    ) -> None:
        """`typed`: an instance type says how large it is."""
        stamp = {"ullage.io/takes": json.dumps({"compute/vms": COST})}
        limits = {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}, "memory": {"guest": "924Mi"}}
        spec = {"runStrategy": strategy, "template": {"spec": {"domain": {} if typed else limits}}}
        meta = {"name": name, "annotations": stamp, **({"uid": uid} if uid else {})}
        self.put(VIRTUAL_MACHINES, {"metadata": meta, "spec": spec, "status": {"printableStatus": status}})

    def instance(self, name: str, *, owner: str = "", cpus: int = 1, phase: str = "Running") -> None:
        """`owner`: the uid of the VM that controls it; empty: none does."""
        cost = json.dumps({"cpu": str(cpus), "memory": "1222Mi"})
        takes = {} if owner else {"compute/vms": {"cpu": str(cpus), "memory": "1222Mi"}}
        stamp = {"ullage.io/takes": json.dumps(takes), "ullage.io/cost": cost}
        controls = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": name, "uid": owner, "controller": True}
        meta = {"name": name, "annotations": stamp, "ownerReferences": [controls] if owner else []}
        domain = {"cpu": {"cores": cpus}, "resources": {"limits": {"cpu": str(cpus), "memory": "1Gi"}}}
        self.put(INSTANCES, {"metadata": meta, "spec": {"domain": domain}, "status": {"phase": phase}})

    def migration(self, name: str, vm: str, phase: str, *, created: str = "2026-05-01T11:59:30Z") -> None:
        stamp = {"ullage.io/takes": json.dumps({"compute/maintenance": COST})}
        meta = {"name": name, "annotations": stamp, "creationTimestamp": created}
        self.put(MIGRATIONS, {"metadata": meta, "spec": {"vmiName": vm}, "status": {"phase": phase}})

    def namespace(self, **annotations: str) -> None:
        self.put(NAMESPACES, {"metadata": {"name": "shop", "annotations": {**SHARES, **annotations}}})


@pytest.fixture
def cluster() -> VmCluster:
    made = VmCluster()
    made.namespace()
    made.machine("db")
    made.machine("web", "Paused")
    made.machine("old", "Stopped", strategy="Halted")
    return made


def said(found: Reading) -> list[str]:
    lines = [line for one in found.compute for line in compute_text.lines(one, now=NOW)]
    return [*compute_text.shares_table(found.compute).splitlines(), *lines]


async def test_shares_vms_and_who_holds_the_reserve(cluster: VmCluster) -> None:
    taken = {"compute/vms": {"cpu": "1", "memory": "1222Mi"}, "compute/maintenance": {"cpu": "1", "memory": "1222Mi"}}
    cluster.compute(taken, reserved={"compute/vms": {"cpu": "1", "memory": "1222Mi"}})
    cluster.migration("drain-1", "db", "Running", created="2026-05-01T08:59:00Z")
    cluster.migration("drain-0", "web", "Succeeded")
    found = await read_usage(cluster.session(), "namespace", everywhere=False)
    assert said(found) == [
        "NAMESPACE   SHARE         RESOURCE   USED     RESERVED   LIMIT     FREE     %",
        "shop        VMs, pods     cpu        1 core   1 core     2 cores   0        100",
        "shop        VMs, pods     memory     1.2Gi    1.2Gi      2.5Gi     116Mi    95",
        "shop        maintenance   cpu        1 core   0          2 cores   1 core   50",
        "shop        maintenance   memory     1.2Gi    0          2.5Gi     1.3Gi    47",
        "2 VMs run, 1 stopped: they ask for 2 cores and 2Gi, and cost 2 cores and 2.39Gi",
        "migration drain-1 of VM db holds 1 core and 1.2Gi of the maintenance share: Running, asked for 3h ago. It takes long: "
        "see `kubectl describe vmim`, or delete it.",
    ]
    assert found.notes == []


async def test_a_namespace_that_runs_more_than_its_share(cluster: VmCluster) -> None:
    cluster.namespace(**{EXCEEDS: "true"})
    cluster.compute({"compute/vms": {"cpu": "3"}})
    found = await read_usage(cluster.session(), "namespace", everywhere=False)
    assert "shop        VMs, pods     cpu        3 cores   0          2 cores   1 core over   150" in said(found)
    assert said(found)[-1] == (
        "namespace shop runs more than its share (exceedsQuota): until it fits, VMs are not created or changed but to stop or "
        "to shrink"
    )


async def test_what_ordinary_pods_take_is_named(cluster: VmCluster) -> None:
    cluster.compute({"compute/vms": {"cpu": "500m", "memory": "64Mi"}}, kind=PODS.name)
    found = await read_usage(cluster.session(), "namespace", everywhere=False)
    assert said(found)[-1] == "pods that run no VM take 0.5 cores and 64Mi of the share of VMs and pods"


ALONE = {"compute/vms": {"cpu": "3", "memory": "3666Mi"}}


async def test_instances_without_a_vm_are_counted_and_named() -> None:
    cluster = VmCluster()
    cluster.namespace()
    cluster.compute(ALONE, kind=INSTANCES.name)
    cluster.instance("a")
    cluster.instance("b", cpus=2)
    cluster.instance("over", phase="Succeeded")
    found = await read_usage(cluster.session(), "namespace", everywhere=False)
    told = "2 instances without a VM run: they ask for 3 cores and 2Gi, and cost 3 cores and 2.39Gi"
    assert said(found)[-1] == told
    assert "no VM runs" not in "\n".join(said(found))
    assert compute_text.body(found.compute[0])["instances"] == {
        "running": 2,
        "asked": {"cpu": "3", "memory": "2Gi"},
        "cost": {"cpu": "3", "memory": "2444Mi"},
    }
    cluster.machine("old", "Stopped", strategy="Halted")
    found = await read_usage(cluster.session(), "namespace", everywhere=False)
    assert said(found)[-2:] == ["1 VM is stopped", told]


async def test_an_instance_of_a_vm_is_told_with_its_vm_and_says_what_the_vm_asks_for(cluster: VmCluster) -> None:
    """The template of a VM with an instance type says nothing of its size."""
    cluster.machine("typed", uid="u-typed", typed=True)
    cluster.instance("typed", owner="u-typed", cpus=4)
    cluster.instance("gone", owner="u-of-a-vm-that-is-gone")
    cluster.compute({"compute/vms": {"cpu": "3"}})
    found = await read_usage(cluster.session(), "namespace", everywhere=False)
    assert said(found)[-2:] == [
        "3 VMs run, 1 stopped: they ask for 6 cores and 3Gi, and cost 3 cores and 3.59Gi",
        "1 instance without a VM runs: it asks for 1 core and 1Gi, and costs no CPU and no memory",
    ]


async def test_who_may_not_read_ledgers_is_told_what_stands_on_instances_without_a_vm(cluster: VmCluster) -> None:
    cluster.compute({"compute/vms": {"cpu": "9"}})
    cluster.instance("alone")
    cluster.hidden.add(LEDGERS.name)
    found = await read_usage(cluster.session(), "namespace", everywhere=False)
    assert said(found)[1] == "shop        VMs, pods     cpu        3 cores   0          2 cores   1 core over   150"


async def test_of_all_namespaces_the_shares(cluster: VmCluster) -> None:
    cluster.compute({"compute/vms": {"cpu": "1"}}, limits={"compute/vms": {"cpu": "2"}})
    cluster.compute({}, limits={"compute/vms": {"cpu": "0"}}, name="lab")
    cluster.compute({}, limits={"snapshots/namespace": {"storage": "1Gi"}}, name="other")
    found = await read_usage(cluster.session(), "namespace", everywhere=True)
    assert said(found) == [
        "NAMESPACE   SHARE       RESOURCE   USED     RESERVED   LIMIT     FREE     %",
        "lab         VMs, pods   cpu        0        0          0         0        -",
        "shop        VMs, pods   cpu        1 core   0          2 cores   1 core   50",
    ]
    assert not [what for what in cluster.asked if what[1] == VIRTUAL_MACHINES.name], "5,000 VMs are not read for that"


async def test_who_may_not_read_ledgers_is_told_what_stands_on_the_vms(cluster: VmCluster) -> None:
    cluster.compute({"compute/vms": {"cpu": "9"}})
    cluster.migration("m", "db", "Pending")
    cluster.hidden.add(LEDGERS.name)
    found = await read_usage(cluster.session(), "namespace", everywhere=False)
    assert said(found)[1:5] == [
        "shop        VMs, pods     cpu        2 cores   0          2 cores   0        100",
        "shop        VMs, pods     memory     2.39Gi    0          2.5Gi     116Mi    95",
        "shop        maintenance   cpu        1 core    0          2 cores   1 core   50",
        "shop        maintenance   memory     1.2Gi     0          2.5Gi     1.3Gi    47",
    ]
    assert found.notes[-1] == (
        "ledgers may not be read: what VMs take is what stands on those that may be read, and not on other Pods"
    )


async def test_who_may_not_read_vms_is_told_the_shares(cluster: VmCluster) -> None:
    cluster.compute({"compute/vms": {"cpu": "1"}}, limits={"compute/vms": {"cpu": "2"}})
    cluster.hidden |= {VIRTUAL_MACHINES.name, MIGRATIONS.name, NAMESPACES.name}
    found = await read_usage(cluster.session(), "namespace", everywhere=False)
    assert said(found)[1:] == ["shop        VMs, pods   cpu        1 core   0          2 cores   1 core   50"]
    assert found.notes == [f"{kind.name} may not be read: they are not told of" for kind in (VIRTUAL_MACHINES, MIGRATIONS)]


async def test_without_shares_nothing_is_said_of_vms(cluster: VmCluster) -> None:
    cluster.put(NAMESPACES, {"metadata": {"name": "shop"}})
    cluster.ledger(used={"snapshots/namespace": 1}, limits={}, reserved={})
    found = await read_usage(cluster.session(), "namespace", everywhere=False)
    assert found.compute == []
    assert [row.namespace for row in found.rows] == ["shop"]


async def test_for_programs_there_are_quantities(cluster: VmCluster) -> None:
    cluster.compute({"compute/vms": {"cpu": "2", "memory": "2444Mi"}}, limits={"compute/vms": {"cpu": "2"}})
    cluster.migration("m", "db", "Pending")
    found = await read_usage(cluster.session(), "namespace", everywhere=False)
    bodies = {one.namespace: compute_text.body(one) for one in found.compute}
    told = json.loads(shown(found.rows, text.layout("namespace", bodies), OutputFormat("json"), now=NOW))["items"]
    assert [one["namespace"] for one in told] == ["shop"]
    by_kind = {"virtualmachines.kubevirt.io": "2"}
    vms = {"account": "compute/vms", "resource": "cpu", "used": "2", "reserved": "0", "limit": "2", "free": "0"}
    assert told[0]["compute"]["shares"][0] == {**vms, "byKind": by_kind}
    assert told[0]["compute"]["vms"] == {
        "running": 2,
        "stopped": 1,
        "asked": {"cpu": "2", "memory": "2Gi"},
        "cost": {"cpu": "2", "memory": "2444Mi"},
    }
    assert told[0]["compute"]["migrations"] == [
        {
            "name": "m",
            "vm": "db",
            "phase": "Pending",
            "since": "2026-05-01T11:59:30Z",
            "holds": {"cpu": "1", "memory": "1222Mi"},
        }
    ]
    assert told[0]["compute"]["exceeded"] is False
