"""The webhook's certificates: what API servers trust is published in the registration of the hooks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from ullage.admission import registration
from ullage.admission.metrics import Metrics
from ullage.admission.registration import Published, Registration
from ullage.clock import Clock
from ullage.kube.client.client import Client
from ullage.kube.errors import Conflict
from ullage.serving.certificates import Terms
from ullage.serving.rotation import CONFLICT_PAUSE, SecretName, SecretRotation
from ullage.serving.server import Certificate

logger = logging.getLogger(__name__)


class CertificateRotation(SecretRotation[Published]):
    """One per replica, as its base says."""

    def __init__(
        self,
        client: Client,
        certificate: Certificate,
        *,
        secret_name: SecretName,
        terms: Terms,
        registered: Registration,
        tokens: Callable[[Published], Awaitable[Mapping[str, str]]],
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        """`tokens` gives those of the paths to register, where this is registered."""
        super().__init__(client, certificate, secret_name=secret_name, terms=terms, expires=metrics.expires, clock=clock)
        self._registration = registered
        self._tokens = tokens
        self._told: tuple[str, ...] = ()  # whose entries were told of

    async def open(self) -> None:
        """Makes the certificate that is to be served. Registered or not, it comes first."""

        async def nothing() -> Published:
            return Published({}, frozenset(), ())

        await self.settle(nothing)

    async def look(self) -> Published:
        seen = await registration.read(self._client, self._registration)
        self._tell_of_others(seen)
        return seen

    async def publish(self, bundle: bytes, seen: Published) -> None:
        wanted = await self._with_tokens(seen)
        await registration.republish(self._client, wanted, bundle=bundle, seen=seen)

    async def republish(self) -> None:
        """Registers the present bundle and the present paths, where the hooks are registered. Raises Conflict where something
        else was registered meanwhile."""
        seen = await self.look()
        secret = await self._read()  # after the registration: see registration.register
        await self.publish(self._load(secret).bundle, seen)

    async def register(self) -> None:
        """Registers the hooks with the bundle that the Secret has now."""
        while True:
            seen = await registration.read(self._client, self._registration)
            secret = await self._read()  # after the registration: see registration.register
            current = self._load(secret)
            try:
                wanted = await self._with_tokens(seen)
                await registration.register(self._client, wanted, bundle=current.bundle, seen=seen)
            except Conflict:
                await asyncio.sleep(CONFLICT_PAUSE)
                continue
            return

    async def registered(self) -> bool:
        """Whether our own cluster has us registered still, with whatever entries."""
        return bool((await registration.read(self._client, self._registration)).versions)

    async def _with_tokens(self, seen: Published) -> Registration:
        return replace(self._registration, tokens=await self._tokens(seen))

    def _tell_of_others(self, seen: Published) -> None:
        if seen.foreign != self._told:
            self._told = seen.foreign
            if seen.foreign:
                about = {"configuration": self._registration.name, "entries": ", ".join(seen.foreign)}
                logger.warning("entries of others in our webhook configuration are left alone", extra=about)
