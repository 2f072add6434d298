"""When the objects of a namespace are counted for its quotas anew: when admission has not counted, and then once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.unit.standalone.apiserver.server_kit import USER, Kit, eventually, quiet, running_kit
from ullage.standalone.apiserver.admission.quotas import check, enforce
from ullage.standalone.apiserver.controllers import resource_quotas
from ullage.standalone.apiserver.handlers.calls import Call
from ullage.standalone.apiserver.request.write_options import WriteOptions

Json = dict[str, Any]
MANY = 20


class World(Kit):
    """A namespace with quotas, and the names of those that were counted anew since `forget`."""

    def __init__(self, kit: Kit, counted: list[str]) -> None:
        super().__init__(kit.server, kit.database, kit.clock)
        self._counted = counted

    async def pod(self, name: str) -> None:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
        await self.create("pods", name, namespace="default", spec={"containers": [container]})

    async def status(self, plural: str, name: str, **status: Any) -> None:
        def changed(live: Json) -> Json:
            new = deepcopy(live)
            new.setdefault("status", {}).update(status)
            return new

        options = WriteOptions(dry_run=False, manager="tester", validation="Ignore", force=None)
        call = Call(USER, options, "UpdateOptions", subresource="status")
        await self.server.writer.modify(self.resource(plural), changed, call, namespace="default", name=name)

    async def quota(self, name: str, hard: Json, **spec: Any) -> None:
        await self.create("resourcequotas", name, namespace="default", spec={"hard": hard, **spec})

    def used(self, name: str) -> Json:
        found = self.get("resourcequotas", name, namespace="default") or {}
        return dict(found.get("status", {}).get("used", {}))

    async def counted(self) -> list[str]:
        """Since it was asked last."""
        await quiet(self.server)
        found = sorted(self._counted)
        self._counted.clear()
        return found


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    counted: list[str] = []

    def recount(quota: Json, objects: Iterable[Any], now: Any) -> Any:
        counted.append(quota["metadata"]["name"])
        return check.recount(quota, objects, now)

    monkeypatch.setattr(enforce, "recount", recount)
    async with running_kit(tmp_path) as kit:
        found = World(kit, counted)
        await found.quota("pods", {"pods": "50", "requests.cpu": "50"})
        await found.quota("maps", {"configmaps": "50"})
        await eventually(lambda: bool(found.used("pods") and found.used("maps")))
        await found.counted()
        yield found


async def test_what_comes_is_counted_by_admission_alone(world: World) -> None:
    for number in range(MANY):
        await world.pod(f"p-{number}")
    assert await world.counted() == []
    assert world.used("pods") == {"pods": str(MANY), "requests.cpu": str(MANY)}


async def test_what_goes_is_counted_anew_for_the_quotas_that_are_about_it(world: World) -> None:
    await world.pod("p")
    await world.delete("pods", "p", namespace="default", grace=0)
    await eventually(lambda: world.used("pods") == {"pods": "0", "requests.cpu": "0"})
    assert await world.counted() == ["pods"]


async def test_what_goes_in_one_moment_is_counted_once(world: World) -> None:
    for number in range(MANY):
        await world.create("configmaps", f"m-{number}", namespace="default")
    world.database.gate.clear()
    going = [asyncio.create_task(world.delete("configmaps", f"m-{number}", namespace="default")) for number in range(MANY)]
    await asyncio.sleep(0.1)  # all of them wait for the disk
    world.database.gate.set()
    await asyncio.gather(*going)
    await eventually(lambda: world.used("maps") == {"configmaps": "1"})  # kube-root-ca.crt
    assert len(await world.counted()) <= 2, "the first to go may have been on the disk before the others"


async def test_a_pod_is_counted_anew_when_it_ends_and_not_whenever_it_changes(world: World) -> None:
    await world.pod("p")
    await world.status("pods", "p", phase="Running")
    assert await world.counted() == []
    await world.status("pods", "p", phase="Succeeded")
    await eventually(lambda: world.used("pods") == {"pods": "0", "requests.cpu": "0"})
    assert await world.counted() == ["pods"]


async def test_a_pod_that_comes_into_a_quota_s_scope_is_counted(world: World) -> None:
    await world.quota("ending", {"pods": "5"}, scopes=["Terminating"])
    await eventually(lambda: world.used("ending") == {"pods": "0"})
    await world.pod("p")
    await world.change("pods", "p", lambda pod: pod["spec"].update(activeDeadlineSeconds=60), namespace="default")
    await eventually(lambda: world.used("ending") == {"pods": "1"})


async def test_a_quota_that_limits_something_else_is_counted_alone(world: World) -> None:
    await world.pod("p")
    await world.change(
        "resourcequotas", "pods", lambda quota: quota["spec"].update(hard={"count/pods": "9"}), namespace="default"
    )
    await eventually(lambda: world.used("pods") == {"count/pods": "1"})
    assert await world.counted() == ["pods"]
    await world.change("resourcequotas", "pods", lambda quota: quota["metadata"].update(labels={"a": "b"}), namespace="default")
    assert await world.counted() == []


async def test_what_nobody_tells_of_is_counted_after_a_while(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A status that somebody has written, or a pod that should have been gone for long."""
    monkeypatch.setattr(resource_quotas, "AGAIN", 0.2)
    await world.pod("p")
    await world.change("resourcequotas", "pods", lambda quota: quota["spec"]["hard"].update(pods="9"), namespace="default")
    await world.counted()
    await world.status("resourcequotas", "pods", used={"pods": "7", "requests.cpu": "7"})
    await eventually(lambda: world.used("pods") == {"pods": "1", "requests.cpu": "1"})


async def test_a_quota_that_is_gone_is_forgotten(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.delete("resourcequotas", "maps", namespace="default")
    await world.create("configmaps", "m", namespace="default")
    await world.delete("configmaps", "m", namespace="default")
    assert await world.counted() == []
    assert world.used("maps") == {}
