"""A MachineSet: how many Machines it lacks, which of them are too many, and what its status says. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ullage.kube.objects import Json, is_deleting, owner_reference
from ullage.projects.api.machines import MACHINE_SETS, MACHINES, Machine, MachineSet, MachineSetStatus

DEFAULT_REPLICAS: Final = 1  # of a set that says nothing


@dataclass(frozen=True, slots=True)
class MachineSetPlan:
    """`create` is how many more there are to be."""

    status: MachineSetStatus
    create: int = 0
    delete: tuple[Machine, ...] = ()


def plan_set(found: MachineSet, machines: Sequence[Machine], *, unseen: Collection[str] = ()) -> MachineSetPlan | None:
    """None: it is being deleted. `machines` are those that it controls, `unseen` the names of those that were made a moment
    ago and are not among them yet. One that is being deleted is replaced at once, as machine-controller does."""
    if is_deleting(found.metadata):
        return None
    living = [one for one in machines if not is_deleting(one.metadata)]
    wanted = DEFAULT_REPLICAS if found.spec.replicas is None else max(0, found.spec.replicas)
    missing = wanted - len(living) - len(unseen)
    ready = sum(one.status.node_ref is not None for one in living)
    return MachineSetPlan(
        MachineSetStatus(
            replicas=len(living),
            fully_labeled_replicas=len(living),  # all have the labels of the template that they were made from
            ready_replicas=ready,
            available_replicas=ready,
            observed_generation=found.metadata.generation,
        ),
        create=max(0, missing),
        delete=tuple(_surplus(living, max(0, len(living) - wanted))),
    )


def _surplus(living: Sequence[Machine], count: int) -> list[Machine]:
    """First those that are no Node yet, then the newest: the same ones however often it is asked."""

    def order(one: Machine) -> tuple[bool, str, str]:
        return one.status.node_ref is None, one.metadata.creation_timestamp or "", one.metadata.name

    return sorted(living, key=order, reverse=True)[:count]


def failure(refusals: Sequence[str]) -> str:
    """What machine-controller says in its Event when Machines were refused: all reasons, also equal ones."""
    return f"failed to sync Machineset replicas: {'; '.join(refusals)}"


def machine_for(found: MachineSet, template: Any) -> Json:
    """The next Machine, from the whole `spec.template` as the API has it: our types know only a part of that."""
    template = template if isinstance(template, dict) else {}
    meta = template.get("metadata") if isinstance(template.get("metadata"), dict) else {}
    return {
        "apiVersion": MACHINES.api_version,
        "kind": MACHINES.kind,
        "metadata": {
            "generateName": f"{found.metadata.name}-",
            "namespace": found.metadata.namespace,
            "labels": meta.get("labels") or {},
            "annotations": meta.get("annotations") or {},
            "ownerReferences": [owner_reference(MACHINE_SETS, found.metadata, controller=True)],
        },
        "spec": template.get("spec") or {},
    }
