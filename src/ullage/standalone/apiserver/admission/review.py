"""The AdmissionReview: what a webhook is told, and what it may answer. Only `admission.k8s.io/v1` is spoken."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ullage.standalone.apiserver.admission.attributes import Attributes
from ullage.standalone.apiserver.fields.patch.form import json_type
from ullage.standalone.apiserver.fields.patch.json_patch import json_patch
from ullage.standalone.apiserver.kinds.resources import Resource
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import ApiError, internal_error, json_string, not_registered, webhook_denied

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"
HEADER_BUDGET = 4096  # characters of warnings in one answer
LONG_WARNING = 256  # what is left of each warning once the budget is overrun


class CallFailure(Exception):
    """A webhook could not be asked, or did not answer as it must. Its failurePolicy decides what that means."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A well-formed answer."""

    allowed: bool
    status: Json = field(default_factory=dict)
    patch: list[Any] = field(default_factory=list)
    warnings: tuple[str, ...] = ()


def convert(obj: Json | None, source: Resource, target: Resource) -> Json | None:
    """An object in another version of its kind; the object itself where nothing differs."""
    if obj is None or source is target or obj.get("kind") != source.kind:
        return obj
    stored = source.to_storage(obj) if source.to_storage is not None else obj
    shown = target.from_storage(stored) if target.from_storage is not None else stored
    return {**shown, "apiVersion": target.api_version, "kind": target.kind}


def admission_request(attrs: Attributes, resource: Resource, *, uid: str) -> Json:
    """The request's part without its objects: this much a matchCondition may read, too."""
    request: Json = {
        "uid": uid,
        "kind": _kind(resource, attrs.subresource),
        "resource": _resource(resource),
        "subResource": attrs.subresource,
        "requestKind": _kind(attrs.resource, attrs.subresource),
        "requestResource": _resource(attrs.resource),
        "requestSubResource": attrs.subresource,
        "name": attrs.name,
        "namespace": attrs.name if attrs.is_namespace else attrs.namespace,
        "operation": attrs.operation,
        "userInfo": attrs.user.info(),
    }
    found = {key: value for key, value in request.items() if value != ""}
    return found | {"dryRun": attrs.dry_run, "options": attrs.options or None}


def encode_review(request: Json, obj: Json | None, old: Json | None) -> bytes:
    return msgspec.json.encode(
        {"kind": KIND, "apiVersion": API_VERSION, "request": request | {"object": obj, "oldObject": old}}
    )


def _kind(resource: Resource, subresource: str) -> Json:
    sub = resource.subresources.get(subresource)
    if sub is None:
        return resource.gvk
    return {"group": sub.group or resource.group, "version": sub.version or resource.version, "kind": sub.kind or resource.kind}


def _resource(resource: Resource) -> Json:
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}


def read_verdict(body: bytes, *, uid: str, mutating: bool) -> Verdict:
    """Checks an answer against everything that kube-apiserver checks. Raises CallFailure."""
    review = _decode(body)
    api_version, kind = review.get("apiVersion") or "", review.get("kind") or ""
    if api_version and kind:
        _check_type(api_version, kind)
    response = review.get("response")
    if response is None:
        raise _invalid("webhook response was absent")
    if not isinstance(response, dict):
        raise _unreadable(response, "Go struct field AdmissionReview.response of type v1.AdmissionResponse")
    if (api_version, kind) != (API_VERSION, KIND):
        shown = f"{api_version or '/'}, Kind={kind}"
        raise _invalid(f"expected webhook response of {API_VERSION}, Kind={KIND}, got {shown}")
    if response.get("uid", "") != uid:
        raise _invalid(f"expected response.uid={json_string(uid)}, got {json_string(str(response.get('uid', '')))}")
    allowed = response.get("allowed", False)
    if not isinstance(allowed, bool):
        raise _unreadable(allowed, "Go struct field AdmissionResponse.response.allowed of type bool")
    return Verdict(
        allowed=allowed,
        status=response.get("status") or {},
        patch=_patch(response, mutating=mutating),
        warnings=tuple(str(text) for text in response.get("warnings") or ()),
    )


def _decode(body: bytes) -> Json:
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        found = ""  # anything else is taken for a YAML text by kube-apiserver, and refused as one
    if isinstance(found, dict):
        return found
    shape = r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
    text = f"json: cannot unmarshal {json_type(found)} into Go value of type {shape}"
    raise CallFailure(f"failed to call webhook: couldn't get version/kind; json parse error: {text}")


def _check_type(api_version: str, kind: str) -> None:
    """Another kind than ours is not even read."""
    if (api_version, kind) == (API_VERSION, KIND):
        return
    if (api_version, kind) == ("admission.k8s.io/v1beta1", KIND):
        raise CallFailure(
            "failed to call webhook: converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion"
        )
    raise CallFailure(f"failed to call webhook: {not_registered(kind, api_version)}")


def _patch(response: Json, *, mutating: bool) -> list[Any]:
    text, kind = response.get("patch"), response.get("patchType")
    try:
        raw = base64.b64decode(text or "", validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise CallFailure("failed to call webhook: illegal base64 data at input byte 0") from None
    if not mutating:
        if raw or kind is not None:
            raise _invalid(f"validating webhook may not return response.patch{'' if raw else 'Type'}")
        return []
    if raw and kind is None:
        raise _invalid("webhook returned response.patch but not response.patchType")
    if kind is not None and not raw:
        raise _invalid("webhook returned response.patchType but not response.patch")
    ops = _operations(raw) if raw else []
    if ops and kind != "JSONPatch":
        raise CallFailure(f"unsupported patch type {json_string(str(kind))}")
    return ops


def _operations(raw: bytes) -> list[Any]:
    try:
        found = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        first = raw[:1].decode("latin-1")
        raise CallFailure(
            f"received undecodable patch in webhook response: invalid character '{first}' looking for beginning of value"
        ) from None
    if not isinstance(found, list):
        text = f"json: cannot unmarshal {json_type(found)} into Go value of type jsonpatch.Patch"
        raise CallFailure(f"received undecodable patch in webhook response: {text}")
    return found


def _invalid(text: str) -> CallFailure:
    return CallFailure(f"received invalid webhook response: {text}")


def _unreadable(value: Any, into: str) -> CallFailure:
    return CallFailure(f"failed to call webhook: json: cannot unmarshal {json_type(value)} into {into}")


def apply_patch(obj: Json, ops: list[Any]) -> Json:
    """The patched object. A patch that does not fit is the webhook author's fault: 500, whatever the failurePolicy."""
    for op in ops:
        try:
            obj = json_patch(obj, [op])
        except ApiError as error:
            raise internal_error(_misfit(op)) from error
    return obj


def _misfit(op: Any) -> str:
    kind, path = (op.get("op"), op.get("path", "")) if isinstance(op, dict) else ("", "")
    match kind:
        case "test":
            return f"testing value {path} failed: test failed"
        case "remove" | "replace":
            last = path.rpartition("/")[2]
            return f"error in {kind} for path: '{path}': Unable to {kind} nonexistent key: {last}: missing value"
        case "add" | "copy" | "move":
            return f"{kind} operation does not apply: doc is missing path: {json_string(path)}: missing value"
    return f"Unexpected kind: {kind}"


def refusal(hook: str, status: Json) -> ApiError:
    """A webhook's no, in its own words where it has any."""
    code = status.get("code") or 0
    reason, message = str(status.get("reason") or ""), str(status.get("message") or "")
    return webhook_denied(
        hook, code=code if code >= 400 else 400, reason=reason, message=message, details=status.get("details")
    )


def warning_headers(texts: Iterable[str]) -> list[tuple[str, str]]:
    """`Warning` headers: each text once, no control characters, and not more than a client should have to read."""
    usable = [text for text in dict.fromkeys(texts) if text and text.isprintable()]
    if sum(len(text) for text in usable) > HEADER_BUDGET:
        usable = [text[:LONG_WARNING] for text in usable]
    headers: list[tuple[str, str]] = []
    spent = 0
    for text in usable:
        if spent > HEADER_BUDGET:
            break
        spent += len(text)
        escaped = text.replace("\\", r"\\").replace('"', r"\"")
        headers.append(("warning", f'299 - "{escaped}"'))
    return headers
