"""What a handler hands back to the HTTP edge: a whole answer, a stream of chunks, or the way to another server."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

import msgspec

from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import ApiError

JSON_TYPE = "application/json"


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    body: bytes
    content_type: str = JSON_TYPE
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Stream:
    """A watch, or a long answer. Whoever reads `chunks` waits for the client: a slow one holds back nobody but itself."""

    chunks: AsyncGenerator[bytes, None]
    content_type: str = JSON_TYPE
    headers: tuple[tuple[str, str], ...] = field(default=())
    code: int = 200


@dataclass(frozen=True, slots=True)
class Tunnel:
    """The connection itself is handed through to another server, if that one agrees to the upgrade."""

    host: str
    port: int
    target: str  # path and query there
    headers: tuple[tuple[str, str], ...]
    context: ssl.SSLContext
    fingerprint: str  # SHA-256 of its certificate, in hex
    user: str  # on whose behalf


def json_answer(body: Json, code: int = 200) -> Answer:
    return Answer(code, msgspec.json.encode(body))


def error_answer(error: ApiError) -> Answer:
    return Answer(error.code, msgspec.json.encode(error.status()), JSON_TYPE, error.headers)
