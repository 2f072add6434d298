"""`ullage vm cost`: what VMs of a file would cost, part by part. Pure but for the printing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ullage.cli.check.documents import Document
from ullage.cli.common.text import plain
from ullage.errors import BadInput
from ullage.ledger.amounts import spell
from ullage.quantity import Quantity
from ullage.vms.overhead import MI, Cost, Overhead, cost_of

KINDS = ("VirtualMachine", "VirtualMachineInstance")


def costs(documents: Sequence[Document], table: Overhead) -> list[tuple[Document, Cost]]:
    """Of the VMs among the objects of a file. Raises BadInput where there are none, or where one says what cannot be."""
    found = [(one, cost_of(_spec(one), table)) for one in documents if one.group == "kubevirt.io" and one.kind in KINDS]
    if not found:
        raise BadInput(
            "-f", ", ".join(one.shown for one in documents), f"there is no {' or '.join(KINDS)} of kubevirt.io in it"
        )
    return found


def _spec(document: Document) -> Mapping[str, Any]:
    spec = document.body.get("spec")
    if document.kind == "VirtualMachine":
        template = spec.get("template") if isinstance(spec, dict) else None
        spec = template.get("spec") if isinstance(template, dict) else None
    return spec if isinstance(spec, dict) else {}


def lines(document: Document, cost: Cost) -> Iterator[str]:
    """What it takes of its namespace's limits, and what that is made of."""
    cpu = spell("cpu", Quantity(cost.cpu * 10**6))
    yield f"{plain(document.shown)} costs {'no CPU' if cpu == '0' else cpu} and {_memory(cost.memory)} of memory"
    width = max(len(part.name) for part in cost.parts)
    for part in cost.parts:
        yield f"  {part.name:<{width}}  {_memory(part.memory):>10}"


def _memory(count: int) -> str:
    """In one unit, so that the parts add up to the eye; two places at most, rounded up."""
    hundredths = -(-count * 100 // MI)
    return f"{hundredths // 100}.{hundredths % 100:02d}".rstrip("0").rstrip(".") + "Mi"


def as_json(document: Document, cost: Cost) -> dict[str, Any]:
    return {
        "name": document.name,
        "kind": document.kind,
        "cpuMilli": cost.cpu,
        "memoryBytes": cost.memory,
        "parts": [{"name": part.name, "memoryBytes": part.memory} for part in cost.parts],
    }
