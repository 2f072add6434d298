"""The life of a cluster of VMs with quotas near their limits: starts, stops, deletions, moves and drains at random, while the
webhook, the controller and the world are killed and started again.

At every look nothing is past a share. What is refused although it fits is admitted once whatever holds the room is
forgotten, and in the end nothing is held. A minute of it; `ULLAGE_LIFE_SECONDS=3600` has an hour of it.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from random import Random
from threading import Event

import msgspec
import pytest

from ullage.headroom.counting import counts
from ullage.kube.kinds import without_nulls
from ullage.ledger.api import Ledger
from ullage.ledger.codec import book_of
from ullage.vms.api.machines import VirtualMachine

from .apart import IS_BORROWED
from .api import Answer
from .engine_scene import eventually
from .headroom_scene import CREATED, FORBIDDEN, LEDGERS, OVER, HeadroomScene, Json, Tenant, headroom_scene, watched

SECONDS = float(os.environ.get("ULLAGE_LIFE_SECONDS", "60"))
pytestmark = [
    pytest.mark.skipif(IS_BORROWED, reason="a borrowed cluster has a world of its own"),
    pytest.mark.slow,
    pytest.mark.timeout(SECONDS + 540),
]
SEED = int(os.environ.get("ULLAGE_LIFE_SEED", "26"))
TENANTS, NAMES = 3, ("a", "b", "c", "d")
FIT = MOVE = 2  # VMs, and migrations at a time, in a quota of 4 CPUs of which one half is kept
NO_ROOM, NO_RESERVE = "VM available resources are insufficient", "maintenance resource is insufficient"
NO_QUOTA = "does not fit into the namespace's own quota"
FORGOTTEN = 90.0  # seconds until a request that was lost with a process holds nothing: 45 s, and the start of a new process
TYPES = "/apis/instancetype.kubevirt.io/v1beta1/virtualmachineclusterinstancetypes"
TYPE: Json = {
    "apiVersion": "instancetype.kubevirt.io/v1beta1",
    "kind": "VirtualMachineClusterInstancetype",
    "metadata": {"name": "one"},
    "spec": {"cpu": {"guest": 1}, "memory": {"guest": "924Mi"}},
}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeadroomScene]:
    with headroom_scene(tmp_path_factory.mktemp("life")) as made:
        made.api.create(TYPES, TYPE)
        yield made


class Life:
    """One tenant, who does one thing after the other."""

    def __init__(self, tenant: Tenant, random: Random) -> None:
        self.tenant = tenant
        self.random = random
        self.done: Counter[str] = Counter()
        self.longest = 0.0  # seconds for which something was refused although it fits
        self._moves = 0

    # --- what there is ---

    def machines(self) -> dict[str, Json]:
        return {one["metadata"]["name"]: one for one in self._items(self.tenant.machines)}

    def counting(self) -> int:
        return sum(counts(msgspec.convert(without_nulls(one), VirtualMachine)) for one in self.machines().values())

    def moving(self) -> int:
        return sum(one.get("status", {}).get("phase") not in OVER for one in self._items(self.tenant.migrations))

    def past_a_share(self) -> str:
        instances = [one for one in self._items(self.tenant.instances) if one.get("status", {}).get("phase") not in OVER]
        if len(instances) > FIT:
            return f"{len(instances)} instances in a share of {FIT}: {[one['metadata']['name'] for one in instances]}"
        return f"{moving} migrations in a share of {MOVE}" if (moving := self.moving()) > MOVE else ""

    def _items(self, path: str) -> list[Json]:
        found: list[Json] = self.tenant.api.get(path).obj["items"]
        return found

    # --- what is done ---

    def live(self, over: Event) -> None:
        while not over.is_set():
            name = self.random.choice(NAMES)
            act = self.random.choices((self.start, self.stop, self.move, self.delete), (6, 3, 3, 1))[0]
            act(name)
            over.wait(self.random.random() * 0.3)

    def start(self, name: str) -> None:
        def ask() -> Answer:
            if name in self.machines():
                return self.tenant.set_strategy(name, "Always")
            body = self.tenant.machine(name)
            if self.random.random() < 0.3:
                body["spec"]["instancetype"] = {"name": "one"}
                body["spec"]["template"]["spec"]["domain"] = {"devices": {}}
            return self.tenant.api.call("POST", self.tenant.machines, body)

        self._asked("start", ask, lambda: self.counting() < FIT)

    def stop(self, name: str) -> None:
        self.done[f"stop {self.tenant.set_strategy(name, 'Halted').code}"] += 1

    def delete(self, name: str) -> None:
        self.done[f"delete {self.tenant.api.call('DELETE', f'{self.tenant.machines}/{name}').code}"] += 1

    def move(self, name: str) -> None:
        def ask() -> Answer:
            self._moves += 1
            return self.tenant.ask_migration(name, f"move-{self._moves}")

        def fits() -> bool:
            return self.moving() < MOVE and bool(self.tenant.instance(name)) and self.counting() <= FIT

        self._asked("move", ask, fits)

    def _asked(self, what: str, ask: Callable[[], Answer], fits: Callable[[], bool]) -> None:
        """Asks once; and again, as long as it fits by what is there and is refused for want of room."""
        began = time.monotonic()
        while True:
            could = fits()
            answer = ask()
            self.done[f"{what} {answer.code}"] += 1
            short = any(text in answer.message for text in (NO_ROOM, NO_RESERVE, NO_QUOTA))
            if not (could and answer.code == FORBIDDEN and short and fits()):
                return
            self.longest = max(self.longest, time.monotonic() - began)
            assert self.longest < FORGOTTEN, f"refused for {self.longest:.0f} s although it fits: {answer.message}"
            time.sleep(0.5)


def test_nothing_is_past_a_share_nothing_is_held_and_nothing_is_refused_that_fits(scene: HeadroomScene) -> None:
    random = Random(SEED)
    lives = [Life(scene.tenant(typed=True), Random(random.random())) for _ in range(TENANTS)]
    over, until = Event(), time.monotonic() + SECONDS
    with ExitStack() as watching, ThreadPoolExecutor(TENANTS) as pool:
        for life in lives:
            watching.enter_context(watched(life.past_a_share))
        running = [pool.submit(life.live, over) for life in lives]
        try:
            while time.monotonic() < until and not any(one.done() for one in running):
                disturb(scene, random)
        finally:
            over.set()
        ended(running)
        for node in scene.nodes:
            scene.uncordon(node)
        for life in lives:
            comes_to_rest(life)
        for life in lives:
            has_all_of_its_room(life)
    for life in lives:
        print(f"refused although it fits for {life.longest:.1f} s at most: {dict(sorted(life.done.items()))}")
        assert life.done["start 201"] + life.done["start 200"] > 0, life.done


def disturb(scene: HeadroomScene, random: Random) -> None:
    """Empties a node, or ends a process with -9 and starts the next."""
    match random.choice(("drain", *scene.processes)):
        case "drain":
            node = random.choice(scene.nodes)
            scene.drain(node)
            time.sleep(random.random() * 4)
            scene.uncordon(node)
        case process:
            scene.kill(process)
    time.sleep(random.random() * 4)


def ended(running: list[Future[None]]) -> None:
    for one in running:
        one.result(timeout=FORGOTTEN + 30)


def comes_to_rest(life: Life) -> None:
    tenant = life.tenant
    for name in life.machines():
        # One that was deleted may be gone by now.
        eventually(f"{name} is to stop", lambda name=name: tenant.set_strategy(name, "Halted").code in (200, 404))  # type: ignore[misc]
    eventually("nothing runs", lambda: not tenant.api.get(tenant.instances).obj["items"], seconds=60)
    eventually("nothing moves", lambda: not life.moving(), seconds=60)
    eventually("nothing is held", lambda: not held(tenant), seconds=FORGOTTEN)


def held(tenant: Tenant) -> list[str]:
    """What the ledger has of the two shares, there or reserved."""
    found = msgspec.convert(tenant.api.get(f"{LEDGERS}/ns-{tenant.namespace}").obj, Ledger)
    book = book_of(found, now=datetime.now(UTC))
    return [str(cell) for cell in book.limits if book.used[cell].nanos or book.reserved[cell].nanos]


def has_all_of_its_room(life: Life) -> None:
    tenant = life.tenant
    for name in ("last-1", "last-2"):
        eventually(f"{name} is admitted", lambda name=name: tenant.ask_machine(name).code == CREATED, seconds=10)  # type: ignore[misc]
    tenant.until("Running", "last-1", "last-2")
    refused = tenant.ask_machine("last-3")
    assert refused.code == FORBIDDEN, refused.raw
    assert NO_ROOM in refused.message
    for one in [tenant.migrate("last-1"), tenant.migrate("last-2")]:
        tenant.moved(one)
