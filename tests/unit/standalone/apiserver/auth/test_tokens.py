"""Bearer tokens and client certificates: whom they speak for, and when they no longer do."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from ullage.clock import FakeClock
from ullage.pki import Identity, issue_client, make_ca
from ullage.standalone.apiserver.auth.token_requests import Issuing, answer
from ullage.standalone.apiserver.auth.tokens import ISSUER, SigningKey, TokenRefused, Tokens, openid_configuration
from ullage.standalone.apiserver.auth.users import ANONYMOUS, EXTRA_SPACE, User, authenticate, certificate_user
from ullage.standalone.apiserver.status import ApiError

Json = dict[str, Any]
KEY = SigningKey(ec.generate_private_key(ec.SECP256R1()))
ADMIN = User("admin", uid="u", groups=("system:masters",))


def thing(uid: str, **more: Any) -> Json:
    return {"metadata": {"uid": uid}, **more}


@dataclass
class World:
    """A cluster with one service account, the tokens it is given, and a clock."""

    objects: dict[tuple[str, str, str], Json] = field(
        default_factory=lambda: {
            ("serviceaccounts", "ns", "sa"): thing("sa-uid"),
            ("secrets", "ns", "s"): thing("s-uid"),
            ("pods", "ns", "p"): thing("p-uid", spec={"serviceAccountName": "sa", "nodeName": "n"}),
            ("pods", "ns", "new"): thing("new-uid", spec={"serviceAccountName": "sa"}),
            ("pods", "ns", "other"): thing("o-uid", spec={"serviceAccountName": "else"}),
            ("nodes", "", "n"): thing("n-uid"),
        }
    )
    clock: FakeClock = field(default_factory=FakeClock)

    def __post_init__(self) -> None:
        self.tokens = Tokens(KEY, lookup=self.lookup, clock=self.clock, static={"secret": ADMIN})

    def lookup(self, storage: str, namespace: str, name: str) -> Json | None:
        return self.objects.get((storage, namespace, name))

    def request(self, spec: Json | None = None, *, name: str = "sa", metadata: Json | None = None) -> Json:
        issuing = Issuing(self.clock.now(), "id-1")
        body = {"spec": spec or {}, "metadata": metadata or {}}
        return answer(body, namespace="ns", name=name, key=KEY, lookup=self.lookup, issuing=issuing)

    def token(self, **spec: Any) -> str:
        found: str = self.request(spec)["status"]["token"]
        return found


@pytest.fixture
def world() -> World:
    return World()


def bound(kind: str, name: str, **more: str) -> Json:
    return {"apiVersion": "v1", "kind": kind, "name": name, **more}


def test_a_token_request_is_answered_with_a_token_and_its_end(world: World) -> None:
    found = world.request()
    token = found["status"].pop("token")
    assert found == {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": "sa", "namespace": "ns", "uid": "sa-uid", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"audiences": [ISSUER], "expirationSeconds": 3600, "boundObjectRef": None},
        "status": {"expirationTimestamp": "2026-01-01T01:00:00Z"},
    }
    start = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
    assert jwt.decode(token, options={"verify_signature": False}) == {
        "aud": [ISSUER],
        "exp": start + 3600,
        "iat": start,
        "iss": ISSUER,
        "jti": "id-1",
        "kubernetes.io": {"namespace": "ns", "serviceaccount": {"name": "sa", "uid": "sa-uid"}},
        "nbf": start,
        "sub": "system:serviceaccount:ns:sa",
    }
    assert jwt.get_unverified_header(token) == {"alg": "ES256", "kid": KEY.kid}


def test_the_token_speaks_for_its_service_account(world: World) -> None:
    user = world.tokens.user_of(world.token())
    assert user == User(
        "system:serviceaccount:ns:sa",
        uid="sa-uid",
        groups=("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"),
        extra={"authentication.kubernetes.io/credential-id": ("JTI=id-1",)},
    )


@pytest.mark.parametrize(
    ("reference", "claims", "extra"),
    [
        pytest.param(bound("Secret", "s"), {"secret": {"name": "s", "uid": "s-uid"}}, {}, id="to a secret"),
        pytest.param(
            bound("Pod", "p"),
            {"pod": {"name": "p", "uid": "p-uid"}, "node": {"name": "n", "uid": "n-uid"}},
            {"pod-name": "p", "pod-uid": "p-uid", "node-name": "n", "node-uid": "n-uid"},
            id="to a pod, naming its node",
        ),
        pytest.param(
            bound("Pod", "new"),
            {"pod": {"name": "new", "uid": "new-uid"}},
            {"pod-name": "new", "pod-uid": "new-uid"},
            id="to a pod that has no node yet",
        ),
        pytest.param(
            bound("Node", "n", uid="n-uid"),
            {"node": {"name": "n", "uid": "n-uid"}},
            {"node-name": "n", "node-uid": "n-uid"},
            id="to a node, with its uid",
        ),
    ],
)
def test_a_token_can_be_bound(world: World, reference: Json, claims: Json, extra: dict[str, str]) -> None:
    token = world.token(boundObjectRef=reference)
    private = jwt.decode(token, options={"verify_signature": False})["kubernetes.io"]
    assert {key: value for key, value in private.items() if key not in ("namespace", "serviceaccount")} == claims
    user = world.tokens.user_of(token)
    assert user is not None
    shown = {key.removeprefix("authentication.kubernetes.io/"): values[0] for key, values in user.extra.items()}
    assert shown == {"credential-id": "JTI=id-1", **extra}


@pytest.mark.parametrize(
    ("request_args", "code", "message"),
    [
        pytest.param({"name": "nope"}, 404, 'serviceaccounts "nope" not found', id="an account that does not exist"),
        pytest.param(
            {"spec": {"expirationSeconds": 599}},
            422,
            'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 599: '
            "may not specify a duration less than 10 minutes",
            id="a second too short",
        ),
        pytest.param({"spec": {"expirationSeconds": 0}}, 422, "less than 10 minutes", id="zero is not the default"),
        pytest.param(
            {"spec": {"expirationSeconds": 2**32 + 1}},
            422,
            "Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds",
            id="too long",
        ),
        pytest.param(
            {"metadata": {"name": "other"}},
            422,
            'TokenRequest.authentication.k8s.io "sa" is invalid: metadata.name: Invalid value: "other": '
            "must match the service account name if specified",
            id="another name in the body",
        ),
        pytest.param(
            {"metadata": {"namespace": "other"}},
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
            id="another namespace in the body",
        ),
        pytest.param({"spec": {"boundObjectRef": bound("Pod", "x")}}, 404, 'pods "x" not found', id="a pod that is not there"),
        pytest.param(
            {"spec": {"boundObjectRef": bound("Pod", "")}}, 400, "Name parameter required.", id="a pod without a name"
        ),
        pytest.param(
            {"spec": {"boundObjectRef": bound("ConfigMap", "x")}},
            400,
            "cannot bind token to object of type /v1, Kind=ConfigMap",
            id="a kind that nothing binds to",
        ),
        pytest.param(
            {"spec": {"boundObjectRef": bound("Pod", "other")}},
            400,
            'cannot bind token for serviceaccount "sa" to pod running with different serviceaccount name.',
            id="a pod of another account",
        ),
        pytest.param(
            {"spec": {"boundObjectRef": bound("Secret", "s", uid="old")}},
            409,
            'Operation cannot be fulfilled on Secret "s": the UID in the bound object reference (old) does not match '
            "the UID in record. The object might have been deleted and then recreated",
            id="a secret that was made anew",
        ),
    ],
)
def test_a_token_request_is_refused(world: World, request_args: Json, code: int, message: str) -> None:
    with pytest.raises(ApiError) as error:
        world.request(**request_args)
    assert error.value.code == code
    assert error.value.message.endswith(message)


def test_the_longest_and_the_shortest_life(world: World) -> None:
    assert world.request({"expirationSeconds": 600})["status"]["expirationTimestamp"] == "2026-01-01T00:10:00Z"
    assert world.request({"expirationSeconds": 2**32})["spec"]["expirationSeconds"] == 2**32


def remove(*key: str) -> Callable[[World], object]:
    return lambda world: world.objects.pop((key[0], key[1], key[2]))


def renew(*key: str) -> Callable[[World], object]:
    return lambda world: world.objects.update({(key[0], key[1], key[2]): thing("another")})


def leave(*key: str) -> Callable[[World], object]:
    return lambda world: world.objects[key[0], key[1], key[2]]["metadata"].update(deletionTimestamp="2025-12-31T23:58:59Z")


INVALIDATED = "[invalid bearer token, service account token has been invalidated]"


@pytest.mark.parametrize(
    ("reference", "happens", "error"),
    [
        pytest.param(None, lambda world: world.clock.advance(3599), "", id="its last second"),
        pytest.param(
            None,
            lambda world: world.clock.advance(3600),
            "[invalid bearer token, service account token has expired]",
            id="its hour is over",
        ),
        pytest.param(
            None,
            remove("serviceaccounts", "ns", "sa"),
            '[invalid bearer token, serviceaccounts "sa" not found]',
            id="the account is gone",
        ),
        pytest.param(
            None,
            renew("serviceaccounts", "ns", "sa"),
            "[invalid bearer token, service account UID (another) does not match claim (sa-uid)]",
            id="the account was made anew",
        ),
        pytest.param(None, leave("serviceaccounts", "ns", "sa"), INVALIDATED, id="the account has been leaving for a minute"),
        pytest.param(None, remove("pods", "ns", "p"), "", id="a pod it is not bound to is gone"),
        pytest.param(bound("Pod", "p"), remove("pods", "ns", "p"), INVALIDATED, id="its pod is gone"),
        pytest.param(bound("Pod", "p"), renew("pods", "ns", "p"), INVALIDATED, id="its pod was made anew"),
        pytest.param(bound("Pod", "p"), remove("nodes", "", "n"), "", id="the node of its pod is gone"),
        pytest.param(bound("Secret", "s"), remove("secrets", "ns", "s"), INVALIDATED, id="its secret is gone"),
        pytest.param(bound("Node", "n"), remove("nodes", "", "n"), INVALIDATED, id="its node is gone"),
    ],
)
def test_a_token_lives_as_long_as_what_it_stands_on(
    world: World, reference: Json | None, happens: Callable[[World], object], error: str
) -> None:
    token = world.token(boundObjectRef=reference)
    assert world.tokens.user_of(token) is not None  # its signature is remembered from here on
    happens(world)
    if not error:
        assert world.tokens.authenticate(token).user.uid == "sa-uid"
        return
    with pytest.raises(TokenRefused) as refused:
        world.tokens.authenticate(token)
    assert str(refused.value) == error


def forged(**change: Any) -> Callable[[World], str]:
    """A token with our claims but for `change`, signed with `key` (ours unless told)."""

    def make(world: World) -> str:
        claims = jwt.decode(world.token(), options={"verify_signature": False})
        key = change.pop("key", KEY.private)
        return jwt.encode(claims | change, key, algorithm=change.pop("algorithm", "ES256"))

    return make


def unsigned(world: World) -> str:
    claims = jwt.decode(world.token(), options={"verify_signature": False})
    return jwt.encode(claims, None, algorithm="none")  # type: ignore[arg-type]  # what an attacker would try


def tampered(world: World) -> str:
    head, _, signature = world.token().split(".")
    claims = jwt.decode(world.token(), options={"verify_signature": False}) | {"sub": "system:serviceaccount:ns:root"}
    return ".".join([head, jwt.utils.base64url_encode(json.dumps(claims).encode()).decode(), signature])


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda world: "garbage", id="no token at all"),
        pytest.param(lambda world: "a.b.c", id="three parts of nothing"),
        pytest.param(lambda world: "secret ", id="almost the administrator's"),
        pytest.param(lambda world: "\udcff.x.y", id="bytes that are not text"),
        pytest.param(unsigned, id="one without a signature"),
        pytest.param(tampered, id="one whose claims were changed"),
        pytest.param(forged(key=ec.generate_private_key(ec.SECP256R1())), id="one signed with another key"),
        pytest.param(forged(iss="https://elsewhere"), id="one of another issuer"),
    ],
)
def test_a_token_that_is_not_ours_is_refused_without_a_reason(world: World, make: Callable[[World], str]) -> None:
    with pytest.raises(TokenRefused, match=r"^invalid bearer token$"):
        world.tokens.authenticate(make(world))


@pytest.mark.parametrize(
    ("given", "asked", "shared"),
    [
        pytest.param([], [], [ISSUER], id="ours by default"),
        pytest.param(["a", "b"], ["b", "c"], ["b"], id="those that both name"),
        pytest.param(["a", "b"], [], None, id="a token for others is not for us"),
        pytest.param([], ["a"], None, id="a token for us is not for others"),
    ],
)
def test_audiences(world: World, given: list[str], asked: list[str], shared: list[str] | None) -> None:
    token = world.token(audiences=given)
    if shared is not None:
        assert list(world.tokens.authenticate(token, asked).audiences) == shared
        return
    with pytest.raises(TokenRefused, match="is invalid for the target audiences"):
        world.tokens.authenticate(token, asked)


def test_the_administrators_token_is_for_this_server_alone(world: World) -> None:
    bearer = world.tokens.authenticate("secret")
    assert bearer.user.groups == ("system:masters", "system:authenticated")
    assert bearer.audiences == (ISSUER,)
    with pytest.raises(TokenRefused):
        world.tokens.authenticate("secret", ["elsewhere"])


def test_the_published_key_verifies_the_tokens(world: World) -> None:
    [published] = KEY.jwks()["keys"]
    assert (published["kid"], published["use"], published["alg"]) == (KEY.kid, "sig", "ES256")
    key = jwt.PyJWK(published)
    claims = jwt.decode(
        world.token(),
        key,
        algorithms=["ES256"],
        audience=ISSUER,
        options={"verify_exp": False, "verify_nbf": False, "verify_iat": False},
    )
    assert claims["sub"] == "system:serviceaccount:ns:sa"
    assert openid_configuration("https://x/openid/v1/jwks")["jwks_uri"] == "https://x/openid/v1/jwks"


NOW = datetime(2026, 1, 1, tzinfo=UTC)
CA = make_ca("ca", now=NOW, lifetime=timedelta(days=1))


def certificate(user: str, *groups: str) -> bytes:
    pair = issue_client(CA, Identity(user, groups), now=NOW, lifetime=timedelta(hours=1))
    return x509.load_pem_x509_certificate(pair.certificate).public_bytes(Encoding.DER)


@pytest.mark.parametrize(
    ("header", "name"),
    [
        pytest.param("", "system:anonymous", id="nothing presented is anonymous"),
        pytest.param("Bearer secret", "admin", id="a token"),
        pytest.param("bEARER secret", "admin", id="the scheme in any case"),
        pytest.param("Bearer secret and more", "admin", id="what follows the token is ignored"),
        pytest.param("Basic secret", "system:anonymous", id="another scheme is nothing"),
        pytest.param("Bearer", "system:anonymous", id="a scheme alone is nothing"),
        pytest.param("Bearer  secret", "system:anonymous", id="two spaces are nothing"),
        pytest.param("Bearer wrong", None, id="a wrong token is 401"),
    ],
)
def test_the_authorization_header(world: World, header: str, name: str | None) -> None:
    headers = {"authorization": header} if header else {}
    warnings: list[str] = []
    if name is None:
        with pytest.raises(ApiError, match="Unauthorized") as error:
            authenticate(headers, None, tokens=world.tokens)
        assert error.value.code == 401
        return
    user = authenticate(headers, None, tokens=world.tokens, warn=warnings.append)
    assert user.name == name
    assert warnings == ([EXTRA_SPACE] if "  " in header else [])


def test_anonymous_is_not_among_the_authenticated() -> None:
    assert ANONYMOUS.groups == ("system:unauthenticated",)


def test_a_certificate_wins_over_a_token_good_or_bad(world: World) -> None:
    der = certificate("ann", "dev", "ops")
    for header in ("Bearer secret", "Bearer wrong"):
        user = authenticate({"authorization": header}, der, tokens=world.tokens)
        assert user == certificate_user(der)
    assert user.name == "ann"
    assert set(user.groups) == {"dev", "ops", "system:authenticated"}
    assert user.extra == {"authentication.kubernetes.io/credential-id": (f"X509SHA256={hashlib.sha256(der).hexdigest()}",)}


def test_a_key_of_another_kind_is_not_taken() -> None:
    other = ec.generate_private_key(ec.SECP384R1())
    with pytest.raises(ValueError, match="P-256"):
        SigningKey.from_pem(other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
