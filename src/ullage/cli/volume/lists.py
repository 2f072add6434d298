"""What `ullage volume list` reads and prints, once its options are understood."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from ullage.cli.common.listing import ChangingTable, shown
from ullage.cli.common.options import OutputFormat
from ullage.cli.volume import watching
from ullage.cli.volume.reading import FoundVolume, Named, find_volume, list_volumes
from ullage.cli.volume.text import in_order, layout
from ullage.clock import SystemClock
from ullage.kube.client.client import Client


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeFilter:
    """`namespace` is that of the claims; None for all, those without a claim too."""

    named: Sequence[Named] = ()
    namespace: str | None = None
    labels: str = ""

    def takes(self, one: FoundVolume) -> bool:
        if self.named:
            return any(named in (Named("", one.volume.metadata.name), _claim(one)) for named in self.named)
        return self.namespace in (None, one.namespace)


def _claim(one: FoundVolume) -> Named:
    namespace, _, name = one.claim.partition("/")
    return Named(namespace, name)


async def show(client: Client, wanted: VolumeFilter, output: OutputFormat) -> None:
    if wanted.named:
        found = [await find_volume(client, one) for one in wanted.named]
    else:
        answer = await list_volumes(client, labels=wanted.labels)
        for note in answer.notes:
            print(f"ullage: note: {note}", file=sys.stderr)
        found = in_order([one for one in answer.found if wanted.takes(one)])
    if output.is_table and not found:
        where = f" in namespace {wanted.namespace}" if wanted.namespace else ""
        print(f"ullage: there are no volumes of engines{where}", file=sys.stderr)
    elif found or output.name != "name":
        single = len(wanted.named) == 1
        print(shown(found, layout(wide=output.is_wide), output, now=SystemClock().now(), single=single))


async def watch(client: Client, wanted: VolumeFilter, output: OutputFormat) -> None:
    """Until it is interrupted."""
    for one in wanted.named:
        await find_volume(client, one)  # a name that is not there is a mistake, and not something to wait for
    table = ChangingTable(layout(wide=output.is_wide), output, write=partial(print, flush=True))
    await watching.watch(client, table, labels=wanted.labels, wanted=wanted.takes, clock=SystemClock())
