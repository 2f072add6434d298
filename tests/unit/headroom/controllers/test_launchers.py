"""Pods of instances that nobody has marked: which of them are, and that they are marked once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.unit.headroom.builders import TEAM, instance, made, migration
from tests.unit.headroom.controllers.machine_scene import Api
from tests.unit.kube.virtual_time import VirtualClock, in_virtual_time
from ullage.headroom.controllers.launchers import WATCHES, LauncherMarks, unmarked
from ullage.headroom.lookup import compute_lookup, launcher_pods
from ullage.kube.builtin.watched_pods import WATCHED_PODS
from ullage.kube.controller.controller import Controller
from ullage.kube.slices import Part, Wiring
from ullage.ledger.charging.stamps import STAMP
from ullage.vms.api.machines import INSTANCES, VIRTUAL_MACHINES
from ullage.vms.api.migrations import MIGRATIONS

Json = dict[str, Any]


def runs(*active: str, name: str = "db") -> Json:
    body = instance(name, uid=f"uid-{name}")
    body["status"] = {"phase": "Running", "activePods": dict.fromkeys(active, "node-1")}
    return body


def pod(name: str, *, of: str = "db", free: bool = False, phase: str = "Running", made_at: str = "") -> Json:
    owner = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "name": of,
        "uid": f"uid-{of}",
        "controller": True,
    }
    meta: Json = {"name": name, "namespace": TEAM, "uid": name, "ownerReferences": [owner] if of else []}
    if free:
        meta["annotations"] = {STAMP: "{}"}
    if made_at:
        meta["creationTimestamp"] = made_at
    return {"metadata": meta, "spec": {"containers": []}, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("found", "pods", "migrations", "marked"),
    [
        pytest.param(runs("a"), [pod("a")], 0, ["a"], id="the one that the instance names"),
        pytest.param(runs("a"), [pod("a", free=True)], 0, [], id="one that is marked already"),
        pytest.param(runs(), [pod("a")], 0, [], id="one that only says so itself"),
        pytest.param(runs("a"), [pod("a", of="other")], 0, [], id="one of another instance"),
        pytest.param(runs("a"), [pod("a", phase="Succeeded")], 0, [], id="one that has ended"),
        pytest.param(runs("a", "b"), [pod("a", free=True), pod("b")], 0, [], id="a second one, where nothing moves"),
        pytest.param(runs("a", "b"), [pod("a", free=True), pod("b")], 1, ["b"], id="a second one, where it moves to"),
        pytest.param(
            runs("a", "b"),
            [pod("b", made_at="2026-01-01T00:00:02Z"), pod("a", made_at="2026-01-01T00:00:01Z")],
            0,
            ["a"],
            id="the older, where only one is paid for",
        ),
        pytest.param(
            runs("a", "b"),
            [pod("a", free=True, phase="Failed"), pod("b")],
            0,
            ["b"],
            id="the next, when the last has ended",
        ),
    ],
)
def test_which_are_marked(found: Json, pods: list[Json], migrations: int, marked: list[str]) -> None:
    chosen = unmarked(made(INSTANCES, found), [made(WATCHED_PODS, one) for one in pods], migrations=migrations)
    assert [one.metadata.name for one in chosen] == marked


@contextlib.asynccontextmanager
async def running(api: Api) -> AsyncIterator[None]:
    clock = VirtualClock()

    def controllers(wiring: Wiring) -> list[Controller[Any]]:
        lookup = wiring.shared(compute_lookup)
        return [LauncherMarks(wiring.client, wiring.shared(launcher_pods), lookup, clock=clock).controller()]

    wiring = Wiring(api, clock=clock)  # type: ignore[arg-type]
    started = wiring.made(Part(make=controllers, watches=(VIRTUAL_MACHINES, *WATCHES)))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(cache.run()) for cache in wiring.caches]
        tasks += [group.create_task(one.run()) for one in started]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()


def test_what_runs_since_before_us_is_marked_once_and_nothing_else_is_written() -> None:
    api = Api()
    api.put(INSTANCES, runs("launcher", "target"))
    api.put(MIGRATIONS, migration(phase="Running"))
    for one in (pod("launcher"), pod("forged"), pod("web", of="")):
        api.put(WATCHED_PODS, one)

    async def scene() -> None:
        async with running(api):
            await asyncio.sleep(5)
            api.put(WATCHED_PODS, pod("target"))
            await asyncio.sleep(5)

    in_virtual_time(scene())
    marked = [one["metadata"]["name"] for one in api.bodies(WATCHED_PODS) if STAMP in one["metadata"].get("annotations", {})]
    assert (sorted(marked), api.patches(WATCHED_PODS)) == (["launcher", "target"], 2)


def test_one_that_somebody_takes_the_mark_off_each_time_is_written_later_and_later() -> None:
    api = Api()
    api.put(INSTANCES, runs("launcher"))
    api.put(WATCHED_PODS, pod("launcher"))

    async def scene() -> None:
        async with running(api):
            for _ in range(200):
                await asyncio.sleep(0.1)
                api.edit(WATCHED_PODS, "launcher", TEAM, merge={"metadata": {"annotations": {STAMP: None}}})

    in_virtual_time(scene())
    assert 2 <= api.patches(WATCHED_PODS) <= 10
