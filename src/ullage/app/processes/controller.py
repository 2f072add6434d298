"""The controllers' process: the slices' controllers, behind a lease.

It is composed of slices and nothing else, and can be killed at any time. Each time that it becomes the leader it makes new
caches and controllers: nothing that was known before the lease was lost is believed after it is won again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from ullage.app.installer.manifests import NAMESPACE
from ullage.app.installer.names import DEFAULT
from ullage.app.processes import account
from ullage.app.processes.lifecycle import Serves, user_agent
from ullage.http1 import bind, bounded_server, running
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.kube.controller import controller
from ullage.kube.controller.candidate import Timing
from ullage.kube.controller.lease import Elector, own_identity
from ullage.kube.metrics import Metrics
from ullage.kube.read_limits import ReadLimits
from ullage.kube.slices import Slice, Wiring
from ullage.serving.health import HealthPage, health_page
from ullage.shutdown import done_before

# `/healthz`, `/readyz` and `/metrics` of a process that serves nothing else, on a port of its own.


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


logger = logging.getLogger(__name__)

GRACE_SECONDS: Final = 5.0  # for what is being reconciled when the stop comes; the process has 9 to end in
READY_POLL: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    component: str = "controller"  # what it calls itself
    leader_elect: bool = True
    lease: str = DEFAULT.lease
    lease_namespace: str = NAMESPACE
    host: str = "127.0.0.1"
    port: int = 0  # of /metrics, /healthz and /readyz; 0 takes any free one
    timing: Timing | None = None
    grace: float = GRACE_SECONDS
    limits: ReadLimits | None = None  # of other clusters that are not believed
    account: str = ""  # the service account that it is to act as; empty: it stays who it is


async def run_controller(
    slices: Sequence[Slice], config: Config, settings: ControllerSettings, *, stop: asyncio.Event, serves: Serves | None = None
) -> None:
    """Runs the slices' controllers, while leading, until `stop` is set."""
    async with Client(config, user_agent=user_agent(settings.component)) as client:
        process = _ControllerProcess(slices, client, settings, stop=stop)
        async with serving(Health(process.checks, process.registries), host=settings.host, port=settings.port) as port:
            logger.info("metrics are served", extra={"host": settings.host, "port": port})
            async with _reporting(process.checks, lambda: serves(port) if serves else None):
                await process.run()


class _ControllerProcess:
    """What the controllers work in: at most one set of controllers at a time."""

    def __init__(self, slices: Sequence[Slice], client: Client, settings: ControllerSettings, *, stop: asyncio.Event) -> None:
        self._slices = slices
        self._client = client
        self._settings = settings
        self._stop = stop
        self._identity = own_identity()
        self._wiring: Wiring | None = None
        self._registry = CollectorRegistry()
        Gauge("ullage_leading", "1 while this process leads", registry=self._registry).set_function(
            lambda: float(self._wiring is not None)
        )
        count = Counter("ullage_lease", "What happened to the lease", ["event"], registry=self._registry)
        self._observe: Callable[[str], None] = lambda event: count.labels(event).inc()
        self._elector: Elector | None = None

    def checks(self) -> dict[str, bool]:
        """Ready is who works on synced caches, or stands by while another leads."""
        if self._wiring is not None:
            return {f"cache {cache.kind.name}": cache.synced.is_set() for cache in self._wiring.caches}
        return {"lease": self._elector is not None and self._elector.holder != ""}

    def registries(self) -> list[CollectorRegistry]:
        return [self._registry, *([self._wiring.metrics.registry] if self._wiring else [])]

    async def run(self) -> None:
        async with contextlib.AsyncExitStack() as stack:
            client = await self._acting(stack)
            if client is None:
                return
            if not self._settings.leader_elect:
                await self._lead(client)
                return
            elector = self._elector = self._candidate(client)
            leading = client.guarded(elector.guard)
            await elector.run(lambda: self._lead(leading), stop=self._stop)

    async def _acting(self, stack: contextlib.AsyncExitStack) -> Client | None:
        """The client to work with. None: the stop came before the API server said who this process is."""
        if not self._settings.account:
            return self._client
        asking = asyncio.create_task(account.config_of(self._client, self._settings.account))
        if not await done_before(self._stop, asking):
            return None
        config = asking.result()
        return self._client if config is self._client.config else await stack.enter_async_context(self._client.beside(config))

    def _candidate(self, client: Client) -> Elector:
        return Elector(
            client,
            self._settings.lease,
            namespace=self._settings.lease_namespace,
            identity=self._identity,
            timing=self._settings.timing,
            observe=self._observe,
        )

    async def _lead(self, client: Client) -> None:
        wiring = Wiring(client, instance=self._identity, metrics=Metrics(), limits=self._settings.limits)
        controllers = wiring.controllers(self._slices)
        self._wiring = wiring
        try:
            async with wiring.holding(self._stop):  # where the stop came first, nothing is begun
                await controller.run(wiring.caches, controllers, stop=self._stop, grace=self._settings.grace)
        finally:
            self._wiring = None


@contextlib.asynccontextmanager
async def _reporting(checks: Callable[[], Mapping[str, bool]], ready: Callable[[], None]) -> AsyncIterator[None]:
    """Calls `ready` once, as soon as all checks hold."""

    async def wait() -> None:
        while not all(checks().values()):  # noqa: ASYNC110  caches and leases are asked, they do not tell
            await asyncio.sleep(READY_POLL)
        ready()

    waiting = asyncio.create_task(wait())
    try:
        yield
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
