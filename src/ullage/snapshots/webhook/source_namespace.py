"""Claims whose `dataSourceRef` names a namespace. Most API servers drop such a reference without a word, and the claim would
get an empty volume, which looks like lost data.

A mutating hook sees the claim before that, a validating one after it. The first takes the claim's own namespace off, which
says nothing; of another one it makes a note on the claim. The second refuses a claim that has the note and not the source.
Where the API server keeps the reference, other provisioners may fill the claim; ours say why they do not.
"""

from __future__ import annotations

from typing import Final

from ullage.kube.builtin.core import CLAIMS, PersistentVolumeClaim
from ullage.kube.errors import Cause
from ullage.kube.review import Decision, Hook, Review, Target
from ullage.ledger.api import NAMESPACE

NOTE: Final = "ullage.io/data-source"
FIELD: Final = "spec.dataSourceRef.namespace"


async def keep(review: Review) -> Decision:
    """Before the API server looks at the claim."""
    source = review.object(CLAIMS).spec.data_source_ref
    if source is None or not source.namespace:
        return Decision.allow()
    if source.namespace == review.namespace:
        return review.change({"spec": {"dataSourceRef": {"namespace": source.namespace}}}, {"spec": {"dataSourceRef": {}}})
    return review.change({"metadata": {}}, {"metadata": {"annotations": {NOTE: f"{source.namespace}/{source.name}"}}})


async def check(review: Review) -> Decision:
    """After that."""
    claim = review.object(CLAIMS)
    wanted = claim.metadata.annotations.get(NOTE)
    if wanted is None or _has_source(claim):
        return Decision.allow()
    problem = (
        f"the claim is to be filled from VolumeSnapshot {wanted}, and this API server drops sources of other namespaces: "
        f"it would be empty. Only a snapshot in the claim's own namespace, {review.namespace}, can be restored"
    )
    return Decision.invalid(f"{FIELD}: {problem}", Cause(field=FIELD, reason="FieldValueInvalid", message=problem))


def _has_source(claim: PersistentVolumeClaim) -> bool:
    return claim.spec.data_source_ref is not None or claim.spec.data_source is not None


_SOURCE: Final = "object.spec.dataSourceRef"
HOOKS: Final = (
    Hook(
        name="restore-namespace",
        phase="mutate",
        targets=(Target.of(CLAIMS, "CREATE"),),
        answer=keep,
        not_in=(NAMESPACE,),
        only_if={
            "namespaced": f"has({_SOURCE}) && has({_SOURCE}.namespace) && {_SOURCE}.namespace != '' && "
            f"{_SOURCE}.kind == 'VolumeSnapshot'"
        },
        side_effects="None",
    ),
    Hook(
        name="restore-source",
        phase="validate",
        targets=(Target.of(CLAIMS, "CREATE"),),
        answer=check,
        not_in=(NAMESPACE,),
        only_if={"noted": f"has(object.metadata.annotations) && '{NOTE}' in object.metadata.annotations && !has({_SOURCE})"},
        side_effects="None",
    ),
)
