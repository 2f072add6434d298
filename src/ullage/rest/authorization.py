"""Who asks, and may he? The cluster says both: TokenReview tells whose a bearer token is, SubjectAccessReview whether that one
has a right, with everything that the token says about him: groups and extra count as they do at the API server itself.

Nothing is remembered between requests: a token that was revoked, or a role that was taken away, counts with the next one. A
token goes nowhere but into the TokenReview: it is in no error, no log line and no repr.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final, Protocol, TypeVar

import msgspec

from ullage.errors import Terminal
from ullage.kube.kinds import Value, decode_as_go
from ullage.kube.objects import Json
from ullage.kube.review import UserInfo
from ullage.kube.routes import Declined, Permission

logger = logging.getLogger(__name__)

LONGEST_TOKEN: Final = 48 * 1024
MOST_ASKED: Final = 32  # requests whose reviews are under way: who floods us does not flood the API server
MOST_WAITING: Final = 256
TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_SAID: Final = "send the header 'Authorization: Bearer TOKEN' with a token of this cluster"

Headers = Iterable[tuple[bytes, bytes]]
A = TypeVar("A", bound=Value)


class BadAnswer(Terminal):
    """The API server answered a review with something else."""


class Requester(Protocol):
    async def request(self, method: str, path: str, *, body: bytes | None = None) -> bytes: ...


class TokenReviewStatus(Value):
    authenticated: bool = False
    user: UserInfo = UserInfo()
    audiences: tuple[str, ...] = ()


class TokenReview(Value):
    status: TokenReviewStatus = TokenReviewStatus()


class AccessReviewStatus(Value):
    allowed: bool = False
    denied: bool = False
    evaluation_error: str = ""


class AccessReview(Value):
    status: AccessReviewStatus = AccessReviewStatus()


class Authorization:
    """`audiences`: whom a token must be meant for; none: the API server itself."""

    def __init__(self, client: Requester, *, audiences: Sequence[str] = ()) -> None:
        self._client = client
        self._audiences = list(audiences)
        self._places = asyncio.Semaphore(MOST_ASKED)
        self._waiting = 0

    async def caller(self, headers: Headers) -> UserInfo:
        """Whose request it is. Raises Declined."""
        spec: Json = {"token": _bearer(headers)}
        if self._audiences:
            spec["audiences"] = self._audiences
        status = (await self._ask(TOKEN_REVIEWS, "authentication.k8s.io/v1", "TokenReview", spec, TokenReview)).status
        # Who reviews tokens without looking at audiences names none: such a token is meant for the API server, not for us.
        meant = not self._audiences or bool({*self._audiences} & {*status.audiences})
        if not status.authenticated or not status.user.username or not meant:
            raise Declined(401, "Unauthorized", f"the token is not valid, or has expired: {_SAID}")
        return status.user

    async def check(self, user: UserInfo, access: Permission, *, namespace: str) -> None:
        """Raises Declined for somebody who may not."""
        kind = access.kind
        attributes = {"verb": access.verb, "group": kind.group, "version": kind.version, "resource": kind.plural}
        spec: Json = {
            "user": user.username,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra.items()},
            "resourceAttributes": {**attributes, "namespace": namespace, "name": access.name},
        }
        review = await self._ask(ACCESS_REVIEWS, "authorization.k8s.io/v1", "SubjectAccessReview", spec, AccessReview)
        if review.status.evaluation_error:
            logger.warning("access was decided with an error", extra={"error": review.status.evaluation_error})
        if not review.status.allowed or review.status.denied:
            where = f"in namespace {namespace}" if namespace else "in all namespaces"
            raise Declined(
                403,
                "Forbidden",
                f"User does not have permission to {access.words}: ask an administrator for the verb {access.verb} on "
                f"{kind.name} {where}",
                details={"name": access.name, "group": kind.group, "kind": kind.plural},
            )

    async def _ask(self, path: str, version: str, kind: str, spec: Json, answer: type[A]) -> A:
        wanted = {"apiVersion": version, "kind": kind, "spec": spec}
        body = await self._client.request("POST", path, body=msgspec.json.encode(wanted))
        try:
            return decode_as_go(body, msgspec.json.Decoder(answer))
        except (msgspec.DecodeError, RecursionError):
            raise BadAnswer(f"the API server's answer is no {kind}") from None  # the cause could show the token

    @contextlib.asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Whoever is to be judged waits here for his turn. Raises Declined where too many wait already."""
        if self._waiting >= MOST_WAITING:
            raise Declined(503, "ServiceUnavailable", "too many requests at once; try again", retry_after=1)
        self._waiting += 1
        try:
            await self._places.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._places.release()


def _bearer(headers: Headers) -> str:
    given = [(name, value) for name, value in headers if name == b"authorization" or name.startswith(b"impersonate-")]
    if any(name != b"authorization" for name, _ in given):
        # Taken for the token's owner, a proxy's request on behalf of its user would be done with the proxy's own rights.
        raise Declined(400, "BadRequest", f"impersonation is not served: {_SAID}, of whom it is for")
    if not given:
        raise Declined(401, "Unauthorized", f"this needs a token: {_SAID}")
    scheme, _, token = given[0][1].decode("latin-1").partition(" ")
    token = token.strip()
    if len(given) > 1 or scheme.lower() != "bearer" or not token:
        raise Declined(401, "Unauthorized", f"no other credential is taken: {_SAID}")
    if len(token) > LONGEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise Declined(401, "Unauthorized", f"the token is not valid, or has expired: {_SAID}")
    return token
