"""`ullage quota set ns/NAME --cpu … --maintenance-cpu …`: what the options stand for, and what is said afterwards. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ullage.errors import BadInput
from ullage.headroom.share_setting import ShareChange
from ullage.headroom.shares import (
    DIVIDED,
    MOST,
    PERCENT_ALLOWED,
    RESOURCE_QUOTA,
    Resource,
    ShareError,
    limits_by_name,
    read_shares,
)
from ullage.ledger.amounts import spell
from ullage.quantity import Quantity, QuantityError

NO_LIMIT: Final = "none"


def change_of(quotas: Mapping[str, str | None], percents: Mapping[str, str | None]) -> ShareChange | None:
    """By resource, what was given for each; None where nothing was. Raises BadInput, which names the option."""
    quota = {
        one.quota: _quantity(f"--{one.name}", given, one) for one in DIVIDED if (given := quotas.get(one.name)) is not None
    }
    maintenance = {
        one.percent: _percent(f"--maintenance-{one.name}", given)
        for one in DIVIDED
        if (given := percents.get(one.name)) is not None
    }
    return ShareChange(quota=quota, maintenance=maintenance) if quota or maintenance else None


def _quantity(option: str, given: str, resource: Resource) -> str | None:
    """As Rancher writes it."""
    if given == NO_LIMIT:
        return None
    allowed = f"a quantity such as {resource.example} is allowed, or {NO_LIMIT}"
    try:
        found = Quantity.parse(given)
    except QuantityError:
        raise BadInput(option, given or "(empty)", f"not a quantity; {allowed}") from None
    if found.sign < 0:
        raise BadInput(option, given, f"negative; {allowed}")
    if found.nanos // resource.nanos > MOST:
        raise BadInput(option, given, f"more than {MOST} {resource.spelled_units()}; {allowed}")
    return str(found)


def _percent(option: str, given: str) -> int | None:
    """None for 0: the value goes, since nothing is kept."""
    text = given.removesuffix("%")
    if not (text.isascii() and text.isdigit() and len(text) <= 3 and int(text) <= 100):
        raise BadInput(option, given or "(empty)", f"not a percentage; {PERCENT_ALLOWED}")
    return int(text) or None


def was_set(namespace: str, annotations: Mapping[str, str], *, dry_run: bool) -> Iterator[str]:
    """A line for each resource: `cpu of namespace team-a is limited to 4 cores: 2 cores for VMs, 2 cores for maintenance`."""
    is_now = "would be" if dry_run else "is"
    shares = read_shares(annotations).shares
    for resource in DIVIDED:
        whose = f"{resource.name} of namespace {namespace}"
        share = shares.get(resource.name)
        if share is not None:
            whole, vms, kept = (_spelled(resource, units) for units in (share.whole, share.vms, share.maintenance))
            yield f"{whose} {is_now} limited to {whole}: {vms} for VMs, {kept} for maintenance"
        elif quota := _quota(annotations, resource):
            yield f"{whose} {is_now} limited to {quota}, and nothing of it is kept for maintenance"
        else:
            yield f"{whose} {is_now} without a limit"


def _quota(annotations: Mapping[str, str], resource: Resource) -> str:
    try:
        found = limits_by_name(RESOURCE_QUOTA, annotations.get(RESOURCE_QUOTA) or "{}")
        return spell(resource.name, Quantity.parse(str(found[resource.quota.lower()][1])), down=True)
    except (ShareError, QuantityError, KeyError):
        return ""


def _spelled(resource: Resource, units: int) -> str:
    return spell(resource.name, resource.quantity(units), down=True)
