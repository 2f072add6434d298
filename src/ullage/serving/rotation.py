"""Keeps the certificates of a server: carries out the steps of `certificates.py` on the Secret that all replicas share, on what
is published for clients, and on the live TLS context.
"""

from __future__ import annotations

import asyncio
import binascii
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Generic, Protocol, TypeVar

import msgspec
from prometheus_client import Gauge

from ullage.clock import Clock
from ullage.errors import UllageError
from ullage.kube.backoff import Backoff
from ullage.kube.builtin.core import SECRETS, Secret, secret_data
from ullage.kube.client.client import Client
from ullage.kube.crds.definitions import MANAGED_BY, OURS
from ullage.kube.errors import AlreadyExists, Conflict
from ullage.kube.kinds import Meta
from ullage.pki import BadCertificate
from ullage.serving import certificates
from ullage.serving.certificates import CertificateSet, Step, Terms
from ullage.serving.server import Certificate

logger = logging.getLogger(__name__)

CONFLICT_PAUSE: Final = 0.2  # seconds; whoever wrote first has moved things on
REPEATED: Final = Backoff(first=1.0, cap=60.0)  # between two steps that are the same: somebody undoes them
LABELS: Final[Mapping[str, str]] = {MANAGED_BY: OURS}

OWN_SECRET: Final = replace(SECRETS, whole=True)  # only this code writes it, so it has no field that the type does not name


@dataclass(frozen=True, slots=True)
class SecretName:
    """Where the Secret is."""

    namespace: str
    name: str


class HasBundle(Protocol):
    """What is published, as it was read."""

    @property
    def bundle(self) -> bytes | None: ...


P = TypeVar("P", bound=HasBundle)


class SecretRotation(ABC, Generic[P]):
    """One per replica; all of them work on the same Secret, and whoever is second finds the step done."""

    def __init__(
        self, client: Client, certificate: Certificate, *, secret_name: SecretName, terms: Terms, expires: Gauge, clock: Clock
    ) -> None:
        self._client = client
        self._certificate = certificate
        self._secret_name = secret_name
        self._terms = terms
        self._expires = expires
        self._clock = clock
        self._current: CertificateSet | None = None
        self._seen: tuple[CertificateSet, bytes | None] | None = None
        self._since = 0.0
        self._last: Step | None = None
        self._repeats = 0
        self.published: P | None = None  # as read last

    @abstractmethod
    async def look(self) -> P:
        """What is published now."""

    @abstractmethod
    async def publish(self, bundle: bytes, seen: P) -> None:
        """Publishes the bundle. Raises Conflict where something else was published after it was `seen`."""

    @property
    def bundle(self) -> bytes:
        """The authorities that clients have to trust now. Raises LookupError before there is a certificate."""
        if self._current is None:
            raise LookupError("there is no certificate yet")
        return self._current.bundle

    async def settle(self, look: Callable[[], Awaitable[P]]) -> None:
        """Rounds until there is nothing to do right now: then there is a certificate to serve with, from the Secret, which the
        first replica creates."""
        while True:
            try:
                step = await self.round(await look())
            except Conflict:
                await asyncio.sleep(CONFLICT_PAUSE)
                continue
            if step is None:
                return
            await asyncio.sleep(self._pause_after(step))

    async def run(self, every: float) -> None:
        """Rounds for ever. An API server that is away, or a Secret that was spoilt, leaves the certificate in use as it is."""
        while True:
            try:
                step = await self.round(await self.look())
                pause = self._pause_after(step)
                if step is not None:
                    await asyncio.sleep(pause)
                    continue
            except Conflict:
                await asyncio.sleep(CONFLICT_PAUSE)
                continue
            except UllageError as error:
                logger.warning("certificates not looked after", extra={"error": str(error)})
            except Exception:
                logger.exception("certificates not looked after")
            await asyncio.sleep(every)

    async def round(self, seen: P) -> Step | None:
        """One look at the Secret and at most one step. `seen` must have been read before this is called: a bundle that was read
        from the Secret before somebody published a newer one must not overwrite that."""
        secret = await self._read()
        current = self._load(secret)
        self.published = seen
        watched = self._watched(current, seen.bundle)
        now = self._clock.now()
        step = certificates.next_step(current, self._terms, now=now, published=seen.bundle, watched=watched)
        if step is None:
            return None
        if step is Step.PUBLISH:
            await self.publish(current.bundle, seen)
        else:
            changed = certificates.to_secret(certificates.apply_step(step, current, terms=self._terms, now=now))
            await self._client.update(OWN_SECRET, msgspec.structs.replace(secret, data=secret_data(changed)))
        logger.info("certificates: %s", step.value, extra={"step": step.name})
        return step

    def _pause_after(self, step: Step | None) -> float:
        """The steps of a rotation follow each other at once. One that comes again was undone, and is not fought for."""
        self._repeats = self._repeats + 1 if step is not None and step is self._last else 0
        self._last = step
        if not self._repeats:
            return 0.0
        pause = REPEATED.delay(self._repeats)
        if self._repeats > 1:  # once is how replicas meet that were started together
            about = {"step": self._last and self._last.name, "repeats": self._repeats, "delay": pause}
            logger.warning("somebody else undoes what is published: trying again", extra=about)
        return pause

    async def _read(self) -> Secret:
        found = await self._client.find(OWN_SECRET, self._secret_name.name, self._secret_name.namespace)
        if found is not None:
            return found
        # If somebody has deleted it, what is trusted everywhere is better than something new.
        current = self._current or certificates.initial_certificates(self._terms, now=self._clock.now())
        meta = Meta(name=self._secret_name.name, namespace=self._secret_name.namespace, labels=LABELS)
        wanted = Secret(metadata=meta, type="kubernetes.io/tls", data=secret_data(certificates.to_secret(current)))
        try:
            return await self._client.create(OWN_SECRET, wanted)
        except AlreadyExists:
            return await self._client.get(OWN_SECRET, self._secret_name.name, self._secret_name.namespace)

    def _load(self, secret: Secret) -> CertificateSet:
        current = certificates.from_secret(_values(secret))
        if current.serving != self._certificate.pair:
            self._certificate.switch(current.serving)
            self._expires.set(current.serving.expires.timestamp())
            logger.info("certificate in use", extra={"expires": current.serving.expires.isoformat()})
        self._current = current
        return current

    def _watched(self, current: CertificateSet, bundle: bytes | None) -> float:
        now = self._clock.monotonic()
        if self._seen != (current, bundle):
            self._seen, self._since = (current, bundle), now
        return now - self._since


def _values(secret: Secret) -> dict[str, bytes]:
    try:
        return {key: secret.value(key) for key in secret.data}
    except binascii.Error as error:
        raise BadCertificate("the secret holds what is no base64") from error
