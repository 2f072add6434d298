"""A request's identity: who a client certificate or a bearer token speaks for, and who nobody is.

Nothing presented is `system:anonymous`; a token that is presented and not valid is a 401, whatever the address.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Protocol

from cryptography import x509
from cryptography.x509.oid import NameOID

from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import unauthorized

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
EXTRA_SPACE = "the provided Authorization header contains extra space before the bearer token, and is ignored"

_SERVICE_ACCOUNT = re.compile(r"system:serviceaccount:([a-z0-9](?:[-a-z0-9]*[a-z0-9])?):([a-z0-9](?:[-.a-z0-9]*[a-z0-9])?)")


@dataclass(frozen=True, slots=True)
class User:
    """Who asks. Two users of one name and the same groups have the same rights."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    def info(self) -> Json:
        """The `userInfo` of reviews and of admission requests: what is empty is left out."""
        found = {
            "username": self.name,
            "uid": self.uid,
            "groups": list(self.groups),
            "extra": {key: list(values) for key, values in sorted(self.extra.items())},
        }
        return {key: value for key, value in found.items() if value}


class TokenAuthenticator(Protocol):
    def user_of(self, token: str) -> User | None:
        """Whose token this is; None where it is not valid here."""


SELF = User("system:apiserver", groups=(MASTERS,))  # the server, for what it writes itself
ANONYMOUS_NAME = "system:anonymous"
ANONYMOUS = User(ANONYMOUS_NAME, groups=(UNAUTHENTICATED,))


def authenticated(user: User) -> User:
    """The user as one who has shown a credential."""
    if AUTHENTICATED in user.groups or UNAUTHENTICATED in user.groups:
        return user
    return replace(user, groups=(*user.groups, AUTHENTICATED))


def service_account_of(username: str) -> tuple[str, str] | None:
    """Namespace and name of the service account that a user name stands for."""
    found = _SERVICE_ACCOUNT.fullmatch(username)
    return (found[1], found[2]) if found else None


def service_account_groups(namespace: str) -> tuple[str, str]:
    return "system:serviceaccounts", f"system:serviceaccounts:{namespace}"


def authenticate(
    headers: Mapping[str, str],
    peer_certificate: bytes | None,
    *,
    tokens: TokenAuthenticator,
    warn: Callable[[str], None] | None = None,
) -> User:
    """Who sent these headers (lower-case names) over a connection with this verified client certificate (DER).

    A certificate wins over a token. Raises the 401 for a token that is not valid.
    """
    if peer_certificate is not None and (user := certificate_user(peer_certificate)) is not None:
        return user
    token = _bearer(headers.get("authorization", ""), warn)
    if not token:
        return ANONYMOUS
    found = tokens.user_of(token)
    if found is None:
        raise unauthorized()
    return found


def _bearer(header: str, warn: Callable[[str], None] | None) -> str:
    """The token in an Authorization header. Any other scheme counts as nothing presented, as on kube-apiserver."""
    parts = header.strip().split(" ")
    if len(parts) < 2 or parts[0].lower() != "bearer":
        return ""
    if not parts[1] and warn is not None:
        warn(EXTRA_SPACE)
    return parts[1]


@lru_cache(maxsize=256)
def certificate_user(der: bytes) -> User | None:
    """CN is the user, each O a group. A certificate without a CN names nobody."""
    certificate = x509.load_der_x509_certificate(der)
    names = [_text(part) for part in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if not names or not names[0]:
        return None
    groups = tuple(_text(part) for part in certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME))
    fingerprint = f"X509SHA256={hashlib.sha256(der).hexdigest()}"
    return authenticated(User(names[0], groups=groups, extra={CREDENTIAL_ID: (fingerprint,)}))


def _text(part: x509.NameAttribute[str | bytes]) -> str:
    return part.value if isinstance(part.value, str) else part.value.decode()
