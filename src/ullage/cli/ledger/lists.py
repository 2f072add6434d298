"""What `ullage ledger list` reads and prints, once its options are understood."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

from ullage.cli.common.listing import ChangingTable, shown
from ullage.cli.common.options import OutputFormat
from ullage.cli.common.watching import followed
from ullage.cli.ledger.text import layout
from ullage.clock import SystemClock
from ullage.kube.cache.reflector import Selection
from ullage.kube.client.client import Client
from ullage.ledger.api import LEDGERS, NAMESPACE, Ledger


async def show(client: Client, named: Sequence[str], output: OutputFormat, *, labels: str) -> None:
    found = _in_order(await _read(client, named, labels))
    if output.is_table and not found:
        print("ullage: there are no ledgers: nothing is limited", file=sys.stderr)
    elif found or output.name != "name":
        print(shown(found, layout(wide=output.is_wide), output, now=SystemClock().now(), single=len(named) == 1))


async def watch(client: Client, named: Sequence[str], output: OutputFormat, *, labels: str) -> None:
    """Until it is interrupted."""
    await _read(client, named, labels)  # a name that is not there is a mistake, and not something to wait for
    clock, wanted = SystemClock(), frozenset(named)
    table = ChangingTable(layout(wide=output.is_wide), output, write=partial(print, flush=True))
    async with followed(client, [Selection(LEDGERS, NAMESPACE, labels)]) as follow:
        there = [change.obj for change in follow.there if not wanted or change.obj.metadata.name in wanted]
        table.begin(_in_order(there), clock.now())
        async for change in follow.changes():
            if not wanted or change.obj.metadata.name in wanted:
                table.change(change.obj, clock.now(), gone=change.gone)


async def _read(client: Client, named: Sequence[str], labels: str) -> list[Ledger]:
    if named:
        return [await client.get(LEDGERS, name, NAMESPACE) for name in named]
    return (await client.list(LEDGERS, NAMESPACE, labels=labels)).items


def _in_order(found: Sequence[Ledger]) -> list[Ledger]:
    return sorted(found, key=lambda one: one.metadata.name)
