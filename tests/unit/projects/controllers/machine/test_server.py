"""Providers are asked about the servers of Machines that went: what comes of their answers, and how often they are asked."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.unit.projects.builders import cluster as cluster_object
from tests.unit.projects.controllers.machine.test_unstamped import used
from tests.unit.projects.machines.builders import NOW, SMALL, later
from tests.unit.projects.seed_scene import SeedScene, machine_body, simulated
from ullage.kube.builtin.core import SECRETS, Secret, secret_data
from ullage.kube.cache.indexer import Key
from ullage.kube.controller.controller import Controller
from ullage.kube.kinds import Meta
from ullage.kube.slices import Part, Slice, Wiring
from ullage.projects.api.kkp import CLUSTERS, SEEDS, CloudAccount, CloudSpec, CredentialReference
from ullage.projects.api.machines import MACHINES
from ullage.projects.api.records import MACHINE_RECORDS, VanishedMachine
from ullage.projects.controllers import machine_server as server
from ullage.projects.controllers.machine_record_rules import key_of
from ullage.projects.controllers.machine_server import again_in, asked_about, left_note, outcome
from ullage.projects.machines.vanished import Vanished
from ullage.projects.sizes.lookups import ANYWHERE, Site
from ullage.projects.sizes.providers.contract import Credentials, NotAnswered
from ullage.projects.sizes.sites import Sites

OLD = "2025-01-01T00:00:00Z"


class FakeServers:
    """`there` are the uids that have a server; `error` is raised in its place."""

    source = "GET /servers"

    def __init__(self) -> None:
        self.there: set[str] = set()
        self.error: Exception | None = None
        self.asked: list[tuple[float, tuple[str, ...]]] = []
        self.slow = 0.0

    async def present(self, uids: Collection[str], credentials: Credentials, *, site: Site = ANYWHERE) -> frozenset[str]:
        self.asked.append((asyncio.get_running_loop().time(), tuple(sorted(uids))))
        assert credentials.needed("token") == "t"
        await asyncio.sleep(self.slow)
        if self.error is not None:
            raise self.error
        return frozenset(self.there.intersection(uids))


class ServerScene:
    """A seed whose user cluster is at a provider that can be asked, with a Machine from long ago."""

    def __init__(self, scene: SeedScene) -> None:
        self.scene, self.provider = scene, FakeServers()
        scene.cluster()
        account = CloudAccount(credentials_reference=CredentialReference(name="credential", namespace="kubermatic"))
        cloud = CloudSpec(provider_name="hetzner", hetzner=account)
        self.cluster = msgspec.structs.replace(
            cluster_object("c-1"), spec=msgspec.structs.replace(cluster_object("c-1").spec, cloud=cloud)
        )
        scene.seed.put(CLUSTERS, self.cluster)
        meta = Meta(name="credential", namespace="kubermatic", uid="s-1")
        scene.seed.put(SECRETS, Secret(metadata=meta, data=secret_data({"token": b"t"})))
        before = scene.slice()

        def controllers(wiring: Wiring) -> list[Controller[Any]]:
            assert before.controllers is not None
            caches = server.ServerCaches(records=wiring.cache(MACHINE_RECORDS), clusters=wiring.cache(CLUSTERS))
            asking = server.MachineServers(
                wiring.client,
                caches,
                Sites(wiring.cache(CLUSTERS), wiring.cache(SEEDS), namespace="kubermatic"),
                recorder=wiring.recorder("projects"),
                clock=wiring.clock,
                providers={"hetzner": self.provider},
            )
            return [*before.controllers.make(wiring), asking.controller(metrics=wiring.metrics)]

        assert before.controllers is not None
        part = Part(make=controllers, watches=(*before.controllers.watches, SEEDS), elsewhere=before.controllers.elsewhere)
        made: Slice = replace(before, controllers=part)
        scene.slice = lambda: made  # type: ignore[method-assign]  # with one controller more

    async def lost(self, name: str = "a", *, created: str = OLD) -> str:
        """A Machine whose object goes; its uid."""
        assert (await self.scene.create(name=name)).code == 200
        await self.scene.seen()
        body = self.scene.body(name)
        body["metadata"]["creationTimestamp"] = created
        self.scene.store(MACHINES, body)
        await self.scene.seen()
        uid = str(body["metadata"]["uid"])
        self.scene.remove(name)
        return uid

    @property
    def vanished(self) -> tuple[VanishedMachine, ...]:
        found: tuple[VanishedMachine, ...] = self.scene.seed.get(MACHINE_RECORDS, Key("", "c-1")).status.vanished
        return found


@simulated
async def test_gone_is_believed_at_once_and_the_room_is_free(scene: SeedScene) -> None:
    found = ServerScene(scene)
    scene.limits(cpu="2")
    async with scene.served(controllers=True):
        await found.lost()
        await scene.seen()
        await scene.seen()
        assert (len(found.provider.asked), found.vanished) == (1, ())
        assert (await scene.create(name="b")).code == 200


@simulated
async def test_a_server_that_is_there_counts_until_it_is_gone_and_is_told(scene: SeedScene) -> None:
    found = ServerScene(scene)
    scene.limits(cpu="2")
    async with scene.served(controllers=True):
        await asyncio.sleep(5)
        found.provider.there = {"u-0001", "u-0002", "u-0003", "u-0004"}
        uid = await found.lost()
        assert uid in found.provider.there
        await asyncio.sleep(3 * 3600)
        assert (used(scene), (await scene.create(name="b")).code) == ("2", 403)
        (note,) = [one.note for one in scene.seed.events if one.reason == "ServersLeftBehind"]
        assert uid in note
        assert len(found.provider.asked) < 35, "less and less often, ten minutes at most"
        found.provider.there = set()
        await asyncio.sleep(620)
        assert found.vanished == ()
        assert (await scene.create(name="b")).code == 200


@simulated
async def test_a_provider_that_does_not_answer_leaves_it_at_the_set_time(scene: SeedScene) -> None:
    found = ServerScene(scene)
    found.provider.error = NotAnswered("not now")
    async with scene.served(controllers=True):
        await found.lost()
        await asyncio.sleep(100)
        assert len(found.vanished) == 1
        assert [round(at - found.provider.asked[0][0]) for at, _ in found.provider.asked] == [0, 30, 90]
        await asyncio.sleep(25)
        assert not found.vanished


@pytest.mark.parametrize(
    "error", [pytest.param(ValueError("a bug"), id="a bug in an adapter"), pytest.param(TimeoutError(), id="no answer in time")]
)
@simulated
async def test_whatever_goes_wrong_it_is_not_gone(scene: SeedScene, error: Exception) -> None:
    found = ServerScene(scene)
    found.provider.error = error
    async with scene.served(controllers=True):
        await found.lost()
        await asyncio.sleep(100)
        assert len(found.vanished) == 1


@simulated
async def test_a_machine_of_a_moment_ago_counts_for_the_set_time_whatever_is_said(scene: SeedScene) -> None:
    found = ServerScene(scene)
    async with scene.served(controllers=True):
        await found.lost(created="2999-01-01T00:00:00Z")
        await asyncio.sleep(100)
        assert len(found.vanished) == 1
        await asyncio.sleep(30)
        assert not found.vanished


@simulated
async def test_another_that_goes_is_asked_about_at_once_and_nobody_is_without_need(scene: SeedScene) -> None:
    found = ServerScene(scene)
    async with scene.served(controllers=True):
        await asyncio.sleep(600)
        assert found.provider.asked == []
        found.provider.there = {f"u-{number:04d}" for number in range(20)}
        first = await found.lost("a")
        await scene.seen()
        second = await found.lost("b")
        await scene.seen()
        assert [uids for _, uids in found.provider.asked][-1] == tuple(sorted((first, second)))


@pytest.mark.parametrize(
    ("seconds", "most"),
    [
        pytest.param(0.0, 60 / server.PAUSE + 1, id="one that answers at once"),
        pytest.param(10.0, 60 / (10 + 20) + 1, id="one that takes its time: others have turns meanwhile"),
    ],
)
@simulated
async def test_whoever_loses_machines_all_the_time_has_his_provider_asked_now_and_then(
    scene: SeedScene, seconds: float, most: float
) -> None:
    found = ServerScene(scene)
    found.provider.slow = seconds
    async with scene.served(controllers=True):
        for number in range(120):
            body = machine_body(name=f"m-{number}")
            body["metadata"]["creationTimestamp"] = OLD
            scene.store(MACHINES, body)
            await asyncio.sleep(0.25)
            scene.remove(f"m-{number}")
            await asyncio.sleep(0.25)
        assert 1 < len(found.provider.asked) <= most
        await asyncio.sleep(100)
        assert len(found.provider.asked[-1][1]) > 2, "what went meanwhile is asked about together"


@simulated
async def test_where_no_credential_is_named_nobody_is_asked(scene: SeedScene) -> None:
    found = ServerScene(scene)
    scene.seed.put(CLUSTERS, cluster_object("c-1", provider="hetzner"))
    async with scene.served(controllers=True):
        await found.lost()
        await asyncio.sleep(60)
        assert (found.provider.asked, len(found.vanished)) == ([], 1)


# --- rules -----------------------------------------------------------------------------------------------------------


def went(uid: str, since: float = 0, **more: Any) -> Vanished:
    return Vanished(key=key_of("c-1", uid), amounts=SMALL, since=later(since), created=later(-3600), **more)


def test_only_machines_of_the_cluster_are_asked_about_and_not_those_that_were_made_one() -> None:
    assert asked_about("c-1", [went("a"), went("rest"), replace(went("b"), key="machines.cluster.k8s.io/c-2/b")]) == ("a",)


def test_what_comes_of_an_answer() -> None:
    there, gone, later_one, rest = went("a"), went("b"), went("c", 30), went("rest")
    found = outcome("c-1", [there, gone, later_one, rest], {"a", "b"}, {"a"}, asked=later(10))
    assert found.vanished == (replace(there, there=later(10)), later_one, rest)
    assert found.left == ("a",)
    again = outcome("c-1", found.vanished, {"a"}, {"a"}, asked=later(20))
    assert again.left == (), "it was told"


@pytest.mark.parametrize(
    ("age", "wait"),
    [
        pytest.param(0, 30, id="half a minute at first"),
        pytest.param(400, 100, id="then a quarter of the time that it is away"),
        pytest.param(90_000, 600, id="ten minutes at most"),
    ],
)
def test_it_is_asked_less_and_less_often(age: int, wait: int) -> None:
    assert again_in([went("a", -age), went("b", -age - 5)], now=NOW) == timedelta(seconds=wait)


def test_a_note_names_some() -> None:
    note = left_note("c-1", [f"u-{number}" for number in range(7)], "aws")
    assert "u-4 and 2 more" in note
    assert "as aws says" in note
