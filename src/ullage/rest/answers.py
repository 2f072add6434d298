"""What goes back over the wire: replies of routes, and every refusal as a Kubernetes Status. Pure.

Our own calls to the API server can fail in ways that are none of the caller's business: that our token expired is no 401 for
him, and that a role of ours lacks a rule is no 403. What the API server says about the object that he has asked to change is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from ullage.kube.errors import AlreadyExists, ApiError, Conflict, Forbidden, Invalid, TooManyRequests, Unavailable
from ullage.kube.objects import Json
from ullage.kube.routes import Declined, Reply, Route

JSON: Final = b"application/json"
LONGEST_WARNING: Final = 512  # characters
PLAIN: Final = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
CHALLENGE: Final = (b"www-authenticate", b'Bearer realm="ullage"')

Header = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Page:
    """A whole answer. One without a type has no body, and says so."""

    code: int
    body: bytes = b""
    type: bytes = b""
    headers: tuple[Header, ...] = PLAIN

    def with_headers(self, *headers: Header) -> Page:
        return replace(self, headers=(*self.headers, *headers))

    def wire_headers(self) -> list[Header]:
        found = list(self.headers)
        if self.type:
            found.append((b"content-type", self.type))
        if self.code != 204:  # which has none, not an empty one
            found.append((b"content-length", str(len(self.body)).encode()))
        return found


def of_reply(route: Route, reply: Reply) -> Page:
    warnings = tuple((b"warning", _quoted(text)) for text in reply.warnings)
    body = b"" if reply.body is None else msgspec.json.encode(reply.body)
    return Page(route.code, body, JSON if body else b"").with_headers(*warnings)


def of_refusal(declined: Declined, route: Route | None = None) -> Page:
    """`route` is the one that was asked, where that is known: what was sent to it is wrong in its own terms."""
    code, reason = declined.code, declined.reason
    if route is not None and code == 422 != route.invalid:
        code, reason = route.invalid, "BadRequest"
    status: Json = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": declined.message,
        "reason": reason,
        "code": code,
    }
    details = dict(declined.details)
    if declined.retry_after:
        details["retryAfterSeconds"] = declined.retry_after
    if details:
        status["details"] = details
    page = Page(code, msgspec.json.encode(status), JSON)
    if declined.retry_after:
        page = page.with_headers((b"retry-after", str(declined.retry_after).encode()))
    return page.with_headers(CHALLENGE) if code == 401 else page


def from_api(error: ApiError) -> Declined:
    """What a caller is told when a call of ours to the API server has failed."""
    match error:
        case Invalid():
            return Declined(422, "Invalid", error.message, details={"causes": list(error.causes)} if error.causes else None)
        case Conflict() | AlreadyExists():
            return Declined(409, "Conflict", f"others change it all the time; try again: {error.message}")
        case Forbidden() if not error.lacks_right:  # a webhook or a policy; that he lacks a right was found out before
            return Declined(403, "Forbidden", error.message)
        case TooManyRequests():
            wait = max(1, math.ceil(error.retry_after or 1))
            return Declined(429, "TooManyRequests", error.message, retry_after=wait)
        case Unavailable():
            return Declined(503, "ServiceUnavailable", "the Kubernetes API does not answer now; try again", retry_after=1)
    return internal("this server could not do it; its log says why")


def internal(message: str) -> Declined:
    return Declined(500, "InternalError", message)


def allow(methods: Sequence[str]) -> Header:
    return b"allow", ", ".join(methods).encode()


def _quoted(text: str) -> bytes:
    """As RFC 9111 has it: code, who says it, and the text in quotes. Header values are one line of ASCII."""
    plain = " ".join(text.split()).encode("ascii", "replace").decode()[:LONGEST_WARNING]
    escaped = plain.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 ullage "{escaped}"'.encode()
