"""How many clusters a project may have over all seeds: real controllers and hooks, in virtual time, while connections break."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import msgspec
import pytest

from tests.unit.kube.virtual_time import in_virtual_time
from tests.unit.projects.builders import cluster
from tests.unit.projects.master_scene import bugs_fail
from tests.unit.projects.platform_scene import NAME, PlatformScene
from tests.unit.projects.seed_scene import review_of
from ullage.kube.cache.indexer import Key
from ullage.kube.kinds import Meta
from ullage.kube.review import Decision, Review
from ullage.ledger.api import LEDGERS, NAMESPACE
from ullage.projects.api.kkp import CLUSTERS
from ullage.projects.api.kkp import SEEDS as SEED_OBJECTS
from ullage.projects.api.quotas import PROJECT_QUOTAS
from ullage.projects.names import CLUSTER_ESCROW, DRAINED
from ullage.projects.settings import SEED_NAMESPACE
from ullage.projects.webhook.quotas import kept_record

pytestmark = pytest.mark.slow

SEEDS = ("ams", "fra", "nyc")
LEDGER = Key(NAMESPACE, "clusters-abc")


class Numbers:
    """Every seed has one cluster at first."""

    def __init__(self, scene: PlatformScene) -> None:
        self.scene = scene
        self._uids = itertools.count(1)

    def allow(self, number: str | None) -> None:
        self.scene.api.edit(PROJECT_QUOTAS, NAME, merge={"metadata": {"annotations": {"ullage.io/max-clusters": number}}})

    async def create(self, seed: str) -> Decision:
        one, number = self.scene.seeds[seed], next(self._uids)
        made = cluster(f"new-{number}", uid=f"uid-new-{number}")
        body: Any = msgspec.to_builtins(made)
        deadline = self.scene.clock.monotonic() + 10
        asked = review_of(CLUSTERS, body, cluster="").request
        review = Review(msgspec.structs.replace(asked, namespace=""), deadline)
        decided = await one.hook("project-clusters").answer(review)
        if decided.allowed:
            one.seed.put(CLUSTERS, made)
        return decided

    def there(self) -> dict[str, int]:
        return {name: len(seed.seed.all(CLUSTERS)) for name, seed in self.scene.seeds.items()}

    def limit(self, seed: str) -> str:
        found = self.scene.seeds[seed].seed.get(LEDGERS, LEDGER)
        return "" if found is None else found.spec.limits.get("clusters", {}).get("clusters", "")

    def limits(self) -> list[str]:
        return [self.limit(seed) for seed in SEEDS]

    async def in_force(self, number: int) -> None:
        """Each keeps to its part, and the parts are the whole."""
        self.allow(str(number))
        await self.scene.until("all have a part", lambda: all(self.limits()) and sum(map(int, self.limits())) == number)
        await asyncio.sleep(120)

    async def rush(self, *seeds: str, times: int) -> None:
        async def ask(seed: str) -> None:
            for _ in range(times):
                await self.create(seed)
                await asyncio.sleep(1)

        await asyncio.gather(*(ask(seed) for seed in seeds))


def platform(test: Any) -> Any:
    async def run() -> None:
        scene = PlatformScene(*SEEDS, quota=9)
        scene.set_quota(9)
        async with scene.running():
            await test(Numbers(scene))
        scene.assert_sound()

    def wrapped() -> None:
        bugs_fail(lambda: in_virtual_time(run()))

    wrapped.__name__, wrapped.__doc__ = test.__name__, test.__doc__
    return wrapped


@platform
async def test_the_number_holds_over_all_seeds_and_all_of_it_can_be_used_on_one(found: Numbers) -> None:
    await found.in_force(6)
    await found.rush("fra", times=25)
    assert found.there() == {"ams": 1, "fra": 4, "nyc": 1}


@platform
async def test_those_who_ask_at_once_on_all_seeds_get_as_many_as_there_are(found: Numbers) -> None:
    await found.in_force(7)
    await found.rush(*SEEDS, times=15)
    assert sum(found.there().values()) == 7


@platform
async def test_a_seed_that_is_cut_off_keeps_to_its_part_and_nobody_else_gets_it(found: Numbers) -> None:
    await found.in_force(6)
    part = int(found.limit("ams"))
    found.scene.links["ams"].cut()
    await found.rush(*SEEDS, times=15)
    assert found.there()["ams"] == part
    assert sum(found.there().values()) == 6
    found.scene.links["ams"].heal()
    found.scene.seeds["ams"].seed.drop(CLUSTERS, Key("", "c"))
    await asyncio.sleep(120)
    await found.rush("nyc", times=15)
    assert sum(found.there().values()) == 6, "what it has given up is used elsewhere"


@platform
async def test_a_number_that_is_lowered_stops_growth_and_one_that_is_taken_off_is_gone(found: Numbers) -> None:
    await found.in_force(6)
    await found.rush("fra", times=15)
    found.allow("2")
    await asyncio.sleep(30)
    await found.rush(*SEEDS, times=3)
    assert sum(found.there().values()) == 6, "none is taken away, and none comes"
    assert (await found.scene.seeds["fra"].ask("m-1")).allowed, "machines are none of its business"
    found.allow(None)
    await found.scene.until("nobody has a limit", lambda: not any(found.limits()))
    assert (await found.create("fra")).allowed


@platform
async def test_what_a_dead_seed_does_not_take_of_the_number_is_given_back_also_after_the_master_was_restarted(
    found: Numbers,
) -> None:
    await found.in_force(9)
    assert (await found.create("ams")).allowed
    assert int(found.limit("ams")) == 3
    for number in range(3):  # all that it may have: it runs on, and is to be within what is granted
        assert (await found.scene.seeds["ams"].ask(f"m-{number}")).allowed
    await asyncio.sleep(120)
    found.scene.links["ams"].cut()
    await asyncio.sleep(60)
    await found.scene.kill_master()
    await found.scene.start_master()
    found.scene.api.edit(SEED_OBJECTS, "ams", SEED_NAMESPACE, merge={"metadata": {"annotations": {DRAINED: "true"}}})
    await found.rush("fra", times=25)
    assert found.there() == {"ams": 2, "fra": 6, "nyc": 1}, "its two clusters are all that it keeps"


@platform
async def test_the_record_and_the_ledgers_go_with_the_quota(found: Numbers) -> None:
    await found.in_force(6)
    found.scene.api.remove(PROJECT_QUOTAS, NAME)
    await found.scene.until("it is gone", lambda: found.scene.api.body(PROJECT_QUOTAS, NAME) is None)
    ledgers = [seed.seed for seed in found.scene.seeds.values()]
    await found.scene.until("and the ledgers", lambda: all(one.get(LEDGERS, LEDGER) is None for one in ledgers))


def test_people_cannot_write_the_record() -> None:
    had, forged = Meta(annotations={CLUSTER_ESCROW: "{}"}), Meta(annotations={CLUSTER_ESCROW: '{"fra":{"change":9}}'})
    assert kept_record(had, forged, CLUSTER_ESCROW) == "{}"
    assert kept_record(None, forged, CLUSTER_ESCROW) is None
    assert kept_record(had, Meta(), CLUSTER_ESCROW) == "{}"
