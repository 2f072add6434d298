"""Clusters of a seed: a project that has as many as it may gets no more, be it by a new one or by one that is moved into it.

Only such requests are asked about: a cluster that is there may be changed and deleted while nobody answers.
"""

from __future__ import annotations

from typing import Any, Final

from ullage.kube.kinds import Kind
from ullage.kube.review import Decision, Hook, Review, Target
from ullage.kube.slices import Wiring
from ullage.ledger.book import Refusal
from ullage.ledger.charging.registry import Charged, registry_of
from ullage.projects.api.kkp import CLUSTERS, Cluster
from ullage.projects.api.quotas import QUOTAS
from ullage.projects.clusters import project_of
from ullage.projects.names import PROJECT_ID
from ullage.projects.subjects import QuotaLookup, quota_lookup
from ullage.projects.webhook.cluster_rules import refusal

WATCHES: Final[tuple[Kind[Any], ...]] = (QUOTAS,)


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
