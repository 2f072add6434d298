"""How long requests are given, and what they are told when it is over.

Texts, codes and bounds are those that kube-apiserver 1.36 gave.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import MutableMapping
from typing import Any

import msgspec
import pytest

from ullage.standalone.apiserver.http.app import App
from ullage.standalone.apiserver.request import deadlines
from ullage.standalone.apiserver.request.answers import Answer, Stream
from ullage.standalone.apiserver.request.deadlines import Allowance, allowance, parse_duration, remaining
from ullage.standalone.apiserver.request.request import Request, parse_query, parse_target, verb_of
from ullage.standalone.apiserver.status import ApiError

MAPS = "/api/v1/namespaces/n/configmaps"
SECOND = 10**9


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        pytest.param("0", 0, id="nothing needs no unit"),
        pytest.param("-0", 0, id="nor does it with a sign"),
        pytest.param("5s", 5 * SECOND, id="seconds"),
        pytest.param("1h2m3s4ms5us6ns", 3723 * SECOND + 4_005_006, id="every unit"),
        pytest.param("1µs1μs", 2000, id="both letters that look like a mu"),
        pytest.param("1.5h", 5400 * SECOND, id="a fraction"),
        pytest.param(".5s", SECOND // 2, id="nothing before the point"),
        pytest.param("5.s", 5 * SECOND, id="nothing behind it"),
        pytest.param("0.3333333333333333333333h", 1_199_999_999_999, id="more digits than count"),
        pytest.param("-1.5s", -SECOND * 3 // 2, id="less than nothing"),
        pytest.param("+5s", 5 * SECOND, id="a plus"),
        pytest.param("9223372036854775807ns", 2**63 - 1, id="the longest"),
        pytest.param("0000000000000000000000001s", SECOND, id="zeros before"),
    ],
)
def test_durations_are_read_as_go_reads_them(text: str, nanoseconds: int) -> None:
    assert parse_duration(text) == nanoseconds


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("", 'invalid duration ""', id="nothing"),
        pytest.param("+", 'invalid duration "+"', id="a sign alone"),
        pytest.param("soon", 'invalid duration "soon"', id="a word"),
        pytest.param(".", 'invalid duration "."', id="a point alone"),
        pytest.param(".s", 'invalid duration ".s"', id="a point and a unit"),
        pytest.param("--1s", 'invalid duration "--1s"', id="two signs"),
        pytest.param("1s 2s", 'unknown unit "s " in duration "1s 2s"', id="a blank"),
        pytest.param("1.2.3s", 'missing unit in duration "1.2.3s"', id="two points"),
        pytest.param("3", 'missing unit in duration "3"', id="no unit"),
        pytest.param("1s5", 'missing unit in duration "1s5"', id="no unit at the end"),
        pytest.param("1S", 'unknown unit "S" in duration "1S"', id="a unit in capitals"),
        pytest.param("1é", 'unknown unit "\\xc3\\xa9" in duration "1\\xc3\\xa9"', id="a unit beyond ASCII"),
        pytest.param("9223372036854775808ns", 'invalid duration "9223372036854775808ns"', id="one nanosecond too long"),
        pytest.param("9" * 5000 + "s", 'invalid duration "' + "9" * 5000 + 's"', id="a number without end"),
    ],
)
def test_what_is_no_duration_is_refused_in_the_words_of_go(text: str, problem: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_duration(text)
    assert str(caught.value) == f"time: {problem}"


def asked(method: str, path: str) -> Request:
    place, _, query = path.partition("?")
    target = parse_target(place)
    found = parse_query(query.encode())
    return Request(method, place, found, {}, [], b"", target, verb_of(method, target, found))


@pytest.mark.parametrize(
    ("method", "path", "given"),
    [
        pytest.param("GET", MAPS, Allowance(60), id="as long as the server allows"),
        pytest.param("GET", f"{MAPS}?timeout=5s", Allowance(5), id="less, if the client wants no more"),
        pytest.param("GET", f"{MAPS}?timeout=90s", Allowance(60), id="no more than the server allows"),
        pytest.param("GET", f"{MAPS}?timeout=-5s", Allowance(60), id="less than nothing is no wish"),
        pytest.param("GET", f"{MAPS}?watch=1&timeout=5s", Allowance(math.inf), id="a watch has no end"),
        pytest.param("GET", "/api/v1/namespaces/n/pods/p/log?timeout=x", Allowance(math.inf), id="a log has none"),
        pytest.param("POST", MAPS, Allowance(34, as_write=True), id="a write has less"),
        pytest.param("PATCH", f"{MAPS}/a?timeout=50s", Allowance(34, as_write=True), id="whatever its client wants"),
        pytest.param("DELETE", f"{MAPS}?timeout=20s", Allowance(20), id="unless that is less still"),
    ],
)
def test_what_a_request_is_given(method: str, path: str, given: Allowance) -> None:
    assert allowance(asked(method, path), 60) == given


def test_a_timeout_that_cannot_be_read_is_a_bad_request() -> None:
    with pytest.raises(ApiError, match='invalid timeout specified in the request URL - time: invalid duration "x"') as caught:
        allowance(asked("GET", f"{MAPS}?timeout=x"), 60)
    assert caught.value.code == 400


# --- the application -------------------------------------------------------------------------------------------------


async def answered(app: App, method: str, path: str) -> tuple[int, str, Any]:
    """Code, content type and body, as they leave the application."""
    place, _, query = path.partition("?")
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": method, "path": place, "query_string": query.encode(), "headers": []}
    await asyncio.wait_for(app(scope, receive, send), 10)
    headers = dict(sent[0]["headers"])
    return sent[0]["status"], headers[b"content-type"].decode(), msgspec.json.decode(sent[1]["body"])


async def hang(request: Request, peer: bytes | None) -> Answer | Stream:
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


async def test_a_request_that_takes_too_long_ends_with_504() -> None:
    code, kind, body = await answered(App(hang, request_timeout=60), "GET", f"{MAPS}?timeout=20ms")
    assert (code, kind) == (504, "text/plain; charset=utf-8")
    assert "kind" not in body
    assert body["message"] == "Timeout: request did not complete within the allotted timeout"


async def test_a_write_that_takes_too_long_is_told_in_other_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines, "WRITE_SECONDS", 0.02)
    code, kind, body = await answered(App(hang, request_timeout=60), "POST", MAPS)
    assert (code, kind, body["kind"]) == (504, "application/json", "Status")
    assert body["message"] == "Timeout: request did not complete within requested timeout - context deadline exceeded"


async def test_a_request_without_any_time_is_not_begun() -> None:
    async def quick(request: Request, peer: bytes | None) -> Answer | Stream:
        raise AssertionError("begun")

    code, _, _ = await answered(App(quick, request_timeout=60), "GET", f"{MAPS}?timeout=1ns")
    assert code == 504


@pytest.mark.parametrize(
    ("query", "least", "most"),
    [
        pytest.param("?timeout=20s", 10, 20, id="what is left of its time"),
        pytest.param("?watch=1&timeout=20s", math.inf, math.inf, id="a watch has no end"),
    ],
)
async def test_a_request_knows_what_it_has_left(query: str, least: float, most: float) -> None:
    left: list[float] = []

    async def look(request: Request, peer: bytes | None) -> Answer | Stream:
        left.extend(await asyncio.gather(asyncio.sleep(0, remaining()), _of_a_task()))
        return Answer(200, b"{}")

    await answered(App(look, request_timeout=60), "GET", MAPS + query)
    assert all(least <= one <= most for one in left)
    assert remaining() == math.inf, "and nothing outside of it does"


async def _of_a_task() -> float:
    return remaining()
