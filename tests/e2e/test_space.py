"""Disk and memory have bounds in bytes, whatever is written, deleted, watched and never read."""

from __future__ import annotations

import json
import os
import resource
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from .api import Api, Json
from .control_plane import EmbeddedServer

pytestmark = pytest.mark.skipif("E2E_KUBECONFIG" in os.environ, reason="the directory and the memory of a server of our own")

MIB = 1 << 20
MAPS = "/api/v1/namespaces/default/configmaps"
EVENTS = "/api/v1/namespaces/default/events"
Start = Callable[..., EmbeddedServer]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as stack:

        def started(*options: str) -> EmbeddedServer:
            server = EmbeddedServer(tmp_path / "data", ephemeral=False, options=options)
            server.data_dir.mkdir()
            server.start()
            stack.callback(server.kill)
            return server

        yield started


def config_map(name: str, size: int) -> Json:
    return {"metadata": {"name": name}, "data": {"padding": "x" * size}}


def directory_bytes(server: EmbeddedServer) -> int:
    """Database, journal, keys, and the log beside them."""
    files = [*server.data_dir.rglob("*"), server.data_dir.parent / f"{server.data_dir.name}.log"]
    return sum(path.stat().st_size for path in files if path.is_file())


def memory_bytes(server: EmbeddedServer) -> int:
    path = Path(f"/proc/{server.pid}/status")
    if not path.exists():
        pytest.skip("memory is read from /proc")
    (line,) = [line for line in path.read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) * 1024


def shrinks_below(server: EmbeddedServer, most: int, *, seconds: float) -> int:
    """What the directory has come down to, or what it still holds when the time is over."""
    deadline = time.monotonic() + seconds
    while (size := directory_bytes(server)) >= most and time.monotonic() < deadline:
        time.sleep(0.2)
    return size


def write_and_delete(server: EmbeddedServer, count: int, *, alive: int) -> int:
    """So many ConfigMaps of one MiB; each goes when `alive` others have come. The most memory that was seen."""
    api = Api(server.control_plane())
    most = 0
    with ThreadPoolExecutor(4) as pool:

        def one(number: int) -> None:
            api.create(MAPS, config_map(f"big-{number}", MIB - 1024))
            if number >= alive:
                api.call("DELETE", f"{MAPS}/big-{number - alive}")

        for first in range(0, count, 50):
            list(pool.map(one, range(first, min(first + 50, count))))
            most = max(most, memory_bytes(server))
    api.delete(MAPS)
    return most


def test_what_is_written_and_deleted_leaves_the_disk(start: Start) -> None:
    server = start(f"--history-bytes={8 * MIB}")
    write_and_delete(server, 64, alive=16)
    assert shrinks_below(server, 30 * MIB, seconds=60) < 30 * MIB


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_gigabyte_is_written_and_deleted_and_a_tenth_is_left(start: Start) -> None:
    server = start()
    before = memory_bytes(server)
    most = write_and_delete(server, 1000, alive=50)
    assert shrinks_below(server, 100_000_000, seconds=120) < 100_000_000
    # Fifty objects, recent events twice as large as they are trimmed to, and what is on its way.
    assert most - before < 400 * MIB


@pytest.mark.parametrize("watches", [4, pytest.param(50, marks=pytest.mark.slow)])
def test_watches_that_nobody_reads_hold_little_however_large_the_objects(start: Start, watches: int) -> None:
    server = start()
    plane = server.control_plane()
    api = Api(plane)
    version = api.get(MAPS).obj["metadata"]["resourceVersion"]
    for value in range(40):
        for name in ("a", "b"):
            body = {**config_map(name, MIB - 1024), "metadata": {"name": name, "labels": {"value": str(value)}}}
            api.create(MAPS, body) if value == 0 else api.replace(f"{MAPS}/{name}", body)
    before = memory_bytes(server)
    with ExitStack() as stack:
        for number in range(watches):
            path = f"{MAPS}?resourceVersion={version}" + ("&labelSelector=value" if number % 2 else "")
            # Not all of it fits into what is kept: some watches are told so, and hold nothing.
            stack.enter_context(Api(plane).watch(path))
        time.sleep(3)
        assert api.get("/readyz").raw == b"ok"
        assert memory_bytes(server) - before < min(20 + 5 * watches, 150) * MIB


@pytest.mark.slow
def test_a_list_of_large_objects_is_not_held_twice(start: Start) -> None:
    server = start()
    api = Api(server.control_plane())
    for number in range(100):
        api.create(MAPS, config_map(f"big-{number}", MIB - 1024))
    before = memory_bytes(server)
    for _ in range(3):
        listed = json.loads(api.get(MAPS).raw)
        assert len(listed["items"]) == 101 - (
            not any(item["metadata"]["name"] == "kube-root-ca.crt" for item in listed["items"])
        )
    assert memory_bytes(server) - before < 60 * MIB


def test_an_event_goes_when_its_time_is_over_and_watches_see_it_go(start: Start) -> None:
    server = start("--event-ttl=2")
    api = Api(server.control_plane())
    event = {"involvedObject": {"namespace": "default"}, "reason": "a", "message": "b", "type": "Normal"}
    made = api.create(EVENTS, {**event, "metadata": {"name": "a"}})
    with api.watch(f"{EVENTS}?resourceVersion={made['metadata']['resourceVersion']}&timeoutSeconds=20") as watch:
        (seen,) = watch.take(1)
    assert (seen["type"], seen["object"]["metadata"]["name"]) == ("DELETED", "a")
    assert int(seen["object"]["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    assert api.get(f"{EVENTS}/a").code == 404


def test_when_the_quota_is_reached_writes_are_refused_and_deletes_make_room(start: Start) -> None:
    server = start(f"--quota-bytes={10 * MIB}")
    api = Api(server.control_plane())
    answers = [api.call("POST", MAPS, config_map(f"big-{number}", MIB - 1024)) for number in range(12)]
    refused = answers[-1]
    assert (refused.code, refused.message) == (500, "etcdserver: mvcc: database space exceeded")
    assert refused.obj["status"] == "Failure"
    assert api.get(f"{MAPS}/big-0").code == 200
    assert api.call("DELETE", f"{MAPS}/big-0").code == 200
    assert api.call("POST", MAPS, config_map("again", MIB - 4096)).code == 201


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="the limits of another process can be set on Linux alone")
def test_when_the_disk_is_full_reads_go_on_and_writes_do_when_there_is_room_again(start: Start) -> None:
    """A bound on the size of a file is as near to a full disk as a test comes without a disk of its own."""
    server = start()
    api = Api(server.control_plane())
    made = api.create(MAPS, config_map("a", 100))
    largest = max(path.stat().st_size for path in server.data_dir.rglob("*") if path.is_file())
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (largest, resource.RLIM_INFINITY))
    refused = next(
        answer
        for number in range(20)
        if (answer := api.call("POST", MAPS, config_map(f"big-{number}", MIB - 1024))).code != 201
    )
    assert (refused.code, refused.reason) == (500, "InternalError")
    assert "the database cannot be written" in refused.message
    assert api.get(f"{MAPS}/a").obj == made
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    later = api.create(MAPS, config_map("b", MIB - 1024))
    server.kill()
    server.start()
    api = Api(server.control_plane())
    assert api.get(f"{MAPS}/a").obj == made
    assert api.get(f"{MAPS}/b").obj == later
