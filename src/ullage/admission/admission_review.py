"""The AdmissionReview on the wire: `admission.k8s.io/v1`, and no other version."""

from __future__ import annotations

import base64
import re
from typing import Any, Final

import msgspec

from ullage.errors import BadInput
from ullage.kube.objects import Json
from ullage.kube.review import Decision, Request, Review

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
LONGEST_WARNING: Final = 256  # characters; the API server cuts longer ones where it likes
LONGEST_NAME: Final = 253  # characters of a kind that are repeated in a refusal
SECONDS: Final = re.compile(r"(?:^|&)timeout=(\d{1,3})s(?:&|$)")


class AdmissionReview(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """What the API server posts."""

    api_version: str
    kind: str
    request: Request


_envelopes = msgspec.json.Decoder(AdmissionReview)
_encoder = msgspec.json.Encoder()


def decode(body: bytes) -> Request:
    """Raises BadInput for everything that is not a review of ours to answer."""
    try:
        envelope = _envelopes.decode(body)
    except RecursionError as error:
        raise BadInput("body", f"of {len(body)} bytes", "nested too deeply") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInput("body", f"of {len(body)} bytes", f"not an {KIND} of {API_VERSION}: {error}") from error
    if (envelope.api_version, envelope.kind) != (API_VERSION, KIND):
        raise BadInput(
            "kind",
            f"{envelope.kind[:LONGEST_NAME]} of {envelope.api_version[:LONGEST_NAME]}",
            f"only {KIND} of {API_VERSION} is answered",
        )
    return envelope.request


def encode(review: Review, decision: Decision) -> bytes:
    response: Json = {"uid": review.uid, "allowed": decision.allowed}
    if decision.warnings:
        response["warnings"] = [text[:LONGEST_WARNING] for text in decision.warnings]
    if decision.audit:
        response["auditAnnotations"] = decision.audit
    if not decision.allowed:
        response["status"] = _status(review, decision)
    elif decision.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(_encoder.encode(decision.patch)).decode()
    return _encoder.encode({"apiVersion": API_VERSION, "kind": KIND, "response": response})


def _status(review: Review, decision: Decision) -> Json:
    details: dict[str, Any] = {"name": review.name, "group": review.resource.group, "kind": review.resource.resource}
    details = {key: value for key, value in details.items() if value}
    if decision.causes:
        details["causes"] = decision.causes
    if decision.retry_after:
        details["retryAfterSeconds"] = decision.retry_after
    return {
        "status": "Failure",
        "code": decision.code,
        "reason": decision.reason,
        "message": decision.message,
        "details": details,
    }


def asked_timeout(query: bytes, default: int) -> int:
    """How long the API server waits: it says so in the URL, since an administrator may have changed the registration."""
    found = SECONDS.search(query.decode("latin-1"))
    return int(found[1]) if found else default


def budget(timeout: int) -> float:
    """How long a hook may think, so that its answer is there before the API server stops waiting."""
    return timeout - min(1.0, timeout * 0.2)
