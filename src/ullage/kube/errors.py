"""What a Kubernetes API answers when it does not do what was asked, as classes that say what to do about it.

    ApiError
    ├── Conflict          retry    409: somebody else wrote first
    ├── AlreadyExists     give up  409: the name is taken
    ├── NotFound          give up  404
    ├── Gone              retry    410: the version asked for is forgotten, list again
    ├── Invalid           give up  422: `causes` name the fields
    ├── BadRequest        give up  400
    ├── Unauthorized      retry    401: credentials may be renewed
    ├── Forbidden         give up  403
    ├── MethodNotAllowed  give up  405
    ├── Refused           give up  any other 4xx, and redirects
    ├── TooManyRequests   retry    429: `retry_after` says when
    ├── Unavailable       retry    5xx, or code 0 if no answer came at all
    ├── TooLarge          retry    more than is taken from this server (`read_limits.py`)
    └── Undecodable       give up  an answer whose fields are not what the type says

The server's own words are the text of the error. Request headers, bodies and credentials never are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, TypeVar, cast

import msgspec

from ullage.errors import Retryable, Terminal, UllageError

T = TypeVar("T")
# How API servers say that no role gives a right. Names stand there as Go quotes them.
_LACKS_RIGHT: Final = re.compile(r'User "(?:[^"\\]|\\.)*" cannot ')
# API servers print where they could not reach a hook of ours. The end of its path is a secret (`admission/paths.py`).
_HOOK_TOKEN: Final = re.compile(r"(/hooks/[^/\s\"?]+(?:/clusters/[^/\s\"?]+)?/)[0-9a-f]{8,}")
TEXT_LIMIT = 200  # of an answer that is no Status: some proxies answer with a whole page
MESSAGE_LIMIT = 8192  # of a Status: it is kept, logged and told


class Cause(msgspec.Struct, frozen=True):
    """One field that was refused, and why. `field` is a path such as `spec.limits[0].name`."""

    field: str = ""
    reason: str = ""
    message: str = ""


class ApiError(UllageError):
    """An answer that is not a success, or none at all (`code` 0)."""

    def __init__(
        self,
        message: str,
        *,
        code: int = 0,
        reason: str = "",
        details: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.reason = reason
        self.details: Mapping[str, Any] = details or {}
        self.retry_after = retry_after  # seconds; what the server asked us to wait before the next try

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The fields that the server named. A server may name none, even for an invalid object."""
        try:
            return tuple(msgspec.convert(self.details.get("causes") or [], list[Cause]))
        except msgspec.ValidationError:
            return ()


class Conflict(ApiError, Retryable):
    """Somebody else wrote first, or a uid or resourceVersion that was demanded is not there: read again, decide again."""


class AlreadyExists(ApiError, Terminal):
    """The name is taken."""


class NotFound(ApiError, Terminal):
    """No such object, or no such kind, version or path; or a proxy that knows nothing of it."""

    def names(self, group: str, resource: str, name: str) -> bool:
        """Whether the server says of this very object that it is not there. Any other 404 proves nothing about it."""
        told = {key: self.details.get(key) or "" for key in ("group", "kind", "name")}
        return self.reason == "NotFound" and told == {"group": group, "kind": resource, "name": name}


class Gone(ApiError, Retryable):
    """The version asked for is older than what the server remembers: list again."""


class Invalid(ApiError, Terminal):
    """The object breaks the kind's rules; `causes` say where."""


class BadRequest(ApiError, Terminal):
    """The request itself makes no sense to the server."""


class Unauthorized(ApiError, Retryable):
    """The server does not know who we are. Tokens are renewed on disk and by plugins, so this may pass."""


class Forbidden(ApiError, Terminal):
    """We may not, or a quota or webhook refused."""

    @property
    def lacks_right(self) -> bool:
        """Whether we may not: a role lacks a rule. Then nobody has come to ask whether the object itself would do."""
        return _LACKS_RIGHT.search(self.message) is not None


class MethodNotAllowed(ApiError, Terminal):
    """The resource does not know this verb."""


class Refused(ApiError, Terminal):
    """Any other answer that blames the request (406, 413, 415…), and redirects, which are never followed."""


class TooManyRequests(ApiError, Retryable):
    """The server, or a webhook, asks for patience; nothing was done. `retry_after` says how long."""


class Unavailable(ApiError, Retryable):
    """The server failed, or no answer came (`code` 0).

    `sent` is False where nothing of the request left this process, so that a write was certainly not done.
    """

    def __init__(self, message: str, *, sent: bool = True, **rest: Any) -> None:
        super().__init__(message, **rest)
        self.sent = sent


class TooLarge(ApiError, Retryable):
    """A server sends more than is taken from it: at once, in all, or for too long. What was read before stays; it may be less
    another time."""


class Undecodable(ApiError, Terminal):
    """An object whose fields are not what its type says: the kind's definition here and there differ."""


BY_CODE: Mapping[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: MethodNotAllowed,
    408: Unavailable,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


class Status(msgspec.Struct, frozen=True):
    """The `Status` that Kubernetes sends in place of what was asked for. Every field may be missing or null."""

    kind: str = ""
    message: str | None = None
    reason: str | None = None
    code: int | None = None
    details: dict[str, Any] | None = None


_status_decoder = msgspec.json.Decoder(Status)


def from_answer(code: int, body: bytes, *, what: str, retry_after: str | None = None) -> ApiError:
    """The error that an answer stands for. `what` (`GET /api/v1/pods`) is said where the server says nothing itself."""
    try:
        status = _status_decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        status = Status()
    if status.kind != "Status":
        status = Status(message=_words(code, body, what))
    return from_status(status, code=code, what=what, retry_after=_seconds(retry_after))


def from_status(status: Status, *, code: int, what: str, retry_after: float | None = None) -> ApiError:
    """The error that a Status stands for: of an answer, or of an ERROR event in a watch."""
    code = status.code or code
    reason = status.reason or ""
    details = _without_tokens(status.details or {})
    if retry_after is None:
        retry_after = _seconds(details.get("retryAfterSeconds"))
    return _class(code, reason)(
        _without_tokens(status.message or f"{what}: {_phrase(code)}")[:MESSAGE_LIMIT],
        code=code,
        reason=reason,
        details=details,
        retry_after=retry_after,
    )


def _without_tokens(told: T) -> T:
    """What a server told, without what it must not have told: an error is logged, kept in conditions and shown to tenants."""
    found: Any = told
    if isinstance(told, str):
        found = _HOOK_TOKEN.sub(r"\1…", told)
    elif isinstance(told, dict):
        found = {name: _without_tokens(value) for name, value in told.items()}
    elif isinstance(told, list):
        found = [_without_tokens(value) for value in told]
    return cast(T, found)


def _class(code: int, reason: str) -> type[ApiError]:
    if reason == "AlreadyExists":
        return AlreadyExists
    if reason == "Expired":
        return Gone
    return BY_CODE.get(code) or (Unavailable if code >= 500 else Refused)


def _seconds(given: object) -> float | None:
    """Retry-After in seconds. The other form, a date, is never sent by an API server; it counts as absent."""
    if isinstance(given, str) and given.strip().isdecimal():
        return float(given)
    if isinstance(given, int | float) and given > 0:
        return float(given)
    return None


def _phrase(code: int) -> str:
    try:
        return f"the server answered {code} {HTTPStatus(code).phrase}"
    except ValueError:
        return f"the server answered {code}"


def _words(code: int, body: bytes, what: str) -> str:
    """What a plain-text answer says, on one line. Pages and binary answers say nothing."""
    text = " ".join(body[: TEXT_LIMIT * 4].decode("utf-8", "replace").split())[:TEXT_LIMIT]
    said = f": {text}" if text and text[0] not in "<{[" and text.isprintable() else ""
    return f"{what}: {_phrase(code)}{said}"
