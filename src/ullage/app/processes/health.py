"""`/healthz`, `/readyz` and `/metrics` of a process that serves nothing else, on a port of its own."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any, Final

from prometheus_client import CollectorRegistry

from ullage.http1 import bind, bounded_server, running
from ullage.serving.health import HealthPage, health_page

Message = MutableMapping[str, Any]
STOP_SECONDS: Final = 1


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
        page = self.answer(scope["method"], scope["path"])
        headers = [(b"content-type", page.type), (b"content-length", str(len(page.body)).encode())]
        await send({"type": "http.response.start", "status": page.code, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else page.body})

    def answer(self, method: str, path: str) -> HealthPage:
        if method not in ("GET", "HEAD"):
            return HealthPage(405, b"only GET and HEAD\n")
        return health_page(path, self._checks, self._registries) or HealthPage(404, b"not found\n")


@contextlib.asynccontextmanager
async def serving(health: Health, *, host: str, port: int) -> AsyncIterator[int]:
    """Serves inside the block, on the port that it yields."""
    with contextlib.closing(bind(host, port)) as sock:
        async with running(bounded_server(health, stop_seconds=STOP_SECONDS), sock):
            yield int(sock.getsockname()[1])
