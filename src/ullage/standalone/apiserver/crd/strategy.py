"""How CustomResourceDefinitions are written: their strategy, and what a delete leaves on one until its objects are gone."""

from __future__ import annotations

from ullage.standalone.apiserver.crd.rules import default_crd, validate_crd, validate_crd_update
from ullage.standalone.apiserver.kinds.strategies.base import Strategy
from ullage.standalone.apiserver.objects import Json

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


def _begin(crd: Json) -> None:
    """A new definition's status: nothing is accepted yet, and only one version can have been stored."""
    stored = [version["name"] for version in crd["spec"].get("versions") or () if version.get("storage")][:1]
    crd["status"] = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored}


def _keep_stored_versions(new: Json, old: Json) -> None:
    """A version that becomes the storage version has objects from then on."""
    status = dict(new.get("status") or {})
    known = list(status.get("storedVersions") or ())
    for version in new["spec"].get("versions") or ():
        if version.get("storage") and version["name"] not in known:
            known.append(version["name"])
    new["status"] = {**status, "storedVersions": known}


def mark_terminating(crd: Json, now: str) -> None:
    """What a delete leaves on a definition until its objects are gone."""
    meta = crd["metadata"]
    if CLEANUP not in (meta.get("finalizers") or ()):
        meta["finalizers"] = [*(meta.get("finalizers") or ()), CLEANUP]
    status = crd.setdefault("status", {})
    conditions = [c for c in status.get("conditions") or () if c.get("type") != "Terminating"]
    message = "CustomResourceDefinition marked for deletion; CustomResource deletion will occur as soon as possible"
    conditions.append(
        {
            "type": "Terminating",
            "status": "True",
            "lastTransitionTime": now,
            "reason": "InstanceDeletionPending",
            "message": message,
        }
    )
    status["conditions"] = conditions


CRD_STRATEGY = Strategy(
    generation=True,
    unstored_status=True,
    default=default_crd,
    prepare_create=_begin,
    prepare_update=_keep_stored_versions,
    validate=validate_crd,
    validate_update=validate_crd_update,
)
