"""A document that the server derives from what it serves, encoded once and sent many times: discovery and OpenAPI."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import msgspec

from ullage.standalone.apiserver.objects import Json


@dataclass(frozen=True, slots=True)
class Document:
    """Body and headers of an answer. The ETag is a hash of what is said, so that a restart does not spoil a client's cache."""

    body: bytes
    content_type: str = "application/json"
    etag: str = ""  # without its quotes
    cache_control: str = "no-cache, private"
    vary: str = ""
    status: int = 200
    location: str = ""

    def headers(self) -> list[tuple[str, str]]:
        named = (
            ("cache-control", self.cache_control),
            ("content-type", self.content_type),
            ("etag", f'"{self.etag}"' if self.etag else ""),
            ("location", self.location),
            ("vary", self.vary),
        )
        return [(name, value) for name, value in named if value]

    def answer_to(self, if_none_match: str) -> Document:
        """Itself, or the empty 304 where the client already has it."""
        if not self.etag or self.etag not in _tags(if_none_match):
            return self
        return Document(b"", "", self.etag, self.cache_control, self.vary, 304)


def _tags(header: str) -> list[str]:
    return [tag.strip().removeprefix("W/").strip('"') for tag in header.split(",")]


def plain(content: Json) -> Document:
    """A JSON document that clients do not cache."""
    return Document(msgspec.json.encode(content))


def etag_of(body: bytes) -> str:
    return hashlib.sha512(body).hexdigest().upper()
