"""Writes, where requests meet each other, a slow webhook, or a disk that is not done yet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.standalone.apiserver.served_kinds import builtins
from tests.unit.standalone.apiserver.server_kit import Kit, eventually, running_kit
from ullage.standalone.apiserver.kinds.resources import Resource, shape_of
from ullage.standalone.apiserver.kinds.versions import view
from ullage.standalone.apiserver.status import ApiError

Json = dict[str, Any]
MAPS = "configmaps"


@pytest.fixture
async def kit(tmp_path: Path) -> AsyncIterator[Kit]:
    async with running_kit(tmp_path, work=False) as found:
        yield found


def setting(key: str, value: str) -> Callable[[Json], object]:
    return lambda obj: obj.setdefault("data", {}).update({key: value})


async def create(kit: Kit) -> object:
    return await kit.create(MAPS, "x", namespace="default", data={"a": "1"})


async def change_nothing(kit: Kit) -> object:
    return await kit.change(MAPS, "x", lambda obj: None, namespace="default")


async def delete(kit: Kit) -> object:
    return await kit.delete(MAPS, "x", namespace="default")


async def insist_on_an_old_version(kit: Kit) -> object:
    return await kit.change(MAPS, "x", lambda obj: obj["metadata"].update(resourceVersion="1"), namespace="default")


async def delete_an_old_version(kit: Kit) -> object:
    return await kit.delete(MAPS, "x", namespace="default", rv="1")


@pytest.mark.parametrize(
    ("first", "second", "outcome"),
    [
        pytest.param("create", create, 409, id="a name that is taken"),
        pytest.param("create", change_nothing, 200, id="a change that changes nothing"),
        pytest.param("create", insist_on_an_old_version, 409, id="a conflict"),
        pytest.param("create", delete_an_old_version, 409, id="a precondition that fails"),
        pytest.param("delete", delete, 404, id="something that is gone"),
    ],
)
class TestAnswersRestOnWhatIsDurable:
    async def begin(self, kit: Kit, first: str) -> asyncio.Task[Any]:
        """Leaves a write of the object on its way to the disk."""
        if first == "delete":
            await create(kit)
        kit.database.gate.clear()
        kit.database.diary.clear()
        writing = asyncio.create_task((create if first == "create" else delete)(kit))
        await eventually(lambda: bool(kit.database.diary))
        return writing

    async def test_nobody_hears_of_it_before(
        self, kit: Kit, first: str, second: Callable[[Kit], Awaitable[object]], outcome: int
    ) -> None:
        writing = await self.begin(kit, first)
        asked = asyncio.ensure_future(second(kit))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not asked.done()
        kit.database.gate.set()
        if outcome == 200:
            await asked
        else:
            with pytest.raises(ApiError) as caught:
                await asked
            assert caught.value.code == outcome
        await writing

    async def test_nobody_hears_of_it_if_it_fails(
        self, kit: Kit, first: str, second: Callable[[Kit], Awaitable[object]], outcome: int
    ) -> None:
        writing = await self.begin(kit, first)
        asked = asyncio.ensure_future(second(kit))
        await asyncio.sleep(0)
        kit.database.failing.append("database or disk is full")
        kit.database.gate.set()
        for task in (writing, asked):
            with pytest.raises(ApiError, match="the database cannot be written"):
                await task


class TestMeeting:
    async def test_changes_on_each_other_s_heels_are_all_made(self, kit: Kit) -> None:
        await create(kit)
        await asyncio.gather(*(kit.change(MAPS, "x", setting(f"k{number}", "v"), namespace="default") for number in range(30)))
        stored = kit.get(MAPS, "x", namespace="default")
        assert stored is not None
        assert len(stored["data"]) == 31

    async def test_a_change_that_was_overtaken_in_its_webhooks_is_computed_again(self, kit: Kit) -> None:
        await create(kit)
        gate = kit.hold_webhooks()
        slow = asyncio.ensure_future(kit.change(MAPS, "x", setting("slow", "1"), namespace="default"))
        await eventually(lambda: len(gate.seen) == 1)
        gate.only = "nothing else"
        await kit.change(MAPS, "x", setting("quick", "1"), namespace="default")
        gate.open.set()
        assert (await slow)["data"] == {"a": "1", "slow": "1", "quick": "1"}

    async def test_a_delete_that_was_overtaken_by_a_finalizer_leaves_the_object(self, kit: Kit) -> None:
        await create(kit)
        gate = kit.hold_webhooks()
        deleting = asyncio.ensure_future(kit.delete(MAPS, "x", namespace="default"))
        await eventually(lambda: len(gate.seen) == 1)
        gate.only = "nothing else"
        await kit.change(MAPS, "x", lambda obj: obj["metadata"].update(finalizers=["a.io/b"]), namespace="default")
        gate.open.set()
        assert await deleting is False
        stored = kit.get(MAPS, "x", namespace="default")
        assert stored is not None
        assert stored["metadata"]["deletionTimestamp"]

    async def test_a_change_of_what_was_deleted_and_made_again_is_not_stored(self, kit: Kit) -> None:
        first = await kit.create(MAPS, "x", namespace="default")
        gate = kit.hold_webhooks()
        uid = first["metadata"]["uid"]
        slow = asyncio.ensure_future(
            kit.change(MAPS, "x", lambda obj: obj["metadata"].update(uid=uid, labels={"a": "b"}), namespace="default")
        )
        await eventually(lambda: len(gate.seen) == 1)
        gate.only = "nothing else"
        await kit.delete(MAPS, "x", namespace="default")
        second = await create(kit)
        gate.open.set()
        with pytest.raises(ApiError) as caught:
            await slow
        assert caught.value.code == 409
        assert kit.get(MAPS, "x", namespace="default") == second

    async def test_two_deletes_at_once_delete_once(self, kit: Kit) -> None:
        await create(kit)
        outcomes = await asyncio.gather(delete(kit), delete(kit), return_exceptions=True)
        assert [getattr(outcome, "code", outcome) for outcome in outcomes] == [True, 404]

    async def test_the_last_finalizer_and_a_delete_at_once_leave_nothing(self, kit: Kit) -> None:
        await kit.create(MAPS, "x", namespace="default", metadata={"finalizers": ["a.io/b"]})
        await asyncio.gather(
            delete(kit), kit.change(MAPS, "x", lambda obj: obj["metadata"].pop("finalizers"), namespace="default")
        )
        assert kit.get(MAPS, "x", namespace="default") is None


class TestPods:
    async def test_a_forced_delete_ends_a_grace_period(self, kit: Kit) -> None:
        await kit.create("pods", "p", namespace="default", spec={"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]})
        assert await kit.delete("pods", "p", namespace="default") is False
        assert await kit.delete("pods", "p", namespace="default", grace=5) is False
        pod = kit.get("pods", "p", namespace="default")
        assert pod is not None
        assert pod["metadata"]["deletionGracePeriodSeconds"] == 5
        assert await kit.delete("pods", "p", namespace="default", grace=0) is True
        assert kit.get("pods", "p", namespace="default") is None


def test_what_is_derived_from_a_resource_goes_with_it(served_map: Resource) -> None:
    """A changed definition makes new resources; nothing may hold on to the old ones."""
    assert view(served_map) is view(served_map)
    assert shape_of(served_map) is shape_of(served_map)
    other = replace(served_map, since=5)
    assert view(other) is not view(served_map)
    assert view(other)._resource is other


@pytest.fixture
def served_map() -> Resource:
    return next(resource for resource in builtins() if resource.plural == MAPS)
