"""Room is held for requests that are under way, for nothing else, and for as long as they may be.

Names that come, go and are asked for again hold no room; and where the API server or its storage stands still for longer than
a request lives, nothing passes the limit afterwards.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from tools.peers.kube.build import programs
from ullage.kube.crds.definitions import crd_of
from ullage.ledger.api import LEDGERS, NAMESPACE

from .api import Api
from .choice import DISPOSABLE
from .conftest import DEFINITIONS, wait_served
from .control_plane import ControlPlane, EmbeddedServer
from .ledger_slice import CUPS
from .real import RealControlPlane
from .test_ledger import REQUEST_TIMEOUT, Crowd, Tenant, crowd, until

PLACES, CLIENTS, NAMES = 40, 24, 120
SECONDS = 12  # for which they repeat names
FEW = 12  # places, where a server is stopped
MOST_REFUSED = 0.01  # of those that would fit
LONG = 45  # seconds: what is held for nothing stays for the whole test
STORAGE_TIMEOUT = 7  # etcd's own
STOPS = (10, 20)  # seconds: one within the time in which a request may be stored, and one beyond it


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer | RealControlPlane]:
    """A control plane of its own, since it is stopped, with requests that end after a few seconds."""
    server: EmbeddedServer | RealControlPlane
    if control_plane.embedded:
        server = EmbeddedServer(tmp_path_factory.mktemp("room") / "data", options=("--request-timeout", str(REQUEST_TIMEOUT)))
        server.data_dir.mkdir()
    elif os.environ.get(DISPOSABLE):
        server = RealControlPlane(programs(os.environ), options=(f"--request-timeout={REQUEST_TIMEOUT}s",))
    else:
        pytest.skip("to stop it is for the owner of a cluster")
    server.start()
    try:
        api = Api(server.control_plane())
        for kind in (LEDGERS, CUPS):
            assert api.call("POST", DEFINITIONS, crd_of(kind)).code == 201
            wait_served(api, kind.path())
        api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        yield server
    finally:
        server.stop()


async def repeat(clients: Crowd, number: int, codes: Counter[int], refused: list[str], end: float) -> None:
    """One client: it takes a name that others want too, asks for it again, as those do that have lost an answer, and gives it
    back. It never has more than one object: whatever these clients ask for, it fits."""
    chance, path = random.Random(number), clients.tenant.cups
    while time.monotonic() < end:
        name = f"cup-{chance.randrange(NAMES)}"
        made = False
        for _ in range(3):
            async with clients.session.post(path, json=clients.tenant.body(name)) as answer:
                message = (await answer.json()).get("message", "")
            codes[answer.status] += 1
            made = made or answer.status == 201
            if answer.status not in (201, 409):
                refused.append(message)
        if made:
            async with clients.session.delete(f"{path}/{name}") as answer:
                assert answer.status == 200


@pytest.mark.slow
async def test_names_that_come_and_go_and_are_asked_for_again_hold_no_room(
    plane: EmbeddedServer | RealControlPlane, tmp_path: Path
) -> None:
    """24 clients that never have more than one object each find 40 places enough, whatever they repeat."""
    tenant = Tenant(Api(plane.control_plane()), tmp_path, expiry=LONG)
    try:
        leader = await asyncio.to_thread(tenant.start, "leader")
        await asyncio.to_thread(tenant.heard, leader[0])
        tenant.limit(PLACES)
        await asyncio.to_thread(tenant.serve, replicas=2)
        codes, refused = Counter[int](), list[str]()
        async with crowd(tenant) as clients:
            end = time.monotonic() + SECONDS
            await asyncio.gather(*(repeat(clients, number, codes, refused, end) for number in range(CLIENTS)))
        print(f"answers: {dict(codes)}, pending at the end: {len(tenant.pending())}")
        assert codes[201] > CLIENTS, "they had places"
        assert codes[409] > codes[201], "they repeated names"
        share = len(refused) / (codes[201] + len(refused))
        assert share <= MOST_REFUSED, f"{len(refused)} creates that would fit were refused, of {codes}: {refused[-1]}"
    finally:
        tenant.end()


def halted(plane: EmbeddedServer | RealControlPlane, which: str) -> int:
    if isinstance(plane, RealControlPlane):
        return plane.pids[which]
    return plane.pid


@pytest.mark.slow
@pytest.mark.parametrize("which", ["etcd", "kube-apiserver"])
async def test_nothing_is_over_though_the_server_stood_still_in_the_middle_of_writes(
    plane: EmbeddedServer | RealControlPlane, tmp_path: Path, which: str
) -> None:
    """Of the embedded server, which is both, one process is stopped."""
    if isinstance(plane, EmbeddedServer) and which == "etcd":
        pytest.skip("the embedded server has no storage of its own")
    tenant = Tenant(Api(plane.control_plane()), tmp_path, expiry=REQUEST_TIMEOUT + STORAGE_TIMEOUT + 4)
    try:
        leader = await asyncio.to_thread(tenant.start, "leader")
        await asyncio.to_thread(tenant.heard, leader[0])
        tenant.limit(FEW)
        await asyncio.to_thread(tenant.serve, replicas=2)
        async with crowd(tenant) as clients:
            ends = asyncio.Event()

            async def churn(number: int) -> None:
                turn = 0
                while not ends.is_set():
                    turn += 1
                    name = f"cup-{number}-{turn}"
                    with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                        async with clients.session.post(tenant.cups, json=tenant.body(name)) as answer:
                            clients.codes[answer.status] += 1
                            made = answer.status == 201
                        if made and turn % 2:
                            async with clients.session.delete(f"{tenant.cups}/{name}") as answer:
                                await answer.read()

            churning = [asyncio.create_task(churn(number)) for number in range(CLIENTS)]
            await asyncio.sleep(1)
            for seconds in STOPS:
                stopped = halted(plane, which)
                os.kill(stopped, signal.SIGSTOP)
                try:
                    await asyncio.sleep(seconds)
                finally:
                    os.kill(stopped, signal.SIGCONT)
                before = clients.codes.total()
                deadline = time.monotonic() + 90
                while clients.codes.total() < before + CLIENTS:
                    assert time.monotonic() < deadline, "it does not go on"
                    await asyncio.sleep(0.1)
            ends.set()
            await asyncio.gather(*churning)
            assert clients.most <= FEW, f"of {FEW} allowed there were {clients.most} at one instant; {clients.codes}"
            there = await asyncio.to_thread(tenant.names)
        assert len(there) <= FEW
        until(
            lambda: tenant.pending() == [] and tenant.counted() == str(len(there)),
            "at rest, everything is counted and nothing is held",
            seconds=120,
        )
    finally:
        tenant.end()
