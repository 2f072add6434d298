"""Machines on two platforms: many at once until both are filled, then one after the other, by turns."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from bench.apiserver.__main__ import say
from bench.apiserver.memory import listener, resident_megabytes
from bench.ledger.meters import cpu_seconds
from bench.projects.scene import CLIENTS, Placed, Side, Size
from tests.e2e.projects_scene import CREATED, Platform
from ullage.app.installer.roles import CONTROLLER, WEBHOOK

WARM_UP: Final = 20
CONFLICT: Final = 409
LATER: Final = frozenset({429, 500, 503, 504})  # the scene's API servers give a request 3 s


@dataclass(slots=True)
class Found:
    """Of one side, in seconds. `cpu` is that of all its seeds' webhooks while Machines came one by one."""

    size: Size
    fill_seconds: float = 0.0
    fill_delays: list[float] = field(default_factory=list)
    fill_cpu: dict[str, float] = field(default_factory=dict)  # by sort of process, until the last was in the sum
    divided_seconds: float = 0.0
    decisions: list[float] = field(default_factory=list)
    delays: list[float] = field(default_factory=list)
    cpu: float = 0.0
    asked_again: int = 0
    memory: dict[str, float] = field(default_factory=dict)  # megabytes


class Maker:
    """Makes Machines on one side, and keeps when each was answered."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self._made = 0
        self.asked_again = 0
        self._answered: dict[str, list[float]] = {project: [] for project in side.counts}

    def make(self, placed: Placed, number: int) -> float:
        """Seconds until it is there. Where a server had no time it is asked again, which takes its time too."""
        begun = time.monotonic()
        while (answer := placed.user.ask(f"m-{number:06}")).code not in (CREATED, CONFLICT):  # it may have come nevertheless
            if answer.code not in LATER:
                raise RuntimeError(f"{placed.user.name}: {answer.code}: {answer.raw[:1000]!r}")
            self.asked_again += 1
        ended = time.monotonic()
        self._answered[placed.project].append(ended)
        return ended - begun

    def next(self) -> tuple[Placed, int]:
        """Where the next one is made: in every user cluster by turns."""
        self._made += 1
        return self.side.placed[self._made % len(self.side.placed)], self._made

    def delays(self) -> list[float]:
        """How long each that was made since this was last asked took to the master's sum; waits until it has them all."""
        before = dict(self.side.counts)
        for project, times in self._answered.items():
            self.side.counts[project] += len(times)
        self.side.settle()
        found = [
            delay
            for project, times in self._answered.items()
            for delay in self.side.watches[project].delays(times, before=before[project])
        ]
        self._answered = {project: [] for project in self._answered}
        return found


def measure(large: tuple[Platform, Size], small: tuple[Platform, Size], *, decisions: int) -> tuple[Found, Found]:
    """The many projects, and the one."""
    sides = [Side(*large), Side(*small)]
    found = (Found(large[1]), Found(small[1]))
    makers = [Maker(side) for side in sides]
    for side, maker, one in zip(sides, makers, found, strict=True):
        side.build()
        one.divided_seconds = side.divided_seconds
        fill(maker, one)
    by_turns(makers, found, decisions)
    for maker, one in zip(makers, found, strict=True):
        one.memory, one.asked_again = memory(maker.side), maker.asked_again
    return found


def fill(maker: Maker, found: Found) -> None:
    say(f"{found.size}: is filled by {CLIENTS} clients")
    jobs = [maker.next() for _ in range(found.size.machines)]
    spent, begun = cpu_by_sort(maker.side), time.monotonic()
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(lambda job: maker.make(*job), jobs))
    found.fill_seconds = time.monotonic() - begun
    say(f"{found.size}: {found.fill_seconds:,.0f} s, and until all are in the sums")
    found.fill_delays = maker.delays()
    found.fill_cpu = {sort: seconds - spent[sort] for sort, seconds in cpu_by_sort(maker.side).items()}


def by_turns(makers: list[Maker], found: tuple[Found, Found], decisions: int) -> None:
    for maker in makers:
        for _ in range(min(WARM_UP, decisions)):
            maker.make(*maker.next())
        maker.delays()
    say(f"{decisions} machines on each side, one after the other")
    order, chance = [0, 1], random.Random(1)
    before = [cpu(maker.side) for maker in makers]
    for _ in range(decisions):
        chance.shuffle(order)  # what else the machine does shall hit both sides alike
        for at in order:
            found[at].decisions.append(makers[at].make(*makers[at].next()))
    for maker, one, spent in zip(makers, found, before, strict=True):
        one.cpu = cpu(maker.side) - spent
        one.delays = maker.delays()


def cpu(side: Side) -> float:
    pids = [seed.processes.pid(WEBHOOK) for seed in side.platform.seeds.values()]
    return cpu_seconds({"webhooks": pids})["webhooks"]


def cpu_by_sort(side: Side) -> dict[str, float]:
    """Of all processes together, by what they are."""
    platform, seeds = side.platform, list(side.platform.seeds.values())
    master = listener(urlsplit(platform.plane.url).port or 0)
    pids = {
        "master: API server": [master] if master else [],
        "master: controller": [platform.processes.pid(CONTROLLER)],
        "seeds: API servers": [seed.server.pid for seed in seeds],
        "seeds: controllers": [seed.processes.pid(CONTROLLER) for seed in seeds],
        "seeds: webhooks": [seed.processes.pid(WEBHOOK) for seed in seeds],
        "user clusters: API servers": [one.user.server.pid for one in side.placed],
    }
    return cpu_seconds(pids)


def memory(side: Side) -> dict[str, float]:
    """Of the master's processes, and of the largest of each sort on the seeds and in the user clusters."""
    platform = side.platform
    master = listener(urlsplit(platform.plane.url).port or 0)
    found = {"master: API server": resident_megabytes([master] if master else [])}
    for name in (CONTROLLER, WEBHOOK):
        found[f"master: {name}"] = resident_megabytes([platform.processes.pid(name)])
    seeds = list(platform.seeds.values())
    found["seed: API server"] = max(resident_megabytes([seed.server.pid]) for seed in seeds)
    for name in (CONTROLLER, WEBHOOK):
        found[f"seed: {name}"] = max(resident_megabytes([seed.processes.pid(name)]) for seed in seeds)
    found["user cluster: API server"] = max(resident_megabytes([one.user.server.pid]) for one in side.placed)
    return found
