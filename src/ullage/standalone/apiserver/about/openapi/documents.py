"""Which OpenAPI document answers which path.

Documents are kept as bytes, and built again only where a resource in them has changed. The index names every v3 document by its
hash, so the first reader of the index pays for all of them: less than a tenth of a second, and three megabytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from ullage.standalone.apiserver.about.openapi import proto, v2, v3
from ullage.standalone.apiserver.kinds.resources import Registry, Resource
from ullage.standalone.apiserver.request.document import Document, etag_of
from ullage.standalone.apiserver.schema.definitions import Definitions

INDEX = "/openapi/v3"
V2 = "/openapi/v2"
_JSON = ("application/json", "application/*", "*/*", "")
_PROTO = (proto.MEDIA_TYPE, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
_NOT_ACCEPTABLE = Document(b"", "", vary="Accept", status=406)


@dataclass(frozen=True, slots=True)
class _Version:
    """One version of one group: what its document was built from, and the document."""

    resources: list[Resource]
    body: bytes
    etag: str

    def still_holds(self, resources: list[Resource]) -> bool:
        """Resources are never changed, only replaced."""
        return len(resources) == len(self.resources) and all(a is b for a, b in zip(resources, self.resources, strict=True))


class OpenApi:
    """The documents of a registry."""

    def __init__(self, registry: Registry, definitions: Definitions) -> None:
        self._registry = registry
        self._definitions = definitions
        self._generation = -1
        self._index = b""
        self._versions: dict[str, _Version] = {}
        self._v2: dict[bool, Document] = {}  # by whether it is protobuf
        self._builtin: tuple[bytes, frozenset[str]] | None = None

    def answer(self, path: str, *, accept: str = "", if_none_match: str = "", wanted: str = "") -> Document | None:
        """The document at `/openapi/v2`, `/openapi/v3` or below, or None. `wanted` is the query parameter `hash`."""
        path = path.rstrip("/")
        if path == V2:
            return self._second(accept).answer_to(if_none_match)
        self._refresh()
        if path == INDEX:
            return Document(self._index)
        found = self._third(path.removeprefix(f"{INDEX}/"), accept, wanted)
        return found and found.answer_to(if_none_match)

    def _third(self, place: str, accept: str, wanted: str) -> Document | None:
        version = self._versions.get(place)
        if version is None:
            return None
        if _choose(accept, _JSON) is None:
            return _NOT_ACCEPTABLE
        if wanted and wanted != version.etag:
            return Document(b"", etag=version.etag, vary="Accept", status=301, location=_address(place, version.etag))
        cache = "public, immutable" if wanted else "no-cache, private"
        return Document(version.body, etag=version.etag, cache_control=cache, vary="Accept")

    def _second(self, accept: str) -> Document:
        media = _choose(accept, (*_PROTO, *_JSON))
        if media is None:
            return _NOT_ACCEPTABLE
        self._refresh()
        binary = media in _PROTO
        if binary not in self._v2:
            body = self._second_binary() if binary else self._second_json()
            content_type = proto.MEDIA_TYPE if binary else "application/json"
            self._v2[binary] = Document(body, content_type, etag_of(body), vary="Accept")
        return self._v2[binary]

    def _second_json(self) -> bytes:
        return msgspec.json.encode({**v2.HEAD, **v2.content(self._registry, self._definitions)})

    def _second_binary(self) -> bytes:
        """The built-in kinds never change, and take a tenth of a second to encode: custom ones are put behind them."""
        if self._builtin is None:
            content = v2.content([r for r in self._registry if r.custom is None], self._definitions)
            self._builtin = proto.document(v2.HEAD, content), frozenset(content["definitions"])
        head, known = self._builtin
        custom = [resource for resource in self._registry if resource.custom is not None]
        return head + proto.fragment(v2.content(custom, self._definitions, known=known)) if custom else head

    def _refresh(self) -> None:
        if self._generation == self._registry.generation:
            return
        served: dict[str, list[Resource]] = {}
        for resource in self._registry:
            place = f"apis/{resource.api_version}" if resource.group else f"api/{resource.version}"
            served.setdefault(place, []).append(resource)
        self._versions = {place: self._version(place, resources) for place, resources in sorted(served.items())}
        paths = {place: {"serverRelativeURL": _address(place, one.etag)} for place, one in self._versions.items()}
        self._index = msgspec.json.encode({"paths": paths})
        self._v2 = {}
        self._generation = self._registry.generation

    def _version(self, place: str, resources: list[Resource]) -> _Version:
        known = self._versions.get(place)
        if known is not None and known.still_holds(resources):
            return known
        body = v3.document(resources, self._definitions)
        return _Version(resources, body, etag_of(body))


def _address(place: str, etag: str) -> str:
    return f"{INDEX}/{place}?hash={etag}"


def _choose(accept: str, offered: Iterable[str]) -> str | None:
    """The first acceptable media type that is offered. No wish at all is the empty one, which is offered too."""
    wishes = (clause.split(";")[0].strip() for clause in accept.split(","))
    return next((wish for wish in wishes if wish in offered), None)
