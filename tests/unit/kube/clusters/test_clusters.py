"""Clusters that come and go: their Secrets, their clients, what is told about them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from tests.unit.kube.client.test_foreign import HIDDEN, kubeconfig
from tests.unit.kube.virtual_time import VirtualClock, in_virtual_time
from tests.unit.ledger.simulated import CUPS, Server
from ullage.kube.builtin.core import SECRETS, Secret, secret_data
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.kube.clusters.cluster import Cluster
from ullage.kube.clusters.clusters import Clusters
from ullage.kube.kinds import Meta
from ullage.kube.metrics import Metrics
from ullage.kube.read_limits import ReadLimits

SECRET = Key("team", "far-kubeconfig")
WHERE = "secret team/far-kubeconfig"


class Connection(Server):
    """A cluster, as a client with some credentials has it."""

    def __init__(self, config: Config, log: list[str]) -> None:
        super().__init__()
        self.config = config
        self._told = log

    async def __aenter__(self) -> Connection:
        self._told.append(f"open {self.config.token}")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._told.append(f"close {self.config.token}")


class Scene:
    def __init__(self) -> None:
        self.home = Server()
        self.clock = VirtualClock()
        self.secrets: Cache[Secret] = Cache(self.home, SECRETS, clock=self.clock, jitter=lambda: 0.5)
        self.log: list[str] = []
        self.opened: list[Connection] = []
        self.metrics = Metrics()
        self.clusters = Clusters(self.open, clock=self.clock, metrics=self.metrics)
        self.clusters.watch(CUPS)
        self.clusters.handle(self.told)

    def open(self, config: Config) -> Client:
        made = Connection(config, self.log)
        made.cup(f"of-{config.token}")
        self.opened.append(made)
        return cast(Client, made)

    def told(self, name: str, cluster: Cluster | None) -> None:
        self.log.append(f"{name} {'came' if cluster else 'went'}")
        if cluster is not None:
            cluster.cache(CUPS)

    def put(self, text: bytes, *, key: str = "kubeconfig") -> None:
        meta = Meta(name=SECRET.name, namespace=SECRET.namespace, uid="u")
        self.home.put(SECRETS, Secret(metadata=meta, data=secret_data({key: text})))

    def credentials(self, token: str) -> None:
        self.put(kubeconfig(user={"token": token}))

    def names(self) -> list[str]:
        cluster = self.clusters.get("far")
        assert cluster is not None
        return [one.metadata.name for one in cluster.cache(CUPS).items()]

    def sample(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, {"kind": CUPS.name, "cluster": "far", **labels})


def scene(test: Callable[[Scene], Awaitable[None]]) -> Any:
    def run() -> None:
        async def main() -> None:
            found = Scene()
            reading = asyncio.create_task(found.secrets.run())
            async with found.clusters:
                await test(found)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

        in_virtual_time(main())

    run.__name__ = test.__name__
    return run


@scene
async def test_a_cluster_is_read_with_the_kubeconfig_from_its_secret(found: Scene) -> None:
    found.credentials("one")
    found.clusters.follow("far", found.secrets, SECRET)
    found.clusters.follow("far", found.secrets, SECRET)
    assert found.clusters.reach("far").error == "its Secret has not been read yet"
    await asyncio.sleep(1)
    assert found.log == ["open one", "far came"]
    assert found.names() == ["of-one"]
    assert (found.clusters.reach("far").reachable, found.clusters.reach("far").error) == (True, "")
    assert found.sample("ullage_cache_objects") == 1
    assert ("far" in found.clusters, found.clusters.names) == (True, ["far"])


@scene
async def test_new_credentials_make_a_new_client_and_everything_is_read_anew(found: Scene) -> None:
    found.credentials("one")
    found.clusters.follow("far", found.secrets, SECRET)
    await asyncio.sleep(1)
    found.credentials("one")
    await asyncio.sleep(1)
    assert found.log == ["open one", "far came"], "the same credentials change nothing"
    found.credentials("two")
    await asyncio.sleep(1)
    assert found.log[2:] == ["far went", "close one", "open two", "far came"]
    assert found.names() == ["of-two"]
    assert found.sample("ullage_cache_syncs_total") == 1, "the numbers of the one before are gone"


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        pytest.param(lambda found: found.home.drop(SECRETS, SECRET), "there is no such Secret", id="it is deleted"),
        pytest.param(lambda found: found.put(b"", key="other"), "it has no such key", id="it has another key"),
        pytest.param(lambda found: found.put(HIDDEN.encode()), "Expected `object`, got `str`", id="it holds something else"),
        pytest.param(
            lambda found: found.put(kubeconfig(user={"exec": {"command": "sh"}})), "not from a Secret", id="it names a program"
        ),
    ],
)
def test_a_secret_that_cannot_be_used_any_more_changes_nothing_and_is_told(
    spoil: Callable[[Scene], None], problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    @scene
    async def test(found: Scene) -> None:
        found.credentials("one")
        found.clusters.follow("far", found.secrets, SECRET)
        await asyncio.sleep(1)
        spoil(found)
        await asyncio.sleep(1)
        reach = found.clusters.reach("far")
        assert (reach.reachable, problem in reach.error, WHERE in reach.error) == (True, True, True), reach
        assert found.names() == ["of-one"]
        assert found.log == ["open one", "far came"]
        found.credentials("two")
        await asyncio.sleep(1)
        assert (found.names(), found.clusters.reach("far").error) == (["of-two"], "")

    test()
    assert not any(HIDDEN in str(vars(record)) for record in caplog.records)


@scene
async def test_a_cluster_whose_secret_comes_late_is_known_and_not_reachable(found: Scene) -> None:
    found.clusters.follow("far", found.secrets, SECRET)
    await asyncio.sleep(60)
    reach = found.clusters.reach("far")
    assert (reach.reachable, reach.heard, reach.error) == (False, None, f"{WHERE} kubeconfig: there is no such Secret")
    assert ("far" in found.clusters, found.clusters.get("far")) == (True, None)
    found.credentials("one")
    await asyncio.sleep(1)
    assert found.clusters.reach("far").reachable


@scene
async def test_a_cluster_that_is_cut_off_says_since_when_and_keeps_what_was_read(found: Scene) -> None:
    found.credentials("one")
    found.clusters.follow("far", found.secrets, SECRET)
    await asyncio.sleep(15)
    found.opened[0].cut_off()
    cut = found.clock.now()
    await asyncio.sleep(300)
    reach = found.clusters.reach("far")
    assert (reach.reachable, reach.error) == (False, f"{CUPS.name}: no connection")
    assert reach.heard is not None
    assert reach.heard <= cut
    assert (found.clock.now() - reach.heard).total_seconds() >= 300
    assert found.names() == ["of-one"]
    found.opened[0].come_back()
    await asyncio.sleep(60)
    assert found.clusters.reach("far").reachable


@scene
async def test_a_cluster_that_was_removed_is_closed_and_may_come_again(found: Scene) -> None:
    found.credentials("one")
    found.clusters.follow("far", found.secrets, SECRET)
    await asyncio.sleep(1)
    found.clusters.remove("far")
    found.clusters.remove("far")
    assert (found.clusters.get("far"), "far" in found.clusters, found.log[-1]) == (None, False, "far went")
    await asyncio.sleep(1)
    assert found.log[-1] == "close one"
    assert found.sample("ullage_cache_objects") is None
    assert found.sample("ullage_cache_syncs_total") is None
    found.clusters.follow("far", found.secrets, SECRET)
    await asyncio.sleep(1)
    assert found.names() == ["of-one"]


@scene
async def test_one_that_comes_again_at_once_waits_until_the_one_before_is_closed(found: Scene) -> None:
    found.credentials("one")
    found.clusters.follow("far", found.secrets, SECRET)
    await asyncio.sleep(1)
    for _ in range(3):
        found.clusters.remove("far")
        found.clusters.follow("far", found.secrets, SECRET)
    await asyncio.sleep(1)
    assert found.log[2:] == ["far went", "close one", "open one", "far came"]
    assert (found.sample("ullage_cache_objects"), found.sample("ullage_cache_syncs_total")) == (1, 1)


@scene
async def test_nothing_is_kept_of_clusters_that_were_removed(found: Scene) -> None:
    for number in range(50):
        found.clusters.follow(f"c-{number}", found.secrets, Key(f"cluster-c-{number}", "kubeconfig"))
    await asyncio.sleep(1)
    for number in range(50):
        found.clusters.remove(f"c-{number}")
    await asyncio.sleep(1)
    assert (found.clusters._followed, found.clusters._ending, dict(found.clusters._by_secret)) == ({}, {}, {})


@scene
async def test_whoever_asks_late_is_told_of_what_is_there(found: Scene) -> None:
    found.credentials("one")
    found.clusters.follow("far", found.secrets, SECRET)
    await asyncio.sleep(1)
    told: list[tuple[str, Cluster | None]] = []
    found.clusters.handle(lambda name, cluster: told.append((name, cluster)))
    assert told == [("far", found.clusters.get("far"))]


@scene
async def test_a_kind_that_nobody_has_declared_is_not_watched(found: Scene) -> None:
    found.credentials("one")
    found.clusters.follow("far", found.secrets, SECRET)
    await asyncio.sleep(1)
    cluster = found.clusters.get("far")
    assert cluster is not None
    with pytest.raises(LookupError, match="secrets: not among what any slice says that it watches in other clusters"):
        cluster.cache(SECRETS)


@pytest.mark.parametrize("name", ["", "Far", "a/b", "a b", "-a", "x" * 64])
def test_a_name_that_would_not_do_in_keys_and_paths_is_refused(name: str) -> None:
    async def main() -> None:
        found = Scene()
        with pytest.raises(ValueError, match="a cluster is called by lower-case letters, digits and dashes, 63 at most"):
            found.clusters.follow(name, found.secrets, SECRET)

    in_virtual_time(main())


@scene
async def test_of_a_cluster_so_much_is_taken_unless_it_is_trusted(found: Scene) -> None:
    found.credentials("one")
    found.clusters.follow("far", found.secrets, SECRET)
    found.clusters.follow("near", found.secrets, SECRET, trusted=True)
    await asyncio.sleep(1)
    assert [one.config.limits for one in found.opened] == [ReadLimits(), None]
    far, near = found.clusters.get("far"), found.clusters.get("near")
    assert far is not None
    assert near is not None
    assert (far.held > 0, near.held) == (True, 0)
