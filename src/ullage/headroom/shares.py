"""The two shares of a namespace's quota: what VMs may take, and what is kept for moving them to other nodes. Pure.

Both follow from two annotations that people and Rancher write on the Namespace. What is kept for maintenance is truncated, so
the remainder goes to the VMs. A resource without a percentage, or with one of 0, is not divided: nothing of ours limits it.

The annotations are free text from whoever may edit the namespace, so the reading is bounded, and says of everything that it
does not understand where it is, what it is, and what is allowed there. A name in them may be written in any case, as programs
in Go read it; one that is there twice is refused, since nobody can say which of them is meant.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from ullage.errors import Terminal
from ullage.headroom.accounts import CPU, MAINTENANCE, MEMORY, VMS
from ullage.ledger.amounts import Cell
from ullage.quantity import Format, Quantity, QuantityError

RESOURCE_QUOTA: Final = "field.cattle.io/resourceQuota"
MAINTENANCE_QUOTA: Final = "harvesterhci.io/maintenanceQuota"
VM_AVAILABLE: Final = "harvesterhci.io/vmAvailable"
MAINTENANCE_AVAILABLE: Final = "harvesterhci.io/maintenanceAvailable"

LONGEST: Final = 16 * 1024  # characters of an annotation; one with all that Rancher knows has not a tenth of it
MOST: Final = 2**63 - 1  # of a unit: other readers of the shares have 64 bits for them
SHOWN: Final = 40  # characters of a value that is refused
LIMIT: Final = "limit"


@dataclass(frozen=True, slots=True)
class Resource:
    """What a quota divides: its name in ledgers, the names that it has in the annotations, and how it is counted."""

    name: str
    quota: str
    percent: str
    nanos: int  # in one of the units that shares are written in
    example: str

    def quantity(self, units: int) -> Quantity:
        return Quantity(units * self.nanos, Format.BINARY_SI if self.name == MEMORY else Format.DECIMAL_SI)

    def spelled_units(self) -> str:
        return "thousandths of a CPU" if self.name == CPU else "bytes"


CPU_SHARE: Final = Resource(CPU, "limitsCpu", "limitsCpuPercent", 10**6, "4 or 4000m")
MEMORY_SHARE: Final = Resource(MEMORY, "limitsMemory", "limitsMemoryPercent", 10**9, "5Gi or 5120Mi")
DIVIDED: Final = (CPU_SHARE, MEMORY_SHARE)

QUOTA_EXAMPLE: Final = '{"limit":{"limitsCpu":"4000m","limitsMemory":"5120Mi"}}'
MAINTENANCE_EXAMPLE: Final = '{"limit":{"limitsCpuPercent":50,"limitsMemoryPercent":50}}'
PERCENT_ALLOWED: Final = "a whole number from 0 to 100 is allowed, and 0 keeps nothing back"


@dataclass(frozen=True, slots=True)
class Share:
    """Of one resource, in its units: thousandths of a CPU, or bytes."""

    vms: int
    maintenance: int

    @property
    def whole(self) -> int:
        return self.vms + self.maintenance


Shares = Mapping[str, Share]  # by resource; one that is absent is not divided


@dataclass(frozen=True, slots=True)
class ShareFault:
    """What is wrong, and in which annotation."""

    annotation: str
    problem: str
    where: str = "annotations"  # or it is a label

    @property
    def field(self) -> str:
        return f"metadata.{self.where}[{self.annotation}]"

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}"


class ShareError(Terminal):
    """An annotation that cannot be read."""

    def __init__(self, *faults: ShareFault) -> None:
        super().__init__("; ".join(map(str, faults)))
        self.faults = faults


@dataclass(frozen=True, slots=True)
class Reading:
    """The shares, and what is wrong. Where anything is, there are no shares. `idle` has the percentages of what the quota does
    not limit, by resource: they keep nothing back, since there is nothing to divide."""

    shares: Shares
    faults: tuple[ShareFault, ...] = ()
    idle: Mapping[str, ShareFault] = field(default_factory=dict)


NO_SHARES: Final = Reading({})


def divide(quota: int, percent: int) -> Share:
    """A quota and the part of it that is kept for maintenance."""
    kept = quota * percent // 100
    return Share(vms=quota - kept, maintenance=kept)


def read_shares(annotations: Mapping[str, str]) -> Reading:
    """What the annotations of a Namespace come to. Where nothing is kept for maintenance the quota is nobody's business but
    Rancher's: it may say there what it likes."""
    if not annotations.get(MAINTENANCE_QUOTA):
        return NO_SHARES
    try:
        percents = dict(_percents(annotations[MAINTENANCE_QUOTA]))
    except ShareError as found:
        return Reading({}, found.faults)
    wanted = [one for one in DIVIDED if percents.get(one.name)]
    if not wanted:
        return NO_SHARES
    try:
        quotas = dict(_quotas(annotations.get(RESOURCE_QUOTA, ""), wanted))
    except ShareError as found:
        return Reading({}, found.faults)
    return Reading(
        {one.name: divide(quotas[one.name], percents[one.name]) for one in wanted if one.name in quotas},
        idle={one.name: _idle(one, percents[one.name]) for one in wanted if one.name not in quotas},
    )


def available(shares: Shares) -> dict[str, str | None]:
    """The annotations that tell of them; None: there is to be none."""
    if not shares:
        return {VM_AVAILABLE: None, MAINTENANCE_AVAILABLE: None}
    return {
        VM_AVAILABLE: _written({name: one.vms for name, one in shares.items()}),
        MAINTENANCE_AVAILABLE: _written({name: one.maintenance for name, one in shares.items()}),
    }


def limits_of(shares: Shares) -> dict[Cell, Quantity]:
    """The limits that a ledger is to have. A share of nothing is a limit, too: none is allowed."""
    found: dict[Cell, Quantity] = {}
    for resource in DIVIDED:
        if (share := shares.get(resource.name)) is not None:
            found[Cell(VMS, resource.name)] = resource.quantity(share.vms)
            found[Cell(MAINTENANCE, resource.name)] = resource.quantity(share.maintenance)
    return found


def _written(amounts: Mapping[str, int]) -> str:
    limit = {one.quota: amounts[one.name] for one in DIVIDED if one.name in amounts}
    return msgspec.json.encode({LIMIT: limit}).decode()


# --- reading ---------------------------------------------------------------------------------------------------------


def _percents(text: str) -> Iterator[tuple[str, int]]:
    limit = limits_by_name(MAINTENANCE_QUOTA, text)
    faults: list[ShareFault] = []
    known = {one.percent.lower(): one for one in DIVIDED}
    for name, (written, value) in limit.items():
        resource = known.get(name)
        if resource is None:
            allowed = " and ".join(one.percent for one in DIVIDED)
            faults.append(
                ShareFault(MAINTENANCE_QUOTA, f"limit.{_cut(written)} is not known; {allowed} are, in upper or lower case")
            )
            continue
        percent = _percent(value)
        if percent is None:
            faults.append(ShareFault(MAINTENANCE_QUOTA, f"limit.{_cut(written)} is {_shown(value)}; {PERCENT_ALLOWED}"))
        else:
            yield resource.name, percent
    if faults:
        raise ShareError(*faults)


def _percent(value: Any) -> int | None:
    """None: it is no percentage. What is not there at all is 0."""
    if value is None:
        return 0
    if isinstance(value, str):
        if not (value.isascii() and value.isdigit()) or len(value) > SHOWN:
            return None
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= 100 else None


def _idle(resource: Resource, percent: int) -> ShareFault:
    """A percentage of a quota that is not there. Rancher takes its quota away without looking at ours."""
    said = f"limit.{resource.percent} keeps {percent} % of a quota that is not there: {resource.name} has no limit"
    next_step = f"set limit.{resource.quota} in metadata.annotations[{RESOURCE_QUOTA}], or 0 here"
    return ShareFault(MAINTENANCE_QUOTA, f"{said}; {next_step}")


def _quotas(text: str, wanted: list[Resource]) -> Iterator[tuple[str, int]]:
    """Of each resource that the quota limits."""
    limit = limits_by_name(RESOURCE_QUOTA, text) if text else {}
    faults: list[ShareFault] = []
    for resource in wanted:
        written, value = limit.get(resource.quota.lower(), (resource.quota, None))
        if value is None or value == "":
            continue
        found = _units(value, resource)
        if isinstance(found, str):
            example = f"a quantity such as {resource.example}, as a text, is allowed"
            faults.append(ShareFault(RESOURCE_QUOTA, f"limit.{_cut(written)} is {_shown(value)}: {found}; {example}"))
        else:
            yield resource.name, found
    if faults:
        raise ShareError(*faults)


def _units(value: Any, resource: Resource) -> int | str:
    """In the units that shares are written in, or what is wrong. Rounded down: no more is given out than there is."""
    if not isinstance(value, str):
        return "not a text"  # a bare 4000 may be 4,000 CPUs or 4: Rancher does not read it either
    try:
        quantity = Quantity.parse(value)
    except QuantityError:
        return "not a quantity"
    if quantity.sign < 0:
        return "negative"
    units = quantity.nanos // resource.nanos
    return units if units <= MOST else f"more than {MOST} {resource.spelled_units()}"


def limits_by_name(annotation: str, text: str) -> dict[str, tuple[str, Any]]:
    """What stands under `limit`, by names in lower case, each with how it is written. Raises ShareError."""
    found: dict[str, tuple[str, Any]] = {}
    for written, value in _limit(annotation, text).items():
        if (name := written.lower()) in found:
            raise ShareError(ShareFault(annotation, f"limit.{_cut(written)} is there twice, as {_cut(found[name][0])} too"))
        found[name] = (written, value)
    return found


def _limit(annotation: str, text: str) -> dict[str, Any]:
    example = QUOTA_EXAMPLE if annotation == RESOURCE_QUOTA else MAINTENANCE_EXAMPLE
    allowed = f"something like {example} is allowed"
    if len(text) > LONGEST:
        raise ShareError(ShareFault(annotation, f"it has {len(text)} characters, and {LONGEST} are read; {allowed}"))
    try:
        whole = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, ValueError):
        raise ShareError(ShareFault(annotation, f"{_shown(text)} is not JSON; {allowed}")) from None
    if not isinstance(whole, dict):
        raise ShareError(ShareFault(annotation, f"{_shown(text)} is no JSON object; {allowed}"))
    strange = [key for key in whole if key.lower() != LIMIT]
    if strange and annotation == MAINTENANCE_QUOTA:  # a slip of the pen would switch it off, and nobody would know
        raise ShareError(ShareFault(annotation, f"{_cut(strange[0])} is not known; {allowed}"))
    limits = [(key, value) for key, value in whole.items() if key.lower() == LIMIT]
    if len(limits) > 1:
        raise ShareError(ShareFault(annotation, f"{LIMIT} is there twice; {allowed}"))
    limit = limits[0][1] if limits else None
    if limit is not None and not isinstance(limit, dict):
        raise ShareError(ShareFault(annotation, f"{LIMIT} is {_shown(limit)}, and no JSON object; {allowed}"))
    return limit or {}


def _shown(value: Any) -> str:
    """As it is written, as far as one wants to read it."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return _cut(value if isinstance(value, str) else msgspec.json.encode(value).decode(), quoted=isinstance(value, str))


def _cut(text: str, *, quoted: bool = False) -> str:
    shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
    return repr(shown) if quoted or not shown.isprintable() else shown
