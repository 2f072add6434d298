"""One look at an embedded engine says what Longhorn's own calls say of it, whatever state it is in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.unit.engines.embedded import MIB, VOLUME, Scene, scene_in
from ullage.engines.chain import HEAD, Limits, PollResult, PurgeProgress
from ullage.engines.client.connection import HostConnection
from ullage.engines.client.errors import Reason
from ullage.engines.client.interface import EngineClient
from ullage.engines.local.store.purge import Progress
from ullage.engines.local.store.volume import StoredVolume
from ullage.errors import NotNow, Retryable

Prepare = Callable[[Scene, EngineClient], Awaitable[None]]


async def _new(scene: Scene, engine: EngineClient) -> None:
    """As it was made."""


async def _chain(scene: Scene, engine: EngineClient) -> None:
    await scene.write(0, b"x" * MIB)
    await engine.create("first", {"job": "daily", "kept": ""})
    await engine.create("second", {})
    await scene.write(MIB, b"y" * 4096)


async def _marked(scene: Scene, engine: EngineClient) -> None:
    await _chain(scene, engine)
    await engine.mark_removed("first")


async def _purged(scene: Scene, engine: EngineClient) -> None:
    await _marked(scene, engine)
    await scene.purged()


async def _branched(scene: Scene, engine: EngineClient) -> None:
    """Two build on the first one."""
    await _chain(scene, engine)
    await scene.engine.shut_frontend()
    await scene.engine.revert("first")


async def _limited(scene: Scene, engine: EngineClient) -> None:
    await engine.set_limits(Limits(max_count=7, max_size=32 * MIB))


@pytest.mark.parametrize(
    "prepare",
    [
        pytest.param(_new, id="a new volume"),
        pytest.param(_chain, id="a chain with labels, and data in its head"),
        pytest.param(_marked, id="a snapshot is marked"),
        pytest.param(_purged, id="a snapshot was merged away"),
        pytest.param(_branched, id="two layers build on one"),
        pytest.param(_limited, id="limits of its own"),
    ],
)
async def test_a_look_is_what_the_calls_say_one_by_one(tmp_path: Path, prepare: Prepare) -> None:
    async with scene_in(tmp_path) as scene, HostConnection(scene.host.address) as engines:
        engine = engines.of(VOLUME)
        await prepare(scene, engine)
        expected = PollResult(await engine.list(), await engine.purge_status(), await engine.limits())
        assert await engine.poll() == expected
        assert HEAD in expected.entries
        assert expected.purges.keys() == {scene.host.address}


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        pytest.param("", PurgeProgress(purging=False, progress=100, state="complete"), id="it went well"),
        pytest.param("no space", PurgeProgress(purging=False, progress=40, state="error", error="no space"), id="it failed"),
    ],
)
async def test_a_look_says_how_a_purge_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: str, expected: PurgeProgress
) -> None:
    def purge(_: StoredVolume, *, progress: Progress, **__: object) -> bool:
        progress(40)
        if problem:
            raise Retryable(problem)
        return True

    monkeypatch.setattr(StoredVolume, "purge", purge)
    async with scene_in(tmp_path) as scene, HostConnection(scene.host.address) as engines:
        await scene.engine.purge()
        await scene.purge_ended()
        assert (await engines.of(VOLUME).poll()).purges == {scene.host.address: expected}


async def _detached(scene: Scene) -> str:
    await scene.host.detach(VOLUME)
    return VOLUME


async def _deleted(scene: Scene) -> str:
    await scene.host.delete(VOLUME)
    return VOLUME


async def _unnamable(scene: Scene) -> str:
    return "../vol"


@pytest.mark.parametrize(
    "prepare",
    [
        pytest.param(_detached, id="not attached"),
        pytest.param(_deleted, id="not there"),
        pytest.param(_unnamable, id="a name that is a path"),
    ],
)
async def test_a_look_at_a_volume_without_an_engine_fails_as_every_call_does(
    tmp_path: Path, prepare: Callable[[Scene], Awaitable[str]]
) -> None:
    async with scene_in(tmp_path) as scene, HostConnection(scene.host.address) as engines:
        engine = engines.of(await prepare(scene))
        for call in (engine.list, engine.poll):
            with pytest.raises(NotNow) as caught:
                await call()
            assert caught.value.reason is Reason.DETACHED
