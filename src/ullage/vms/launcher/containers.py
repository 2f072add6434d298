"""A container of a launcher pod, and the amounts in it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ullage.pods.resources import Amounts, InitContainer, Side, total


@dataclass(frozen=True, slots=True)
class Container:
    """`requests` are those that KubeVirt writes. The API server adds the limits that have none; see `counted`."""

    name: str
    limits: Amounts
    requests: Amounts
    starts_first: bool = False

    def counted(self, side: Side) -> Amounts:
        return self.limits if side == "limits" else {**self.limits, **self.requests}


@dataclass(frozen=True, slots=True)
class Part:
    """One line of a sum, for people: bytes, and thousandths of a CPU."""

    name: str
    memory: int
    cpu: int = 0


def counted(side: Side, containers: Iterable[tuple[Container, Amounts]]) -> Amounts:
    """The sum of a side as a core ResourceQuota counts it, from the amounts that each container has of it."""
    found = list(containers)
    return total(
        side,
        (amounts for one, amounts in found if not one.starts_first),
        [InitContainer(amounts, stays=False) for one, amounts in found if one.starts_first],
    )


def bytes_in(amounts: Amounts, name: str) -> int:
    return amounts[name].value() if name in amounts else 0


def thousandths_in(amounts: Amounts) -> int:
    return amounts["cpu"].milli() if "cpu" in amounts else 0
