"""The engines of a host through `base.Engines`: what the controllers ask for, on a real host behind a real socket."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.engines.embedded import MIB, VOLUME, scene_in
from ullage.engines.chain import HEAD, Limits
from ullage.engines.client.connection import HostConnection, address_of, connect
from ullage.engines.client.errors import Reason
from ullage.engines.client.interface import EngineClients
from ullage.errors import Impossible, NotNow, Uncertain
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.kube.slices import Wiring


async def test_a_snapshot_is_taken_found_marked_and_merged_away(tmp_path: Path) -> None:
    async with scene_in(tmp_path) as scene, HostConnection(scene.host.address) as engines:
        engine = engines.of(VOLUME)
        await scene.write(0, b"x" * MIB)
        await engine.create("first", {"job": "daily"})
        await engine.create("second", {})
        found = await engine.list()
        assert set(found) == {"first", "second", HEAD}
        assert (found["first"].size, dict(found["first"].labels)) == (MIB, {"job": "daily"})
        assert await engine.has("first")
        await engine.mark_removed("first")
        assert (await engine.list())["first"].removed
        await engine.purge()
        await scene.purge_ended()
        assert not await engine.has("first")
        assert (await engine.list())["second"].size == MIB
        assert [one.error for one in (await engine.purge_status()).values()] == [""]


async def test_a_name_that_is_taken_is_refused_as_one_that_exists(tmp_path: Path) -> None:
    async with scene_in(tmp_path) as scene, HostConnection(scene.host.address) as engines:
        await engines.of(VOLUME).create("first", {})
        with pytest.raises(Impossible) as refused:
            await engines.of(VOLUME).create("first", {})
        assert refused.value.reason is Reason.EXISTS


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param(Limits(max_count=7, max_size=32 * MIB), id="both"),
        pytest.param(Limits(max_count=7), id="only the count differs"),
        pytest.param(Limits(max_count=250, max_size=32 * MIB), id="only the size differs"),
        pytest.param(Limits(max_count=250), id="none differs"),
    ],
)
async def test_limits_are_what_they_were_set_to(tmp_path: Path, limits: Limits) -> None:
    async with scene_in(tmp_path) as scene, HostConnection(scene.host.address) as engines:
        engine = engines.of(VOLUME)
        await engine.set_limits(Limits(max_count=250))
        await engine.set_limits(limits)
        assert await engine.limits() == limits


async def test_a_limit_of_size_is_lifted_although_snapshots_take_room(tmp_path: Path) -> None:
    """Engines take the 0 that means none for less than what is there."""
    async with scene_in(tmp_path) as scene, HostConnection(scene.host.address) as engines:
        engine = engines.of(VOLUME)
        await engine.set_limits(Limits(max_count=250, max_size=4 * MIB))
        await scene.write(0, b"x" * MIB)
        await engine.create("first", {})
        await engine.set_limits(Limits(max_count=250))
        assert await engine.limits() == (await engine.poll()).limits == Limits(max_count=250)
        await scene.write(0, b"y" * 4 * MIB)
        await engine.create("second", {})
        await engine.set_limits(Limits(max_count=250, max_size=8 * MIB))
        assert await engine.limits() == Limits(max_count=250, max_size=8 * MIB)
        with pytest.raises(NotNow) as refused:
            await engine.set_limits(Limits(max_count=250, max_size=MIB))
        assert refused.value.reason is Reason.BELOW_USAGE


async def test_an_engine_that_is_not_attached_says_so_when_it_is_called(tmp_path: Path) -> None:
    async with scene_in(tmp_path) as scene, HostConnection(scene.host.address) as engines:
        await scene.host.detach(VOLUME)
        with pytest.raises(NotNow, match="is not attached"):
            await engines.of(VOLUME).list()


async def test_a_host_that_is_not_there_may_have_done_anything(tmp_path: Path) -> None:
    async with HostConnection(address_of(tmp_path / "nobody")) as engines:
        with pytest.raises(Uncertain):
            await engines.of(VOLUME).create("first", {})


async def test_the_wiring_closes_the_connection_when_the_work_ends(tmp_path: Path) -> None:
    config = Path(__file__).parents[2] / "app" / "commands" / "kubeconfig.yaml"
    async with scene_in(tmp_path) as scene, Client(Config.load(config, environ={})) as client:
        wiring = Wiring(client)
        engines: EngineClients = connect(wiring, scene.host.address)
        (held,) = wiring.held
        async with held:
            assert set(await engines.of(VOLUME).list()) == {HEAD}
        assert not held._channels._lines  # type: ignore[attr-defined]
