"""A seed on an API in memory: its clusters and credentials, a leader that refreshes, a webhook that asks, in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import msgspec

from tests.unit.kube.virtual_time import VirtualClock, in_virtual_time
from tests.unit.snapshots.memory_api import MemoryApi
from ullage.kube.builtin.core import SECRETS, secret_data
from ullage.kube.errors import Forbidden
from ullage.kube.kinds import Kind
from ullage.kube.slices import Part, Wiring
from ullage.ledger.amounts import Amounts
from ullage.projects.api.catalogues import CATALOGUES, MachineCatalogue
from ullage.projects.api.kkp import CLUSTERS, SEEDS
from ullage.projects.controllers import catalogue_refresh as refresh
from ullage.projects.sizes import store
from ullage.projects.sizes.catalogue import Flavour, Place
from ullage.projects.sizes.lookups import Unknown
from ullage.projects.sizes.providers.contract import Credentials, NotAnswered
from ullage.projects.sizes.sites import Sites
from ullage.projects.sizes.stored import catalogue_name
from ullage.quantity import Quantity

Json = dict[str, Any]
SMALL = Flavour(Quantity.of(2), Quantity.parse("2Gi"))
LARGE = Flavour(Quantity.of(8), Quantity.parse("32Gi"))
AWS = Place("aws", "eu-central-1", "kubermatic/credential-a")


class FakeProvider:
    """Answers with `found`, or raises it; `slow` are seconds that it takes. Notes whom it was asked by."""

    source = "DescribeInstanceTypes"

    def __init__(self) -> None:
        self.found: Mapping[str, Flavour] | Exception = {"t3.small": SMALL}
        self.slow = 0.0
        self.missing: set[str] = set()  # regions that there are not
        self.asked: list[tuple[Place, float]] = []
        self.tokens: list[str] = []
        self.now = 0
        self.most = 0

    async def flavours(self, place: Place, credentials: Credentials) -> Mapping[str, Flavour]:
        self.asked.append((place, asyncio.get_running_loop().time()))
        self.tokens.append(credentials.needed("token"))
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(self.slow)
        finally:
            self.now -= 1
        if place.region in self.missing:
            raise NotAnswered("no such region")
        if isinstance(self.found, Exception):
            raise self.found
        return self.found

    def times(self, place: Place = AWS) -> list[float]:
        return [at for one, at in self.asked if one == place]


class SecretApi(MemoryApi):
    """Notes which Secrets are read. `forbidden`: none may be."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[str] = []
        self.forbidden = False

    async def find(self, kind: Kind[Any], name: str, namespace: str = "") -> Any:
        if kind is SECRETS:
            self.read.append(f"{namespace}/{name}")
            if self.forbidden:
                raise Forbidden("system:serviceaccount:ullage-system:ullage cannot get", code=403)
        return await super().find(kind, name, namespace)


class SeedScene:
    def __init__(self) -> None:
        self.api = SecretApi()
        self.clock = VirtualClock()
        self.provider = FakeProvider()
        self.sizes: store.CatalogueSizes
        self.metrics = refresh.RefreshMetrics()
        self.namespace = "kubermatic"  # KKP's own, as it is set

    # --- what administrators do ---

    def cluster(self, name: str = "a", provider: str = "aws", *, dc: str = "", secret: str = "", named: bool = True) -> None:
        """A cluster, and its credential. `named`: it says in which namespace that is."""
        reference = {"name": secret or f"credential-{name}", **({"namespace": self.namespace} if named else {})}
        cloud = {"providerName": provider, "dc": dc, provider: {"credentialsReference": reference}}
        self.api.put(CLUSTERS, {"metadata": {"name": name}, "spec": {"cloud": cloud}})
        self.secret(reference["name"], token=f"token-of-{name}")

    def secret(self, name: str, **values: str) -> None:
        data = secret_data({key: value.encode() for key, value in values.items()})
        self.api.put(SECRETS, {"metadata": {"name": name, "namespace": self.namespace}, "data": data})

    def datacenter(self, name: str, address: str) -> None:
        spec = {"datacenters": {name: {"spec": {"openstack": {"authURL": address, "region": "RegionOne"}}}}}
        self.api.put(SEEDS, {"metadata": {"name": "seed-1", "namespace": "kubermatic"}, "spec": spec})

    def manual(self, name: str, spec: Json, flavours: Mapping[str, str]) -> None:
        data = {"source": "manual", "flavours": dict(flavours)}
        self.api.put(CATALOGUES, {"metadata": {"name": name}, "spec": spec, "data": data})

    # --- what a user does ---

    def size(self, cluster: str = "a", provider: str = "aws", **spec: Any) -> Amounts | Unknown:
        """What admission does: whatever is not known is looked up."""
        given = {"instanceType": "t3.small", "diskSize": 25, "region": "eu-central-1", **spec}
        found = self.sizes.size_of(cluster, {"cloudProvider": provider, "cloudProviderSpec": given})
        if isinstance(found, Unknown) and found.lookup is not None:
            self.sizes.want(found.lookup)
        return found

    def unknown(self, cluster: str = "a", provider: str = "aws", **spec: Any) -> str:
        found = self.size(cluster, provider, **spec)
        assert isinstance(found, Unknown), found
        return found.reason

    # --- what has come of it ---

    def found(self, place: Place = AWS) -> MachineCatalogue | None:
        body = self.api.body(CATALOGUES, catalogue_name(place))
        return None if body is None else msgspec.convert(body, type=MachineCatalogue)

    def reason(self, place: Place = AWS) -> str:
        found = self.found(place)
        return found.data.failure.reason if found is not None and found.data.failure is not None else ""

    def places(self) -> list[str]:
        return sorted(body["spec"].get("region", "") for body in self.api.bodies(CATALOGUES))

    # --- processes ---

    @contextlib.asynccontextmanager
    async def running(self, *, leader: bool = True) -> AsyncIterator[None]:
        webhook, controllers = Wiring(self.api, clock=self.clock), Wiring(self.api, clock=self.clock)  # type: ignore[arg-type]

        def admission(wiring: Wiring) -> list[Any]:
            self.sizes = store.SizesWith(self.namespace)(wiring)
            return []

        def controller(wiring: Wiring) -> list[Any]:
            caches = refresh.RefreshCaches(
                catalogues=wiring.cache(CATALOGUES), clusters=wiring.cache(CLUSTERS), seeds=wiring.cache(SEEDS)
            )
            made = refresh.CatalogueRefresh(
                wiring.client,
                caches,
                Sites(caches.clusters, caches.seeds, namespace=self.namespace),
                clock=self.clock,
                providers={"aws": self.provider, "openstack": self.provider},
                metrics=self.metrics,
            )
            return [made.controller()]

        webhook.made(Part(make=admission, watches=store.WATCHES, writes=store.WRITES))
        made = controllers.made(Part(make=controller, watches=refresh.WATCHES)) if leader else []
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group, webhook.holding(stop):
            tasks = [group.create_task(cache.run()) for cache in (*webhook.caches, *controllers.caches)]
            tasks += [group.create_task(one.run()) for one in made]
            await asyncio.sleep(0.1)
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()

    async def until(self, condition: Callable[[], bool], seconds: float = 30.0) -> None:
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110  virtual time: it costs nothing
                await asyncio.sleep(0.01)

    async def passes(self, **seconds: float) -> None:
        hours, minutes, rest = seconds.get("hours", 0), seconds.get("minutes", 0), seconds.get("seconds", 0)
        await asyncio.sleep(hours * 3600 + minutes * 60 + rest)


def simulated(test: Callable[[SeedScene], Awaitable[None]]) -> Callable[[], None]:
    async def run() -> None:
        await test(SeedScene())

    @functools.wraps(test)
    def wrapped() -> None:
        in_virtual_time(run())

    del wrapped.__wrapped__  # else pytest looks for a fixture called scene
    return wrapped


def down(text: str = "timed out") -> NotAnswered:
    return NotAnswered(text)
