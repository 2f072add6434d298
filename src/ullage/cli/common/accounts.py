"""How the accounts of namespaces stand: as ledgers say, or quotas for those who may not read ledgers."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Final

from ullage.cli.common.session import readable
from ullage.clock import SystemClock
from ullage.errors import UllageError
from ullage.kube.client.client import Client
from ullage.kube.errors import Forbidden, NotFound
from ullage.ledger.accounts import Account, accounts
from ullage.ledger.api import LEDGERS, NAMESPACE, Ledger
from ullage.ledger.codec import book_of
from ullage.ledger.keys import ledger_name, namespace_of
from ullage.space.accounts import NAMESPACE_CELL, vm_of
from ullage.space.api import NAME, QUOTAS, ResourceQuota
from ullage.space.quota import SpaceUsage, Usage, limits_of, usage_in

FROM_QUOTAS: Final = "ledgers may not be read: this is what the quotas say, with what is reserved among what is used"


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


async def standings(client: Client, namespace: str, *, among: Container[str] | None = None) -> Standings:
    """Of one namespace; of all where none is named, or those of them that are among some."""
    ledgers = await readable(_ledgers(client, namespace))
    if isinstance(ledgers, Forbidden):
        quotas = [one for one in (await client.list(QUOTAS, namespace)).items if one.metadata.name == NAME]
        standing = [Standing(one.metadata.namespace, usage_from(one), exact=False) for one in quotas]
        return Standings([one for one in standing if among is None or one.namespace in among], [FROM_QUOTAS])
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
    return Standings(found, notes)


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
