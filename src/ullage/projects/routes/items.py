"""What goes over the wire: quotas and usages as numbers, in the fields of the peer. Pure.

A field that is absent from a quota has no limit, and 0 allows none: so a limit of 0 is shown. Of a usage, memory and storage of
nothing are left out, as the peer does, and cpu is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Final

import msgspec
from msgspec import UNSET

from ullage.kube.kinds import Value
from ullage.projects.api.amounts import Amount, ResourceDetails
from ullage.projects.api.kkp import Project
from ullage.projects.api.quotas import ResourceQuota
from ullage.projects.names import CPU, MEMORY, PROJECT, RESOURCES, STORAGE, is_default
from ullage.projects.quota import limits_of, readable_of
from ullage.projects.routes.numbers import Number, limit_number, text_of, usage_number
from ullage.quantity import Quantity

TOTAL: Final = "totalquota"  # the item that has the sum of all
_CORES: Final = msgspec.Meta(extra_json_schema={"examples": [50]})
_GB: Final = msgspec.Meta(extra_json_schema={"examples": [100.5]})


class QuotaNumbers(Value, forbid_unknown_fields=True):
    """Limits, or what is used. A GB is 2^30 bytes here, and is written to the object as `Gi`."""

    cpu: Annotated[int | None, _CORES] = None
    """Processors, whole. Of a limit that has parts of them, the parts are left out."""
    memory: Annotated[int | float | None, _GB] = None
    """Memory in GB of 2^30 bytes, with two places at most."""
    storage: Annotated[int | float | None, _GB] = None
    """The disks of machines in GB of 2^30 bytes, with two places at most."""


class QuotaStatusItem(Value):
    """What is used."""

    global_usage: QuotaNumbers = QuotaNumbers()
    """On all seeds together."""
    local_usage: QuotaNumbers | None = None
    """On the cluster that answers; absent where that is no seed."""


class QuotaItem(Value):
    """The quota of a project."""

    name: str
    """Of the ResourceQuota; `totalquota` is the sum of all."""
    subject_name: str = ""
    """The id of the project."""
    subject_kind: str = ""
    """What kind of subject it is: project."""
    subject_human_readable_name: str = ""
    """The name of the project that people read."""
    is_default: bool
    """Whether it follows the default of the installation."""
    quota: QuotaNumbers
    """The most that may be used. What is absent has no limit, and 0 allows none."""
    status: QuotaStatusItem
    """What is used."""


class NewQuota(Value, forbid_unknown_fields=True):
    """A quota that is to be made."""

    subject_name: str = ""
    """The id of the project."""
    subject_kind: str = PROJECT
    """What kind of subject it is: project."""
    quota: QuotaNumbers = QuotaNumbers()
    """The most that may be used. What is absent has no limit, and 0 allows none."""


class Nothing(Value):
    """An empty object."""


# --- from objects ----------------------------------------------------------------------------------------------------


def item_of(quota: ResourceQuota, project: Project | None) -> QuotaItem:
    subject, status = quota.spec.subject, quota.status
    return QuotaItem(
        name=quota.metadata.name,
        subject_name=subject.name,
        subject_kind=subject.kind,
        subject_human_readable_name=project.spec.name if project is not None else "",
        is_default=is_default(quota.metadata),
        quota=limit_numbers(limits_of(quota.spec.quota)),
        status=_status(readable_of(status.global_usage), readable_of(status.local_usage)),
    )


def total_of(quotas: Iterable[ResourceQuota]) -> QuotaItem:
    """The sums of all limits and of all that is used. A quota without a limit adds nothing to the limits."""
    limits: dict[str, Quantity] = {}
    used: dict[str, Quantity] = {}
    here: dict[str, Quantity] = {}
    for quota in quotas:
        _add(limits, limits_of(quota.spec.quota))
        _add(used, readable_of(quota.status.global_usage))
        _add(here, readable_of(quota.status.local_usage))
    return QuotaItem(name=TOTAL, is_default=False, quota=limit_numbers(limits), status=_status(used, here))


def limit_numbers(limits: Mapping[str, Quantity]) -> QuotaNumbers:
    return _numbers({resource: limit_number(resource, limit) for resource, limit in limits.items()})


def usage_numbers(used: Mapping[str, Quantity]) -> QuotaNumbers:
    shown = {resource: usage_number(resource, amount) for resource, amount in used.items()}
    return _numbers({resource: number for resource, number in shown.items() if number or resource == CPU})


def _status(used: Mapping[str, Quantity], here: Mapping[str, Quantity]) -> QuotaStatusItem:
    return QuotaStatusItem(global_usage=usage_numbers(used), local_usage=usage_numbers(here) if here else None)


def _numbers(found: Mapping[str, Number]) -> QuotaNumbers:
    cpu = found.get(CPU)
    return QuotaNumbers(cpu=None if cpu is None else int(cpu), memory=found.get(MEMORY), storage=found.get(STORAGE))


def _add(sums: dict[str, Quantity], amounts: Mapping[str, Quantity]) -> None:
    for resource, amount in amounts.items():
        sums[resource] = sums[resource] + amount if resource in sums else amount


# --- to objects ------------------------------------------------------------------------------------------------------


def details_of(given: QuotaNumbers, *, before: ResourceDetails | None = None, field: str = "") -> ResourceDetails:
    """What is to be written. A number that is shown already leaves its amount in the words that it has: `1T` stays when 931.32
    comes back. Raises BadInput, which names the field."""
    known = before or ResourceDetails()
    limits = limits_of(known)
    made: dict[str, Amount] = {}
    for resource in RESOURCES:
        number = getattr(given, resource)
        if number is None:
            made[resource] = UNSET
            continue
        text = text_of(resource, number, field=f"{field}{resource}")
        shown = resource in limits and limit_number(resource, limits[resource]) == number
        made[resource] = getattr(known, resource) if shown else text
    return ResourceDetails(**made)
