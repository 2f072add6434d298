"""`ullage volume list -w`: a row whenever a volume, its engine or its claim makes it read otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ullage.cli.common.listing import ChangingTable
from ullage.cli.common.watching import Change, followed
from ullage.cli.volume.reading import FoundVolume, claims_by_volume, claims_of, together
from ullage.cli.volume.text import in_order
from ullage.clock import Clock
from ullage.engines import api as longhorn
from ullage.engines.handles import NAMESPACE
from ullage.kube.builtin import core
from ullage.kube.cache.reflector import Selection
from ullage.kube.client.client import Client
from ullage.kube.errors import Forbidden


class _SeenVolumes:
    """What is known by now of each kind, by name."""

    def __init__(self, wanted: Callable[[FoundVolume], bool]) -> None:
        self._wanted = wanted
        self._volumes: dict[str, longhorn.Volume] = {}
        self._engines: dict[str, longhorn.Engine] = {}
        self._persistent: dict[str, core.PersistentVolume] = {}

    def put(self, change: Change) -> None:
        by_kind: dict[str, dict[str, Any]] = {
            longhorn.VOLUMES.name: self._volumes,
            longhorn.ENGINES.name: self._engines,
            core.PERSISTENT_VOLUMES.name: self._persistent,
        }
        held = by_kind[change.kind.name]
        if change.gone:
            held.pop(change.obj.metadata.name, None)
        else:
            held[change.obj.metadata.name] = change.obj

    def by_uid(self) -> dict[str, FoundVolume]:
        found = together(self._volumes.values(), self._engines.values(), claims_of(self._persistent.values()))
        return {one.volume.metadata.uid: one for one in found if self._wanted(one)}


async def watch(
    client: Client, table: ChangingTable[FoundVolume], *, labels: str, wanted: Callable[[FoundVolume], bool], clock: Clock
) -> None:
    """Until it is interrupted."""
    selections: list[Selection[Any]] = [
        Selection(longhorn.VOLUMES, NAMESPACE, labels),
        Selection(longhorn.ENGINES, NAMESPACE),
    ]
    if not isinstance(await claims_by_volume(client), Forbidden):
        selections.append(Selection(core.PERSISTENT_VOLUMES))
    seen = _SeenVolumes(wanted)
    async with followed(client, selections) as follow:
        for change in follow.there:
            seen.put(change)
        shown = seen.by_uid()
        table.begin(in_order(list(shown.values())), clock.now())
        async for change in follow.changes():
            seen.put(change)
            now = seen.by_uid()
            for uid, one in now.items():
                if shown.get(uid) != one:
                    table.change(one, clock.now())
            for uid in shown.keys() - now.keys():
                table.change(shown[uid], clock.now(), gone=True)
            shown = now
