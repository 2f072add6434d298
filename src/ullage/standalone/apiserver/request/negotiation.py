"""What the client wants to read: plain objects, a Table or metadata only; as JSON or as YAML.

kubectl sends a list of wishes in `Accept`, best first. The first that can be served wins; none is a 406.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import msgspec

from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import bad_request, json_string, not_acceptable, wrong_shape

JSON = "application/json"
YAML = "application/yaml"
Include = Literal["None", "Metadata", "Object"]
Conversion = tuple[str, str, str]  # kind, group, version

CONVERSIONS: frozenset[Conversion] = frozenset(
    (kind, "meta.k8s.io", version)
    for kind in ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
    for version in ("v1", "v1beta1")
)

# What is answered and not stored (reviews, tokens, evictions) has no columns.
NO_TABLE = frozenset(conversion for conversion in CONVERSIONS if conversion[0] != "Table")


@dataclass(frozen=True, slots=True)
class Want:
    """The shape of the answer. `kind` is empty where objects go out as they are."""

    media: str = JSON
    kind: str = ""
    group: str = ""
    version: str = ""
    pretty: bool = False

    @property
    def table(self) -> bool:
        return self.kind == "Table"

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}"

    def check(self, go_type: str, *, is_list: bool) -> None:
        """Metadata of one object is not metadata of a list: asking for the wrong one is a 406."""
        if self.kind == "PartialObjectMetadata" and is_list:
            raise wrong_shape(f"you requested PartialObjectMetadata, but the requested object is a list ({go_type})")
        if self.kind == "PartialObjectMetadataList" and not is_list:
            raise wrong_shape(f"you requested PartialObjectMetadataList, but the requested object is not a list ({go_type})")


@lru_cache(maxsize=256)
def negotiate(accept: str, *, watch: bool = False, conversions: frozenset[Conversion] = CONVERSIONS) -> Want:
    """The best of the client's wishes that we can serve. Streams are JSON only. Raises 406."""
    medias = (JSON,) if watch else (JSON, YAML)
    if not accept.strip():
        return Want()
    for media, parameters in _clauses(accept):
        chosen = JSON if media == "*/*" else media
        if chosen not in medias:
            continue
        pretty = parameters.get("pretty", "0") in ("1", "true")
        if "as" not in parameters:
            return Want(chosen, pretty=pretty)
        conversion = (parameters["as"], parameters.get("g", ""), parameters.get("v", ""))
        if conversion in conversions:
            return Want(chosen, *conversion, pretty=pretty)
    raise not_acceptable([f"{media};stream=watch" if watch else media for media in medias])


def parse_include(value: str) -> Include:
    """The `includeObject` parameter of a request for a Table."""
    match value:
        case "":
            return "Metadata"
        case "None" | "Metadata" | "Object":
            return value
    raise bad_request(
        f"Unable to convert to Table as requested: includeObject: Invalid value: {json_string(value)}: "
        "must be 'Metadata', 'Object', 'None', or empty"
    )


def _clauses(accept: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Media types with their parameters, the most wanted first; the header's order decides between equals."""
    found: list[tuple[float, str, dict[str, str]]] = []
    for clause in accept.split(","):
        media, *rest = (part.strip() for part in clause.split(";"))
        parameters = {key.strip(): value.strip().strip('"') for key, _, value in (part.partition("=") for part in rest)}
        found.append((_quality(parameters.pop("q", "1")), media, parameters))
    for _, media, parameters in sorted(found, key=lambda item: -item[0]):
        yield media, parameters


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 1.0


LONG_YAML = 256 * 1024  # bytes


def dump(body: Json | bytes, want: Want) -> bytes:
    """The answer's bytes: JSON, or YAML where the client prefers it."""
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
    if want.media == YAML:
        # JSON is YAML; to write a long text in YAML's own form takes seconds.
        return raw if len(raw) > LONG_YAML else msgspec.yaml.encode(msgspec.json.decode(raw))
    return msgspec.json.format(raw, indent=2) + b"\n" if want.pretty else raw
