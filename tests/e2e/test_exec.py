"""Commands in pods, through the API server to the kubelet that the world plays: as kubectl runs them, and our client."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.kube.client.websockets.remote_command import ExecOutcome, ExecRefused, ExecRequest, ExecTimedOut
from ullage.kube.errors import Forbidden, NotFound

from .apart import IS_BORROWED
from .kubectl import Kubectl
from .snapshot_scene import Scene, eventually, scene

pytestmark = [pytest.mark.slow, pytest.mark.skipif(IS_BORROWED, reason="a borrowed cluster has kubelets of its own")]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("exec")) as made, made.running(made.world()):
        yield made


@pytest.fixture(scope="module")
def namespace(place: Scene) -> str:
    """With a pod `db` that mounts claim `data` on /data."""
    name = place.namespace()
    place.claim(name, "data")
    make_pod(place, name, "db", claim="data")
    return name


def make_pod(place: Scene, namespace: str, name: str, *, claim: str) -> None:
    containers = [
        {"name": "db", "image": "db", "volumeMounts": [{"name": "disk", "mountPath": "/data"}]},
        {"name": "side", "image": "side"},
    ]
    volumes = [{"name": "disk", "persistentVolumeClaim": {"claimName": claim}}]
    body = {"metadata": {"name": name}, "spec": {"containers": containers, "volumes": volumes}}
    place.api.create(f"/api/v1/namespaces/{namespace}/pods", {"apiVersion": "v1", "kind": "Pod", **body})
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    eventually(f"{name} runs", lambda: place.api.get(path).obj.get("status", {}).get("phase") == "Running")
    node = place.api.get(path).obj["spec"]["nodeName"]
    eventually("its node has a kubelet", lambda: "daemonEndpoints" in place.api.get(f"/api/v1/nodes/{node}").obj["status"])


@pytest.fixture
def kubectl(place: Scene, namespace: str, tmp_path: Path) -> Kubectl:
    return Kubectl(place.plane, namespace=namespace, home=tmp_path)


async def run(place: Scene, request: ExecRequest, *, token: str = "") -> ExecOutcome:
    config = Config.load(place.plane.kubeconfig, environ={})
    async with Client(Config(server=config.server, ca=config.ca, token=token) if token else config) as client:
        return await client.run_command(request)


def asked(namespace: str, *command: str, pod: str = "db", container: str = "db", timeout: float = 20) -> ExecRequest:
    return ExecRequest(namespace=namespace, pod=pod, container=container, command=command, timeout=timeout)


def test_kubectl_runs_commands(place: Scene, namespace: str, kubectl: Kubectl) -> None:
    said = kubectl.run("exec", "db", "-c", "db", "--", "echo", "hello", "there")
    assert (said.code, said.out, said.err) == (0, "hello there\n", "")
    failed = kubectl.run("exec", "db", "-c", "db", "--", "false")
    assert (failed.code, "exit code 1" in failed.err) == (1, True)
    unknown = kubectl.run("exec", "db", "-c", "db", "--", "mysqldump", "--all-databases")
    assert (unknown.code, "mysqldump: not found" in unknown.err) == (127, True), unknown
    files = place.files(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/data")
    assert kubectl.run("exec", "db", "-c", "db", "--", "sh", "-c", "echo one > /data/a && echo two >> /data/a").code == 0
    assert (files / "a").read_text() == "one\ntwo\n"
    assert kubectl.run("exec", "-i", "db", "-c", "db", "--", "tee", "/data/b", stdin="typed").out == "typed"
    assert (files / "b").read_text() == "typed"


def test_kubectl_is_told_what_is_wrong(kubectl: Kubectl) -> None:
    assert "not found" in kubectl.run("exec", "other", "--", "true").err
    assert "container nobody" in kubectl.run("exec", "db", "-c", "nobody", "--", "true").err


def test_what_interrupts_kubectl_ends_the_command(kubectl: Kubectl) -> None:
    running = subprocess.Popen(kubectl.command("exec", "db", "-c", "db", "--", "sleep", "600"), env=kubectl.environment())
    time.sleep(1)
    assert running.poll() is None
    running.terminate()
    running.wait(20)
    assert kubectl.run("exec", "db", "-c", "db", "--", "echo", "next").out == "next\n"


def test_our_client_runs_commands(place: Scene, namespace: str) -> None:
    assert asyncio.run(run(place, asked(namespace, "echo", "a"))) == ExecOutcome(0, b"a\n")
    assert asyncio.run(run(place, asked(namespace, "sh", "-c", "echo a ; false"))) == ExecOutcome(1, b"a\n")
    with pytest.raises(NotFound):
        asyncio.run(run(place, asked(namespace, "true", pod="nobody")))
    with pytest.raises(ExecRefused, match="nobody"):
        asyncio.run(run(place, asked(namespace, "true", container="nobody")))
    with pytest.raises(ExecTimedOut):
        asyncio.run(run(place, asked(namespace, "sleep", "60", timeout=0.5)))


def test_a_frozen_volume_is_written_by_no_command(place: Scene, namespace: str) -> None:
    volume = place.api.get(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/data").obj["spec"]["volumeName"]
    note = place.volumes / ".world" / f"frozen-{volume}"
    assert asyncio.run(run(place, asked(namespace, "fsfreeze", "--freeze", "/data"))).exit_code == 0
    assert note.exists()
    assert asyncio.run(run(place, asked(namespace, "fsfreeze", "--freeze", "/data"))).exit_code == 1
    assert b"frozen" in asyncio.run(run(place, asked(namespace, "touch", "/data/c"))).stderr
    assert asyncio.run(run(place, asked(namespace, "fsfreeze", "--unfreeze", "/data"))).exit_code == 0
    assert not note.exists()
    assert asyncio.run(run(place, asked(namespace, "touch", "/data/c"))).exit_code == 0


def test_who_may_only_read_runs_nothing(place: Scene, namespace: str) -> None:
    """A WebSocket is asked for with GET: the right to read alone is not enough."""
    name = f"reader-{uuid.uuid4().hex[:6]}"
    place.api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})
    token = place.api.create(
        f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}},
    )["status"]["token"]
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    rule = {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get"]}
    place.api.create(f"{rbac}/roles", {"metadata": {"name": name}, "rules": [rule]})
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    }
    place.api.create(f"{rbac}/rolebindings", binding)
    with pytest.raises(Forbidden, match="forbidden"):
        asyncio.run(run(place, asked(namespace, "true"), token=token))


def test_nobody_but_the_api_server_speaks_to_the_kubelet(place: Scene, namespace: str) -> None:
    node = place.api.get("/api/v1/nodes").obj["items"][0]
    port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    async def without_certificate() -> None:
        url = f"https://127.0.0.1:{port}/exec/{namespace}/db/db?command=true"
        async with aiohttp.ClientSession() as session, session.get(url, ssl=context) as answer:
            await answer.read()

    with pytest.raises((aiohttp.ClientError, OSError)):
        asyncio.run(without_certificate())
    assert len(node["metadata"]["annotations"]["ullage.io/kubelet-certificate"]) == hashlib.sha256().digest_size * 2


def test_the_api_server_stops_while_commands_run(tmp_path: Path) -> None:
    """A connection that is handed through holds up no stop."""
    with scene(tmp_path) as made:
        if not made.plane.embedded:
            pytest.skip("kube-apiserver has a way of its own")
        with made.running(made.world()):
            namespace = made.namespace()
            made.claim(namespace, "data")
            make_pod(made, namespace, "db", claim="data")
            kubectl = Kubectl(made.plane, namespace=namespace, home=tmp_path)
            running = subprocess.Popen(
                kubectl.command("exec", "db", "-c", "db", "--", "sleep", "600"), env=kubectl.environment()
            )
            time.sleep(1)
            assert running.poll() is None
    assert running.wait(20) != 0
