"""The webhook of `webhook_server`, started once for each module."""

from __future__ import annotations

import base64
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import uvicorn

from tests.unit.standalone.apiserver.admission.webhook_server import Server, World
from ullage import pki


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("pki")
    now, day = datetime.now(UTC), timedelta(days=1)
    authority = pki.make_ca("webhooks", now=now, lifetime=day)
    pair = pki.issue_serving(authority, ["127.0.0.1", "hook.team.svc"], now=now, lifetime=day)
    (folder / "cert.pem").write_bytes(pair.certificate)
    (folder / "key.pem").write_bytes(pair.key)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Server(listener.getsockname()[1], base64.b64encode(authority.certificate).decode())
        config = uvicorn.Config(
            server, log_level="critical", lifespan="off", timeout_graceful_shutdown=1,
            ssl_certfile=str(folder / "cert.pem"), ssl_keyfile=str(folder / "key.pem"),
        )  # fmt: skip
        running = uvicorn.Server(config)
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        deadline = time.monotonic() + 20
        while not running.started and time.monotonic() < deadline:
            time.sleep(0.01)
        yield server
        running.should_exit = True
        thread.join(10)


@pytest.fixture
def server(shared_server: Server) -> Server:
    shared_server.behaviours.clear()
    shared_server.seen.clear()
    shared_server.headers.clear()
    return shared_server


@pytest.fixture
async def world(server: Server) -> AsyncIterator[World]:
    found = World(server)
    yield found
    await found.webhooks.close()
