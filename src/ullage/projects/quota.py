"""A project's quota and usage in terms of the ledger: what limits follow from it, what is wrong with it, what is over. Pure.

The webhook and the controllers read it alike. Where KKP's definition is in force nothing keeps a faulty value out before our
webhook is there, so each value is looked at by itself: one that is wrong is named and allows nothing until it is corrected, and
the others hold. So a slip closes one limit, and never opens one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import UnsetType

from ullage.kube.kinds import Meta
from ullage.ledger.amounts import Amounts, BadAmount, parse_amount, spell
from ullage.projects.api.amounts import ResourceDetails
from ullage.projects.api.quotas import ResourceQuota, UsageForPeople
from ullage.projects.names import CPU, MAX_CLUSTERS, MEMORY, RESOURCES, STORAGE
from ullage.quantity import ZERO, Quantity, QuantityError

QUOTA_FIELD: Final = "spec.quota"
MAX_CLUSTERS_FIELD: Final = f"metadata.annotations[{MAX_CLUSTERS}]"
UNLIMITED: Final = "unlimited"
MOST: Final = Quantity.of(2**63 - 1)  # of an amount: what other readers have room for; 8Ei of memory
MOST_DIGITS: Final = 64  # of a text: no amount that there can be has more
SHOWN_DIGITS: Final = 40  # of a text that is refused
MOST_CLUSTERS: Final = 1_000_000  # that an annotation can say
ALLOWED: Final = "is a quantity of 0 or more, such as %s; 0 allows none, and without the field there is no limit"
_EXAMPLES: Final[Mapping[str, str]] = {CPU: "4 or 1500m", MEMORY: "16Gi or 16G", STORAGE: "100Gi or 1T"}


@dataclass(frozen=True, slots=True)
class QuotaFault:
    """Where, and what is wrong there."""

    field: str
    problem: str

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}"


# --- what a quota says -----------------------------------------------------------------------------------------------


def faults(quota: ResourceQuota) -> Iterator[QuotaFault]:
    """What is wrong with the amounts of a quota, all of it."""
    yield from amount_faults(quota.spec.quota, field=QUOTA_FIELD)
    if MAX_CLUSTERS in quota.metadata.annotations and max_clusters(quota.metadata) is None:
        said = _shown(quota.metadata.annotations[MAX_CLUSTERS])
        problem = f"{said} is not allowed: it is a whole number from 0 to {MOST_CLUSTERS}; without it there is no limit"
        yield QuotaFault(MAX_CLUSTERS_FIELD, problem)


def amount_faults(details: ResourceDetails, *, field: str) -> Iterator[QuotaFault]:
    for resource, text in _written(details):
        if problem := _problem(text):
            yield QuotaFault(f"{field}.{resource}", f"{_shown(text)} {problem}: it {ALLOWED % _EXAMPLES[resource]}")


def limits_of(details: ResourceDetails) -> dict[str, Quantity]:
    """The limit of each resource that has one. 0 is a limit, and what is absent is none. A faulty amount is a limit of 0
    until it is corrected."""
    return {resource: ZERO if _problem(text) else Quantity.parse(text) for resource, text in _written(details)}


def closed_by(quota: ResourceQuota) -> dict[str, QuotaFault]:
    """The faulty amounts of a quota, by resource: why nothing is allowed of it."""
    found = {fault.field: fault for fault in amount_faults(quota.spec.quota, field=QUOTA_FIELD)}
    return {resource: fault for resource in RESOURCES if (fault := found.get(f"{QUOTA_FIELD}.{resource}")) is not None}


def closed(details: ResourceDetails) -> ResourceDetails:
    """The same limits, with 0 in the place of each faulty amount."""
    return msgspec.structs.replace(details, **{name: "0" for name, text in _written(details) if _problem(text)})


def same_limits(one: ResourceDetails, other: ResourceDetails) -> bool:
    """Whether two allow the same, however they are written: `1000m` is `1`. Faulty ones are alike only to the letter."""
    return one == other or (_all_good(one) and _all_good(other) and limits_of(one) == limits_of(other))


def max_clusters(quota: Meta) -> int | None:
    """How many clusters a project may have; None: nothing is said, or nothing that can be read."""
    said = quota.annotations.get(MAX_CLUSTERS, "")
    if not (said.isascii() and said.isdigit() and len(said) <= len(str(MOST_CLUSTERS))):
        return None
    return int(said) if int(said) <= MOST_CLUSTERS else None


def cluster_limit(quota: Meta) -> int | None:
    """The limit that holds; None: there is none. An annotation that cannot be read allows no further cluster."""
    return None if MAX_CLUSTERS not in quota.annotations else max_clusters(quota) or 0


def _all_good(details: ResourceDetails) -> bool:
    return not any(_problem(text) for _, text in _written(details))


def _written(details: ResourceDetails) -> Iterator[tuple[str, str]]:
    for resource in RESOURCES:
        value = getattr(details, resource)
        if not isinstance(value, UnsetType):
            yield resource, str(value)


def _problem(text: str) -> str:
    if len(text) > MOST_DIGITS:
        return "is too long"
    try:
        quantity = Quantity.parse(text)
    except QuantityError:
        return "is not a quantity"
    if quantity.sign < 0:
        return "is negative"
    return f"is more than {MOST.value()}" if quantity > MOST else ""


def _shown(text: str) -> str:
    return repr(text if len(text) <= SHOWN_DIGITS else f"{text[:SHOWN_DIGITS]}…")


# --- what is used ----------------------------------------------------------------------------------------------------


def is_counted(usage: ResourceDetails | None) -> bool:
    """Whether somebody has counted: a usage of nothing is written out."""
    return usage is not None and any(True for _ in _written(usage))


def amounts_of(usage: ResourceDetails, *, field: str) -> Amounts:
    """What is used. Raises `BadAmount`, which names the field, for what is no amount: nobody knows how much that is."""
    found = {resource: parse_amount(text, field=f"{field}.{resource}") for resource, text in _written(usage)}
    for resource, amount in found.items():
        if amount > MOST:  # such a sum could not be told to anyone: neither as a number nor as a text that people read
            raise BadAmount(f"{field}.{resource}", _shown(str(amount)), f"an amount is no more than {MOST.value()}")
    return Amounts(found)


def readable_of(usage: ResourceDetails) -> dict[str, Quantity]:
    """What is used, as far as it can be read: a figure that is no amount is left out."""
    return {resource: Quantity.parse(text) for resource, text in _written(usage) if not _problem(text)}


def usage_of(amounts: Amounts) -> ResourceDetails:
    """The same to be written down: nothing is 0, and not absent."""
    return ResourceDetails(cpu=str(amounts[CPU]), memory=str(amounts[MEMORY]), storage=str(amounts[STORAGE]))


@dataclass(frozen=True, slots=True)
class Excess:
    """A resource of which more is used than is allowed."""

    resource: str
    used: Quantity
    limit: Quantity

    def __str__(self) -> str:
        """`cpu: 7 cores used, 2 cores more than the quota of 5 cores`."""
        used, over = spell(self.resource, self.used), spell(self.resource, self.used - self.limit)
        return f"{self.resource}: {used} used, {over} more than the quota of {spell(self.resource, self.limit, down=True)}"


def excesses(used: Amounts, limits: Mapping[str, Quantity]) -> list[Excess]:
    """Every resource that is past its limit; exactly full is not."""
    return [
        Excess(resource, used[resource], limits[resource])
        for resource in RESOURCES
        if resource in limits and used[resource] > limits[resource]
    ]


def for_people(used: Amounts, limits: Mapping[str, Quantity]) -> UsageForPeople:
    """`3/5`, `12Gi/100Gi`, `3/unlimited`."""

    def both(resource: str) -> str:
        limit = limits.get(resource)
        allowed = UNLIMITED if limit is None else _number(resource, limit, down=True)
        return f"{_number(resource, used[resource])}/{allowed}"

    return UsageForPeople(**{resource: both(resource) for resource in RESOURCES})


def with_limits(details: ResourceDetails, limits: ResourceDetails) -> ResourceDetails:
    """The one with the limits of the other, in the words of the other; the very same value where they allow the same."""
    if same_limits(details, limits):
        return details
    return msgspec.structs.replace(details, cpu=limits.cpu, memory=limits.memory, storage=limits.storage)


def _number(resource: str, amount: Quantity, *, down: bool = False) -> str:
    """Processors without a unit: the column says what they are."""
    return spell("" if resource == CPU else resource, amount, down=down)
