"""How the accounts of namespaces stand: as ledgers say, or quotas and SnapshotLimits for those who may not read ledgers."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ullage.cli.common.session import readable
from ullage.clock import SystemClock
from ullage.errors import UllageError
from ullage.kube.client.client import Client
from ullage.kube.errors import Forbidden, NotFound
from ullage.ledger.accounts import Account, accounts
from ullage.ledger.amounts import Cell, is_for_each
from ullage.ledger.api import LEDGERS, NAMESPACE, Ledger
from ullage.ledger.codec import book_of
from ullage.ledger.keys import ledger_name, namespace_of
from ullage.policies.counts.accounts import claim_of, is_count, together
from ullage.policies.counts.api import SNAPSHOT_LIMITS, SnapshotLimit
from ullage.space.accounts import NAMESPACE_CELL, vm_of
from ullage.space.api import HARVESTER_QUOTAS, NAME, ResourceQuota
from ullage.space.quota import SpaceUsage, Usage, limits_of, usage_in

FROM_QUOTAS: Final = "ledgers may not be read: this is what the quotas say, with what is reserved among what is used"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotCount:
    """How many snapshots there are in a namespace, or of a claim. None: nobody says, or there is no limit."""

    claim: str = ""  # empty: it is about the namespace
    used: int = 0
    reserved: int | None = None  # admitted, and not there yet; None: they are among those that are used
    limit: int | None = None

    @property
    def free(self) -> int | None:
        return None if self.limit is None else self.limit - self.used - (self.reserved or 0)


Counts = Sequence[SnapshotCount]  # that of the namespace first, then claims, the fullest first


@dataclass(frozen=True, slots=True)
class Standing:
    """Of a namespace. `exact`: what is only reserved is told apart."""

    namespace: str
    usage: SpaceUsage
    exact: bool = True
    accounts: Sequence[Account] = ()  # all of them; none where ledgers may not be read


@dataclass(frozen=True, slots=True)
class Standings:
    found: Sequence[Standing]
    notes: Sequence[str] = ()
    counts: Mapping[str, Counts] = field(default_factory=dict)  # by namespace


async def standings(client: Client, namespace: str, *, among: Container[str] | None = None) -> Standings:
    """Of one namespace; of all where none is named, or those of them that are among some."""
    ledgers = await readable(_ledgers(client, namespace))
    if isinstance(ledgers, Forbidden):
        quotas = [one for one in (await client.list(HARVESTER_QUOTAS, namespace)).items if one.metadata.name == NAME]
        standing = [Standing(one.metadata.namespace, usage_from(one), exact=False) for one in quotas]
        counts = counts_from(await snapshot_limits(client, namespace))
        return Standings(
            [one for one in standing if among is None or one.namespace in among],
            [FROM_QUOTAS],
            {place: found for place, found in counts.items() if among is None or place in among},
        )
    found, notes = [], []
    for ledger in ledgers:
        if among is not None and namespace_of(ledger.metadata.name) not in among:
            continue
        try:
            book = book_of(ledger, now=SystemClock().now())
        except UllageError as error:
            notes.append(f"ledger {ledger.metadata.name} cannot be read: {error}")
            continue
        found.append(Standing(namespace_of(ledger.metadata.name), usage_in(book), accounts=accounts(book)))
    return Standings(found, notes, {one.namespace: counts_in(one.accounts) for one in found})


async def _ledgers(client: Client, namespace: str) -> list[Ledger]:
    try:
        if namespace:
            found = await client.find(LEDGERS, ledger_name(namespace), NAMESPACE)
            return [found] if found is not None else []
        listed = (await client.list(LEDGERS, NAMESPACE)).items
    except NotFound:  # the kind is not served: nothing is limited here
        return []
    return [one for one in listed if namespace_of(one.metadata.name)]


def usage_from(quota: ResourceQuota) -> SpaceUsage:
    """What a quota says of its namespace."""
    limits = {cell: limit.value() for cell, limit in limits_of(quota).items()}
    status = quota.status.snapshot_limit_status
    vms = {vm: Usage(limit=limit) for cell, limit in limits.items() if (vm := vm_of(cell.account))}
    if status is not None:
        for vm, used in status.vm_total_snapshot_size_usage.items():
            vms[vm] = Usage(used, 0, vms.get(vm, Usage()).limit)
    used = status.namespace_total_snapshot_size_usage if status is not None else 0
    return SpaceUsage(Usage(used, 0, limits.get(NAMESPACE_CELL)), vms)


# --- the number of snapshots -----------------------------------------------------------------------------------------


def counts_in(found: Iterable[Account]) -> Counts:
    """Of a ledger."""
    cells = {Cell(one.name, one.resource): one for one in found}
    return _ordered(
        SnapshotCount(
            claim=claim_of(cell),
            used=one.used.value(),
            reserved=one.reserved.value(),
            limit=None if one.limit is None else one.limit.value(),
        )
        for cell, one in cells.items()
        if is_count(cell) and not is_for_each(cell)
    )


def counts_from(limits: Iterable[SnapshotLimit]) -> dict[str, Counts]:
    """By namespace, as far as SnapshotLimits say: they name the fullest claims. Not before somebody has counted."""
    by_namespace: dict[str, list[SnapshotLimit]] = {}
    for one in limits:
        by_namespace.setdefault(one.metadata.namespace, []).append(one)
    return {namespace: counts for namespace, found in by_namespace.items() if (counts := _said(found))}


def _said(limits: Sequence[SnapshotLimit]) -> Counts:
    status = max((one.status for one in limits if one.status.used is not None), key=lambda one: len(one.claims), default=None)
    if status is None:
        return ()
    allowed = together(limits)
    whole = SnapshotCount(used=status.used or 0, limit=allowed.snapshots)
    claims = [SnapshotCount(claim=one.claim, used=one.used, limit=allowed.per_claim) for one in status.claims]
    return _ordered([whole, *claims])


def _ordered(found: Iterable[SnapshotCount]) -> Counts:
    return sorted(found, key=lambda one: (bool(one.claim), -one.used - (one.reserved or 0), one.claim))


async def snapshot_limits(client: Client, namespace: str, *, labels: str = "") -> Sequence[SnapshotLimit]:
    """None where the kind is not served, or may not be read."""
    try:
        return (await client.list(SNAPSHOT_LIMITS, namespace, labels=labels)).items
    except (NotFound, Forbidden):
        return ()
