"""The admission server as API servers and users see it: decisions, replicas that die, certificates that change under load."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import re
import select
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from ullage import pki
from ullage.clock import SystemClock
from ullage.serving.certificates import CertificateSet, Terms, from_secret, to_secret

from .api import Answer, Api
from .control_plane import ControlPlane
from .leash import put_down
from .webhook_replica import ROLE, STAMP

Json = dict[str, Any]
START_SECONDS = 60.0
STOP_SECONDS = 20.0
CREATES = 500
GROUP = "/apis/admissionregistration.k8s.io/v1"


class Replicas:
    """Processes of `webhook_replica.py` for one namespace, on one shared port."""

    def __init__(self, plane: ControlPlane, api: Api, *, namespace: str, folder: Path) -> None:
        self.plane = plane
        self.api = api
        self.namespace = namespace
        self.name = f"e2e-{namespace}"
        self.record = folder / "reviewed"
        self.record.touch()
        self._log = folder / "replicas.log"
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self, *, port: int = 0, count: int = 1, options: tuple[str, ...] = ()) -> list[subprocess.Popen[bytes]]:
        """Starts them at once, so that they race for the Secret; returns when all are registered."""
        command = [sys.executable, "-m", "tests.e2e.webhook_replica", "--kubeconfig", str(self.plane.kubeconfig)]
        command += ["--namespace", self.namespace, "--name", self.name, "--record", str(self.record), "--port", str(port)]
        with self._log.open("ab") as log:
            started = [
                subprocess.Popen([*command, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
                for _ in range(count)
            ]
        self._running += started
        for process in started:
            self.port = int(json.loads(self._line(process))["port"])
        self.wait_called()
        return started

    def _line(self, process: subprocess.Popen[bytes]) -> bytes:
        assert process.stdout is not None
        ready = select.select([process.stdout], [], [], START_SECONDS)[0]
        line = process.stdout.readline() if ready else b""
        assert line, f"the replica does not serve:\n{self._log.read_text()[-4000:]}"
        return line

    def wait_called(self) -> None:
        """API servers learn of a registration a moment after it is stored."""
        for attempt in itertools.count():
            answer = self.create(f"probe-{attempt}", verdict="refuse", dry_run=True)
            if answer.code == 403:
                return
            assert attempt < 200, answer.raw
            time.sleep(0.05)

    def create(self, name: str, *, role: str = "guarded", dry_run: bool = False, **data: str) -> Answer:
        query = "?dryRun=All" if dry_run else ""
        return self.api.call("POST", self.path + query, self.body(name, role=role, **data))

    def body(self, name: str, *, role: str = "guarded", **data: str) -> Json:
        return {"metadata": {"name": name, "labels": {ROLE: role}}, "data": data, "binaryData": {"kept": "AAEC"}}

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/configmaps"

    @property
    def registration(self) -> str:
        return f"{GROUP}/validatingwebhookconfigurations/{self.name}"

    def secret(self) -> CertificateSet:
        found = self.api.get(f"/api/v1/namespaces/{self.namespace}/secrets/ullage-webhook-tls").obj
        return from_secret({key: base64.b64decode(value) for key, value in found["data"].items()})

    def condition(self) -> tuple[str, str]:
        found = self.api.get(f"{self.path}/ullage-webhook-status")
        if found.code == 404:
            return "", ""
        condition = json.loads(found.obj["data"]["conditions"])[0]
        return condition["status"], condition["reason"]

    def page(self, path: str) -> str:
        """A page of one of the replicas, over a connection that believes the registration's bundle."""
        context = ssl.create_default_context(cadata=self.secret().bundle.decode())
        plain = socket.create_connection(("127.0.0.1", self.port), 10)
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as sock, sock.makefile("rb") as file:
            sock.sendall(f"GET {path} HTTP/1.1\r\nHost: webhook\r\nConnection: close\r\n\r\n".encode())
            return file.read().decode()

    def review(self, path: str) -> int:
        """Posts a review that is none; the code."""
        context = ssl.create_default_context(cadata=self.secret().bundle.decode())
        plain = socket.create_connection(("127.0.0.1", self.port), 10)
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as sock, sock.makefile("rb") as file:
            sock.sendall(f"POST {path} HTTP/1.1\r\nHost: webhook\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
            return int(file.readline().split()[1])

    def urls(self) -> set[str]:
        paths = (self.registration, self.registration.replace("validating", "mutating"))
        return {entry["clientConfig"]["url"] for path in paths for entry in self.api.get(path).obj["webhooks"]}

    def end(self) -> None:
        for kind in ("validatingwebhookconfigurations", "mutatingwebhookconfigurations"):
            self.api.call("DELETE", f"{GROUP}/{kind}/{self.name}")
        put_down(self._running)


@pytest.fixture
def replicas(control_plane: ControlPlane, api: Api, namespace: str, tmp_path: Path) -> Iterator[Replicas]:
    if "127.0.0.1" not in control_plane.url and "localhost" not in control_plane.url:
        pytest.skip("a control plane on another machine cannot call a webhook on loopback")
    found = Replicas(control_plane, api, namespace=namespace, folder=tmp_path)
    yield found
    found.end()


def until(holds: Callable[[], bool], what: str, *, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)


def test_every_kind_of_decision_reaches_the_client_as_it_was_meant(replicas: Replicas) -> None:
    replicas.start()
    denied = 'admission webhook "guard.webhook.ullage.io" denied the request: '

    allowed = replicas.create("allowed", verdict="warn")
    assert (allowed.code, allowed.warnings) == (201, ("near the limit",))

    refused = replicas.create("refused", verdict="refuse")
    assert (refused.code, refused.reason, refused.message) == (403, "Forbidden", f"{denied}asked to refuse")
    assert refused.causes == [{"field": "data.verdict", "reason": "FieldValueForbidden", "message": "too much"}]
    assert (refused.obj["details"]["name"], refused.obj["details"]["kind"]) == ("refused", "configmaps")

    invalid = replicas.create("invalid", verdict="invalid")
    assert (invalid.code, invalid.reason) == (422, "Invalid")
    assert [cause["field"] for cause in invalid.causes] == ["data.verdict"]

    for verdict, message, seconds in (("again", "asked for patience", 7), ("retryable", "the ledger is away", 1)):
        later = replicas.create(verdict, verdict=verdict)
        assert (later.code, later.reason, later.message) == (429, "TooManyRequests", denied + message)
        assert later.obj["details"]["retryAfterSeconds"] == seconds
        assert later.headers["retry-after"] == str(seconds)

    crashed = replicas.create("crashed", verdict="crash")
    assert (crashed.code, crashed.reason) == (500, "InternalError")
    assert "failed calling webhook" in crashed.message

    stored = {item["metadata"]["name"] for item in replicas.api.get(replicas.path).obj["items"]}
    assert stored & {"allowed", "refused", "invalid", "again", "retryable", "crashed"} == {"allowed"}


def test_a_hook_that_runs_out_of_its_budget_refuses_before_the_api_server_gives_up(replicas: Replicas) -> None:
    replicas.start()

    answer = replicas.create("slow", role="brief", seconds="30")

    assert (answer.code, answer.reason) == (429, "TooManyRequests")
    assert "brief could not decide within 1.6 s" in answer.message
    assert replicas.api.get(f"{replicas.path}/slow").code == 404


def test_a_mutation_keeps_what_its_type_does_not_name(replicas: Replicas) -> None:
    replicas.start()

    tried = replicas.create("tried", role="stamped", dry_run=True, some="thing").obj
    made = replicas.create("made", role="stamped", some="thing").obj

    assert tried["metadata"]["annotations"]["dry-run"] == "True"
    assert made["metadata"]["annotations"]["dry-run"] == "False"
    assert made["metadata"]["annotations"][STAMP]
    assert (made["data"], made["binaryData"]) == ({"some": "thing"}, {"kept": "AAEC"})


def test_the_self_test_notices_when_the_api_server_stops_calling(replicas: Replicas) -> None:
    replicas.start()
    until(lambda: replicas.condition() == ("True", "Called"), "requests arrive")
    assert "\nullage_webhook_arriving 1.0" in replicas.page("/metrics")
    assert "200 OK" in replicas.page("/readyz")

    replicas.api.delete(replicas.registration)

    until(lambda: replicas.condition() == ("False", "NotCalled"), "nothing arrives")
    assert "\nullage_webhook_arriving 0.0" in replicas.page("/metrics")
    assert replicas.api.get(replicas.registration).code == 404, "what an administrator has deleted stays deleted"
    assert "200 OK" in replicas.page("/readyz"), "readiness does not depend on being called"


def test_entries_of_others_in_the_registration_are_told_and_outlive_a_restart(replicas: Replicas) -> None:
    [first] = replicas.start()
    rule = {"apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["audits"], "operations": ["CREATE"]}
    foreign = {"name": "audit.example.com", "clientConfig": {"url": "https://127.0.0.1:1/"}, "rules": [rule]}
    foreign |= {"sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore"}
    patch = [{"op": "add", "path": "/webhooks/-", "value": foreign}]
    headers = {"Content-Type": "application/json-patch+json"}
    assert replicas.api.call("PATCH", replicas.registration, patch, headers=headers).code == 200

    def told() -> str:
        found = replicas.api.get(f"{replicas.path}/ullage-webhook-status")
        return str(found.obj["data"]["conditions"]) if found.code == 200 else ""

    until(lambda: "Entries of others in its configuration are left alone: audit.example.com." in told(), "it is told")
    settled = replicas.api.get(replicas.registration).obj["metadata"]["resourceVersion"]
    first.send_signal(signal.SIGTERM)
    assert first.wait(STOP_SECONDS) == 0
    assert replicas.api.get(replicas.registration).obj["metadata"]["resourceVersion"] == settled
    replicas.start()
    names = [entry["name"] for entry in replicas.api.get(replicas.registration).obj["webhooks"]]
    assert "audit.example.com" in names


def test_a_restart_on_another_port_registers_its_new_address(replicas: Replicas) -> None:
    [first] = replicas.start()
    before = replicas.port
    first.send_signal(signal.SIGTERM)
    assert first.wait(STOP_SECONDS) == 0
    assert replicas.create("nobody-home").code == 500

    replicas.start()

    assert replicas.port != before
    urls = {entry["clientConfig"]["url"] for entry in replicas.api.get(replicas.registration).obj["webhooks"]}
    assert all(f":{replicas.port}/hooks/" in url for url in urls)
    assert replicas.create("somebody-home").code == 201


def test_an_upgrade_from_paths_without_a_token_misses_no_request_and_ends_them(replicas: Replicas) -> None:
    """Requests go on while a configuration of an earlier release is taken over: none fails, and its path is a 404 at last."""
    options = ("--path-settle", "1", "--path-keep", "1")
    [first] = replicas.start(options=options)
    first.send_signal(signal.SIGTERM)
    assert first.wait(STOP_SECONDS) == 0
    for path in (replicas.registration, replicas.registration.replace("validating", "mutating")):
        entries = replicas.api.get(path).obj["webhooks"]
        for entry in entries:
            entry["clientConfig"]["url"] = entry["clientConfig"]["url"].rpartition("/")[0]
        patch = [{"op": "replace", "path": "/webhooks", "value": entries}]
        headers = {"Content-Type": "application/json-patch+json"}
        assert replicas.api.call("PATCH", path, patch, headers=headers).code == 200
    assert replicas.api.delete(f"/api/v1/namespaces/{replicas.namespace}/secrets/ullage-webhook-paths")

    replicas.start(port=replicas.port, options=options)
    assert replicas.urls() == {
        f"https://127.0.0.1:{replicas.port}/hooks/{name}" for name in ("guard", "brief", "stamp", "selftest")
    }
    codes: Counter[int] = Counter()
    numbers = itertools.count()

    def retired() -> bool:
        codes[replicas.create(f"during-{next(numbers)}").code] += 1
        return replicas.review("/hooks/guard") == 404

    until(retired, "the path without a token is not served any more")
    assert codes == {201: sum(codes.values())}
    assert all(re.fullmatch(r".*/hooks/[a-z]+/[0-9a-f]{64}", url) for url in replicas.urls())
    assert {replicas.review(urlsplit(url).path) for url in replicas.urls()} == {400}, "an empty review is no review"


@contextlib.asynccontextmanager
async def clients(plane: ControlPlane) -> AsyncIterator[aiohttp.ClientSession]:
    trust = ssl.create_default_context(cafile=plane.ca_file) if plane.ca_file else False
    connector = aiohttp.TCPConnector(limit=0, ssl=trust)
    headers = {"Authorization": f"Bearer {plane.admin_token}"}
    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(plane.url, connector=connector, headers=headers, timeout=timeout) as session:
        yield session


async def post(session: aiohttp.ClientSession, replicas: Replicas, body: Json) -> tuple[int, str]:
    async with session.post(replicas.path, json=body) as answer:
        found = await answer.json()
        return answer.status, found.get("message", "")


@contextlib.contextmanager
def shared_port() -> Iterator[int]:
    """A port that nobody else takes. It is held by a socket that does not listen, so no connection comes here."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind(("127.0.0.1", 0))
        yield sock.getsockname()[1]


async def test_nothing_passes_unreviewed_when_one_of_two_replicas_is_killed(replicas: Replicas) -> None:
    with shared_port() as port:
        doomed, _ = await asyncio.to_thread(replicas.start, port=port, count=2)
    after_kill: Counter[int] = Counter()

    async def one(session: aiohttp.ClientSession, number: int) -> tuple[str, int, str]:
        verdict = "refuse" if number % 2 else "allow"
        name = f"{verdict}-{number}"
        seconds = f"{number / CREATES:.3f}"  # spread, so that there is a middle to be killed in
        code, message = await post(session, replicas, replicas.body(name, verdict=verdict, seconds=seconds))
        if doomed.poll() is not None:
            after_kill[code] += 1
        return name, code, message

    async def kill_in_the_middle() -> None:
        while len(replicas.record.read_text().splitlines()) < CREATES // 3:  # noqa: ASYNC110  another process writes it
            await asyncio.sleep(0.005)
        doomed.kill()

    async with clients(replicas.plane) as session:
        killing = asyncio.create_task(kill_in_the_middle())
        answers = await asyncio.gather(*(one(session, number) for number in range(CREATES)))
        await killing

    codes = Counter(code for _, code, _ in answers)
    stored = {item["metadata"]["name"] for item in replicas.api.get(f"{replicas.path}?limit=1000").obj["items"]}
    made = {name for name in stored if name.startswith(("allow-", "refuse-"))}
    reviews = [line.split() for line in replicas.record.read_text().splitlines()]
    reviewed = {name for name, _ in reviews}
    assert len(answers) == CREATES
    assert not [name for name in made if name.startswith("refuse-")], "what must be refused is never stored"
    assert made <= reviewed, "everything that is stored was reviewed"
    assert made == {name for name, code, _ in answers if code == 201}, "an answer says what happened"
    assert set(codes) <= {201, 403, 500}, codes
    assert all("denied the request" in message for _, code, message in answers if code == 403)
    assert all("failed calling webhook" in message for _, code, message in answers if code == 500)
    assert len({pid for name, pid in reviews if name.startswith(("allow-", "refuse-"))}) == 2, "both replicas had their share"
    assert codes[500], "reviews were under way in the replica that was killed"
    assert after_kill[201], "the other one goes on"
    assert after_kill[403]


async def test_certificates_change_under_load_without_a_failed_request(replicas: Replicas) -> None:
    old = aging_vault()
    body: Json = {"metadata": {"name": "ullage-webhook-tls"}, "type": "kubernetes.io/tls"}
    body["data"] = {key: base64.b64encode(value).decode() for key, value in to_secret(old).items()}
    replicas.api.create(f"/api/v1/namespaces/{replicas.namespace}/secrets", body)
    with shared_port() as port:
        await asyncio.to_thread(replicas.start, port=port, count=2, options=("--settle", "3", "--keep", "3"))
    rotated = asyncio.Event()
    numbers = itertools.count()
    codes: Counter[tuple[str, int]] = Counter()
    failures: list[str] = []

    async def load(session: aiohttp.ClientSession) -> None:
        while not rotated.is_set():
            number = next(numbers)
            verdict = "refuse" if number % 2 else "allow"
            code, message = await post(session, replicas, replicas.body(f"load-{number}", verdict=verdict))
            codes[verdict, code] += 1
            if code not in (201, 403):
                failures.append(message)

    async with clients(replicas.plane) as session, asyncio.TaskGroup() as group:
        for _ in range(8):
            group.create_task(load(session))
        bundles = await rotation(session, replicas, old.authority.certificate)
        rotated.set()

    assert not failures, failures[:3]
    assert set(codes) == {("allow", 201), ("refuse", 403)}, codes
    new = await asyncio.to_thread(replicas.secret)
    assert new.authority.certificate != old.authority.certificate
    assert pki.issued_by(new.serving.certificate, new.authority)
    known = [(old.authority.certificate in bundle, new.authority.certificate in bundle) for bundle in bundles]
    assert known[-2:] == [(True, True), (False, True)], "both were trusted, and then the new one alone"
    assert known[:-2] in ([], [(True, False)]), "a slow start may miss the beginning"


def aging_vault() -> CertificateSet:
    """An authority that is due for renewal a few seconds from now, when the load is on."""
    now = SystemClock().now()
    lifetime = Terms(hosts=()).authority_renewal + timedelta(seconds=8)
    authority = pki.make_ca("ullage-webhook", now=now, lifetime=lifetime)
    return CertificateSet(
        authority, pki.issue_serving(authority, ["127.0.0.1", "localhost"], now=now, lifetime=timedelta(days=365))
    )


async def rotation(session: aiohttp.ClientSession, replicas: Replicas, old: bytes) -> list[bytes]:
    """Watches until the old authority is gone, and returns the bundles that were registered one after the other. A new
    connection that believes the bundle of the moment must succeed at every moment."""
    bundles: list[bytes] = []
    async with asyncio.timeout(60):
        while not bundles or old in bundles[-1]:
            async with session.get(replicas.registration) as answer:
                entries = (await answer.json())["webhooks"]
            bundle = base64.b64decode(entries[0]["clientConfig"]["caBundle"])
            if not bundles or bundles[-1] != bundle:
                bundles.append(bundle)
            context = ssl.create_default_context(cadata=bundle.decode())
            _, writer = await asyncio.open_connection("127.0.0.1", replicas.port, ssl=context, server_hostname="127.0.0.1")
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            await asyncio.sleep(0.02)
    return bundles
