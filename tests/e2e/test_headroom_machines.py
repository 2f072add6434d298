"""What machines may take, through the real webhook: every way to start, who pays for an instance, and who tries to pay less.

Nobody plays KubeVirt here: what it would write is written in its name. A machine costs what it does in the design, 1 core and
1222Mi.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from ullage.headroom.accounts import ABOUT, MAINTENANCE, VMS, limits_for
from ullage.headroom.namespaces import EXCEEDS
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.ledger.amounts import Amounts
from ullage.ledger.charging.stamps import COST, STAMP
from ullage.ledger.keys import ledger_name
from ullage.ledger.service.limits import set_limits
from ullage.vms.api.machines import INSTANCES, VIRTUAL_MACHINES

from .apart import IS_BORROWED
from .api import Answer
from .headroom_scene import FORMULA
from .snapshot_scene import Json, Scene, eventually, scene

pytestmark = pytest.mark.skipif(IS_BORROWED, reason="the cluster's own webhooks and quotas would answer too")

MERGE = {"Content-Type": "application/merge-patch+json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}
NO_ROOM = "VM available resources are insufficient"
COSTS = {"cpu": "1", "memory": "1222Mi"}
PAYS = {"compute/vms": COSTS}
STOPPED = {"printableStatus": "Stopped", "runStrategy": "Halted"}
START = {"stateChangeRequests": [{"action": "Start"}]}
SHOWN_SECONDS = 20.0  # the aim is 5 s; machines that run tests are busy


def acting(user: str) -> dict[str, str]:
    return {"Impersonate-User": user, "Impersonate-Group": "system:masters"}


PERSON: dict[str, str] = {}
KUBEVIRT = acting("system:serviceaccount:kubevirt:kubevirt-controller")
COLLECTOR = acting("system:serviceaccount:kube-system:generic-garbage-collector")
VIRT_API = acting("system:serviceaccount:kubevirt:kubevirt-apiserver")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("machines")) as made:
        yield made


@pytest.fixture(scope="module")
def served(stage: Scene) -> Iterator[Scene]:
    with stage.running([*stage.webhook(), *FORMULA], stage.controller(*FORMULA)):
        until_stamped(stage)
        yield stage


def until_stamped(stage: Scene) -> None:
    probe = Team(stage)

    def stamps() -> bool:
        stage.api.call("DELETE", f"{probe.machines}/probe")
        made = stage.api.call("POST", probe.machines, probe.machine("probe"))
        return made.code == 201 and STAMP in made.obj["metadata"].get("annotations", {})

    eventually("new machines are stamped", stamps)


class Team:
    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.api = scene.api
        self.namespace = scene.namespace()
        self.machines = VIRTUAL_MACHINES.path(self.namespace)
        self.instances = INSTANCES.path(self.namespace)

    def limit(self, cpu: int, memory: int) -> None:
        """So many cores and Mi for what runs, and as many for what moves. Said on the namespace as well, half of all each, so
        that whoever carries that over to the ledger finds it there."""
        quota = {"limit": {"limitsCpu": f"{2 * cpu}", "limitsMemory": f"{2 * memory}Mi"}}
        percent = {"limit": {"limitsCPUPercent": 50, "limitsMemoryPercent": 50}}
        notes = {"field.cattle.io/resourceQuota": json.dumps(quota), "harvesterhci.io/maintenanceQuota": json.dumps(percent)}
        self.api.merge(f"/api/v1/namespaces/{self.namespace}", {"metadata": {"annotations": notes}})
        share = Amounts.parse({"cpu": str(cpu), "memory": f"{memory}Mi"})
        wanted = {**limits_for(VMS, share), **limits_for(MAINTENANCE, share)}

        async def write() -> None:
            async with Client(Config.load(self.scene.plane.kubeconfig, environ={})) as client:
                await set_limits(client, ledger_name(self.namespace), wanted, about=ABOUT)

        asyncio.run(write())

    # --- what is asked for ---

    def machine(
        self, name: str, *, strategy: str = "Halted", annotations: Mapping[str, str] | None = None, cpu: str = "1"
    ) -> Json:
        return {
            "apiVersion": VIRTUAL_MACHINES.api_version,
            "kind": VIRTUAL_MACHINES.kind,
            "metadata": {"name": name, "annotations": dict(annotations or {})},
            "spec": {"runStrategy": strategy, "template": {"spec": {"domain": domain(cpu)}}},
        }

    def create(self, name: str, *, headers: Mapping[str, str] = PERSON, query: str = "", **given: Any) -> Answer:
        return self.api.call("POST", f"{self.machines}{query}", self.machine(name, **given), headers=headers)

    def stopped(self, name: str, *, strategy: str = "Halted") -> None:
        """A machine that KubeVirt has looked at."""
        assert self.create(name, strategy=strategy).code == 201
        assert self.status(name, {"printableStatus": "Stopped", "runStrategy": strategy}, headers=KUBEVIRT).code == 200

    def patch(self, name: str, body: Json, *, headers: Mapping[str, str] = PERSON, kind: str = "machines") -> Answer:
        return self.api.call("PATCH", f"{getattr(self, kind)}/{name}", body, headers={**headers, **MERGE})

    def run(self, name: str, strategy: str, **given: Any) -> Answer:
        return self.patch(name, {"spec": {"runStrategy": strategy}}, **given)

    def status(self, name: str, status: Json, *, headers: Mapping[str, str] = PERSON, kind: str = "machines") -> Answer:
        path = f"{getattr(self, kind)}/{name}/status"
        return self.api.call("PATCH", path, {"status": status}, headers={**headers, **MERGE})

    def instance(self, name: str, *, owner: str = "", headers: Mapping[str, str] = PERSON, cpu: str = "1") -> Answer:
        reference = {
            "apiVersion": VIRTUAL_MACHINES.api_version,
            "kind": VIRTUAL_MACHINES.kind,
            "name": name,
            "uid": owner,
            "controller": True,
        }
        body = {
            "apiVersion": INSTANCES.api_version,
            "kind": INSTANCES.kind,
            "metadata": {"name": name, **({"ownerReferences": [reference]} if owner else {})},
            "spec": {"domain": domain(cpu)},
        }
        return self.api.call("POST", self.instances, body, headers=headers)

    def started(self, name: str, *, strategy: str = "Always") -> None:
        """A machine with its instance, which runs."""
        assert self.create(name, strategy=strategy).code == 201
        if strategy == "Manual":
            assert self.status(name, START).code == 200
        assert self.instance(name, owner=self.uid(name), headers=KUBEVIRT).code == 201
        assert self.status(name, {"phase": "Running"}, headers=KUBEVIRT, kind="instances").code == 200
        up = {"printableStatus": "Running", "created": True, "runStrategy": strategy, "stateChangeRequests": None}
        assert self.status(name, up, headers=KUBEVIRT).code == 200

    # --- what there is ---

    def uid(self, name: str) -> str:
        return str(self.api.get(f"{self.machines}/{name}").obj["metadata"]["uid"])

    def stamp(self, name: str, *, mark: str = STAMP, kind: str = "machines") -> Any:
        found = self.api.get(f"{getattr(self, kind)}/{name}").obj["metadata"].get("annotations", {})
        return json.loads(found[mark]) if mark in found else None

    def refuses(self, answer: Answer) -> bool:
        """For want of room; anything else that is not allowed is not what was to be shown."""
        assert answer.code in (200, 201, 403), answer.raw[:500]
        if answer.code == 403:
            assert NO_ROOM in answer.message, answer.message
        return answer.code == 403


def domain(cpu: str = "1") -> Json:
    limits = {"cpu": cpu, "memory": "1Gi"}
    return {"cpu": {"cores": int(cpu)}, "memory": {"guest": "924Mi"}, "resources": {"limits": limits}}


@pytest.fixture
def team(served: Scene) -> Team:
    return Team(served)


# --- while the webhook is away: the first of the file, from then on it runs --------------------------------------------


def test_while_the_webhook_is_away_machines_are_stopped_and_deleted_and_not_started(stage: Scene) -> None:
    team = Team(stage)
    with stage.running([*stage.webhook(), *FORMULA]):
        until_stamped(stage)
        team.started("runs")
        team.stopped("rests")
    assert team.run("rests", "Always").code == 500
    assert team.status("rests", START).code == 500
    assert team.create("new").code == 500
    assert team.patch("runs", {"metadata": {"annotations": {STAMP: "{}"}}}).code == 500
    assert team.patch("runs", {"metadata": {"labels": {"a": "b"}}}).code == 200
    assert team.status("runs", {"printableStatus": "Paused"}, headers=KUBEVIRT).code == 200
    assert team.run("runs", "Halted").code == 200
    assert team.status("runs", {"printableStatus": "Stopping"}, headers=KUBEVIRT).code == 200
    assert team.status("runs", {"phase": "Succeeded"}, headers=KUBEVIRT, kind="instances").code == 200
    assert team.status("runs", {**STOPPED, "created": None}, headers=KUBEVIRT).code == 200
    for path in (f"{team.instances}/runs", f"{team.machines}/runs", f"{team.machines}/rests"):
        team.api.delete(path)


# --- every way to start ----------------------------------------------------------------------------------------------


def test_a_halted_machine_costs_nothing_and_starts_where_there_is_room(team: Team) -> None:
    team.limit(2, 2560)
    for name in ("a", "b"):
        assert team.create(name, strategy="Always").code == 201
    team.stopped("c")
    assert team.stamp("c") == PAYS
    refused = team.run("c", "Always")
    assert team.refuses(refused)
    assert "cpu: asked 1 core" in refused.message
    assert "memory: asked 1.2Gi" in refused.message
    assert f"Next: ullage usage -n {team.namespace}" in refused.message
    assert team.run("b", "Halted").code == 200
    assert team.status("b", STOPPED, headers=KUBEVIRT).code == 200
    eventually("the room of b is free", lambda: not team.refuses(team.run("c", "Always")))


@pytest.mark.parametrize("strategy", ["Always", "RerunOnFailure", "Once"])
def test_a_machine_that_is_to_run_is_not_created_where_there_is_no_room(team: Team, strategy: str) -> None:
    team.limit(1, 1300)
    assert team.create("a", strategy=strategy).code == 201
    assert team.refuses(team.create("b", strategy=strategy))
    assert team.create("c", strategy="Manual").code == 201


@pytest.mark.parametrize(
    ("strategy", "headers"),
    [
        pytest.param("Manual", PERSON, id="a person, of one that is started by hand"),
        pytest.param("Manual", VIRT_API, id="KubeVirt's API, of one that is started by hand"),
        pytest.param("Halted", VIRT_API, id="KubeVirt's API, of one that is halted"),
        pytest.param("RerunOnFailure", VIRT_API, id="KubeVirt's API, of one that has ended well"),
    ],
)
def test_a_request_to_start_in_the_status_is_charged(team: Team, strategy: str, headers: Mapping[str, str]) -> None:
    team.limit(1, 1300)
    team.stopped("db", strategy=strategy)
    eventually("db takes nothing", lambda: not team.refuses(team.create("a", strategy="Always")))
    assert team.refuses(team.status("db", START, headers=headers))
    team.api.delete(f"{team.machines}/a")
    eventually("the room of a is free", lambda: not team.refuses(team.status("db", START, headers=headers)))
    assert team.refuses(team.create("b", strategy="Always"))


def test_what_has_happened_is_counted_past_the_limit_for_kubevirt_and_nobody_else(team: Team) -> None:
    team.limit(1, 1300)
    team.stopped("db", strategy="Manual")
    assert team.create("a", strategy="Always").code == 201
    up = {"printableStatus": "Running"}
    assert team.refuses(team.status("db", up))
    assert team.status("db", up, headers=KUBEVIRT).code == 200
    team.api.delete(f"{team.machines}/a")
    assert team.refuses(team.create("b", strategy="Always")), "db has the room"


def test_an_update_counts_its_growth_only_and_a_dry_run_books_nothing(team: Team) -> None:
    team.limit(3, 9000)
    assert team.create("a", strategy="Always").code == 201
    for _ in range(3):
        assert team.create("b", strategy="Always", cpu="2", query="?dryRun=All").code == 201
    assert team.create("b", strategy="Always").code == 201
    assert team.refuses(team.patch("b", {"spec": {"template": {"spec": {"domain": domain("3")}}}}))
    assert team.patch("b", {"spec": {"template": {"spec": {"domain": domain("2")}}}}).code == 200
    assert team.stamp("b")["compute/vms"]["cpu"] == "2"


# --- instances -------------------------------------------------------------------------------------------------------


def test_the_machine_pays_for_its_instance_and_nobody_gets_another_for_nothing(team: Team) -> None:
    team.limit(1, 1300)
    assert team.create("db", strategy="Always").code == 201
    assert team.instance("db", owner=team.uid("db"), headers=KUBEVIRT).code == 201
    assert (team.stamp("db", kind="instances"), team.stamp("db", mark=COST, kind="instances")) == ({}, COSTS)
    assert team.refuses(team.instance("alone"))
    assert team.refuses(team.instance("alone", headers=KUBEVIRT))
    assert team.refuses(team.instance("alone", owner=team.uid("db"))), "an owner of another name"
    team.stopped("web")
    assert team.refuses(team.instance("web", owner=team.uid("web"))), "its machine does not count"
    assert team.refuses(team.instance("web", owner="00000000-0000-0000-0000-000000000000"))


def test_what_is_plugged_into_a_running_instance_is_growth(team: Team) -> None:
    team.limit(3, 9000)
    team.started("db")
    grown = {"spec": {"domain": domain("2")}}
    assert team.patch("db", {"spec": {"template": {"spec": {"domain": domain("2")}}}}).code == 200
    assert team.patch("db", grown, headers=KUBEVIRT, kind="instances").code == 200
    assert (team.stamp("db", kind="instances"), team.stamp("db", mark=COST, kind="instances")["cpu"]) == ({}, "2")
    assert team.refuses(team.patch("db", {"spec": {"domain": domain("4")}}, kind="instances"))
    assert team.patch("db", {"spec": {"domain": domain("1")}}, kind="instances").code == 200
    assert team.stamp("db", mark=COST, kind="instances")["cpu"] == "2", "that it became smaller KubeVirt alone can say"


# --- who tries to pay less -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["machines", "instances"])
def test_nobody_sets_a_stamp(team: Team, kind: str) -> None:
    team.started("db")
    before = (team.stamp("db", kind=kind), team.stamp("db", mark=COST, kind=kind))
    path = f"{getattr(team, kind)}/db"
    forged = {STAMP: '{"compute/vms":{"cpu":"1m"}}', COST: '{"cpu":"1m"}'}
    found = team.api.get(path).obj
    apply = {key: found[key] for key in ("apiVersion", "kind")} | {"metadata": {"name": "db", "annotations": forged}}
    operations = [{"op": "replace", "path": "/metadata/annotations", "value": {}}]
    tries: dict[str, Callable[[], Answer]] = {
        "merge": lambda: team.patch("db", {"metadata": {"annotations": forged}}, kind=kind),
        "removal": lambda: team.patch("db", {"metadata": {"annotations": {STAMP: None, COST: None}}}, kind=kind),
        "apply": lambda: team.api.call("PATCH", f"{path}?fieldManager=me&force=true", apply, headers=APPLY),
        "json patch": lambda: team.api.call("PATCH", path, operations, headers={"Content-Type": "application/json-patch+json"}),
        "status": lambda: team.api.call(
            "PATCH", f"{path}/status", {"metadata": {"annotations": forged}, "status": {"extra": "x"}}, headers=MERGE
        ),
        "kubevirt": lambda: team.patch("db", {"metadata": {"annotations": forged}}, kind=kind, headers=KUBEVIRT),
    }
    for name, attempt in tries.items():
        answer = attempt()
        assert answer.code == 200, (name, answer.raw[:300])
        assert (team.stamp("db", kind=kind), team.stamp("db", mark=COST, kind=kind)) == before, name


def test_nobody_but_kubevirt_says_that_what_runs_has_stopped(team: Team) -> None:
    team.started("db", strategy="Manual")
    lie = {"printableStatus": "Stopped", "created": None}
    refused = team.status("db", lie)
    assert refused.code == 403
    assert "has an instance, which is Running; only KubeVirt says that it has stopped" in refused.message
    ended = team.status("db", {"phase": "Succeeded"}, kind="instances")
    assert ended.code == 403
    assert "only KubeVirt says how VirtualMachineInstance" in ended.message
    assert team.status("db", {"phase": "Succeeded"}, kind="instances", headers=KUBEVIRT).code == 200
    assert team.status("db", lie, headers=KUBEVIRT).code == 200


def test_an_instance_that_is_left_when_its_machine_goes_alone_pays_itself(team: Team) -> None:
    team.limit(1, 1300)
    team.started("db")
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Orphan"}
    team.api.call("DELETE", f"{team.machines}/db", options)
    # Beside kube-apiserver alone nobody collects garbage: it is done in the collector's name.
    assert team.patch("db", {"metadata": {"ownerReferences": None}}, headers=COLLECTOR, kind="instances").code == 200
    assert team.patch("db", {"metadata": {"finalizers": None}}, headers=COLLECTOR).code in (200, 404)
    eventually("the machine is gone", lambda: team.api.get(f"{team.machines}/db").code == 404)
    assert team.api.get(f"{team.instances}/db").code == 200, "and its instance stays"
    assert team.refuses(team.create("next", strategy="Always"))


# --- while the quota is exceeded -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_while_the_quota_is_exceeded_machines_are_stopped_and_made_smaller_and_nothing_else(team: Team) -> None:
    team.limit(2, 2600)
    team.stopped("late", strategy="Manual")
    team.started("db")
    assert team.patch("db", {"spec": {"template": {"spec": {"domain": domain("2")}}}}).code == 200
    assert team.status("late", {"printableStatus": "Running"}, headers=KUBEVIRT).code == 200, "it runs, whatever fits"
    namespace = f"/api/v1/namespaces/{team.namespace}"

    # What is there is said at once. That the count is exact is known when all requests have ended that began before the ledger.
    def over() -> bool:
        return bool(team.api.get(namespace).obj["metadata"]["annotations"].get(EXCEEDS) == "true")

    began = time.monotonic()
    eventually("it is over", over, seconds=SHOWN_SECONDS)
    print(f"exceedsQuota came {time.monotonic() - began:.1f} s after more ran than the share")
    eventually("the webhook knows", lambda: team.create("new", query="?dryRun=All").code == 403)
    refused = team.create("new")
    assert f"namespace {team.namespace} exceeds its quota (harvesterhci.io/exceedsQuota)" in refused.message
    moved = {"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}}
    assert "exceeds its quota" in team.patch("db", moved).message
    assert team.patch("db", {"metadata": {"labels": {"a": "b"}}}).code == 200
    assert team.patch("db", {"spec": {"template": {"spec": {"domain": domain("1")}}}}).code == 200
    assert team.run("db", "Halted").code == 200
    assert team.status("late", {"printableStatus": "Stopped"}, headers=KUBEVIRT).code == 200
    eventually("it is over no more", lambda: not over())
    eventually("the webhook knows", lambda: team.create("new").code == 201)
