"""VirtualMachineBackups: one that is ours pays for all its members, as long as it exists. One of Harvester's pays nothing, as
its members do; but whether they would fit is said when it is asked for, and not when half of them are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from ullage.engines.api import Engine
from ullage.kube.client.interface import Finder
from ullage.kube.identities import is_own
from ullage.kube.objects import controller_of, is_deleting, is_owned_by
from ullage.kube.review import Decision, Review
from ullage.ledger.book import Charge
from ullage.ledger.charging.methods import weakest
from ullage.ledger.charging.plans import Plan, read_plan, write_plan
from ullage.ledger.charging.registry import Registry
from ullage.ledger.charging.stamps import ESTIMATED_BY, PLAN, STAMP, Marks, Stamp
from ullage.ledger.keys import key_of, ledger_name
from ullage.ledger.service.service import decision
from ullage.names import is_subdomain
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.model import Snapshot
from ullage.space import estimates
from ullage.space.accounts import NAMESPACE_CELL, TooManyMachines, quantity, vm_cell
from ullage.space.lookup import SpaceLookup
from ullage.space.webhook.payment import Payment, next_step, pays
from ullage.vms.api.backups import VM_BACKUPS, VirtualMachineBackup
from ullage.vms.claims import claims_of

# What stamp follows from the plan of a backup: who pays for its claims.


def shares_of(plan: Plan, payers: Callable[[str], Iterable[str]]) -> dict[str, int]:
    """What each virtual machine pays: for the claims that it references. `payers` are those of a claim."""
    found: dict[str, int] = {}
    for claim, amount in plan.items():
        for vm in payers(claim):
            found[vm] = found.get(vm, 0) + amount
    return found


def stamp_of_plan(plan: Plan, payers: Callable[[str], Iterable[str]]) -> Stamp:
    """The namespace pays for all, each virtual machine for its own."""
    shares = {vm_cell(vm): quantity(share) for vm, share in shares_of(plan, payers).items()}
    return Stamp({NAMESPACE_CELL: quantity(sum(plan.values())), **shares})


class Planner:
    """What the members of a backup would take together."""

    def __init__(self, lookup: SpaceLookup, payment: Payment) -> None:
        self._lookup = lookup
        self._payment = payment

    async def plan(self, namespace: str, vm: str) -> dict[str, estimates.Estimate]:
        """By claim. Of a virtual machine that does not exist: nothing; another hook refuses that. A backup is not weighed
        after its cut, so no estimate will do that it may pass."""
        machine = await self._lookup.machine(namespace, vm)
        claims = claims_of(machine) if machine is not None else ()
        return {claim: estimates.new_snapshot(await self._lookup.of_claim(namespace, claim), bound=True) for claim in claims}

    def engines(self, namespace: str, claims: Iterable[str]) -> list[Engine | None]:
        """Those of the claims' volumes, as far as the caches show them."""
        return [self._lookup.engine_of_claim(namespace, claim) for claim in claims]

    def stamp(self, namespace: str, plan: Mapping[str, int]) -> Stamp:
        """Raises TooManyMachines."""
        return stamp_of_plan(plan, partial(self._payment.payers, namespace))

    def shares(self, namespace: str, plan: Mapping[str, int]) -> dict[str, int]:
        return shares_of(plan, partial(self._payment.payers, namespace))


class Backups:
    """Those that are ours. See `charging.Terms`."""

    def __init__(self, client: Finder, planner: Planner) -> None:
        self._client = client
        self._planner = planner

    async def fresh(self, review: Review) -> Marks:
        found = await self._planner.plan(review.namespace, review.object(VM_BACKUPS).spec.source.name)
        plan = {claim: one.bytes for claim, one in found.items()}
        return {
            STAMP: str(self._planner.stamp(review.namespace, plan)),
            PLAN: write_plan(plan),
            ESTIMATED_BY: weakest(one.by for one in found.values()),
        }

    async def happened(self, review: Review) -> bool:
        """Whether all its members are cut. Their records tell; its own status may be anybody's writing."""
        old = review.old(VM_BACKUPS)
        if old is None:
            return False
        if is_deleting(old.metadata) or STAMP not in old.metadata.annotations:
            return True
        wanted = set(read_plan(old.metadata))
        cut = {claim for one in old.status.volume_backups if (claim := await self._cut(old, one.name))}
        return bool(wanted) and wanted <= cut

    def trusts(self, review: Review) -> bool:
        return is_own(review)

    async def shares(self, review: Review, amount: int) -> Mapping[str, int]:
        return self._planner.shares(review.namespace, read_plan(review.object(VM_BACKUPS).metadata))

    def next_step(self, review: Review) -> str:
        plan = read_plan(review.object(VM_BACKUPS).metadata)
        return next_step(review, review.namespace, engines=self._planner.engines(review.namespace, plan))

    async def _cut(self, backup: VirtualMachineBackup, name: str) -> str:
        """The claim of a member that is cut; empty: it is none. Whoever names himself a member pays for himself."""
        found = await self._client.find(GA.snapshots, name, backup.metadata.namespace) if is_subdomain(name) else None
        if found is None or not is_owned_by(found.metadata, backup.metadata.uid) or pays(found.metadata):
            return ""
        member = GA.read_snapshot(found)
        record = await self._client.find(GA.records, GA.record_name(member))
        known = GA.read_record(record) if record is not None else None
        if known is None or known.ref.uid != found.metadata.uid or not known.is_cut:
            return ""
        return member.claim


class Members:
    """Whose backup pays for a VolumeSnapshot."""

    def __init__(self, client: Finder) -> None:
        self._client = client

    async def is_paid_for(self, review: Review, snapshot: Snapshot) -> bool:
        """Only what our own controller makes, for a backup that is there and whose plan names the claim. By the API itself: an
        owner that is written down proves nothing."""
        owner = controller_of(snapshot.meta)
        if not is_own(review) or owner is None or not is_subdomain(owner.name):
            return False
        if (owner.api_version, owner.kind) != (VM_BACKUPS.api_version, VM_BACKUPS.kind):
            return False
        backup = await self._client.find(VM_BACKUPS, owner.name, review.namespace)
        if backup is None or backup.metadata.uid != owner.uid or is_deleting(backup.metadata):
            return False
        return snapshot.claim in read_plan(backup.metadata)


class ObservedBackups:
    """Those that Harvester makes: checked as if they were to pay, and nothing is written."""

    def __init__(self, registry: Registry, planner: Planner) -> None:
        self._registry = registry
        self._planner = planner

    async def validate(self, review: Review) -> Decision:
        backup = review.object(VM_BACKUPS)
        found = await self._planner.plan(review.namespace, backup.spec.source.name)
        try:
            stamp = self._planner.stamp(review.namespace, {claim: one.bytes for claim, one in found.items()})
        except TooManyMachines as error:
            return Decision.refuse(str(error))
        if not stamp.takes:
            return Decision.allow()
        key = key_of(VM_BACKUPS.name, namespace=review.namespace, name=backup.metadata.name or review.name)
        charge = Charge(key=key, uid=backup.metadata.uid, now=stamp.takes, dry_run=True)
        verdict = await self._registry.service.decide(ledger_name(review.namespace), charge, deadline=review.deadline)
        step = next_step(review, review.namespace, engines=self._planner.engines(review.namespace, found))
        return decision(verdict, next_step=step)
