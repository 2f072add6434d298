"""Bearer tokens: the administrator's, known by heart, and those of service accounts, signed and expiring.

A signed token is worth something only while its ServiceAccount, and the Pod, Secret or Node it is bound to, still exist
with the uid that it names. The signature of a token is checked once and then remembered; all the rest at every request.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import jwt
import msgspec
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm
from jwt.types import Options

from ullage.clock import Clock
from ullage.standalone.apiserver.auth.rules import quoted
from ullage.standalone.apiserver.auth.users import CREDENTIAL_ID, User, authenticated, service_account_groups
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.request.document import Document

ISSUER = "https://kubernetes.default.svc.cluster.local"
JWKS_PATH = "/openid/v1/jwks"
CONFIGURATION_PATH = "/.well-known/openid-configuration"
PRIVATE_CLAIM = "kubernetes.io"
BOUND_KINDS = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}
_ALGORITHM = "ES256"
_DELETION_GRACE = 60  # seconds for which an object on its way out still backs its tokens
_MOST_REMEMBERED = 4096

_OPTIONS: Options = {
    "verify_aud": False,
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "require": ["iss", "sub", "aud", "exp", "nbf", "jti", PRIVATE_CLAIM],
}

Lookup = Callable[[str, str, str], Json | None]  # storage, namespace, name → the object


class TokenRefused(Exception):
    """A token that is not valid here, and why: the text of a TokenReview's `error`."""

    def __init__(self, detail: str = "") -> None:
        super().__init__(f"[invalid bearer token, {detail}]" if detail else "invalid bearer token")


@dataclass(frozen=True, slots=True)
class Bearer:
    """Whose token it is, and for which of the audiences asked for it is good."""

    user: User
    audiences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SigningKey:
    """The key that service account tokens are signed with, and the name under which its public half is published."""

    private: ec.EllipticCurvePrivateKey
    kid: str = field(init=False)

    def __post_init__(self) -> None:
        spki = self.private.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        kid = base64.urlsafe_b64encode(hashlib.sha256(spki).digest()).rstrip(b"=").decode()
        object.__setattr__(self, "kid", kid)

    @classmethod
    def from_pem(cls, pem: bytes) -> SigningKey:
        key = serialization.load_pem_private_key(pem, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
            raise ValueError("service account tokens are signed with an ECDSA P-256 key")
        return cls(key)

    def sign(self, claims: Json) -> str:
        return jwt.encode(claims, self.private, algorithm=_ALGORITHM, headers={"kid": self.kid, "typ": None})

    def jwks(self) -> Json:
        """What `/openid/v1/jwks` serves."""
        public: Json = dict(ECAlgorithm.to_jwk(self.private.public_key(), as_dict=True))
        return {"keys": [{"use": "sig", "kid": self.kid, "alg": _ALGORITHM, **public}]}


def openid_documents(key: SigningKey, address: str) -> dict[str, Document]:
    """What others need to check a token, by the path at which they ask for it."""
    configuration = openid_configuration(f"https://{address}{JWKS_PATH}")
    kept = "public, max-age=3600"
    return {
        JWKS_PATH: Document(msgspec.json.encode(key.jwks()), "application/jwk-set+json", cache_control=kept),
        CONFIGURATION_PATH: Document(msgspec.json.encode(configuration), cache_control=kept),
    }


def openid_configuration(jwks_uri: str) -> Json:
    """What `/.well-known/openid-configuration` serves."""
    return {
        "issuer": ISSUER,
        "jwks_uri": jwks_uri,
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": [_ALGORITHM],
    }


class Tokens:
    """Tells whose a bearer token is."""

    def __init__(self, key: SigningKey, *, lookup: Lookup, clock: Clock, static: Mapping[str, User] | None = None) -> None:
        self._key = key
        self._public = key.private.public_key()
        self._lookup = lookup
        self._clock = clock
        # Looked up by digest: how long that takes says nothing about how much of a guess was right.
        self._static = {_digest(token): authenticated(user) for token, user in (static or {}).items()}
        self._verified: dict[bytes, Json] = {}

    def user_of(self, token: str) -> User | None:
        try:
            return self.authenticate(token).user
        except TokenRefused:
            return None

    def authenticate(self, token: str, audiences: Sequence[str] = ()) -> Bearer:
        """Whose token it is. Raises TokenRefused unless it is good now, for at least one of the audiences (or for ours)."""
        digest = _digest(token)
        wanted = tuple(audiences) or (ISSUER,)
        known = self._static.get(digest)
        if known is not None:
            if ISSUER not in wanted:
                raise TokenRefused
            return Bearer(known, (ISSUER,))
        claims = self._verified.get(digest) or self._verify(token, digest)
        given = claims["aud"]
        shared = tuple(audience for audience in given if audience in wanted)
        if not shared:
            raise TokenRefused(f"token audiences {quoted(given)} is invalid for the target audiences {quoted(wanted)}")
        return Bearer(self._account(claims), shared)

    def _verify(self, token: str, digest: bytes) -> Json:
        """The claims of a token with our signature. Times are ours to check: the clock is an argument."""
        try:
            claims: Json = jwt.decode(token, self._public, algorithms=[_ALGORITHM], issuer=ISSUER, options=_OPTIONS)
        except (jwt.PyJWTError, ValueError):
            raise TokenRefused from None
        if len(self._verified) >= _MOST_REMEMBERED:
            self._verified.clear()
        self._verified[digest] = claims
        return claims

    def _account(self, claims: Json) -> User:
        now = self._clock.now().timestamp()
        if now >= claims["exp"]:
            raise TokenRefused("service account token has expired")
        if now < claims["nbf"]:
            raise TokenRefused("service account token is not valid yet")
        private = claims[PRIVATE_CLAIM]
        namespace, account = private["namespace"], private["serviceaccount"]
        found = self._lookup("serviceaccounts", namespace, account["name"])
        if found is None:
            raise TokenRefused(f'serviceaccounts "{account["name"]}" not found')
        uid = found["metadata"]["uid"]
        if uid != account["uid"]:
            raise TokenRefused(f"service account UID ({uid}) does not match claim ({account['uid']})")
        if _leaving(found, now) or any(self._gone(private, kind, now) for kind in BOUND_KINDS):
            raise TokenRefused("service account token has been invalidated")
        groups = service_account_groups(namespace)
        name = f"system:serviceaccount:{namespace}:{account['name']}"
        return authenticated(User(name, uid=uid, groups=groups, extra=_extra(claims)))

    def _gone(self, private: Json, kind: str, now: float) -> bool:
        bound = private.get(kind.lower())
        # The node of a bound pod is named for information: only a token that is bound to the node itself needs it.
        if bound is None or "uid" not in bound or (kind == "Node" and "pod" in private):
            return False
        namespace = "" if kind == "Node" else private["namespace"]
        found = self._lookup(BOUND_KINDS[kind], namespace, bound["name"])
        return found is None or bool(found["metadata"]["uid"] != bound["uid"]) or _leaving(found, now)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogatepass")).digest()


def _leaving(obj: Json, now: float) -> bool:
    deleted = obj["metadata"].get("deletionTimestamp")
    return deleted is not None and datetime.fromisoformat(deleted).timestamp() + _DELETION_GRACE < now


def _extra(claims: Json) -> dict[str, tuple[str, ...]]:
    private = claims[PRIVATE_CLAIM]
    found: dict[str, tuple[str, ...]] = {CREDENTIAL_ID: (f"JTI={claims['jti']}",)}
    for part in ("pod", "node"):
        for member, value in private.get(part, {}).items():
            found[f"authentication.kubernetes.io/{part}-{member}"] = (value,)
    return found
