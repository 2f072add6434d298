"""The caches, read in this slice's terms: which snapshots a volume has, and which engine serves it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ullage.engines.api import ENGINE_SNAPSHOTS, ENGINES, VOLUMES, Engine, Snapshot, Volume
from ullage.engines.model import SnapshotFacts, belongs_to
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.slices import Wiring

_VOLUME = "volume"
_NODE = "node"


@dataclass(frozen=True, slots=True)
class Lookup:
    snapshots: Cache[Snapshot]
    volumes: Cache[Volume]
    engines: Cache[Engine]

    def snapshots_named(self, volume: Key) -> list[Snapshot]:
        """Those that name the volume, of whichever volume of the name they are."""
        return self.snapshots.by(_VOLUME, str(volume))

    def snapshots_of(self, volume: Volume) -> Iterator[Snapshot]:
        """Those of this very volume."""
        return (one for one in self.snapshots_named(key_of(volume)) if belongs_to(one, volume))

    def engines_of(self, volume: Key) -> list[Engine]:
        return self.engines.by(_VOLUME, str(volume))

    def engines_on(self, node: str) -> list[Engine]:
        return self.engines.by(_NODE, node)

    def volume_of(self, engine: Engine) -> Volume | None:
        return self.volumes.get(volume_key(engine))

    def facts(self, snapshot: Snapshot) -> SnapshotFacts:
        key = Key(snapshot.metadata.namespace, snapshot.spec.volume)
        found, engines = self.volumes.get(key), self.engines_of(key)
        volume = found if found is not None and belongs_to(snapshot, found) else None
        if volume is None:
            return SnapshotFacts(snapshot=snapshot)
        engine = engines[0] if len(engines) == 1 else None
        return SnapshotFacts(snapshot=snapshot, volume=volume, engine=engine, migrating=len(engines) > 1)

    def keys_named(self, volume: Key) -> Iterable[Key]:
        return (key_of(one) for one in self.snapshots_named(volume))


def volume_key(engine: Engine) -> Key:
    return Key(engine.metadata.namespace, engine.spec.volume_name)


def lookup_of(wiring: Wiring) -> Lookup:
    """Once for each wiring: indexes have names."""
    lookup = Lookup(wiring.cache(ENGINE_SNAPSHOTS), wiring.cache(VOLUMES), wiring.cache(ENGINES))
    lookup.snapshots.index(_VOLUME, lambda one: (str(Key(one.metadata.namespace, one.spec.volume)),))
    lookup.engines.index(_VOLUME, lambda one: (str(volume_key(one)),))
    lookup.engines.index(_NODE, lambda one: (one.spec.node_id,))
    return lookup
