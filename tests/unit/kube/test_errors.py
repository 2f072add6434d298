"""Answers become errors whose class says what to do, in the server's own words."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from ullage.errors import Retryable, Terminal
from ullage.kube import errors
from ullage.kube.errors import ApiError, Cause, from_answer


def body(code: int, reason: str, **more: Any) -> bytes:
    return json.dumps({"kind": "Status", "code": code, "reason": reason, "message": "the words", **more}).encode()


@pytest.mark.parametrize(
    ("code", "reason", "wanted", "family"),
    [
        pytest.param(409, "Conflict", errors.Conflict, Retryable, id="a conflict is decided again"),
        pytest.param(409, "AlreadyExists", errors.AlreadyExists, Terminal, id="a name that is taken stays taken"),
        pytest.param(404, "NotFound", errors.NotFound, Terminal, id="what is not found is not there"),
        pytest.param(410, "Expired", errors.Gone, Retryable, id="a forgotten version is listed again"),
        pytest.param(410, "Gone", errors.Gone, Retryable, id="a forgotten version of an old server too"),
        pytest.param(422, "Invalid", errors.Invalid, Terminal, id="an invalid object needs an edit"),
        pytest.param(400, "BadRequest", errors.BadRequest, Terminal, id="a bad request needs an edit"),
        pytest.param(401, "Unauthorized", errors.Unauthorized, Retryable, id="credentials may be renewed"),
        pytest.param(403, "Forbidden", errors.Forbidden, Terminal, id="what is forbidden stays forbidden"),
        pytest.param(403, "SnapshotSpaceExceeded", errors.Forbidden, Terminal, id="a webhook's own reason is still a refusal"),
        pytest.param(405, "MethodNotAllowed", errors.MethodNotAllowed, Terminal, id="an unknown verb stays unknown"),
        pytest.param(415, "UnsupportedMediaType", errors.Refused, Terminal, id="other blame for the request is final"),
        pytest.param(413, "RequestEntityTooLarge", errors.Refused, Terminal, id="what is too large stays too large"),
        pytest.param(302, "", errors.Refused, Terminal, id="a redirect is a refusal"),
        pytest.param(429, "TooManyRequests", errors.TooManyRequests, Retryable, id="too many requests are sent later"),
        pytest.param(500, "InternalError", errors.Unavailable, Retryable, id="an internal error may pass"),
        pytest.param(503, "ServiceUnavailable", errors.Unavailable, Retryable, id="a server that starts will have started"),
        pytest.param(504, "Timeout", errors.Unavailable, Retryable, id="a timeout may pass"),
    ],
)
def test_the_class_says_what_to_do(code: int, reason: str, wanted: type[ApiError], family: type[Exception]) -> None:
    error = from_answer(code, body(code, reason), what="GET /x")
    assert type(error) is wanted
    assert isinstance(error, family)
    assert (error.code, error.reason, error.message, str(error)) == (code, reason, "the words", "the words")


def test_invalid_names_the_fields() -> None:
    causes = [{"field": "spec.size", "reason": "FieldValueInvalid", "message": "too small"}, {"field": "spec.name"}]
    error = from_answer(422, body(422, "Invalid", details={"causes": causes}), what="POST /x")
    assert error.causes == (Cause("spec.size", "FieldValueInvalid", "too small"), Cause("spec.name"))


@pytest.mark.parametrize(
    ("details", "header", "seconds"),
    [
        pytest.param({}, "3", 3.0, id="the header is obeyed"),
        pytest.param({"retryAfterSeconds": 5}, None, 5.0, id="without a header, the details are"),
        pytest.param({"retryAfterSeconds": 5}, "2", 2.0, id="the header comes first"),
        pytest.param({}, "0", 0.0, id="zero is at once"),
        pytest.param({}, None, None, id="nothing is said"),
        pytest.param({}, "Wed, 21 Oct 2026 07:28:00 GMT", None, id="a date counts as nothing"),
        pytest.param({"retryAfterSeconds": "soon"}, "-1", None, id="nonsense counts as nothing"),
    ],
)
def test_how_long_to_wait(details: dict[str, Any], header: str | None, seconds: float | None) -> None:
    error = from_answer(429, body(429, "TooManyRequests", details=details), what="GET /x", retry_after=header)
    assert error.retry_after == seconds


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param(b"", "GET /x: the server answered 502 Bad Gateway", id="an empty answer"),
        pytest.param(
            b"no healthy\nupstream", "GET /x: the server answered 502 Bad Gateway: no healthy upstream", id="plain text"
        ),
        pytest.param(b"<html>...</html>", "GET /x: the server answered 502 Bad Gateway", id="a page"),
        pytest.param(b"\xff\x00\x01", "GET /x: the server answered 502 Bad Gateway", id="bytes"),
        pytest.param(b'{"kind":"Pod"}', "GET /x: the server answered 502 Bad Gateway", id="JSON that is no Status"),
        pytest.param(b'{"kind":"Status"}', "GET /x: the server answered 502 Bad Gateway", id="a Status that says nothing"),
        pytest.param(
            b'{"kind":"Status","message":null,"details":null,"code":null,"reason":null}',
            "GET /x: the server answered 502 Bad Gateway",
            id="a Status full of nulls",
        ),
        pytest.param(b'{"kind":"Status","code":"x"}', "GET /x: the server answered 502 Bad Gateway", id="a Status gone wrong"),
    ],
)
def test_an_answer_without_words_is_told_in_ours(answer: bytes, text: str) -> None:
    error = from_answer(502, answer, what="GET /x")
    assert type(error) is errors.Unavailable
    assert str(error) == text


def test_causes_that_cannot_be_read_are_left_out() -> None:
    assert from_answer(422, body(422, "Invalid", details={"causes": "x"}), what="GET /x").causes == ()


def test_an_unknown_code_is_told_by_its_number() -> None:
    assert str(from_answer(599, b"", what="GET /x")) == "GET /x: the server answered 599"


@pytest.mark.parametrize(
    ("message", "lacks"),
    [
        pytest.param(
            'pods is forbidden: User "jane" cannot list resource "pods" in API group ""', True, id="a role lacks a rule"
        ),
        pytest.param(r'pods is forbidden: User "a\"b" cannot list resource "pods"', True, id="of one whose name has quotes"),
        pytest.param('admission webhook "a" denied the request: no', False, id="a webhook refused"),
        pytest.param('pods "p" is forbidden: exceeded quota: q', False, id="a quota refused"),
    ],
)
def test_that_we_may_not_is_told_from_that_somebody_refused(message: str, lacks: bool) -> None:
    assert errors.Forbidden(message, code=403).lacks_right is lacks


@pytest.mark.parametrize(
    "path", ["/hooks/guard/", "/hooks/guard/clusters/far/"], ids=["of our own cluster", "of another cluster"]
)
def test_the_secret_end_of_a_hooks_path_is_not_passed_on(path: str) -> None:
    url, wanted = f"https://h:9443{path}{'0a' * 32}?timeout=10s", f"https://h:9443{path}…?timeout=10s"
    text = 'Internal error occurred: failed calling webhook "guard": Post "{}": dial tcp: connection refused'
    details = {"causes": [{"message": text.format(url), "field": "webhooks[0].clientConfig.url"}]}
    body = msgspec.json.encode({"kind": "Status", "message": text.format(url), "code": 500, "details": details})
    error = from_answer(500, body, what="POST /x")
    assert str(error) == error.message == text.format(wanted)
    assert [cause.message for cause in error.causes] == [text.format(wanted)]
    plain = from_answer(502, f"no route to {url}".encode(), what="POST /x")
    assert "0a0a" not in str(plain)
