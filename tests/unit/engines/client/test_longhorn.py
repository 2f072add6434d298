"""The client on the embedded engine, over a real socket; and on scripted engines, for what that one never shows.

That the same client drives a real longhorn-engine is shown in tests/e2e/test_longhorn_engine.py.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.unit.engines.client.scripted_engine import Replica, engine_of
from tests.unit.engines.embedded import MIB, SIZE, Scene, scene_in
from ullage.engines.chain import HEAD
from ullage.engines.client import longhorn
from ullage.engines.client.channels import Channels
from ullage.engines.client.errors import Reason
from ullage.engines.client.longhorn import LonghornClient
from ullage.engines.protocol import controller_pb2 as controller
from ullage.errors import Impossible, NotNow, UllageError, Uncertain


@asynccontextmanager
async def client_at(address: str) -> AsyncIterator[LonghornClient]:
    channels = Channels()
    try:
        yield LonghornClient(channels, address, volume="vol")
    finally:
        await channels.close()


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    with tempfile.TemporaryDirectory(prefix="engine-") as directory:
        async with scene_in(Path(directory)) as scene:
            yield scene


@pytest.fixture
async def directory() -> AsyncIterator[Path]:
    with tempfile.TemporaryDirectory(prefix="engine-") as directory:
        yield Path(directory)


# --- the life of a snapshot --------------------------------------------------------------------------------------------


async def test_a_snapshot_is_listed_with_all_that_is_known_of_it(scene: Scene) -> None:
    await scene.write(0, b"a" * 8192)
    assert await scene.engine.snapshot("one", labels={"made": "by hand"}) == "one"
    await scene.write(4096, b"b")
    await scene.engine.snapshot("two")

    found = await scene.engine.snapshots()

    one, two, head = found.entries["one"], found.entries["two"], found.entries[HEAD]
    assert found.chain == (HEAD, "two", "one")
    assert (one.parent, one.children, one.size) == ("", frozenset({"two"}), 8192)
    assert (two.parent, two.children, two.size) == ("one", frozenset({HEAD}), 4096)
    assert (one.labels, two.labels) == ({"made": "by hand"}, {})
    assert (head.parent, head.children, head.size) == ("two", frozenset(), 0)
    assert one.user_created
    assert not one.removed
    assert one.created == "2026-01-01T00:00:00Z"
    assert (found.count_usage, found.size_usage, found.size) == (2, 12288, SIZE)


async def test_a_marked_snapshot_goes_with_a_purge_and_its_child_keeps_the_data(scene: Scene) -> None:
    await scene.write(0, b"a" * 4096)
    await scene.engine.snapshot("one")
    await scene.write(4096, b"b" * 4096)
    await scene.engine.snapshot("two")

    await scene.engine.mark_removed("one")
    assert (await scene.engine.snapshots()).entries["one"].removed
    await scene.purged()

    found = await scene.engine.snapshots()
    assert found.entries.keys() == {"two", HEAD}
    assert found.entries["two"].size == 8192
    assert await scene.read(0, 8192) == b"a" * 4096 + b"b" * 4096


async def test_a_purge_takes_the_systems_snapshots_too(scene: Scene) -> None:
    await scene.engine.system_snapshot("rebuild", created=datetime(2026, 1, 2, tzinfo=UTC))
    entry = (await scene.engine.snapshots()).entries["rebuild"]
    assert (entry.user_created, entry.created) == (False, "2026-01-02T00:00:00Z")
    await scene.engine.snapshot("mine")
    await scene.purged()
    assert (await scene.engine.snapshots()).entries.keys() == {"mine", HEAD}


async def test_the_parent_of_the_head_can_only_be_marked(scene: Scene) -> None:
    await scene.engine.snapshot("one")
    await scene.engine.mark_removed("one")
    await scene.purged()
    assert (await scene.engine.snapshots()).entries["one"].removed
    await scene.engine.snapshot("two")
    await scene.purged()
    assert (await scene.engine.snapshots()).entries.keys() == {"two", HEAD}


async def test_revert_brings_the_old_data_back_and_leaves_a_branch(scene: Scene) -> None:
    await scene.write(0, b"old")
    await scene.engine.snapshot("one")
    await scene.write(0, b"new")
    await scene.engine.snapshot("two")

    await scene.engine.shut_frontend()
    await scene.engine.revert("one")
    await scene.engine.start_frontend(scene.frontend)

    assert await scene.read(0, 3) == b"old"
    found = await scene.engine.snapshots()
    assert found.chain == (HEAD, "one")
    assert found.entries["one"].children == {"two", HEAD}


async def test_a_clone_is_another_volume_with_the_snapshots_data(scene: Scene) -> None:
    data = bytes(range(256)) * 8192
    await scene.write(MIB, data)
    await scene.engine.snapshot("one")
    await scene.write(MIB, b"later")
    await scene.host.create("copy", size=SIZE)
    await scene.host.attach("copy")
    copy = scene.host.engine("copy")

    await copy.clone("one", source=scene.engine)

    assert await scene.host.read("copy", offset=0, length=SIZE) == bytes(MIB) + data + bytes(SIZE - MIB - len(data))
    (status,) = (await copy.clone_status()).values()
    assert (status.cloning, status.progress, status.state, status.error, status.snapshot) == (False, 100, "complete", "", "one")
    assert (await copy.snapshots()).chain == (HEAD, "copy-base")


async def test_expand_makes_the_volume_larger_and_leaves_a_system_snapshot(scene: Scene) -> None:
    await scene.engine.expand(2 * SIZE)
    state = await scene.engine.state()
    assert (state.size, state.expanding) == (2 * SIZE, False)
    assert not (await scene.engine.snapshots()).entries[f"expand-{2 * SIZE}"].user_created
    await scene.write(2 * SIZE - 1, b"x")


async def test_limits_are_told(scene: Scene) -> None:
    await scene.engine.set_max_count(7)
    state = await scene.engine.set_max_size(MIB)
    assert (state.max_count, state.max_size) == (7, MIB)
    assert await scene.engine.state() == state


# --- refusals ----------------------------------------------------------------------------------------------------------


async def _with_snapshots(scene: Scene) -> None:
    await scene.write(0, b"a" * 8192)
    await scene.engine.snapshot("one")
    await scene.engine.snapshot("gone")
    await scene.engine.mark_removed("gone")
    await scene.engine.snapshot("two")


async def _limited(scene: Scene, call: Callable[[], Awaitable[object]]) -> None:
    await scene.write(0, b"b" * 8192)
    await call()
    await scene.engine.snapshot("three")


async def _without_frontend(scene: Scene, name: str) -> None:
    await scene.engine.shut_frontend()
    await scene.engine.revert(name)


@pytest.mark.parametrize(
    ("call", "kind", "reason"),
    [
        pytest.param(lambda s: s.engine.snapshot("one"), Impossible, Reason.EXISTS, id="a name that is there"),
        pytest.param(lambda s: s.engine.snapshot(HEAD), Impossible, Reason.BAD_REQUEST, id="the head's name"),
        pytest.param(lambda s: s.engine.snapshot("../x"), Impossible, Reason.BAD_REQUEST, id="a path for a name"),
        pytest.param(lambda s: s.engine.snapshot("a\udcff"), Impossible, Reason.BAD_REQUEST, id="what is no text"),
        pytest.param(lambda s: s.engine.snapshot(""), Impossible, Reason.BAD_REQUEST, id="no name"),
        pytest.param(
            lambda s: _limited(s, lambda: s.engine.set_max_count(2)), NotNow, Reason.COUNT_LIMIT, id="one more than allowed"
        ),
        pytest.param(
            lambda s: _limited(s, lambda: s.engine.set_max_size(12288)), NotNow, Reason.SIZE_LIMIT, id="larger than allowed"
        ),
        pytest.param(lambda s: s.engine.set_max_count(1), NotNow, Reason.BELOW_USAGE, id="a count limit below what is there"),
        pytest.param(lambda s: s.engine.set_max_size(1), NotNow, Reason.BELOW_USAGE, id="a size limit below what is there"),
        pytest.param(lambda s: s.engine.revert("one"), NotNow, Reason.FRONTEND_UP, id="a revert under a frontend"),
        pytest.param(lambda s: s.engine.revert("nothing"), Impossible, Reason.NO_SNAPSHOT, id="a revert to nothing"),
        pytest.param(lambda s: _without_frontend(s, "gone"), Impossible, Reason.REMOVED, id="a revert to a marked snapshot"),
        pytest.param(lambda s: s.engine.expand(4096), Impossible, Reason.SIZE, id="a smaller volume"),
        pytest.param(lambda s: s.engine.expand(2 * SIZE + 1), Impossible, Reason.SIZE, id="a size of no whole blocks"),
        pytest.param(lambda s: s.engine.start_frontend("tgt"), Impossible, Reason.FRONTEND, id="a frontend that it has not"),
        pytest.param(
            lambda s: s.engine.clone("one", source=s.engine), Impossible, Reason.NOT_EMPTY, id="a clone into what holds data"
        ),
        pytest.param(lambda s: s.host.engine("none").state(), NotNow, Reason.DETACHED, id="a volume that is not attached"),
        pytest.param(lambda s: s.host.attach("none"), Impossible, Reason.NO_VOLUME, id="attaching what is not there"),
        pytest.param(lambda s: s.host.create("../x", size=SIZE), Impossible, Reason.BAD_REQUEST, id="a path for a volume"),
        pytest.param(
            lambda s: s.host.create("ü", size=SIZE), Impossible, Reason.BAD_REQUEST, id="a volume that no header can name"
        ),
        pytest.param(lambda s: s.host.engine("a\nb").state(), Impossible, Reason.BAD_REQUEST, id="a volume of two lines"),
        pytest.param(lambda s: s.host.create("x", size=1), Impossible, Reason.BAD_REQUEST, id="a volume of one byte"),
        pytest.param(lambda s: s.read(SIZE - 1, 2), Impossible, Reason.BAD_REQUEST, id="reading past the end"),
        pytest.param(lambda s: s.write(-1, b"xx"), Impossible, Reason.BAD_REQUEST, id="writing before the beginning"),
    ],
)
async def test_a_refusal_says_why_and_changes_nothing(
    scene: Scene, call: Callable[[Scene], Awaitable[object]], kind: type[UllageError], reason: Reason
) -> None:
    await _with_snapshots(scene)
    before = (await scene.engine.snapshots()).entries.keys()
    with pytest.raises(kind) as caught:
        await call(scene)
    assert getattr(caught.value, "reason", None) is reason, str(caught.value)
    assert (await scene.engine.snapshots()).entries.keys() == before


async def test_an_error_names_volume_call_and_cause(scene: Scene) -> None:
    await scene.engine.snapshot("one")
    with pytest.raises(
        Impossible, match=r"^volume vol: engine unix:///\S+: VolumeSnapshot one: snapshot \S+ is already existing$"
    ):
        await scene.engine.snapshot("one")


# --- several replicas --------------------------------------------------------------------------------------------------


async def test_snapshots_are_those_of_the_readable_replica_that_has_most(directory: Path) -> None:
    replicas = [
        Replica(snapshots=("a",)),
        Replica(snapshots=("a", "b")),
        Replica(snapshots=("a", "b", "c"), mode=controller.WO),
        Replica(snapshots=("a", "b", "c"), mode=controller.ERR),
    ]
    async with engine_of(replicas, directory) as address, client_at(address) as client:
        assert (await client.snapshots()).entries.keys() == {"a", "b", HEAD}


async def test_every_replica_is_told(directory: Path) -> None:
    replicas = [Replica(), Replica()]
    async with engine_of(replicas, directory) as address, client_at(address) as client:
        await client.mark_removed("a")
        await client.purge()
        await client.clone("b", source=client)
    for replica in replicas:
        assert replica.told == ["mark a", "hash no more a", "purge", "clone b of vol"]


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        pytest.param(Replica(rebuilding=True), Reason.REBUILDING, id="one is being rebuilt"),
        pytest.param(Replica(mode=controller.WO), Reason.NO_REPLICA, id="one cannot be read yet"),
        pytest.param(Replica(mode=controller.ERR), Reason.NO_REPLICA, id="one is broken"),
    ],
)
@pytest.mark.parametrize("call", ["mark_removed", "purge", "clone"])
async def test_no_replica_is_changed_while(odd: Replica, reason: Reason, call: str, directory: Path) -> None:
    sound = Replica()
    async with engine_of([sound, odd], directory) as address, client_at(address) as client:
        calls = {
            "mark_removed": lambda: client.mark_removed("a"),
            "purge": lambda: client.purge(),
            "clone": lambda: client.clone("a", source=client),
        }
        with pytest.raises(NotNow) as caught:
            await calls[call]()
    assert caught.value.reason is reason
    assert sound.told == odd.told == []


async def test_a_second_purge_has_to_wait(directory: Path) -> None:
    busy, idle = Replica(purging=True), Replica()
    async with engine_of([idle, busy], directory) as address, client_at(address) as client:
        with pytest.raises(NotNow, match=r"r1 is already purging") as caught:
            await client.purge()
        assert [status.purging for status in (await client.purge_status()).values()] == [False, True]
    assert caught.value.reason is Reason.PURGING
    assert idle.told == []


async def test_without_any_replica_nothing_can_be_told(directory: Path) -> None:
    async with engine_of([], directory) as address, client_at(address) as client:
        for call in (client.snapshots, client.purge):
            with pytest.raises(NotNow, match="there is no replica"):
                await call()


# --- no answer ---------------------------------------------------------------------------------------------------------


async def test_nobody_there_is_uncertain(directory: Path) -> None:
    async with client_at(f"unix://{directory}/nobody") as client:
        with pytest.raises(Uncertain, match=r"volume vol: engine unix://.*VolumeSnapshot a"):
            await client.snapshot("a")


async def test_no_answer_in_time_is_uncertain(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(longhorn, "ASKING_SECONDS", 0.2)
    async with engine_of([Replica(silent=True)], directory) as address, client_at(address) as client:
        with pytest.raises(Uncertain, match=r"ReplicaGet: no answer within 0\.2 s"):
            await client.snapshots()


async def test_a_call_that_an_engine_does_not_have_is_refused(directory: Path) -> None:
    async with engine_of([], directory) as address, client_at(address) as client:
        with pytest.raises(Impossible) as caught:
            await client.state()
    assert caught.value.reason is Reason.UNSUPPORTED
