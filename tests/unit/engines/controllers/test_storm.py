"""Many volumes, snapshots made and deleted all the time, and a process that dies again and again: nothing is stuck, nothing
leaks, and nothing is left when the volumes go."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from tests.unit.engines.world import World, holds
from tests.unit.snapshots.memory_api import Crash
from ullage.engines.api import VOLUMES
from ullage.engines.chain import HEAD

VOLUMES_COUNT = 4
DEATHS = 50


@dataclass
class Storm:
    chance: random.Random
    world: World = field(default_factory=World)
    asked: dict[str, str] = field(default_factory=dict)  # name → volume, of those that are to stay
    number: int = 0
    deaths: int = 0

    def gust(self) -> None:
        """What users do while the process is dead."""
        for _ in range(self.chance.randint(1, 4)):
            if self.asked and self.chance.random() < 0.4:
                name = self.chance.choice(sorted(self.asked))
                del self.asked[name]
                self.world.delete(name)
            else:
                self.number += 1
                volume = self.chance.choice(sorted(self.world.engines))
                self.asked[f"snap-{self.number}"] = volume
                self.world.ask(f"snap-{self.number}", volume)
        volume = self.chance.choice(sorted(self.world.engines))
        self.world.pinned ^= {volume}

    async def rage(self) -> None:
        """Each life of the process ends at some effect, or when there is nothing left to do."""
        fuse = self.world.api.fuse
        while self.deaths < DEATHS:
            self.gust()
            fuse.passed, fuse.blows_at = 0, self.chance.randint(1, 30)
            try:
                async with self.world.running():
                    await holds(lambda: self.calm() or fuse.passed >= fuse.blows_at)
            except* Crash:
                self.deaths += 1
        fuse.blows_at = -1

    def calm(self) -> bool:
        """Whoever is asked for is ready, and of the others only marked parents of a head are left."""
        left = self.world.names() - self.asked.keys()
        marked = all(self.world.condition("LogicallyRemoved", name) for name in left)
        held = any(self.world.tickets(volume) for volume in self.world.engines)
        return marked and not held and all(map(self.world.ready, self.asked))


@pytest.mark.parametrize("seed", range(4))
async def test_a_storm_of_kills_leaves_nothing_behind(seed: int) -> None:
    storm = Storm(random.Random(seed))
    world = storm.world
    for number in range(VOLUMES_COUNT):
        world.volume(f"vol-{number}", attached=bool(number % 2))
    await storm.rage()
    await world.live(storm.calm)
    for volume, engine in world.engines.items():
        wanted = {name for name, of in storm.asked.items() if of == volume}
        marked = {name for name, entry in engine.entries.items() if entry.removed}
        assert engine.names == wanted | marked, (seed, volume)
        assert all(engine.entries[name].children == {HEAD} for name in marked), "only the parent of a head stays"
        assert len(engine.taken) == len(set(engine.taken)), "nothing was taken twice"
    for volume in world.engines:
        world.delete_volume(volume)
    await world.live(lambda: not world.names() and not world.api.bodies(VOLUMES))
