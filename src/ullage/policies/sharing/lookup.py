"""The caches, read in this slice's terms: shares of a source, and what they have made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from ullage.kube.builtin.core import NAMESPACES
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.kinds import Object
from ullage.kube.slices import Wiring
from ullage.policies.sharing.api import SHARES, SnapshotShare
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.prototype.translation import PROTOTYPE
from ullage.snapshots.model import SHARED_BY, Dialect, Record, Snapshot

DIALECTS: Final[dict[str, Dialect[Any, Any]]] = {GA.name: GA, PROTOTYPE.name: PROTOTYPE}
BY_SOURCE: Final = "source of a share"


@dataclass(frozen=True, slots=True)
class ShareLookup:
    shares: Cache[SnapshotShare]
    namespaces: Cache[Object]
    snapshots: dict[str, Cache[Any]]  # by dialect
    records: dict[str, Cache[Any]]  # by dialect

    def __post_init__(self) -> None:
        self.shares.index(BY_SOURCE, lambda one: (_place(one.spec.dialect, one.spec.source.namespace, one.spec.source.name),))

    def snapshot(self, dialect: str, namespace: str, name: str) -> Snapshot | None:
        found = self.snapshots[dialect].get(Key(namespace, name))
        return DIALECTS[dialect].read_snapshot(found) if found is not None else None

    def record(self, dialect: str, name: str) -> Record | None:
        found = self.records[dialect].get(Key("", name)) if name else None
        return DIALECTS[dialect].read_record(found) if found is not None else None

    # --- who is woken ---

    def of_snapshot(self, dialect: str, obj: Any) -> Iterable[Key]:
        """The shares that give a snapshot, and the one that gave it."""
        meta = obj.metadata
        for share in self.shares.by(BY_SOURCE, _place(dialect, meta.namespace, meta.name)):
            yield key_of(share)
        record = self.record(dialect, DIALECTS[dialect].read_snapshot(obj).imported_record)
        if record is not None:
            yield from _of_record(record.meta.annotations.get(SHARED_BY, ""))

    def of_record(self, dialect: str, obj: Any) -> Iterable[Key]:
        yield from _of_record(obj.metadata.annotations.get(SHARED_BY, ""))
        ref = DIALECTS[dialect].read_record(obj).ref
        for share in self.shares.by(BY_SOURCE, _place(dialect, ref.namespace, ref.name)):
            yield key_of(share)

    def of_namespace(self, namespace: Object) -> Iterable[Key]:
        """Those that name it, or may select it, or have given it something."""
        name = namespace.metadata.name
        for share in self.shares.items():
            targets = share.spec.targets
            if targets.match_labels or name in targets.namespaces or any(one.namespace == name for one in share.status.targets):
                yield key_of(share)


def _of_record(share: str) -> Iterable[Key]:
    return (Key("", share),) if share else ()


def _place(dialect: str, namespace: str, name: str) -> str:
    return f"{dialect}/{namespace}/{name}"


def share_lookup(wiring: Wiring) -> ShareLookup:
    """Through `wiring.shared`: once for each wiring, since indexes have names."""
    return ShareLookup(
        wiring.cache(SHARES),
        wiring.cache(NAMESPACES),
        {name: wiring.cache(dialect.snapshots) for name, dialect in DIALECTS.items()},
        {name: wiring.cache(dialect.records) for name, dialect in DIALECTS.items()},
    )
