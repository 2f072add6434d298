"""A limit holds from the moment that the API has answered the request that sets it: with two webhooks, and with a controller
that is stopped, killed again and again, or slow. `ULLAGE_LIMIT_ROUNDS=1000` makes as many rounds of each sort.

Limits on the number of snapshots are set through the Kubernetes API, those on their space over REST, and the share of virtual
machines in the request that makes their namespace or changes it.

What is admitted is counted by the answers: of requests that were sent after that answer none is admitted on top of as many as
the limit allows. And each limit is soon decided by, with a controller or without: "try again" does not count as a decision.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import re
import signal
import ssl
import statistics
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from ullage.app.installer.roles import API
from ullage.app.up.identities import Identities, Identity
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config

from .apart import IS_BORROWED
from .api import Answer, Api
from .snapshot_scene import GA, HOSTPATH, Process, Scene, eventually
from .snapshot_scene import scene as made_scene
from .test_admission import shared_port
from .test_rest import Rest, Team, cluster_role

Json = dict[str, Any]
ROUNDS = int(os.environ.get("ULLAGE_LIMIT_ROUNDS", "20"))
ASKERS = 4
CREATED, FORBIDDEN, AGAIN = 201, 403, 429
LEDGERS = "/apis/ullage.io/v1alpha1/namespaces/ullage-system/ledgers"
HOWS = ("stopped", "running", "killed", "slow")  # what becomes of the controller meanwhile
DECIDED_SECONDS = 30.0  # the aim is 2 s; machines that run tests are busy
SHOWN_SECONDS = 20.0  # the aim is 5 s
METRIC = re.compile(r'^ullage_admission_reviews_total\{.*hook="snapshot-limit".*\} (\S+)$', re.MULTILINE)

pytestmark = [
    pytest.mark.skipif(IS_BORROWED, reason="a borrowed cluster has a world of its own"),
    pytest.mark.slow,
    pytest.mark.timeout(max(300, 10 * ROUNDS)),
]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Of both webhooks."""
    with shared_port() as found:
        yield found


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, port: int) -> Iterator[Scene]:
    """With two webhooks and without a controller."""
    with ExitStack() as stack:
        made = stack.enter_context(made_scene(tmp_path_factory.mktemp("limits")))
        command = made.webhook()
        replica = [str(port) if before == "--port" else one for before, one in zip(["", *command], command, strict=False)]
        stack.enter_context(made.running(replica, replica))
        yield made


@dataclass
class Tenant:
    """A namespace in which snapshots are asked for while limits on their number are set."""

    scene: Scene
    api: Api
    namespace: str = ""
    sent: list[tuple[float, float, int]] = field(default_factory=list)  # of each create: when sent and answered, and the code

    def __post_init__(self) -> None:
        self.namespace = self.namespace or self.scene.namespace()
        self.limits = f"/apis/ullage.io/v1alpha1/namespaces/{self.namespace}/snapshotlimits"

    def limit(self, most: int, name: str = "limit") -> None:
        """Returns when the API has answered."""
        spec = {"snapshots": most}
        for _ in range(20):
            if self.api.get(f"{self.limits}/{name}").code == 200:
                answer = self.api.call(
                    "PATCH", f"{self.limits}/{name}", {"spec": spec}, headers={"Content-Type": "application/merge-patch+json"}
                )
            else:
                body = {"apiVersion": "ullage.io/v1alpha1", "kind": "SnapshotLimit", "metadata": {"name": name}, "spec": spec}
                answer = self.api.call("POST", self.limits, body)
            if answer.code != AGAIN:
                break
            time.sleep(0.2)
        assert answer.code in (200, CREATED), answer.raw

    def ask(self, name: str) -> Answer:
        began = time.monotonic()
        answer = self.api.call("POST", GA.snapshots(self.namespace), GA.of_claim(name, "disk"))
        self.sent.append((began, time.monotonic(), answer.code))
        return answer

    def admitted(self) -> int:
        return sum(code == CREATED for _, _, code in self.sent)

    def make(self, name: str) -> None:
        """Where nothing is in the way. A webhook that hears of a measure in the middle of a request says to try again."""
        eventually(f"{name} is made", lambda: self.ask(name).code == CREATED)

    def decided(self, answered: float) -> float:
        """Asks until a request is admitted or refused under a limit; the seconds since that limit was answered."""
        while self.ask(f"decided-{len(self.sent)}").code == AGAIN:
            assert time.monotonic() < answered + DECIDED_SECONDS, "nobody counts what is there"
            time.sleep(0.05)
        return time.monotonic() - answered

    def check(self, most: int, answered: float) -> None:
        """Nothing that was sent after the answer came on top of what the limit allows."""
        late = [one for one in self.sent if one[2] == CREATED and one[0] > answered]
        assert not late or self.admitted() <= most, f"{self.admitted()} of {most}, {len(late)} of them sent after the answer"


@contextlib.contextmanager
def controlled(scene: Scene, how: str) -> Iterator[None]:
    """A controller that is `stopped`, `running`, `killed` again and again, or `slow`: held up for a second again and again."""
    if how == "stopped":
        yield
        return
    over, log = threading.Event(), scene.directory / "controller.log"

    def run() -> None:
        process = Process(*scene.controller(), log=log)
        while not over.wait(1.0):
            if how == "killed":
                process.end()
                process = Process(*scene.controller(), log=log)
            elif how == "slow":
                process.process.send_signal(signal.SIGSTOP)
                over.wait(1.0)
                process.process.send_signal(signal.SIGCONT)
        process.end()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def told(how: str, waits: list[float]) -> None:
    shown = f"{statistics.median(waits):.2f} s in the middle and {max(waits):.2f} s at most"
    print(f"controller {how}, {ROUNDS} rounds: decided by a limit {shown} after it was answered")


@pytest.mark.parametrize("how", HOWS)
def test_nothing_passes_a_limit_that_was_answered_before(scene: Scene, how: str) -> None:
    """Snapshots are asked for all the time; a first limit is set meanwhile, then a higher one and a lower one."""
    api = Api(scene.plane, connections=2 * ASKERS, connect=60.0)
    chance = random.Random(how)
    refused, waits = 0, list[float]()
    with controlled(scene, how), ThreadPoolExecutor(ASKERS) as pool:
        for number in range(ROUNDS):
            tenant = Tenant(scene, api)
            over = threading.Event()

            def keep_asking(place: int, tenant: Tenant = tenant, over: threading.Event = over) -> None:
                count = 0
                while not over.is_set() and count < 30:
                    tenant.ask(f"s-{place}-{count}")
                    count += 1

            if number % 2:  # one apply: the limit, and then what it limits
                most = chance.randrange(3)
                tenant.limit(most)
                answered = time.monotonic()
                list(pool.map(tenant.ask, [f"s-{place}" for place in range(most + 2)]))
                waits.append(tenant.decided(answered))
                tenant.check(most, answered)
            else:
                asking = [pool.submit(keep_asking, place) for place in range(ASKERS)]
                time.sleep(chance.random() * 0.1)
                most = chance.randrange(6)
                tenant.limit(most)
                answered = time.monotonic()
                time.sleep(chance.random() * 0.1)
                over.set()
                for one in asking:
                    one.result()
                tenant.check(most, answered)
            if number % 3 == 0:  # raised, lowered at once, by another object too
                tenant.limit(tenant.admitted() + 5)
                lower = tenant.admitted() + 1
                tenant.limit(lower, name=chance.choice(["limit", "other"]))
                answered = time.monotonic()
                list(pool.map(tenant.ask, [f"again-{place}" for place in range(ASKERS)]))
                tenant.check(lower, answered)
            refused += sum(code == FORBIDDEN for _, _, code in tenant.sent)
            assert {code for _, _, code in tenant.sent} <= {CREATED, FORBIDDEN, AGAIN}, tenant.sent
    told(how, waits)
    assert refused, "no limit was ever in the way"


def test_a_dry_run_of_a_limit_holds_nothing(scene: Scene) -> None:
    tenant = Tenant(scene, scene.api)
    body = {
        "apiVersion": "ullage.io/v1alpha1",
        "kind": "SnapshotLimit",
        "metadata": {"name": "limit"},
        "spec": {"snapshots": 0},
    }
    assert scene.api.call("POST", f"{tenant.limits}?dryRun=All", body).code == CREATED
    assert scene.api.get(f"{LEDGERS}/ns-{tenant.namespace}").code == 404
    assert tenant.ask("one").code == CREATED


def test_a_limit_that_is_there_already_books_nothing(scene: Scene) -> None:
    """The create comes to nothing, and the limit stays what it was."""
    tenant = Tenant(scene, scene.api)
    tenant.limit(1)
    body = {
        "apiVersion": "ullage.io/v1alpha1",
        "kind": "SnapshotLimit",
        "metadata": {"name": "limit"},
        "spec": {"snapshots": 0},
    }
    answer = scene.api.call("POST", tenant.limits, body)
    assert (answer.code, answer.obj["reason"]) == (409, "AlreadyExists"), answer.raw
    assert tenant.ask("one").code == CREATED
    assert tenant.ask("two").code == FORBIDDEN


def test_a_share_holds_in_the_request_that_makes_its_namespace(scene: Scene) -> None:
    """The ledger is there before the namespace is, and no controller takes it for one that was left behind."""
    quota = {"field.cattle.io/resourceQuota": json.dumps({"limit": {"limitsCpu": "4", "limitsMemory": "4Gi"}})}
    kept = {"harvesterhci.io/maintenanceQuota": json.dumps({"limit": {"limitsCPUPercent": 50}})}
    with controlled(scene, "running"):
        for number in range(5):
            name = f"share-{number}-{random.randrange(10**9)}"
            scene.api.create("/api/v1/namespaces", {"metadata": {"name": name, "annotations": quota | kept}})
            found = scene.api.get(f"{LEDGERS}/ns-{name}")
            assert found.code == 200, found.raw
            shown = [line for line in found.obj["status"]["summary"] if line.startswith("compute/vms cpu")]
            assert shown == ["compute/vms cpu: used 0, reserved 0, limit 2 cores"], found.raw
            eventually(
                "the controller has carried it",
                lambda name=name: "compute/vms" in scene.api.get(f"{LEDGERS}/ns-{name}").obj.get("spec", {}).get("limits", {}),  # type: ignore[misc]
            )


# --- limits on space, over REST ---

ROLE = "limits-hold-quotas"


@pytest.fixture(scope="module")
def rest(scene: Scene) -> Iterator[Rest]:
    async def issue() -> None:
        async with Client(Config.load(scene.plane.kubeconfig, environ={})) as client:
            await Identities(client, [Identity(API, scene.directory)]).issue()

    asyncio.run(issue())
    scene.api.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", cluster_role(ROLE, "*"))
    process = Process("api", *scene.login(API), "--port", "0", "--drain", "0", log=scene.directory / "api.log")
    try:
        yield Rest(scene.api, process.port)
    finally:
        process.end()


@pytest.fixture(scope="module")
def directories(scene: Scene) -> str:
    """The class of claims whose volumes are full: measured by a controller or not, a snapshot of one costs the capacity."""
    scene.storage_class("limits-hold", HOSTPATH)
    scene.snapshot_class("limits-hold", HOSTPATH)
    return "limits-hold"


@pytest.mark.parametrize("how", HOWS)
def test_nothing_passes_a_limit_on_space_that_rest_has_answered(scene: Scene, rest: Rest, directories: str, how: str) -> None:
    """Snapshots of 64Ki are asked for before, while and after the limit is set, lowered and raised."""
    api = Api(scene.plane, connections=2 * ASKERS, connect=60.0)
    chance, refused, waits = random.Random(f"rest {how}"), 0, list[float]()
    with controlled(scene, how), ThreadPoolExecutor(ASKERS) as pool:
        for number in range(ROUNDS):
            tenant = Tenant(scene, api)
            team = Team(scene.api, tenant.namespace)
            token = team.person(ROLE)
            path = scene.volumes / tenant.namespace
            path.mkdir()
            (path / "file").write_bytes(os.urandom(64 << 10))
            claim = scene.bound_claim(
                tenant.namespace, "disk", source={"hostPath": {"path": str(path)}}, storage_class=directories, size="64Ki"
            )
            assert scene.api.get(claim).obj["status"]["phase"] == "Bound"

            def limit(most: int, team: Team = team, token: str = token) -> float:
                """Sets the limit; the time of the answer."""
                body = {"totalSnapshotSizeQuota": f"{64 * most}Ki"}
                for _ in range(20):
                    answer = rest.act(team.of_namespace, "updateResourceQuota", token=token, body=body)
                    if answer.code != AGAIN:
                        break
                    time.sleep(0.2)
                assert answer.code == 200, answer.body
                return time.monotonic()

            list(pool.map(tenant.make, [f"before-{place}" for place in range(number % 3)]))
            racing = [pool.submit(tenant.ask, f"racing-{place}") for place in range(number % ASKERS)]
            most = 1 + chance.randrange(4)
            answered = limit(most)
            list(pool.map(tenant.ask, [f"after-{place}" for place in range(most + 1)]))
            for one in racing:
                one.result()
            waits.append(tenant.decided(answered))
            tenant.check(most, answered)
            if number % 2:
                limit(tenant.admitted() + 3)
                lower = tenant.admitted() + 1
                answered = limit(lower)
                list(pool.map(tenant.ask, [f"again-{place}" for place in range(ASKERS)]))
                tenant.check(lower, answered)
            refused += sum(code == FORBIDDEN for _, _, code in tenant.sent)
            assert {code for _, _, code in tenant.sent} <= {CREATED, FORBIDDEN, AGAIN}, tenant.sent
    told(how, waits)
    assert refused, "no limit was ever in the way"


# --- shares of virtual machines ---


@dataclass
class Machines(Tenant):
    """A namespace in which virtual machines of one core each are asked for."""

    def ask(self, name: str) -> Answer:
        limits = {"cpu": "1", "memory": "128Mi"}
        domain = {"cpu": {"cores": 1}, "memory": {"guest": "64Mi"}, "resources": {"limits": limits}, "devices": {}}
        body = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": name}}
        spec = {"runStrategy": "Always", "template": {"spec": {"domain": domain}}}
        began = time.monotonic()
        path = f"/apis/kubevirt.io/v1/namespaces/{self.namespace}/virtualmachines"
        answer = self.api.call("POST", path, {**body, "spec": spec})
        self.sent.append((began, time.monotonic(), answer.code))
        return answer


def shares(cores: int) -> Json:
    """Half of a quota is for machines: each takes 15m for its guest-console-log besides."""
    quota = {"limit": {"limitsCpu": f"{2 * 1015 * cores}m", "limitsMemory": "64Gi"}}
    kept = {"limit": {"limitsCPUPercent": 50, "limitsMemoryPercent": 50}}
    return {"field.cattle.io/resourceQuota": json.dumps(quota), "harvesterhci.io/maintenanceQuota": json.dumps(kept)}


@pytest.mark.parametrize("how", HOWS)
def test_nothing_passes_a_share_that_was_answered_before(scene: Scene, how: str) -> None:
    """A Namespace with its share and machines in one apply; or a share that a Namespace gets while machines are made."""
    api = Api(scene.plane, connections=2 * ASKERS, connect=60.0)
    chance, refused, waits = random.Random(how), 0, list[float]()
    with controlled(scene, how), ThreadPoolExecutor(ASKERS) as pool:
        for number in range(ROUNDS):
            most = 1 + chance.randrange(3)
            name = f"share-{how}-{number}-{random.randrange(10**9)}"
            meta = {"name": name, "annotations": shares(most) if number % 2 else {}}
            api.create("/api/v1/namespaces", {"metadata": meta})
            answered, racing = time.monotonic(), []
            tenant = Machines(scene, api, name)
            if not number % 2:
                racing = [pool.submit(tenant.ask, f"racing-{place}") for place in range(number % ASKERS)]
                change = {"metadata": {"annotations": shares(most)}}
                for _ in range(20):
                    answer = api.call(
                        "PATCH", f"/api/v1/namespaces/{name}", change, headers={"Content-Type": "application/merge-patch+json"}
                    )
                    if answer.code != AGAIN:
                        break
                    time.sleep(0.2)
                if answer.code == FORBIDDEN:  # more of the racing ones were quicker than fit into it, and it was not set
                    assert "would be left for it" in answer.message, answer.raw
                    for one in racing:
                        one.result()
                    continue
                assert answer.code == 200, answer.raw
                answered = time.monotonic()
            list(pool.map(tenant.ask, [f"m-{place}" for place in range(most + 2)]))
            for one in racing:
                one.result()
            waits.append(tenant.decided(answered))
            tenant.check(most, answered)
            refused += sum(code == FORBIDDEN for _, _, code in tenant.sent)
            assert {code for _, _, code in tenant.sent} <= {CREATED, FORBIDDEN, AGAIN}, tenant.sent
    told(how, waits)
    assert refused, "no share was ever in the way"


# --- what is said, and by whom it was decided ---


def test_a_limit_that_is_passed_says_so_within_seconds(scene: Scene) -> None:
    """Whatever was admitted before the limit may still arrive: the count is not exact for most of a minute."""
    tenant = Tenant(scene, scene.api)
    with controlled(scene, "running"):
        for name in ("one", "two"):
            assert tenant.ask(name).code == CREATED
        tenant.limit(1)
        began = time.monotonic()

        def passed() -> bool:
            found = scene.api.get(f"{tenant.limits}/limit").obj.get("status", {}).get("conditions", ())
            return {one["type"]: one["status"] for one in found}.get("WithinLimits") == "False"

        eventually("the limit is said to be passed", passed, seconds=SHOWN_SECONDS, every=0.05)
        print(f"WithinLimits was False {time.monotonic() - began:.1f} s after the limit was answered")
        assert scene.api.get(f"{tenant.limits}/limit").obj["status"]["used"] == 2


def test_both_webhooks_have_held_limits(scene: Scene, port: int) -> None:
    """By what each of them says of itself."""
    at_once = 16  # so that the API server opens connections: each comes to one of the two by chance
    api = Api(scene.plane, connections=at_once)
    tenants = [Tenant(scene, api) for _ in range(at_once)]
    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(lambda tenant: tenant.limit(1), tenants))
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    held = set[float]()
    for _ in range(40):
        with urllib.request.urlopen(f"https://127.0.0.1:{port}/metrics", context=context) as answer:
            held.add(sum(map(float, METRIC.findall(answer.read().decode()))))
    print(f"limits that the webhooks were asked about: {sorted(held)}")
    assert min(held) > 0, held
