"""Migrations, pods and restores against the two shares of a namespace, through the real webhook and controllers.

Nobody plays KubeVirt here: what it would write is written in its name. A machine costs what it does in the design, 1 core and
1222Mi.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest

from ullage.app.up.components import VMS
from ullage.headroom.accounts import MAINTENANCE
from ullage.headroom.accounts import VMS as VMS_ACCOUNT
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.ledger.amounts import Cell
from ullage.ledger.api import LEDGERS, Ledger
from ullage.ledger.api import NAMESPACE as LEDGER_NAMESPACE
from ullage.ledger.charging.stamps import STAMP
from ullage.ledger.codec import book_of
from ullage.ledger.keys import ledger_name
from ullage.vms.api.backups import VM_BACKUPS
from ullage.vms.api.migrations import MIGRATIONS
from ullage.vms.api.restores import VM_RESTORES

from .apart import IS_BORROWED
from .api import Answer
from .engine_scene import EngineScene, install_engines
from .headroom_scene import FORMULA
from .snapshot_scene import Json, Scene, eventually, scene
from .test_headroom_machines import KUBEVIRT, MERGE, NO_ROOM, PERSON, Team, acting, until_stamped

pytestmark = [
    pytest.mark.skipif(IS_BORROWED, reason="the cluster's own webhooks and quotas would answer too"),
    pytest.mark.slow,  # the processes take some seconds
]

OURS = acting("system:serviceaccount:ullage-system:controller")
NO_RESERVE = "maintenance resource is insufficient"
ROOM = 1280  # Mi, for one machine
TAKES = {"compute/maintenance": {"cpu": "1", "memory": "1222Mi"}}
LABEL = "ullage.io/headroom"


class Mover(Team):
    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.migrations = MIGRATIONS.path(self.namespace)
        self.pods = f"/api/v1/namespaces/{self.namespace}/pods"
        self.backups = VM_BACKUPS.path(self.namespace)
        self.restores = VM_RESTORES.path(self.namespace)

    def limited(self, machines: int) -> Mover:
        """Room for so many machines, and for as many migrations at once; exact from then on."""
        self.limit(machines, machines * ROOM)
        labels = f"/api/v1/namespaces/{self.namespace}"
        eventually("it has the label", lambda: LABEL in self.api.get(labels).obj["metadata"].get("labels", {}))
        return self

    def migrate(self, name: str, of: str, *, headers: Mapping[str, str] = PERSON, **meta: Any) -> Answer:
        body = {"metadata": {"name": name, **meta}, "spec": {"vmiName": of}}
        return self.api.call("POST", self.migrations, {**_type(MIGRATIONS), **body}, headers=headers)

    def ended(self, name: str, phase: str = "Succeeded", *, headers: Mapping[str, str] = KUBEVIRT) -> Answer:
        return self.status(name, {"phase": phase}, headers=headers, kind="migrations")

    def pod(self, name: str, *, cpu: str = "1", headers: Mapping[str, str] = PERSON, **meta: Any) -> Answer:
        container = {"name": "c", "image": "i", "resources": {"limits": {"cpu": cpu, "memory": "64Mi"}}}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **meta}, "spec": {"containers": [container]}}
        return self.api.call("POST", self.pods, body, headers=headers)

    def resized(self, name: str, cpu: str) -> Answer:
        resources = {key: {"cpu": cpu, "memory": "64Mi"} for key in ("limits", "requests")}
        change = {"spec": {"containers": [{"name": "c", "resources": resources}]}}
        headers = {"Content-Type": "application/strategic-merge-patch+json"}
        return self.api.call("PATCH", f"{self.pods}/{name}/resize", change, headers=headers)

    def owner(self, name: str) -> Json:
        """As KubeVirt has it on the pod of an instance."""
        uid = self.api.get(f"{self.instances}/{name}").obj["metadata"]["uid"]
        return {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": name, "uid": uid, "controller": True}

    def restore(self, name: str, target: str, **spec: Any) -> Answer:
        wanted = {"target": {"name": target}, "virtualMachineBackupName": "monday", "newVM": True, **spec}
        return self.api.call("POST", self.restores, {**_type(VM_RESTORES), "metadata": {"name": name}, "spec": wanted})

    def used(self, account: str) -> str:
        """Cores, as the ledger has them counted."""

        async def read() -> Ledger:
            async with Client(Config.load(self.scene.plane.kubeconfig, environ={})) as client:
                return await client.get(LEDGERS, ledger_name(self.namespace), LEDGER_NAMESPACE)

        found = book_of(asyncio.run(read()), now=datetime.now(UTC))
        return str(found.used[Cell(account, "cpu")])


def _type(kind: Any) -> Json:
    return {"apiVersion": kind.api_version, "kind": kind.kind}


def has_room(answer: Answer, beginning: str = NO_RESERVE) -> bool:
    """Anything else that is not allowed is not what was to be shown."""
    assert answer.code in (200, 201, 403), answer.raw[:500]
    if answer.code == 403:
        assert beginning in answer.message, answer.message
    return answer.code != 403


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("moves")) as made:
        install_engines(EngineScene(made))  # backups and restores are ours then, too
        yield made


@pytest.fixture(scope="module")
def webhook(stage: Scene) -> Iterator[Scene]:
    with stage.running([*stage.webhook(), *VMS, *FORMULA]):
        until_stamped(stage)
        yield stage


@pytest.fixture(scope="module")
def served(webhook: Scene) -> Iterator[Scene]:
    with webhook.running(controller(webhook)):
        yield webhook


def controller(stage: Scene) -> list[str]:
    return [*stage.controller(), *VMS, *FORMULA]


@pytest.fixture
def team(served: Scene) -> Mover:
    return Mover(served)


# --- while nobody answers: the first of the file ---------------------------------------------------------------------


def test_while_the_webhook_is_away_only_pods_of_namespaces_with_a_share_wait_for_it(stage: Scene) -> None:
    free, shared = Mover(stage), Mover(stage)
    with stage.running([*stage.webhook(), *VMS, *FORMULA], controller(stage)):
        until_stamped(stage)
        shared.limited(2)
        shared.started("db")
        assert shared.migrate("move", "db").code == 201
    assert free.pod("web").code == 201
    assert free.pod("forged", annotations={STAMP: "{}"}).code == 500
    assert shared.pod("web").code == 500
    assert shared.migrate("second", "db").code == 500
    assert shared.ended("move").code == 200, "KubeVirt may always say that one has ended"
    shared.api.delete(f"{shared.migrations}/move")


# --- restores while nobody carries them out: from then on somebody does -------------------------------------------------


def backed_up(team: Mover) -> None:
    """A VM that is stopped, and a backup of it that is ready."""
    team.stopped("db")
    body = {"metadata": {"name": "monday"}, "spec": {"source": {"name": "db"}, "type": "snapshot"}}
    assert team.api.call("POST", team.backups, {**_type(VM_BACKUPS), **body}).code == 201
    path = f"{team.backups}/monday"
    eventually("the backup is ready", lambda: team.api.get(path).obj.get("status", {}).get("readyToUse") is True)


def said(team: Mover, name: str) -> str:
    conditions = team.api.get(f"{team.restores}/{name}").obj.get("status", {}).get("conditions", [])
    return next((one["message"] for one in conditions if one["type"] == "Ready" and one["status"] == "True"), "")


def test_nobody_else_takes_over_the_room_that_a_restore_holds(webhook: Scene) -> None:
    team = Mover(webhook)
    with webhook.running(controller(webhook)):
        team.limited(1)
        backed_up(team)
    assert team.restore("copy", "db-copy", start=True).code == 201
    uid = team.api.get(f"{team.restores}/copy").obj["metadata"]["uid"]
    marks = {"ullage.io/restored-by": uid, "ullage.io/restore": "copy"}
    assert not has_room(team.create("db-copy", strategy="Always", annotations=marks), NO_ROOM), "a person writes the same"
    done = team.status("copy", {"complete": True, "targetUID": "u"}, kind="restores")
    assert (done.code, "only Ullage says how far VirtualMachineRestore" in done.message) == (403, True), done.raw
    assert has_room(team.create("db-copy", strategy="Always", annotations=marks, headers=OURS), NO_ROOM)


def test_where_the_room_is_gone_meanwhile_the_vm_is_made_halted_and_says_why(webhook: Scene) -> None:
    team = Mover(webhook)
    with webhook.running(controller(webhook)):
        team.limited(1)
        backed_up(team)
        team.stopped("rests")
    assert team.restore("copy", "db-copy", start=True).code == 201
    up = {"printableStatus": "Running", "created": True}
    assert team.status("rests", up, headers=KUBEVIRT).code == 200, "what has happened is counted"
    with webhook.running(controller(webhook)):
        eventually("the restore is complete", lambda: "it was to run, and is stopped: " in said(team, "copy"))
        made = team.api.get(f"{team.machines}/db-copy").obj
        assert made["spec"]["runStrategy"] == "Halted"
        why = made["metadata"]["annotations"]["harvesterhci.io/insufficient-resource-quota"]
        assert why.startswith(f"{NO_ROOM}: cpu: asked 1 core, ")
        events = f"/apis/events.k8s.io/v1/namespaces/{team.namespace}/events"
        eventually(
            "an Event tells it",
            lambda: (
                ("InsufficientResourceQuota", "Warning", "db-copy")
                in [(one["reason"], one["type"], one["regarding"]["name"]) for one in team.api.get(events).obj["items"]]
            ),
        )


# --- migrations ------------------------------------------------------------------------------------------------------


def test_a_migration_takes_what_its_instance_costs_until_it_has_ended(team: Mover) -> None:
    team.limited(2)
    team.started("one")
    team.started("two")
    assert team.stamp("one", mark="ullage.io/cost", kind="instances") == TAKES["compute/maintenance"]
    assert team.migrate("first", "one").code == 201
    assert team.stamp("first", kind="migrations") == TAKES
    assert team.migrate("second", "two", headers=KUBEVIRT).code == 201, "it fits exactly"
    refused = team.migrate("third", "one", headers=KUBEVIRT)
    assert not has_room(refused)
    assert f"{NO_RESERVE}: cpu: asked 1 core, used " in refused.message
    assert "share 2 cores; memory: asked 1.2Gi, used " in refused.message
    assert refused.message.endswith(
        f"Next: kubectl get vmim -n {team.namespace}, and try again when one of them has ended, or have the reserve raised"
    )
    assert team.ended("first").code == 200
    eventually("the room of the first is free", lambda: has_room(team.migrate("third", "one")))
    team.api.delete(f"{team.migrations}/second")
    eventually("that of the second, too", lambda: has_room(team.migrate("fourth", "two")))
    assert team.ended("third", "Failed").code == 200
    eventually("one that has failed takes nothing", lambda: has_room(team.migrate("fifth", "one")))
    for name in ("fourth", "fifth"):
        assert team.ended(name).code == 200
    eventually("nothing is used at last", lambda: team.used(MAINTENANCE) == "0")


def test_of_many_migrations_at_once_as_many_are_admitted_as_fit(team: Mover) -> None:
    team.limited(3)
    names = [f"vm-{number}" for number in range(3)]
    for name in names:
        team.started(name)
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda number: team.migrate(f"move-{number}", names[number % 3]), range(12)))
    assert sum(has_room(one) for one in answers) == 3


def test_what_has_no_instance_does_not_move(team: Mover) -> None:
    team.stopped("rests")
    refused = team.migrate("move", "rests")
    assert (refused.code, refused.causes[0]["field"]) == (422, "spec.vmiName")
    assert f"VirtualMachineInstance {team.namespace}/rests does not exist" in refused.message
    team.started("ran")
    assert team.status("ran", {"phase": "Succeeded"}, headers=KUBEVIRT, kind="instances").code == 200
    refused = team.migrate("move", "ran")
    assert refused.code == 422
    assert "has ended (Succeeded): there is nothing to move" in refused.message
    assert team.migrate("move", "").code == 422


def test_a_tenant_does_not_make_a_migration_cheaper(team: Mover) -> None:
    team.limited(1)
    team.started("db")
    assert team.migrate("move", "db", annotations={STAMP: "{}"}).code == 201
    assert team.patch("move", {"metadata": {"annotations": {STAMP: "{}"}}}, kind="migrations").code == 200
    assert team.patch("move", {"metadata": {"annotations": {STAMP: None}}}, kind="migrations").code == 200
    assert team.stamp("move", kind="migrations") == TAKES
    said = team.ended("move", "Failed", headers=PERSON)
    assert said.code == 403
    assert "only KubeVirt says how VirtualMachineInstanceMigration" in said.message
    turned = team.patch("move", {"spec": {"vmiName": "other"}}, kind="migrations")
    assert (turned.code, "it cannot be changed" in turned.message) == (422, True)
    assert not has_room(team.migrate("second", "db"))


# --- pods ------------------------------------------------------------------------------------------------------------


def test_pods_take_of_the_vms_share_and_leave_the_reserve_alone(team: Mover) -> None:
    team.limited(2)
    team.started("db")
    assert team.pod("web").code == 201
    refused = team.pod("more")
    assert not has_room(refused, NO_ROOM)
    assert f"{NO_ROOM}: cpu: asked 1 core, used " in refused.message
    assert not has_room(team.create("vm", strategy="Always"), NO_ROOM), "and VMs share it with them"
    assert team.migrate("move", "db").code == 201, "the reserve is as it was"
    team.api.merge(f"{team.pods}/web/status", {"status": {"phase": "Succeeded"}})
    eventually("one that has ended takes nothing", lambda: has_room(team.pod("more"), NO_ROOM))
    team.api.call("DELETE", f"{team.pods}/more?gracePeriodSeconds=0")
    eventually("nor does one that is gone", lambda: has_room(team.create("vm", strategy="Always"), NO_ROOM))


def test_the_pods_of_instances_are_paid_for_and_nobody_else_makes_such(team: Mover) -> None:
    team.limited(1)
    team.started("db")
    owner = team.owner("db")
    launcher = team.pod("virt-launcher-db", headers=KUBEVIRT, ownerReferences=[owner])
    assert launcher.code == 201, launcher.raw
    assert launcher.obj["metadata"]["annotations"][STAMP] == "{}"
    for forged in ({"ownerReferences": [owner]}, {"annotations": {STAMP: "{}"}, "ownerReferences": [owner]}):
        assert not has_room(team.pod("forged", **forged), NO_ROOM)
    assert not has_room(team.pod("kubevirts", headers=KUBEVIRT), NO_ROOM), "KubeVirt's own, for no instance"
    path = f"{team.pods}/virt-launcher-db"
    orphaned = team.api.call("PATCH", path, {"metadata": {"ownerReferences": None}}, headers=MERGE)
    assert not has_room(orphaned, NO_ROOM), "it would outlive what pays for it"
    grown = team.resized("virt-launcher-db", "2")
    assert grown.code == 403
    assert "which pays for it: its resources are those of the VM" in grown.message
    assert team.api.call("PATCH", path, {"metadata": {"annotations": {STAMP: None}}}, headers=MERGE).code == 200
    assert team.api.get(path).obj["metadata"]["annotations"][STAMP] == "{}"


def test_a_mark_is_kept_from_everybody_where_there_is_no_share_yet(team: Mover) -> None:
    assert team.pod("web", annotations={STAMP: "{}", "mine": "1"}).code == 201
    path = f"{team.pods}/web"
    for place in (path, f"{path}/status"):
        assert team.api.call("PATCH", place, {"metadata": {"annotations": {STAMP: "{}"}}}, headers=MERGE).code == 200
        assert team.api.get(path).obj["metadata"]["annotations"] == {"mine": "1"}
    bound = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "web", "annotations": {STAMP: "{}"}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1"},
    }
    team.api.call("POST", f"{path}/binding", bound)  # kube-apiserver would put it on the pod
    assert team.api.get(path).obj["metadata"]["annotations"] == {"mine": "1"}
    team.limited(1)
    assert not has_room(team.create("vm", strategy="Always"), NO_ROOM), "what was there before the share counts in it"


def test_a_pod_that_is_resized_pays_what_it_grows_by(team: Mover) -> None:
    team.limited(2)
    assert team.pod("web").code == 201
    assert not has_room(team.resized("web", "3"), NO_ROOM)
    assert has_room(team.resized("web", "2"), NO_ROOM)
    assert not has_room(team.pod("more"), NO_ROOM)


# --- restores --------------------------------------------------------------------------------------------------------


def test_a_restore_whose_vm_is_to_run_has_to_fit_and_is_counted_once(team: Mover) -> None:
    team.limited(1)
    backed_up(team)
    team.started("web")
    refused = team.restore("copy", "db-copy", start=True)
    assert not has_room(refused, NO_ROOM)
    assert f"{NO_ROOM}: cpu: asked 1 core, used " in refused.message
    assert team.restore("rests", "db-rests").code == 201, "one that is left stopped takes nothing"
    team.api.delete(f"{team.machines}/web")
    team.api.call("DELETE", f"{team.instances}/web")  # where nobody else collects it
    eventually("there is room for it", lambda: has_room(team.restore("copy", "db-copy", start=True), NO_ROOM))
    eventually("it is complete", lambda: said(team, "copy").endswith("; it is started"))
    assert team.api.get(f"{team.machines}/db-copy").obj["spec"]["runStrategy"] == "Always"
    eventually("it is counted once", lambda: team.used(VMS_ACCOUNT) == "1")
    assert not has_room(team.create("more", strategy="Always"), NO_ROOM)
