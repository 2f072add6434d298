"""The hook for quota objects: refuses what is wrong with one, and warns of what its author may not know.

A limit below present use is no mistake: it keeps things from growing. So it is taken, with the numbers in a warning.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from ullage.kube.cache.indexer import Key
from ullage.kube.errors import Cause
from ullage.kube.identities import is_own
from ullage.kube.review import Decision, Hook, Review, Target
from ullage.kube.slices import Wiring
from ullage.ledger.amounts import Cell
from ullage.ledger.charging.registry import Registry, registry_of
from ullage.ledger.keys import ledger_name
from ullage.quantity import Quantity
from ullage.space.accounts import NAMESPACE_CELL, vm_of
from ullage.space.api import ALLOW_ZERO, HARVESTER_QUOTAS, ResourceQuota
from ullage.space.quota import (
    NAMESPACE_FIELD,
    VM_FIELD,
    QuotaFault,
    SpaceUsage,
    Usage,
    allows_zero,
    faults,
    limits_of,
    over_limit,
    usage_in,
    usage_of,
)
from ullage.vms.api.machines import VIRTUAL_MACHINES

Hold = Callable[[Review], Awaitable[Decision | None]]  # has the limits of a request hold from its answer on
MOST_FAULTS: Final = 10  # in one answer
MOST_WARNINGS: Final = 5  # in one answer: clients print each, and API servers cut what is longer than 4 KiB
WATCHES: Final = (VIRTUAL_MACHINES,)


@dataclass(frozen=True, slots=True)
class QuotaFacts:
    """A quota that is written, and what its author may want to know of the namespace."""

    new: ResourceQuota
    old: ResourceQuota | None
    usage: SpaceUsage
    exists: Callable[[str], bool]  # whether there is a virtual machine of this name; yes where nobody can tell


def new_faults(facts: QuotaFacts) -> list[QuotaFault]:
    """What is wrong now and was not before: whoever mends one fault need not mend all of them."""
    before = set(faults(facts.old)) if facts.old is not None else set()
    return [fault for fault in faults(facts.new) if fault not in before]


def warnings(facts: QuotaFacts) -> tuple[str, ...]:
    found = [*_below_use(facts), *_zeros(facts), *_unknown_vms(facts)]
    more = len(found) - MOST_WARNINGS
    return (*found[:MOST_WARNINGS], *((f"and {more} more of this kind",) if more > 0 else ()))


def _below_use(facts: QuotaFacts) -> Iterator[str]:
    for cell, limit in _changed_limits(facts).items():
        usage = facts.usage.namespace if cell == NAMESPACE_CELL else facts.usage.vms.get(vm_of(cell.account), Usage())
        if usage.used > limit.value():
            whose = f"VM {vm_of(cell.account)}" if cell != NAMESPACE_CELL else f"namespace {facts.new.metadata.namespace}"
            said = over_limit(usage, limit.value())
            yield f"the snapshots of {whose} {said}: nothing is deleted, and new ones are refused until they take less"


def _changed_limits(facts: QuotaFacts) -> Mapping[Cell, Quantity]:
    before = limits_of(facts.old)
    return {cell: limit for cell, limit in limits_of(facts.new).items() if before.get(cell) != limit}


def _zeros(facts: QuotaFacts) -> Iterator[str]:
    if allows_zero(facts.new):
        return
    before = _zero_fields(facts.old) if facts.old is not None and not allows_zero(facts.old) else set()
    for field in sorted(_zero_fields(facts.new) - before):
        yield f'{field}: 0 means no limit; with the annotation {ALLOW_ZERO}: "true" it means that there may be no snapshots'


def _zero_fields(quota: ResourceQuota) -> set[str]:
    limit = quota.spec.snapshot_limit
    found = {f"{VM_FIELD}[{vm}]" for vm, amount in limit.vm_total_snapshot_size_quota.items() if amount == 0}
    return found | ({NAMESPACE_FIELD} if limit.namespace_total_snapshot_size_quota == 0 else set())


def _unknown_vms(facts: QuotaFacts) -> Iterator[str]:
    before = facts.old.spec.snapshot_limit.vm_total_snapshot_size_quota if facts.old is not None else {}
    for vm in sorted(facts.new.spec.snapshot_limit.vm_total_snapshot_size_quota.keys() - before.keys()):
        if not facts.exists(vm):
            where = facts.new.metadata.namespace
            yield f"{VM_FIELD}[{vm}]: there is no VM {vm} in namespace {where} yet; the limit holds when there is"


# --- the hook --------------------------------------------------------------------------------------------------------


class QuotaHooks:
    """Answers admission requests for quotas, and has the ledger hold first and lower limits before."""

    def __init__(self, registry: Registry, exists: Callable[[Key], bool], hold: Hold) -> None:
        self._registry = registry
        self._hold = hold
        self._exists = exists

    async def validate(self, review: Review) -> Decision:
        if is_own(review):
            return Decision.allow()  # takes away what a deleted VM has left behind
        namespace = review.namespace
        facts = QuotaFacts(
            new=review.object(HARVESTER_QUOTAS),
            old=review.old(HARVESTER_QUOTAS),
            usage=self._usage(ledger_name(namespace)),
            exists=lambda vm: self._exists(Key(namespace, vm)),
        )
        if wrong := new_faults(facts):
            return _refusal(wrong)
        told = warnings(facts)
        return await self._hold(review) or Decision.allow(warnings=told)

    def _usage(self, ledger: str) -> SpaceUsage:
        """Before the first quota of a namespace there is no ledger; what its snapshots take stands on them all the same."""
        book = self._registry.look(ledger)
        return usage_of(self._registry.counted(ledger)) if book is None else usage_in(book)


def _refusal(wrong: list[QuotaFault]) -> Decision:
    shown, more = wrong[:MOST_FAULTS], len(wrong) - MOST_FAULTS
    said = "; ".join(map(str, shown)) + (f"; and {more} more" if more > 0 else "")
    return Decision.invalid(said, *(Cause(one.field, "FieldValueInvalid", one.problem) for one in shown))


def _annotation(of: str) -> str:
    found = f"{of}.metadata.annotations"
    return f"(has({found}) && '{ALLOW_ZERO}' in {found} ? {found}['{ALLOW_ZERO}'] : '')"


# An object that goes, and what is written beside the limits, pass while the webhook is away.
ONLY_IF: Final[Mapping[str, str]] = {
    "stays": "!has(object.metadata.deletionTimestamp)",
    "another-limit": "oldObject == null || !has(object.spec) || !has(oldObject.spec) || object.spec != oldObject.spec"
    f" || {_annotation('object')} != {_annotation('oldObject')}",
}


def quota_hook(wiring: Wiring) -> Hook:
    machines, registry = wiring.cache(VIRTUAL_MACHINES), registry_of(wiring)

    def exists(key: Key) -> bool:
        return not machines.served or machines.get(key) is not None

    return Hook(
        name="space-quota",
        phase="validate",
        targets=(Target.of(HARVESTER_QUOTAS, "CREATE", "UPDATE"),),
        answer=QuotaHooks(registry, exists, registry.limiting(HARVESTER_QUOTAS).hold).validate,
        only_if=ONLY_IF,
    )
