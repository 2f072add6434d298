"""The ledger on a whole control plane: 200 at once against a limit of 57, while replicas and leader are killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import ssl
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.unit.ledger.counted import counted
from tools.peers.kube.build import programs
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.kube.crds.definitions import crd_of
from ullage.kube.kinds import Kind
from ullage.ledger.api import LEDGERS, NAMESPACE
from ullage.ledger.packing.pending import decode
from ullage.ledger.service.limits import set_limits
from ullage.quantity import Quantity

from .api import Answer, Api
from .choice import DISPOSABLE
from .conftest import DEFINITIONS, wait_served
from .control_plane import ControlPlane, EmbeddedServer
from .kubectl import Kubectl
from .leash import put_down
from .ledger_slice import BOWLS, CELL, CUPS, PLATES, TROUBLE, ledger_name
from .real import RealControlPlane
from .test_admission import shared_port

Json = dict[str, Any]
REQUEST_TIMEOUT, EXPIRY = 5, 7
BUSY = 90  # seconds more that a busy machine may take
LIMIT, CLIENTS, DELETED = 57, 200, 20
SHARED = 23  # by two kinds
WHOLE = 40  # of which a limit is a grant
START_SECONDS, STOP_SECONDS = 60.0, 20.0
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
MUTATING = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


@pytest.fixture(scope="module")
def hurried(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A control plane like the suite's, with requests that end after a few seconds: so attempts may expire soon after."""
    server: EmbeddedServer | RealControlPlane
    if control_plane.embedded:
        server = EmbeddedServer(
            tmp_path_factory.mktemp("hurried") / "data", options=("--request-timeout", str(REQUEST_TIMEOUT))
        )
        server.data_dir.mkdir()
    elif os.environ.get(DISPOSABLE):
        server = RealControlPlane(programs(os.environ), options=(f"--request-timeout={REQUEST_TIMEOUT}s",))
    else:
        pytest.skip("how long requests may take is for the owner of a cluster to say")
    server.start()
    try:
        api = Api(server.control_plane())
        for kind in (LEDGERS, CUPS, PLATES, BOWLS):
            assert api.call("POST", DEFINITIONS, crd_of(kind)).code == 201
            wait_served(api, kind.path())
        api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        yield api
    finally:
        server.stop()


class Tenant:
    """A namespace with a ledger, and the processes that serve it."""

    def __init__(self, api: Api, folder: Path, *, expiry: int = EXPIRY) -> None:
        self.api = api
        self._expiry = expiry
        self.kinds: tuple[Kind[Any], ...] = (CUPS,)
        self.namespace = f"e2e-{uuid.uuid4().hex[:10]}"
        self.cups = CUPS.path(self.namespace)
        self._log = folder / "processes.log"
        self._running: list[subprocess.Popen[bytes]] = []
        api.create("/api/v1/namespaces", {"metadata": {"name": self.namespace}})

    def limit(self, pieces: int) -> None:
        body = {
            "apiVersion": LEDGERS.api_version,
            "kind": LEDGERS.kind,
            "metadata": {"name": ledger_name(self.namespace)},
            "spec": {"limits": {CELL.account: {CELL.resource: str(pieces)}}},
        }
        self.api.create(LEDGERS.path(NAMESPACE), body)

    def start(self, role: str, *, count: int = 1, port: int = 0) -> list[subprocess.Popen[bytes]]:
        command = [sys.executable, "-m", "tests.e2e.ledger_slice", role, "--namespace", self.namespace]
        command += ["--kubeconfig", str(self.api.plane.kubeconfig), "--port", str(port)]
        command += ["--kinds", ",".join(kind.plural for kind in self.kinds)]
        command += ["--request-timeout", str(REQUEST_TIMEOUT), "--expiry", str(self._expiry)]
        with self._log.open("ab") as log:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log}
            started = [subprocess.Popen(command, **pipes) for _ in range(count)]  # type: ignore[call-overload]
        self._running += started
        return started

    def heard(self, process: subprocess.Popen[bytes]) -> Json:
        """The next line that a process says."""
        assert process.stdout is not None
        ready = select.select([process.stdout], [], [], START_SECONDS)[0]
        line = process.stdout.readline() if ready else b""
        assert line, f"it says nothing:\n{self._log.read_text()[-4000:]}"
        found: Json = json.loads(line)
        return found

    def serve(self, *, replicas: int) -> list[subprocess.Popen[bytes]]:
        with shared_port() as port:
            started = self.start("webhook", count=replicas, port=port)
            for process in started:
                self.heard(process)
        until(lambda: self.create("probe", trouble="veto", dry_run=True).code == 403, "the hooks are called")
        return started

    def create(self, name: str, *, size: int = 1, trouble: str = "", dry_run: bool = False) -> Answer:
        return self.api.call(
            "POST",
            kind_of(name).path(self.namespace) + ("?dryRun=All" if dry_run else ""),
            self.body(name, size=size, trouble=trouble),
        )

    def body(self, name: str, *, size: int = 1, trouble: str = "") -> Json:
        labels = {TROUBLE: trouble} if trouble else {}
        return {
            "apiVersion": CUPS.api_version,
            "kind": kind_of(name).kind,
            "metadata": {"name": name, "labels": labels},
            "spec": {"size": size},
        }

    def names(self) -> set[str]:
        paths = [kind.path(self.namespace) for kind in self.kinds]
        return {item["metadata"]["name"] for path in paths for item in self.api.get(path).obj["items"]}

    def ledger(self) -> Json:
        return self.api.get(LEDGERS.path(NAMESPACE, ledger_name(self.namespace))).obj

    def pending(self) -> list[str]:
        found = decode(self.ledger().get("status", {}).get("pending", ""), ledger="")
        return sorted(key.rpartition("/")[2] for key in found)

    def counted(self, kind: Kind[Any] = CUPS) -> str:
        found = counted(self.ledger().get("status", {}).get("sums", ""))
        return found.get(kind.name, {}).get(CELL.account, {}).get(CELL.resource, "0")

    def reason(self) -> str:
        """Of the ledger's condition Ready."""
        conditions = self.ledger().get("status", {}).get("conditions", ())
        return next((str(one["reason"]) for one in conditions if one["type"] == "Ready"), "")

    def end(self) -> None:
        for hooks in (HOOKS, MUTATING):
            self.api.call("DELETE", f"{hooks}/e2e-{self.namespace}")
        put_down(self._running)


def kind_of(name: str) -> Kind[Any]:
    return next((kind for kind in (PLATES, BOWLS) if name.startswith(f"{kind.kind.lower()}-")), CUPS)


@pytest.fixture
def tenant(hurried: Api, tmp_path: Path) -> Iterator[Tenant]:
    found = Tenant(hurried, tmp_path)
    yield found
    found.end()


def until(holds: Callable[[], bool], what: str, *, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)


class Crowd:
    """Clients that want one object each and do not give up, and somebody who counts what there is at every instant."""

    def __init__(self, session: aiohttp.ClientSession, tenant: Tenant) -> None:
        self.session = session
        self.tenant = tenant
        self.there: set[str] = set()
        self.most = 0
        self.codes: Counter[int] = Counter()
        self.odd: list[str] = []
        self._counting: list[asyncio.Task[None]] = []

    async def count(self) -> None:
        """The order of events is the order of commits, so this sees every instant. Of two kinds it sees some instants that
        were not: where one watch is behind and objects of its kind went, as none do while both are counted."""
        self._counting = [asyncio.create_task(self._count(kind.path(self.tenant.namespace))) for kind in self.tenant.kinds]
        await asyncio.sleep(0)

    async def _count(self, path: str) -> None:
        version = "0"
        while True:
            query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": "300"}
            async with self.session.get(path, params=query, timeout=aiohttp.ClientTimeout(total=None)) as answer:
                async for line in answer.content:
                    event = json.loads(line)
                    meta = event["object"]["metadata"]
                    version = meta["resourceVersion"]
                    (self.there.discard if event["type"] == "DELETED" else self.there.add)(meta["name"])
                    self.most = max(self.most, len(self.there))

    async def want(self, names: list[str], *, seconds: float, full: int) -> None:
        """All ask for as long as that, to see whether one is let in too many; and on a busy machine until it is full."""
        began = time.monotonic()
        await asyncio.gather(*(self._want(name, began + seconds, full) for name in names))

    async def _want(self, name: str, end: float, full: int) -> None:
        while (now := time.monotonic()) < end or (len(self.there) < full and now < end + BUSY):
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                path = kind_of(name).path(self.tenant.namespace)
                async with self.session.post(path, json=self.tenant.body(name)) as answer:
                    found = await answer.json()
                    self.codes[answer.status] += 1
                    if answer.status in (201, 409):
                        return
                    if answer.status not in (403, 429):
                        self.odd.append(found.get("message", ""))
            await asyncio.sleep(0.5)

    def end(self) -> None:
        for task in self._counting:
            task.cancel()


@contextlib.asynccontextmanager
async def crowd(tenant: Tenant) -> AsyncIterator[Crowd]:
    plane = tenant.api.plane
    trust = ssl.create_default_context(cafile=plane.ca_file) if plane.ca_file else False
    headers = {"Authorization": f"Bearer {plane.admin_token}"}
    connector = aiohttp.TCPConnector(limit=0, ssl=trust)
    timeout = aiohttp.ClientTimeout(total=30)
    async with aiohttp.ClientSession(plane.url, connector=connector, headers=headers, timeout=timeout) as session:
        found = Crowd(session, tenant)
        try:
            await found.count()
            yield found
        finally:
            found.end()


@pytest.mark.slow
async def test_a_limit_holds_while_200_ask_and_replicas_and_leader_are_killed(tenant: Tenant) -> None:
    leaders = await asyncio.to_thread(tenant.start, "leader", count=1)
    assert await asyncio.to_thread(tenant.heard, leaders[0]) == {"leads": True}
    await asyncio.to_thread(tenant.start, "leader", count=1)  # stands by
    tenant.limit(LIMIT)
    replicas = await asyncio.to_thread(tenant.serve, replicas=3)
    names = [f"cup-{number}" for number in range(CLIENTS)]

    async with crowd(tenant) as clients:

        async def kill_midway() -> None:
            while len(clients.there) < LIMIT // 3:  # noqa: ASYNC110  a watch fills it
                await asyncio.sleep(0.002)
            replicas[0].kill()
            leaders[0].kill()

        killing = asyncio.create_task(kill_midway())
        await clients.want(names, seconds=2.5 * EXPIRY, full=LIMIT)
        await killing
        first = await asyncio.to_thread(tenant.names)
        assert clients.most == LIMIT, f"of {LIMIT} allowed there were {clients.most} at one instant; {clients.codes}"
        assert len(first) == LIMIT
        assert clients.codes[403], "who did not fit was told"

        for name in sorted(first)[:DELETED]:
            async with clients.session.delete(f"{tenant.cups}/{name}") as answer:
                assert answer.status == 200
        rest = [name for name in names if name not in first]
        await clients.want(rest, seconds=1.5 * EXPIRY, full=LIMIT)
        second = await asyncio.to_thread(tenant.names)
        assert len(second - first) == DELETED
        assert len(second) == LIMIT
        assert clients.most == LIMIT, "at no instant were there more"
        assert all("failed calling webhook" in message for message in clients.odd), clients.odd[:3]

    until(
        lambda: tenant.pending() == [] and tenant.counted() == str(LIMIT), "at rest, everything is counted and nothing pending"
    )


@pytest.mark.slow
async def test_two_slices_kinds_share_a_limit_while_replicas_and_leader_are_killed(tenant: Tenant) -> None:
    """64 clients, half of whom want cups and half plates: exact at every instant, and of each kind at rest."""
    tenant.kinds = (CUPS, PLATES)
    leaders = await asyncio.to_thread(tenant.start, "leader", count=2)  # one stands by
    tenant.limit(SHARED)
    replicas = await asyncio.to_thread(tenant.serve, replicas=3)
    names = [f"{kind}-{number}" for number in range(32) for kind in ("cup", "plate")]

    async with crowd(tenant) as clients:

        async def kill_midway() -> None:
            while len(clients.there) < SHARED // 3:  # noqa: ASYNC110  a watch fills it
                await asyncio.sleep(0.002)
            replicas[0].kill()
            leaders[0].kill()

        killing = asyncio.create_task(kill_midway())
        await clients.want(names, seconds=2.5 * EXPIRY, full=SHARED)
        await killing
        assert clients.most == SHARED, f"of {SHARED} allowed there were {clients.most} at one instant; {clients.codes}"
        there = await asyncio.to_thread(tenant.names)
        assert len(there) == SHARED
        assert clients.codes[403], "who did not fit was told"
        assert all("failed calling webhook" in message for message in clients.odd), clients.odd[:3]

    of_each = {kind: str(sum(kind_of(name) is kind for name in there)) for kind in tenant.kinds}
    until(
        lambda: tenant.pending() == [] and {kind: tenant.counted(kind) for kind in tenant.kinds} == of_each,
        "at rest, each kind is counted and nothing is pending",
    )


@pytest.mark.slow
def test_what_no_process_charges_after_a_restart_is_free_again(tenant: Tenant) -> None:
    """Plates have nearly all of the limit. Then every process starts anew without them."""
    tenant.kinds = (CUPS, PLATES)
    first = tenant.start("leader")
    tenant.heard(first[0])
    assert tenant.create("plate-0", size=SHARED - 1).code == 201
    tenant.limit(SHARED)
    until(lambda: tenant.counted(PLATES) == str(SHARED - 1), "plates are counted", seconds=BUSY)
    put_down(first)
    tenant.kinds = (CUPS,)
    second = tenant.start("leader")
    tenant.heard(second[0])
    tenant.serve(replicas=1)
    until(lambda: tenant.reason() == "NotCounted", "the ledger says what it still has", seconds=BUSY)
    refused = tenant.create("cup-0", size=2)
    assert refused.code == 403, refused.raw
    assert f"used {SHARED - 1}" in refused.message
    until(lambda: tenant.counted(PLATES) == "0", "what plates took is free", seconds=60 + BUSY)
    assert tenant.create("cup-0", size=SHARED).code == 201
    until(lambda: tenant.counted() == str(SHARED) and tenant.reason() == "Exact", "the ledger is exact", seconds=60 + BUSY)


async def raise_on_demand(tenant: Tenant, *, step: int) -> None:
    """A small master: it sees what is wanted of the grant, and raises the limit by a step towards that."""
    api = tenant.api
    async with Client(Config.load(str(api.plane.kubeconfig))) as client:
        while True:
            await asyncio.sleep(0.1)
            found = await client.get(LEDGERS, ledger_name(tenant.namespace), NAMESPACE)
            wanted = found.status.demand.get(CELL.account, {}).get(CELL.resource)
            if wanted is not None:
                limit = min(int(found.spec.limits[CELL.account][CELL.resource]) + step, int(wanted.limit))
                name, number = found.metadata.name, found.spec.change + 1
                await set_limits(client, name, {CELL: Quantity.of(limit)}, number=number, about=CELL.account)


@pytest.mark.slow
async def test_a_grant_is_raised_on_demand_while_64_ask(tenant: Tenant) -> None:
    """Limited to nothing at first, and granted bit by bit up to the whole: never over, exact, and nobody is left who fits."""
    tenant.start("leader")
    async with Client(Config.load(str(tenant.api.plane.kubeconfig))) as client:
        whole = {CELL: Quantity.of(WHOLE)}
        await set_limits(client, ledger_name(tenant.namespace), {CELL: Quantity.of(0)}, grants=whole)
    await asyncio.to_thread(tenant.serve, replicas=2)
    names = [f"cup-{number}" for number in range(64)]
    async with crowd(tenant) as clients:
        granting = asyncio.create_task(raise_on_demand(tenant, step=7))
        await clients.want(names, seconds=EXPIRY, full=WHOLE)
        assert not granting.done(), "the master has not failed"
        granting.cancel()
        assert clients.most == WHOLE, f"of {WHOLE} allowed there were {clients.most} at one instant; {clients.codes}"
        assert len(await asyncio.to_thread(tenant.names)) == WHOLE
        assert all("failed calling webhook" in message for message in clients.odd), clients.odd[:3]
    beyond = await asyncio.to_thread(tenant.create, "beyond")
    assert (beyond.code, "More was asked for" in beyond.message) == (403, False), "the whole is used up"
    ledger = tenant.ledger()
    assert ledger["spec"]["limits"] == {CELL.account: {CELL.resource: str(WHOLE)}}
    assert ledger["spec"]["change"] >= WHOLE // 7


@pytest.mark.slow
def test_what_another_webhook_refuses_costs_nothing_after_expiry(tenant: Tenant) -> None:
    tenant.start("leader")
    tenant.limit(1)
    tenant.serve(replicas=1)

    vetoed = tenant.create("vetoed", trouble="veto")
    assert (vetoed.code, "vetoed" in vetoed.message) == (403, True)
    until(lambda: tenant.pending() == ["vetoed"], "it passed the ledger", seconds=10)

    other = tenant.create("other")
    assert other.code == 403
    assert (
        "cups pieces: asked 1, used 0, reserved 1, limit 1, over by 1. Held for requests that were not seen yet"
        in other.message
    )
    assert "Next: try again after" in other.message
    until(lambda: tenant.create("other").code == 201, "expiry gives the room back", seconds=2 * EXPIRY + BUSY)
    until(lambda: tenant.pending() == [] and tenant.counted() == "1", "at rest the count is the truth")


def test_an_object_of_less_than_nothing_is_refused_with_its_field(tenant: Tenant) -> None:
    tenant.limit(10)
    tenant.serve(replicas=1)
    less = tenant.create("less", size=-90)
    assert (less.code, "cups.pieces: -90: an amount is not negative" in less.message) == (422, True), less.raw
    assert tenant.create("more", size=11).code == 403


async def give_up_early(tenant: Tenant) -> None:
    """A client that waits for a second and is gone."""
    async with crowd(tenant) as clients:
        body, brief = tenant.body("late", trouble="dawdle"), aiohttp.ClientTimeout(total=1)
        with pytest.raises(TimeoutError):
            await clients.session.post(tenant.cups, json=body, timeout=brief)


async def wait_in_vain(tenant: Tenant) -> None:
    """A client that waits as long as the API server does."""
    late = await asyncio.to_thread(tenant.create, "late", trouble="dawdle")
    assert late.code in (429, 500, 504), late.raw


@pytest.mark.slow
@pytest.mark.parametrize(
    "client", [pytest.param(give_up_early, id="of the client"), pytest.param(wait_in_vain, id="of the API server")]
)
async def test_a_create_whose_time_is_up_costs_nothing_after_expiry(
    tenant: Tenant, client: Callable[[Tenant], Awaitable[None]]
) -> None:
    tenant.start("leader")
    tenant.limit(1)
    await asyncio.to_thread(tenant.serve, replicas=1)

    await client(tenant)
    assert tenant.pending() == ["late"]
    assert tenant.create("other").code == 403

    await asyncio.to_thread(until, lambda: tenant.pending() == [], "without anybody asking, too", seconds=2 * EXPIRY + BUSY)
    assert tenant.names() == set()
    assert tenant.create("other").code == 201


def test_a_retry_of_the_same_object_does_not_pay_twice_at_the_limit(tenant: Tenant) -> None:
    tenant.limit(1)
    tenant.serve(replicas=1)

    assert tenant.create("same", trouble="veto").code == 403
    until(lambda: tenant.pending() == ["same"], "it passed the ledger", seconds=10)

    assert tenant.create("same").code == 201
    assert tenant.create("other").code == 403


def test_a_new_ledger_is_ready_once_everything_is_counted_that_was_admitted_before_it(tenant: Tenant) -> None:
    tenant.start("leader")
    tenant.limit(3)
    tenant.serve(replicas=1)
    until(lambda: CUPS.name in tenant.ledger().get("status", {}).get("exactFrom", {}), "it is known from where on")
    assert tenant.create("later").code == 201  # what happens later moves the watch past there

    def ready() -> tuple[str, str]:
        found = {one["type"]: one for one in tenant.ledger()["status"]["conditions"]}
        return found["Ready"]["status"], found["Ready"]["message"]

    until(lambda: ready() == ("True", "everything is counted"), "it is exact")


def test_a_stamp_is_ours_whatever_persons_and_other_webhooks_write(tenant: Tenant) -> None:
    tenant.kinds = (BOWLS,)
    tenant.start("leader")
    tenant.limit(5)
    tenant.serve(replicas=1)
    stamp = {"ullage.io/takes": '{"cups":{"pieces":"2"}}'}
    bowls = BOWLS.path(tenant.namespace)

    def stamp_of(answer: Answer) -> Json:
        found: Json = answer.obj["metadata"].get("annotations", {})
        return found

    until(lambda: stamp_of(tenant.create("bowl-probe", size=2, dry_run=True)) == stamp, "new bowls are stamped")
    body = tenant.body("bowl-claims", size=2)
    body["metadata"]["annotations"] = {"ullage.io/takes": "{}"}
    made = tenant.api.call("POST", bowls, body)
    assert (made.code, stamp_of(made)) == (201, stamp), made.raw

    less = {"metadata": {"annotations": {"ullage.io/takes": "{}"}}}
    kept = tenant.api.merge(f"{bowls}/bowl-claims", less)
    assert kept["metadata"]["annotations"] == stamp, "nor can it be edited"

    meddled = tenant.create("bowl-meddled", size=2, trouble="meddle")
    assert (meddled.code, stamp_of(meddled)) == (201, stamp), "it is put right after others"
    insisted = tenant.create("bowl-insisted", size=1, trouble="insist")
    assert insisted.code == 429, insisted.raw
    assert 'it is {}, and Ullage had stamped {"cups":{"pieces":"1"}}: another webhook changes it' in insisted.message
    assert tenant.create("bowl-large", size=2).code == 403
    until(lambda: tenant.counted(BOWLS) == "4" and tenant.pending() == [], "what is stamped is counted")


def serve_cups(api: Api, *, served: bool) -> None:
    path = f"{DEFINITIONS}/{CUPS.name}"
    found = api.get(path).obj
    found["spec"]["versions"][0]["served"] = served
    api.replace(path, found)
    until(lambda: (api.call("GET", CUPS.path()).code == 200) is served, f"cups are served: {served}")


def test_a_version_that_is_not_served_for_a_while_empties_no_book(tenant: Tenant) -> None:
    """Its 404 is no proof that there is nothing: the definition is there, and the objects are."""
    tenant.start("leader")
    tenant.limit(2)
    replicas = tenant.serve(replicas=1)
    assert [tenant.create(name).code for name in ("first", "second")] == [201, 201]
    until(lambda: tenant.counted() == "2" and tenant.pending() == [], "both are counted")
    serve_cups(tenant.api, served=False)
    try:
        put_down(replicas)
        time.sleep(3.0)  # as long as a leader and a replica that believed it would take to write it down
        assert tenant.counted() == "2"
    finally:
        serve_cups(tenant.api, served=True)
    tenant.serve(replicas=1)
    third = tenant.create("third")
    assert (third.code, tenant.counted(), len(tenant.names())) == (403, "2", 2), third.message


def test_a_create_of_a_name_that_exists_is_told_so_at_the_limit(tenant: Tenant, tmp_path: Path) -> None:
    """As without us, so that clients that create a thing or else get it go on working. kubectl reads it as client-go does."""
    tenant.limit(1)
    tenant.serve(replicas=1)
    assert tenant.create("there").code == 201

    for dry_run in (False, True):
        again = tenant.create("there", dry_run=dry_run)
        assert (again.code, again.obj["reason"]) == (409, "AlreadyExists"), again.raw
        assert again.message.endswith(f'denied the request: {CUPS.name} "there" already exists')
    other = tenant.create("other")
    assert (other.code, other.obj["reason"]) == (403, "Forbidden")

    kubectl = Kubectl(tenant.api.plane, namespace=tenant.namespace, home=tmp_path)
    assert "Error from server (AlreadyExists)" in kubectl.fails("create", "-f", "-", stdin=tenant.body("there"))
    assert "Error from server (Forbidden)" in kubectl.fails("create", "-f", "-", stdin=tenant.body("other"))


def test_operators_can_look_at_a_ledger_and_rebuild_it(tenant: Tenant) -> None:
    tenant.start("leader")
    tenant.limit(3)
    tenant.serve(replicas=1)
    assert tenant.create("made").code == 201
    assert tenant.create("vetoed", trouble="veto").code == 403
    until(lambda: tenant.counted() == "1" and tenant.pending() == ["vetoed"], "one is counted and one is pending")
    name = ledger_name(tenant.namespace)

    def ullage(*args: str) -> str:
        command = [sys.executable, "-m", "ullage", "ledger", *args, "--kubeconfig", str(tenant.api.plane.kubeconfig)]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout

    assert [name, "1", "3", "66%", "1"] in [line.split()[:5] for line in ullage("get").splitlines()]

    def describes_it() -> bool:
        tenant.create("vetoed", trouble="veto")  # on a busy machine the first has expired by now
        return f"{CUPS.name}//{tenant.namespace}/vetoed" in ullage("describe", name)

    until(describes_it, "what is pending is shown", seconds=BUSY)
    assert json.loads(ullage("get", name, "-o", "json"))["spec"] == tenant.ledger()["spec"]

    assert ullage("rebuild", name) == f"ledger {name} is empty\nledger {name} is counted: {CUPS.name}\n"
    assert (tenant.pending(), tenant.counted()) == ([], "1")
