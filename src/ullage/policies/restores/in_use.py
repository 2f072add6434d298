"""Snapshots that restores read: a mark on each keeps limits and retention from deleting it before the restore is done.

It is on the snapshot itself, where whoever would delete looks; and whoever has looked before it came is refused, since such a
deletion is on condition of the version. People may delete the snapshot all the same: then the restore fails, and nothing has
changed. A mark whose restore is done, or gone by whatever way, is taken off.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

from ullage.kube.cache.indexer import Key
from ullage.kube.client.conditional import patch_seen
from ullage.kube.client.interface import Patcher
from ullage.kube.controller.controller import Source
from ullage.kube.errors import NotFound
from ullage.policies.restores.api import SnapshotRestore
from ullage.snapshots.lookup import SnapshotLookup
from ullage.snapshots.model import READ_BY

BY_READER: Final = "restore that reads a snapshot"


class SnapshotsInUse:
    def __init__(self, client: Patcher, lookups: Sequence[SnapshotLookup]) -> None:
        self._client = client
        self._lookups = {lookup.dialect.snapshots.group: lookup for lookup in lookups}
        for lookup in lookups:
            lookup.snapshots.index(BY_READER, lambda one: map(str, readers_of(one)))

    def sources(self) -> Iterable[Source[Any, Key]]:
        return [Source(lookup.snapshots, readers_of) for lookup in self._lookups.values()]

    async def hold(self, restore: SnapshotRestore) -> None:
        """From now on its snapshot is in use."""
        meta, source = restore.metadata, restore.spec.source
        lookup = self._lookups[source.api_group]
        seen, mark = lookup.snapshots.get(Key(meta.namespace, source.name)), f"{meta.name}/{meta.uid}"
        if seen is not None and seen.metadata.annotations.get(READ_BY) != mark:
            await self._write(lookup, seen, mark)

    async def release(self, key: Key, *, but: str = "") -> None:
        """No snapshot is in use by restores of this name, but for the one with the uid `but`."""
        for lookup in self._lookups.values():
            for seen in lookup.snapshots.by(BY_READER, str(key)):
                if seen.metadata.annotations[READ_BY] != f"{key.name}/{but}":
                    await self._write(lookup, seen, None)

    async def _write(self, lookup: SnapshotLookup, seen: Any, mark: str | None) -> None:
        with suppress(NotFound):
            await patch_seen(self._client, lookup.dialect.snapshots, seen, {"metadata": {"annotations": {READ_BY: mark}}})


def readers_of(snapshot: Any) -> Iterable[Key]:
    """The restore that a snapshot says it is read by, if any."""
    name, _, uid = snapshot.metadata.annotations.get(READ_BY, "").partition("/")
    return (Key(snapshot.metadata.namespace, name),) if uid else ()
