"""Questions about identity and rights, asked over the API: they are answered at once and never stored.

Each function takes the posted object, its fields already of the right types, and returns it with its status filled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from ullage.standalone.apiserver.auth.rbac import Authorizer, missing_roles
from ullage.standalone.apiserver.auth.rules import AccessAttributes, PolicyRule
from ullage.standalone.apiserver.auth.tokens import TokenRefused, Tokens
from ullage.standalone.apiserver.auth.users import User
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import FieldError, bad_request, forbidden_field, invalid, invalid_value, required
from ullage.times import timestamp

_AUTHORIZATION = "authorization.k8s.io"
_AUTHENTICATION = "authentication.k8s.io"
_OTHER_NAMESPACE = "the namespace of the provided object does not match the namespace sent on the request"


@dataclass(frozen=True, slots=True)
class Asked:
    """Who asks, where (the namespace in the path) and when; and what the answers come from."""

    user: User
    namespace: str
    now: datetime
    authorizer: Authorizer
    tokens: Tokens


def subject_access_review(obj: Json, asked: Asked) -> Json:
    spec = obj.get("spec") or {}
    _refuse([*_attribute_faults(spec), *_subject_faults(spec), *_metadata_faults(obj)])
    return _decided(obj, "SubjectAccessReview", _subject(spec), asked.authorizer)


def local_subject_access_review(obj: Json, asked: Asked) -> Json:
    spec, metadata = obj.get("spec") or {}, obj.get("metadata") or {}
    if metadata.get("namespace") not in (None, "", asked.namespace):
        raise bad_request(_OTHER_NAMESPACE)
    obj = {**obj, "metadata": {**metadata, "namespace": asked.namespace}}
    faults = [*_attribute_faults(spec), *_subject_faults(spec), *_metadata_faults(obj, but="namespace")]
    resource = spec.get("resourceAttributes")
    if resource is not None and resource.get("namespace", "") != asked.namespace:
        field = "spec.resourceAttributes.namespace"
        faults.append(invalid_value(field, resource.get("namespace", ""), "must match metadata.namespace"))
    path = spec.get("nonResourceAttributes")
    if path is not None and resource is None:
        faults.append(invalid_value("spec.nonResourceAttributes", _go_path(path), "disallowed on this kind of request"))
    _refuse(faults)
    return _decided(obj, "LocalSubjectAccessReview", _subject(spec), asked.authorizer)


def self_subject_access_review(obj: Json, asked: Asked) -> Json:
    _refuse([*_attribute_faults(obj.get("spec") or {}), *_metadata_faults(obj)])
    return _decided(obj, "SelfSubjectAccessReview", asked.user, asked.authorizer)


MOST_RULES = 10_000  # that one review lists


def self_subject_rules_review(obj: Json, asked: Asked) -> Json:
    """Every rule that counts for the user in a namespace: what `kubectl auth can-i --list` shows."""
    namespace = (obj.get("spec") or {}).get("namespace")
    if not namespace:
        raise bad_request("no namespace on request")
    grants = asked.authorizer.grants(asked.user, namespace)
    rules = list(islice((rule for grant in grants for rule in grant.rules or ()), MOST_RULES))
    status: Json = {
        "resourceRules": [_resource_rule(rule) for rule in rules if rule.resources],
        "nonResourceRules": [{"verbs": list(rule.verbs), "nonResourceURLs": list(rule.urls)} for rule in rules if rule.urls],
        "incomplete": len(rules) == MOST_RULES,
    }
    if missing := missing_roles(grants):
        status["evaluationError"] = missing
    return _answer(_AUTHORIZATION, "SelfSubjectRulesReview", metadata={}, spec={}, status=status)


def token_review(obj: Json, asked: Asked) -> Json:
    spec = obj.get("spec") or {}
    if not spec.get("token"):
        raise bad_request("token is required for TokenReview in authentication")
    try:
        bearer = asked.tokens.authenticate(spec["token"], spec.get("audiences") or ())
        status: Json = {"authenticated": True, "user": bearer.user.info(), "audiences": list(bearer.audiences)}
    except TokenRefused as refused:
        status = {"user": {}, "error": str(refused)}
    metadata = {key: value for key, value in (obj.get("metadata") or {}).items() if key != "namespace"}
    return _answer(_AUTHENTICATION, "TokenReview", metadata=metadata, spec=spec, status=status)


def self_subject_review(obj: Json, asked: Asked) -> Json:
    """Who am I: what `kubectl auth whoami` shows. Whatever was posted counts for nothing."""
    metadata = {"creationTimestamp": timestamp(asked.now)}
    return _answer(_AUTHENTICATION, "SelfSubjectReview", metadata=metadata, status={"userInfo": asked.user.info()})


REVIEWS: Mapping[tuple[str, str], Callable[[Json, Asked], Json]] = {
    (_AUTHORIZATION, "subjectaccessreviews"): subject_access_review,
    (_AUTHORIZATION, "localsubjectaccessreviews"): local_subject_access_review,
    (_AUTHORIZATION, "selfsubjectaccessreviews"): self_subject_access_review,
    (_AUTHORIZATION, "selfsubjectrulesreviews"): self_subject_rules_review,
    (_AUTHENTICATION, "tokenreviews"): token_review,
    (_AUTHENTICATION, "selfsubjectreviews"): self_subject_review,
}


def _answer(group: str, kind: str, *, metadata: Json, status: Json, spec: Json | None = None) -> Json:
    found: Json = {"kind": kind, "apiVersion": f"{group}/v1", "metadata": metadata}
    if spec is not None:
        found["spec"] = spec
    return {**found, "status": status}


def _decided(obj: Json, kind: str, user: User, authorizer: Authorizer) -> Json:
    spec = {key: _without_empty(value) for key, value in obj["spec"].items() if value not in ("", [], None)}
    decision = authorizer.authorize(user, _attributes(spec))
    status: Json = {"allowed": decision.allowed}
    if decision.reason:
        status["reason"] = decision.reason
    namespace = (obj.get("metadata") or {}).get("namespace") if kind == "LocalSubjectAccessReview" else None
    metadata = {"namespace": namespace} if namespace else {}
    return _answer(_AUTHORIZATION, kind, metadata=metadata, spec=spec, status=status)


def _attributes(spec: Json) -> AccessAttributes:
    path = spec.get("nonResourceAttributes")
    if path is not None:
        return AccessAttributes(path.get("verb", ""), path=path.get("path", ""))
    members = ("group", "version", "resource", "subresource", "namespace", "name")
    resource = spec["resourceAttributes"]
    return AccessAttributes(resource.get("verb", ""), **{member: resource.get(member, "") for member in members})


def _subject(spec: Json) -> User:
    extra = {key.lower(): tuple(values or ()) for key, values in (spec.get("extra") or {}).items()}
    return User(spec.get("user", ""), uid=spec.get("uid", ""), groups=tuple(spec.get("groups") or ()), extra=extra)


def _without_empty(value: Any) -> Any:
    return {key: member for key, member in value.items() if member != ""} if isinstance(value, dict) else value


def _refuse(faults: list[FieldError]) -> None:
    if faults:
        raise invalid(_AUTHORIZATION, "", "", faults)  # without a kind: so does kube-apiserver


def _attribute_faults(spec: Json) -> list[FieldError]:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and path is not None:
        detail = "cannot be specified in combination with resourceAttributes"
        return [invalid_value("spec.nonResourceAttributes", _go_path(path), detail)]
    if resource is None and path is None:
        detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [invalid_value("spec.resourceAttributes", None, detail)]
    faults: list[FieldError] = []
    for member in ("fieldSelector", "labelSelector"):
        selector = (resource or {}).get(member)
        if selector is not None:
            faults += _selector_faults(selector, f"spec.resourceAttributes.{member}")
    return faults


def _selector_faults(selector: Json, field: str) -> list[FieldError]:
    needs, raw = selector.get("requirements") or [], selector.get("rawSelector", "")
    if raw and needs:
        return [invalid_value(f"{field}.rawSelector", raw, "may not specified at the same time as requirements")]
    if not raw and not needs:
        return [required(f"{field}.requirements", f"when {field} is specified, requirements or rawSelector is required")]
    faults: list[FieldError] = []
    for position, need in enumerate(needs):
        where = f"{field}.requirements[{position}].values"
        if need.get("operator") in ("In", "NotIn") and not need.get("values"):
            faults.append(required(where, "must be specified when `operator` is 'In' or 'NotIn'"))
        if need.get("operator") in ("Exists", "DoesNotExist") and need.get("values"):
            faults.append(forbidden_field(where, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
    return faults


def _subject_faults(spec: Json) -> list[FieldError]:
    if spec.get("user") or spec.get("groups"):
        return []
    return [invalid_value("spec.user", "", "at least one of user or group must be specified")]


def _metadata_faults(obj: Json, *, but: str = "") -> list[FieldError]:
    """A review has no name, labels or the like: it is not kept. The namespace of a cluster-wide one is ignored."""
    metadata = obj.get("metadata") or {}
    if not any(value for key, value in metadata.items() if key not in ("namespace", "managedFields", "creationTimestamp")):
        return []
    shown = {key: value for key, value in metadata.items() if key != "namespace" or but}
    return [invalid_value("metadata", shown, "must be empty except for namespace" if but else "must be empty")]


def _go_path(path: Json) -> Json:
    """Non-resource attributes as the server's message shows them: under their Go names."""
    return {"Path": path.get("path", ""), "Verb": path.get("verb", "")}


def _resource_rule(rule: PolicyRule) -> Json:
    found = {"verbs": list(rule.verbs), "apiGroups": list(rule.groups), "resources": list(rule.resources)}
    return {**found, "resourceNames": list(rule.names)} if rule.names else found
