"""How usage reads in a terminal. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from ullage.cli.common.listing import Table
from ullage.cli.common.text import NONE, free_bytes
from ullage.kube.objects import Json
from ullage.space.quota import spelled

GroupBy = Literal["namespace", "vm", "volume"]

_NOTHING: Final[Mapping[GroupBy, str]] = {
    "namespace": "no snapshot takes anything, and nothing is limited",
    "vm": "no virtual machine has snapshots that take anything, or a limit",
    "volume": "no volume has snapshots",
}
_SHORT: Final = {"vm": "vm", "volume": "pvc"}


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """Bytes; None: nobody says, or there is no limit. `used` is what is there, `reserved` what was admitted and is not yet."""

    namespace: str
    name: str = ""  # of the virtual machine or the claim
    used: int = 0
    reserved: int | None = None
    limit: int | None = None
    snapshots: int | None = None

    @property
    def free(self) -> int | None:
        return None if self.limit is None else self.limit - self.used - (self.reserved or 0)


def nothing(group: GroupBy, *, complete: bool, labels: str = "", selected: bool = True) -> str:
    """What is said where there are no rows. Where not everything could be read, there may be some all the same. `selected`:
    whether any namespace has the labels that were asked for."""
    if not selected:
        return f"no namespace has the labels {labels}"
    said = _NOTHING[group] if complete else "nothing is known besides"
    return f"of namespaces with the labels {labels}: {said}" if labels else said


def layout(
    group: GroupBy, compute: Mapping[str, Json] | None = None, counts: Mapping[str, Json] | None = None
) -> Table[UsageRow]:
    """What is said besides, by namespace, for programs: `compute` of VMs, `counts` of the number of snapshots."""
    more = {"snapshotCount": counts or {}, "compute": compute or {}}

    def cells(one: UsageRow, now: datetime) -> tuple[str, ...]:
        if group == "volume":
            return one.namespace, one.name, str(one.snapshots or 0), spelled(one.used)
        reserved = NONE if one.reserved is None else spelled(one.reserved)
        limit = "none" if one.limit is None else spelled(one.limit, down=True)
        names = (one.namespace,) if group == "namespace" else (one.namespace, one.name)
        return *names, spelled(one.used), reserved, limit, free_bytes(one.free), _share(one)

    head: dict[GroupBy, tuple[str, ...]] = {
        "namespace": ("NAMESPACE", "USED", "RESERVED", "LIMIT", "FREE", "%"),
        "vm": ("NAMESPACE", "VM", "USED", "RESERVED", "LIMIT", "FREE", "%"),
        "volume": ("NAMESPACE", "VOLUME", "SNAPSHOTS", "USED"),
    }
    return Table(
        head=head[group],
        cells=cells,
        name=lambda one: f"ns/{one.namespace}" if group == "namespace" else f"{_SHORT[group]}/{one.namespace}/{one.name}",
        uid=lambda one: f"{one.namespace}/{one.name}",
        body=lambda one: {
            **_body(one, group),
            **{name: said[one.namespace] for name, said in more.items() if one.namespace in said},
        },
        state="USED",
    )


def _body(one: UsageRow, group: GroupBy) -> Json:
    """For programs: bytes. What is not known, or does not apply, is left out."""
    place: Json = {"namespace": one.namespace}
    if group != "namespace":
        place[group] = one.name
    amounts = {"used": one.used, "reserved": one.reserved, "limit": one.limit, "free": one.free, "snapshots": one.snapshots}
    return {**place, **{name: amount for name, amount in amounts.items() if amount is not None}}


def _share(one: UsageRow) -> str:
    if not one.limit:
        return NONE
    return str((one.used + (one.reserved or 0)) * 100 // one.limit)
