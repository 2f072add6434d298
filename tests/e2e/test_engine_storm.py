"""Engines and controller are killed at fifty random moments while snapshots of a hundred volumes are made and deleted, and
while the volumes go; nothing is stuck, nothing leaks, and no acknowledged write is lost.

A batch of requests is under way at every kill. What there is in the end is asked of the engines themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from ullage.engines.client.connection import HostConnection, address_of
from ullage.errors import UllageError

from .apart import IS_BORROWED
from .engine_scene import LONGHORN, EngineScene, Json, engine_scene, eventually
from .forked_controller import ForkedController

SEED = 20260707
VOLUMES, EACH = 100, 20
MAKING, TAKING_AWAY, GOING = 24, 20, 6  # kills in each act: 50 in all
EARLY = 4  # of ten snapshots are deleted while others are still made
FLEETING = 10  # in each of these batches: asked for, and deleted before anybody knows how far they came
SPANS = {"the start": 0.5, "it was ready": 3.0}  # when a process is killed: at most so many seconds after one of these
PATIENCE = 120.0
BLOCK = 4096
HEAD = "volume-head"

pytestmark = [
    pytest.mark.skipif(IS_BORROWED, reason="a borrowed cluster has a world of its own"),
    pytest.mark.slow,
    pytest.mark.timeout(600),
]

Work = Callable[[], object]


@dataclass(slots=True)
class Hits:
    """What the kills found under way: a test whose kills all come too late proves nothing."""

    begun: int = 0  # an engine was about to be asked for a snapshot, or had been, and nothing in the API told the outcome
    made: int = 0  # among these, the engine had it
    going: int = 0  # a snapshot was being deleted, and more than waiting for the next one
    volumes: int = 0  # a volume was being deleted

    def __str__(self) -> str:
        return f"{self.begun} creations begun ({self.made} made), {self.going} deletions and {self.volumes} volumes going"


@dataclass(slots=True)
class Storm:
    scene: EngineScene
    pool: ThreadPoolExecutor
    victims: dict[str, ForkedController]
    chance: random.Random = field(default_factory=lambda: random.Random(SEED))
    hits: Hits = field(default_factory=Hits)
    kills: int = 0
    kept: set[str] = field(default_factory=set)  # names of snapshots that were asked for, and not deleted
    written: dict[tuple[str, int], bool] = field(default_factory=dict)  # a block of a volume, and whether it was acknowledged
    began: float = field(default_factory=time.monotonic)

    @property
    def volumes(self) -> list[str]:
        return [f"v{number:03}" for number in range(VOLUMES)]

    def tell(self, what: str) -> None:
        print(f"{time.monotonic() - self.began:6.1f} s  {what}", flush=True)

    # --- requests ---

    def ask(self, name: str) -> None:
        """A snapshot's name begins with that of its volume."""
        spec = {"volume": name.partition("-")[0]}
        body: Json = {"apiVersion": "longhorn.io/v1beta2", "kind": "Snapshot", "metadata": {"name": name}, "spec": spec}
        self.scene.api.create(f"{LONGHORN}/snapshots", body)

    def delete(self, name: str) -> None:
        self.scene.api.delete(f"{LONGHORN}/snapshots/{name}")

    def fleeting(self, name: str) -> None:
        self.ask(name)
        self.delete(name)

    def bulk(self, work: Iterable[Work]) -> None:
        for done in [self.pool.submit(one) for one in work]:
            done.result()

    def write(self, number: int) -> None:
        """A block of each volume that was never written before. What a dead engine was asked to write may be there or not."""
        asyncio.run(self._write(number))

    async def _write(self, number: int) -> None:
        async with HostConnection(address_of(self.scene.socket)) as connection:
            for volume in self.volumes:
                self.written[volume, number] = False
                with contextlib.suppress(UllageError):
                    await connection.host.write(volume, offset=number * BLOCK, data=block(volume, number))
                    self.written[volume, number] = True

    # --- kills ---

    def strike(self, work: list[Work]) -> None:
        """One process is killed at a random moment while a batch of requests is under way, and started again."""
        name, when = self.chance.choice(sorted(self.victims)), self.chance.choice(sorted(SPANS))
        seconds = self.chance.uniform(0, SPANS[when])
        self.chance.shuffle(work)
        under_way = [self.pool.submit(one) for one in work]
        victim = self.victims[name]
        if when == "it was ready":
            victim.ready()
        time.sleep(seconds)  # the random moment
        victim.kill()
        self.look()
        victim.start()
        self.kills += 1
        self.tell(f"kill {self.kills}: {name}, {seconds:.3f} s after {when}")
        for one in under_way:
            one.result()

    def look(self) -> None:
        """What a kill has left."""
        for one in self.items("snapshots"):
            status, name = one.get("status", {}), one["metadata"]["name"]
            begun = "requestedTime" in status and "creationTime" not in status
            self.hits.begun += begun
            self.hits.made += begun and self.file_of(name).exists()
            self.hits.going += "deletionTimestamp" in one["metadata"] and not waits(one)
        self.hits.volumes += sum("deletionTimestamp" in one["metadata"] for one in self.items("volumes"))

    def file_of(self, snapshot: str) -> Path:
        return self.scene.data / snapshot.partition("-")[0] / f"volume-snap-{snapshot}.img"

    # --- what there is ---

    def items(self, plural: str) -> list[Json]:
        return list(self.scene.api.get(f"{LONGHORN}/{plural}").obj["items"])

    def unsettled(self) -> list[str]:
        """Snapshots that are neither ready nor marked and waiting for the next one, with what they say."""
        found = self.items("snapshots")
        there = {one["metadata"]["name"] for one in found}
        lost = [f"{name}: there is none" for name in self.kept - there]
        return lost + [f"{one['metadata']['name']}: {one.get('status')}" for one in found if not self._is_settled(one)]

    def _is_settled(self, one: Json) -> bool:
        if one["metadata"]["name"] in self.kept:
            return one.get("status", {}).get("readyToUse") is True and "deletionTimestamp" not in one["metadata"]
        return waits(one)

    def settle(self, what: str) -> None:
        with told(self.unsettled):
            eventually(what, lambda: not self.unsettled(), seconds=PATIENCE, every=1.0)
        self.tell(what)

    def on_host(self) -> dict[str, bool] | None:
        """The volumes of the host, and whether they are attached; None while it starts."""
        with contextlib.suppress(UllageError):
            return self.scene.volumes_on_host()
        return None

    def check_engines(self) -> None:
        """Every engine has exactly what the API shows, in its files too, and all are attached."""
        eventually("all are attached", lambda: self.on_host() == dict.fromkeys(self.volumes, True))
        shown: dict[str, set[str]] = {volume: {HEAD} for volume in self.volumes}
        for one in self.items("snapshots"):
            shown[one["spec"]["volume"]].add(one["metadata"]["name"])
        assert asyncio.run(self._entries()) == shown
        files = set(self.scene.data.glob("*/volume-snap-*"))
        assert files == {self.file_of(name) for names in shown.values() for name in names - {HEAD}}
        assert max(len(names - self.kept) for names in shown.values()) <= 2, "the head, and its marked parent"

    async def _entries(self) -> dict[str, set[str]]:
        async with HostConnection(address_of(self.scene.socket)) as connection:
            return {volume: set((await connection.host.engine(volume).snapshots()).entries) for volume in self.volumes}

    def check_data(self) -> None:
        asyncio.run(self._check_data())

    async def _check_data(self) -> None:
        async with HostConnection(address_of(self.scene.socket)) as connection:
            for (volume, number), acknowledged in self.written.items():
                found = await connection.host.read(volume, offset=number * BLOCK, length=BLOCK)
                allowed = {block(volume, number)} if acknowledged else {block(volume, number), bytes(BLOCK)}
                assert found in allowed, f"block {number} of {volume}"


def block(volume: str, number: int) -> bytes:
    return random.Random(f"{volume} {number}").randbytes(BLOCK)


def waits(snapshot: Json) -> bool:
    """Whether it is deleted, and what the volume writes on top of: the next snapshot lets it go."""
    conditions = snapshot.get("status", {}).get("conditions", ())
    said = any(one["type"] == "LogicallyRemoved" and one["reason"] == "ParentOfHead" for one in conditions)
    return said and "deletionTimestamp" in snapshot["metadata"]


@contextlib.contextmanager
def told(found: Callable[[], list[str]]) -> Iterator[None]:
    """What is wrong, where it goes wrong."""
    try:
        yield
    except AssertionError as error:
        left = found()
        error.add_note("\n".join([f"{len(left)} of them:", *left[:20]]))
        raise


def show(log: Path) -> None:
    print(f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}")


@pytest.fixture
def storm(tmp_path: Path) -> Iterator[Storm]:
    with contextlib.ExitStack() as stack:
        scene = stack.enter_context(engine_scene(tmp_path))
        victims = {}
        for name in ("engine", "controller"):
            scene.end(name)
            log = scene.base.directory / f"forked-{name}.log"
            victims[name] = stack.enter_context(ForkedController(*scene.command(name), log=log))
            victims[name].start()
            stack.callback(show, log)
        yield Storm(scene, stack.enter_context(ThreadPoolExecutor(8)), victims)


def test_kills_at_random_moments_leave_nothing_stuck_and_nothing_behind(storm: Storm) -> None:
    print(f"seed {SEED}: {VOLUMES} volumes with {EACH} snapshots")
    storm.bulk(partial(storm.scene.volume, volume, nodeID="ullage") for volume in storm.volumes)
    eventually("all are attached", lambda: {state_of(one) for one in storm.items("volumes")} == {"attached"})
    storm.tell("all are attached")

    make(storm)
    storm.settle("those that stay are ready, those that were deleted have gone")
    storm.check_engines()
    take_away(storm)
    storm.settle("all have gone but the parents of heads")
    storm.check_engines()
    storm.kept = {f"{volume}-next" for volume in storm.volumes}
    storm.bulk(partial(storm.ask, name) for name in storm.kept)
    eventually("the next snapshot lets those go", lambda: names(storm.items("snapshots")) == storm.kept, seconds=PATIENCE)
    storm.settle("the next ones are ready")
    storm.check_engines()
    storm.check_data()

    let_go(storm)
    print(f"{storm.kills} kills found {storm.hits}; {sum(storm.written.values())} of {len(storm.written)} writes acknowledged")
    assert storm.kills == 50
    hits = storm.hits
    assert min(hits.begun, hits.made, hits.going, hits.volumes) > 0, "the kills came when nothing was under way"


def state_of(volume: Json) -> str:
    return str(volume.get("status", {}).get("state", ""))


def names(found: list[Json]) -> set[str]:
    return {one["metadata"]["name"] for one in found}


def make(storm: Storm) -> None:
    """All snapshots are asked for; of those of earlier batches some are deleted again, whatever has come of them."""
    wanted = [f"{volume}-{number:02}" for number in range(EACH) for volume in storm.volumes]
    size = -(-len(wanted) // MAKING)
    for number in range(MAKING):
        doomed = storm.chance.sample(sorted(storm.kept), min(len(storm.kept), size * EARLY // 10))
        batch = wanted[number * size : (number + 1) * size]
        storm.kept = storm.kept.difference(doomed).union(batch)
        storm.strike(work_on(storm, number, ask=batch, delete=doomed))


def take_away(storm: Storm) -> None:
    left = sorted(storm.kept)
    storm.chance.shuffle(left)
    size = -(-len(left) // TAKING_AWAY)
    for number in range(TAKING_AWAY):
        doomed = left[number * size : (number + 1) * size]
        storm.kept.difference_update(doomed)
        storm.strike(work_on(storm, MAKING + number, delete=doomed))


def work_on(storm: Storm, number: int, *, delete: list[str], ask: Iterable[str] = ()) -> list[Work]:
    fleeting = [f"{volume}-fleeting-{number:02}" for volume in storm.chance.sample(storm.volumes, min(FLEETING, VOLUMES))]
    return [
        partial(storm.write, number),
        *(partial(storm.ask, name) for name in ask),
        *(partial(storm.delete, name) for name in delete),
        *(partial(storm.fleeting, name) for name in fleeting),
    ]


def let_go(storm: Storm) -> None:
    """Volumes with a snapshot that is ready, one that is only marked, and one that has just been asked for."""
    storm.bulk(partial(storm.delete, f"{volume}-next") for volume in storm.volumes[::2])
    for number in range(GOING):
        batch = storm.volumes[number::GOING]
        storm.bulk(partial(storm.ask, f"{volume}-late") for volume in batch)
        storm.strike([partial(storm.scene.api.delete, f"{LONGHORN}/volumes/{volume}") for volume in batch])
    for plural in ("snapshots", "volumes", "engines"):
        left = partial(storm.items, plural)
        with told(lambda left=left: [str(one) for one in left()]):  # type: ignore[misc]
            eventually(f"no {plural} are left", lambda left=left: not left(), seconds=PATIENCE, every=0.5)  # type: ignore[misc]
    storm.tell("the volumes have gone")
    eventually("the host is up", lambda: storm.on_host() is not None)
    assert storm.on_host() == {}
    assert [one.name for one in storm.scene.data.iterdir() if one.name[0] != "."] == []
