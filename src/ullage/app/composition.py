"""What the commands are composed of: the slices, and how to run ourselves."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ullage.app import drivers, vm_options

if TYPE_CHECKING:
    from ullage.kube.slices import Slice

PROGRAM = (sys.executable, "-m", "ullage")


@dataclass(frozen=True, slots=True)
class Composition:
    """`slices` is called only by commands that need them: importing them takes a while."""

    slices: Callable[[drivers.Chosen], Sequence[Slice]]
    program: Sequence[str] = PROGRAM


def compose(chosen: drivers.Chosen) -> Sequence[Slice]:
    """The slices of the product."""
    from ullage.engines.slice import engines
    from ullage.headroom.slice import headroom
    from ullage.ledger.slice import LEDGER
    from ullage.snapshots.slice import snapshots
    from ullage.space.slice import space
    from ullage.vms.slice import vms

    machines = vm_options.settings_of(chosen)
    return (
        LEDGER,
        engines(drivers.engines_of(chosen)),
        snapshots(drivers.options_of(chosen)),
        vms(machines),
        space(machines),
        headroom(vm_options.headroom_of(chosen)),
    )
