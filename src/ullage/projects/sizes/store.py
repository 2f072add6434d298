"""The sizes of machines, from the MachineCatalogue objects of the seed: what admission and the controllers ask.

The catalogue is kept by a handler of the cache as objects come and go, so that an answer takes a few look-ups in memory. What
is not in it is asked for in the background.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Self

from ullage.clock import Clock
from ullage.errors import UllageError
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.interface import ObjectClient
from ullage.kube.errors import AlreadyExists
from ullage.kube.slices import Wiring, Write
from ullage.ledger.amounts import Amounts
from ullage.projects.api.catalogues import CATALOGUES, WANTED, MachineCatalogue
from ullage.projects.sizes import machine, sites
from ullage.projects.sizes.catalogue import MOST_UNANSWERED, Catalogue, FlavourKey, Known, Place
from ullage.projects.sizes.lookups import Site, Unknown
from ullage.projects.sizes.stored import catalogue_name, empty_catalogue, is_manual, merged, place_of
from ullage.times import micro_timestamp

# Has the leader ask for a place: an empty MachineCatalogue for one that is new, a new time on one that lacks a flavour.
# Whoever admits machines may be another process than the leader, and waits for nobody: a look-up is noted, and a task
# writes. All of it is bounded, since a look-up is made of what a user wrote: so many notes in all and of one
# credential, one write for a place in a while, a few writes a second, and so many places of a credential that have
# never answered.


logger = logging.getLogger(__name__)

MOST_NOTES: Final = 200
MOST_NOTES_EACH: Final = 5  # of one credential
MOST_TIMES: Final = 5_000  # places of which is known when they were last asked for
BETWEEN_WRITES: Final = 0.2  # seconds
_MOMENT: Final = 0.001
BETWEEN: Final = 30.0  # seconds between two writes for one place; what is asked for meanwhile is written then
# The leader takes those away that are too many: until it does, there may be some more.
MOST_EMPTY: Final = 2 * MOST_UNANSWERED
MOST_PLACES: Final = 300  # of one credential: more than any provider has regions or zones
BY_CREDENTIAL: Final = "credential of a place"


def unanswered(found: MachineCatalogue) -> bool:
    return not found.data.refreshed and not is_manual(found)


class LookupRequests:
    """One for each process. Enter it before anything is asked for; what is noted when it is left is forgotten. `missing` says
    whether a flavour is still not known when its turn comes."""

    def __init__(
        self,
        client: ObjectClient,
        catalogues: Cache[MachineCatalogue],
        *,
        missing: Callable[[FlavourKey], bool],
        clock: Clock,
    ) -> None:
        self._client = client
        self._catalogues = catalogues
        self._missing = missing
        self._clock = clock
        self._notes: dict[Place, FlavourKey] = {}
        self._each: Counter[str] = Counter()
        self._times: dict[Place, float] = {}  # when a place was last written; those that were longest ago come first
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        catalogues.index(BY_CREDENTIAL, lambda one: (one.spec.credential,))

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name="machine catalogue requests")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def note(self, lookup: FlavourKey) -> None:
        """Has a place asked, soon, and not again for a while."""
        place = lookup.place
        if place in self._notes:
            self._notes[place] = lookup
        elif len(self._notes) < MOST_NOTES and self._each[place.credential] < MOST_NOTES_EACH:
            self._notes[place] = lookup
            self._each[place.credential] += 1
            self._woken.set()

    async def _run(self) -> None:
        while True:
            self._woken.clear()
            wait, place = min(((self._wait(one), one) for one in self._notes), default=(None, None))
            if place is None or wait:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._woken.wait(), wait)
                continue
            lookup = self._taken(place)
            if self._missing(lookup):
                await self._write(place)
                await asyncio.sleep(BETWEEN_WRITES)

    def _wait(self, place: Place) -> float:
        """Seconds until a place may be written again; less than a moment is none, else clocks that disagree would spin."""
        wait = self._times.get(place, -BETWEEN) + BETWEEN - self._clock.monotonic()
        return wait if wait > _MOMENT else 0.0

    def _taken(self, place: Place) -> FlavourKey:
        self._each[place.credential] -= 1
        self._each += Counter()  # without those that are 0
        return self._notes.pop(place)

    async def _write(self, place: Place) -> None:
        self._times.pop(place, None)
        self._times[place] = self._clock.monotonic()
        if len(self._times) > MOST_TIMES:
            del self._times[next(iter(self._times))]
        try:
            await self._ask(place)
        except UllageError as error:  # whoever asks next has it tried again
            logger.warning("a machine size could not be asked for", extra={"place": str(place), "error": str(error)})
        except Exception:  # a bug: other places are asked for all the same
            logger.exception("a machine size could not be asked for", extra={"place": str(place)})

    async def _ask(self, place: Place) -> None:
        wanted = micro_timestamp(self._clock.now())
        found = self._catalogues.get(Key("", catalogue_name(place)))
        if found is not None:
            if not is_manual(found):
                merge = {"metadata": {"annotations": {WANTED: wanted}}}
                await self._client.patch(CATALOGUES, found.metadata.name, merge=merge, uid=found.metadata.uid)
        elif self._full(place.credential):
            logger.warning("a credential has too many places: no more are asked", extra={"place": str(place)})
        else:
            with contextlib.suppress(AlreadyExists):
                await self._client.create(CATALOGUES, empty_catalogue(place, wanted=wanted))

    def _full(self, credential: str) -> bool:
        found = self._catalogues.by(BY_CREDENTIAL, credential)
        return len(found) >= MOST_PLACES or sum(map(unanswered, found)) >= MOST_EMPTY


WATCHES: Final = (CATALOGUES, *sites.WATCHES)
WRITES: Final = (Write(CATALOGUES, ("create", "patch")),)


class StoredCatalogue:
    """What is known of all places, kept true by a cache."""

    def __init__(self, catalogues: Cache[MachineCatalogue]) -> None:
        self._objects: dict[Place, dict[str, MachineCatalogue]] = {}
        self._places: dict[Place, Known] = {}
        self.catalogue: Final = Catalogue(self._places)
        catalogues.handle(self._changed)

    def lacks(self, lookup: FlavourKey) -> bool:
        return self.catalogue.find(lookup) is None

    def _changed(self, old: MachineCatalogue | None, new: MachineCatalogue | None) -> None:
        if old is not None:
            objects = self._objects.get(place_of(old), {})
            objects.pop(old.metadata.name, None)
            self._merge(place_of(old))
        if new is not None:
            self._objects.setdefault(place_of(new), {})[new.metadata.name] = new
            self._merge(place_of(new))

    def _merge(self, place: Place) -> None:
        objects = self._objects.get(place)
        if objects:
            self._places[place] = merged(objects.values())
        else:
            self._objects.pop(place, None)
            self._places.pop(place, None)


class CatalogueSizes:
    """`site` says where machines of a cluster are made."""

    def __init__(self, stored: StoredCatalogue, site: Callable[[str], Site], requests: LookupRequests) -> None:
        self._catalogue = stored.catalogue
        self._site = site
        self._requests = requests

    def size_of(self, cluster: str, provider_spec: Any) -> Amounts | Unknown:
        """What a machine of a user cluster takes; Unknown: nobody can tell now. Raises BadInput, which names the field."""
        return machine.size_of(provider_spec, self._catalogue, site=self._site(cluster))

    def want(self, lookup: FlavourKey) -> None:
        """Has the background look a flavour up."""
        self._requests.note(lookup)


def stored_catalogue(wiring: Wiring) -> StoredCatalogue:
    """For `Wiring.shared`."""
    return StoredCatalogue(wiring.cache(CATALOGUES))


@dataclass(frozen=True, slots=True)
class SizesWith:
    """For `Wiring.shared`: the sizes for a part that declares WATCHES and WRITES. `namespace` is that of `sites.SitesWith`."""

    namespace: str

    def __call__(self, wiring: Wiring) -> CatalogueSizes:
        stored = wiring.shared(stored_catalogue)
        requests = LookupRequests(wiring.client, wiring.cache(CATALOGUES), missing=stored.lacks, clock=wiring.clock)
        wiring.hold(requests)
        return CatalogueSizes(stored, wiring.shared(sites.SitesWith(self.namespace)), requests)
