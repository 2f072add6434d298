"""May this user exec into the pods of a namespace? The cluster says. Whoever names hooks on a snapshot, a schedule or a group
must be one who may: what they name is run with our rights, and not with theirs."""

from __future__ import annotations

from typing import Any, Final, Protocol

import msgspec

from ullage.kube.errors import Cause
from ullage.kube.identities import is_own
from ullage.kube.kinds import Kind, Object
from ullage.kube.review import Decision, Review
from ullage.kube.slices import Write

ACCESS_REVIEWS: Final = Kind(
    "authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", Object, namespaced=False, whole=False
)
# What a webhook needs that asks.
ACCESS_WRITES: Final = (Write(ACCESS_REVIEWS, ("create",)),)


class Asker(Protocol):
    async def request(self, method: str, path: str, *, body: bytes | None = None) -> bytes: ...


class _AccessStatus(msgspec.Struct):
    allowed: bool = False
    denied: bool = False


class _Access(msgspec.Struct):
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


async def exec_refusal(client: Asker, review: Review, field: str) -> Decision | None:
    """What a validating hook says to somebody who names hooks in `field` and may not exec into pods there; None: they may."""
    if is_own(review) or await may_exec(client, review):
        return None
    who = review.user.username or "this user"
    problem = (
        f"it names commands that are run in pods, and {who} may not do that: ask an administrator "
        f"for the verb create on pods/exec in namespace {review.namespace}, or have the pods declare their hooks in annotations"
    )
    return Decision.refuse(f"{field}: {problem}", causes=(Cause(field, "FieldValueForbidden", problem),))


async def may_exec(client: Asker, review: Review) -> bool:
    user = review.user
    attributes = {"verb": "create", "version": "v1", "resource": "pods", "subresource": "exec", "namespace": review.namespace}
    spec: dict[str, Any] = {
        "user": user.username,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
        "resourceAttributes": attributes,
    }
    wanted = {"apiVersion": ACCESS_REVIEWS.api_version, "kind": ACCESS_REVIEWS.kind, "spec": spec}
    body = await client.request("POST", ACCESS_REVIEWS.path(), body=msgspec.json.encode(wanted))
    status = msgspec.json.decode(body, type=_Access).status
    return status.allowed and not status.denied
