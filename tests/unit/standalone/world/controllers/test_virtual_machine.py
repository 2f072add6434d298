"""VMs on an API in memory and a real host of engines: they start, stop, pause, restart and change their volumes, and every
process may die at any single effect."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

from tests.unit.snapshots.memory_api import Told
from tests.unit.standalone.world.longhorn import NAME, Place, WholeApi, place_in
from ullage.clock import SystemClock
from ullage.kube.backoff import Backoff
from ullage.kube.builtin.core import CLAIMS, NODES
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.errors import Forbidden
from ullage.kube.events.recorder import Recorder
from ullage.standalone.world.controllers import virtual_machine as controller
from ullage.standalone.world.controllers.virtual_machine import VirtualMachineController
from ullage.vms import lifecycle
from ullage.vms.api.machines import INSTANCES, VIRTUAL_MACHINES, VirtualMachine, VirtualMachineInstance

Json = dict[str, Any]
ATTACHED: Final = ("attached", "running")
DETACHED: Final = ("detached", "stopped")
OTHER: Final = "99999999-2222-3333-4444-555555555555"


class Machines:
    """A VM `db`, and whoever tells it what to do."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.api = place.api

    def create(self, strategy: str = "Always", *volumes: Json, **template: Any) -> None:
        spec = {"domain": {"devices": {"disks": [{"name": "data"}]}}, "volumes": [volume("data"), *volumes], **template}
        body = {
            "metadata": {"name": "db", "namespace": "default", "uid": "uid-db", "generation": 1},
            "spec": {"runStrategy": strategy, "template": {"metadata": {"labels": {"app": "db"}}, "spec": spec}},
        }
        self.api.put(VIRTUAL_MACHINES, body)

    def edit(self, spec: Json) -> None:
        generation = self.machine["metadata"]["generation"] + 1
        self.api.edit(VIRTUAL_MACHINES, "db", "default", merge={"metadata": {"generation": generation}, "spec": spec})

    async def ask(self, action: str) -> None:
        """As `ullage vm` does it."""
        machine: VirtualMachine = await self.api.find(VIRTUAL_MACHINES, "db", "default")
        instance: VirtualMachineInstance | None = await self.api.find(INSTANCES, "db", "default")
        change = lifecycle.ACTIONS[action](machine, instance)
        if change.machine:
            self.edit(change.machine["spec"])
        if change.status:
            self.api.edit(VIRTUAL_MACHINES, "db", "default", merge=change.status)
        if change.instance:
            self.api.edit(INSTANCES, "db", "default", merge=change.instance)

    @property
    def machine(self) -> Json:
        return self.api.body(VIRTUAL_MACHINES, "db", "default") or {}

    @property
    def instance(self) -> Json:
        return self.api.body(INSTANCES, "db", "default") or {}

    @property
    def word(self) -> str:
        return str(self.machine.get("status", {}).get("printableStatus", ""))

    def says(self, word: str) -> Callable[[], bool]:
        return lambda: self.word == word and not self.machine["status"].get("stateChangeRequests")

    def condition(self, type: str) -> str:
        found = self.machine.get("status", {}).get("conditions", ())
        return next(
            (f"{one['reason']}: {one['message']}" for one in found if one["type"] == type and one["status"] == "True"), ""
        )


def volume(name: str, **claim: Any) -> Json:
    return {"name": name, "persistentVolumeClaim": {"claimName": name, **claim}}


async def test_a_vm_runs_with_its_volume_attached_and_stops(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        vm = Machines(place)
        place.claim()
        vm.create(architecture="amd64")
        await place.live(vm.says("Running"))
        assert place.states() == ATTACHED
        made = vm.instance
        assert made["spec"]["architecture"] == "amd64"
        assert made["metadata"]["labels"] == {"app": "db"}
        assert [(one["kind"], one["name"], one["controller"]) for one in made["metadata"]["ownerReferences"]] == [
            ("VirtualMachine", "db", True)
        ]
        assert (made["status"]["phase"], made["status"]["nodeName"]) == ("Running", "ullage")
        assert [(one["name"], one["target"]) for one in made["status"]["volumeStatus"]] == [("data", "vda")]
        assert (vm.machine["status"]["ready"], vm.machine["status"]["created"]) == (True, True)
        await vm.ask("stop")
        await place.live(lambda: vm.word == "Stopped" and place.states() == DETACHED)
        assert not vm.instance
        assert vm.machine["status"].get("ready", False) is False
        assert vm.machine["spec"]["runStrategy"] == "Halted"
        assert [reason for reason in place.told.reasons if reason in ("SuccessfulCreate", "SuccessfulDelete")] == [
            "SuccessfulCreate",  # the instance
            "SuccessfulCreate",  # its pod
            "SuccessfulDelete",
        ]


@pytest.mark.parametrize("strategy", ["Always", "Manual", "RerunOnFailure"])
async def test_a_restart_makes_another_instance(tmp_path: Path, strategy: str) -> None:
    async with place_in(tmp_path) as place:
        vm = Machines(place)
        place.claim()
        vm.create(strategy)
        if strategy == "Manual":
            await place.live(vm.says("Stopped"))
            await vm.ask("start")
        await place.live(vm.says("Running"))
        first = vm.instance["metadata"]["uid"]
        await vm.ask("restart")
        await place.live(lambda: vm.says("Running")() and vm.instance["metadata"]["uid"] != first)
        assert vm.machine["spec"]["runStrategy"] == strategy


async def test_what_was_stopped_by_hand_stays_so_and_what_failed_comes_again(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        vm = Machines(place)
        place.claim()
        vm.create("RerunOnFailure")
        await place.live(vm.says("Running"))
        first = vm.instance["metadata"]["uid"]
        place.api.edit(INSTANCES, "db", "default", merge={"status": {"phase": "Failed"}})
        await place.live(lambda: vm.says("Running")() and vm.instance["metadata"]["uid"] != first)
        await vm.ask("stop")
        await place.live(lambda: vm.says("Stopped")() and place.states() == DETACHED)
        assert vm.machine["spec"]["runStrategy"] == "RerunOnFailure"
        await vm.ask("start")
        await place.live(vm.says("Running"))


async def test_a_paused_vm_keeps_its_volumes(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        vm = Machines(place)
        place.claim()
        vm.create()
        await place.live(vm.says("Running"))
        await vm.ask("pause")
        await place.live(vm.says("Paused"))
        assert vm.condition("Paused") == "PausedByUser: VMI was paused by user"
        assert vm.machine["status"].get("ready", False) is False
        assert place.states() == ATTACHED
        await vm.ask("unpause")
        await place.live(vm.says("Running"))
        assert not vm.condition("Paused")


async def test_a_vm_waits_for_its_claims(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        vm = Machines(place)
        vm.create()
        await place.live(vm.says("ErrorPvcNotFound"))
        place.api.put(CLAIMS, {"metadata": {"name": "data", "namespace": "default"}, "spec": {"storageClassName": ""}})
        await place.live(vm.says("WaitingForVolumeBinding"))
        place.claim()
        await place.live(vm.says("Running"))


async def test_a_vm_waits_for_its_node(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        vm = Machines(place)
        place.api.edit(NODES, "ullage", merge={"spec": {"unschedulable": True}})
        place.claim()
        vm.create()
        await place.live(vm.says("Unschedulable"))
        await place.live(lambda: place.states() == DETACHED)  # the engine of a new volume says so a moment later
        place.api.edit(NODES, "ullage", merge={"spec": {"unschedulable": False}})
        await place.live(vm.says("Running"))


async def test_volumes_come_and_go_while_a_vm_runs(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        vm = Machines(place)
        place.claim()
        vm.create()
        await place.live(vm.says("Running"))
        first = vm.instance["metadata"]["uid"]
        body = dict(place.api.body(CLAIMS, "data", "default") or {})
        spec = {key: value for key, value in body["spec"].items() if key != "volumeName"}
        place.api.put(CLAIMS, {"metadata": {"name": "more", "namespace": "default", "uid": OTHER}, "spec": spec})
        disks = {"devices": {"disks": [{"name": "data"}, {"name": "more"}]}}
        both = [volume("data"), volume("more", hotpluggable=True)]
        vm.edit({"template": {"spec": {"volumes": both, "domain": disks}}})
        await place.live(lambda: place.states(f"pvc-{OTHER}") == ATTACHED and _phases(vm) == {"data": "", "more": "Ready"})
        assert vm.instance["spec"]["domain"] == disks
        assert vm.instance["metadata"]["annotations"]["kubevirt.io/vm-generation"] == "2"

        vm.edit({"template": {"spec": {"volumes": [volume("data")], "domain": {"devices": {"disks": [{"name": "data"}]}}}}})
        await place.live(lambda: place.states(f"pvc-{OTHER}") == DETACHED and _phases(vm) == {"data": ""})
        assert place.states() == ATTACHED
        assert (vm.instance["metadata"]["uid"], vm.word, vm.condition("RestartRequired")) == (first, "Running", "")


def _phases(vm: Machines) -> dict[str, str]:
    return {one["name"]: one.get("phase", "") for one in vm.instance["status"].get("volumeStatus", ())}


async def test_what_cannot_change_while_it_runs_waits_for_a_restart(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        vm = Machines(place)
        place.claim()
        vm.create()
        await place.live(vm.says("Running"))
        vm.edit({"template": {"spec": {"volumes": [volume("data"), volume("more")]}}})
        await place.live(lambda: bool(vm.condition("RestartRequired")))
        assert vm.condition("RestartRequired") == (
            "TemplateChanged: the template was changed; what was changed takes effect when the VM is restarted"
        )
        assert [one["name"] for one in vm.instance["spec"]["volumes"]] == ["data"]
        await vm.ask("restart")
        await place.live(vm.says("ErrorPvcNotFound"))
        assert not vm.condition("RestartRequired")


async def test_a_vm_goes_with_its_instance_and_its_volumes_are_free(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        vm = Machines(place)
        place.claim()
        vm.create()
        await place.live(vm.says("Running"))
        place.api.remove(VIRTUAL_MACHINES, "db", "default")
        await place.live(lambda: not vm.machine and not vm.instance and place.states() == DETACHED)


async def test_an_instance_that_was_left_is_taken_over(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        vm = Machines(place)
        place.claim()
        vm.create()
        await place.live(vm.says("Running"))
        first = vm.instance["metadata"]["uid"]
        place.api.edit(INSTANCES, "db", "default", merge={"metadata": {"ownerReferences": None}})
        place.api.edit(VIRTUAL_MACHINES, "db", "default", merge={"metadata": {"finalizers": None}})
        place.api.remove(VIRTUAL_MACHINES, "db", "default")
        vm.create()
        place.api.edit(VIRTUAL_MACHINES, "db", "default", merge={"metadata": {"uid": "uid-db-again"}})
        await place.live(vm.says("Running"))
        assert vm.instance["metadata"]["uid"] == first
        assert [one["uid"] for one in vm.instance["metadata"]["ownerReferences"]] == ["uid-db-again"]


async def test_an_instance_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        vm = Machines(place)
        owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstanceReplicaSet", "name": "r", "uid": "uid-r"}
        meta = {"name": "db", "namespace": "default", "ownerReferences": [{**owner, "controller": True}]}
        place.api.put(INSTANCES, {"metadata": meta, "spec": {}})
        vm.create()
        await place.live(lambda: bool(vm.condition("Failure")))
        assert vm.condition("Failure") == "InstanceExists: VirtualMachineInstance db is there already, and is not of this VM"
        assert vm.word == "Stopped"


async def test_a_refusal_is_told_and_it_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "AFTER_REFUSAL", Backoff(first=0.01, cap=0.02))
    async with place_in(tmp_path) as place:
        vm = Machines(place)
        place.claim()

        def refuse(what: str) -> None:
            if what.startswith("create virtualmachineinstances"):
                raise Forbidden("VM available resources are insufficient", code=403)

        place.api.refuse = refuse
        vm.create("RerunOnFailure")
        await place.live(lambda: bool(vm.condition("Failure")))
        assert vm.condition("Failure") == "FailedCreate: the instance was refused: VM available resources are insufficient"
        assert vm.word == "Stopped"
        assert ("Warning", "FailedCreate") in [one[:2] for one in place.told.events]
        place.api.refuse = lambda what: None
        await place.live(vm.says("Running"))
        assert not vm.condition("Failure")


async def test_a_refused_instance_is_asked_for_later_and_later_and_at_once_when_the_vm_was_changed(tmp_path: Path) -> None:
    asked: list[str] = []

    def refuse(what: str) -> None:
        if what.startswith("create virtualmachineinstances"):
            asked.append(what)
            raise Forbidden(f"insufficient: {len(asked)} used", code=403)  # each answer differs, as a used amount may

    async with place_in(tmp_path) as place:
        vm = Machines(place)
        place.claim()
        place.api.refuse = refuse
        vm.create()
        async with place.living() as settles:
            await settles(lambda: "1 used" in vm.condition("Failure"))
            for number in range(50):
                place.api.edit(VIRTUAL_MACHINES, "db", "default", merge={"metadata": {"annotations": {"n": str(number)}}})
            vm.edit({"template": {"spec": {"domain": {"cpu": {"cores": 1}}}}})
            await settles(lambda: "2 used" in vm.condition("Failure"))
        assert len(asked) == 2
        assert place.told.reasons.count("FailedCreate") == 2


async def test_a_vm_shows_that_it_starts_before_it_has_an_instance(tmp_path: Path) -> None:
    """Halted a moment later, it is still known to have one."""
    async with place_in(tmp_path) as place:
        vm, shown = Machines(place), list[str]()

        def note(what: str) -> None:
            if what.startswith("create virtualmachineinstances"):
                shown.append(vm.word)

        place.api.refuse = note
        place.claim()
        vm.create("Halted")
        await place.live(vm.says("Stopped"))
        await vm.ask("start")
        await place.live(vm.says("Running"))
        assert shown == ["Starting"]


class Behind:
    """A cache that has what it is told to have."""

    def __init__(self) -> None:
        self.value: Any = None

    def get(self, key: Key) -> Any:
        return self.value


@pytest.mark.parametrize("strategy", ["Always", "RerunOnFailure"])
@pytest.mark.parametrize("halted", [False, True])
async def test_a_vm_has_not_stopped_while_its_instance_is_only_not_seen_yet(strategy: str, halted: bool) -> None:
    api, told, machines, instances = WholeApi(), Told(), Behind(), Behind()
    vm = Machines(cast(Place, SimpleNamespace(api=api)))
    vm.create(strategy)
    made = VirtualMachineController(
        cast(Client, api),
        machines=cast(Cache[VirtualMachine], machines),
        instances=cast(Cache[VirtualMachineInstance], instances),
        recorder=cast(Recorder, told),
        clock=SystemClock(),
    )

    async def goes_on(times: int) -> set[str]:
        words = set()
        for _ in range(times):
            machines.value = await api.find(VIRTUAL_MACHINES, "db", "default")
            await made.reconcile(Key("default", "db"))
            words.add(vm.word)
        return words

    assert await goes_on(4) <= {"", "Starting"}
    assert vm.instance
    if halted:
        vm.edit({"runStrategy": "Halted"})
    assert await goes_on(4) == {"Starting"}

    if halted:  # it may go before it was ever seen
        api.edit(INSTANCES, "db", "default", merge={"metadata": {"finalizers": None}})
        await api.delete(INSTANCES, "db", "default")
        assert await goes_on(2) == {"Stopped"}
    else:
        instances.value = await api.find(INSTANCES, "db", "default")
        await goes_on(1)
        assert vm.machine["status"]["created"]


async def test_an_instance_without_a_vm_runs_too_and_goes(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        vm = Machines(place)
        place.claim()
        place.api.put(INSTANCES, {"metadata": {"name": "db", "namespace": "default"}, "spec": {"volumes": [volume("data")]}})
        await place.live(lambda: place.states() == ATTACHED and vm.instance["status"]["phase"] == "Running")
        place.api.remove(INSTANCES, "db", "default")
        await place.live(lambda: not vm.instance and place.states() == DETACHED)


async def test_a_claim_that_names_the_volume_of_another_attaches_nothing(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        place.claim()
        await place.live(lambda: place.is_bound() and place.states() == DETACHED)
        stolen = {"storageClassName": "longhorn", "volumeName": NAME, "volumeMode": "Block"}
        place.api.put(CLAIMS, {"metadata": {"name": "mine", "namespace": "thief"}, "spec": stolen})
        place.api.put(
            INSTANCES,
            {
                "metadata": {"name": "db", "namespace": "thief"},
                "spec": {"volumes": [volume("mine", hotpluggable=True)]},
            },
        )
        await place.live(lambda: (place.api.body(INSTANCES, "db", "thief") or {}).get("status", {}).get("phase") == "Running")
        place.volume("another", nodeID="ullage")  # whatever happens next has happened when this one is attached
        await place.live(lambda: place.states("another") == ATTACHED)
        assert place.states() == DETACHED


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_processes_may_die_at_every_effect_while_a_vm_comes_restarts_and_goes(tmp_path: Path) -> None:
    moment = 0
    async with place_in(tmp_path) as first:
        while True:
            moment += 1
            place = first.again()
            vm = Machines(place)
            place.claim()
            await place.live(place.is_bound)
            place.fuse.passed, place.fuse.blows_at = 0, moment
            vm.create("RerunOnFailure")
            await place.live(vm.says("Running"))
            assert place.states() == ATTACHED, place.fuse.log
            uid = vm.instance["metadata"]["uid"]
            await vm.ask("restart")
            await place.live(lambda vm=vm, uid=uid: vm.says("Running")() and vm.instance["metadata"]["uid"] != uid)  # type: ignore[misc]
            place.api.edit(INSTANCES, "db", "default", merge={"status": {"phase": "Failed"}})
            again = vm.instance["metadata"]["uid"]
            await place.live(lambda vm=vm, uid=again: vm.says("Running")() and vm.instance["metadata"]["uid"] != uid)  # type: ignore[misc]
            await vm.ask("stop")
            await place.live(lambda vm=vm, place=place: vm.says("Stopped")() and place.states() == DETACHED)  # type: ignore[misc]
            place.api.remove(VIRTUAL_MACHINES, "db", "default")
            place.api.remove(CLAIMS, "data", "default")
            await place.live(lambda vm=vm, place=place: not vm.machine and not vm.instance and not place.left())  # type: ignore[misc]
            assert json.dumps(await place.on_host()) == "{}", place.fuse.log
            if place.fuse.passed < moment:
                return
