"""One HTTP request, read as Kubernetes reads it: the path becomes verb, group, resource, namespace, name, subresource."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import NoneType
from urllib.parse import parse_qs, unquote_to_bytes

from ullage.standalone.apiserver.codec import protobuf
from ullage.standalone.apiserver.codec.json import BadBody, BadNumber, parse_json
from ullage.standalone.apiserver.codec.protobuf import Expected
from ullage.standalone.apiserver.codec.yaml import parse_yaml
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import ApiError, bad_request, unrecognized, unsupported_media_type

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "GET": "get", "HEAD": "get", "DELETE": "delete"}
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
_HALF_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_PREFIXES = frozenset({"watch", "proxy"})


@dataclass(frozen=True, slots=True)
class Target:
    """What a path points at. It is all that authorization and handlers know of the path, so that they cannot differ.

    A path to a namespace itself has it as `namespace` too: that is where the right to it is asked for.
    """

    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    name: str = ""
    subresource: str = ""
    rest: str = ""  # what stands behind the subresource: the path of a proxy
    prefix: str = ""  # `watch` or `proxy` before the resource: the old way to say what is wanted
    within: bool = False  # `namespaces/<namespace>/` stands before the resource
    served: bool = True  # False for a path that is not of a resource: `/healthz`, `/apis/apps/v1`


NOWHERE = Target(served=False)


def _nothing() -> None:
    pass


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
    receive: Callable[[str], Awaitable[bytes]] | None = None  # the body, on behalf of the user of that name
    known: Callable[[], None] = _nothing  # called when somebody has shown a credential

    async def read(self, owner: str) -> None:
        """Takes the body from the connection: not before it is known that the sender may do what they ask for."""
        if self.receive is not None and self.method not in ("GET", "HEAD"):
            self.body = await self.receive(owner)

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


def decoded_path(raw: bytes) -> str:
    """A path as everything behind reads it: decoded once, and as a whole. Raises a 400 for half an escape."""
    if _HALF_ESCAPE.search(raw):
        raise bad_request("400 Bad Request")
    return unquote_to_bytes(raw).decode(errors="replace")


def parse_target(path: str) -> Target:
    """The target of a path whose escapes are decoded: an escaped slash is a slash, and no name can climb out of its place."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return NOWHERE
    prefix = rest[0] if rest[0] in _PREFIXES else ""
    if prefix:
        rest = rest[1:]
    namespace, within = "", False
    if rest[:1] == ["namespaces"] and len(rest) > 1:
        namespace = rest[1]
        within = len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES
        rest = rest[2:] if within else rest
    resource, name, subresource, *more = [*rest, "", "", ""]
    return Target(group, version, namespace, resource, name, subresource, "/".join(more[:-3]), prefix, within)


def verb_of(method: str, target: Target, query: Mapping[str, list[str]]) -> str:
    """The Kubernetes verb: GET may be get, list or watch, DELETE may be delete or deletecollection."""
    if not target.served:
        return method.lower()
    if target.prefix:
        return target.prefix
    verb = _VERBS.get(method, "")
    if target.name:
        return verb
    if verb == "get":
        watch = query.get("watch")
        return "watch" if watch and watch[0].lower() not in {"0", "false"} else "list"
    return "deletecollection" if verb == "delete" else verb


def parse_query(raw: bytes) -> dict[str, list[str]]:
    if not raw:
        return {}
    try:
        return parse_qs(raw.decode("ascii"), keep_blank_values=True, errors="strict")
    except ValueError:  # not ASCII, or an escape that is not UTF-8
        raise bad_request("invalid query string: not UTF-8") from None


_JSON_TYPES = frozenset({"", "application/json", "text/json", "*/*"})
YAML_TYPES = frozenset({"application/yaml", "text/yaml"})
ACCEPTED = ("application/json", "application/yaml", protobuf.MEDIA_TYPE)


def decode_body(request: Request, expected: Expected | None = None) -> Json:
    """The object in a body, by content type: JSON, YAML or protobuf. Anything else than an object is a 400.

    `expected` is what the URL says the body is. Options, whose faults are worded differently, go without.
    """
    media = request.media_type
    if media == protobuf.MEDIA_TYPE:
        return protobuf.decode(request.body, expected)
    unreadable = not media and request.headers.get("content-type")
    if unreadable or (media not in _JSON_TYPES and media not in YAML_TYPES):
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
    for key in ("apiVersion", "kind"):
        if not isinstance(found.get(key), (str, NoneType)):
            fault = f"cannot unmarshal {_go_type(found[key])} into Go struct field .{key} of type string"
            raise bad_request(f"couldn't get version/kind; json parse error: json: {fault}")
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
        raise bad_request(str(error)) from None
    return found


def _go_type(value: object) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, list):
        return "array"
    if isinstance(value, dict):
        return "object"
    return "string" if isinstance(value, str) else "null"
