"""`ullage volume write` and `read`: through a real host of embedded engines, while the volume is held attached."""

from __future__ import annotations

import asyncio
import hashlib
import os
import pty
import subprocess
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from typer.testing import CliRunner, Result

from tests.unit.cli.volume.cluster import MIB, VolumeCluster, entry
from tests.unit.engines.embedded import host_in
from ullage.cli.common import session
from ullage.cli.common.arguments import At
from ullage.cli.volume import data as volume_data
from ullage.cli.volume.command import app
from ullage.cli.volume.reading import Named, NoEngine, find_volume
from ullage.clock import FakeClock, SystemClock
from ullage.engines.chain import HEAD
from ullage.errors import UllageError
from ullage.kube.client.client import Client
from ullage.kube.errors import NotFound

SIZE = 8 * MIB
OURS = "only volumes of `ullage up` can be from here"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> VolumeCluster:
    found = VolumeCluster()
    found.volume("pvc-1", entry(HEAD), claim="shop/data", size=SIZE)

    def connected(at: At, work: Callable[[Any], Awaitable[Any]]) -> Any:
        return asyncio.run(_work(work(found.session("shop"))))

    monkeypatch.setattr(session, "connected", connected)
    return found


async def _work(work: Awaitable[Any]) -> Any:
    return await work


@pytest.fixture
def host(cluster: VolumeCluster) -> Iterator[VolumeCluster]:
    """A host with the volume attached, in a thread: commands have a loop of their own."""
    ready, done = threading.Event(), threading.Event()

    async def serve(directory: Path) -> None:
        async with host_in(directory) as client:
            await client.create("pvc-1", size=SIZE)
            await client.attach("pvc-1")
            cluster.endpoint = client.address
            ready.set()
            await asyncio.to_thread(done.wait)

    with tempfile.TemporaryDirectory(prefix="host-") as short:  # a socket's path has to be short
        thread = threading.Thread(target=asyncio.run, args=(serve(Path(short)),))
        thread.start()
        try:
            assert ready.wait(20)
            yield cluster
        finally:
            done.set()
            thread.join()


def called(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, catch_exceptions=False)


def refused(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, UllageError), result.output
    return str(result.exception)


def test_what_was_written_is_read_again_and_the_volume_is_let_go(host: VolumeCluster, tmp_path: Path) -> None:
    data = os.urandom(2 * MIB + 777)
    file = tmp_path / "image"
    file.write_bytes(data)
    written = called("write", "shop/data", "--offset", "4Ki", "--from", str(file))
    digest = hashlib.sha256(data).hexdigest()
    assert written.stdout == f"2.01Mi written at offset 4096 of volume pvc-1, sha256 {digest}\n"
    assert called("read", "shop/data", "--offset", "4Ki", "--length", str(len(data))).stdout_bytes == data
    assert host.tickets == {}


def test_random_bytes_and_zeros(host: VolumeCluster) -> None:
    written = called("write", "pvc-1", "--length", "1Mi", "--random").stdout
    found = called("read", "pvc-1", "--length", "1Mi").stdout_bytes
    assert written.endswith(f"sha256 {hashlib.sha256(found).hexdigest()}\n")
    assert len(set(found)) > 200
    called("write", "pvc-1", "--offset", "4Ki", "--length", "8Ki", "--zero")
    assert called("read", "pvc-1", "--offset", "4Ki", "--length", "8Ki").stdout_bytes == bytes(8192)
    assert called("read", "pvc-1", "--length", "4Ki").stdout_bytes == found[:4096]


def test_without_a_length_the_rest_is_read(host: VolumeCluster) -> None:
    assert called("read", "pvc-1", "--offset", str(SIZE - 5)).stdout_bytes == bytes(5)
    assert called("read", "pvc-1", "--offset", str(SIZE)).stdout_bytes == b""


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        (["read", "pvc-1", "--offset", str(SIZE + 1)], f"{SIZE + 1}"),
        (["read", "pvc-1", "--offset", "4Ki", "--length", "8Mi"], f"4096 with --length {SIZE}"),
        (["write", "pvc-1", "--offset", "4Ki", "--length", "8Mi", "--zero"], f"4096 with --length {SIZE}"),
    ],
    ids=["beginning past the end", "reading past the end", "writing past the end"],
)
def test_nothing_is_past_the_end(host: VolumeCluster, arguments: list[str], given: str) -> None:
    assert refused(*arguments) == f"--offset {given}: the volume has {SIZE} bytes, and that is past its end"
    assert ("patch", "volumes.longhorn.io", "pvc-1") not in host.asked, "nobody has to attach it for that"


def test_a_terminal_gets_no_data() -> None:
    leader, follower = pty.openpty()
    try:
        script = "from ullage.app import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", script, "volume", "read", "pvc-1"],
            stdout=follower,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            timeout=60,
            check=False,
        )
    finally:
        os.close(leader)
        os.close(follower)
    text = b"ullage: standard output (a terminal): a file or a pipe is allowed: add > FILE\n"
    assert (done.returncode, done.stderr) == (2, text)


# --- who cannot be reached -------------------------------------------------------------------------------------------


def test_longhorns_own_volumes_are_refused(cluster: VolumeCluster) -> None:
    cluster.engine("pvc-1-e-0", "pvc-1", entry(HEAD), currentState="running", endpoint="/dev/longhorn/pvc-1")
    assert refused("read", "pvc-1") == (
        f"volume pvc-1 is Longhorn's own, offered at /dev/longhorn/pvc-1: its data is read and written on its node; {OURS}"
    )
    assert cluster.tickets == {}


def test_longhorns_own_volumes_are_known_by_the_ticket_that_is_not_kept(cluster: VolumeCluster) -> None:
    cluster.drops = True
    assert refused("read", "pvc-1") == (
        f"volume pvc-1 is Longhorn's own, offered by nobody now: its data is read and written on its node; {OURS}"
    )


def test_a_host_on_another_machine_is_said(cluster: VolumeCluster) -> None:
    cluster.endpoint = "unix:///elsewhere/engines.sock"
    assert refused("read", "pvc-1") == (
        "volume pvc-1 is served on /elsewhere/engines.sock, which is not on this machine; run this where `ullage up` runs"
    )
    assert cluster.tickets == {}


async def test_a_volume_that_nobody_attaches_is_given_up(cluster: VolumeCluster) -> None:
    client = cast(Client, cluster)
    found = await find_volume(client, Named("", "pvc-1"))
    with pytest.raises(volume_data.NotAttached) as caught:
        async with volume_data.attached(client, found, ticket="command-1", clock=SystemClock(), timeout=0.01):
            raise AssertionError("it is not attached")
    assert str(caught.value) == "volume pvc-1 was not attached within 0.01 s: engine pvc-1-e-0 is stopped"
    assert cluster.tickets == {}


async def test_a_volume_that_migrates_has_no_one_engine(cluster: VolumeCluster) -> None:
    cluster.engine("pvc-1-e-1", "pvc-1")
    client = cast(Client, cluster)
    found = await find_volume(client, Named("", "pvc-1"))
    with pytest.raises(NoEngine, match=r"^volume pvc-1 has 2 engines; one is needed$"):
        async with volume_data.attached(client, found, ticket="command-1", clock=SystemClock()):
            raise AssertionError("it has two engines")


async def test_a_ticket_is_renewed_before_it_runs_out_and_not_more_often(cluster: VolumeCluster) -> None:
    clock, client = FakeClock(), cast(Client, cluster)
    ticket = volume_data.Ticket(client, (await find_volume(client, Named("", "pvc-1"))).volume, "command-1", clock)
    ends = []
    for _ in range(5):
        await ticket.keep()
        ends.append(cluster.tickets["command-1"]["until"])
        clock.advance(40)
    assert ends == ["2026-01-01T00:05:00Z"] * 2 + ["2026-01-01T00:06:20Z"] * 2 + ["2026-01-01T00:07:40Z"]
    await ticket.give_back()
    assert cluster.tickets == {}


async def test_a_ticket_of_a_volume_that_is_gone_is_given_back(cluster: VolumeCluster) -> None:
    class Gone:
        async def patch(self, *_: object, **__: object) -> None:
            raise NotFound("gone", code=404)

    found = await find_volume(cast(Client, cluster), Named("", "pvc-1"))
    await volume_data.Ticket(cast(Client, Gone()), found.volume, "command-1", FakeClock()).give_back()  # nothing is raised
