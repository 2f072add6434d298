"""The first way to restore a snapshot: an annotation on the new claim. It becomes `spec.dataSourceRef`, or a refusal.

An ordinary provisioner knows nothing of the annotation and would fill the claim with an empty volume, which looks like lost
data. It leaves a claim with a data source that it does not know alone. Hence this hook fails closed, and converts whatever
class the claim has.
"""

from __future__ import annotations

import re
from typing import Final

from ullage.kube.builtin.core import CLAIMS, PersistentVolumeClaim, TypedObjectReference
from ullage.kube.errors import Cause
from ullage.kube.review import Decision, Hook, Review, Target
from ullage.kube.slices import Wiring
from ullage.ledger.api import NAMESPACE
from ullage.snapshots.api.prototype.types import GROUP
from ullage.snapshots.controllers.claim.restore.eligibility import SNAPSHOT_KIND

ANNOTATION: Final = "snapshot.alpha.kubernetes.io/snapshot"
FIELD: Final = f"metadata.annotations[{ANNOTATION}]"
LONGEST: Final = 253

_NAME: Final = re.compile(r"(?!.*(?:[-.]\.|\.-))[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?")  # no group that repeats: see `selectors`


def make_hooks(wiring: Wiring) -> list[Hook]:
    return [HOOK]


async def answer(review: Review) -> Decision:
    claim = review.object(CLAIMS)
    name = claim.metadata.annotations.get(ANNOTATION)
    if name is None:
        return Decision.allow()
    if len(name) > LONGEST or not _NAME.fullmatch(name):
        return _invalid(
            f"{name!r} is not the name of a VolumeSnapshot: lower-case letters, digits, '-' and '.', 1 to {LONGEST}"
        )
    wanted = TypedObjectReference(api_group=GROUP, kind=SNAPSHOT_KIND, name=name)
    if problem := _disagreement(claim, wanted, namespace=review.namespace):
        return _invalid(problem)
    if claim.spec.data_source_ref is not None:
        return Decision.allow()
    source = {"apiGroup": wanted.api_group, "kind": wanted.kind, "name": wanted.name}
    return review.change({"spec": {}}, {"spec": {"dataSourceRef": source}})


def _disagreement(claim: PersistentVolumeClaim, wanted: TypedObjectReference, *, namespace: str) -> str:
    """Another source that the claim names itself. The API server would drop, or fill in, one of two that are alike."""
    for field, found in (("spec.dataSource", claim.spec.data_source), ("spec.dataSourceRef", claim.spec.data_source_ref)):
        if found is None:
            continue
        same = (found.api_group, found.kind, found.name) == (wanted.api_group, wanted.kind, wanted.name)
        if not same or found.namespace not in {None, "", namespace}:
            return f"{_shown(wanted)} and {field}, {_shown(found)}, are two sources; leave one of them out"
    return ""


def _shown(source: TypedObjectReference) -> str:
    kind = f"{source.kind}.{source.api_group}" if source.api_group else source.kind
    return f"{kind} {source.namespace}/{source.name}" if source.namespace else f"{kind} {source.name}"


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
