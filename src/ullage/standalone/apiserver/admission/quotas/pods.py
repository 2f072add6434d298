"""What a pod asks for, and may use at most: of all its containers, and of each.

Containers run side by side, and are added up. Init containers run one after the other before them, so only the largest
matters; those among them that go on running (`restartPolicy: Always`) are beside everything that starts after them. What the
pod says of itself as a whole stands in place of the sums. Overhead comes on top.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal

from ullage.quantity import Quantity
from ullage.standalone.apiserver.kinds.strategies.base import items, part
from ullage.standalone.apiserver.objects import Json

Amounts = dict[str, Quantity]
Side = Literal["requests", "limits"]

COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
HUGE: Final = "hugepages-"
_OF_PODS: Final = ("cpu", "memory")  # what a pod may say of itself as a whole, beside huge pages


def containers(pod: Json) -> Iterator[Json]:
    """Init containers too."""
    yield from items(pod, "spec", "containers")
    yield from items(pod, "spec", "initContainers")


def amounts(holder: Json, side: Side) -> Amounts:
    return parsed(part(holder, "resources", side))


def parsed(values: Json | None) -> Amounts:
    return {name: Quantity.parse(str(text)) for name, text in (values or {}).items()}


def total(pod: Json, side: Side) -> Amounts:
    running = summed(amounts(one, side) for one in items(pod, "spec", "containers"))
    beside: Amounts = {}  # init containers that go on running
    starting: Amounts = {}
    for one in items(pod, "spec", "initContainers"):
        own = amounts(one, side)
        if one.get("restartPolicy") == "Always":
            running = summed((running, own))
            beside = summed((beside, own))
            own = beside
        else:
            own = summed((own, beside))
        starting = larger(starting, own)
    found = larger(running, starting)
    whole = amounts(part(pod, "spec"), side)
    found.update({name: one for name, one in whole.items() if name in _OF_PODS or name.startswith(HUGE)})
    for name, more in parsed(part(pod, "spec", "overhead")).items():
        if side == "requests" or name in found:  # without a limit there is none, overhead or not
            found[name] = found[name] + more if name in found else more
    return found


def summed(parts: Iterable[Amounts]) -> Amounts:
    made: Amounts = {}
    for one in parts:
        for name, quantity in one.items():
            made[name] = made[name] + quantity if name in made else quantity
    return made


def larger(one: Amounts, other: Amounts) -> Amounts:
    made = dict(one)
    for name, quantity in other.items():
        if name not in made or made[name] < quantity:
            made[name] = quantity
    return made


def is_best_effort(pod: Json) -> bool:
    """Whether nobody in it asks for anything, or is held to anything."""
    holders = [*containers(pod), part(pod, "spec")]
    said = (amounts(one, side) for one in holders for side in ("requests", "limits"))
    return not any(quantity.sign for one in said for name, quantity in one.items() if name in _OF_PODS)
