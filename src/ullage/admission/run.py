"""The life of the admission server: certificate, serve, register, look after both, stop.

The order matters. Hooks refuse what they match from the moment they are registered, so that comes last, when the answers
are there.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ullage.admission.caller_limits import CallerLimits
from ullage.admission.certificate_rotation import CertificateRotation
from ullage.admission.elsewhere import Elsewhere, ElsewhereRegistration, name_elsewhere
from ullage.admission.endpoint import Check, Endpoint
from ullage.admission.metrics import Metrics
from ullage.admission.path_rotation import PathRotation
from ullage.admission.paths import Paths, PathTerms
from ullage.admission.registration import Address, ByUrl, Registration
from ullage.admission.selftest import SelfTest, selftest_hook
from ullage.clock import Clock, SystemClock
from ullage.http1 import bind
from ullage.kube.client.client import Client
from ullage.kube.review import Hook
from ullage.serving.certificates import Terms
from ullage.serving.client_names import NamingProtocol, ask_for_certificates
from ullage.serving.rotation import SecretName
from ullage.serving.server import Certificate, serving, url_of, work_beside
from ullage.shutdown import done_before

READY_POLL: Final = 0.05  # seconds
LEAVE_SECONDS: Final = 3.0  # for all else that ends with it: events, connections


@dataclass(frozen=True, slots=True)
class ClientCertificates:
    """API servers of our own cluster show a certificate of these authorities (PEM), with one of these names in it."""

    authorities: str = field(repr=False)
    names: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`address` is how API servers reach us; without one it is the URL of the socket. The hosts of `terms` follow from it."""

    host: str = "127.0.0.1"
    port: int = 0
    address: Address | None = None
    address_elsewhere: ByUrl | None = None  # how those of other clusters do, where that is another
    namespace: str = "ullage-system"
    name: str = "ullage"  # of the configurations
    secret: str = "ullage-webhook-tls"
    paths: str = "ullage-webhook-paths"  # the Secret with what paths are made from
    status: str = "ullage-webhook-status"  # the ConfigMap with the self-test's condition
    terms: Terms = field(default_factory=lambda: Terms(hosts=("localhost",)))
    path_terms: PathTerms = field(default_factory=PathTerms)
    clients: ClientCertificates | None = None  # None: API servers show no certificate
    look_every: float = 30.0
    test_every: float = 60.0
    drain: float = 5.0
    stop_seconds: int = 5
    callers: CallerLimits = field(default_factory=CallerLimits)  # what one of the other clusters may ask

    @property
    def grace(self) -> float:
        """From the stop to the end of the process."""
        return self.drain + self.stop_seconds + LEAVE_SECONDS


async def run_webhook(
    hooks: Sequence[Hook],
    client: Client,
    settings: Settings,
    *,
    stop: asyncio.Event,
    checks: Mapping[str, Check] | None = None,
    metrics: Metrics | None = None,
    clock: Clock | None = None,
    serves: Callable[[str, int], None] | None = None,
    elsewhere: Elsewhere | None = None,
) -> None:
    """Serves the hooks until `stop` is set. `checks` are what readiness waits for besides the certificate (caches synced).
    `serves` is called with host and port once everything is registered. Without `elsewhere` no other cluster is answered."""
    clock, metrics = clock or SystemClock(), metrics or Metrics()
    # Replicas on one machine share the port. It does not listen yet: a connection that is dealt to a replica without a
    # certificate would hang.
    with contextlib.closing(bind(settings.host, settings.port, shared=True)) as sock:
        settings = replace(settings, port=sock.getsockname()[1])
        certificate = Certificate()
        if settings.clients is not None:
            ask_for_certificates(certificate.context, settings.clients.authorities)
        served = Paths(hook.name for hook in _own(hooks, settings))
        paths = _paths(hooks, client, served, settings=settings, clock=clock)
        rotation = _rotation(
            hooks, client, settings=settings, certificate=certificate, paths=paths, metrics=metrics, clock=clock
        )
        test = SelfTest(
            client,
            rotation,
            namespace=settings.namespace,
            status=settings.status,
            nonce=lambda: secrets.token_hex(16),
            came_back=paths.was_away,
            metrics=metrics,
            clock=clock,
        )
        ready = {"certificate": lambda: certificate.loaded, **(checks or {})}
        endpoint = Endpoint(
            (*_own(hooks, settings), *_elsewhere(hooks)),
            paths=served,
            metrics=metrics,
            clock=clock,
            checks=ready,
            callers=elsewhere.callers if elsewhere else None,
            limits=settings.callers,
            clients=settings.clients.names if settings.clients is not None else None,
            late=paths.was_away,
        )
        if not await done_before(stop, rotation.open()) or not await done_before(stop, paths.open(rotation.look)):
            return
        async with serving(
            endpoint,
            certificate,
            sock=sock,
            drain=settings.drain,
            stop_seconds=settings.stop_seconds,
            protocol=NamingProtocol,
        ) as server:
            if await _ready(ready, stop) and await done_before(stop, rotation.register()):
                if serves is not None:
                    serves(settings.host, settings.port)
                jobs = [
                    rotation.run(settings.look_every),
                    paths.run(settings.look_every, look=rotation.look, publish=rotation.republish),
                    test.run(settings.test_every),
                ]
                if elsewhere is not None:
                    others = ElsewhereRegistration(
                        _elsewhere(hooks),
                        elsewhere,
                        name=name_elsewhere(settings.name),
                        address=settings.address_elsewhere or _address(settings),
                        bundle=lambda: rotation.bundle,
                        metrics=metrics,
                        at_home=rotation.registered,
                    )
                    jobs.append(others.run(settings.look_every))
                await work_beside(server, jobs, stop=stop)


def _paths(hooks: Sequence[Hook], client: Client, served: Paths, *, settings: Settings, clock: Clock) -> PathRotation:
    return PathRotation(
        client,
        served,
        secret_name=SecretName(settings.namespace, settings.paths),
        registered=Registration(settings.name, _own(hooks, settings), _address(settings)),
        terms=settings.path_terms,
        new=secrets.token_bytes,
        clock=clock,
    )


def _rotation(
    hooks: Sequence[Hook],
    client: Client,
    *,
    settings: Settings,
    certificate: Certificate,
    paths: PathRotation,
    metrics: Metrics,
    clock: Clock,
) -> CertificateRotation:
    address, elsewhere = _address(settings), settings.address_elsewhere
    hosts = (*address.hosts, *(elsewhere.hosts if elsewhere else ()), *settings.terms.hosts)
    return CertificateRotation(
        client,
        certificate,
        secret_name=SecretName(settings.namespace, settings.secret),
        terms=replace(settings.terms, hosts=tuple(dict.fromkeys(hosts))),
        registered=Registration(settings.name, _own(hooks, settings), address),
        tokens=paths.tokens,
        metrics=metrics,
        clock=clock,
    )


def _address(settings: Settings) -> Address:
    return settings.address or ByUrl(url_of(settings.host, settings.port))


def _own(hooks: Sequence[Hook], settings: Settings) -> tuple[Hook, ...]:
    """What our own cluster asks, and the self-test."""
    return (*(hook for hook in hooks if not hook.elsewhere), selftest_hook(settings.namespace))


def _elsewhere(hooks: Sequence[Hook]) -> tuple[Hook, ...]:
    return tuple(hook for hook in hooks if hook.elsewhere)


async def _ready(checks: Mapping[str, Check], stop: asyncio.Event) -> bool:
    while not stop.is_set():
        if all(check() for check in checks.values()):
            return True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), READY_POLL)
    return False
