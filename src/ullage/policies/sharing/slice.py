"""The slice as one value: shares of snapshots, for administrators. No role of a namespace has them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from ullage.kube.builtin.core import NAMESPACES
from ullage.kube.controller.controller import Controller
from ullage.kube.kinds import Kind
from ullage.kube.slices import Part, Slice, Wiring, Write
from ullage.policies.sharing.api import SHARES
from ullage.policies.sharing.controllers.share_grant import ShareController
from ullage.policies.sharing.lookup import DIALECTS, share_lookup

NAME: Final = "sharing"
WATCHES: Final[tuple[Kind[Any], ...]] = (
    SHARES,
    NAMESPACES,
    *(kind for dialect in DIALECTS.values() for kind in (dialect.snapshots, dialect.records)),
)
WRITES: Final = (
    Write(SHARES, ("patch",), ("", "status")),
    *(Write(dialect.snapshots, ("get", "create", "delete")) for dialect in DIALECTS.values()),
    *(Write(dialect.records, ("get", "create", "delete")) for dialect in DIALECTS.values()),
)


def sharing(drivers: Collection[str] = ()) -> Slice:
    """`drivers` are those whose snapshots are ours to delete: others cannot be shared."""
    return Slice(
        name=NAME,
        kinds=(SHARES,),
        controllers=Part(make=lambda wiring: make_controllers(wiring, drivers), watches=WATCHES, writes=WRITES, events=True),
    )


def make_controllers(wiring: Wiring, drivers: Collection[str]) -> list[Controller[Any]]:
    lookup, recorder = wiring.shared(share_lookup), wiring.recorder(NAME)
    made = ShareController(wiring.client, lookup, drivers=drivers, recorder=recorder, clock=wiring.clock)
    return [made.controller(metrics=wiring.metrics)]
