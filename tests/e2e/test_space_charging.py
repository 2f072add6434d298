"""Snapshot space through the real webhook: what fits, what does not, and who tries to pay less."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.ledger.keys import ledger_name
from ullage.ledger.service.limits import set_limits
from ullage.quantity import Quantity
from ullage.space.accounts import NAMESPACE_CELL, stamp_for, vm_cell
from ullage.vms.api.machines import VIRTUAL_MACHINES

from .apart import IS_BORROWED
from .api import Answer
from .snapshot_scene import BOTH, GA, VOLUMES, Dialect, Json, Scene, eventually, scene

KIB = 1024

pytestmark = pytest.mark.skipif(IS_BORROWED, reason="the cluster's own webhooks and quotas would answer too")
both = pytest.mark.parametrize("dialect", BOTH, ids=lambda one: str(one.name))


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Ullage is installed, and KubeVirt's kinds. Longhorn is not: what is asked of its kinds has to do without."""
    with scene(tmp_path_factory.mktemp("charging")) as made:
        made.storage_class("any", "csi.example.com")
        yield made


@pytest.fixture(scope="module")
def served(stage: Scene) -> Iterator[Scene]:
    with stage.running(stage.webhook()):
        probe = stage.namespace()
        path = GA.snapshots(probe)

        def stamps() -> bool:
            stage.api.call("DELETE", f"{path}/probe")
            made = post(stage, path, GA.of_claim("probe", "none"))
            return made.code == 201 and "ullage.io/takes" in made.obj["metadata"].get("annotations", {})

        eventually("new snapshots are stamped", stamps)
        yield stage


def post(scene: Scene, path: str, body: Json) -> Answer:
    return scene.api.call("POST", path, body)


class Team:
    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.api = scene.api
        self.namespace = scene.namespace()

    def claim(self, name: str, *, holds: int) -> None:
        """A bound claim whose volume was measured to hold so many bytes."""
        source = {"csi": {"driver": "csi.example.com", "volumeHandle": f"{self.namespace}-{name}"}}
        self.scene.bound_claim(self.namespace, name, source=source, storage_class="any")
        used = json.dumps({"bytes": holds, "at": "2026-01-01T00:00:00Z", "by": "allocated-blocks"})
        self.api.merge(f"{VOLUMES}/{self.namespace}-{name}", {"metadata": {"annotations": {"ullage.io/used": used}}})

    def vm(self, name: str, claim: str) -> None:
        disk = {"name": "root", "persistentVolumeClaim": {"claimName": claim}}
        body = {
            "apiVersion": "kubevirt.io/v1",
            "kind": "VirtualMachine",
            "metadata": {"name": name},
            "spec": {"runStrategy": "Halted", "template": {"spec": {"domain": {"devices": {}}, "volumes": [disk]}}},
        }
        self.api.create(VIRTUAL_MACHINES.path(self.namespace), body)

    def limit(self, amount: int, **vms: int) -> None:
        """What the quota's controller does."""
        limits = {NAMESPACE_CELL: Quantity.of(amount), **{vm_cell(vm): Quantity.of(bytes) for vm, bytes in vms.items()}}

        async def write() -> None:
            async with Client(Config.load(self.scene.plane.kubeconfig, environ={})) as client:
                await set_limits(client, ledger_name(self.namespace), limits)

        asyncio.run(write())

    def stamped(self, dialect: Dialect, name: str) -> Any:
        return self.api.get(f"{dialect.snapshots(self.namespace)}/{name}").obj["metadata"]["annotations"]["ullage.io/takes"]


@pytest.fixture
def team(served: Scene) -> Team:
    return Team(served)


def test_while_the_webhook_is_away_nothing_is_admitted_but_what_leaves_the_marks_alone(stage: Scene) -> None:
    """The first in the file: from then on the webhook runs."""
    team = Team(stage)
    with stage.running(stage.webhook()):
        path = GA.snapshots(team.namespace)
        eventually("a snapshot is made", lambda: post(stage, path, GA.of_claim("snap", "none")).code == 201)
    one = f"{path}/snap"
    assert post(stage, path, GA.of_claim("other", "none")).code == 500
    assert stage.api.merge(one, {"metadata": {"labels": {"a": "b"}}})
    forged = {"metadata": {"annotations": {"ullage.io/takes": "{}"}}}
    assert stage.api.call("PATCH", one, forged, headers={"Content-Type": "application/merge-patch+json"}).code == 500
    stage.api.delete(one)


@both
def test_exactly_full_is_allowed_and_one_byte_over_is_refused(team: Team, dialect: Dialect) -> None:
    team.claim("disk", holds=4 * KIB)
    team.claim("byte", holds=1)
    team.claim("still", holds=0)
    team.limit(8 * KIB)
    path = dialect.snapshots(team.namespace)
    for name in ("first", "second"):
        team.api.create(path, dialect.of_claim(name, "disk"))
    refused = post(team.scene, path, dialect.of_claim("third", "byte"))
    assert (refused.code, refused.reason) == (403, "Forbidden")
    assert "does not fit: snapshots/namespace storage: asked 1 byte, " in refused.message
    assert ", limit 8Ki, over by 1 byte. Next: delete snapshots that are not needed any more" in refused.message
    team.api.create(path, dialect.of_claim("third", "still"))
    team.api.delete(f"{path}/first")
    eventually("room is made", lambda: post(team.scene, path, dialect.of_claim("fourth", "disk")).code == 201)


def test_the_virtual_machine_is_told_first(team: Team) -> None:
    team.claim("disk", holds=4 * KIB)
    team.vm("db", "disk")
    team.limit(2 * KIB, db=KIB)
    path = GA.snapshots(team.namespace)

    def refusal() -> str:
        """The webhook may not have heard of the machine and its limit yet."""
        return post(team.scene, f"{path}?dryRun=All", GA.of_claim("snap", "disk")).message

    eventually("the machine pays", lambda: "snapshots/vm/db" in refusal())
    vm, namespace = (
        refusal().index("snapshots/vm/db storage: asked 4Ki"),
        refusal().index("snapshots/namespace storage: asked 4Ki"),
    )
    assert vm < namespace


@both
def test_marks_of_a_person_are_replaced_and_edits_put_back_also_while_it_goes(team: Team, dialect: Dialect) -> None:
    team.claim("disk", holds=4 * KIB)
    path, wanted = dialect.snapshots(team.namespace), str(stamp_for(4 * KIB))
    body = dialect.of_claim("snap", "disk")
    body["metadata"] |= {"annotations": {"ullage.io/takes": "{}", "ullage.io/cut": "go@x"}, "finalizers": ["example.com/held"]}
    made = team.api.create(path, body)
    assert made["metadata"]["annotations"]["ullage.io/takes"] == wanted
    assert "ullage.io/cut" not in made["metadata"]["annotations"]
    one = f"{path}/snap"

    def edit() -> None:
        team.api.merge(one, {"metadata": {"annotations": {"ullage.io/takes": "{}", "ullage.io/charged-namespace": "other"}}})
        assert team.stamped(dialect, "snap") == wanted
        bare: Json = team.api.get(one).obj
        del bare["metadata"]["annotations"]
        marks = team.api.replace(one, bare)["metadata"]["annotations"]
        assert (marks["ullage.io/takes"], "ullage.io/charged-namespace" in marks) == (wanted, False)

    edit()
    team.api.delete(one)
    assert "deletionTimestamp" in team.api.get(one).obj["metadata"]
    edit()
    team.api.merge(one, {"metadata": {"finalizers": None}})
