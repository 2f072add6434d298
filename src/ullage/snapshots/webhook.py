"""The first way to restore a snapshot: an annotation on the new claim. It becomes `spec.dataSourceRef`, or a refusal.

An ordinary provisioner knows nothing of the annotation and would fill the claim with an empty volume, which looks like lost
data. It leaves a claim with a data source that it does not know alone. Hence this hook fails closed, and converts whatever
class the claim has.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Final

from ullage.engines.handles import DRIVER, SNAPSHOT_PREFIX
from ullage.kube.builtin.core import CLAIMS, PERSISTENT_VOLUMES, PersistentVolumeClaim, TypedObjectReference
from ullage.kube.client.client import Client
from ullage.kube.errors import ApiError, Cause
from ullage.kube.kinds import Meta
from ullage.kube.objects import is_deleting
from ullage.kube.review import Decision, Hook, Review, Target
from ullage.kube.slices import Wiring, Write
from ullage.ledger.api import NAMESPACE
from ullage.names import SUBDOMAIN_LIMIT, is_subdomain
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.prototype.translation import PROTOTYPE
from ullage.snapshots.api.prototype.types import GROUP
from ullage.snapshots.data_source import SNAPSHOT_KIND
from ullage.snapshots.model import VOLUME_LABEL, Record, label_value
from ullage.snapshots.source_volume import source_volume_of

# What the restore annotation of a new claim asks for, and why it cannot be had; what goes with a claim.


def data_source_for(name: str) -> TypedObjectReference | str:
    """The `dataSourceRef` that the annotation stands for, or what is wrong with it."""
    if not is_subdomain(name):
        return f"{name!r} is not the name of a VolumeSnapshot: lower-case letters, digits, '-' and '.', 1 to {SUBDOMAIN_LIMIT}"
    return TypedObjectReference(api_group=GROUP, kind=SNAPSHOT_KIND, name=name)


def disagreement(claim: PersistentVolumeClaim, wanted: TypedObjectReference, *, namespace: str) -> str:
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


TOLD: Final = 5  # snapshots in a warning


def lost_with(claim: Meta, records: Iterable[Record]) -> str:
    """What the deletion of a claim destroys besides its data; empty: nothing. `records` are those of its volume."""
    here = (one for one in records if one.ref.namespace == claim.namespace and not is_deleting(one.meta))
    names = sorted({one.ref.name for one in here})
    if not names:
        return ""
    more = f" and {len(names) - TOLD} more" if len(names) > TOLD else ""
    which = f"VolumeSnapshot {names[0]}" if len(names) == 1 else f"VolumeSnapshots {', '.join(names[:TOLD])}{more}"
    goes = "goes" if len(names) == 1 else "go"
    return f"{which} of claim {claim.name} {goes} with it: Longhorn keeps snapshots inside the volume, and deletes it now"


# Claims whose `dataSourceRef` names a namespace. Most API servers drop such a reference without a word, and the claim
# would get an empty volume, which looks like lost data. A mutating hook sees the claim before that, a validating one
# after it. The first takes the claim's own namespace off, which says nothing; of another one it makes a note on the
# claim. The second refuses a claim that has the note and not the source. Where the API server keeps the reference,
# other provisioners may fill the claim; ours say why they do not.


NOTE: Final = "ullage.io/data-source"
NAMESPACE_FIELD: Final = "spec.dataSourceRef.namespace"


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
    return Decision.invalid(
        f"{NAMESPACE_FIELD}: {problem}", Cause(field=NAMESPACE_FIELD, reason="FieldValueInvalid", message=problem)
    )


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


# Warns whoever deletes a claim whose snapshots go with it: those that Longhorn keeps inside the volume. Longhorn
# deletes a volume with all that is in it, and asks nobody: its objects are its own, so nothing is held there. The
# deletion is allowed in every case, also when this hook is away.


WRITES: Final = (Write(PERSISTENT_VOLUMES, ("get",)),)


def make_hook(wiring: Wiring) -> Hook:
    return Hook(
        name="claim-with-snapshots",
        phase="validate",
        targets=(Target.of(CLAIMS, "DELETE"),),
        answer=Warner(wiring.client).answer,
        failure_policy="Ignore",
        timeout=3,
        side_effects="None",
    )


class Warner:
    """Reads what it needs when it is asked: claims are deleted rarely, and a cache of all records would be large."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def answer(self, review: Review) -> Decision:
        claim = review.old(CLAIMS)
        if claim is None or not claim.spec.volume_name:
            return Decision.allow()
        warning = ""
        with contextlib.suppress(ApiError):  # a warning less; the deletion is not ours to hold up
            volume = await self._client.find(PERSISTENT_VOLUMES, claim.spec.volume_name)
            source = source_volume_of(volume) if volume is not None else None
            of_longhorn = source is not None and source.driver == DRIVER
            if volume is not None and of_longhorn and volume.spec.persistent_volume_reclaim_policy == "Delete":
                warning = lost_with(claim.metadata, await self._records(volume.metadata.name))
        return Decision.allow(warnings=(warning,) if warning else ())

    async def _records(self, volume: str) -> Iterable[Record]:
        found: list[Record] = []
        labels = f"{VOLUME_LABEL}={label_value(volume)}"
        found += [GA.read_record(one) for one in (await self._client.list(GA.records, labels=labels)).items]
        found += [PROTOTYPE.read_record(one) for one in (await self._client.list(PROTOTYPE.records, labels=labels)).items]
        return [one for one in found if one.handle.startswith(SNAPSHOT_PREFIX)]


ANNOTATION: Final = "snapshot.alpha.kubernetes.io/snapshot"
FIELD: Final = f"metadata.annotations[{ANNOTATION}]"


def make_hooks(wiring: Wiring) -> list[Hook]:
    return [HOOK, *HOOKS]


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
