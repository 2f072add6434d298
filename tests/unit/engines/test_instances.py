"""Real engines are asked where their Engines say that they listen; where none says so, nobody is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.engines.builders import engine, info
from tests.unit.engines.client.scripted_engine import Replica, engine_of
from tests.unit.engines.embedded import MIB, VOLUME, scene_in
from ullage.engines.chain import HEAD
from ullage.engines.client.connection import HostConnection
from ullage.engines.client.engine import RunningEngines
from ullage.engines.client.errors import Reason
from ullage.engines.instances import ask_head_size
from ullage.engines.model import instance_address
from ullage.errors import Impossible, NotNow


@pytest.mark.parametrize(
    ("status", "address"),
    [
        pytest.param({"ip": "10.0.0.7", "port": 10010}, "tcp://10.0.0.7:10010", id="a running instance"),
        pytest.param({"ip": "fd00::7", "port": 10010}, "tcp://[fd00::7]:10010", id="of the other protocol"),
        pytest.param({"ip": "10.0.0.7"}, "", id="no port yet"),
        pytest.param({"port": 10010}, "", id="no address yet"),
        pytest.param({"ip": "10.0.0.7", "port": 10010, "state": "stopped"}, "", id="it has stopped: another may listen there"),
    ],
)
def test_where_an_engine_listens(status: dict[str, Any], address: str) -> None:
    assert instance_address(engine(info(HEAD), **status)) == address


async def test_where_no_engine_says_where_it_listens_nobody_is_asked() -> None:
    async with RunningEngines(lambda volume: "") as engines:
        for call in (engines.of("vol").poll(), engines.of("vol").create("a", {})):
            with pytest.raises(NotNow, match="volume vol is not attached: no engine of it says where it listens") as caught:
                await call
            assert caught.value.reason is Reason.DETACHED


async def test_with_the_protocol_s_own_calls_an_engine_tells_as_much_as_in_one_look(tmp_path: Path) -> None:
    async with scene_in(tmp_path) as scene, RunningEngines(lambda volume: scene.host.address) as engines:
        await scene.write(0, b"x" * MIB)
        await engines.of(VOLUME).create("first", {"job": "daily"})
        await engines.of(VOLUME).create("second", {})
        await engines.of(VOLUME).mark_removed("first")
        await engines.of(VOLUME).purge()
        await scene.purge_ended()
        async with HostConnection(scene.host.address) as host:
            assert await engines.of(VOLUME).poll() == await host.of(VOLUME).poll()


async def test_an_engine_that_does_not_tell_everything_has_told_nothing(tmp_path: Path) -> None:
    """A volume whose limits are not known is none without limits."""
    async with engine_of([Replica(snapshots=("a",))], tmp_path) as address, RunningEngines(lambda volume: address) as engines:
        with pytest.raises(Impossible, match="VolumeGet is not there"):
            await engines.of("vol").poll()
        assert set(await engines.of("vol").list()) == {"a", HEAD}


async def test_an_engine_is_asked_what_the_next_snapshot_takes(tmp_path: Path) -> None:
    """With what is left right below the head of a snapshot that was removed: a purge will move it up."""
    async with scene_in(tmp_path) as scene, HostConnection(scene.host.address) as engines:
        await scene.write(0, b"x" * 2 * MIB)
        assert await ask_head_size(engines, VOLUME) == 2 * MIB
        await engines.of(VOLUME).create("first", {})
        assert await ask_head_size(engines, VOLUME) == 0
        await scene.write(4 * MIB, b"y" * MIB)
        assert await ask_head_size(engines, VOLUME) == MIB
        await engines.of(VOLUME).mark_removed("first")
        assert await ask_head_size(engines, VOLUME) == 3 * MIB
    async with RunningEngines(lambda volume: "") as engines:
        with pytest.raises(NotNow) as caught:
            await ask_head_size(engines, VOLUME)
        assert caught.value.reason is Reason.DETACHED
