"""Clusters of a seed: a project that has as many as it may gets no more, be it by a new one or by one that is moved into it.

Only such requests are asked about: a cluster that is there may be changed and deleted while nobody answers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ullage.kube.kinds import Kind
from ullage.kube.review import Decision, Hook, Review, Target
from ullage.kube.slices import Wiring
from ullage.ledger.book import Refusal
from ullage.ledger.charging.registry import Charged, registry_of
from ullage.projects.api.kkp import CLUSTERS, Cluster
from ullage.projects.api.quotas import PROJECT_QUOTAS, ResourceQuota
from ullage.projects.clusters import project_of
from ullage.projects.names import MAX_CLUSTERS, PROJECT_ID
from ullage.projects.quota import MAX_CLUSTERS_FIELD, faults, max_clusters
from ullage.projects.subjects import QuotaLookup, quota_lookup

# What is said of a cluster that a project may not have.


STEP: Final = "delete a cluster of the project, or have an administrator raise the number"
NEXT: Final = f"Next: {STEP}"
NEXT_OF_PART: Final = f"Next: try again in a minute, since room may come from there, or {STEP}"


def refusal(project: str, *, here: int, allowed: int, quotas: Iterable[ResourceQuota]) -> str:
    """`here` is how many clusters count on this seed, those that are being made or deleted among them, and `allowed` how many
    may, as the ledger has it: all that the project may have, or this seed's part of that."""
    quotas = list(quotas)
    said = [(limit, quota.metadata.name) for quota in quotas if (limit := max_clusters(quota.metadata)) is not None]
    if wrong := [fault for quota in quotas for fault in faults(quota) if fault.field == MAX_CLUSTERS_FIELD]:
        return (
            f"project {project} has {_clusters(here)} on this seed, and gets no more until its quota is corrected: {wrong[0]}."
            " Next: have an administrator correct it"
        )
    if not said:  # it was just taken off
        return f"project {project} has {_clusters(here)} on this seed, and may have {allowed} there. {NEXT}"
    limit, name = min(said)
    where = f"ResourceQuota {name}, annotation {MAX_CLUSTERS}"
    if limit == allowed:
        return f"project {project} has {_clusters(here)}, and may have {limit} ({where}). {NEXT}"
    part = f"{_clusters(here)} on this seed, which may have {allowed} of them now"
    return (
        f"project {project} may have {_clusters(limit)} in all ({where}), and has {part}: the rest is granted to other seeds."
        f" {NEXT_OF_PART}"
    )


def _clusters(count: int) -> str:
    return "1 cluster" if count == 1 else f"{count} clusters"


WATCHES: Final[tuple[Kind[Any], ...]] = (PROJECT_QUOTAS,)


class ClusterLimit:
    """Books a Cluster in the ledger of its project's clusters."""

    def __init__(self, charged: Charged[Cluster], lookup: QuotaLookup) -> None:
        self._charged = charged
        self._lookup = lookup

    async def answer(self, review: Review) -> Decision:
        project = project_of(review.object(CLUSTERS))
        return await self._charged.decide(review, tell=lambda refused: self._text(project, refused))

    def _text(self, project: str, refused: Refusal) -> str:
        over = refused.over[0]  # there is one account, of one resource
        here = (over.used + over.reserved).value()
        return refusal(project, here=here, allowed=over.limit.value(), quotas=self._lookup.of(project))

    def hooks(self) -> tuple[Hook, ...]:
        return (
            Hook(
                name="project-clusters",
                phase="validate",
                targets=(Target.of(CLUSTERS, "CREATE", "UPDATE"),),
                answer=self.answer,
                only_if={"counts-anew": COUNTS_ANEW},
            ),
        )


def _label(name: str, of: str) -> str:
    labels = f"{of}.metadata.labels"
    return f"(has({labels}) && '{name}' in {labels} ? {labels}['{name}'] : '')"


def _provider(of: str) -> str:
    spec = f"{of}.spec"
    there = f"has({spec}) && has({spec}.cloud) && has({spec}.cloud.providerName)"
    return f"({there} ? {spec}.cloud.providerName : '')"


def _differs(part: str, other: str) -> str:
    return f"{part} != {other}"


COUNTS_ANEW: Final = " || ".join(
    (
        "request.operation == 'CREATE'",
        _differs(_label(PROJECT_ID, "object"), _label(PROJECT_ID, "oldObject")),
        _differs(_provider("object"), _provider("oldObject")),
    )
)


def make_hooks(wiring: Wiring) -> tuple[Hook, ...]:
    return ClusterLimit(registry_of(wiring).registered(CLUSTERS), wiring.shared(quota_lookup)).hooks()
