"""Bodies: what is read, and how what cannot be read is told."""

from __future__ import annotations

from typing import Any

import pytest

from ullage.standalone.apiserver.bodies import BadBody, BadNumber, duplicate_fields, parse_json, parse_yaml, summary


@pytest.mark.parametrize(
    ("body", "value"),
    [
        pytest.param(b'{"a":1}', {"a": 1}, id="an object"),
        pytest.param(b" null ", None, id="null"),
        pytest.param(b'{"a":"\xff"}', {"a": "�"}, id="bytes that are not UTF-8"),
        pytest.param(b'{"a":1,"a":2}', {"a": 2}, id="a key twice: the last one counts"),
    ],
)
def test_json(body: bytes, value: Any) -> None:
    assert parse_json(body) == value


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"", "unexpected end of JSON input"),
        (b'{"a":', "unexpected end of JSON input"),
        (b"nul", "unexpected end of JSON input"),
        (b"nope", "invalid character 'o' in literal null (expecting 'u')"),
        (b"x", "invalid character 'x' looking for beginning of value"),
        (b"{'a'}", "invalid character '\\'' looking for beginning of value"),
        (b"[" * 200_000, "exceeded max depth"),
    ],
)
def test_bad_json(body: bytes, complaint: str) -> None:
    with pytest.raises(BadBody) as caught:
        parse_json(body)
    assert str(caught.value) == complaint


def test_a_number_that_nothing_can_hold() -> None:
    with pytest.raises(BadNumber, match="cannot unmarshal number 1e999 into Go value of type float64"):
        parse_json(b'{"a":1e999}')


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b"a: 1\nb: [x]\n", {"a": 1, "b": ["x"]}),
        (b'{"a": 1}', {"a": 1}),
        (b"{a: 1}", {"a": 1}),
        (b"a: &x {b: 1}\nc: *x\n", {"a": {"b": 1}, "c": {"b": 1}}),
    ],
)
def test_yaml(body: bytes, value: Any) -> None:
    assert parse_yaml(body) == value


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"a: &x [*x]\n", "anchor 'x' value contains itself"),
        (b"[" * 5000 + b"]" * 5000, "exceeded max depth"),
        (b"a: [", "did not find expected"),
        (b"a: b: c", "mapping values are not allowed"),
    ],
)
def test_bad_yaml(body: bytes, complaint: str) -> None:
    with pytest.raises(BadBody, match=complaint):
        parse_yaml(body)


@pytest.mark.parametrize(
    ("body", "in_yaml", "paths"),
    [
        (b'{"a":1}', False, []),
        (b'{"a":1,"a":2}', False, ["a"]),
        (b'{"s":{"x":[{"k":1,"k":2}]},"s2":{"k":1}}', False, ["s.x[0].k"]),
        (b"a: 1\na: 2\n", True, ["a"]),
        (b"s:\n  k: 1\n  k: 2\nt: {k: 1}\n", True, ["s.k"]),
    ],
)
def test_keys_that_stand_twice(body: bytes, in_yaml: bool, paths: list[str]) -> None:
    assert duplicate_fields(body, in_yaml=in_yaml) == paths


@pytest.mark.parametrize(
    ("body", "text"), [(b"", "<empty>"), (b'{"a":1}', '{"a":1}'), (b"{" + b"x" * 40, "{" + "x" * 29 + " ..."), (b"ab", "6162")]
)
def test_a_body_in_a_message(body: bytes, text: str) -> None:
    assert summary(body) == text
