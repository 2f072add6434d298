"""A tenant's commands in pods that do not end: hooks, and exec by many accounts. Others' commands run all the same."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from ullage.errors import UllageError
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.kube.client.websockets.remote_command import ExecRequest

from .apart import IS_BORROWED
from .snapshot_scene import Scene, eventually, scene
from .test_cut_hooks import POST, PRE, Case, Controller, says

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(IS_BORROWED, reason="a borrowed cluster has kubelets of its own"),
    pytest.mark.timeout(600),
]
PODS = 120
MOST_OF_ONE = 8  # post commands of a namespace
ACCOUNTS, EACH = 5, 100
MOST_COMMANDS = 40  # that the world runs in one namespace
SNAPSHOTS = 3
LONGEST_LOCK = 120.0  # seconds for which an application is locked at most, as the how-to promises
ASKS = 20


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("commands")) as made, made.running(made.webhook(), made.world()):
        yield made


def pods(case: Case, number: int, annotations: dict[str, str]) -> None:
    """Many pods that mount the claim, all running."""
    mounts = [{"name": "data", "mountPath": "/data"}]
    spec = {
        "containers": [{"name": "db", "image": "x", "volumeMounts": mounts}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    }
    for index in range(number):
        meta = {"name": f"p{index}", "annotations": annotations}
        case.api.create(f"{case.core}/pods", {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})

    def running() -> bool:
        found = case.api.get(f"{case.core}/pods?limit=1000").obj["items"]
        return Counter(pod.get("status", {}).get("phase") for pod in found) == {"Running": number}

    eventually("all pods run", running, seconds=180)


def begun(case: Case) -> int:
    """How many post commands were begun and have not ended."""
    found = [one["status"]["post"] for one in case.runs if one.get("status", {}).get("phase") == "Post"]
    return sum(1 for post in found if post.get("startedAt") and not post.get("endedAt"))


def locked(victim: Case) -> float:
    """What a victim sees: the seconds from the request until the post hook of his snapshot has ended."""
    began = time.monotonic()
    victim.ready(victim.snapshot())
    victim.over()
    return time.monotonic() - began


def test_post_hooks_that_hang_keep_no_other_tenants_application_locked(place: Scene) -> None:
    """120 pods of one claim, each with a post hook that sleeps for ten minutes, and one snapshot of it."""
    controller = Controller(place)
    try:
        attacker, victim = Case(place), Case(place)
        victim.pod({f"{PRE}/command": says("pre"), f"{POST}/command": says("post")})
        quiet = locked(victim)
        pods(attacker, PODS, {f"{POST}/command": '["sleep", "600"]', f"{POST}/timeout": "10m"})
        attacker.ready(attacker.snapshot())
        eventually("post commands hang", lambda: begun(attacker) >= MOST_OF_ONE)

        busy = []
        for _ in range(SNAPSHOTS):
            busy.append(locked(victim))
            assert begun(attacker) == MOST_OF_ONE, "the attack goes on, within its bound"
        controller.kill()
        controller.start()
        after = locked(victim)
        assert victim.log == ["pre", "post"] * (SNAPSHOTS + 2)
        assert max(*busy, after) < LONGEST_LOCK
        print(
            f"a victim's snapshot with both hooks took {quiet:.1f} s before, {max(busy):.1f} s at most beside {PODS} hooks "
            f"that hang, of which {MOST_OF_ONE} run, and {after:.1f} s after the controller was killed"
        )
        assert len(attacker.runs) == PODS
        assert begun(attacker) <= MOST_OF_ONE
    finally:
        controller.kill()


def account(case: Case, name: str) -> str:
    """A token of an account that may run commands in the namespace's pods."""
    core = f"{case.core}/serviceaccounts"
    case.api.create(core, {"metadata": {"name": name}})
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}}
    token = case.api.create(f"{core}/{name}/token", review)["status"]["token"]
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{case.namespace}"
    rule = {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get", "create"]}
    case.api.create(f"{rbac}/roles", {"metadata": {"name": name}, "rules": [rule]})
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": case.namespace}],
    }
    case.api.create(f"{rbac}/rolebindings", binding)
    return str(token)


async def test_sleeping_commands_of_many_accounts_leave_places_to_other_namespaces(place: Scene) -> None:
    """Five accounts of one namespace, each with a hundred commands that sleep for an hour."""
    attacker, victim = Case(place), Case(place)
    attacker.pod({})
    victim.pod({})
    tokens = [account(attacker, f"a{number}") for number in range(ACCOUNTS)]
    config = Config.load(place.plane.kubeconfig, environ={})
    ended: Counter[str] = Counter()

    async def sleep(client: Client) -> None:
        asked = ExecRequest(namespace=attacker.namespace, pod="db", container="db", command=("sleep", "3600"), timeout=3600)
        try:
            await client.run_command(asked)
        except UllageError as error:
            ended["full" if f"are running in namespace {attacker.namespace} already" in str(error) else str(error)] += 1

    async with contextlib.AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(Client(Config(server=config.server, ca=config.ca, token=token))) for token in tokens
        ]
        admin = await stack.enter_async_context(Client(config))
        attack = [asyncio.create_task(sleep(client)) for client in clients for _ in range(EACH)]
        try:
            async with asyncio.timeout(120):
                while sum(ended.values()) < ACCOUNTS * EACH - MOST_COMMANDS:  # noqa: ASYNC110  tasks that end by themselves
                    await asyncio.sleep(0.1)
            answers, slowest = Counter[int](), 0.0
            for _ in range(ASKS):
                asked = ExecRequest(namespace=victim.namespace, pod="db", container="db", command=("echo", "here"), timeout=30)
                began = time.monotonic()
                answers[(await admin.run_command(asked)).exit_code] += 1
                slowest = max(slowest, time.monotonic() - began)
            assert answers == {0: ASKS}
            assert sum(1 for task in attack if not task.done()) == MOST_COMMANDS, ended
            assert ended["full"] > 0
            print(f"{ASKS} of {ASKS} commands of a victim ran, {slowest:.2f} s at most, beside {MOST_COMMANDS} that sleep")
        finally:
            for task in attack:
                task.cancel()
            await asyncio.gather(*attack, return_exceptions=True)
