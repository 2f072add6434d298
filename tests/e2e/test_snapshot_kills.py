"""The controller is killed at fifty random moments while snapshots are made and deleted; nothing leaks, nothing is stuck.

Both dialects at once, several claims, on each backend, alone, beside a GA snapshot-controller that answers for every driver,
and with engines whose Snapshots are made and deleted on the way.
What there is at the end is asked of the storage system itself.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pytest

from tests.csi_driver.faults import Fault
from tests.csi_driver.running import NAME, RunningDriver
from tools.peers.snapshotter.build import snapshotter

from .apart import IS_BORROWED
from .built import built
from .engine_scene import LONGHORN, EngineScene, install_engines
from .forked_controller import ForkedController
from .snapshot_scene import BOTH, Dialect, Json, Scene, csi_volume, eventually, scene
from .snapshotters import Snapshotters

SEED = 20260701
CLAIMS = 4
ROUNDS, EACH = 25, 4  # of creates, and of deletes: 50 kills, 100 of each
TRANSIENT = 3  # more of them in each round of deletes: made, and deleted before anybody knows how far they came
# When a controller is killed: at most so many seconds after one of these. The last two are where the moments lie that matter
# most, and they are short.
SPANS = {"the start": 0.6, "it was ready": 0.6, "the storage worked": 0.15, "a snapshot was there": 0.01}
LONGEST_WAIT = 0.6  # for one of the last two: there may be nothing to do
PATIENCE = 60.0
HEAD = "volume-head"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(IS_BORROWED, reason="what is killed here would be the cluster's own snapshot controller"),
    pytest.mark.timeout(300),
]


class Storage(Protocol):
    """One storage system, and what it says itself of its snapshots."""

    alone: bool  # no other snapshotter runs

    def options(self) -> tuple[str, ...]: ...

    def claim(self, stage: Scene, namespace: str, number: int) -> None: ...

    def names(self) -> list[str]:
        """Of all snapshots, each as often as it is there."""

    def staged(self) -> list[str]:
        """Of those that are being made."""

    def leftovers(self) -> list[str]:
        """All that is neither a volume nor a snapshot."""

    def disturb(self, number: int) -> None:
        """Something of its own in a round."""

    def story(self) -> str:
        """What was asked of it about the snapshots that it has."""


class Directories:
    """Copies in a directory. Volumes have enough files that a copy takes a while."""

    alone = True

    def __init__(self, stage: Scene) -> None:
        self._stage = stage

    def options(self) -> tuple[str, ...]:
        return ()

    def claim(self, stage: Scene, namespace: str, number: int) -> None:
        path = stage.volumes / f"{namespace}-{number}"
        path.mkdir()
        for index in range(150):
            (path / f"file-{index}").write_bytes(random.Random(index).randbytes(4_000))
        stage.bound_claim(
            namespace, f"claim-{number}", source={"hostPath": {"path": str(path)}}, storage_class="ullage-hostpath"
        )

    def names(self) -> list[str]:
        return sorted(one.name for one in self._stage.snapshots.iterdir() if one.name[0] != ".")

    def staged(self) -> list[str]:
        return [one.name for one in self._stage.snapshots.iterdir() if one.name.startswith(".staging-")]

    def leftovers(self) -> list[str]:
        hidden = [one.name for one in self._stage.snapshots.iterdir() if one.name[0] == "." and one.name != ".locks"]
        locks = self._stage.snapshots / ".locks"
        return hidden + ([one.name for one in locks.iterdir()] if locks.exists() else [])

    def disturb(self, number: int) -> None:
        """A directory does not fail."""

    def story(self) -> str:
        return ""


class Driver:
    """A CSI driver that takes its time, and is killed now and then itself."""

    alone = True

    def __init__(self, stage: Scene) -> None:
        directory = stage.directory / "csi"
        directory.mkdir()
        self.driver = RunningDriver(directory)
        self.driver.start()
        slow = [Fault("CreateSnapshot", "wait", when=when, seconds=0.04) for when in ("before", "after")]
        self.driver.set(*slow, Fault("DeleteSnapshot", "wait", seconds=0.04), upload_seconds=0.3)
        stage.storage_class("csi", NAME)
        stage.snapshot_class("csi", NAME)

    def options(self) -> tuple[str, ...]:
        return ("--driver", f"{NAME}={self.driver.path}")

    def claim(self, stage: Scene, namespace: str, number: int) -> None:
        source = {"csi": {"driver": NAME, "volumeHandle": csi_volume(self.driver, f"{namespace}-{number}")}}
        stage.bound_claim(namespace, f"claim-{number}", source=source, storage_class="csi")

    def names(self) -> list[str]:
        return sorted(one.name for one in self.driver.snapshots())

    def staged(self) -> list[str]:
        return [one.name for one in (self.driver.state / "staging").iterdir()]

    def leftovers(self) -> list[str]:
        return self.staged()

    def disturb(self, number: int) -> None:
        if number % 12 == 5:
            self.driver.kill()
            self.driver.start()

    def story(self) -> str:
        known = {word for one in self.driver.snapshots() for word in (one.name, one.id)}
        return "\n".join(str(call) for call in self.driver.calls() if call.about in known)


class DriverBesideOthers(Driver):
    """The same, with the GA snapshot-controller at work all the time."""

    alone = False

    def __init__(self, stage: Scene) -> None:
        programs = built(snapshotter)
        super().__init__(stage)
        self.others = Snapshotters(stage.plane.kubeconfig, self.driver)
        self.others.start_their_controller(programs)


class Engines:
    """Volumes of the embedded engine, attached all the time. Its host is killed now and then."""

    alone = True

    def __init__(self, stage: Scene) -> None:
        self.scene = EngineScene(stage)
        install_engines(self.scene)
        for process in ("engine", "webhook", "world"):
            self.scene.start(process)
        self.volumes: list[str] = []

    def options(self) -> tuple[str, ...]:
        return self.scene.controller_options()

    def claim(self, stage: Scene, namespace: str, number: int) -> None:
        _, volume = self.scene.claim(namespace, f"claim-{number}", volumeMode="Block")
        self.scene.attach(volume)
        self.scene.write(volume, 0, random.Random(number).randbytes(1 << 16))
        self.volumes.append(volume)

    def names(self) -> list[str]:
        """Those that are marked for removal hold no data of their own: they go with the next purge that can."""
        chains = [self.scene.chain(volume) for volume in self.volumes]
        return sorted(one.name for chain in chains for one in chain.values() if one.name != HEAD and not one.removed)

    def staged(self) -> list[str]:
        return []

    def leftovers(self) -> list[str]:
        """Whoever holds a volume, or has it attached, beside the one who attached it here."""
        held = [
            f"{volume}: {mark}"
            for volume in self.volumes
            for mark in (self.scene.get("volumes", volume) or {})["metadata"].get("annotations", {})
            if mark.startswith("hold.ullage.io/")
        ]
        tickets = [f"{volume}: {ticket}" for volume in self.volumes for ticket in self.scene.tickets(volume)]
        others = sorted(self.scene.volumes_on_host().keys() - set(self.volumes))
        return [*held, *tickets, *others]

    def disturb(self, number: int) -> None:
        if number % 12 == 5:
            self.scene.kill("engine")
            eventually("all are attached again", lambda: all(self.scene.volumes_on_host().values()))

    def story(self) -> str:
        found = self.scene.api.get(f"{LONGHORN}/snapshots").obj["items"]
        return "\n".join(f"{one['metadata']} {one.get('status')}" for one in found)

    def end(self) -> None:
        for process in ("world", "webhook", "engine"):
            self.scene.end(process)


@pytest.fixture(
    params=[Directories, Driver, DriverBesideOthers, Engines],
    ids=["hostpath", "csi", "csi beside a GA snapshot-controller", "engines"],
)
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    with ExitStack() as stack:
        stage = stack.enter_context(scene(tmp_path))
        storage: Storage = request.param(stage)
        if isinstance(storage, Driver):
            stack.callback(storage.driver.kill)
        if isinstance(storage, DriverBesideOthers):
            stack.callback(storage.others.end)
        if isinstance(storage, Engines):
            stack.callback(storage.end)
        yield Shop(stage, storage)


@dataclass(slots=True)
class Hits:
    """What the kills found under way: a test whose kills all come too late proves nothing."""

    begun: int = 0  # a creation had been asked for, or was about to be, and nothing in the API told its outcome
    made: int = 0  # among these, the storage system had the snapshot
    going: int = 0  # a record was being deleted

    def __str__(self) -> str:
        return f"{self.begun} creations begun ({self.made} made, and not written down) and {self.going} deletions under way"


@dataclass(slots=True)
class Shop:
    """Claims of one storage system, and snapshots of them."""

    stage: Scene
    storage: Storage
    chance: random.Random = field(default_factory=lambda: random.Random(SEED))
    hits: Hits = field(default_factory=Hits)
    namespace: str = ""
    count: int = 0

    def open(self) -> None:
        self.namespace = self.stage.namespace()
        for number in range(CLAIMS):
            self.storage.claim(self.stage, self.namespace, number)

    def create(self) -> str:
        """The path of a new snapshot, of either dialect."""
        dialect, claim = self.chance.choice(BOTH), self.chance.randrange(CLAIMS)
        self.count += 1
        name = f"s{self.count:03}"
        path = dialect.snapshots(self.namespace)
        self.stage.api.create(path, dialect.of_claim(name, f"claim-{claim}"))
        return f"{path}/{name}"

    def delete(self, path: str) -> None:
        self.stage.api.delete(path)

    def snapshots(self) -> list[tuple[Dialect, Json]]:
        return [(one, obj) for one in BOTH for obj in self.stage.api.get(one.everywhere()).obj["items"]]

    def records(self) -> list[tuple[Dialect, Json]]:
        return [(one, obj) for one in BOTH for obj in self.stage.api.get(one.records).obj["items"]]

    def claims(self) -> list[Json]:
        return list(self.stage.api.get(f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims").obj["items"])

    def look(self) -> None:
        """What a kill has left."""
        stored = set(self.storage.names())
        for dialect, record in self.records():
            begun = not dialect.handle(record)
            self.hits.begun += begun
            self.hits.made += begun and f"snapshot-{record['spec']['volumeSnapshotRef']['uid']}" in stored
            self.hits.going += "deletionTimestamp" in record["metadata"]

    def wait_for_more(self, seen: Callable[[], list[str]]) -> None:
        before, deadline = set(seen()), time.monotonic() + LONGEST_WAIT
        while time.monotonic() < deadline and set(seen()) <= before:
            time.sleep(0.002)

    def all_ready(self) -> bool:
        return all(dialect.ready(obj) for dialect, obj in self.snapshots())

    def all_gone(self) -> bool:
        return not self.snapshots() and not self.records()

    def nothing_held(self) -> bool:
        return not any(claim["metadata"].get("finalizers") for claim in self.claims())


@pytest.fixture
def controller(shop: Shop) -> Iterator[ForkedController]:
    log = shop.stage.directory / "controller.log"
    with ForkedController(*shop.stage.controller(*shop.storage.options(), alone=shop.storage.alone), log=log) as made:
        yield made
    print(log.read_text(errors="replace")[-6000:])


def moment(shop: Shop, controller: ForkedController, number: int) -> None:
    """A kill at a random moment of a controller's life."""
    shop.storage.disturb(number)
    when = shop.chance.choice(list(SPANS))
    seconds = shop.chance.uniform(0, SPANS[when])
    if when != "the start":
        controller.ready()
    if when == "the storage worked":
        shop.wait_for_more(lambda: [*shop.storage.names(), *shop.storage.staged()])
    elif when == "a snapshot was there":
        shop.wait_for_more(shop.storage.names)
    time.sleep(seconds)  # the random moment
    controller.kill()
    shop.look()
    print(f"kill {number}: {seconds:.3f} s after {when}")


def test_kills_at_random_moments_leave_one_snapshot_for_each_object_and_none_without(
    shop: Shop, controller: ForkedController
) -> None:
    print(f"seed {SEED}")
    shop.open()
    made: list[str] = []
    for number in range(ROUNDS):
        controller.start()
        made += [shop.create() for _ in range(EACH)]
        moment(shop, controller, number)
    controller.start()
    eventually("all are ready", shop.all_ready, seconds=PATIENCE, every=0.2)
    eventually("no claim is held", shop.nothing_held)
    check_made(shop, len(made))

    for number in range(ROUNDS, 2 * ROUNDS):
        transient = [shop.create() for _ in range(TRANSIENT)]
        moment(shop, controller, number)
        shop.chance.shuffle(made)
        for path in (*transient, *(made.pop() for _ in range(EACH))):
            shop.delete(path)
        controller.start()
    eventually("all are gone", shop.all_gone, seconds=PATIENCE, every=0.2)
    eventually("no claim is held", shop.nothing_held)
    print(f"the kills found {shop.hits}")
    assert shop.storage.names() == [], shop.storage.story()
    assert shop.storage.leftovers() == []
    assert min(shop.hits.begun, shop.hits.made, shop.hits.going) > 0, "the kills came when nothing was under way"


def check_made(shop: Shop, count: int) -> None:
    """One snapshot of the storage system for each object, under the name that follows from its uid, and one record."""
    snapshots, records = shop.snapshots(), shop.records()
    assert len(snapshots) == count
    uids = sorted(obj["metadata"]["uid"] for _, obj in snapshots)
    assert shop.storage.names() == [f"snapshot-{uid}" for uid in uids]
    assert sorted(obj["spec"]["volumeSnapshotRef"]["uid"] for _, obj in records) == uids
    handles = [dialect.handle(obj) for dialect, obj in records]
    assert len({*handles} - {""}) == count
    assert all(dialect.ready(obj) for dialect, obj in records)
