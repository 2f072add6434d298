"""The sizes of machines, from the MachineCatalogue objects of the seed: what admission and the controllers ask.

The catalogue is kept by a handler of the cache as objects come and go, so that an answer takes a few look-ups in memory. What
is not in it is asked for in the background.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ullage.kube.cache.cache import Cache
from ullage.kube.slices import Wiring, Write
from ullage.ledger.amounts import Amounts
from ullage.projects.api.catalogues import CATALOGUES, MachineCatalogue
from ullage.projects.sizes import machine, sites
from ullage.projects.sizes.catalogue import Catalogue, FlavourKey, Known, Place
from ullage.projects.sizes.lookups import Site, Unknown
from ullage.projects.sizes.requests import LookupRequests
from ullage.projects.sizes.stored import merged, place_of

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
