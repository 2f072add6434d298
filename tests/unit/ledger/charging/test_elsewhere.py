"""Kinds that are counted in other clusters, as a slice has them: registered once, followed wherever there are kubeconfigs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from tests.e2e.cluster_slice import YARDS, Yard, YardSpec, secret_of, yards
from tests.unit.kube.client.test_foreign import kubeconfig
from tests.unit.kube.virtual_time import VirtualClock, in_virtual_time
from tests.unit.ledger.counted import counted
from tests.unit.ledger.simulated import BY_TEAM, CUPS, LEDGER, Server, ledger
from tests.unit.ledger.slices import review, running
from ullage.kube.builtin.core import SECRETS, Secret, secret_data
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.kube.identities import OWN
from ullage.kube.kinds import Meta
from ullage.kube.objects import find_condition
from ullage.kube.slices import Part, Wiring
from ullage.ledger.api import LEDGERS
from ullage.ledger.charging.registry import registry_of
from ullage.ledger.service.expiry import Settings
from ullage.ledger.slice import ledger as ledger_slice

SLICES = (ledger_slice(Settings(request_timeout=5.0, expiry=7.0, expiry_elsewhere=7.0)), yards("team", CUPS, BY_TEAM))
COUNTED = "everything is counted"


class Cluster(Server):
    """A server that a client can be opened for."""

    async def __aenter__(self) -> Cluster:
        return self

    async def __aexit__(self, *_: object) -> None:
        return


class Home(Cluster):
    """Where ledgers, yards and Secrets are. Kubeconfigs name the others by their hosts."""

    def __init__(self) -> None:
        super().__init__()
        self.others: dict[str, Cluster] = {}
        self.put(LEDGERS, ledger(10))

    def beside(self, config: Config) -> Client:
        return cast(Client, self.others[config.server.removeprefix("https://")])

    def add(self, name: str, host: str) -> None:
        self.others.setdefault(host, Cluster())
        self.credentials(name, kubeconfig(cluster={"server": f"https://{host}"}))
        self.put(YARDS, Yard(metadata=Meta(name=name, namespace="team", uid=f"uid-{name}"), spec=YardSpec(ledger=LEDGER)))

    def credentials(self, name: str, text: bytes) -> None:
        meta = Meta(name=secret_of(name), namespace="team", uid=f"uid-{name}")
        self.put(SECRETS, Secret(metadata=meta, data=secret_data({"kubeconfig": text})))

    def used(self) -> dict[str, str]:
        found = counted(self.ledger().status.sums)
        return {name.partition("/")[2]: takings.get("cups", {}).get("size", "0") for name, takings in found.items()}

    def says(self) -> str:
        ready = find_condition(self.ledger().status.conditions, "Ready")
        return ready.message if ready else ""


def scene(test: Callable[[Home, Wiring, Callable[..., Awaitable[int]]], Awaitable[None]]) -> Any:
    def run() -> None:
        async def main() -> None:
            home = Home()
            wiring = Wiring(cast(Client, home), clock=VirtualClock())
            controllers = wiring.controllers(SLICES)
            assert SLICES[1].hooks is not None
            (hook,) = wiring.made(SLICES[1].hooks)

            async def ask(name: str, size: int, *, cluster: str) -> int:
                answer = await hook.answer(replace(review(CUPS, name, size), cluster=cluster))
                if answer.allowed:
                    home.others[cluster].cup(name, size)
                return answer.code

            async with running(wiring, controllers):
                await test(home, wiring, ask)

        in_virtual_time(main())

    run.__name__ = test.__name__
    return run


@scene
async def test_two_clusters_share_a_limit_and_one_that_goes_gives_its_part_back(home: Home, wiring: Wiring, ask: Any) -> None:
    home.add("far", "far")
    home.add("near", "near")
    await asyncio.sleep(30)
    assert (home.says(), home.used()) == (COUNTED, {"far": "0", "near": "0"})
    assert [await ask("a", 6, cluster="far"), await ask("a", 4, cluster="near"), await ask("b", 1, cluster="far")] == [
        200,
        200,
        403,
    ]
    await asyncio.sleep(30)
    assert home.used() == {"far": "6", "near": "4"}
    home.drop(YARDS, Key("team", "far"))
    await asyncio.sleep(10)
    assert (home.used(), registry_of(wiring).ledgers_with("far")) == ({"near": "4"}, [])
    assert await ask("c", 6, cluster="near") == 200
    with pytest.raises(LookupError, match="cluster far: it is not followed, or its kubeconfig cannot be used"):
        wiring.cluster("far")


@scene
async def test_new_credentials_lose_nothing_that_was_counted_or_booked(home: Home, wiring: Wiring, ask: Any) -> None:
    home.add("far", "far")
    await asyncio.sleep(30)
    assert await ask("a", 6, cluster="far") == 200
    home.credentials("far", kubeconfig(cluster={"server": "https://far"}, user={"token": "another"}))
    assert await ask("b", 3, cluster="far") == 200
    assert await ask("c", 2, cluster="far") == 403
    await asyncio.sleep(30)
    assert (home.says(), home.used()) == (COUNTED, {"far": "9"})
    assert wiring.cluster("far").cache(CUPS).synced.is_set()


@scene
async def test_a_kubeconfig_that_cannot_be_used_keeps_the_figures_and_the_cluster(home: Home, wiring: Wiring, ask: Any) -> None:
    home.add("far", "far")
    await asyncio.sleep(30)
    assert await ask("a", 6, cluster="far") == 200
    await asyncio.sleep(30)
    home.drop(SECRETS, Key("team", secret_of("far")))
    await asyncio.sleep(600)
    assert (home.says(), home.used()) == (COUNTED, {"far": "6"})
    assert "there is no such Secret" in wiring.clusters.reach("far").error


@scene
async def test_nobody_in_another_cluster_is_believed_to_be_us(home: Home, wiring: Wiring, ask: Any) -> None:
    home.add("far", "far")
    await asyncio.sleep(30)
    charged = registry_of(wiring).registered(CUPS)
    asked = replace(review(CUPS, "a", 11, user=sorted(OWN)[0]), cluster="far")
    assert (await charged.decide(asked, past_limit=True)).code == 403


def test_a_kind_is_counted_here_or_elsewhere() -> None:
    async def main() -> None:
        wiring = Wiring(cast(Client, Home()), clock=VirtualClock())

        async def nobody(cluster: str) -> bool:
            return False

        def make(given: Wiring) -> list[Any]:
            registry = registry_of(given)
            return [
                registry.register(CUPS, BY_TEAM),
                registry.register_elsewhere(CUPS, lambda cluster: BY_TEAM, removed=nobody, complete=lambda: True),
            ]

        with pytest.raises(ValueError, match=rf"{CUPS.name}: registered twice"):
            wiring.made(Part(make=make, watches=(CUPS,), elsewhere=(CUPS,)))

    in_virtual_time(main())
