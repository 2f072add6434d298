"""Another webhook than ours: it answers after as long as a test says, allows or refuses, and remembers how long it had."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ullage.pki import issue_serving, make_ca, save

Json = dict[str, Any]
LIFETIME = timedelta(hours=1)
GROUP = "/apis/admissionregistration.k8s.io/v1"


class SlowHook:
    """Allows everything, or refuses it with the text `refusal`, `seconds` after it was asked."""

    def __init__(self, port: int, bundle: str) -> None:
        self.port = port
        self.bundle = bundle
        self.seconds = 0.0
        self.refusal = ""
        self.given: list[str] = []  # the `timeout` of each call
        self.ended = threading.Event()

    def configuration(
        self,
        kind: str,
        name: str,
        *,
        namespace: str,
        timeout: int = 10,
        policy: str = "Fail",
        group: str = "",
        plural: str = "configmaps",
    ) -> Json:
        """A Validating- or MutatingWebhookConfiguration that sends it the objects of one kind in one namespace."""
        hook = {
            "name": "slow.example.com",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "timeoutSeconds": timeout,
            "failurePolicy": policy,
            "clientConfig": {"url": f"https://127.0.0.1:{self.port}/slow", "caBundle": self.bundle},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "rules": [{"apiGroups": [group], "apiVersions": ["v1"], "resources": [plural], "operations": ["*"]}],
        }
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": name},
            "webhooks": [hook],
        }

    def answer(self, path: str, body: bytes) -> bytes:
        self.given.append(parse_qs(urlsplit(path).query)["timeout"][0])
        self.ended.wait(self.seconds)
        response: Json = {"uid": json.loads(body)["request"]["uid"], "allowed": not self.refusal}
        if self.refusal:
            response["status"] = {"code": 403, "message": self.refusal}
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        return json.dumps(review).encode()


@contextmanager
def slow_hook(folder: Path) -> Iterator[SlowHook]:
    now = datetime.now(UTC)
    ca = make_ca("slow", now=now, lifetime=LIFETIME)
    pair = issue_serving(ca, ["127.0.0.1"], now=now, lifetime=LIFETIME)
    save(pair, folder / "hook.crt", folder / "hook.key")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "hook.crt", folder / "hook.key")
    server = _Server(("127.0.0.1", 0), _Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.hook = hook = SlowHook(server.server_port, base64.b64encode(ca.certificate).decode())
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        yield hook
    finally:
        hook.ended.set()
        server.shutdown()
        serving.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    hook: SlowHook

    def handle_error(self, request: object, client_address: object) -> None:
        """Whoever ran out of patience hangs up: that is what the tests are about."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        said = self.server.hook.answer(self.path, self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing that a test's output should have."""
