"""`ullage vm cost`: what VMs of a file would cost, part by part. Pure but for the printing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ullage.cli.check.documents import Document
from ullage.cli.common.text import plain
from ullage.errors import BadInput
from ullage.vms.launcher.containers import Part
from ullage.vms.launcher.versions import MI
from ullage.vms.pricing import Cost, Pricing

KINDS = ("VirtualMachine", "VirtualMachineInstance")


def costs(documents: Sequence[Document], pricing: Pricing) -> list[tuple[Document, Cost]]:
    """Of the VMs among the objects of a file. Raises BadInput where there are none, or where one says what cannot be."""
    machines = [one for one in documents if one.group == "kubevirt.io" and one.kind in KINDS]
    found = [(one, pricing.cost_of(_part(_template(one), "spec"), _annotations(_template(one)))) for one in machines]
    if not found:
        raise BadInput(
            "-f", ", ".join(one.shown for one in documents), f"there is no {' or '.join(KINDS)} of kubevirt.io in it"
        )
    return found


def _template(document: Document) -> Mapping[str, Any]:
    """What a pod is made of: the instance itself, or what a machine makes it of."""
    return _part(_part(document.body, "spec"), "template") if document.kind == "VirtualMachine" else document.body


def _annotations(template: Mapping[str, Any]) -> dict[str, str]:
    found = _part(_part(template, "metadata"), "annotations")
    return {key: one for key, one in found.items() if isinstance(one, str)}


def _part(holder: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = holder.get(key)
    return found if isinstance(found, dict) else {}


def lines(document: Document, cost: Cost) -> Iterator[str]:
    """What it takes of its namespace's limits, and what that is made of."""
    yield f"{plain(document.shown)} costs {_cpu(cost.cpu)} and {_memory(cost.memory)} of memory"
    rows = [
        (plain(one.name), _memory(one.memory) if one.memory else "", _cpu(one.cpu) if one.cpu else "") for one in cost.parts
    ]
    width = max((len(name) for name, _, _ in rows), default=0)
    for name, memory, cpu in rows:
        yield f"  {name:<{width}}  {memory:>10}  {cpu}".rstrip()


def _cpu(milli: int) -> str:
    """Exactly, so that the parts add up to the eye."""
    return "no CPU" if not milli else f"{milli / 1000:.15g} core{'' if milli == 1000 else 's'}"


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
        "parts": [_part_json(one) for one in cost.parts],
    }


def _part_json(one: Part) -> dict[str, Any]:
    return {"name": one.name, "cpuMilli": one.cpu, "memoryBytes": one.memory}
