"""What the status of a quota says: usage from the ledger, whether it is within the limits, whether it is exact. Pure.

Everything that could be long has an end: 200 virtual machines, five limits that are passed, three that take the most. What is
left out is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from ullage.kube.objects import Conditions, find_condition, set_condition
from ullage.ledger.api import Ledger
from ullage.ledger.charging.methods import UPPER_BOUNDS
from ullage.ledger.codec import READY as LEDGER_READY
from ullage.ledger.keys import ledger_name
from ullage.ledger.limits import has_limits
from ullage.space.accounts import NAMESPACE_CELL, vm_of
from ullage.space.api import (
    MOST_BYTES,
    MOST_SHOWN,
    NAME,
    READY,
    USAGE_FRESH,
    WITHIN_QUOTA,
    ResourceQuota,
    ResourceQuotaStatus,
    SnapshotLimitStatus,
    UsageForPeople,
)
from ullage.space.quota import SNAPSHOTS, SpaceUsage, Usage, faults, limits_of, over_limit, spelled

UNKNOWN: Final = "unknown"  # what is used, while nobody has counted
LISTED: Final = 5  # limits that are passed, or faults, which a message spells out
CONSUMERS: Final = 3  # virtual machines that a message names for taking the most


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusFacts:
    quota: ResourceQuota
    ledger: Ledger | None
    usage: SpaceUsage | None  # None: nobody has counted, or it cannot be read
    problem: str = ""  # why it cannot be read
    exists: Callable[[str], bool]  # whether there is a virtual machine of this name; yes where nobody can tell
    estimates: Mapping[str, int]
    may_pass_by: int = 0  # bytes


class Said(NamedTuple):
    """One condition: None is Unknown."""

    status: bool | None
    reason: str
    message: str


def status_of(facts: StatusFacts, *, now: datetime) -> ResourceQuotaStatus:
    """What is not about usage (the virtual machines that are known) stays as it is. So does the usage while nobody can say
    anything else: what was counted last is better than nothing, and `UsageFresh` says how good it is."""
    old, meta = facts.quota.status, facts.quota.metadata
    said = {READY: _ready(facts), WITHIN_QUOTA: _within(facts), USAGE_FRESH: _fresh(facts)}
    conditions: Conditions = old.conditions
    for type, (status, reason, message) in said.items():
        conditions = set_condition(
            conditions, type, status=status, reason=reason, message=message, generation=meta.generation, now=now
        )
    new = msgspec.structs.replace(old, observed_generation=meta.generation, conditions=conditions)
    if meta.name != NAME:
        return new
    if facts.usage is None:
        return new if old.snapshot_limit_status is not None else msgspec.structs.replace(new, shown=_uncounted(facts.quota))
    shown, left_out = _vms(facts, facts.usage)
    return msgspec.structs.replace(
        new,
        snapshot_limit_status=SnapshotLimitStatus(
            namespace_total_snapshot_size_usage=min(facts.usage.namespace.used, MOST_BYTES),
            vm_total_snapshot_size_usage={vm: min(one.used, MOST_BYTES) for vm, one in sorted(shown.items())},
        ),
        shown=_for_people(facts.usage.namespace, shown, may_pass_by=facts.may_pass_by),
        left_out=left_out,
        estimates=dict(sorted(facts.estimates.items())),
    )


# --- virtual machines ------------------------------------------------------------------------------------------------


def _there(facts: StatusFacts, usage: SpaceUsage) -> dict[str, Usage]:
    """Those that use something or have a limit, and are not deleted: what one has left behind counts for the namespace."""
    return {vm: one for vm, one in usage.vms.items() if (one.used or one.limit is not None) and facts.exists(vm)}


def _vms(facts: StatusFacts, usage: SpaceUsage) -> tuple[dict[str, Usage], int]:
    """Those that are closest to their limits, then those that use the most; and how many there are besides."""
    there = _there(facts, usage)
    ordered = sorted(there.items(), key=lambda entry: (-entry[1].share, -entry[1].used, entry[0]))
    return dict(ordered[:MOST_SHOWN]), max(0, len(ordered) - MOST_SHOWN)


def _uncounted(quota: ResourceQuota) -> UsageForPeople:
    """For a quota that was made a moment ago: what `kubectl get` shows then."""
    limit = limits_of(quota).get(NAMESPACE_CELL)
    return UsageForPeople(used=UNKNOWN, limit="none" if limit is None else spelled(limit.value(), down=True))


def _for_people(whole: Usage, vms: Mapping[str, Usage], *, may_pass_by: int) -> UsageForPeople:
    limited = [(vm, one) for vm, one in vms.items() if one.limit is not None]
    fullest = max(limited, key=lambda entry: (entry[1].share, entry[1].used), default=None)
    return UsageForPeople(
        used=spelled(whole.used),
        reserved=spelled(whole.reserved),
        limit="none" if whole.limit is None else spelled(whole.limit, down=True),
        percent=_percent(whole),
        fullest_vm=f"{fullest[0]} {_percent(fullest[1]) or spelled(fullest[1].used)}" if fullest is not None else "",
        may_pass_by=spelled(may_pass_by) if may_pass_by else "",
    )


def _percent(usage: Usage) -> str:
    """100 means full to the last byte, and anything more is 101 at least."""
    if not usage.limit:
        return ""
    return f"{usage.used * 100 // usage.limit if not usage.over else -(-usage.used * 100 // usage.limit)}%"


# --- conditions ------------------------------------------------------------------------------------------------------


def _ready(facts: StatusFacts) -> Said:
    """Whether the limits are in force."""
    meta = facts.quota.metadata
    if meta.name != NAME:
        return Said(False, "WrongName", f"only the quota that is called {NAME} counts: this one limits nothing")
    wanted = limits_of(facts.quota)
    ledger = ledger_name(meta.namespace)
    if facts.ledger is None or not has_limits(facts.ledger.spec, wanted, about=SNAPSHOTS):
        return Said(False, "Pending", f"the limits are not in ledger {ledger} yet")
    if wrong := list(faults(facts.quota)):
        return Said(
            False,
            "InvalidLimits",
            f"these allow nothing until they are corrected, or are no limit at all: {_few([str(one) for one in wrong])}",
        )
    whole = facts.quota.spec.snapshot_limit.namespace_total_snapshot_size_quota
    vms = sum(1 for cell in wanted if vm_of(cell.account))
    said = f"{spelled(whole, down=True)} for the namespace" if len(wanted) > vms and isinstance(whole, int) else ""
    own = f"{vms} virtual machine{'' if vms == 1 else 's'} with a limit of {'its' if vms == 1 else 'their'} own" if vms else ""
    limits = ", ".join(part for part in (said, own) if part)
    estimated = f"; estimated: may pass by up to {spelled(facts.may_pass_by)}" if limits and facts.may_pass_by else ""
    return Said(True, "InForce", f"in force: {limits}{estimated}" if limits else "there is no limit")


def _within(facts: StatusFacts) -> Said:
    if facts.usage is None or facts.quota.metadata.name != NAME:
        return Said(None, "NotCounted", "what snapshots take is not known yet")
    there = _there(facts, facts.usage)
    passed = _passed(facts.quota.metadata.namespace, facts.usage.namespace, there)
    if not passed:
        whole = facts.usage.namespace
        limit = "without a limit" if whole.limit is None else f"of {spelled(whole.limit, down=True)}"
        percent = f" ({_percent(whole)})" if _percent(whole) else ""
        return Said(True, "WithinQuota", f"the snapshots of the namespace take {spelled(whole.used)} {limit}{percent}")
    next_step = f"nothing is deleted; see `ullage usage -n {facts.quota.metadata.namespace} --group-by vm`"
    return Said(False, "QuotaPassed", f"{_few(passed)}{_consumers(there)}; {next_step}")


def _passed(namespace: str, whole: Usage, vms: Mapping[str, Usage]) -> list[str]:
    found = [f"the snapshots of namespace {namespace} {over_limit(whole, whole.limit or 0)}"] if whole.over else []
    ordered = sorted(vms.items(), key=lambda entry: (-entry[1].over, entry[0]))
    return found + [f"the snapshots of VM {vm} {over_limit(one, one.limit or 0)}" for vm, one in ordered if one.over]


def _consumers(vms: Mapping[str, Usage]) -> str:
    largest = sorted((one for one in vms.items() if one[1].used), key=lambda entry: (-entry[1].used, entry[0]))[:CONSUMERS]
    return f"; the most is taken by {', '.join(f'VM {vm} ({spelled(one.used)})' for vm, one in largest)}" if largest else ""


def _fresh(facts: StatusFacts) -> Said:
    """As the ledger says, and how the sizes are known."""
    if facts.problem:
        return Said(False, "Unreadable", facts.problem)
    ready = find_condition(facts.ledger.status.conditions, LEDGER_READY) if facts.ledger is not None else None
    if facts.quota.metadata.name != NAME or facts.usage is None or ready is None:
        return Said(None, "NotCounted", "nobody has counted yet")
    if ready.status != "True":
        return Said(False if ready.status == "False" else None, ready.reason or "NotExact", ready.message)
    ways = [
        f"{count} by {way}{' (an upper bound)' if way in UPPER_BOUNDS else ''}"
        for way, count in sorted(facts.estimates.items())
    ]
    known = f"; sizes of {', '.join(ways)}" if ways else ""
    return Said(True, "Exact", f"everything is counted{known}")


def _few(said: list[str]) -> str:
    more = f"; and {len(said) - LISTED} more" if len(said) > LISTED else ""
    return f"{'; '.join(said[:LISTED])}{more}"
