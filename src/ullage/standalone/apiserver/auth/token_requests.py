"""`serviceaccounts/token`: a TokenRequest is answered with a signed token for the account in the path."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from ullage.standalone.apiserver.auth.tokens import BOUND_KINDS, ISSUER, PRIVATE_CLAIM, Lookup, SigningKey
from ullage.standalone.apiserver.objects import Json, dig
from ullage.standalone.apiserver.status import FieldError, bad_request, conflict, invalid, invalid_value, json_string, not_found
from ullage.times import timestamp

_GROUP = "authentication.k8s.io"
_KIND = "TokenRequest"
DEFAULT_SECONDS = 3600
_LEAST = 600
_MOST = 1 << 32
_OTHER_NAMESPACE = "the namespace of the provided object does not match the namespace sent on the request"


@dataclass(frozen=True, slots=True)
class Issuing:
    """What a token depends on besides the request: the moment, and an id that no other token has."""

    now: datetime
    token_id: str


def answer(request: Json, *, namespace: str, name: str, key: SigningKey, lookup: Lookup, issuing: Issuing) -> Json:
    """The TokenRequest with its status filled. Raises what kube-apiserver would answer instead."""
    account = lookup("serviceaccounts", namespace, name)
    if account is None:
        raise not_found("", "serviceaccounts", name)
    metadata = request.get("metadata") or {}
    if metadata.get("name") not in (None, "", name):
        other = invalid_value("metadata.name", metadata["name"], "must match the service account name if specified")
        raise invalid(_GROUP, _KIND, name, [other])
    if metadata.get("namespace") not in (None, "", namespace):
        raise bad_request(_OTHER_NAMESPACE)
    spec = request.get("spec") or {}
    seconds = spec.get("expirationSeconds")
    seconds = DEFAULT_SECONDS if seconds is None else seconds
    if fault := _duration_fault(seconds):
        raise invalid(_GROUP, _KIND, "", [fault])
    audiences = spec.get("audiences") or [ISSUER]
    reference = spec.get("boundObjectRef")
    private: Json = {"namespace": namespace, "serviceaccount": {"name": name, "uid": account["metadata"]["uid"]}}
    if reference is not None:
        private |= _bound(reference, namespace=namespace, account=name, lookup=lookup)
    expires = issuing.now + timedelta(seconds=seconds)
    claims = _claims(private, audiences=audiences, expires=expires, issuing=issuing)
    given = {"name": name, "namespace": namespace, "uid": account["metadata"]["uid"]}
    return {
        "kind": _KIND,
        "apiVersion": f"{_GROUP}/v1",
        "metadata": {**metadata, **given, "creationTimestamp": timestamp(issuing.now)},
        "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": reference},
        "status": {"token": key.sign(claims), "expirationTimestamp": timestamp(expires)},
    }


def _duration_fault(seconds: int) -> FieldError | None:
    if seconds < _LEAST:
        return invalid_value("spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
    if seconds > _MOST:
        return invalid_value("spec.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
    return None


def _bound(reference: Json, *, namespace: str, account: str, lookup: Lookup) -> Json:
    """The claims for the object that the token is bound to."""
    kind, name = reference.get("kind", ""), reference.get("name", "")
    plural = BOUND_KINDS.get(kind)
    if plural is None:
        group, _, version = str(reference.get("apiVersion", "")).rpartition("/")
        raise bad_request(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
    if not name:
        raise bad_request("Name parameter required.")
    found = lookup(plural, "" if kind == "Node" else namespace, name)
    if found is None:
        raise not_found("", plural, name)
    uid = found["metadata"]["uid"]
    if reference.get("uid") not in (None, "", uid):
        text = (
            f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        raise conflict("", kind, name, text)
    claims: Json = {kind.lower(): {"name": name, "uid": uid}}
    if kind == "Pod":
        claims |= _node_of(found, account=account, lookup=lookup)
    return claims


def _node_of(pod: Json, *, account: str, lookup: Lookup) -> Json:
    if (dig(pod, "spec", "serviceAccountName") or "default") != account:
        text = f"cannot bind token for serviceaccount {json_string(account)} to pod running with different serviceaccount name."
        raise bad_request(text)
    name = dig(pod, "spec", "nodeName")
    if not name:
        return {}
    node = lookup("nodes", "", name)
    return {"node": {"name": name, **({"uid": node["metadata"]["uid"]} if node else {})}}


def _claims(private: Json, *, audiences: list[str], expires: datetime, issuing: Issuing) -> Json:
    issued = int(issuing.now.timestamp())
    return {
        "aud": audiences,
        "exp": int(expires.timestamp()),
        "iat": issued,
        "iss": ISSUER,
        "jti": issuing.token_id,
        PRIVATE_CLAIM: private,
        "nbf": issued,
        "sub": f"system:serviceaccount:{private['namespace']}:{private['serviceaccount']['name']}",
    }
