"""What `ullage vm list` reads and prints, once its options are understood."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from ullage.cli.common.listing import ChangingTable, shown
from ullage.cli.common.options import OutputFormat
from ullage.cli.common.session import Session
from ullage.cli.common.watching import followed
from ullage.cli.vm.options import Target
from ullage.cli.vm.reading import find_machines, require_served
from ullage.cli.vm.text import in_order, layout
from ullage.clock import SystemClock
from ullage.kube.cache.reflector import Selection
from ullage.kube.errors import NotFound
from ullage.vms.api.machines import VIRTUAL_MACHINES, VirtualMachine


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFilter:
    named: Sequence[Target] = ()
    labels: str = ""
    everywhere: bool = False

    def namespace(self, session: Session) -> str:
        """The one that they are all in; empty: all."""
        places = {one.within(session.namespace).namespace for one in self.named} or {session.namespace}
        return places.pop() if len(places) == 1 and not self.everywhere else ""

    def takes(self, session: Session, one: VirtualMachine) -> bool:
        meta = one.metadata
        return not self.named or Target(meta.namespace, meta.name) in [one.within(session.namespace) for one in self.named]


async def show(session: Session, wanted: MachineFilter, output: OutputFormat) -> None:
    found = in_order(await _read(session, wanted))
    place = wanted.namespace(session)
    if output.is_table and not found:
        where = f"in namespace {place}" if place else "in any namespace"
        print(f"ullage: there are no VMs {where}", file=sys.stderr)
    elif found or output.name != "name":
        table = layout(wide=output.is_wide, namespaces=not place)
        print(shown(found, table, output, now=SystemClock().now(), single=len(wanted.named) == 1))


async def watch(session: Session, wanted: MachineFilter, output: OutputFormat) -> None:
    """Until it is interrupted."""
    if wanted.named:
        await find_machines(session, wanted.named)  # a name that is not there is a mistake, and not something to wait for
    else:
        await require_served(session.client)
    clock, place = SystemClock(), wanted.namespace(session)
    table = ChangingTable(layout(wide=output.is_wide, namespaces=not place), output, write=partial(print, flush=True))
    async with followed(session.client, [Selection(VIRTUAL_MACHINES, place, wanted.labels)]) as follow:
        there = [change.obj for change in follow.there if wanted.takes(session, change.obj)]
        table.begin(in_order(there), clock.now())
        async for change in follow.changes():
            if wanted.takes(session, change.obj):
                table.change(change.obj, clock.now(), gone=change.gone)


async def _read(session: Session, wanted: MachineFilter) -> list[VirtualMachine]:
    if wanted.named:
        return [one.machine for one in await find_machines(session, wanted.named)]
    try:
        return (await session.client.list(VIRTUAL_MACHINES, wanted.namespace(session), labels=wanted.labels)).items
    except NotFound:
        await require_served(session.client)
        raise
