"""Machines of user clusters: stamped with what they cost, and booked in the ledger of their project before they are made.

A create is refused where the webhook cannot be asked, and nothing else is: an update passes then, and what it did to a stamp is
put right by the controller. Deletions are not asked about. Who asks may be anybody who may read the registration in a user
cluster, so nobody is believed but by signatures.

Everything is answered from memory and from the ledger; no provider is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from ullage.clock import Clock
from ullage.errors import Retryable
from ullage.kube.client.interface import Finder
from ullage.kube.errors import Cause
from ullage.kube.review import Decision, Hook, Review, Target, Unreadable
from ullage.ledger.amounts import Amounts, Cell
from ullage.ledger.api import LEDGERS, NAMESPACE
from ullage.ledger.book import Book, Refusal
from ullage.ledger.charging.registry import Charged, Registry
from ullage.ledger.charging.stamps import marked
from ullage.ledger.codec import book_of
from ullage.projects.api.machines import MACHINES, Machine
from ullage.projects.charging.keys import StampKeys
from ullage.projects.charging.machines import ChargedClusters
from ullage.projects.escrow.record import leading
from ullage.projects.machines.digests import BadSpec
from ullage.projects.machines.facts import MachineFacts
from ullage.projects.machines.reading import machine_facts
from ullage.projects.machines.signatures import Valid, verify
from ullage.projects.machines.surge import REPLACE, SurgeAllowance, within
from ullage.projects.machines.texts import away_text, refusal_text, rolling_step, room_step, unknown_size_text
from ullage.projects.machines.updates import (
    GUARDED,
    create_fault,
    marks_fault,
    marks_on_create,
    marks_on_update,
    update_fault,
)
from ullage.projects.machines.wholes import NO_PARTS, Wholes
from ullage.projects.names import ACCOUNT, RESOURCES
from ullage.projects.quota import QuotaFault, closed_by
from ullage.projects.settings import Settings
from ullage.projects.sizes.source import SizeSource
from ullage.projects.subjects import QuotaLookup
from ullage.projects.webhook.copy_ages import CopyAges
from ullage.projects.webhook.refusals import RefusalEvents
from ullage.projects.webhook.refused_sets import RefusedSets
from ullage.projects.webhook.room import over_with, room_in, wholes_in
from ullage.projects.webhook.sizing import Sizing, sized
from ullage.projects.webhook.surges import Owners, Surges

SPEC: Final = "spec.providerSpec"
UPDATE_SECONDS: Final = 5  # that an update waits where nobody answers


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineTerms:
    """What answers about Machines are made from."""

    client: Finder  # of the seed
    registry: Registry
    charged: Charged[Machine]
    clusters: ChargedClusters
    keys: StampKeys
    sizes: SizeSource
    surges: Surges
    events: RefusalEvents
    refused: RefusedSets
    quotas: QuotaLookup  # of the seed: its copies
    ages: CopyAges
    settings: Settings
    clock: Clock

    def closed(self, project: str) -> dict[str, QuotaFault]:
        """Why the quota allows nothing of a resource, where its amount cannot be."""
        copy = leading(self.quotas.of(project))
        return closed_by(copy) if copy is not None else {}

    def wholes(self, project: str, book: Book) -> Wholes:
        """What a refusal says of other seeds."""
        return wholes_in(book, self.quotas.of(project))

    def is_limited(self, ledger: str) -> bool:
        """Whether the project has a quota, as this process last saw it."""
        return any(self.registry.is_limited(ledger, Cell(ACCOUNT, name)) for name in RESOURCES)


class MachineWebhook:
    def __init__(self, terms: MachineTerms) -> None:
        self._terms = terms

    # --- create ---

    async def stamp_new(self, review: Review) -> Decision:
        facts = _facts(review, review.object(MACHINES))
        size = sized(self._terms.sizes, review.cluster, facts.provider_spec)
        try:
            return marked(review, marks_on_create(facts, size.amounts, self._terms.keys.current, now=self._terms.clock.now()))
        except BadSpec:
            return marked(review, dict.fromkeys(GUARDED))  # it is told in the validating phase

    async def admit(self, review: Review) -> Decision:
        terms, machine = self._terms, review.object(MACHINES)
        facts, ledger = _facts(review, machine), terms.clusters.ledger(review.cluster)
        if not ledger:
            return Decision.allow()
        size = sized(terms.sizes, review.cluster, facts.provider_spec)
        if fault := create_fault(facts, size.amounts, terms.keys.current, now=terms.clock.now()):
            return Decision.again(fault)
        if size.amounts is None:
            return self._of_unknown_size(facts, size, limited=terms.is_limited(ledger))
        owners = terms.surges.owners(review.cluster, machine)
        try:
            decided = await self._decide_new(review, ledger, size.amounts, owners)
        except Retryable as error:
            return Decision.again(away_text(_shown(facts), problem=str(error)))
        if decided.code == 403 and not review.dry_run:
            terms.events.record(review.cluster, owners, decided.message)
            terms.refused.record(review.cluster, ledger, owners, size=size.amounts)
        return decided

    def _of_unknown_size(self, facts: MachineFacts, size: Sizing, *, limited: bool) -> Decision:
        if not limited or (self._terms.settings.unknown_size == "allow" and size.fault is None):
            return Decision.allow()
        message = unknown_size_text(_shown(facts), size.problem, looked_up=size.looked_up)
        if size.fault is not None:
            return Decision.invalid(message, Cause(size.fault.where, "FieldValueInvalid", size.fault.problem))
        return Decision.refuse(message)

    async def _decide_new(self, review: Review, ledger: str, size: Amounts, owners: Owners) -> Decision:
        terms, allowed = self._terms, None
        if terms.settings.surge == REPLACE and (book := terms.registry.look(ledger)) is not None:
            over = over_with(room_in(book), size)
            allowed = self._allowance(review, book, size, owners) if over else None
            if allowed is not None and within(allowed, over):
                return await self._surge(review, ledger, allowed)
        return await terms.charged.decide(
            review, tell=self._tell(review, ledger, size, owners), hopeless=partial(self._is_full_everywhere, review, ledger)
        )

    def _is_full_everywhere(self, review: Review, ledger: str, refusal: Refusal) -> bool:
        """Whether no seed can have the room, by figures that are of now: then moving grants would not help either."""
        terms = self._terms
        copy, book = leading(terms.quotas.of(terms.clusters.project(review.cluster))), terms.registry.look(ledger)
        if copy is None or book is None or not terms.ages.is_young(copy):
            return False
        wholes = wholes_in(book, [copy])
        return not wholes.stale and any(
            (whole := wholes.of.get(over.resource)) is not None
            and whole.used is not None
            and whole.used_with(over.used) + over.asked > whole.limit
            for over in refusal.over
        )

    async def _surge(self, review: Review, ledger: str, allowed: SurgeAllowance) -> Decision:
        """Booked past the limit first, and looked at then: of several that come at once each sees the others."""
        decided = await self._terms.charged.decide(review, past_limit=True, trusted=lambda asked: True)
        if not decided.allowed or review.dry_run:
            return decided
        found = await self._terms.client.find(LEDGERS, ledger, NAMESPACE)
        if found is None:
            return decided
        room = room_in(book_of(found, now=self._terms.clock.now()))
        over = {name: one.used + one.reserved - one.limit for name, one in room.items() if one.limit is not None}
        if within(allowed, over):
            return decided
        return Decision.again("other machines that replace some came at the same time, and together they are too many")

    def _allowance(self, review: Review, book: Book, size: Amounts, owners: Owners) -> SurgeAllowance | None:
        terms = self._terms
        return terms.surges.allowance(review.cluster, owners, setting=terms.settings.surge, size=size, room=room_in(book))

    def _tell(self, review: Review, ledger: str, size: Amounts, owners: Owners) -> Callable[[Refusal], str]:
        def tell(refusal: Refusal) -> str:
            book = self._terms.registry.look(ledger)
            allowed = self._allowance(review, book, size, owners) if book is not None else None
            replaces = allowed is not None and allowed.replaces and owners.deployment is not None
            project = self._terms.clusters.project(review.cluster)
            step = rolling_step(owners.deployment.metadata.name) if replaces and owners.deployment else room_step(project)
            wholes = self._terms.wholes(project, book) if book is not None else NO_PARTS
            return refusal_text(refusal.over, next_step=step, wholes=wholes, closed=self._terms.closed(project))

        return tell

    # --- update ---

    async def stamp_again(self, review: Review) -> Decision:
        both = _both(review)
        if both is None:
            return Decision.allow()
        keys, now = self._terms.keys.current, self._terms.clock.now()
        return marked(review, marks_on_update(*both, keys, now=now, size_of=self._size_of(review.cluster)))

    async def admit_change(self, review: Review) -> Decision:
        terms, both = self._terms, _both(review)
        ledger = terms.clusters.ledger(review.cluster)
        if both is None or not ledger:
            return Decision.allow()
        (old, new), keys, limited = both, terms.keys.current, terms.is_limited(ledger)
        if fault := update_fault(old, new, keys, size_of=self._size_of(review.cluster), limited=limited):
            return Decision.refuse(fault)
        if fault := marks_fault(old, new, keys):
            field, _, problem = fault.partition(": ")
            return Decision.invalid(fault, Cause(field, "FieldValueInvalid", problem))
        had, given = verify(old, keys), verify(new, keys)
        if not isinstance(given, Valid):
            # It was wrong before, and that must not keep it from losing its finalizers; or its spec has changed before the
            # controller has bound the stamp to it, which takes a moment.
            if limited and isinstance(had, Valid):
                return Decision.again(f"Machine {new.name} was made a moment ago, and its stamp is not settled; try again")
            return Decision.allow()
        try:
            return await terms.charged.decide(review, past_limit=True, trusted=lambda asked: given.form == "bound")
        except Retryable as error:
            return Decision.again(str(error))

    def _size_of(self, cluster: str) -> Callable[[Any], Amounts | None]:
        return lambda spec: sized(self._terms.sizes, cluster, spec).amounts

    # --- what is registered ---

    def hooks(self) -> tuple[Hook, ...]:
        new, changed = (Target.of(MACHINES, "CREATE"),), (Target.of(MACHINES, "UPDATE"),)
        return (
            Hook(
                name="project-machine-stamp",
                phase="mutate",
                targets=new,
                answer=self.stamp_new,
                side_effects="None",
                reinvoke=True,
                elsewhere=True,
            ),
            Hook(name="project-machine", phase="validate", targets=new, answer=self.admit, elsewhere=True),
            Hook(
                name="project-machine-update-stamp",
                phase="mutate",
                targets=changed,
                answer=self.stamp_again,
                failure_policy="Ignore",
                timeout=UPDATE_SECONDS,
                side_effects="None",
                reinvoke=True,
                elsewhere=True,
            ),
            Hook(
                name="project-machine-update",
                phase="validate",
                targets=changed,
                answer=self.admit_change,
                failure_policy="Ignore",
                timeout=UPDATE_SECONDS,
                elsewhere=True,
            ),
        )


def _facts(review: Review, machine: Machine) -> MachineFacts:
    return replace(machine_facts(review.cluster, machine), namespace=review.namespace)


def _both(review: Review) -> tuple[MachineFacts, MachineFacts] | None:
    """As it is stored, and as it is about to be under that identity. None: what is stored cannot be read, and that must not
    keep it from being mended."""
    try:
        old = review.old(MACHINES)
    except Unreadable:
        return None
    if old is None:
        return None
    before = _facts(review, old)
    after = _facts(review, review.object(MACHINES))
    return before, replace(after, name=before.name, uid=before.uid, created=before.created)


def _shown(facts: MachineFacts) -> str:
    return facts.name or facts.generate_name
