"""What changes in other clusters wakes a controller of our own: objects, and whether the clusters can be read."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.unit.kube.clusters.test_clusters import SECRET, Connection
from tests.unit.kube.clusters.test_clusters import Scene as ClusterScene
from tests.unit.kube.virtual_time import in_virtual_time
from tests.unit.ledger.simulated import CUPS, Cup
from ullage.kube.cache.indexer import Key
from ullage.kube.clusters.waking import ReachWatch, SourceElsewhere, wake
from ullage.kube.controller.queue import Queue


class Scene(ClusterScene):
    def __init__(self) -> None:
        super().__init__()
        self.queue: Queue[str] = Queue(clock=self.clock)
        self.reaches: list[str] = []
        self.watch = ReachWatch(self.clusters)
        self.watch.handle(self.reaches.append)

    def wake(self, **given: Any) -> None:
        wake(self.queue, self.clusters, SourceElsewhere(CUPS, keys_of, **given))

    def woken(self) -> list[str]:
        """The keys that are ready, as a worker would take them."""
        found = []
        while (key := self.queue.pop()) is not None:
            self.queue.done(key)
            found.append(key)
        return found


def keys_of(cluster: str, cup: Cup) -> list[str]:
    return [f"{cluster}/{cup.spec.size}"]


def scene(test: Callable[[Scene], Awaitable[None]]) -> Any:
    def run() -> None:
        async def main() -> None:
            found = Scene()
            reading = asyncio.create_task(found.secrets.run())
            async with found.clusters, found.watch:
                await test(found)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

        in_virtual_time(main())

    run.__name__ = test.__name__
    return run


async def followed(found: Scene, token: str = "one") -> Connection:
    found.credentials(token)
    found.clusters.follow("far", found.secrets, SECRET)
    await asyncio.sleep(2)
    return found.opened[-1]


@scene
async def test_an_object_that_changes_wakes_who_depended_on_it_and_who_does_now(found: Scene) -> None:
    found.wake()
    far = await followed(found)
    assert found.woken() == ["far/1"]
    far.cup("of-one", 2)
    await asyncio.sleep(1)
    assert found.woken() == ["far/1", "far/2"]
    far.drop(CUPS, Key("team", "of-one"))
    await asyncio.sleep(1)
    assert found.woken() == ["far/2"]


@scene
async def test_whoever_comes_late_is_told_of_what_is_there_and_new_credentials_are_followed_too(found: Scene) -> None:
    await followed(found)
    found.wake()
    assert found.woken() == ["far/1"]
    far = await followed(found, "two")
    assert found.woken() == ["far/1"]
    far.cup("another", 7)
    await asyncio.sleep(1)
    assert found.woken() == ["far/7"]


@scene
async def test_neither_changes_that_do_not_matter_nor_other_clusters_wake_anybody(found: Scene) -> None:
    found.wake(when=lambda old, new: new is not None and new.spec.size > 5)
    found.wake(only=lambda cluster: cluster == "near")
    far = await followed(found)
    assert found.woken() == []
    far.cup("of-one", 6)
    await asyncio.sleep(1)
    assert found.woken() == ["far/1", "far/6"]


@scene
async def test_a_cluster_that_comes_into_reach_falls_out_of_it_or_goes_is_told_once(found: Scene) -> None:
    found.credentials("one")
    found.clusters.follow("far", found.secrets, SECRET)
    await asyncio.sleep(10)
    assert found.reaches == ["far", "far"], "it is followed, and then it has been read"
    far = found.opened[-1]
    far.cut_off()
    await asyncio.sleep(600)
    assert not found.clusters.reach("far").reachable
    assert found.reaches == ["far"] * 3
    far.come_back()
    await asyncio.sleep(600)
    assert found.reaches == ["far"] * 4
    found.clusters.remove("far")
    await asyncio.sleep(10)
    assert found.reaches == ["far"] * 5


def test_a_handler_that_fails_keeps_nobody_else_from_learning(caplog: pytest.LogCaptureFixture) -> None:
    def fails(cluster: str) -> None:
        raise ValueError(cluster)

    @scene
    async def test(found: Scene) -> None:
        found.watch._handlers.insert(0, fails)
        await followed(found)
        assert found.reaches == ["far", "far"]

    with caplog.at_level(logging.ERROR):
        test()
    assert "handler failed" in caplog.text
