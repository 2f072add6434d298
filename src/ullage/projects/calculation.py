"""What a project would use if machines were added or replaced, and whether its quota allows that: the REST call
`quotacalculation`, with which a form tells before it is sent.

It promises nothing: the ledger decides when the machines are made. Everything is counted exactly, so 10G are less than 10Gi
here as they are there.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ullage.errors import BadInput
from ullage.ledger.amounts import Amounts, spell
from ullage.projects.names import CPU, MEMORY, STORAGE
from ullage.projects.quota import Excess, excesses
from ullage.quantity import Quantity

MOST_REPLICAS: Final = 1_000_000
_WORDS: Final = {CPU: "cpu", MEMORY: "memory", STORAGE: "disk size"}  # what people call them
_SHORT: Final = 8


@dataclass(frozen=True, slots=True)
class Replicas:
    """So many machines of one size."""

    count: int
    size: Amounts

    def total(self, *, field: str) -> Amounts:
        if not 0 <= self.count <= MOST_REPLICAS:
            raise BadInput(field, self.count, f"0 to {MOST_REPLICAS} are allowed")
        return Amounts({name: Quantity(one.nanos * self.count, one.format) for name, one in self.size.cells.items()})


@dataclass(frozen=True, slots=True)
class Calculation:
    """`quota` has those resources that are limited; `usage` is what would be used then. `message` has a line for each resource
    of which that is too much, and is empty where all fits."""

    quota: Mapping[str, Quantity]
    usage: Amounts
    message: str

    @property
    def fits(self) -> bool:
        return not self.message


def calculate(
    quota: Mapping[str, Quantity] | None, used: Amounts, *, added: Replicas, replaced: Replicas | None = None
) -> Calculation | None:
    """None: there is no quota, and nothing to say. A resource that the quota does not name has no limit; 0 allows nothing; as
    much as the limit is allowed. What is replaced is taken off first, and never more of it than is used."""
    more = added.total(field="replicas")
    less = replaced.total(field="replacedResources.replicas") if replaced else Amounts()
    if quota is None:
        return None
    usage = used.beyond(less) + more
    return Calculation(quota=quota, usage=usage, message="".join(map(_line, excesses(usage, quota))))


def _line(over: Excess) -> str:
    """`Calculated cpu (8) exceeds resource quota (5)`, in words that clients of the peer know."""
    said, allowed = _texts(over.resource, over.used, over.limit)
    return f"Calculated {_WORDS[over.resource]} ({said}) exceeds resource quota ({allowed})\n"


def _texts(resource: str, usage: Quantity, limit: Quantity) -> tuple[str, str]:
    """As they are written where both are of one family and short; else both in binary units, rounded apart: two numbers of
    which one exceeds the other never read the same."""
    if resource == CPU:
        return _cpus(usage), _cpus(limit)
    said, allowed = str(usage), str(limit)
    alike = usage.format is limit.format
    if alike and len(said) <= _SHORT and len(allowed) <= _SHORT:
        return said, allowed
    return spell(resource, usage), spell(resource, limit, down=True)


def _cpus(amount: Quantity) -> str:
    """`8`, `1500m`, and 1000 for what is canonically `1k`: nobody counts processors so."""
    return str(amount.nanos // 10**9) if not amount.nanos % 10**9 else str(amount)
