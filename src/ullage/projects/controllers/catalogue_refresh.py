"""Asks providers for their flavours and writes what they say into MachineCatalogues.

One key plans; a key for each place asks. So a cloud that takes its time holds up nobody but others of the same credential. A
refresh that fails leaves all sizes as they are, and says since when it fails. What people have written (`source: manual`) is
counted for `kubectl get` and never changed.

Of Secrets only those are read that a Cluster of this seed names as its credential, for the provider that it names it for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter

from ullage.clock import Clock
from ullage.errors import BadInput
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.conditional import patch_seen
from ullage.kube.client.interface import ObjectClient
from ullage.kube.controller.controller import Controller, Requeue, Source
from ullage.kube.errors import Conflict, NotFound
from ullage.kube.metrics import Metrics
from ullage.kube.objects import merge_patch
from ullage.kube.slices import Wiring, Write
from ullage.projects.api.catalogues import CATALOGUES, CatalogueData, CatalogueShown, MachineCatalogue
from ullage.projects.api.kkp import CLUSTERS, SEEDS, Cluster, Seed
from ullage.projects.controllers.catalogue_refresh_rules import (
    MOST_AT_ONCE,
    PAUSE,
    RefreshFacts,
    answered,
    failed,
    next_refreshes,
    surplus,
)
from ullage.projects.settings import Settings
from ullage.projects.sizes.catalogue import Catalogue, Known, Place
from ullage.projects.sizes.providers.contract import NotAnswered, Provider
from ullage.projects.sizes.providers.registry import PROVIDERS
from ullage.projects.sizes.providers.secrets import read_credentials
from ullage.projects.sizes.sites import Sites, SitesWith
from ullage.projects.sizes.stored import is_manual, known_of, merged, place_of, shown_of, written

logger = logging.getLogger(__name__)

NAME: Final = "catalogue-refresh"
WATCHES: Final = (CATALOGUES, CLUSTERS, SEEDS)
WRITES: Final = (Write(CATALOGUES, ("get", "patch", "delete")),)
SECONDS: Final = 90.0  # that a provider has for all of its pages
BETWEEN: Final = 0.5  # seconds, at least, between two plans: a thousand catalogues may change at once
_ATTEMPTS: Final = 4


@dataclass(frozen=True, slots=True)
class PlanKey:
    """Look at all places."""


@dataclass(frozen=True, slots=True)
class AskKey:
    """Ask for one."""

    place: Place


@dataclass(frozen=True, slots=True)
class ShowKey:
    """Say how many flavours somebody has written."""

    name: str


RefreshKey = PlanKey | AskKey | ShowKey
PLAN: Final = PlanKey()
Change = Callable[[Known], Known]


class RefreshMetrics:
    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.refreshes = Counter(
            "ullage_machine_catalogue_refreshes",
            "Times that a provider was asked for its flavours",
            labelnames=["provider", "result"],
            registry=registry or CollectorRegistry(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshCaches:
    catalogues: Cache[MachineCatalogue]
    clusters: Cache[Cluster]
    seeds: Cache[Seed]


class CatalogueRefresh:
    """The controller. `providers` are asked; a place of any other cannot be."""

    def __init__(
        self,
        client: ObjectClient,
        caches: RefreshCaches,
        sites: Sites,
        *,
        clock: Clock,
        providers: Mapping[str, Provider] = PROVIDERS,
        metrics: RefreshMetrics | None = None,
        seconds: float = SECONDS,
    ) -> None:
        self._client = client
        self._caches = caches
        self._sites = sites
        self._clock = clock
        self._providers = providers
        self._metrics = metrics or RefreshMetrics()
        self._seconds = seconds
        self._objects: dict[Place, MachineCatalogue] = {}  # those that we fill
        self._known: dict[Place, Known] = {}
        self._running: set[Place] = set()
        self._asked: dict[Place, float] = {}  # when we were done with it
        self._planned = -BETWEEN
        caches.catalogues.handle(self._changed)

    def controller(self, *, metrics: Metrics | None = None) -> Controller[RefreshKey]:
        caches = self._caches
        sources: list[Source[Any, RefreshKey]] = [
            Source(caches.catalogues, _of_catalogue),
            Source(caches.clusters, lambda one: (PLAN,), when=_clouds_differ),
            Source(caches.seeds, lambda one: (PLAN,)),
        ]
        self._made: Controller[RefreshKey] = Controller(
            NAME, sources, self.reconcile, workers=MOST_AT_ONCE + 2, clock=self._clock, metrics=metrics
        )
        return self._made

    def _changed(self, old: MachineCatalogue | None, new: MachineCatalogue | None) -> None:
        """Of several objects about one place the first that came is filled; people may have made more."""
        if old is not None and (held := self._objects.get(place_of(old))) and held.metadata.name == old.metadata.name:
            del self._objects[place_of(old)]
            del self._known[place_of(old)]
        if new is not None and not is_manual(new) and place_of(new) not in self._objects:
            self._objects[place_of(new)] = new
            self._known[place_of(new)] = merged((new,))

    async def reconcile(self, key: RefreshKey) -> Requeue | None:
        if isinstance(key, PlanKey):
            return await self._plan()
        if isinstance(key, AskKey):
            await self._refresh(key.place)
        else:
            await self._show(key.name)
        return None

    # --- planning ---

    async def _plan(self) -> Requeue | None:
        now = self._clock.monotonic()
        if (wait := self._planned + BETWEEN - now) > 0:
            return Requeue(wait)
        self._planned = now
        self._asked = {place: at for place, at in self._asked.items() if now - at < PAUSE.total_seconds()}
        steps = next_refreshes(
            RefreshFacts(
                Catalogue(dict(self._known)),
                self._objects,
                allowed=lambda place: not self._sites.refusal(place),
                running=self._running,
                recent=self._asked,
            ),
            now=self._clock.now(),
        )
        for place in steps.ask:
            self._running.add(place)
            self._made.queue.add(AskKey(place))
        for place in steps.remove:
            await self._remove(place)
        return None if steps.wait is None else Requeue(max(steps.wait.total_seconds(), BETWEEN))

    async def _remove(self, place: Place) -> None:
        found = self._objects.get(place)
        if found is not None:
            try:
                await self._client.delete(CATALOGUES, found.metadata.name, uid=found.metadata.uid)
            except (NotFound, Conflict):
                return  # it is gone, or another one
            logger.info("machine catalogue was removed", extra={"place": str(place)})

    # --- asking ---

    async def _refresh(self, place: Place) -> None:
        try:
            found = self._objects.get(place)
            if found is not None:
                await self._write(found.metadata.name, await self._outcome(place))
        finally:
            self._running.discard(place)
            self._asked[place] = self._clock.monotonic()
            self._made.queue.add(PLAN)

    async def _outcome(self, place: Place) -> Change:
        """What asking makes of what is known."""
        at = self._clock.now()
        try:
            provider = self._askable(place)
            credentials = await read_credentials(self._client, place.credential)
            async with asyncio.timeout(self._seconds):
                flavours = await provider.flavours(place, credentials)
        except NotAnswered as error:
            reason = str(error)
        except TimeoutError:
            reason = f"it did not answer within {self._seconds:g} s"
        except Exception as error:  # a bug in an adapter is a failure of one place, and its text may have anything in it
            logger.exception("a provider could not be asked", extra={"place": str(place)})
            reason = f"an error of Ullage ({type(error).__name__}), which its log shows"
        else:
            self._metrics.refreshes.labels(place.provider, "answered").inc()
            return lambda had: answered(had, place, flavours, source=provider.source, at=at)
        self._metrics.refreshes.labels(place.provider, "failed").inc()
        logger.warning("machine sizes could not be refreshed", extra={"place": str(place), "reason": reason})
        for one in surplus(Catalogue(dict(self._known)), place, at=at):
            await self._remove(one)
        return lambda had: failed(had, place, reason, at=at)

    def _askable(self, place: Place) -> Provider:
        provider = self._providers.get(place.provider)
        if provider is None:
            raise NotAnswered(
                f"{place.provider} is not asked for sizes: an administrator can write a MachineCatalogue with source: manual"
            )
        if refusal := self._sites.refusal(place):
            raise NotAnswered(refusal)
        return provider

    # --- writing ---

    async def _write(self, name: str, change: Change) -> None:
        """Reads it again: it may have been written by people, or wanted, while the provider was asked."""
        for _ in range(_ATTEMPTS):
            found = await self._client.find(CATALOGUES, name)
            if found is None or is_manual(found):
                return
            data, shown = written(change(_had(found)))
            try:
                await self._patch(found, data, shown)
            except Conflict:
                continue
            return

    async def _show(self, name: str) -> None:
        found = self._caches.catalogues.get(Key("", name))
        if found is not None and is_manual(found):
            await self._patch(found, found.data, shown_of(found))

    async def _patch(self, found: MachineCatalogue, data: CatalogueData, shown: CatalogueShown) -> None:
        parts = {"data": merge_patch(found.data, data), "shown": merge_patch(found.shown, shown)}
        merge = {name: part for name, part in parts.items() if part is not None}
        if merge:
            try:
                await patch_seen(self._client, CATALOGUES, found, merge)
            except NotFound:
                return


def _had(found: MachineCatalogue) -> Known:
    try:
        return known_of(found)
    except BadInput:
        return Known()  # only people could have written it; an answer puts it right


def _of_catalogue(found: MachineCatalogue) -> Iterable[RefreshKey]:
    return (PLAN, ShowKey(found.metadata.name)) if is_manual(found) else (PLAN,)


def _clouds_differ(old: Cluster | None, new: Cluster | None) -> bool:
    return old is None or new is None or old.spec.cloud != new.spec.cloud


def make_refresh(wiring: Wiring, settings: Settings) -> Controller[RefreshKey]:
    """For a part that declares WATCHES and WRITES."""
    caches = RefreshCaches(catalogues=wiring.cache(CATALOGUES), clusters=wiring.cache(CLUSTERS), seeds=wiring.cache(SEEDS))
    metrics = RefreshMetrics(wiring.metrics.registry)
    sites = wiring.shared(SitesWith(settings.seed_namespace))
    found = CatalogueRefresh(wiring.client, caches, sites, clock=wiring.clock, metrics=metrics)
    return found.controller(metrics=wiring.metrics)
