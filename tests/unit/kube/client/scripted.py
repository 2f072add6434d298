"""A server that answers as a test tells it to: late, twice, half, packed, or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ullage.kube.client.config import Config
from ullage.kube.kinds import Kind, Object, Value


class GaugeSpec(Value):
    capacity: int
    note: str = ""


class Gauge(Object):
    spec: GaugeSpec
    numbers: tuple[int, ...] = ()


GAUGES = Kind("example.com", "v1", "Gauge", "gauges", Gauge)
PARTS = Kind("example.com", "v1", "Gauge", "gauges", Gauge, whole=False, status=False)
TANKS = Kind("example.com", "v1", "Tank", "tanks", Gauge, namespaced=False, status=False)


def gauge(name: str = "a", *, version: str = "7", **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "ns", "resourceVersion": version}, "spec": {"capacity": 1}, **more}


@dataclass(frozen=True, slots=True)
class Seen:
    """A request as it arrived."""

    method: str
    target: str
    headers: Mapping[str, str]
    header_lines: tuple[tuple[str, str], ...]
    body: bytes
    connection: int

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return {key: values[-1] for key, values in parse_qs(urlsplit(self.target).query).items()}

    def json(self) -> Any:
        return json.loads(self.body)


Step = Callable[[asyncio.StreamWriter], Awaitable[None]]


def answer(code: int, body: Any = None, **headers: str) -> Step:
    """A whole answer. Header names are written with _ for -."""
    data = body if isinstance(body, bytes) else json.dumps({} if body is None else body).encode()
    lines = {"Content-Type": "application/json", "Content-Length": str(len(data))}
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}

    async def step(writer: asyncio.StreamWriter) -> None:
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        writer.write(f"HTTP/1.1 {code} X\r\n{head}\r\n".encode() + data)
        await writer.drain()

    return step


def status(code: int, reason: str, message: str = "no", *, details: Any = None, **headers: str) -> Step:
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message, "details": details}
    return answer(code, body, **headers)


def chunks(*pieces: bytes, finish: bool = True, cut: bool = True, **headers: str) -> Step:
    """A chunked answer, one piece at a time. Without `finish` the connection is cut after the last, or just left open."""

    async def step(writer: asyncio.StreamWriter) -> None:
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n{lines}\r\n".encode())
        for piece in pieces:
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()
            await asyncio.sleep(0)
        if finish:
            writer.write(b"0\r\n\r\n")
        elif cut:
            writer.close()

    return step


async def hang_up(writer: asyncio.StreamWriter) -> None:
    """Takes the request and closes the connection."""
    writer.close()


async def silence(writer: asyncio.StreamWriter) -> None:
    """Takes the request and never answers."""
    await asyncio.Event().wait()


class Scripted:
    """Answers each request with the next step; with the last one for ever after."""

    def __init__(self, *steps: Step, tls: ssl.SSLContext | None = None) -> None:
        self.steps = list(steps)
        self.seen: list[Seen] = []
        self.connections = 0
        self.port = 0
        self.peer_certificates: list[Any] = []
        self.left = asyncio.Event()  # a client has closed its connection, or lost it
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    def config(self, **more: Any) -> Config:
        return Config(server=self.url, **more)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        number = self.connections
        if self._tls:
            self.peer_certificates.append(writer.get_extra_info("peercert"))
        try:
            while not writer.is_closing():
                self.seen.append(await read_request(reader, number))
                step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
                await step(writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.left.set()
        except asyncio.CancelledError:
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Scripted]:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0, ssl=self._tls)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await server.wait_closed()


async def read_request(reader: asyncio.StreamReader, connection: int) -> Seen:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *lines = head.strip().split("\r\n")
    method, target, _ = first.split(" ")
    pairs = tuple((name.lower(), value) for name, _, value in (line.partition(": ") for line in lines))
    headers = dict(pairs)
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Seen(method, target, headers, pairs, body, connection)
