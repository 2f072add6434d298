"""`ullage vm fill`: real blocks, through a real host of embedded engines and into real files."""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.unit.cli.vm.cluster import VmCluster
from tests.unit.cli.vm.test_command import at, called, refused
from tests.unit.cli.volume.cluster import MIB, entry
from tests.unit.engines.embedded import host_in
from ullage.cli.vm import disks, filling
from ullage.cli.vm.command import app
from ullage.cli.vm.options import Amount
from ullage.engines.chain import HEAD
from ullage.kube.builtin import core

SIZE = 4 * MIB
SHOWN = "virtualmachine.kubevirt.io/db"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> VmCluster:
    return at(VmCluster(), monkeypatch)


@pytest.fixture
def host(cluster: VmCluster) -> Iterator[VmCluster]:
    """With a volume attached, in a thread: commands have a loop of their own."""
    ready, done = threading.Event(), threading.Event()

    async def serve(directory: Path) -> None:
        async with host_in(directory) as client:
            await client.create("pvc-1", size=SIZE)
            await client.attach("pvc-1")
            cluster.endpoint = client.address
            ready.set()
            await asyncio.to_thread(done.wait)

    cluster.volume("pvc-1", entry(HEAD), claim="shop/data", size=SIZE)
    with tempfile.TemporaryDirectory(prefix="host-") as short:  # a socket's path has to be short
        thread = threading.Thread(target=asyncio.run, args=(serve(Path(short)),))
        thread.start()
        try:
            assert ready.wait(20)
            yield cluster
        finally:
            done.set()
            thread.join()


def directory(cluster: VmCluster, claim: str, path: Path, *, size: int = SIZE, by: str = "ullage.io/hostpath") -> None:
    """A claim whose volume is a directory."""
    cluster.put(core.CLAIMS, {"metadata": {"name": claim}, "spec": {"volumeName": f"pv-{claim}"}})
    spec = {"capacity": {"storage": str(size)}, "hostPath": {"path": str(path)}}
    marks = {"pv.kubernetes.io/provisioned-by": by}
    cluster.put(core.PERSISTENT_VOLUMES, {"metadata": {"name": f"pv-{claim}", "annotations": marks}, "spec": spec})


def test_where_a_disk_is_is_looked_up_once(host: VmCluster) -> None:
    host.machine("db", "data")
    called("fill", "db", "--bytes", "4Ki")
    asked = [(verb, kind) for verb, kind, _ in host.asked]
    assert [asked.count(("get", kind.name)) for kind in (core.CLAIMS, core.PERSISTENT_VOLUMES)] == [1, 1]


def content(cluster: VmCluster) -> bytes:
    async def read() -> bytes:
        from ullage.engines.client.channels import Channels
        from ullage.engines.client.host import HostClient

        channels = Channels()
        try:
            return await HostClient(channels, cluster.endpoint).read("pvc-1", offset=0, length=SIZE)
        finally:
            await channels.close()

    return asyncio.run(read())


def is_random(data: bytes) -> bool:
    return len(set(data)) > 200


def test_all_volumes_are_written_over_and_let_go_again(host: VmCluster, tmp_path: Path) -> None:
    directory(host, "log", tmp_path, size=2 * MIB)
    host.machine("db", "data", "log")
    out = called("fill", "shop/db").stdout.splitlines()
    assert out == [
        "data: 4Mi written, claim data",
        "log: 2Mi written, claim log",
        f"{SHOWN}: 6Mi of random data written over 2 volumes",
    ]
    first, second = content(host), (tmp_path / "disk.img").read_bytes()
    assert all(is_random(first[start : start + 4096]) for start in range(0, SIZE, MIB))
    assert len(second) == 2 * MIB
    assert is_random(second[-4096:])
    assert not host.tickets
    called("fill", "shop/db")
    assert content(host) != first


def test_a_part_of_one_volume_and_the_rest_is_left_alone(host: VmCluster, tmp_path: Path) -> None:
    directory(host, "log", tmp_path)
    host.machine("db", "data", "log")
    out = called("fill", "db", "--volume", "data", "--bytes", "1Mi").stdout.splitlines()
    assert out == ["data: 1Mi of 4Mi written, claim data", f"{SHOWN}: 1Mi of random data written over 1 volume"]
    found = content(host)
    assert is_random(found[:MIB])
    assert found[MIB:] == bytes(SIZE - MIB)
    assert not (tmp_path / "disk.img").exists()


def test_percent_of_a_file_leaves_holes(cluster: VmCluster, tmp_path: Path) -> None:
    directory(cluster, "log", tmp_path)
    cluster.machine("db", "log")
    called("fill", "db", "--percent", "25%")
    written = (tmp_path / "disk.img").read_bytes()
    assert len(written) == SIZE
    assert is_random(written[:MIB])
    assert written[MIB:] == bytes(3 * MIB)
    assert (tmp_path / "disk.img").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("amount", "size", "count"),
    [
        pytest.param(Amount(), 10 * MIB, 10 * MIB, id="all of it"),
        pytest.param(Amount(count=5), 10 * MIB, 5, id="so many bytes"),
        pytest.param(Amount(count=20 * MIB), 10 * MIB, 10 * MIB, id="no more than there is"),
        pytest.param(Amount(percent=50), 10 * MIB, 5 * MIB, id="half of it"),
        pytest.param(Amount(percent=1), 4 * 4096, 4096, id="at least a block"),
        pytest.param(Amount(percent=1), 100, 100, id="of a volume that is none, all"),
        pytest.param(Amount(percent=33), 10 * 4096, 3 * 4096, id="whole blocks"),
    ],
)
def test_how_much_of_a_volume(amount: Amount, size: int, count: int) -> None:
    assert amount.of(size) == count


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param(["web"], "VM web does not exist in namespace shop", id="no VM"),
        pytest.param(["empty"], "VM shop/empty has no volume with a claim: there is nothing to fill", id="no volumes"),
        pytest.param(
            ["db", "--volume", "logs"],
            "VM shop/db has no volume logs with a claim; it has: gone, new, foreign, old",
            id="no volume",
        ),
        pytest.param(["db", "--volume", "gone"], "volume gone: claim shop/gone does not exist", id="no claim"),
        pytest.param(["db", "--volume", "new"], "volume new: claim shop/new has no volume yet", id="a claim that waits"),
        pytest.param(
            ["db", "--volume", "foreign"],
            "volume foreign: claim shop/foreign has volume pv-foreign, which is neither driver.longhorn.io's nor "
            "ullage.io/hostpath's; only those of `ullage up` can be filled from here",
            id="a directory that nobody here made",
        ),
        pytest.param(
            ["db", "--volume", "old"],
            "/nonexistent is not on this machine; run this where `ullage up` runs",
            id="another machine",
        ),
    ],
)
def test_what_cannot_be_filled(cluster: VmCluster, arguments: list[str], text: str) -> None:
    cluster.machine("empty")
    cluster.machine("db", "gone", "new", "foreign", "old")
    cluster.put(core.CLAIMS, {"metadata": {"name": "new"}, "spec": {}})
    directory(cluster, "foreign", Path("/"), by="rancher.io/local-path")
    directory(cluster, "old", Path("/nonexistent"))
    assert refused("fill", *arguments) == text


def test_nothing_is_written_where_one_volume_cannot_be(cluster: VmCluster, tmp_path: Path) -> None:
    directory(cluster, "log", tmp_path)
    cluster.machine("db", "log", "gone")
    refused("fill", "db")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("what", ["link", "pipe", "directory"])
def test_what_somebody_put_in_the_place_of_a_disk_is_not_followed(cluster: VmCluster, tmp_path: Path, what: str) -> None:
    place, secret = tmp_path / "volume", tmp_path / "secret"
    place.mkdir()
    secret.write_text("as it was")
    match what:
        case "link":
            (place / "disk.img").symlink_to(secret)
        case "pipe":
            os.mkfifo(place / "disk.img")
        case _:
            (place / "disk.img").mkdir()
    directory(cluster, "log", place)
    cluster.machine("db", "log")
    assert refused("fill", "db").startswith(f"{place / 'disk.img'}: ")
    assert secret.read_text() == "as it was"


def test_a_machine_without_room_is_not_filled(cluster: VmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory(cluster, "data", tmp_path)
    cluster.machine("db", "data")
    monkeypatch.setattr(filling, "_free", lambda path: (1, MIB))
    assert refused("fill", "db") == (
        "VM shop/db: nothing was written, since 4Mi may be needed and this machine has 1Mi left; "
        "write less with --bytes or --percent"
    )
    monkeypatch.setattr(filling, "_free", lambda path: (1, SIZE - 1))
    assert "nothing was written" in refused("fill", "db")
    monkeypatch.setattr(filling, "_free", lambda path: (1, SIZE))
    assert called("fill", "db").exit_code == 0


def test_ctrl_c_ends_it_and_gives_everything_back(host: VmCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    host.machine("db", "data")
    pieces = 0

    async def interrupted(self: Any, data: bytes, *, offset: int, sync: bool) -> None:
        nonlocal pieces
        pieces += 1
        if pieces == 2:
            raise KeyboardInterrupt
        await self.held.write_piece(data, offset=offset, sync=sync)

    monkeypatch.setattr(disks._Engine, "write", interrupted)
    result = CliRunner().invoke(app, ["fill", "db"])
    assert result.exit_code == 130
    assert result.stderr == "\nullage: stopped; what was written stays\n"
    assert not host.tickets
    assert content(host)[MIB:] == bytes(SIZE - MIB)
