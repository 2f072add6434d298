"""The live server: certificates that change under open connections, ports that are shared, stops that end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.unit.admission.builders import plain_paths, review_body
from ullage import pki
from ullage.admission.endpoint import Endpoint
from ullage.admission.metrics import Metrics
from ullage.clock import SystemClock
from ullage.errors import Retryable
from ullage.http1 import bind
from ullage.kube.kinds import Kind, Object
from ullage.kube.review import Decision, Hook, Review, Target
from ullage.pki import Identity, Pair
from ullage.serving.client_names import NamingProtocol, ask_for_certificates, names_of
from ullage.serving.server import Certificate, serving

CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps", Object)
NOW = SystemClock().now()
CA = pki.make_ca("test", now=NOW, lifetime=timedelta(days=1))


def pair(ca: Pair = CA) -> Pair:
    return pki.issue_serving(ca, ["127.0.0.1"], now=NOW, lifetime=timedelta(hours=1))


class Slow:
    """A hook that answers when it is told to."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.go = asyncio.Event()

    async def answer(self, review: Review) -> Decision:
        self.asked.set()
        await self.go.wait()
        return Decision.allow()


class Running:
    def __init__(self, certificate: Certificate, hook: Slow, *, port: int) -> None:
        self.certificate = certificate
        self.hook = hook
        self.port = port

    async def connect(self, ca: Pair = CA, *, shows: Pair | None = None, folder: Path | None = None) -> Connection:
        context = ssl.create_default_context(cadata=ca.certificate.decode())
        if shows is not None and folder is not None:
            pki.save(shows, folder / "client.crt", folder / "client.key")
            context.load_cert_chain(folder / "client.crt", folder / "client.key")
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=context, server_hostname="127.0.0.1")
        return Connection(reader, writer)


class Connection:
    """One kept connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @property
    def certificate(self) -> str:
        return ssl.DER_cert_to_PEM_cert(self._writer.get_extra_info("ssl_object").getpeercert(binary_form=True))

    async def send(self, method: str, path: str, body: bytes = b"") -> None:
        self._writer.write(f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        await self._writer.drain()

    async def receive(self) -> tuple[int, str]:
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
        await self._reader.readexactly(length)
        return int(head.split()[1]), head

    async def get(self, path: str) -> int:
        await self.send("GET", path)
        return (await self.receive())[0]

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


@contextlib.asynccontextmanager
async def running(
    *, drain: float = 0.0, stop_seconds: int = 1, port: int = 0, clients: frozenset[str] | None = None
) -> AsyncIterator[Running]:
    certificate, hook = Certificate(), Slow()
    if clients is not None:
        ask_for_certificates(certificate.context, CA.certificate.decode())
    certificate.switch(pair())
    declared = Hook(name="slow", phase="validate", targets=(Target.of(CONFIG_MAP, "CREATE"),), answer=hook.answer)
    endpoint = Endpoint(
        [declared], paths=plain_paths("slow"), metrics=Metrics(), clock=SystemClock(), checks={}, clients=clients
    )
    sock = bind("127.0.0.1", port, shared=True)
    async with serving(endpoint, certificate, sock=sock, drain=drain, stop_seconds=stop_seconds, protocol=NamingProtocol):
        yield Running(certificate, hook, port=sock.getsockname()[1])


async def test_a_new_certificate_is_shown_to_new_connections_and_cuts_none() -> None:
    other = pki.make_ca("other", now=NOW, lifetime=timedelta(days=1))
    async with running() as server:
        before = await server.connect()
        assert await before.get("/healthz") == 200
        first = server.certificate.pair
        await before.send("POST", "/hooks/slow", review_body())
        await server.hook.asked.wait()

        server.certificate.switch(pair(other))

        after = await server.connect(other)
        server.hook.go.set()
        assert (await before.receive())[0] == 200, "a review that was under way is answered"
        assert await before.get("/healthz") == 200, "and the connection serves on"
        assert await after.get("/healthz") == 200
        assert first is not None
        assert server.certificate.pair is not None
        assert (before.certificate, after.certificate) == (
            first.certificate.decode(),
            server.certificate.pair.certificate.decode(),
        )
        with pytest.raises(ssl.SSLCertVerificationError):
            await server.connect(CA)
        await before.close()
        await after.close()


async def test_a_pair_that_does_not_fit_together_leaves_the_old_one_in_use() -> None:
    async with running() as server:
        with pytest.raises(ssl.SSLError):
            server.certificate.switch(Pair(pair().certificate, pair().key))

        connection = await server.connect()
        assert await connection.get("/healthz") == 200
        await connection.close()


async def test_two_servers_share_a_port_and_one_that_only_holds_it_gets_no_connection() -> None:
    with contextlib.closing(bind("127.0.0.1", 0, shared=True)) as holder:
        port = holder.getsockname()[1]
        async with running(port=port), running(port=port) as server:
            for _ in range(20):
                connection = await server.connect()
                assert await connection.get("/healthz") == 200
                await connection.close()


def test_a_port_of_somebody_elses_is_refused_with_a_sentence() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]

        with pytest.raises(Retryable, match=f"cannot listen on 127.0.0.1 port {port}: Address already in use"):
            bind("127.0.0.1", port, shared=True)


async def test_a_stop_waits_for_a_review_under_way() -> None:
    async with running(stop_seconds=30) as server:
        connection = await server.connect()
        await connection.send("POST", "/hooks/slow", review_body())
        await server.hook.asked.wait()
        asyncio.get_running_loop().call_later(0.3, server.hook.go.set)

    code, _ = await connection.receive()
    assert code == 200
    await connection.close()


async def test_a_review_that_hangs_does_not_hold_the_stop_for_ever() -> None:
    async with asyncio.timeout(8), running(stop_seconds=1) as server:
        connection = await server.connect()
        await connection.send("POST", "/hooks/slow?timeout=30s", review_body())
        await server.hook.asked.wait()
    await connection.close()


async def test_a_draining_server_answers_and_sends_kept_connections_away() -> None:
    async with running(drain=2.0) as server:
        kept = await server.connect()
        assert await kept.get("/readyz") == 200
        last = asyncio.create_task(_last_answer(kept))
    code, head = await last
    assert (code, "connection: close" in head) == (503, True)
    await kept.close()


async def _last_answer(connection: Connection) -> tuple[int, str]:
    """Asks until the server says that it is going."""
    while True:
        await connection.send("GET", "/readyz")
        code, head = await connection.receive()
        if code != 200:
            return code, head


OTHER_CA = pki.make_ca("other", now=NOW, lifetime=timedelta(days=1))


def client_pair(ca: Pair, name: str) -> Pair:
    return pki.issue_client(ca, Identity(name, ()), now=NOW, lifetime=timedelta(hours=1))


async def test_reviews_of_clients_without_the_api_servers_certificate_are_not_found(tmp_path: Path) -> None:
    async with running(clients=frozenset({"apiserver"})) as server:
        server.hook.go.set()
        answers = {}
        for name, shown in (("none", None), ("a user", client_pair(CA, "jane")), ("it", client_pair(CA, "apiserver"))):
            connection = await server.connect(shows=shown, folder=tmp_path)
            await connection.send("POST", "/hooks/slow", review_body())
            answers[name] = (await connection.receive())[0]
            await connection.close()
        assert answers == {"none": 404, "a user": 404, "it": 200}
        probe = await server.connect()
        assert await probe.get("/healthz") == 200, "probes show no certificate"
        await probe.close()


async def probed(server: Running, shown: Pair, folder: Path) -> int:
    """TLS 1.3 tells of a certificate that is not believed with the first answer."""
    connection = await server.connect(shows=shown, folder=folder)
    try:
        return await connection.get("/healthz")
    finally:
        await connection.close()


async def test_a_certificate_of_another_authority_does_not_pass_the_handshake(tmp_path: Path) -> None:
    async with running(clients=frozenset({"apiserver"})) as server:
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await probed(server, client_pair(OTHER_CA, "apiserver"), tmp_path)
        assert not server.hook.asked.is_set()


def test_the_names_of_a_certificate_are_its_common_name_and_its_dns_names() -> None:
    subject = ((("organizationName", "o"),), (("commonName", "a"),))
    assert names_of({"subject": subject, "subjectAltName": (("DNS", "b"), ("IP Address", "c"))}) == {"a", "b"}
    assert names_of({}) == frozenset()
