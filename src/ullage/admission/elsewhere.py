"""Keeps hooks registered in other clusters, under paths that tell which cluster asks.

Unlike in our own cluster, what somebody took out or changed there is put back: whoever administers a cluster is whom the hooks
are about. But where our own cluster's registration was taken out, which its administrator does to be rid of us, nothing is put
back. A cluster that cannot be reached delays no other, and is registered when it can. One that is not asked about any more
has its hooks taken out: nothing answers them, and they would refuse all that they are about.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from ullage.admission import registration
from ullage.admission.callers import Callers
from ullage.admission.edits import edits, entries_with, is_as_wanted, replacement
from ullage.admission.metrics import Metrics
from ullage.admission.registration import MANAGER, Address, Registration, is_ours
from ullage.errors import UllageError
from ullage.kube.builtin.admissionregistration import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, WebhookConfiguration
from ullage.kube.client.client import Client
from ullage.kube.clusters.leaving import LeavingClusters
from ullage.kube.errors import Conflict, NotFound
from ullage.kube.kinds import Kind
from ullage.kube.objects import Json
from ullage.kube.review import Hook

logger = logging.getLogger(__name__)

AT_ONCE: Final = 16  # clusters
CALL_SECONDS: Final = 20.0  # for all that is asked of one cluster in a round
TRIES: Final = 5  # in a round, where somebody else writes at the same time
KINDS: Final = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)


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
    leaving: LeavingClusters | None = None  # those that asked once: what is registered there goes


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
        visits = [self._visit(name, partial(self._register, name, client), "registered in") for name, client in clients.items()]
        if (leaving := self._elsewhere.leaving) is not None:
            left = {name: client for name, client in leaving.clients().items() if name not in clients}
            visits += [
                self._visit(name, partial(self._take_out, leaving, name, client), "taken out of")
                for name, client in left.items()
            ]
        await asyncio.gather(*visits)

    async def _visit(self, cluster: str, work: Callable[[], Awaitable[None]], what: str) -> None:
        try:
            async with self._places, asyncio.timeout(CALL_SECONDS):
                await work()
        except (UllageError, TimeoutError) as error:
            about = {"cluster": cluster, "error": str(error) or "no answer in time"}
            logger.warning("hooks could not be %s a cluster", what, extra=about)
        except Exception:
            logger.exception("hooks could not be %s a cluster", what, extra={"cluster": cluster})

    async def _take_out(self, leaving: LeavingClusters, cluster: str, client: Client) -> None:
        """Takes our entries out of a cluster that counts no more. Entries of others in the same object stay."""
        if not await leaving.counts_no_more(cluster):
            return
        for kind in KINDS:
            found = await client.find(kind, self._name)
            if found is None or not any(is_ours(entry.get("name", "")) for entry in found.webhooks):
                continue
            if others := [entry for entry in found.webhooks if not is_ours(entry.get("name", ""))]:
                patch: list[Json] = [
                    {"op": "test", "path": "/metadata/resourceVersion", "value": found.metadata.resource_version},
                    {"op": "replace", "path": "/webhooks", "value": others},
                ]
                await client.patch(kind, self._name, json_patch=patch, field_manager=MANAGER)
            else:
                await client.delete(kind, self._name, resource_version=found.metadata.resource_version)
            logger.info("hooks were taken out of a cluster that counts no more", extra={"cluster": cluster})
        leaving.done(cluster)

    async def _register(self, cluster: str, client: Client) -> None:
        wanted = Registration(self._name, self._hooks, self._address, caller=self._elsewhere.callers.caller(cluster))
        told = cluster not in self._registered  # at first they may be missing, or of another release
        for left in reversed(range(TRIES)):
            seen, configurations = await registration.read(client, wanted), _configurations(wanted, self._bundle())
            pairs = [(seen.found.get(kind.kind), one) for kind, one in configurations.items()]
            changed = [edit for found, one in pairs if found is not None for edit in edits(found, one)]
            if (seen.missing or changed) and not await self._at_home():
                logger.warning(
                    "hooks are not put into a cluster: our own cluster's were taken out, start again to have both",
                    extra={"cluster": cluster},
                )
                return
            if (seen.missing or changed) and not told:
                told = True
                self._tell(cluster, seen.missing, changed)
            try:
                for kind, one in configurations.items():
                    await _write(client, one, kind=kind, found=seen.found.get(kind.kind))
                break
            except (Conflict, NotFound):  # somebody writes, or deletes it, all the time
                if not left:
                    raise
        self._registered[cluster] = client

    def _tell(self, cluster: str, missing: Sequence[str], changed: Sequence[str]) -> None:
        self._metrics.restored.inc()
        if missing:
            logger.warning("hooks were taken out of a cluster", extra={"cluster": cluster, "hooks": ", ".join(missing)})
        if changed:
            logger.warning("hooks were changed in a cluster", extra={"cluster": cluster, "hooks": ", ".join(changed)})


def _configurations(wanted: Registration, bundle: bytes) -> dict[Kind[WebhookConfiguration], Json]:
    """Without entries where no hook is of its phase."""
    return {kind: wanted.configuration(kind, bundle) or wanted.empty(kind) for kind in KINDS}


async def _write(client: Client, wanted: Json, *, kind: Kind[WebhookConfiguration], found: WebhookConfiguration | None) -> None:
    """Nothing is written where all is as it is to be."""
    name = wanted["metadata"]["name"]
    if found is None:
        if not wanted["webhooks"]:
            return
        # Where somebody has made one meanwhile this is merged into it, so the answer is looked at as well.
        found = await client.patch(kind, name, apply=wanted, field_manager=MANAGER, force=True)
    if is_as_wanted(found, wanted):
        return
    if entries_with(found, wanted):
        await client.patch(kind, name, json_patch=replacement(found, wanted), field_manager=MANAGER)
    else:  # an earlier release had hooks of this phase
        await client.delete(kind, name, resource_version=found.metadata.resource_version)
