"""Keeps hooks registered in other clusters, under paths that tell which cluster asks.

Unlike in our own cluster, what somebody took out there is put back: whoever administers a cluster is whom the hooks are about.
A cluster that cannot be reached keeps nobody waiting, and is registered when it can.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ullage.admission import registration
from ullage.admission.callers import Callers
from ullage.admission.metrics import Metrics
from ullage.admission.registration import Address, Registration
from ullage.errors import UllageError
from ullage.kube.client.client import Client
from ullage.kube.review import Hook

logger = logging.getLogger(__name__)

AT_ONCE: Final = 16  # clusters
CALL_SECONDS: Final = 20.0  # for all that is asked of one cluster in a round


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """The clusters that ask besides our own: how they show which they are, and how they are reached now."""

    callers: Callers
    clients: Callable[[], Mapping[str, Client]]
    news: asyncio.Event  # set when there are others


class ElsewhereRegistration:
    """One per replica. All of them register the same, so it does not matter who comes first."""

    def __init__(
        self,
        hooks: Sequence[Hook],
        elsewhere: Elsewhere,
        *,
        name: str,
        address: Address,
        bundle: Callable[[], bytes],
        metrics: Metrics,
    ) -> None:
        self._hooks = tuple(hooks)
        self._elsewhere = elsewhere
        self._name = name
        self._address = address
        self._bundle = bundle
        self._metrics = metrics
        self._registered: dict[str, Client] = {}  # by whom each was registered last
        self._places = asyncio.Semaphore(AT_ONCE)

    async def run(self, every: float) -> None:
        while True:
            self._elsewhere.news.clear()
            await self.round()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._elsewhere.news.wait(), every)

    async def round(self) -> None:
        clients = self._elsewhere.clients()
        self._registered = {name: client for name, client in self._registered.items() if clients.get(name) is client}
        await asyncio.gather(*(self._visit(name, client) for name, client in clients.items()))

    async def _visit(self, cluster: str, client: Client) -> None:
        try:
            async with self._places, asyncio.timeout(CALL_SECONDS):
                await self._register(cluster, client)
        except (UllageError, TimeoutError) as error:
            about = {"cluster": cluster, "error": str(error) or "no answer in time"}
            logger.warning("hooks could not be registered in a cluster", extra=about)
        except Exception:
            logger.exception("hooks could not be registered in a cluster", extra={"cluster": cluster})

    async def _register(self, cluster: str, client: Client) -> None:
        wanted = Registration(self._name, self._hooks, self._address, caller=self._elsewhere.callers.caller(cluster))
        seen = await registration.read(client, wanted)
        if seen.missing and cluster in self._registered:
            self._metrics.restored.inc()
            logger.warning("hooks were taken out of a cluster", extra={"cluster": cluster, "hooks": ", ".join(seen.missing)})
        await registration.register(client, wanted, bundle=self._bundle(), seen=seen)
        self._registered[cluster] = client
