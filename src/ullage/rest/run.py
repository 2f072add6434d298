"""The life of the API's server: certificate, serve, look after it, stop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from ullage.clock import Clock, SystemClock
from ullage.http1 import bind
from ullage.kube.client.client import Client
from ullage.kube.routes import Route
from ullage.pki import write_private
from ullage.rest.authorization import Authorization
from ullage.rest.certificates import CertificateSource, FileCertificates, OwnCertificates
from ullage.rest.endpoint import Check, Endpoint
from ullage.rest.metrics import Metrics
from ullage.rest.page import public_pages
from ullage.serving.certificates import Terms
from ullage.serving.connections import PublicConnection
from ullage.serving.rotation import SecretName
from ullage.serving.server import Certificate, serving, url_of, work_beside
from ullage.shutdown import done_before

LEAVE_SECONDS: Final = 2.0  # for all else that ends with it
AUTHORITY: Final = "ullage-api"
CA_FILE: Final = "api-ca.crt"  # the authorities that clients have to trust, unless the certificate is an administrator's
URL_FILE: Final = "api-url"


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """What an administrator brings: then no authority of ours is made."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    host: str = "127.0.0.1"
    port: int = 0
    names: tuple[str, ...] = ("localhost", "127.0.0.1")  # in a certificate of our own
    tls: TlsFiles | None = None
    client_files: Path | None = None  # a directory: what clients on this machine need is written there
    audiences: tuple[str, ...] = ()
    namespace: str = "ullage-system"
    secret: str = "ullage-api-tls"
    config_map: str = "ullage-api-ca"
    terms: Terms = field(default_factory=lambda: Terms(hosts=(), authority=AUTHORITY))
    look_every: float = 30.0
    drain: float = 5.0
    stop_seconds: int = 5

    @property
    def grace(self) -> float:
        """From the stop to the end of the process."""
        return self.drain + self.stop_seconds + LEAVE_SECONDS


async def run_api(
    routes: Sequence[Route],
    client: Client,
    settings: Settings,
    *,
    stop: asyncio.Event,
    checks: Mapping[str, Check] | None = None,
    metrics: Metrics | None = None,
    clock: Clock | None = None,
    serves: Callable[[str, int], None] | None = None,
) -> None:
    """Serves the routes until `stop` is set. `checks` are what readiness waits for besides the certificate. `serves` is called
    with host and port once it does."""
    clock, metrics = clock or SystemClock(), metrics or Metrics()
    certificate = Certificate()
    source = _source(client, certificate, settings, metrics=metrics, clock=clock)
    endpoint = Endpoint(
        routes,
        authorization=Authorization(client, audiences=settings.audiences),
        public=public_pages(routes),
        metrics=metrics,
        clock=clock,
        checks={"certificate": lambda: certificate.loaded, **(checks or {})},
    )
    with contextlib.closing(bind(settings.host, settings.port)) as sock:
        port = int(sock.getsockname()[1])
        if not await done_before(stop, source.open()):
            return
        async with serving(
            endpoint,
            certificate,
            sock=sock,
            drain=settings.drain,
            stop_seconds=settings.stop_seconds,
            protocol=PublicConnection,
        ) as server:
            if settings.client_files is not None:
                write_private(settings.client_files / URL_FILE, f"{url_of(settings.host, port)}\n".encode())
            if serves is not None:
                serves(settings.host, port)
            await work_beside(server, [source.run(settings.look_every)], stop=stop)


def _source(
    client: Client, certificate: Certificate, settings: Settings, *, metrics: Metrics, clock: Clock
) -> CertificateSource:
    if settings.tls is not None:
        return FileCertificates(
            certificate, certificate_file=settings.tls.certificate, key_file=settings.tls.key, expires=metrics.expires
        )
    folder = settings.client_files
    return OwnCertificates(
        client,
        certificate,
        secret_name=SecretName(settings.namespace, settings.secret),
        config_map=settings.config_map,
        terms=replace(settings.terms, hosts=settings.names),
        expires=metrics.expires,
        clock=clock,
        tell=None if folder is None else lambda bundle: write_private(folder / CA_FILE, bundle),
    )
