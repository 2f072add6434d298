"""MachineDeployments are told early whether their Machines will fit, when they are created, changed or scaled.

Only a courtesy, unless the deployment asks to be refused: nothing is booked, and where nobody can be asked the request passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ullage.kube.kinds import Meta
from ullage.kube.review import Decision, Hook, Review, Target, Unreadable
from ullage.projects.api.machines import MACHINE_DEPLOYMENTS, MachineDeployment, ProviderSpec
from ullage.projects.machines.deployments import Early, Wish, review_wish
from ullage.projects.webhook.machines import MachineTerms
from ullage.projects.webhook.room import room_in
from ullage.projects.webhook.sizing import sized

SCALE: Final = "scale"
SECONDS: Final = 5


class DeploymentWebhook:
    def __init__(self, terms: MachineTerms) -> None:
        self._terms = terms

    async def warn(self, review: Review) -> Decision:
        if review.subresource == SCALE:
            return self._scaled(review)
        try:
            new = review.object(MACHINE_DEPLOYMENTS)
        except Unreadable:
            return Decision.allow()  # whoever takes a finalizer off one that makes no sense is not to be kept from it
        old = _old(review) if review.operation == "UPDATE" else None
        before = self._wish(review.cluster, old) if old is not None else None
        return _answer(self._early(review, new.metadata, before, self._wish(review.cluster, new)))

    def _scaled(self, review: Review) -> Decision:
        """A Scale has the number alone; the rest is in the deployment."""
        found = self._terms.surges.deployment(review.cluster, review.namespace, review.name)
        if found is None:
            return Decision.allow()
        size = self._size(review.cluster, template_spec(found.spec.template))
        before, after = (Wish(replicas=_replicas(raw), size=size) for raw in (review.request.old_object, review.request.object))
        return _answer(self._early(review, found.metadata, before, after))

    def _early(self, review: Review, meta: Meta, before: Wish | None, after: Wish) -> Early | None:
        clusters = self._terms.clusters
        ledger = clusters.ledger(review.cluster)
        book = self._terms.registry.look(ledger) if ledger else None
        if book is None:
            return None
        name, project = meta.name or review.name or meta.generate_name, clusters.project(review.cluster)
        return review_wish(
            name,
            before,
            after,
            room=room_in(book),
            project=project,
            annotations=meta.annotations,
            wholes=self._terms.wholes(project, book),
        )

    def _wish(self, cluster: str, deployment: MachineDeployment) -> Wish:
        spec = deployment.spec
        return Wish(replicas=spec.replicas, size=self._size(cluster, spec.template.spec.provider_spec))

    def _size(self, cluster: str, spec: ProviderSpec | None) -> Any:
        return sized(self._terms.sizes, cluster, spec.value).amounts if spec is not None else None

    def hooks(self) -> tuple[Hook, ...]:
        whole = Target.of(MACHINE_DEPLOYMENTS, "CREATE", "UPDATE")
        scale = Target.of(MACHINE_DEPLOYMENTS, "UPDATE", subresources=(SCALE,))
        return (
            Hook(
                name="project-machinedeployment",
                phase="validate",
                targets=(whole, scale),
                answer=self.warn,
                failure_policy="Ignore",
                timeout=SECONDS,
                side_effects="None",
                elsewhere=True,
            ),
        )


def template_spec(template: Any) -> ProviderSpec | None:
    """Of a template as it is written; None: it cannot be read."""
    spec = template.get("spec") if isinstance(template, Mapping) else None
    found = spec.get("providerSpec") if isinstance(spec, Mapping) else None
    return ProviderSpec(value=found.get("value")) if isinstance(found, Mapping) else None


def _old(review: Review) -> MachineDeployment | None:
    try:
        return review.old(MACHINE_DEPLOYMENTS)
    except Unreadable:
        return None


def _replicas(raw: msgspec.Raw) -> int:
    """Of a Scale: there a number that is absent is 0."""
    scale = msgspec.json.decode(raw)
    spec = scale.get("spec") if isinstance(scale, dict) else None
    found = spec.get("replicas") if isinstance(spec, dict) else None
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def _answer(early: Early | None) -> Decision:
    if early is None:
        return Decision.allow()
    return Decision.refuse(early.message) if early.refused else Decision.allow(warnings=(early.message,))
