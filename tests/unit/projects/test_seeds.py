"""Seeds as the master follows them: which can be, which come and go, and what is given of one that cannot be reached."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any, cast

import msgspec
import pytest

from tests.unit.kube.client.test_foreign import kubeconfig
from tests.unit.projects.builders import meta
from tests.unit.projects.master_scene import NAME, MasterScene, simulated
from ullage.kube.builtin.core import SECRETS, secret_data
from ullage.kube.cache.indexer import Key
from ullage.kube.controller.queue import Queue
from ullage.kube.errors import Unavailable
from ullage.kube.slices import Part, Wiring
from ullage.ledger.api import LEDGERS
from ullage.ledger.api import NAMESPACE as LEDGER_NAMESPACE
from ullage.projects.api.kkp import SEEDS, SecretReference, Seed, SeedSpec
from ullage.projects.api.quotas import PROJECT_QUOTAS
from ullage.projects.seeds import ELSEWHERE, WATCHES, Seeds, answering, problem_of
from ullage.projects.settings import SEED_NAMESPACE


@contextlib.asynccontextmanager
async def followed(scene: MasterScene) -> AsyncIterator[tuple[Seeds, Wiring]]:
    wiring = Wiring(scene.api, clock=scene.clock)  # type: ignore[arg-type]
    part: Part[Seeds] = Part(
        make=lambda wiring: [Seeds(wiring, namespace=SEED_NAMESPACE)],
        watches=WATCHES,
        secrets_in=(SEED_NAMESPACE,),
        elsewhere=ELSEWHERE,
    )
    (found,) = wiring.made(part)
    async with wiring.holding(asyncio.Event()):
        reading = [asyncio.create_task(cache.run()) for cache in wiring.caches]
        try:
            yield found, wiring
        finally:
            for task in reading:
                task.cancel()
            await asyncio.gather(*reading, return_exceptions=True)


@pytest.mark.parametrize(
    ("name", "reference", "problem"),
    [
        pytest.param("eu", {"name": "a"}, "", id="what is not said is as KKP has it"),
        pytest.param("eu", {"name": "a", "namespace": "kubermatic", "field_path": "kubeconfig"}, "", id="all of it is said"),
        pytest.param("eu", {}, "spec.kubeconfig.name", id="no Secret"),
        pytest.param("eu", {"name": "a", "namespace": "other"}, "spec.kubeconfig.namespace: other", id="another namespace"),
        pytest.param("eu", {"name": "a", "field_path": "data"}, "spec.kubeconfig.fieldPath: data", id="another key"),
        pytest.param("eu.west", {"name": "a"}, "metadata.name: 'eu.west'", id="a name with dots"),
    ],
)
def test_which_seeds_can_be_followed(name: str, reference: dict[str, str], problem: str) -> None:
    seed = Seed(metadata=meta(name), spec=SeedSpec(kubeconfig=SecretReference(**reference)))
    found = problem_of(seed, namespace="kubermatic")
    assert found.startswith(problem)
    assert bool(found) == bool(problem)


@simulated
async def test_seeds_are_followed_as_they_come_and_go(scene: MasterScene) -> None:
    async with followed(scene) as (seeds, wiring):
        await scene.quiet()
        assert seeds.names == ["eu", "us"]
        assert wiring.clusters.names == ["eu", "us"]
        assert seeds.reach("eu").reachable
        assert cast("object", seeds.client("eu")) is scene.seeds["eu"]
        scene.add_seed("asia")
        await scene.quiet()
        assert seeds.reach("asia").reachable
        scene.remove_seed("us")
        await scene.quiet()
        assert seeds.names == ["asia", "eu"]
        assert wiring.clusters.names == ["asia", "eu"]
        assert (seeds.client("us"), seeds.copies("us"), seeds.ledgers("us"), seeds.get("us")) == (None,) * 4
        assert seeds.reach("us").error == "there is no such seed"


def test_a_seed_that_cannot_be_followed_is_there_and_out_of_reach_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    @simulated
    async def test(scene: MasterScene) -> None:
        scene.add_seed("far", namespace="other")
        async with followed(scene) as (seeds, _):
            await scene.quiet()
            scene.api.edit(SEEDS, "far", SEED_NAMESPACE, merge={"metadata": {"labels": {"a": "b"}}})
            await scene.quiet()
            assert seeds.names == ["eu", "far", "us"]
            assert not seeds.reach("far").reachable
            assert "only Secrets in namespace kubermatic are read" in seeds.reach("far").error
            scene.api.edit(SEEDS, "far", SEED_NAMESPACE, merge={"spec": {"kubeconfig": {"namespace": None}}})
            await scene.quiet()
            assert seeds.reach("far").reachable, "somebody has mended it"
            scene.api.edit(SEEDS, "far", SEED_NAMESPACE, merge={"spec": {"kubeconfig": {"fieldPath": "other"}}})
            await scene.quiet()
            assert not seeds.reach("far").reachable

    with caplog.at_level(logging.WARNING):
        test()
    assert caplog.text.count("seed cannot be followed") == 2


@simulated
async def test_a_cluster_that_somebody_else_follows_under_that_name_is_left_alone(scene: MasterScene) -> None:
    async with followed(scene) as (seeds, wiring):
        secrets = wiring._cache(SECRETS, namespace=SEED_NAMESPACE)
        where = Key(SEED_NAMESPACE, "kubeconfig-of-a-user-cluster")
        wiring.clusters.follow("far", secrets, where)
        scene.add_seed("far")
        await scene.quiet()
        assert "far" in wiring.clusters
        assert seeds.reach("far").error == "a cluster that is called far is followed already"
        scene.remove_seed("far")
        await scene.quiet()
        assert "far" in wiring.clusters


@simulated
async def test_nothing_that_was_read_before_is_given_for_what_is_there_now(scene: MasterScene) -> None:
    ledger = {"metadata": {"name": NAME, "namespace": LEDGER_NAMESPACE}, "spec": {"change": 1}}
    scene.seeds["eu"].put(LEDGERS, ledger)
    async with followed(scene) as (seeds, _):
        await scene.quiet()
        found = seeds.ledgers("eu")
        assert found is not None
        assert len(found) == 1
        assert seeds.copies("eu") is not None
        scene.seeds["eu"].cut_off()
        await scene.quiet()
        assert (seeds.ledgers("eu"), seeds.copies("eu")) == (None, None)
        assert seeds.last_ledgers("eu") is found, "of a dead seed it is what there is to go by"
        scene.seeds["eu"].come_back()
        await scene.quiet(120)
        assert seeds.ledgers("eu") is found


@simulated
async def test_controllers_are_woken_by_what_changes_on_seeds_and_not_by_other_clusters(scene: MasterScene) -> None:
    async with followed(scene) as (seeds, wiring):
        queue: Queue[str] = Queue(clock=scene.clock)

        def woken() -> set[str]:
            found = set()
            while (key := queue.pop()) is not None:
                queue.done(key)
                found.add(key)
            return found

        seeds.wake_by_reach(queue, lambda seed: (f"reach of {seed}",))
        seeds.wake_by_copies(queue, lambda seed, copy: (f"copy on {seed}",))
        seeds.wake_by_ledgers(queue, lambda seed, ledger: (f"ledger on {seed}",), when=lambda old, new: True)
        user = scene.api.beside_of["user.example.com"] = type(scene.api)("user", scene.clock)
        text = kubeconfig(cluster={"server": "https://user.example.com"})
        scene.api.put(
            SECRETS, {"metadata": {"name": "u", "namespace": SEED_NAMESPACE}, "data": secret_data({"kubeconfig": text})}
        )
        wiring.clusters.follow("user", wiring._cache(SECRETS, namespace=SEED_NAMESPACE), Key(SEED_NAMESPACE, "u"))
        await scene.quiet()
        assert woken() == {"reach of eu", "reach of us"}
        quota: dict[str, Any] = {"metadata": {"name": NAME}, "spec": {"subject": {"name": "abc", "kind": "project"}}}
        scene.seeds["eu"].put(PROJECT_QUOTAS, quota)
        user.put(PROJECT_QUOTAS, quota)
        scene.seeds["us"].put(LEDGERS, {"metadata": {"name": NAME, "namespace": LEDGER_NAMESPACE}})
        await scene.quiet()
        assert woken() == {"copy on eu", "ledger on us"}
        scene.seeds["us"].cut_off()
        await scene.quiet()
        assert woken() == {"reach of us"}


def test_the_status_of_a_seed_wakes_nobody_but_what_people_write_does() -> None:
    @simulated
    async def test(scene: MasterScene) -> None:
        async with followed(scene) as (seeds, _):
            await scene.quiet()
            source = seeds.source(lambda seed: (seed,))
            old = seeds.get("eu")
            assert old is not None
            status = msgspec.structs.replace(old, status=msgspec.structs.replace(old.status, clusters=7))
            assert list(source.affected(old, status)) == []
            marked = msgspec.structs.replace(old, metadata=msgspec.structs.replace(old.metadata, annotations={"a": "b"}))
            assert list(source.affected(old, marked)) == ["eu"]
            assert list(source.affected(old, None)) == ["eu"]

    test()


@simulated
async def test_a_seed_that_says_nothing_is_taken_for_one_that_does_not_answer(scene: MasterScene) -> None:
    with pytest.raises(Unavailable, match="seed eu: no answer within 5 s"):
        async with answering("eu"):
            await asyncio.sleep(3600)
    async with answering("eu"):
        await asyncio.sleep(4)
