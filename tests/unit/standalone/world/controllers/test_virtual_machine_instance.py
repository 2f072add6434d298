"""The pod of an instance: made once, refused and asked for again, gone before its instance is over, never lost unnoticed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.standalone.world.controllers.test_virtual_machine import Machines
from tests.unit.standalone.world.longhorn import Place, place_in
from ullage.kube.backoff import Backoff
from ullage.kube.builtin.core import CORE_QUOTAS, NODES, PODS
from ullage.kube.errors import Forbidden
from ullage.standalone.world.controllers import virtual_machine_instance as controller
from ullage.vms.api.machines import INSTANCES

Json = dict[str, Any]
FULL = "exceeded quota: default-x, requested: limits.memory=1281359872, used: limits.memory=4Gi, limited: limits.memory=5Gi"


def launchers(place: Place) -> list[Json]:
    return place.api.bodies(PODS)


def refuses_pods(what: str) -> None:
    if what.startswith("create pods"):
        raise Forbidden(FULL, code=403)


async def test_an_instance_runs_in_one_pod_and_the_pod_goes_first(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        vm = Machines(place)
        place.claim()
        vm.create(domain={"resources": {"limits": {"cpu": "2", "memory": "1Gi"}}, "devices": {"disks": [{"name": "data"}]}})
        await place.live(vm.says("Running"))
        (pod,) = launchers(place)
        assert pod["metadata"]["name"].startswith("virt-launcher-db-")
        assert pod["metadata"]["labels"]["kubevirt.io/created-by"] == vm.instance["metadata"]["uid"]
        assert pod["spec"]["containers"][0]["resources"]["limits"]["cpu"] == "2"
        assert (pod["status"]["phase"], pod["spec"]["nodeName"]) == ("Running", "ullage")
        assert vm.instance["status"]["activePods"] == {pod["metadata"]["uid"]: "ullage"}

        pods_at_the_end: list[int] = []

        def refuse(what: str) -> None:
            if vm.instance.get("status", {}).get("phase") == "Succeeded":
                pods_at_the_end.append(len(launchers(place)))

        place.api.refuse = refuse
        await vm.ask("stop")
        await place.live(vm.says("Stopped"))
        assert set(pods_at_the_end) == {0}
        assert launchers(place) == []


async def test_a_refused_pod_is_told_with_its_reason_and_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "AFTER_REFUSAL", Backoff(first=0.05, cap=0.1))
    async with place_in(tmp_path) as place:
        vm = Machines(place)
        place.claim()
        place.api.refuse = refuses_pods
        vm.create()
        async with place.living() as settles:
            await settles(vm.says("Unschedulable"))
            assert vm.condition("Failure") == f"FailedCreate: failed to create virtual machine pod: {FULL}"
            assert vm.instance["status"]["phase"] == "Pending"
            said = {one["type"]: one for one in vm.instance["status"]["conditions"]}["Synchronized"]
            assert (said["status"], said["reason"]) == ("False", "FailedCreate")
            place.api.refuse = lambda what: None
            await settles(vm.says("Running"))
        assert not vm.condition("Failure")
        refusals = [one for one in place.told.events if one[1] == "FailedCreate"]
        assert refusals == [("Warning", "FailedCreate", f"Error creating pod: {FULL}")]


async def test_a_refused_pod_is_asked_for_later_and_later(tmp_path: Path) -> None:
    asked: list[str] = []

    def refuse(what: str) -> None:
        if what.startswith("create pods"):
            asked.append(what)
            raise Forbidden(f"{FULL} ({len(asked)})", code=403)  # each answer differs, as a used amount may

    async with place_in(tmp_path) as place:
        vm = Machines(place)
        place.claim()
        place.api.refuse = refuse
        vm.create()
        async with place.living() as settles:
            await settles(lambda: len(asked) == 2)
            for number in range(50):  # others may write as often as they like
                place.api.edit(INSTANCES, "db", "default", merge={"metadata": {"annotations": {"n": str(number)}}})
            await settles(lambda: "(2)" in vm.condition("Failure"))
        assert len(asked) == 2


async def test_a_quota_with_more_room_ends_the_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "AFTER_REFUSAL", Backoff(first=600.0, cap=600.0))
    quota = {"metadata": {"name": "q", "namespace": "default"}, "status": {"hard": {"pods": "1"}, "used": {"pods": "1"}}}
    async with place_in(tmp_path) as place:
        vm = Machines(place)
        place.claim()
        place.api.put(CORE_QUOTAS, quota)
        place.api.refuse = refuses_pods
        vm.create()
        async with place.living() as settles:
            await settles(vm.says("Unschedulable"))
            place.api.refuse = lambda what: None
            place.api.edit(CORE_QUOTAS, "q", "default", merge={"status": {"used": {"pods": "0"}}})
            await settles(vm.says("Running"))


async def test_a_spec_whose_cost_cannot_be_read_is_told(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        vm = Machines(place)
        place.claim()
        vm.create(domain={"resources": {"limits": {"memory": "much"}}})
        await place.live(vm.says("Unschedulable"))
        assert "spec.template.spec.domain.resources.limits.memory much" in vm.condition("Failure")


async def test_an_instance_whose_pod_somebody_deletes_has_failed_and_is_started_again(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        vm = Machines(place)
        place.claim()
        vm.create()
        await place.live(vm.says("Running"))
        first, (pod,) = vm.instance["metadata"]["uid"], launchers(place)
        place.api.remove(PODS, pod["metadata"]["name"], "default")
        await place.live(lambda: vm.says("Running")() and vm.instance["metadata"]["uid"] != first)
        assert ("Warning", "Stopped", "The pod that the VirtualMachineInstance ran in is gone.") in place.told.events
        assert len(launchers(place)) == 1


async def test_a_pod_that_is_deleted_before_it_has_a_node_is_made_again(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        vm = Machines(place)
        place.api.edit(NODES, "ullage", merge={"spec": {"unschedulable": True}})
        place.claim()
        vm.create()
        await place.live(vm.says("Unschedulable"))
        first, (pod,) = vm.instance["metadata"]["uid"], launchers(place)
        place.api.remove(PODS, pod["metadata"]["name"], "default")
        place.api.edit(NODES, "ullage", merge={"spec": {"unschedulable": False}})
        await place.live(vm.says("Running"))
        assert vm.instance["metadata"]["uid"] == first


async def test_what_ran_before_there_were_pods_goes_on_and_gets_one_on_its_node(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        vm = Machines(place)
        place.claim()
        vm.create()
        await place.live(vm.says("Running"))
        first, (pod,) = vm.instance["metadata"]["uid"], launchers(place)
        place.api.edit(INSTANCES, "db", "default", merge={"status": {"activePods": None}})
        place.api.remove(PODS, pod["metadata"]["name"], "default")
        place.api.refuse = refuses_pods
        await place.live(lambda: bool(vm.condition("Failure")))
        assert (vm.word, vm.instance["metadata"]["uid"]) == ("Running", first)
        place.api.refuse = lambda what: None
        await place.live(lambda: not vm.condition("Failure") and bool(vm.instance["status"].get("activePods")))
        (pod,) = launchers(place)
        assert pod["spec"]["nodeSelector"] == {"kubernetes.io/hostname": "ullage"}
        assert (vm.word, vm.instance["metadata"]["uid"]) == ("Running", first)


async def test_instances_spread_over_the_nodes_and_none_goes_to_one_that_is_cordoned(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        place.api.put(NODES, {"metadata": {"name": "ullage-2"}})
        place.api.put(NODES, {"metadata": {"name": "ullage-3"}, "spec": {"unschedulable": True}})
        for number in range(4):
            place.api.put(INSTANCES, {"metadata": {"name": f"vm-{number}", "namespace": "default"}, "spec": {}})
            name = f"vm-{number}"
            await place.live(lambda name=name: _phase(place, name) == "Running")  # type: ignore[misc]
        assert sorted(one["status"]["nodeName"] for one in place.api.bodies(INSTANCES)) == ["ullage"] * 2 + ["ullage-2"] * 2


def _phase(place: Place, name: str) -> str:
    return str((place.api.body(INSTANCES, name, "default") or {}).get("status", {}).get("phase", ""))
