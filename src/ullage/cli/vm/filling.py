"""`ullage vm fill`: random blocks over the volumes of a VM, whether it runs or not.

All its volumes are found, and held attached, before the first byte is written; whether the machine has room for it all is
looked at too. An end at any moment leaves what was written, and nothing else: what holds a volume attached is given back, or
runs out by itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from ullage.cli.common.session import Missing, Session
from ullage.cli.common.text import size
from ullage.cli.common.waiting import CopyLines, Failed, ProgressOutput
from ullage.cli.vm.disks import PIECE, SYNC_EVERY, Disk, OpenDisk, disks_of
from ullage.cli.vm.options import Amount, Target
from ullage.cli.vm.reading import FoundMachine, find_machine
from ullage.clock import Clock, SystemClock
from ullage.vms.api.machines import MachineVolume
from ullage.vms.claims import volumes_of


@dataclass(frozen=True, slots=True)
class Share:
    """What one disk gets."""

    disk: Disk
    opened: OpenDisk
    count: int


async def fill(
    session: Session,
    target: Target,
    *,
    only: str | None,
    amount: Amount,
    new_id: Callable[[], str],
    clock: Clock | None = None,
    output: ProgressOutput | None = None,
) -> None:
    """`only` names one of its volumes. `new_id` gives what nobody else has."""
    clock, output = clock or SystemClock(), output or ProgressOutput()
    found = await find_machine(session, target)
    disks = await disks_of(session.client, found.target.namespace, _volumes(found, only))
    async with AsyncExitStack() as stack:
        shares = []
        for disk in disks:
            opened = await stack.enter_async_context(disk.opened(session.client, ticket=new_id(), clock=clock))
            shares.append(Share(disk, opened, amount.of(disk.size)))
        require_room(found.target, shares, free=_free)
        with output.spinning(f"filling VM {found.target}"):
            for share in shares:
                await _fill(share, output, clock)
    count = f"{len(shares)} volume{'' if len(shares) == 1 else 's'}"
    print(f"{found.shown}: {size(sum(one.count for one in shares))} of random data written over {count}")


def _volumes(found: FoundMachine, only: str | None) -> list[MachineVolume]:
    volumes = list(volumes_of(found.machine))
    if only is None:
        if not volumes:
            raise Missing(f"VM {found.target} has no volume with a claim: there is nothing to fill")
        return volumes
    chosen = [one for one in volumes if one.name == only]
    if not chosen:
        names = ", ".join(one.name for one in volumes) or "none"
        raise Missing(f"VM {found.target} has no volume {only} with a claim; it has: {names}")
    return chosen


def require_room(target: Target, shares: Sequence[Share], *, free: Callable[[Path], tuple[int, int]]) -> None:
    """`free` tells of a directory which file system it is on, and how many bytes that has left."""
    wanted: dict[int, int] = {}
    left: dict[int, int] = {}
    for share in shares:
        device, room = free(share.opened.lies_in)
        wanted[device] = wanted.get(device, 0) + share.count
        left[device] = room
    for device, count in wanted.items():
        if count > left[device]:
            raise Failed(
                f"VM {target}: nothing was written, since {size(count)} may be needed and this machine has "
                f"{size(left[device])} left; write less with --bytes or --percent"
            )


def _free(path: Path) -> tuple[int, int]:
    found = os.statvfs(path)
    return os.stat(path).st_dev, found.f_bavail * found.f_frsize


async def _fill(share: Share, output: ProgressOutput, clock: Clock) -> None:
    lines = CopyLines()
    lines.worth(share.disk.volume, "begun", clock.monotonic())
    for number, start in enumerate(range(0, share.count, PIECE), start=1):
        end = min(start + PIECE, share.count)
        sync = end == share.count or number % SYNC_EVERY == 0
        await share.opened.write(os.urandom(end - start), offset=start, sync=sync)
        told = f"{size(end)} of {size(share.count)} written"
        output.under_way(f"{share.disk.volume}: {told}")
        if lines.worth(share.disk.volume, told, clock.monotonic()):
            output.line(f"{share.disk.volume}: {told}")
    whole = f" of {size(share.disk.size)}" if share.count < share.disk.size else ""
    output.line(f"{share.disk.volume}: {size(share.count)}{whole} written, claim {share.disk.claim}")
