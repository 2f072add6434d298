"""Who may change what ties a Snapshot to its Volume, and what holds either: Ullage alone, as long as there is one of them.

Labels, owners and finalizers decide what is found, deleted and merged away; stamps and holds what is counted and kept. A person
who takes one off an object, also off one that is going, would leave data in an engine that nobody knows of. The API server sees
to it by itself, so that objects can be let go of while the webhook is away.
"""

from __future__ import annotations

from typing import Final

from ullage.engines.api import ENGINE_SNAPSHOTS, FINALIZER, GROUP, VOLUME_LABEL, VOLUMES
from ullage.engines.holds import PREFIX as HOLD
from ullage.kube.policies import Demand, Policy

NAME: Final = "ullage-engine-objects"
_OURS: Final = "ullage.io/"  # finalizers and annotations that begin with it
_PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"  # on a Volume: it goes with its claim

_SNAPSHOT: Final = f"request.kind.kind == '{ENGINE_SNAPSHOTS.kind}'"
_STAMP: Final = f"(key.startsWith('{_OURS}') || key == '{_PROVISIONED_BY}')"
_KEPT: Final = f"key.startsWith('{HOLD}') && variables.oldAnnotations[key].contains('\"keptBy\":\"')"


def _given(field: str, nothing: str, *, of: str) -> str:
    return f"(has({of}.metadata.{field}) ? {of}.metadata.{field} : {nothing})"


def _volumes(of: str) -> str:
    """The Volumes that own an object. The uid tells one from a later one of the name."""
    mine = f"owner.kind == '{VOLUMES.kind}' && owner.apiVersion.startsWith('{GROUP}/')"
    owners = _given("ownerReferences", "[]", of=of)
    return f"{owners}.filter(owner, {mine}).map(owner, owner.name + '/' + owner.uid)"


POLICY: Final = Policy(
    name=NAME,
    kinds=(ENGINE_SNAPSHOTS, VOLUMES),
    variables={
        "labels": _given("labels", "{}", of="object"),
        "oldLabels": _given("labels", "{}", of="oldObject"),
        "annotations": _given("annotations", "{}", of="object"),
        "oldAnnotations": _given("annotations", "{}", of="oldObject"),
        "finalizers": _given("finalizers", "[]", of="object"),
        "oldFinalizers": _given("finalizers", "[]", of="oldObject"),
        "owners": _volumes("object"),
        "oldOwners": _volumes("oldObject"),
    },
    demands=(
        Demand(
            f"!({_SNAPSHOT}) || ('{VOLUME_LABEL}' in variables.labels ? "
            f"variables.labels['{VOLUME_LABEL}'] == object.spec.volume : !('{VOLUME_LABEL}' in variables.oldLabels))",
            f"metadata.labels[{VOLUME_LABEL}] of a Snapshot is its spec.volume, and stays",
        ),
        Demand(
            f"!({_SNAPSHOT}) || variables.owners == variables.oldOwners",
            "metadata.ownerReferences: the Volume that a Snapshot belongs to stays its owner, and the only one",
        ),
        Demand(
            f"variables.oldFinalizers.all(one, !(one == '{FINALIZER}' || one.startsWith('{_OURS}')) || "
            f"one in variables.finalizers) && "
            f"variables.finalizers.all(one, !one.startsWith('{_OURS}') || one in variables.oldFinalizers)",
            f"metadata.finalizers: Ullage's controllers take {FINALIZER} and {_OURS}… off, once the object is deleted and "
            "nothing is left in the engine; if Ullage itself is gone for good: "
            f"kubectl delete validatingadmissionpolicybindings {NAME}",
        ),
        Demand(
            f"variables.annotations.all(key, !{_STAMP} || (key in variables.oldAnnotations && "
            "variables.annotations[key] == variables.oldAnnotations[key])) && "
            f"variables.oldAnnotations.all(key, !{_STAMP} || key in variables.annotations)",
            f"metadata.annotations: {_OURS}… and {_PROVISIONED_BY} are set by Ullage alone",
        ),
        Demand(
            f"variables.oldAnnotations.all(key, !({_KEPT}) || (key in variables.annotations && "
            "variables.annotations[key] == variables.oldAnnotations[key]))",
            f"metadata.annotations: a hold of Ullage's own ({HOLD}…) ends with the object that it is kept by: delete that",
        ),
    ),
)
