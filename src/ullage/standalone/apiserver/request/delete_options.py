"""DeleteOptions, from the body or from the query, checked as kube-apiserver checks them."""

from __future__ import annotations

from dataclasses import dataclass

from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.request.decoding import accept_delete_options
from ullage.standalone.apiserver.request.parameters import META, integer
from ullage.standalone.apiserver.request.request import Request
from ullage.standalone.apiserver.status import (
    FieldError,
    bad_request,
    invalid,
    invalid_value,
    not_registered,
    not_supported,
)

_POLICIES = ("Foreground", "Background", "Orphan")


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    policy: str = ""
    grace: int | None = None
    dry_run: bool = False
    uid: str = ""
    rv: str = ""
    shown: Json | None = None  # as webhooks see them
    named: bool = True  # a request for a whole collection names no object, and webhooks are told none


BACKGROUND = DeleteOptions(
    policy="Background",
    shown={"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "propagationPolicy": "Background"},
    named=False,
)


async def delete_options(request: Request) -> DeleteOptions:
    """Options from the body, or from the query where there is no body. Raises 400 or 422."""
    body: Json = {}
    if request.body.strip():
        body = await accept_delete_options(request)
        kind, version = body.get("kind", "DeleteOptions"), body.get("apiVersion", "meta.k8s.io/v1")
        if kind != "DeleteOptions":
            raise bad_request(not_registered(str(kind), str(version)))
    else:
        body = _from_query(request)
    return checked_options(body)


def _from_query(request: Request) -> Json:
    found: Json = {}
    if request.param("propagationPolicy"):
        found["propagationPolicy"] = request.param("propagationPolicy")
    if "orphanDependents" in request.query:
        found["orphanDependents"] = request.flag("orphanDependents")
    if request.param("gracePeriodSeconds"):
        found["gracePeriodSeconds"] = integer(request, "gracePeriodSeconds")
    if "dryRun" in request.query:
        found["dryRun"] = request.query["dryRun"]
    return found


def checked_options(body: Json) -> DeleteOptions:
    """DeleteOptions as they stand in a body. Raises 422."""
    errors: list[FieldError] = []
    policy, orphan = body.get("propagationPolicy") or "", body.get("orphanDependents")
    if policy and policy not in _POLICIES:
        errors.append(not_supported("propagationPolicy", policy, [*_POLICIES, "nil"]))
    if policy and orphan is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        errors.append(invalid_value("propagationPolicy", policy, detail))
    dry_run = body.get("dryRun") or []
    if any(value != "All" for value in dry_run):
        errors.append(not_supported("dryRun", dry_run, ["All"]))
    if errors:
        raise invalid(META, "DeleteOptions", "", errors)
    if orphan is not None:
        policy = "Orphan" if orphan else "Background"
    preconditions = body.get("preconditions") or {}
    shown = {
        "kind": "DeleteOptions",
        "apiVersion": "meta.k8s.io/v1",
        **{k: v for k, v in body.items() if k not in ("kind", "apiVersion")},
    }
    return DeleteOptions(
        policy=policy,
        grace=body.get("gracePeriodSeconds"),
        dry_run=bool(dry_run),
        uid=preconditions.get("uid") or "",
        rv=preconditions.get("resourceVersion") or "",
        shown=shown,
    )
