"""The first way to restore a snapshot: an annotation on the new claim. It becomes `spec.dataSourceRef`, or a refusal.

An ordinary provisioner knows nothing of the annotation and would fill the claim with an empty volume, which looks like lost
data. It leaves a claim with a data source that it does not know alone. Hence this hook fails closed, and converts whatever
class the claim has.
"""

from __future__ import annotations

from typing import Final

from ullage.kube.builtin.core import CLAIMS
from ullage.kube.errors import Cause
from ullage.kube.review import Decision, Hook, Review, Target
from ullage.kube.slices import Wiring
from ullage.ledger.api import NAMESPACE
from ullage.snapshots.webhook import source_namespace
from ullage.snapshots.webhook.rules import data_source_for, disagreement

ANNOTATION: Final = "snapshot.alpha.kubernetes.io/snapshot"
FIELD: Final = f"metadata.annotations[{ANNOTATION}]"


def make_hooks(wiring: Wiring) -> list[Hook]:
    return [HOOK, *source_namespace.HOOKS]


async def answer(review: Review) -> Decision:
    claim = review.object(CLAIMS)
    name = claim.metadata.annotations.get(ANNOTATION)
    if name is None:
        return Decision.allow()
    wanted = data_source_for(name)
    if isinstance(wanted, str):
        return _invalid(wanted)
    if problem := disagreement(claim, wanted, namespace=review.namespace):
        return _invalid(problem)
    if claim.spec.data_source_ref is not None:
        return Decision.allow()
    source = {"apiGroup": wanted.api_group, "kind": wanted.kind, "name": wanted.name}
    return review.change({"spec": {}}, {"spec": {"dataSourceRef": source}})


def _invalid(problem: str) -> Decision:
    return Decision.invalid(f"{FIELD}: {problem}", Cause(field=FIELD, reason="FieldValueInvalid", message=problem))


HOOK: Final = Hook(
    name="restore-annotation",
    phase="mutate",
    targets=(Target.of(CLAIMS, "CREATE"),),
    answer=answer,
    not_in=(NAMESPACE,),
    only_if={"annotated": f"has(object.metadata.annotations) && '{ANNOTATION}' in object.metadata.annotations"},
    side_effects="None",
)
