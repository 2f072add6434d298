"""What a pod asks for, and may use at most, read from its JSON: of all its containers, and of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ullage.pods import resources
from ullage.pods.resources import OF_PODS, STAYS, Amounts, InitContainer, Side, parsed
from ullage.standalone.apiserver.kinds.strategies.base import items, part
from ullage.standalone.apiserver.objects import Json

COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")


def containers(pod: Json) -> Iterator[Json]:
    """Init containers too."""
    yield from items(pod, "spec", "containers")
    yield from items(pod, "spec", "initContainers")


def amounts(holder: Json, side: Side) -> Amounts:
    return parsed(part(holder, "resources", side))


def total(pod: Json, side: Side) -> Amounts:
    return resources.total(
        side,
        (amounts(one, side) for one in items(pod, "spec", "containers")),
        (
            InitContainer(amounts(one, side), stays=one.get("restartPolicy") == STAYS)
            for one in items(pod, "spec", "initContainers")
        ),
        whole=amounts(part(pod, "spec"), side),
        overhead=parsed(part(pod, "spec", "overhead")),
    )


def is_best_effort(pod: Json) -> bool:
    """Whether nobody in it asks for anything, or is held to anything."""
    holders = [*containers(pod), part(pod, "spec")]
    said = (amounts(one, side) for one in holders for side in ("requests", "limits"))
    return not any(quantity.sign for one in said for name, quantity in one.items() if name in OF_PODS)
