"""Where the server's certificate comes from: an authority of our own, or files that an administrator brings.

Our own authority is found by clients in a ConfigMap beside the Secret, `ca.crt` in it, as that of the API server is in
`kube-root-ca.crt`. It is replaced, long before its end, as the webhook's is: published first, shown later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from prometheus_client import Gauge

from ullage.clock import Clock
from ullage.errors import BadInput, UllageError
from ullage.kube.builtin.core import CONFIG_MAPS
from ullage.kube.client.client import Client
from ullage.pki import BadCertificate, Pair, belongs
from ullage.serving.certificates import Step, Terms
from ullage.serving.rotation import LABELS, SecretName, SecretRotation
from ullage.serving.server import Certificate

logger = logging.getLogger(__name__)

MANAGER: Final = "ullage-api"
BUNDLE: Final = "ca.crt"  # in the ConfigMap


class CertificateSource(Protocol):
    """Brings the certificate before the server listens, and looks after it while it does."""

    async def open(self) -> None: ...

    def run(self, every: float) -> Coroutine[None, None, None]: ...


@dataclass(frozen=True, slots=True)
class PublishedBundle:
    """The ConfigMap as it was read. Where there is none, the bundle is empty: it is to be published."""

    version: str
    bundle: bytes | None


class OwnCertificates(SecretRotation[PublishedBundle]):
    """`tell` is called with the bundle that clients have to trust, at the start and whenever it changes."""

    def __init__(
        self,
        client: Client,
        certificate: Certificate,
        *,
        secret_name: SecretName,
        config_map: str,
        terms: Terms,
        expires: Gauge,
        clock: Clock,
        tell: Callable[[bytes], None] | None = None,
    ) -> None:
        super().__init__(client, certificate, secret_name=secret_name, terms=terms, expires=expires, clock=clock)
        self._config_map = config_map
        self._tell = tell
        self._told = b""

    async def open(self) -> None:
        await self.settle(self.look)

    async def look(self) -> PublishedBundle:
        found = await self._client.find(CONFIG_MAPS, self._config_map, self._secret_name.namespace)
        if found is None:
            return PublishedBundle("", b"")
        return PublishedBundle(found.metadata.resource_version, found.data.get(BUNDLE, "").encode())

    async def publish(self, bundle: bytes, seen: PublishedBundle) -> None:
        name, namespace = self._config_map, self._secret_name.namespace
        wanted = {
            "apiVersion": CONFIG_MAPS.api_version,
            "kind": CONFIG_MAPS.kind,
            "metadata": {"name": name, "namespace": namespace, "labels": dict(LABELS)},
            "data": {BUNDLE: bundle.decode()},
        }
        await self._client.patch(
            CONFIG_MAPS, name, namespace, apply=wanted, field_manager=MANAGER, force=True, resource_version=seen.version
        )

    async def round(self, seen: PublishedBundle) -> Step | None:
        step = await super().round(seen)
        if self._tell is not None and self.bundle != self._told:
            self._told = self.bundle
            self._tell(self.bundle)
        return step


class FileCertificates:
    """A certificate and its key in files, which are read again when they change: mounted Secrets do."""

    def __init__(self, certificate: Certificate, *, certificate_file: Path, key_file: Path, expires: Gauge) -> None:
        self._certificate = certificate
        self._files = (certificate_file, key_file)
        self._expires = expires

    async def open(self) -> None:
        """Raises BadInput for files that cannot be served with."""
        self._load()

    async def run(self, every: float) -> None:
        while True:
            await asyncio.sleep(every)
            try:
                self._load()
            except UllageError as error:  # the one in use serves on
                logger.warning("certificate not read again", extra={"error": str(error)})
            except Exception:
                logger.exception("certificate not read again")

    def _load(self) -> None:
        certificate, key = self._files
        try:
            pair = Pair(certificate.read_bytes(), key.read_bytes())
        except OSError as error:
            raise BadInput("--tls-certificate", error.filename, f"cannot be read: {error.strerror}") from None
        if pair == self._certificate.pair:
            return
        try:
            whole = belongs(pair)
        except BadCertificate as error:
            raise BadInput("--tls-certificate", certificate, f"it, or --tls-key {key}, is {error}") from None
        if not whole:
            raise BadInput("--tls-key", key, f"is not the key of --tls-certificate {certificate}")
        try:
            self._certificate.switch(pair)
        except OSError as error:  # TLS errors are among them: it reads the whole chain, and we have read its beginning
            raise BadInput("--tls-certificate", certificate, f"cannot be served with: {error}") from error
        self._expires.set(pair.expires.timestamp())
        logger.info("certificate in use", extra={"expires": pair.expires.isoformat()})
