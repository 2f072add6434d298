"""What may be written as the quota of a project, and which quota may be deleted. Pure.

A quota below present use is no mistake: it keeps a project from growing. So it is taken, with the numbers in a warning. The
refusals that KKP has are said in its words, since people and tools know them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from ullage.kube.objects import is_deleting
from ullage.ledger.amounts import Amounts
from ullage.projects.api.kkp import Project
from ullage.projects.api.quotas import SUBJECT_CHANGED, ResourceQuota
from ullage.projects.names import bad_project_id, half_marked, is_default, is_project_id, quota_name
from ullage.projects.quota import QuotaFault, excesses, faults, limits_of, same_limits

NAME_FIELD: Final = "metadata.name"
SUBJECT_FIELD: Final = "spec.subject"
NAMED: Final = 5  # seeds that a warning spells out
DEFAULT_STAYS: Final = (
    "Removing default Project Quota resource is not allowed. Either remove the default/global project quota configuration from "
    "KubermaticSettings or update the Project Quota resource to empty or desired values."
)


@dataclass(frozen=True, slots=True)
class QuotaFacts:
    """A quota that is written. `rivals` are the names of all quotas that have its subject; `used` is what the project uses."""

    new: ResourceQuota
    old: ResourceQuota | None = None
    rivals: frozenset[str] = frozenset()
    used: Amounts = field(default_factory=Amounts)
    default_configured: bool = False
    away: Mapping[str, str] = field(default_factory=dict)  # seeds that cannot be reached, with since when


# --- written ---------------------------------------------------------------------------------------------------------


def refusals(facts: QuotaFacts) -> list[QuotaFault]:
    """Everything that is wrong now and was not before: whoever mends one fault need not mend all of them."""
    return [fault for rule in RULES for fault in rule(facts)]


def subject_is_kept(facts: QuotaFacts) -> Iterator[QuotaFault]:
    if facts.old is not None and facts.old.spec.subject != facts.new.spec.subject:
        yield QuotaFault(SUBJECT_FIELD, SUBJECT_CHANGED)


def subject_is_an_id(facts: QuotaFacts) -> Iterator[QuotaFault]:
    """Only whether it can be one: a quota may be there before its project."""
    if facts.old is None and not is_project_id(facts.new.spec.subject.name):
        yield QuotaFault(f"{SUBJECT_FIELD}.name", bad_project_id(facts.new.spec.subject.name))


def subject_is_unique(facts: QuotaFacts) -> Iterator[QuotaFault]:
    subject, name = facts.new.spec.subject, facts.new.metadata.name
    if facts.old is None and (others := sorted(facts.rivals - {name})):
        said = f'ResourceQuota: Subject\'s Name "{subject.name}" and Kind pair "{subject.kind}" must be unique'
        yield QuotaFault(SUBJECT_FIELD, f"{said}: {others[0]} has it")


def name_follows_subject(facts: QuotaFacts) -> Iterator[QuotaFault]:
    """Where somebody else made quotas of other names they may be changed, and stay."""
    name, wanted = facts.new.metadata.name, quota_name(facts.new.spec.subject.name)
    if facts.old is None and name != wanted:
        yield QuotaFault(NAME_FIELD, f"{name!r} is not allowed: the quota of this subject is called {wanted}")


def amounts_are_amounts(facts: QuotaFacts) -> Iterator[QuotaFault]:
    before = frozenset(faults(facts.old)) if facts.old is not None else frozenset()
    return (fault for fault in faults(facts.new) if fault not in before)


RULES: Final[tuple[Callable[[QuotaFacts], Iterator[QuotaFault]], ...]] = (
    subject_is_kept,  # first: with another subject the others say nothing of use
    subject_is_an_id,
    subject_is_unique,
    name_follows_subject,
    amounts_are_amounts,
)


def warnings(facts: QuotaFacts) -> tuple[str, ...]:
    """What the author may not know."""
    return (*_below_use(facts), *_away(facts), *_marks(facts))


def _below_use(facts: QuotaFacts) -> Iterator[str]:
    if facts.old is not None and same_limits(facts.old.spec.quota, facts.new.spec.quota):
        return
    for over in excesses(facts.used, limits_of(facts.new.spec.quota)):
        yield f"{over}: no machine is removed, and new ones are refused until less is used"


def _away(facts: QuotaFacts) -> Iterator[str]:
    if facts.away and (facts.old is None or not same_limits(facts.old.spec.quota, facts.new.spec.quota)):
        names = sorted(facts.away)
        listed = ", ".join(f"{name} (since {facts.away[name]})" for name in names[:NAMED])
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        yield (
            f"these seeds cannot be reached, and admit machines by what they were told before until they can: {listed}{more};"
            " Ready is False until then"
        )


def unreachable(quotas: Iterable[ResourceQuota]) -> dict[str, str]:
    """The seeds that cannot be reached, as the status of quotas tells, with the earliest time since when."""
    found: dict[str, str] = {}
    for seed in (seed for quota in quotas for seed in quota.status.seeds if seed.stale_since):
        found[seed.name] = min(found.get(seed.name, seed.stale_since), seed.stale_since)
    return found


def _marks(facts: QuotaFacts) -> Iterator[str]:
    new, old = facts.new, facts.old
    if (mark := half_marked(new.metadata)) and (old is None or half_marked(old.metadata) != mark):
        yield f"label {mark}: alone it marks no default; {new.metadata.name} is a quota of its own, and stays as it is"
    changed = old is None or not same_limits(old.spec.quota, new.spec.quota) or not is_default(old.metadata)
    if facts.default_configured and is_default(new.metadata) and changed:
        yield (
            f"{new.metadata.name} is marked as a default quota, and will be what KubermaticSettings say; to keep these values"
            " take the labels default and kkp-default-resource-quota off"
        )


# --- deleted ---------------------------------------------------------------------------------------------------------


def deletion_refusal(quota: ResourceQuota, *, default_configured: bool, project: Project | None) -> str:
    """Why a quota may not be deleted; empty where it may. A default one would be back at once; where its project is gone, or
    going, it goes along."""
    if not default_configured or not is_default(quota.metadata):
        return ""
    if project is None or is_deleting(project.metadata) or is_deleting(quota.metadata):
        return ""
    return DEFAULT_STAYS
