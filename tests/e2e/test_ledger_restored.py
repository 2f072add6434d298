"""API servers that are restored from a backup, on a control plane: the one that has the ledgers, and another cluster's."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from tools.peers.kube.build import programs
from ullage.kube.cache.cache import Cache
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.kube.crds.definitions import crd_of
from ullage.kube.kinds import Meta
from ullage.kube.objects import find_condition
from ullage.ledger.amounts import Takings
from ullage.ledger.api import LEDGERS, NAMESPACE, Ledger
from ullage.ledger.book import Charge
from ullage.ledger.codec import book_of
from ullage.ledger.keys import key_of
from ullage.ledger.service.expiry import Settings
from ullage.ledger.service.folder import Folder
from ullage.ledger.service.limits import set_limits
from ullage.ledger.service.service import Service
from ullage.ledger.service.sources import Sources
from ullage.ledger.service.views import KindView
from ullage.quantity import Quantity

from .api import Api
from .choice import DISPOSABLE
from .conftest import DEFINITIONS, wait_served
from .control_plane import ControlPlane, EmbeddedServer
from .ledger_slice import BY_NAMESPACE, CELL, CUPS, Cup, CupSpec
from .real import RealControlPlane

BRIEF = Settings(request_timeout=1.0, expiry=2.0, expiry_elsewhere=2.0)
NAMESPACES = "/api/v1/namespaces"
WRITES = 40  # after a backup: a server that was restored is noticed before it has come as far again


class Restorable:
    """A server of our own, with the kinds of the ledger."""

    def __init__(self, server: EmbeddedServer | RealControlPlane) -> None:
        self.server = server
        self.api = Api(server.control_plane())
        for kind in (LEDGERS, CUPS):
            assert self.api.call("POST", DEFINITIONS, crd_of(kind)).code == 201
            wait_served(self.api, kind.path())
        self.api.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})


@pytest.fixture(scope="module")
def restorable(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restorable]:
    server: EmbeddedServer | RealControlPlane
    if control_plane.embedded:
        server = EmbeddedServer(tmp_path_factory.mktemp("restorable") / "data")
        server.data_dir.mkdir()
    elif os.environ.get(DISPOSABLE):
        server = RealControlPlane(programs(os.environ))
    else:
        pytest.skip("whose backups are restored is for the owner of a cluster to say")
    server.start()
    try:
        yield Restorable(server)
    finally:
        server.stop()


class Team:
    """A namespace with a ledger on `home` and cups on `place`, and a process that admits and folds."""

    def __init__(self, home: Api, place: Api, *, cluster: str) -> None:
        self.home, self.place, self.cluster = home, place, cluster
        self.namespace = f"e2e-{uuid.uuid4().hex[:10]}"
        self.source = f"{CUPS.name}/{cluster}" if cluster else CUPS.name
        place.create(NAMESPACES, {"metadata": {"name": self.namespace}})
        self._numbers = 0

    @asynccontextmanager
    async def served(self) -> AsyncIterator[Service]:
        async with Client(config(self.home)) as home, Client(config(self.place)) as place:
            await set_limits(home, self.name, {CELL: Quantity.of(10)})
            cups, ledgers = Cache(place, CUPS), Cache(home, LEDGERS, namespace=NAMESPACE)
            view = KindView(cups, BY_NAMESPACE, client=place, cluster=self.cluster)
            sources = Sources(view)
            if self.cluster:
                sources.count_elsewhere(CUPS.name, nobody_was, complete=lambda: True)
                sources.place(self.cluster, [self.name])
            folder = Folder(home, sources, ledgers, settings=BRIEF)
            tasks = [asyncio.create_task(work) for work in (cups.run(), ledgers.run(), folder.controller().run())]
            async with Service(home, sources, settings=BRIEF, ledgers=ledgers) as service:
                yield service
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def name(self) -> str:
        return f"ns-{self.namespace}"

    async def admits(self, service: Service, name: str, size: int) -> bool:
        """Whether a cup fits. It is made then, as the API server would."""
        uid = str(uuid.uuid4())
        key = key_of(CUPS.name, cluster=self.cluster, namespace=self.namespace, name=name)
        charge = Charge(key=key, uid=uid, now=Takings({CELL: Quantity.of(size)}))
        if not (await service.decide(self.name, charge, deadline=asyncio.get_running_loop().time() + 20)).allowed:
            return False
        await self.make(name, size)
        return True

    async def make(self, name: str, size: int) -> None:
        cup = Cup(metadata=Meta(name=name, namespace=self.namespace), spec=CupSpec(size=size))
        async with Client(config(self.place)) as client:
            await client.create(CUPS, cup)

    async def ledger(self) -> Ledger:
        async with Client(config(self.home)) as client:
            return await client.get(LEDGERS, self.name, NAMESPACE)

    async def until(self, holds: Callable[[Ledger], bool], what: str, *, idle: bool = False) -> Ledger:
        """Whatever happens moves the watch on: an idle one may say nothing for a minute. `idle`: it may not come as far as it
        was."""
        for _ in range(300):
            found = await self.ledger()
            if holds(found):
                return found
            if not idle:
                self._numbers += 1
                await self.make(f"empty-{self._numbers}", 0)
            await asyncio.sleep(0.2)
        raise AssertionError(f"never: {what}: {found}")


async def nobody_was(cluster: str) -> bool:
    """Removed."""
    return False


def config(api: Api) -> Config:
    return Config.load(str(api.plane.kubeconfig))


def ready(ledger: Ledger) -> tuple[str, str]:
    found = find_condition(ledger.status.conditions, "Ready")
    return (found.status, found.reason) if found else ("", "")


def counted(ledger: Ledger, source: str) -> str:
    found = book_of(ledger, now=datetime.now(UTC)).observed.get(source)
    return str(found.sums[CELL]) if found else ""


@pytest.fixture
def home_of(control_plane: ControlPlane, restorable: Restorable) -> Callable[[str], Api]:
    """Where the ledgers are: on the server that is restored, or, of another cluster's objects, on the suite's own."""

    def choose(cluster: str) -> Api:
        if not cluster:
            return restorable.api
        api = Api(control_plane)
        if api.call("GET", f"{DEFINITIONS}/{LEDGERS.name}").code == 404:
            assert api.call("POST", DEFINITIONS, crd_of(LEDGERS)).code == 201
        wait_served(api, LEDGERS.path())
        api.call("POST", NAMESPACES, {"metadata": {"name": NAMESPACE}})
        return api

    return choose


@pytest.mark.slow
@pytest.mark.parametrize("cluster", [pytest.param("", id="our own, with the ledgers"), pytest.param("east", id="another's")])
async def test_a_ledger_says_that_a_server_was_restored_and_counts_it_anew(
    restorable: Restorable, home_of: Callable[[str], Api], cluster: str
) -> None:
    home = await asyncio.to_thread(home_of, cluster)
    team = await asyncio.to_thread(Team, home, restorable.api, cluster=cluster)
    async with team.served() as service:
        assert await team.admits(service, "kept", 3)
        await team.until(lambda found: ready(found) == ("True", "Exact"), "it is exact")
        await asyncio.to_thread(restorable.server.back_up)
        assert await team.admits(service, "lost", 4)
        for number in range(WRITES):
            await team.make(f"later-{number}", 0)
        before = await team.until(
            lambda found: (counted(found, team.source), found.status.pending) == ("7", ""), "both are counted"
        )
        await asyncio.to_thread(restorable.server.restore)

        found = await team.until(lambda found: ready(found)[1] == "Restored", "it says so", idle=True)
        condition = find_condition(found.status.conditions, "Ready")
        assert condition is not None
        assert condition.message.startswith(f"restored from a backup: the API server of {team.source}, which was noticed at ")
        assert (found.status.epoch, found.status.epochs) == (1, {team.source: 1})
        found = await team.until(lambda found: ready(found) == ("True", "Exact"), "it is exact again")
        assert (counted(found, team.source), found.status.epoch) == ("3", 1)
        assert 0 < found.status.observed[team.source].view < before.status.observed[team.source].view + 1000
        assert await team.admits(service, "fits", 7)
        assert not await team.admits(service, "over", 1)
