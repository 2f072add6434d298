"""`ullage vm migrate`: what it asks for, when that makes no sense, what it tells meanwhile, how it ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.cli.snapshot.cluster import Json
from tests.unit.cli.vm.cluster import VmCluster
from tests.unit.cli.vm.test_command import WHERE, at, called, refused
from tests.unit.snapshots.api.objects import patched
from ullage.kube.errors import Forbidden
from ullage.kube.kinds import Kind
from ullage.vms.api.migrations import MIGRATIONS

REFUSAL = (
    "maintenance resource is insufficient: memory 1222Mi asked for, 0 used, 0 pending, 1Gi kept; next: ullage usage -n shop"
)


class MovingCluster(VmCluster):
    """`phases`: what becomes of each migration, a step a look."""

    def __init__(self, *absent: Kind[Any]) -> None:
        super().__init__(*absent)
        self.phases: list[Json] = []
        self.refuses: Callable[[str], None] = lambda vm: None
        self.before = self.step

    async def create(self, kind: Kind[Any], obj: Any, *, dry_run: bool = False) -> Any:
        self.refuses(obj.spec.vmi_name)
        return await super().create(kind, obj, dry_run=dry_run)

    @property
    def migrations(self) -> list[Json]:
        return [body for (kind, _, _), body in self.objects.items() if kind == MIGRATIONS.name]

    def step(self) -> None:
        if self.migrations and self.phases:
            place = next(place for place in self.objects if place[0] == MIGRATIONS.name)
            self.objects[place] = patched(self.objects[place], {"status": self.phases.pop(0)})


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> MovingCluster:
    found = MovingCluster()
    at(found, monkeypatch)
    for name in ("db", "web"):
        found.machine(name, printableStatus="Running")
        found.instance(name)
    return found


def moving(cluster: MovingCluster, vm: str, phase: str) -> None:
    cluster.put(MIGRATIONS, {"metadata": {"name": f"{vm}-1"}, "spec": {"vmiName": vm}, "status": {"phase": phase}})


def test_each_vm_is_asked_to_move(cluster: MovingCluster) -> None:
    lines = called("migrate", "db", "shop/web").stdout.splitlines()
    made = cluster.migrations
    assert [one["spec"] for one in made] == [{"vmiName": "db"}, {"vmiName": "web"}]
    assert lines == [
        f"virtualmachine.kubevirt.io/{vm} is moving to another node: "
        f"virtualmachineinstancemigration.kubevirt.io/{one['metadata']['name']}"
        for vm, one in zip(("db", "web"), made, strict=True)
    ]
    assert made[0]["metadata"]["name"].startswith("db-migration-")
    assert made[0]["metadata"]["namespace"] == "shop"


def test_a_dry_run_moves_nothing(cluster: MovingCluster) -> None:
    out = called("migrate", "db", "--dry-run", "--wait").stdout
    assert out.startswith("virtualmachine.kubevirt.io/db would move to another node (dry run): ")
    assert [verb for verb, kind, _ in cluster.asked if kind == MIGRATIONS.name] == ["list", "dry create"]
    assert cluster.migrations == []


def test_one_that_has_moved_before_moves_again(cluster: MovingCluster) -> None:
    moving(cluster, "db", "Succeeded")
    moving(cluster, "web", "Running")
    called("migrate", "db")
    assert len(cluster.migrations) == 3


@pytest.mark.parametrize(
    ("prepare", "text"),
    [
        pytest.param(
            lambda cluster: cluster.objects.pop(("virtualmachineinstances.kubevirt.io", "shop", "db")),
            "VM shop/db does not run: only a VM that runs can move to another node",
            id="stopped",
        ),
        pytest.param(
            lambda cluster: cluster.instance("db", "Scheduling"),
            "VM shop/db does not run: only a VM that runs can move to another node",
            id="starting",
        ),
        pytest.param(
            lambda cluster: moving(cluster, "db", "Running"),
            "VM shop/db is moving already, by db-1, which is Running: wait until it has ended, or end it with: "
            "kubectl delete vmim db-1 -n shop",
            id="moving",
        ),
        pytest.param(
            lambda cluster: moving(cluster, "db", ""),
            "VM shop/db is moving already, by db-1: wait until it has ended, or end it with: kubectl delete vmim db-1 -n shop",
            id="asked to move",
        ),
    ],
)
def test_what_makes_no_sense_is_told_and_the_others_move(
    cluster: MovingCluster, prepare: Callable[[MovingCluster], None], text: str
) -> None:
    prepare(cluster)
    before = len(cluster.migrations)
    assert refused("migrate", "db", "web") == text
    assert [one["spec"]["vmiName"] for one in cluster.migrations[before:]] == ["web"]


def test_what_is_refused_is_told_in_the_words_of_whoever_refuses(cluster: MovingCluster) -> None:
    def refuses(vm: str) -> None:
        if vm == "db":
            raise Forbidden(REFUSAL, code=403)

    cluster.refuses = refuses
    assert refused("migrate", "db", "web") == REFUSAL
    assert [one["spec"]["vmiName"] for one in cluster.migrations] == ["web"]


def test_a_vm_that_is_not_there_moves_nothing(cluster: MovingCluster) -> None:
    assert refused("migrate", "web", "dbb") == "VM dbb does not exist in namespace shop; nothing was changed"
    assert cluster.migrations == []


def test_a_cluster_without_migrations(monkeypatch: pytest.MonkeyPatch) -> None:
    found = at(MovingCluster(MIGRATIONS), monkeypatch)
    found.machine("db")
    found.instance("db")
    assert refused("migrate", "db") == (
        "this cluster does not serve virtualmachineinstancemigrations.kubevirt.io: VMs cannot be moved here"
    )


def test_how_far_it_is_is_told_until_it_has_moved(cluster: MovingCluster) -> None:
    rejected = {"type": "migrationRejectedByResourceQuota", "status": "True", "reason": "Rejected", "message": "exceeded quota"}
    cluster.phases = [
        {"phase": "Pending"},
        {"phase": "Pending", "conditions": [rejected]},
        {"phase": "Running", "conditions": []},
        {"phase": "Succeeded", "migrationState": {"targetNode": "ullage-2", "completed": True}},
    ]
    lines = called("migrate", "db", "--wait").stdout.splitlines()[1:]
    assert lines[:3] == ["shop/db: Pending", "shop/db: Pending: exceeded quota", "shop/db: Running"]
    assert lines[3].startswith("shop/db: Succeeded, runs on ullage-2 (")


def test_one_that_fails_is_told_with_its_reason(cluster: MovingCluster) -> None:
    cluster.phases = [{"phase": "Failed", "migrationState": {"failed": True, "failureReason": "it took too long"}}]
    text = refused("migrate", "db", "--wait")
    assert text.startswith("migration db-migration-")
    assert text.endswith(" has failed: it took too long; VM shop/db stays where it was")


def test_one_that_takes_longer_goes_on(cluster: MovingCluster) -> None:
    cluster.phases = [{"phase": "Running"}]
    text = refused("migrate", "db", "--wait", "--timeout", "1s")
    assert text.startswith(
        "not moved within 1 s: VM shop/db: Running; nothing was stopped, look at it with: kubectl describe vmim "
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param(["a/b/c"], f"{WHERE} a/b/c: a name, or NAMESPACE/NAME, is allowed", id="three parts"),
        pytest.param(
            ["a", "--timeout", "soon"],
            "--timeout soon: not a duration; allowed are hours, minutes and seconds, such as 90s or 1h30m",
            id="a time",
        ),
    ],
)
def test_bad_input_is_refused_before_any_cluster_is_asked(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], text: str
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nonexistent")
    assert refused("migrate", *arguments) == text
