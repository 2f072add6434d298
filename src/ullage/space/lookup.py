"""Claims, volumes, engines and virtual machines, as a decision about a snapshot's space needs them.

The caches answer; what they do not have yet is asked of the API, since a claim may be a moment old. What is missing there, too,
is missing: nothing here fails because of a claim that waits for its volume, or a volume of a driver that nobody knows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

from ullage.engines.api import ENGINE_SNAPSHOTS, ENGINES, RUNNING, Engine
from ullage.engines.handles import NAMESPACE as ENGINE_NAMESPACE
from ullage.engines.handles import engine_volume
from ullage.engines.model import active_engine, kept_below
from ullage.kube.builtin.core import CLAIMS, PERSISTENT_VOLUMES, PersistentVolume
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.interface import Finder
from ullage.kube.kinds import Meta, Object
from ullage.kube.slices import Wiring
from ullage.names import is_subdomain
from ullage.space.estimates import VolumeFacts, belong_together
from ullage.vms.api.machines import VIRTUAL_MACHINES, VirtualMachine
from ullage.vms.claims import claims_of

WATCHES: Final = (CLAIMS, PERSISTENT_VOLUMES, ENGINES, ENGINE_SNAPSHOTS, VIRTUAL_MACHINES)
_HANDLE: Final = "space: engine volume of a PersistentVolume"
_VOLUME: Final = "space: volume of an engine"
_CLAIM: Final = "space: claim of a virtual machine"

T = TypeVar("T", bound=Object)


class SpaceLookup:
    def __init__(self, wiring: Wiring) -> None:
        """To be made while a part is that declares `WATCHES`, through `wiring.shared`."""
        self._client: Finder = wiring.client
        self._claims = wiring.cache(CLAIMS)
        self._volumes = wiring.cache(PERSISTENT_VOLUMES)
        self._engines = wiring.cache(ENGINES)
        self._entries = wiring.cache(ENGINE_SNAPSHOTS)
        self._machines = wiring.cache(VIRTUAL_MACHINES)
        self._volumes.index(_HANDLE, _engine_volumes)
        self._engines.index(_VOLUME, _volume_names)
        self._machines.index(_CLAIM, _claims_of)

    async def of_claim(self, namespace: str, name: str) -> VolumeFacts:
        claim = await self._find(self._claims, Key(namespace, name)) if name else None
        if claim is None:
            return VolumeFacts()
        volume = await self._find(self._volumes, Key("", claim.spec.volume_name)) if claim.spec.volume_name else None
        if volume is None or not belong_together(claim, volume):
            return VolumeFacts(claim=claim)
        engine = self.engine_of(engine_volume(volume))
        return VolumeFacts(claim=claim, volume=volume, engine=engine, unpaid=await self._unpaid(engine))

    async def _unpaid(self, engine: Engine | None) -> int:
        """What a restored volume was made with has no object before it is attached, so nobody pays for it: the volume's first
        snapshot does."""
        if engine is None or engine.status.current_state == RUNNING:
            return 0
        below = kept_below(engine)
        shown = [name for name in below if is_subdomain(name) and await self._find(self._entries, Key(ENGINE_NAMESPACE, name))]
        return sum(size for name, size in below.items() if name not in shown)

    def engine_of_claim(self, namespace: str, name: str) -> Engine | None:
        """The engine behind a claim, as far as the caches show it: for words, not for amounts."""
        claim = self._claims.get(Key(namespace, name)) if name else None
        volume = self._volumes.get(Key("", claim.spec.volume_name)) if claim is not None and claim.spec.volume_name else None
        if claim is None or volume is None or not belong_together(claim, volume):
            return None
        return self.engine_of(engine_volume(volume))

    async def of_engine_volume(self, name: str) -> VolumeFacts:
        """The PersistentVolume of an engine's volume, which names its claim. Of two, the first that has one. One that is a
        moment old is found by its name, which is the volume's wherever Longhorn makes both."""
        found = sorted(self._volumes.by(_HANDLE, name), key=lambda one: (one.spec.claim_ref is None, one.metadata.name))
        if not found and is_subdomain(name):
            asked = await self._client.find(PERSISTENT_VOLUMES, name)
            found = [asked] if asked is not None and engine_volume(asked) == name else []
        return VolumeFacts(volume=found[0] if found else None, engine=self.engine_of(name))

    def engine_of(self, volume: str) -> Engine | None:
        """The engine that serves a volume; of two, while it migrates, the active one."""
        return active_engine(self._engines.by(_VOLUME, volume)) if volume else None

    async def machine(self, namespace: str, name: str) -> VirtualMachine | None:
        return await self._find(self._machines, Key(namespace, name)) if is_subdomain(name) else None

    def machines_using(self, namespace: str, claim: str) -> list[Meta]:
        """The virtual machines that reference a claim now."""
        return [one.metadata for one in self._machines.by(_CLAIM, str(Key(namespace, claim)))] if claim else []

    async def _find(self, cache: Cache[T], key: Key) -> T | None:
        return cache.get(key) or await self._client.find(cache.kind, key.name, key.namespace)


def _engine_volumes(volume: PersistentVolume) -> Iterable[str]:
    return filter(None, (engine_volume(volume),))


def _volume_names(engine: Engine) -> Iterable[str]:
    return (engine.spec.volume_name,) if engine.metadata.namespace == ENGINE_NAMESPACE else ()


def _claims_of(machine: VirtualMachine) -> Iterable[str]:
    return (str(Key(machine.metadata.namespace, claim)) for claim in claims_of(machine))
