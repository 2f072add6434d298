"""Where engines are, and how many connections to them are kept."""

from __future__ import annotations

import grpc
import pytest

from ullage.engines.chain import HEAD
from ullage.engines.client.channels import Channels, sync_agent, target
from ullage.engines.client.messages import layer
from ullage.errors import BadInput, Uncertain


@pytest.mark.parametrize(
    ("address", "replica", "agent"),
    [
        pytest.param("tcp://10.0.0.1:10000", "10.0.0.1:10000", "10.0.0.1:10002", id="as a controller names a replica"),
        pytest.param("10.0.0.1:10000", "10.0.0.1:10000", "10.0.0.1:10002", id="as a person would"),
        pytest.param("tcp://[fd00::1]:10000", "[fd00::1]:10000", "[fd00::1]:10002", id="IPv6"),
        pytest.param("unix:///run/e.sock", "unix:///run/e.sock", "unix:///run/e.sock", id="a socket serves everything"),
    ],
)
def test_an_address(address: str, replica: str, agent: str) -> None:
    assert (target(address), sync_agent(address)) == (replica, agent)


@pytest.mark.parametrize(
    "address", ["", "10.0.0.1", "tcp://:1", "tcp://host:port", "tcp://host:0", "tcp://host:65536", "unix:x"]
)
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(BadInput, match="engine address"):
        target(address)


async def test_connections_are_shared_and_the_longest_unused_is_closed() -> None:
    channels = Channels(most=2)
    async with channels.to("h:1") as first:
        async with channels.to("tcp://h:1") as again:
            assert again is first
        async with channels.to("h:2") as second:
            pass
        async with channels.to("h:3"):
            pass
        assert second.get_state() is grpc.ChannelConnectivity.SHUTDOWN, "nobody used it, and there were too many"
        assert first.get_state() is not grpc.ChannelConnectivity.SHUTDOWN, "it is in use"
    async with channels.to("h:1") as kept:
        assert kept is first
    await channels.close()
    assert first.get_state() is grpc.ChannelConnectivity.SHUTDOWN


@pytest.mark.parametrize(
    ("file", "name"),
    [
        pytest.param("volume-head-003.img", HEAD, id="the head"),
        pytest.param("volume-snap-a.img", "a", id="a snapshot"),
        pytest.param("volume-snap-volume-snap-a.img.img", "volume-snap-a.img", id="one with an odd name"),
        pytest.param("", "", id="no parent"),
    ],
)
def test_a_files_name_is_a_layers(file: str, name: str) -> None:
    assert layer(file) == name


def test_another_files_name_is_none() -> None:
    with pytest.raises(Uncertain, match="is no name of a snapshot's file"):
        layer("volume-delta-a.img")
