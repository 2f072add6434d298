"""What the status of a SnapshotLimit says: the count from the ledger, whether it is within the limits, whether it is exact.
Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from ullage.kube.objects import Condition, find_condition, set_condition
from ullage.ledger.api import Ledger
from ullage.ledger.book import Book
from ullage.ledger.codec import READY as LEDGER_READY
from ullage.ledger.keys import ledger_name
from ullage.ledger.limits import has_limits
from ullage.policies.counts.accounts import (
    COUNTS,
    NAMESPACE_CELL,
    CountLimits,
    by_claim,
    in_words,
    number_in,
    pieces,
    together,
)
from ullage.policies.counts.api import (
    MOST_CLAIMS_SHOWN,
    READY,
    WITHIN_LIMITS,
    ClaimCount,
    SnapshotLimit,
    SnapshotLimitStatus,
)

LISTED: Final = 5  # claims that are past the limit, which a message spells out


@dataclass(frozen=True, slots=True, kw_only=True)
class CountFacts:
    limit: SnapshotLimit
    all_limits: Sequence[SnapshotLimit]  # of the namespace
    ledger: Ledger | None
    book: Book | None  # None: nobody has counted, or it cannot be read
    problem: str = ""  # why it cannot be read


@dataclass(frozen=True, slots=True)
class _Said:
    """One condition: None is Unknown."""

    status: bool | None
    reason: str
    message: str


def status_of(facts: CountFacts, *, now: datetime) -> SnapshotLimitStatus:
    """What was counted last stays while nobody can say anything else; `Ready` says how good it is."""
    old, meta, limits = facts.limit.status, facts.limit.metadata, together(facts.all_limits)
    conditions = old.conditions
    for type, said in ((READY, _ready(facts, limits)), (WITHIN_LIMITS, _within(facts, limits))):
        conditions = set_condition(
            conditions,
            type,
            status=said.status,
            reason=said.reason,
            message=said.message,
            generation=meta.generation,
            now=now,
        )
    new = msgspec.structs.replace(
        old,
        observed_generation=meta.generation,
        limit=limits.snapshots,
        per_claim=limits.per_claim,
        delete_oldest=limits.delete_oldest,
        conditions=conditions,
    )
    if facts.book is None:
        return new
    claims = sorted(by_claim(facts.book).items(), key=lambda one: (-one[1], one[0]))
    return msgspec.structs.replace(
        new,
        used=number_in(facts.book, NAMESPACE_CELL),
        claims=tuple(ClaimCount(claim=claim, used=used) for claim, used in claims[:MOST_CLAIMS_SHOWN]),
        waiting=len(facts.book.waiting) or None,
    )


def _ready(facts: CountFacts, limits: CountLimits) -> _Said:
    """Whether the limits are in force, and the count exact."""
    name = ledger_name(facts.limit.metadata.namespace)
    if facts.problem:
        return _Said(False, "Unreadable", facts.problem)
    if facts.ledger is None or not has_limits(facts.ledger.spec, limits.cells, about=COUNTS):
        return _Said(False, "Pending", f"the limits are not in ledger {name} yet")
    exact = find_condition(facts.ledger.status.conditions, LEDGER_READY)
    if exact is None or facts.book is None:
        return _Said(False, "Counting", "the limits are in force; nobody has counted yet what was there before them")
    if exact.status != "True":
        return _Said(False, exact.reason or "Counting", f"the limits are in force, and the count is not exact: {exact.message}")
    return _Said(True, "InForce", f"in force: {in_words(limits)}")


def _within(facts: CountFacts, limits: CountLimits) -> _Said:
    if facts.book is None:
        return _Said(None, "NotCounted", "how many snapshots there are is not known yet")
    namespace, used = facts.limit.metadata.namespace, number_in(facts.book, NAMESPACE_CELL)
    passed = []
    if limits.snapshots is not None and used > limits.snapshots:
        passed.append(f"namespace {namespace} has {pieces(used)}, {used - limits.snapshots} more than {limits.snapshots}")
    if limits.per_claim is not None:
        over = sorted((-number, claim) for claim, number in by_claim(facts.book).items() if number > limits.per_claim)
        passed += [f"claim {claim} has {pieces(-number)}, more than {limits.per_claim}" for number, claim in over[:LISTED]]
        passed += [f"so have {len(over) - LISTED} other claims"] if len(over) > LISTED else []
    if not passed:
        allowed = "without a limit" if limits.snapshots is None else f"of {limits.snapshots}"
        return _Said(True, "WithinLimits", f"the namespace has {pieces(used)} {allowed}")
    next_step = f"nothing is deleted for that, and no new one is admitted; see `kubectl get snapshotlimits -n {namespace}`"
    return _Said(False, "LimitPassed", f"{'; '.join(passed)}; {next_step}")


def passed_or_not(old: Condition | None, new: Condition | None) -> Condition | None:
    """The condition where it is worth an Event: a limit that is passed, and that it is not any more."""
    if new is None or new.status == (old.status if old is not None else "Unknown"):
        return None
    if new.status == "False":
        return new
    return new if new.status == "True" and old is not None and old.status == "False" else None
