"""How VMs read in a terminal. Pure: the time is an argument."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from ullage.cli.common.listing import Table
from ullage.cli.common.text import NONE, age, plain
from ullage.kube.objects import find_condition
from ullage.vms.api.machines import VIRTUAL_MACHINES, VirtualMachine
from ullage.vms.claims import claims_of
from ullage.vms.lifecycle import run_strategy

COLUMNS: Final = ("NAME", "STATUS", "READY", "STRATEGY", "VOLUMES", "AGE")
WIDE: Final = ("CLAIMS", "MESSAGE")


def in_order(found: Sequence[VirtualMachine]) -> list[VirtualMachine]:
    return sorted(found, key=lambda one: (one.metadata.namespace, one.metadata.name))


def layout(*, wide: bool = False, namespaces: bool = False) -> Table[VirtualMachine]:
    def cells(one: VirtualMachine, now: datetime) -> tuple[str, ...]:
        meta, claims = one.metadata, claims_of(one)
        found: tuple[str, ...] = (
            *((meta.namespace,) if namespaces else ()),
            meta.name,
            plain(one.status.printable_status) or NONE,
            "True" if one.status.ready else "False",
            plain(run_strategy(one)),
            str(len(claims)),
            age(meta.creation_timestamp, now),
        )
        return (*found, plain(",".join(claims)) or NONE, problem(one) or NONE) if wide else found

    return Table(
        head=(*(("NAMESPACE",) if namespaces else ()), *COLUMNS, *(WIDE if wide else ())),
        cells=cells,
        name=lambda one: f"{VIRTUAL_MACHINES.kind.lower()}.{VIRTUAL_MACHINES.group}/{one.metadata.name}",
        uid=lambda one: one.metadata.uid,
        body=lambda one: {
            "apiVersion": VIRTUAL_MACHINES.api_version,
            "kind": VIRTUAL_MACHINES.kind,
            **msgspec.to_builtins(one),
        },
        state="STATUS",
    )


def problem(machine: VirtualMachine) -> str:
    """What is wrong, or is to be known: the first of the conditions that are there only then."""
    for kind in ("Failure", "RestartRequired"):
        found = find_condition(machine.status.conditions, kind)
        if found is not None and found.status == "True":
            return plain(found.message or found.reason)
    return ""
