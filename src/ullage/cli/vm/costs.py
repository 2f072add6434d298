"""`ullage vm cost`: what VMs of a file would cost, part by part. Pure but for the printing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from ullage.cli.check.documents import Document
from ullage.cli.common.text import plain
from ullage.errors import BadInput
from ullage.kube.kinds import Kind, Object, without_nulls
from ullage.kube.objects import Json
from ullage.vms.api.machines import VirtualMachine
from ullage.vms.instance_types.reader import Missing, with_instance_type
from ullage.vms.launcher.containers import Part
from ullage.vms.launcher.versions import MI
from ullage.vms.pricing import Cost, Pricing

T = TypeVar("T", bound=Object)

KINDS = ("VirtualMachine", "VirtualMachineInstance")


def costs(documents: Sequence[Document], pricing: Pricing) -> list[tuple[Document, Cost]]:
    """Of the VMs among the objects of a file. Raises BadInput where there are none, or where one says what cannot be."""
    machines = [one for one in documents if one.group == "kubevirt.io" and one.kind in KINDS]
    templates = [(one, _template(_expanded(one, documents))) for one in machines]
    found = [(one, pricing.cost_of(_part(template, "spec"), _annotations(template))) for one, template in templates]
    if not found:
        raise BadInput(
            "-f", ", ".join(one.shown for one in documents), f"there is no {' or '.join(KINDS)} of kubevirt.io in it"
        )
    return found


class _Files:
    """Finds instance types and preferences among the objects of the files."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._documents = documents

    async def find(self, kind: Kind[T], name: str, namespace: str = "") -> T | None:
        for one in self._documents:
            if (one.group, one.kind, one.name) == (kind.group, kind.kind, name) and one.namespace in ("", namespace):
                try:
                    return msgspec.convert(without_nulls(one.body), kind.type)
                except msgspec.ValidationError as error:
                    raise BadInput("-f", one.shown, str(error)) from error
        return None


def _expanded(document: Document, documents: Sequence[Document]) -> Json:
    """The body of a VM, with what its instance type and its preference give it. Raises BadInput where the files lack them."""
    spec = _part(document.body, "spec")
    if document.kind != "VirtualMachine" or not ("instancetype" in spec or "preference" in spec):
        return document.body
    try:
        machine = msgspec.convert(without_nulls({"spec": spec}), VirtualMachine)
    except msgspec.ValidationError as error:
        raise BadInput("-f", document.shown, str(error)) from error
    reading = with_instance_type(_Files(documents), machine, document.body, namespace=document.namespace)
    try:
        return asyncio.run(reading)
    except Missing as error:
        raise BadInput(error.where, error.given, "no file has it. Next: name its file with -f, too") from error


def _template(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a pod is made of: the instance itself, or what a machine makes it of."""
    return _part(_part(body, "spec"), "template") if body.get("kind") == "VirtualMachine" else body


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
