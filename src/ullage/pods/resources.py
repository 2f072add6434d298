"""What a pod asks for, and may use at most, from what its containers say. Pure.

Containers run side by side, and are added up. Init containers run one after the other before them, so only the largest
matters; those among them that go on running (`restartPolicy: Always`) are beside everything that starts after them. What the
pod says of itself as a whole stands in place of the sums. Overhead comes on top.

The embedded API server counts ResourceQuotas by it, from JSON, and whoever charges for pods does from types of its own: one
arithmetic, so that what fits here fits there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple

from ullage.quantity import Quantity

Amounts = dict[str, Quantity]
Side = Literal["requests", "limits"]

STAYS: Final = "Always"  # the restartPolicy of an init container that goes on running
HUGE: Final = "hugepages-"
OF_PODS: Final = ("cpu", "memory")  # what a pod may say of itself as a whole, beside huge pages


class InitContainer(NamedTuple):
    amounts: Amounts
    stays: bool


def parsed(values: Mapping[str, Any] | None) -> Amounts:
    """Raises QuantityError."""
    return {name: Quantity.parse(str(text)) for name, text in (values or {}).items()}


def total(
    side: Side,
    containers: Iterable[Amounts],
    init_containers: Iterable[InitContainer] = (),
    *,
    whole: Amounts | None = None,
    overhead: Amounts | None = None,
) -> Amounts:
    """All arguments are of one side, but for the overhead."""
    running = summed(containers)
    beside: Amounts = {}  # init containers that go on running
    starting: Amounts = {}
    for one in init_containers:
        if one.stays:
            running = summed((running, one.amounts))
            own = beside = summed((beside, one.amounts))
        else:
            own = summed((one.amounts, beside))
        starting = larger(starting, own)
    found = larger(running, starting)
    found.update({name: one for name, one in (whole or {}).items() if name in OF_PODS or name.startswith(HUGE)})
    for name, more in (overhead or {}).items():
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
