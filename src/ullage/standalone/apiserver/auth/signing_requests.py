"""Who asks for a certificate, and who may grant it.

A CertificateSigningRequest carries the identity of whoever created it, which signers trust: the server writes it, never the
client. To approve a request needs the verb `approve` on its signer, beside the right to write `approval`; to sign it, `sign`.
"""

from __future__ import annotations

import base64
import binascii

from cryptography import x509
from cryptography.x509.oid import NameOID

from ullage.standalone.apiserver.auth.rbac import Authorizer
from ullage.standalone.apiserver.auth.rules import AccessAttributes
from ullage.standalone.apiserver.auth.users import MASTERS, User
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import ApiError, forbidden, forbidden_field, invalid, json_string

GROUP = "certificates.k8s.io"
PLURAL = "certificatesigningrequests"
RESOURCE = f"{PLURAL}.{GROUP}"
CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"
_DECIDED = ("Approved", "Denied")


def identify(obj: Json, user: User) -> None:
    """Writes into a new request who asks, over whatever the client says."""
    spec = obj.get("spec") or {}
    asked = user.info()
    for key in ("username", "uid", "groups", "extra"):
        spec.pop(key, None)
        if key in asked:
            spec[key] = asked[key]


def keep_decisions(new: Json, old: Json, *, name: str) -> Json:
    """A status as the endpoint of that name may write it: approvals and denials stay. Raises a 422 where one is added."""
    decided = [one for one in (old.get("conditions") or ()) if one.get("type") in _DECIDED]
    added = {one.get("type") for one in (new.get("conditions") or ())} & set(_DECIDED) - {one["type"] for one in decided}
    if added:
        texts = [f"updates may not add a condition of type {json_string(kind)}" for kind in sorted(added)]
        raise invalid(GROUP, "CertificateSigningRequest", name, [forbidden_field("status.conditions", text) for text in texts])
    others = [one for one in (new.get("conditions") or ()) if one.get("type") not in _DECIDED]
    found = {key: value for key, value in new.items() if key != "conditions"}
    return {**found, "conditions": [*decided, *others]} if decided or others else found


class SigningRequests:
    """The check, over one authorizer's policy."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def check(self, user: User, subresource: str, *, new: Json, old: Json | None) -> ApiError | None:
        """The refusal of a write; None where the user may."""
        name = new["metadata"].get("name", "")
        if not subresource:
            return _subject_refusal(new, name)
        signer = ((old or new).get("spec") or {}).get("signerName", "")
        verb = {"approval": "approve", "status": "sign"}.get(subresource, "")
        if not verb or (verb == "sign" and _granted(new) == _granted(old or {})) or self._may(user, verb, signer):
            return None
        return forbidden(GROUP, PLURAL, name, f"user not permitted to {verb} requests with signerName {json_string(signer)}")

    def _may(self, user: User, verb: str, signer: str) -> bool:
        """A right may be to one signer or to all of a domain."""
        names = (signer, f"{signer.partition('/')[0]}/*")
        asked = (AccessAttributes(verb, group=GROUP, version="*", resource="signers", name=name) for name in names)
        return any(self._authorizer.authorize(user, one).allowed for one in asked)


def _granted(obj: Json) -> tuple[object, object]:
    status = obj.get("status") or {}
    return status.get("certificate"), status.get("conditions") or []


def _subject_refusal(obj: Json, name: str) -> ApiError | None:
    """Nobody becomes a master by a certificate that the API server takes."""
    spec = obj.get("spec") or {}
    if spec.get("signerName") != CLIENT_SIGNER:
        return None
    try:
        wanted = x509.load_pem_x509_csr(base64.b64decode(spec.get("request") or ""))
        groups = [part.value for part in wanted.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    except (ValueError, binascii.Error):
        return forbidden(GROUP, PLURAL, name, "failed to parse CSR: PEM block type must be CERTIFICATE REQUEST")
    if MASTERS not in groups:
        return None
    return forbidden(GROUP, PLURAL, name, f"use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed")
