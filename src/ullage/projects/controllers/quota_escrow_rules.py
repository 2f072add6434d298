"""What is next about the grants of one project: the steps of the escrow, seeds that leave or are dead, how it ends. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from ullage.kube.objects import is_deleting
from ullage.ledger.amounts import Amounts, BadAmount
from ullage.projects.api.kkp import Seed
from ullage.projects.api.quotas import ResourceQuota, ResourceQuotaStatus
from ullage.projects.escrow.divisions import OF_MACHINES, Division
from ullage.projects.escrow.record import has_record
from ullage.projects.escrow.seeds import SeedLedger
from ullage.projects.escrow.steps import Carry, Record, drained, next_steps, with_taken
from ullage.projects.escrow.terms import Escrow
from ullage.projects.quota import amounts_of, is_counted
from ullage.projects.seed_marks import is_gone

AFTER_DOUBT: Final = 1.0  # seconds until something is looked at again whose watch is behind, or just being renewed
LOOKS: Final = 500  # projects that are looked at in a second for that: all of them wait for the same watch


@dataclass(frozen=True, slots=True)
class Forget:
    """Take the record off a quota that is being deleted: every seed knows what holds after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EscrowFacts:
    """The quota that is in force for a project, its record, and what is seen of the seeds: None where one cannot be asked.
    `dead` are those that somebody says are gone for good, with what they took when they were last seen; `gone` are those of
    them whose machines are said to be gone, too. `heir` is whose limits hold while the quota is being deleted
    (`escrow.record.heir`)."""

    quota: ResourceQuota
    record: Escrow
    seeds: Mapping[str, SeedLedger | None]
    draining: frozenset[str] = frozenset()
    dead: Mapping[str, Amounts] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()
    given_up: frozenset[str] = frozenset()  # all that a person has said to be gone for good
    division: Division = OF_MACHINES
    heir: ResourceQuota | None = None

    @property
    def decided(self) -> bool:
        """Whether it is known what holds after a quota that is being deleted."""
        return self.heir is None or self.heir.metadata.uid != self.quota.metadata.uid


Steps = tuple[Record | Carry | Forget, ...]


def steps(facts: EscrowFacts, *, now: datetime) -> Steps:
    """Either the record is written, or limits are carried: never both at once. Nothing where all is as it should be."""
    meta = facts.quota.metadata
    if is_deleting(meta) and not has_record(meta, facts.division.annotation):
        return ()  # nobody was told anything, or all were told what holds after it
    if facts.record.shares and not has_record(meta, facts.division.annotation):
        return (Record(facts.record),)  # it was handed over: whoever is killed now leaves it to others
    known = without_dead(facts)
    if facts.division.keeps_taken:
        known = with_taken(known, facts.seeds)
    if known != facts.record:
        return (Record(known),)
    found = next_steps(
        facts.record, facts.division.wanted(facts.quota, facts.heir), facts.seeds, now=now, draining=facts.draining
    )
    if found or not is_deleting(meta) or not facts.decided or untold(facts.record, facts.seeds, given_up=facts.given_up):
        return found
    return (Forget(),)


def untold(record: Escrow, seeds: Mapping[str, SeedLedger | None], *, given_up: Collection[str] = frozenset()) -> list[str]:
    """The seeds that are not known to have heard of what the record says. One that was given up is not waited for, unless it
    is there after all: time alone never frees what a seed was granted, and a person may."""
    return sorted(
        name
        for name, share in record.shares.items()
        if name in seeds and (name not in given_up if (seen := seeds[name]) is None else seen.change < share.change)
    )


def lifted(seeds: Mapping[str, SeedLedger | None]) -> list[Carry]:
    """What is to be told to seeds that have limits for a project which has no quota: one that was removed and has come back, or
    whose quota went while nobody could tell it."""
    return [
        Carry(seed=name, number=seen.change + 1, limits={}, grants={})
        for name, seen in sorted(seeds.items())
        if seen is not None and (seen.limits or seen.grants)
    ]


def seconds_of_doubt(projects: int) -> float:
    """Until all of so many are looked at again, since the ledgers of a seed are just being read anew, of which nobody tells."""
    return max(AFTER_DOUBT, projects / LOOKS)


# --- seeds that leave ------------------------------------------------------------------------------------------------


def left_by(seed: Seed, *, last: Amounts | None) -> Amounts | None:
    """What a dead seed keeps of its grant: what it took when it was last seen. None: that is not known, and it keeps all,
    unless somebody says that its machines are gone."""
    return Amounts() if is_gone(seed) else last


def last_usage(status: ResourceQuotaStatus, seed: str) -> Amounts | None:
    """What a seed said last that the project uses there; None: nothing that can be read."""
    found = next((one.usage for one in status.seeds if one.name == seed), None)
    if found is None or not is_counted(found):
        return None
    try:
        return amounts_of(found, field="status.seeds")
    except BadAmount:
        return None


def last_taken(record: Escrow, seed: str) -> Amounts | None:
    """The same by the record, where that is kept there."""
    share = record.shares.get(seed)
    return Amounts(share.taken) if share is not None and share.taken else None


def without_dead(facts: EscrowFacts) -> Escrow:
    """The record without what dead seeds do not use; the same where all of that is done. One that is heard of again is not
    dead: it is told what it uses, like any that is to leave."""
    record = facts.record
    for seed, taken in sorted(facts.dead.items()):
        if facts.seeds.get(seed) is None:
            record = drained(record, seed, taken=taken, gone=seed in facts.gone)
    return record
