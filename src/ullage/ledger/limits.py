"""Limits that change, and when a change is reached.

The number of a change is the version of the limits: bookings do not move it, so a write that carries it never starves on a
hot ledger as a PUT does, and the API server refuses one that does not raise it. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ullage.kube.objects import Json, find_condition, is_true
from ullage.ledger.amounts import Limits, parse_limits, refuse_negative, write_limits
from ullage.ledger.api import Ledger, LedgerSpec
from ullage.ledger.codec import READY, WITHIN_LIMITS
from ullage.ledger.packing import in_flight
from ullage.ledger.packing.strings import PackedError

NO_MANAGED_FIELDS: Final[Mapping[str, Any]] = {"managedFields": [{}]}
"""In a patch of the metadata: the API server forgets which client set which field, and does not begin again unless somebody
applies. Only Ullage writes ledgers, and to keep the record costs nearly half of each write."""


def limits_patch(seen: LedgerSpec, wanted: Limits, *, number: int, about: str = "", grants: Limits | None = None) -> Json:
    """The merge patch that turns the limits that were seen into the wanted ones, as the change with this number.

    `about` is an account: others than it and those under it (`snapshots`: `snapshots/vm/db`) keep the limits that they have.
    `grants` says which of the limits are grants, and of what whole; without it that stays as it is.
    """
    spec: Json = {"change": number, "limits": _patched(seen.limits, wanted, about=about)}
    if grants is not None:
        spec["grants"] = _patched(seen.grants, grants, about=about)
    return {"metadata": NO_MANAGED_FIELDS, "spec": spec}


def _patched(seen: Mapping[str, Mapping[str, str]], wanted: Limits, *, about: str) -> Json:
    new = write_limits(wanted_within(wanted, about=about))
    made: Json = {}
    for account, old in seen.items():
        if is_about(account, about):
            made[account] = {resource: None for resource in old if resource not in new[account]} if account in new else None
    for account, amounts in new.items():
        made[account] = {**(made.get(account) or {}), **amounts}
    return made


def has_limits(spec: LedgerSpec, wanted: Limits, *, about: str = "", grants: Limits | None = None) -> bool:
    """Whether the limits are the wanted ones already."""
    if not _has(parse_limits(spec.limits, field="spec.limits"), wanted, about=about):
        return False
    return grants is None or _has(parse_limits(spec.grants, field="spec.grants"), grants, about=about)


def _has(there: Limits, wanted: Limits, *, about: str) -> bool:
    return {cell: limit for cell, limit in there.items() if is_about(cell.account, about)} == dict(wanted)


def wanted_within(wanted: Limits, *, about: str) -> Limits:
    refuse_negative(wanted)
    if strange := sorted({cell.account for cell in wanted if not is_about(cell.account, about)}):
        raise ValueError(f"limits on {', '.join(strange)}: this change is about {about}")
    return wanted


def is_about(account: str, about: str) -> bool:
    return not about or account == about or account.startswith(f"{about}/")


def are_on_their_way(ledger: Ledger) -> bool:
    """Whether requests that set limits were admitted and are not seen yet. What cannot be read may hold some."""
    try:
        return bool(in_flight.decode(ledger.status.limits_in_flight, ledger=ledger.metadata.name).attempts)
    except PackedError:
        return True


# --- is it reached? --------------------------------------------------------------------------------------------------


def unreached(ledger: Ledger, number: int) -> str:
    """Why a change of the limits is not reached yet, in a sentence; empty where it is.

    Reached means: from here on no more is used than these limits allow, whatever was admitted before them. Whoever has
    lowered a limit may give away the difference then, and not before.
    """
    return next((said for rule in RULES if (said := rule(ledger, number))), "")


def not_set(ledger: Ledger, number: int) -> str:
    has = ledger.spec.change
    return f"change {number} has not come: the limits are those of change {has}" if has < number else ""


def replaced(ledger: Ledger, number: int) -> str:
    return f"change {ledger.spec.change} has taken the place of change {number}" if ledger.spec.change > number else ""


def not_noticed(ledger: Ledger, number: int) -> str:
    """What is said below may be about other limits. The number alone would do, but for one that was written over by hand."""
    status = ledger.status
    if status.change == number and status.observed_generation == ledger.metadata.generation:
        return ""
    return f"nobody has counted since change {number}: the status is about change {status.change}"


def not_exact(ledger: Ledger, number: int) -> str:
    """Something may be on its way that is in no sum."""
    return _unless(ledger, READY, "the count is not exact")


def past_limits(ledger: Ledger, number: int) -> str:
    return _unless(ledger, WITHIN_LIMITS, "more is used or reserved than the limits allow")


RULES: Final[tuple[Callable[[Ledger, int], str], ...]] = (
    not_set,
    replaced,
    not_noticed,  # before what the status says: it may be about the limits of before
    not_exact,
    past_limits,
)


def _unless(ledger: Ledger, type: str, what: str) -> str:
    conditions = ledger.status.conditions
    if is_true(conditions, type, generation=ledger.metadata.generation):
        return ""
    found = find_condition(conditions, type)
    return f"{what}: {found.message}" if found and found.message else what
