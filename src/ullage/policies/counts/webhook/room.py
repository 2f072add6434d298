"""What is said to a new snapshot that does not fit: to try again, since the oldest is being deleted for it; or why not.

Nothing is deleted here. Who is told to try again is written down in the ledger as waiting, and the controller sees to it. Only
those are, whom it would help: for a create that could not come to anything (its claim is not there, or something else than our
limits refuses it), for a dry run, and where too little may be deleted, nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from ullage.clock import Clock
from ullage.kube.builtin.core import CLAIMS
from ullage.kube.cache.indexer import Key
from ullage.kube.client.interface import Finder
from ullage.kube.kinds import Kind
from ullage.kube.objects import is_deleting
from ullage.kube.review import Decision, Review
from ullage.kube.slices import Wiring, Write
from ullage.ledger.amounts import Cell, total
from ullage.ledger.book import Charge, Refusal
from ullage.ledger.charges import Addressed
from ullage.ledger.charging.registry import registry_of
from ullage.ledger.keys import key_of, ledger_name, namespace_of
from ullage.ledger.refusals import refusal_text
from ullage.ledger.service.service import decision
from ullage.names import is_subdomain
from ullage.policies.counts import candidates as found_in
from ullage.policies.counts.accounts import one_of, together
from ullage.policies.counts.api import SNAPSHOT_LIMITS
from ullage.policies.counts.candidates import Candidates
from ullage.policies.counts.charges import DIALECTS
from ullage.policies.counts.choice import UNFINISHED, Candidate, Choice, Lack, choose, why_kept
from ullage.policies.counts.lookup import LimitLookup
from ullage.policies.counts.webhook.trial import Trials
from ullage.snapshots.model import Dialect
from ullage.times import read_time

WATCHES: Final[tuple[Kind[Any], ...]] = (SNAPSHOT_LIMITS, *found_in.WATCHES)
WRITES: Final = tuple(Write(one.snapshots, ("create",)) for one in DIALECTS)  # as dry runs
KEPT_SECONDS: Final = 1.0  # for so long what there is in a namespace, or of a claim, is not looked at again
MOST_KEPT: Final = 200  # namespaces and claims whose snapshots are remembered so
RETRY: Final = 1.0  # seconds after which who waits is to ask again
LATER: Final = 2.0  # the same of one for whom nothing may be deleted yet
YOUNG_SECONDS: Final = 120.0  # for so long a snapshot that is not finished is taken to be about to
NAMED: Final = 3  # snapshots that are being deleted, which a text names


class Room:
    """To be made while a part is that declares `WATCHES`, through `wiring.shared`."""

    def __init__(self, wiring: Wiring) -> None:
        self._registry = registry_of(wiring)
        self._client: Finder = wiring.client
        self._clock: Clock = wiring.clock
        self._limits = wiring.shared(LimitLookup)
        self._candidates = wiring.shared(Candidates)
        self._trials = Trials(wiring.client, wiring.clock)
        self._seen: dict[tuple[str, int], tuple[float, Sequence[Candidate]]] = {}

    async def relieve(self, review: Review, asked: Addressed, refusal: Refusal) -> Decision | None:
        """See `registry.Relief`: for creates in namespaces whose limits say `deleteOldest`."""
        namespace = namespace_of(asked.ledger)
        if review.operation != "CREATE" or not together(self._limits.of(namespace)).delete_oldest:
            return None
        lack = _without_reserved(refusal)
        if not lack:
            return _later(refusal, "nothing is deleted for what is held for other requests, which may come to nothing")
        candidates = self._candidates.of(namespace, lack, look=self._oldest)
        choice = choose(lack, candidates)
        if not choice.helps:
            soon = choose(lack, [_finished(one, self._clock.now()) for one in candidates])
            why = _too_little(candidates, choice.short)
            return _later(refusal, why) if soon.helps else _refused(refusal, namespace, why)
        if problem := await self._cannot_be(review):
            return _refused(refusal, namespace, problem)
        if review.dry_run:
            return _refused(refusal, namespace, f"this is a dry run; otherwise {_to_be_deleted(choice)} would be deleted")
        tried = await self._trials.of(review)
        if tried.refusal:
            return _refused(
                refusal, namespace, f"nothing is deleted for it, since it would be refused all the same: {tried.refusal}"
            )
        if tried.unknown:
            return _later(
                refusal, f"nothing is deleted for it before it is known that it would be admitted then: {tried.unknown}"
            )
        waiting = replace(asked.charge, waits=True)
        verdict = await self._registry.service.decide(asked.ledger, waiting, deadline=review.deadline)
        if verdict.existing or verdict.allowed:
            return decision(verdict)
        return Decision.again(again_text(verdict.refusal or refusal, choice), retry_after=RETRY)

    async def refuse_members(self, review: Review, kind: Kind[Any], claims: Iterable[str]) -> Decision | None:
        """What is said to a new object whose members, a snapshot of each claim, would never all fit: before the first of them
        is made, and anything deleted for it. None: they may. Nothing is booked: each member is, when it comes."""
        wanted = total(one_of(claim) for claim in claims)
        namespace, name = review.namespace, review.object(kind).metadata.name or review.name
        charge = Charge(key=key_of(kind.name, namespace=namespace, name=name), uid=review.uid, now=wanted, dry_run=True)
        verdict = await self._registry.service.decide(ledger_name(namespace), charge, deadline=review.deadline)
        if verdict.refusal is None or verdict.existing:
            return None
        lack = _without_reserved(verdict.refusal)
        if not together(self._limits.of(namespace)).delete_oldest:
            return _refused(verdict.refusal, namespace, "it is made of that many snapshots")
        candidates = self._candidates.of(namespace, lack, look=self._oldest)
        choice = choose(lack, candidates)
        return None if choice.helps else _refused(verdict.refusal, namespace, _too_little(candidates, choice.short))

    def _oldest(self, place: str, most: int) -> Sequence[Candidate]:
        """What there is, as it was a second ago at most: a namespace may have thousands, and thousands may ask."""
        now, asked = self._clock.monotonic(), (place, most)
        at, found = self._seen.get(asked, (now - KEPT_SECONDS, ()))
        if now - at < KEPT_SECONDS:
            return found
        self._seen.pop(asked, None)
        if len(self._seen) >= MOST_KEPT:
            self._seen.pop(next(iter(self._seen)))
        found = self._candidates.oldest(place, most)
        self._seen[asked] = now, found
        return found

    async def _cannot_be(self, review: Review) -> str:
        """Why nothing would come of a snapshot, although there were room; empty: it may be. Of other kinds others tell."""
        dialect = next((one for one in DIALECTS if _is_of(review, one)), None)
        if dialect is None:
            return ""
        asked = dialect.read_snapshot(review.object(dialect.snapshots))
        if asked.imported_record:
            there = is_subdomain(asked.imported_record) and await self._client.find(dialect.records, asked.imported_record)
            return "" if there else f"{dialect.records.kind} {asked.imported_record} is not there, so nothing is deleted for it"
        claim = await self._claim(review.namespace, asked.claim)
        if claim is None:
            return f"claim {asked.claim} is not there, so nothing is deleted for a snapshot of it"
        return (
            f"claim {asked.claim} is being deleted, so nothing is for a snapshot of it" if is_deleting(claim.metadata) else ""
        )

    async def _claim(self, namespace: str, name: str) -> Any:
        if not is_subdomain(name):
            return None
        return self._candidates.claims.get(Key(namespace, name)) or await self._client.find(CLAIMS, name, namespace)


def _is_of(review: Review, dialect: Dialect[Any, Any]) -> bool:
    return (review.kind.group, review.kind.kind) == (dialect.snapshots.group, dialect.snapshots.kind)


def again_text(refusal: Refusal, choice: Choice) -> str:
    return f"{refusal_text(refusal)}. {_being_deleted(choice)}. Try again: this fits once that is really gone"


def _without_reserved(refusal: Refusal) -> Lack:
    """What is lacking by what is there. What is held for other requests is no reason to delete anything: nothing may come of
    them; and when they are there, they may be deleted too."""
    left = ((Cell(one.account, one.resource), one.over, one.reserved) for one in refusal.over)
    return {cell: over - reserved for cell, over, reserved in left if over > reserved}


def _finished(one: Candidate, now: datetime) -> Candidate:
    """As it will be in a moment, if it is being taken right now. One that has been for long may be for ever. Were the clocks
    wrong, nothing but the way to say no would be."""
    created = read_time(one.created)
    new = created is not None and (now - created).total_seconds() < YOUNG_SECONDS
    return replace(one, kept="") if one.kept == UNFINISHED and new else one


def _later(refusal: Refusal, why: str) -> Decision:
    return Decision.again(f"{refusal_text(refusal)}; {why}. Try again: that changes in a moment", retry_after=LATER)


def _being_deleted(choice: Choice) -> str:
    if choice.delete:
        return f"The oldest, {_names(choice.delete)}, {'is' if len(choice.delete) == 1 else 'are'} being deleted for it"
    if choice.going:
        return f"{_names(choice.going)} {'is' if len(choice.going) == 1 else 'are'} being deleted already"
    return "Room is being made"


def _to_be_deleted(choice: Choice) -> str:
    return f"the oldest, {_names(choice.delete)}," if choice.delete else "nothing more"


def _names(some: Sequence[Candidate]) -> str:
    more = f" and {len(some) - NAMED} more" if len(some) > NAMED else ""
    return f"{', '.join(one.name for one in some[:NAMED])}{more}"


def _too_little(candidates: Sequence[Candidate], short: Sequence[Cell]) -> str:
    kept = why_kept(candidates, short)
    reasons = f": of those that are there, {kept}" if kept else ""
    return f"the oldest would be deleted for it, but too few may be{reasons}"


def _refused(refusal: Refusal, namespace: str, why: str) -> Decision:
    next_step = (
        f"see what there is (kubectl get snapshotlimits,volumesnapshots -n {namespace}; ullage usage -n {namespace}), delete or"
        " unprotect what is not needed any more, or have the limit raised"
    )
    return Decision.refuse(f"{refusal_text(refusal)}; {why}. Next: {next_step}")
