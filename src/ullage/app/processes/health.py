"""`/healthz`, `/readyz` and `/metrics` of a process that serves nothing else, on a port of its own."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any, Final

from prometheus_client import CollectorRegistry, generate_latest

from ullage.http1 import bind, bounded_server, running

Message = MutableMapping[str, Any]
STOP_SECONDS: Final = 1
TEXT: Final = b"text/plain; charset=utf-8"
METRICS: Final = b"text/plain; version=0.0.4; charset=utf-8"


class Health:
    """`checks` says what readiness consists of, at the moment of asking; `registries` are what is measured now."""

    def __init__(self, checks: Callable[[], Mapping[str, bool]], registries: Callable[[], Iterable[CollectorRegistry]]) -> None:
        self._checks = checks
        self._registries = registries

    async def __call__(
        self,
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"{scope['type']} is not served")
        code, kind, body = self.answer(scope["method"], scope["path"])
        headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": code, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    def answer(self, method: str, path: str) -> tuple[int, bytes, bytes]:
        if method not in ("GET", "HEAD"):
            return 405, TEXT, b"only GET and HEAD\n"
        match path:
            case "/healthz":
                return 200, TEXT, b"ok\n"
            case "/readyz":
                checks = self._checks()
                lines = "".join(f"[{'+' if holds else '-'}] {name}\n" for name, holds in checks.items())
                return (200 if all(checks.values()) else 503), TEXT, lines.encode()
            case "/metrics":
                return 200, METRICS, b"".join(generate_latest(registry) for registry in self._registries())
        return 404, TEXT, b"not found\n"


@contextlib.asynccontextmanager
async def serving(health: Health, *, host: str, port: int) -> AsyncIterator[int]:
    """Serves inside the block, on the port that it yields."""
    with contextlib.closing(bind(host, port)) as sock:
        async with running(bounded_server(health, stop_seconds=STOP_SECONDS), sock):
            yield int(sock.getsockname()[1])
