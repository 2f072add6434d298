"""Keeps hooks registered in other clusters, under paths that tell which cluster asks.

Unlike in our own cluster, what somebody took out there is put back: whoever administers a cluster is whom the hooks are about.
But where our own cluster's registration was taken out, which its administrator does to be rid of us, nothing is put back.
A cluster that cannot be reached keeps nobody waiting, and is registered when it can.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
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


def name_elsewhere(name: str) -> str:
    """What the configurations are called there, of a webhook that is registered as `name` at home: there may be one of us in
    that cluster, too."""
    return f"{name}-elsewhere"


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """The clusters that ask besides our own: how they show which they are, and how they are reached now."""

    callers: Callers
    clients: Callable[[], Mapping[str, Client]]
    news: asyncio.Event  # set when there are others


class ElsewhereRegistration:
    """One per replica. All of them register the same, so it does not matter who comes first. `at_home` says whether our own
    cluster still has us registered; it is asked only where something is missing elsewhere."""

    def __init__(
        self,
        hooks: Sequence[Hook],
        elsewhere: Elsewhere,
        *,
        name: str,
        address: Address,
        bundle: Callable[[], bytes],
        metrics: Metrics,
        at_home: Callable[[], Awaitable[bool]],
    ) -> None:
        self._hooks = tuple(hooks)
        self._elsewhere = elsewhere
        self._name = name
        self._address = address
        self._bundle = bundle
        self._metrics = metrics
        self._at_home = at_home
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
        if seen.missing and not await self._at_home():
            logger.warning(
                "hooks are not put into a cluster: our own cluster's were taken out, start again to have both",
                extra={"cluster": cluster},
            )
            return
        if seen.missing and cluster in self._registered:
            self._metrics.restored.inc()
            logger.warning("hooks were taken out of a cluster", extra={"cluster": cluster, "hooks": ", ".join(seen.missing)})
        await registration.register(client, wanted, bundle=self._bundle(), seen=seen)
        self._registered[cluster] = client
