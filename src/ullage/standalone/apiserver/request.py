"""One HTTP request, read as Kubernetes reads it: the path becomes verb, group, resource, namespace, name, subresource."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote

from ullage.standalone.apiserver import protobuf
from ullage.standalone.apiserver.bodies import BadBody, BadNumber, parse_json, parse_yaml
from ullage.standalone.apiserver.protobuf import Expected
from ullage.standalone.apiserver.status import ApiError, Json, bad_request, unrecognized, unsupported_media_type

MAX_BODY = 3 * 1024 * 1024
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "GET": "get", "HEAD": "get", "DELETE": "delete"}
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})


@dataclass(frozen=True, slots=True)
class Target:
    """What a path under `/api` or `/apis` points at. `resource` is empty for discovery paths."""

    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    name: str = ""
    subresource: str = ""
    legacy_watch: bool = False  # the old `/watch/` prefix


@dataclass(slots=True)
class Request:
    """A request on its way through the server. `headers` has lower-case names; repeated ones are in `header_list`."""

    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    header_list: list[tuple[str, str]]
    body: bytes
    target: Target
    verb: str
    warnings: list[str] = field(default_factory=list)

    def param(self, name: str, default: str = "") -> str:
        """The first value of a query parameter."""
        values = self.query.get(name)
        return values[0] if values else default

    def flag(self, name: str) -> bool:
        """A boolean parameter, read as Go reads one from a query: `0` and `false` are false, anything else is true."""
        values = self.query.get(name) or ["false"]
        return values[0].lower() not in {"0", "false"}

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


def parse_target(path: str) -> Target | None:
    """The target of a resource path; None for paths that are not of the API (`/healthz`, `/openapi`)."""
    # Decoded as a whole, as Go does: an escaped slash is a slash, and no name can climb out of its place.
    parts = unquote(path).strip("/").split("/")
    if parts[0] == "api" and len(parts) >= 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    legacy_watch = bool(rest) and rest[0] == "watch"
    if legacy_watch:
        rest = rest[1:]
    namespace = ""
    if rest and rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
        namespace, rest = rest[1], rest[2:]
    elif rest and rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]  # a request on a namespace itself is authorized within it
    padded = [*rest, "", "", ""]
    return Target(group, version, namespace, padded[0], padded[1], "/".join(rest[2:]), legacy_watch)


def verb_of(method: str, target: Target, query: Mapping[str, list[str]]) -> str:
    """The Kubernetes verb: GET may be get, list or watch, DELETE may be delete or deletecollection."""
    verb = _VERBS.get(method, method.lower())
    if not target.resource:
        return verb
    if verb == "get":
        watch = query.get("watch")
        if target.legacy_watch or (watch and watch[0].lower() not in {"0", "false"}):
            return "watch"
        return "get" if target.name else "list"
    if verb == "delete" and not target.name:
        return "deletecollection"
    return verb


def parse_query(raw: bytes) -> dict[str, list[str]]:
    if not raw:
        return {}
    try:
        return parse_qs(raw.decode("ascii"), keep_blank_values=True, errors="strict")
    except ValueError:  # not ASCII, or an escape that is not UTF-8
        raise bad_request("invalid query string: not UTF-8") from None


_JSON_TYPES = frozenset({"", "application/json", "text/json", "*/*"})
_YAML_TYPES = frozenset({"application/yaml", "text/yaml"})
ACCEPTED = ("application/json", "application/yaml", protobuf.MEDIA_TYPE)


def decode_body(request: Request, expected: Expected | None = None) -> Json:
    """The object in a body, by content type: JSON, YAML or protobuf. Anything else than an object is a 400.

    `expected` is what the URL says the body is. Options, whose faults are worded differently, go without.
    """
    media = request.media_type
    if media == protobuf.MEDIA_TYPE:
        return protobuf.decode(request.body, expected)
    unreadable = not media and request.headers.get("content-type")
    if unreadable or (media not in _JSON_TYPES and media not in _YAML_TYPES):
        raise unsupported_media_type(ACCEPTED)
    try:
        return as_object(decode_json(request.body) if media in _JSON_TYPES else decode_yaml(request.body))
    except ApiError as error:
        raise (unrecognized(expected.kind, error.message, request.body) if expected else error) from None


def as_object(found: object) -> Json:
    if found is None:  # `null` is an object with nothing in it
        return {}
    if not isinstance(found, dict):
        raise bad_request(
            "couldn't get version/kind; json parse error: json: cannot unmarshal "
            f'{_go_type(found)} into Go value of type struct {{ APIVersion string "json:\\"apiVersion,omitempty\\""; '
            'Kind string "json:\\"kind,omitempty\\"" }'
        )
    return found


def decode_json(body: bytes) -> object:
    try:
        found: object = parse_json(body)
    except BadNumber:
        raise
    except BadBody as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from None
    return found


def decode_yaml(body: bytes) -> object:
    try:
        found: object = parse_yaml(body)
    except BadBody as error:
        raise bad_request(f"yaml: {error}") from None
    return found


def _go_type(value: object) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, list):
        return "array"
    return "string" if isinstance(value, str) else "null"
