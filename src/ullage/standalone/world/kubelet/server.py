"""The HTTPS endpoint of the nodes that the world plays: exec over WebSockets, and nothing else.

It listens on this machine only, and whoever connects shows a certificate of the cluster's authority that is the API server's
own: a token, or any other certificate, opens nothing. Its certificate is made anew at each start; the Nodes have its digest.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import ssl
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Self

import aiohttp
from aiohttp import web

from ullage import pki
from ullage.clock import Clock
from ullage.kube.builtin.core import Pod
from ullage.kube.cache.indexer import Key
from ullage.standalone.world.kubelet.shell import Freezes, Places, Result, Shell

CLIENT: Final = "kube-apiserver-kubelet-client"
PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
HOST: Final = "127.0.0.1"
LIFETIME: Final = timedelta(days=3650)
MOST_INPUT: Final = 1024 * 1024
MOST_AT_ONCE: Final = 200  # commands
MOST_OF_ONE: Final = 40  # in the pods of one namespace
KEPT: Final = 60  # of all, for namespaces in which no command runs
STOP_SECONDS: Final = 0.5
_STDIN, _STDOUT, _STDERR, _ERROR, _CLOSE = 0, 1, 2, 3, 255
_PIECE: Final = 32 * 1024


class RunningCommands:
    """Counts the commands that run, by namespace. However many accounts a tenant has, others find places."""

    def __init__(self) -> None:
        self._running: Counter[str] = Counter()

    def full(self, namespace: str) -> str | None:
        """Returns why no further command may run in a namespace."""
        own, every = self._running[namespace], self._running.total()
        if own >= MOST_OF_ONE:
            return f"{own} commands are running in namespace {namespace} already, as many as may"
        if every >= MOST_AT_ONCE or (own and every >= MOST_AT_ONCE - KEPT):
            return f"{every} commands are running already, {own} of them in namespace {namespace}"
        return None

    @contextlib.contextmanager
    def one(self, namespace: str) -> Iterator[None]:
        """Counts a command while it runs."""
        self._running[namespace] += 1
        try:
            yield
        finally:
            self._running[namespace] -= 1
            if not self._running[namespace]:
                del self._running[namespace]


class Kubelet:
    """`pods` finds a pod that runs, `places` its volumes. Entered before the Nodes are written."""

    def __init__(
        self,
        authority: bytes,
        freezes: Freezes,
        *,
        pods: Callable[[Key], Pod | None],
        places: Callable[[Pod], Places],
        clock: Clock,
    ) -> None:
        self._authority = authority
        self._freezes = freezes
        self._pods = pods
        self._places = places
        self._clock = clock
        self._runner: web.AppRunner | None = None
        self._running = RunningCommands()
        self.port = 0  # once it listens
        self.fingerprint = ""

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/exec/{namespace}/{pod}/{container}", self._exec)
        self._runner = web.AppRunner(app, shutdown_timeout=STOP_SECONDS, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, HOST, 0, ssl_context=self._context())
        await site.start()
        self.port = int(self._runner.addresses[0][1])
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    def _context(self) -> ssl.SSLContext:
        now = self._clock.now()
        pair = pki.issue_serving(pki.make_ca("ullage-world", now=now, lifetime=LIFETIME), [HOST], now=now, lifetime=LIFETIME)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as folder:
            pki.save(pair, Path(folder) / "kubelet.crt", Path(folder) / "kubelet.key")
            context.load_cert_chain(Path(folder) / "kubelet.crt", Path(folder) / "kubelet.key")
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=self._authority.decode())
        self.fingerprint = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pair.certificate.decode())).hexdigest()
        return context

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        if not _is_api_server(request):
            return web.Response(status=403, text="only the API server may run commands here")
        key = Key(request.match_info["namespace"], request.match_info["pod"])
        pod, name = self._pods(key), request.match_info["container"]
        if pod is None or pod.status.phase != "Running":
            return web.Response(status=404, text=f"pod {key} does not run here")
        container = next((one for one in pod.spec.containers if one.name == name), None)
        if container is None:
            return web.Response(status=404, text=f"container {name} does not run in pod {key}")
        if (full := self._running.full(key.namespace)) is not None:
            return web.Response(status=503, text=full)
        if not set(PROTOCOLS) & {one.strip() for one in request.headers.get("Sec-WebSocket-Protocol", "").split(",")}:
            return web.Response(status=400, text=f"subprotocols {', '.join(PROTOCOLS)} are supported")
        socket = web.WebSocketResponse(protocols=PROTOCOLS, max_msg_size=MOST_INPUT, timeout=STOP_SECONDS)
        with self._running.one(key.namespace):
            await socket.prepare(request)
            session = _Session(socket, request)
            await session.run(Shell(container, self._places(pod), self._freezes, session.stdin))
        return socket


def _is_api_server(request: web.Request) -> bool:
    tls = request.transport.get_extra_info("ssl_object") if request.transport is not None else None
    certificate = tls.getpeercert(binary_form=True) if tls is not None else None
    return certificate is not None and pki.identity(certificate).user == CLIENT


class _Session:
    """The channels of one command."""

    def __init__(self, socket: web.WebSocketResponse, request: web.Request) -> None:
        self._socket = socket
        self._query = request.query
        self._input = bytearray()
        self._ended = asyncio.Event()  # nothing more comes on stdin
        if not self._query.get("input"):
            self._ended.set()

    async def stdin(self) -> bytes:
        await self._ended.wait()
        return bytes(self._input)

    async def run(self, shell: Shell) -> None:
        work = asyncio.create_task(shell.run(self._query.getall("command", [])))
        listen = asyncio.create_task(self._listen())
        try:
            await asyncio.wait((work, listen), return_when=asyncio.FIRST_COMPLETED)
            if not work.done() and self._socket.closed:
                return  # whoever asked is gone: nothing here outlives them
            await self._answer(await work)
        except ConnectionError:
            pass
        finally:
            for task in (work, listen):
                task.cancel()
            await asyncio.gather(work, listen, return_exceptions=True)

    async def _listen(self) -> None:
        async for message in self._socket:
            if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                continue
            channel, data = message.data[0], message.data[1:]
            if channel == _STDIN and len(self._input) + len(data) <= MOST_INPUT:
                self._input += data
            if channel == _CLOSE and data[:1] == bytes([_STDIN]):
                self._ended.set()
        self._ended.set()

    async def _answer(self, result: Result) -> None:
        for channel, name, data in ((_STDOUT, "output", result.stdout), (_STDERR, "error", result.stderr)):
            for start in range(0, len(data), _PIECE) if self._query.get(name) else ():
                await self._socket.send_bytes(bytes([channel]) + data[start : start + _PIECE])
        await self._socket.send_bytes(bytes([_ERROR]) + json.dumps(_status(result.exit_code)).encode())
        await self._socket.close()


def _status(code: int) -> dict[str, Any]:
    if not code:
        return {"metadata": {}, "status": "Success"}
    causes = [{"reason": "ExitCode", "message": str(code)}]
    said = f"command terminated with non-zero exit code: exit status {code}"
    return {"metadata": {}, "status": "Failure", "reason": "NonZeroExitCode", "message": said, "details": {"causes": causes}}
