"""What a handler hands back to the HTTP edge: a whole answer, or a stream of chunks."""

from __future__ import annotations

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


def json_answer(body: Json, code: int = 200) -> Answer:
    return Answer(code, msgspec.json.encode(body))


def error_answer(error: ApiError) -> Answer:
    return Answer(error.code, msgspec.json.encode(error.status()), JSON_TYPE, error.headers)
