"""Every answer that is not an object: the Status errors of the Kubernetes API, worded as kube-apiserver words them.

    ApiError                     code, reason, message, details: what the client receives
    FieldError                   one cause of a 422: path, kind of fault, value, what is allowed

Code anywhere below the HTTP edge raises ApiError through the constructors here and nowhere builds a Status by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from ullage.standalone.apiserver.objects import Json

# kube-apiserver repeats a bad value whole and names every fault. Here an answer ends somewhere, in `...`: a body of 3 MiB can
# have a million faults.
MOST_SHOWN: Final = 16 * 1024  # characters of one value
MOST_MESSAGE: Final = 256 * 1024  # characters of a message; the causes beside it have about as many
MOST_CAUSES: Final = 1_000


@dataclass(frozen=True, slots=True)
class FieldError:
    """One fault in one field. `str()` is the text that kube-apiserver would print for it."""

    kind: str  # the cause's reason: FieldValueRequired, FieldValueInvalid, ...
    field: str  # `spec.ports[0].port`
    body: str  # everything behind the path: `Required value: name is required`

    def __str__(self) -> str:
        return f"{self.field}: {self.body}" if self.field else self.body

    def cause(self) -> Json:
        return {"reason": self.kind, "message": self.body, "field": self.field}


def clipped(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}..."


def show(value: object) -> str:
    """A value as Go's field errors print it: strings quoted, the rest as compact JSON."""
    if isinstance(value, str):
        value = value[: MOST_SHOWN + 1]
    return clipped(msgspec.json.encode(value).decode(), MOST_SHOWN)


def required(field: str, detail: str = "") -> FieldError:
    return FieldError("FieldValueRequired", field, f"Required value: {detail}" if detail else "Required value")


def invalid_value(field: str, value: object, detail: str) -> FieldError:
    return FieldError("FieldValueInvalid", field, f"Invalid value: {show(value)}: {detail}")


def not_supported(field: str, value: object, allowed: Sequence[str]) -> FieldError:
    choices = ", ".join(show(choice) for choice in allowed)
    return FieldError("FieldValueNotSupported", field, f"Unsupported value: {show(value)}: supported values: {choices}")


def forbidden_field(field: str, detail: str) -> FieldError:
    return FieldError("FieldValueForbidden", field, f"Forbidden: {detail}")


def duplicate(field: str, value: object) -> FieldError:
    return FieldError("FieldValueDuplicate", field, f"Duplicate value: {show(value)}")


def not_found_value(field: str, value: object) -> FieldError:
    return FieldError("FieldValueNotFound", field, f"Not found: {show(value)}")


def too_long(field: str, limit: int) -> FieldError:
    return FieldError("FieldValueTooLong", field, f"Too long: may not be more than {limit} {'byte' if limit == 1 else 'bytes'}")


def too_many(field: str, count: int, limit: int) -> FieldError:
    return FieldError(
        "FieldValueTooMany", field, f"Too many: {count}: must have at most {limit} {'item' if limit == 1 else 'items'}"
    )


class ApiError(Exception):
    """A request's failure, as the client is told it."""

    def __init__(
        self, code: int, reason: str, message: str, *, details: Json | None = None, headers: Sequence[tuple[str, str]] = ()
    ) -> None:
        message = clipped(message, MOST_MESSAGE)
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.headers = tuple(headers)
        self.list_meta: Json = {}  # a 410 on a paged list carries a token to go on with

    def status(self) -> Json:
        """The Status object, as it stands in the answer's body and in a watch's ERROR event."""
        body: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.list_meta,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.code
        return body


def group_resource(group: str, resource: str) -> str:
    """`widgets.example.com`, or plain `pods` for the core group: how messages name a resource."""
    return f"{resource}.{group}" if group else resource


def details_of(group: str, kind: str, name: str = "", **more: Any) -> Json:
    """A Status's details: empty members are left out, as Go leaves them out."""
    named = {"name": name, "group": group, "kind": kind, **more}
    return {key: value for key, value in named.items() if value}


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def unrecognized(kind: str, fault: str, body: bytes) -> ApiError:
    """A body that cannot be read at all, or does not say what it is."""
    return bad_request(f"the object provided is unrecognized (must be of type {kind}): {fault} ({summary(body)})")


def cannot_be_handled(kind: str, version: str, expected: str, *, fault: str) -> ApiError:
    """A body whose type is known and whose content is not of that type, or not of the type that is served here."""
    return bad_request(f"{kind} in version {json_string(version)} cannot be handled as a {expected}: {fault}")


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized", "Unauthorized")


def forbidden(group: str, resource: str, name: str, message: str) -> ApiError:
    """A refusal by an admission step or a strategy: `pods "x" is forbidden: <message>`."""
    what = group_resource(group, resource)
    text = f'{what} "{name}" is forbidden: {message}' if name else f"{what} is forbidden: {message}"
    return ApiError(403, "Forbidden", text, details=details_of(group, resource, name))


def forbidden_path(message: str) -> ApiError:
    """A refusal of a request that is not about a resource: `forbidden: <message>`."""
    return ApiError(403, "Forbidden", f"forbidden: {message}", details={})


def not_found(group: str, resource: str, name: str) -> ApiError:
    return ApiError(
        404,
        "NotFound",
        f"{group_resource(group, resource)} {go_quoted(name)} not found",
        details=details_of(group, resource, name),
    )


def no_such_path() -> ApiError:
    """An address that serves nothing. kube-apiserver's own words, for a resource it has never heard of."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", details={})


def wrong_method() -> ApiError:
    """A method that an address does not know."""
    return ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", details={})


def method_not_allowed(group: str, resource: str, verb: str) -> ApiError:
    return ApiError(
        405,
        "MethodNotAllowed",
        f"{verb} is not supported on resources of kind {json_string(group_resource(group, resource))}",
        details=details_of(group, resource),
    )


def not_acceptable(accepted: Sequence[str]) -> ApiError:
    return ApiError(
        406,
        "NotAcceptable",
        f"only the following media types are accepted: {', '.join(accepted)}",
    )


def already_exists(group: str, resource: str, name: str) -> ApiError:
    return ApiError(
        409,
        "AlreadyExists",
        f'{group_resource(group, resource)} "{name}" already exists',
        details=details_of(group, resource, name),
    )


STALE = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(group: str, resource: str, name: str, message: str = STALE, causes: Sequence[Json] = ()) -> ApiError:
    return ApiError(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {group_resource(group, resource)} "{name}": {message}',
        details=details_of(group, resource, name, causes=list(causes)),
    )


def apply_conflict(message: str, causes: Sequence[Json]) -> ApiError:
    """A server-side apply that would take fields from others. Names no object: the message says all."""
    return ApiError(409, "Conflict", message, details={"causes": list(causes)})


def expired(message: str) -> ApiError:
    return ApiError(410, "Expired", message)


def too_large(message: str) -> ApiError:
    return ApiError(413, "RequestEntityTooLarge", message)


def unsupported_media_type(accepted: Sequence[str]) -> ApiError:
    return ApiError(
        415,
        "UnsupportedMediaType",
        f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}",
    )


def invalid(group: str, kind: str, name: str, errors: Sequence[FieldError]) -> ApiError:
    """422 with one cause for each fault. The text of several is bracketed, of one it is not."""
    told = _told(errors)
    texts = list(dict.fromkeys(str(error) for error in told))
    if len(told) < len(errors):
        texts.append("...")
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return ApiError(
        422,
        "Invalid",
        f"{group_resource(group, kind)} {json_string(name)} is invalid: {text}",
        details=details_of(group, kind, name, causes=[error.cause() for error in told]),
    )


def _told(errors: Sequence[FieldError]) -> Sequence[FieldError]:
    """The first of the faults: as many as one answer holds, and one at least."""
    size = 0
    for count, error in enumerate(errors):
        size += len(error.field) + len(error.body)
        if count and (size > MOST_MESSAGE or count == MOST_CAUSES):
            return errors[:count]
    return errors


def internal_error(message: str) -> ApiError:
    return ApiError(500, "InternalError", f"Internal error occurred: {message}", details={"causes": [{"message": message}]})


def unclassified(message: str) -> ApiError:
    """500 without a reason: what kube-apiserver answers where it has no word for the client's mistake."""
    return ApiError(500, "", message)


def rejected_patch() -> ApiError:
    """422 for a JSON patch that reads well and cannot be applied. Deliberately tells no more, as the server does."""
    return ApiError(422, "Invalid", "the server rejected our request due to an error in our request", details={})


def namespace_terminating(group: str, resource: str, name: str, *, namespace: str) -> ApiError:
    error = forbidden(
        group, resource, name, f"unable to create new content in namespace {namespace} because it is being terminated"
    )
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    error.details = {**(error.details or {}), "causes": [cause]}
    return error


def webhook_denied(hook: str, *, code: int, reason: str, message: str, details: Json | None) -> ApiError:
    """The refusal of an admission webhook: code, reason and details are the webhook's own."""
    explanation = message or reason
    denied = f"admission webhook {json_string(hook)} denied the request"
    text = f"{denied}: {explanation}" if explanation else f"{denied} without explanation"
    retry = (details or {}).get("retryAfterSeconds")
    return ApiError(code, reason, text, details=details, headers=[("retry-after", str(retry))] if retry else ())


def policy_denied(group: str, resource: str, name: str, *, reason: str, message: str) -> ApiError:
    """The refusal of an admission policy: it is called forbidden, whatever its reason and code."""
    code = {"Forbidden": 403, "RequestEntityTooLarge": 413}.get(reason, 422)
    text = f"{group_resource(group, resource)} {json_string(name)} is forbidden: {message}"
    return ApiError(code, reason, text, details=details_of(group, resource, name, causes=[{"message": message}]))


def wrong_shape(message: str) -> ApiError:
    """406 for a conversion that exists, but not of what was asked for: a list's metadata of one object."""
    return ApiError(406, "NotAcceptable", message)


def json_string(text: str) -> str:
    return msgspec.json.encode(text).decode()


def not_registered(kind: str, version: str) -> str:
    """What kube-apiserver says of a kind that it does not know: the place in its own code is part of the message."""
    registered = f"no kind {json_string(kind)} is registered for version {json_string(version)}"
    return f'{registered} in scheme "pkg/runtime/scheme.go:111"'


def go_quoted(text: str) -> str:
    """A name in quotes, as Go's %q writes it: control characters show as what they are."""
    if text.isprintable():
        return json_string(text)
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in f'"{text}"')


def summary(body: bytes) -> str:
    """A body in an error message: its beginning, or in hexadecimal where it does not look like JSON."""
    if not body:
        return "<empty>"
    text = body.decode("utf-8", "replace") if body[:1] == b"{" else body.hex()
    limit = 30 if body[:1] == b"{" else 60
    return text if len(text) <= limit else f"{text[:limit]} ..."
