"""The processes of the product: controllers behind a lease, and the admission server.

Both are composed of slices and nothing else, and both can be killed at any time. Each tenure of a leader gets caches and
controllers of its own: nothing that was known before the lease was lost is believed after it is won again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from ullage import __version__
from ullage.admission import metrics as admission_metrics
from ullage.admission import run as admission
from ullage.app import health
from ullage.app.access import CERTIFICATE, CONDITION, LEASE, REGISTRATION
from ullage.app.manifests import NAMESPACE
from ullage.errors import Terminal
from ullage.kube.cache.cache import Cache
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.kube.controller import controller
from ullage.kube.controller.candidate import Timing
from ullage.kube.controller.lease import Elector, own_identity
from ullage.kube.errors import Forbidden, NotFound
from ullage.kube.metrics import Metrics
from ullage.kube.review import Hook
from ullage.kube.slices import Slice, Wiring

logger = logging.getLogger(__name__)

GRACE_SECONDS: Final = 8.0  # for what is being reconciled when the stop comes; under a supervisor's patience of 10
READY_POLL: Final = 0.05
Serves = Callable[[int], None]  # told the port, once the process is ready

# What the processes write before hooks can be answered. A hook on these in our own namespace would wait for itself.
_NEEDED: Final = frozenset(
    {
        ("", "secrets"),
        ("", "configmaps"),
        ("", "serviceaccounts"),
        ("", "serviceaccounts/token"),
        ("coordination.k8s.io", "leases"),
    }
)


class NotInstalled(Terminal):
    """The cluster lacks something that `ullage install` brings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    component: str = "controller"  # what it calls itself
    leader_elect: bool = True
    lease: str = LEASE
    lease_namespace: str = NAMESPACE
    host: str = "127.0.0.1"
    port: int = 0  # of /metrics, /healthz and /readyz; 0 takes any free one
    timing: Timing | None = None
    grace: float = GRACE_SECONDS


async def run_controller(
    slices: Sequence[Slice], config: Config, settings: ControllerSettings, *, stop: asyncio.Event, serves: Serves | None = None
) -> None:
    """Runs the slices' controllers, while leading, until `stop` is set."""
    async with Client(config, user_agent=_user_agent(settings.component)) as client:
        office = _Office(slices, client, settings, stop=stop)
        async with health.serving(
            health.Health(office.checks, office.registries), host=settings.host, port=settings.port
        ) as port:
            logger.info("metrics are served", extra={"host": settings.host, "port": port})
            async with _reporting(office.checks, lambda: serves(port) if serves else None):
                await office.run()


class _Office:
    """What the controllers work in: at most one tenure at a time."""

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
        self._elector = Elector(
            client,
            settings.lease,
            namespace=settings.lease_namespace,
            identity=self._identity,
            timing=settings.timing,
            observe=lambda event: count.labels(event).inc(),
        )

    def checks(self) -> dict[str, bool]:
        """Ready is who works on synced caches, or stands by while another leads."""
        if self._wiring is not None:
            return {f"cache {cache.kind.name}": cache.synced.is_set() for cache in self._wiring.caches}
        return {"lease": self._settings.leader_elect and self._elector.holder != ""}

    def registries(self) -> list[CollectorRegistry]:
        return [self._registry, *([self._wiring.metrics.registry] if self._wiring else [])]

    async def run(self) -> None:
        if not self._settings.leader_elect:
            await self._tenure(self._client)
            return
        leading = self._client.guarded(self._elector.guard)
        running = asyncio.ensure_future(self._elector.run(lambda: self._tenure(leading)))
        stopping = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
            if not running.done() and self._wiring is None:
                running.cancel()  # it stands by: there is nothing to finish
            with contextlib.suppress(asyncio.CancelledError):
                await running
        finally:
            stopping.cancel()
            running.cancel()

    async def _tenure(self, client: Client) -> None:
        wiring = Wiring(client, instance=self._identity, metrics=Metrics())
        controllers = [made for one in self._slices if one.controllers for made in wiring.made(one.controllers)]
        self._wiring = wiring
        try:
            async with contextlib.AsyncExitStack() as stack:
                for held in wiring.held:
                    await stack.enter_async_context(held)
                await controller.run(wiring.caches, controllers, stop=self._stop, grace=self._settings.grace)
        finally:
            self._wiring = None


async def run_webhook(
    slices: Sequence[Slice], config: Config, settings: admission.Settings, *, stop: asyncio.Event, serves: Serves | None = None
) -> None:
    """Serves the slices' hooks until `stop` is set."""
    registry = CollectorRegistry()
    async with Client(config, user_agent=_user_agent("webhook")) as client, contextlib.AsyncExitStack() as stack:
        wiring = Wiring(client, instance=own_identity(), metrics=Metrics(registry))
        hooks = [hook for one in slices if one.hooks for hook in wiring.made(one.hooks)]
        refuse_self_locking(hooks)
        for held in wiring.held:
            await stack.enter_async_context(held)
        serve = admission.run_webhook(
            hooks,
            client,
            settings,
            stop=stop,
            checks=_cache_checks(wiring.caches),
            metrics=admission_metrics.Metrics(registry),
            serves=lambda host, port: serves(port) if serves else None,
        )
        try:
            await _beside(wiring.caches, serve)
        except (NotFound, Forbidden) as error:
            raise NotInstalled(f"{error}; has `ullage install` been run on this cluster?") from error


def webhook_settings(**given: Any) -> admission.Settings:
    """The settings with the names that the roles allow."""
    return admission.Settings(namespace=NAMESPACE, name=REGISTRATION, secret=CERTIFICATE, status=CONDITION, **given)


def refuse_self_locking(hooks: Iterable[Hook]) -> None:
    """Raises ValueError for a hook that would have to answer before it can be served: after a restart of everything, nobody
    could get it back up."""
    for hook in hooks:
        excluded = NAMESPACE in hook.not_in or (hook.only_in and NAMESPACE not in hook.only_in)
        if hook.failure_policy == "Ignore" or excluded:
            continue
        for target in hook.targets:
            for group, resource in sorted(_NEEDED):
                names = (resource, resource.partition("/")[0] + "/*" if "/" in resource else resource, "*", "*/*")
                if {group, "*"} & set(target.groups) and set(names) & set(target.resources):
                    raise ValueError(
                        f"hook {hook.name}: {resource} in {NAMESPACE} are needed to serve it; exclude that namespace"
                    )


def _cache_checks(caches: Iterable[Cache[Any]]) -> Mapping[str, Callable[[], bool]]:
    return {f"cache {cache.kind.name}": cache.synced.is_set for cache in caches}


async def _beside(caches: Sequence[Cache[Any]], work: Coroutine[Any, Any, None]) -> None:
    """Runs caches as long as the work runs. A cache never ends by itself: if one does, its error is raised."""
    working = asyncio.ensure_future(work)
    reading = [asyncio.create_task(cache.run(), name=f"cache {cache.kind.name}") for cache in caches]
    try:
        await asyncio.wait((working, *reading), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (working, *reading):
            if task is not working or not working.done():
                task.cancel()
        results = await asyncio.gather(working, *reading, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result


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


def _user_agent(component: str) -> str:
    return f"ullage/{__version__} ({component})"
