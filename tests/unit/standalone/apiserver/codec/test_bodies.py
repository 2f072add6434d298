"""Bodies: what is read, and how what cannot be read is told."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from ullage.standalone.apiserver.codec.json import BadBody, BadNumber, BodyTooLarge, parse_json
from ullage.standalone.apiserver.codec.strict import Sent, find_faults
from ullage.standalone.apiserver.codec.yaml import parse_yaml
from ullage.standalone.apiserver.status import summary

DATA = Path(__file__).parent / "data"
HEAD = "apiVersion: e2e.example.com/v1\nkind: Tank\nmetadata: {name: t1}\n"


def laughs(*, levels: int, width: int) -> bytes:
    """Each level is a list of aliases of the one before."""
    lines = ["l0: &l0 lol"]
    lines += [f"l{level}: &l{level} [{', '.join([f'*l{level - 1}'] * width)}]" for level in range(1, levels + 1)]
    return "\n".join(lines).encode()


def exactly(digits: str) -> int | float:
    """An integer beyond 64 bits is a float to kube-apiserver, from there on."""
    return int(digits) if -(2**63) <= int(digits) < 2**63 else float(digits)


def recorded() -> list[Any]:
    return [json.loads(line, parse_int=exactly) for line in (DATA / "yaml_bodies.jsonl").read_text().splitlines()]


def deep_aliases() -> bytes:
    """Each level holds the one before: the text is flat and the value is not."""
    return "\n".join(["l0: &l0 [1]", *(f"l{level}: &l{level} [*l{level - 1}]" for level in range(1, 210))]).encode()


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
    ("body", "refused"),
    [
        pytest.param(b"[" * 200 + b"]" * 200, None, id="two hundred lists in each other"),
        pytest.param(b"[" * 201 + b"]" * 201, BadBody, id="one more"),
        pytest.param(b'{"a":' * 100_000, BadBody, id="depth is told before number"),
        pytest.param(b"[" + b"[]," * 99_990 + b"1]", None, id="nearly a hundred thousand values"),
        pytest.param(b"[" + b"[]," * 1_000_000 + b"1]", BodyTooLarge, id="a million empty lists"),
        pytest.param(b"[" + b'"",' * 1_000_000 + b"1]", BodyTooLarge, id="a million empty strings"),
        pytest.param(b"[" + b"1," * 1_500_000 + b"1]", BodyTooLarge, id="a million numbers"),
        pytest.param(b'["' + b",[{" * 900_000 + b'"]', None, id="brackets and commas in a string are no values"),
        pytest.param(b'["' + b'\\"' * 1_200_000 + b'"]', None, id="escaped quotes end no string"),
    ],
)
def test_a_body_has_bounds(body: bytes, refused: type[Exception] | None) -> None:
    with contextlib.nullcontext() if refused is None else pytest.raises(refused):
        parse_json(body)


@pytest.mark.parametrize(
    "row",
    [pytest.param(row, id=repr(row["body"].removeprefix(HEAD))[:60]) for row in recorded()],
)
def test_yaml_is_read_as_kube_apiserver_reads_it(row: Any) -> None:
    """The rows are its own answers to a create of an object without a schema."""
    body = row["body"].encode("latin-1")
    if "error" in row:
        with pytest.raises(BadBody) as caught:
            parse_yaml(body)
        assert str(caught.value) == row["error"]
        return
    found = json.loads(json.dumps(parse_yaml(body)), parse_int=exactly)
    assert {key: found[key] for key in found if key not in ("apiVersion", "kind", "metadata")} == row["value"]


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        pytest.param(laughs(levels=9, width=9), "yaml: document contains excessive aliasing", id="a billion laughs"),
        pytest.param(b"[" * 5000 + b"]" * 5000, "yaml: exceeded max depth of 200", id="too deep"),
        pytest.param(deep_aliases(), "yaml: exceeded max depth of 200", id="too deep by way of aliases"),
    ],
)
def test_yaml_that_grows_is_refused(body: bytes, complaint: str) -> None:
    with pytest.raises(BadBody) as caught:
        parse_yaml(body)
    assert str(caught.value) == complaint


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"- a\n" * 300_000, id="too many values"),
        pytest.param(b"a: &a [" + b"1," * 5000 + b"]\nb: [" + b"*a," * 50 + b"]\n", id="too many values by way of aliases"),
        pytest.param(b"a: &a " + b"x" * 1_000_000 + b"\nb: [*a, *a, *a]\n", id="too much text by way of aliases"),
    ],
)
def test_yaml_that_is_too_large(body: bytes) -> None:
    with pytest.raises(BodyTooLarge):
        parse_yaml(body)


def test_aliases_share_nothing() -> None:
    found = parse_yaml(b"a: &a {b: [1]}\nc: *a\nd: {<<: *a}\n")
    found["a"]["b"].append(2)
    assert found["c"] == found["d"] == {"b": [1]}


@pytest.mark.parametrize(
    ("body", "sent_as", "unknown", "faults"),
    [
        pytest.param(b'{"a":1}', "json", [], [], id="nothing"),
        pytest.param(
            b'{"z":1,"m":{"n":1,"n":2,"f":1,"f":2},"d":{"k":1,"k":2},"d":{}}',
            "json",
            ["z", "m.f"],
            [
                'unknown field "z"',
                'duplicate field "m.n"',
                'unknown field "m.f"',
                'duplicate field "d.k"',
                'duplicate field "d"',
            ],
            id="a built-in kind in JSON: as they stand in the text",
        ),
        pytest.param(
            b'{"z":1,"s":{"n":1,"n":2},"metadata":{"f":1,"l":{"a":1,"a":2}},"z":2}',
            "custom",
            ["z", "s.n", "metadata.f"],
            [
                'duplicate field "s.n"',
                'duplicate field "metadata.l.a"',
                'duplicate field "z"',
                'unknown field "metadata.f"',
                'unknown field "s.n"',
                'unknown field "z"',
            ],
            id="a custom kind: repeated keys, metadata, the rest by name",
        ),
        pytest.param(
            b"m:\n  k: 1\n  k: 2\nz: 1\nc: [1]\n",
            "yaml",
            ["z", "c[10].x", "c[2].x"],
            [
                'line 3: key "k" already set in map',
                'unknown field "c[2].x"',
                'unknown field "c[10].x"',
                'unknown field "z"',
            ],
            id="YAML: lines of repeated keys, then by name",
        ),
        pytest.param(b"{a: 1, 1: 2, 1: 3}", "yaml", [], ["line 1: key 1 already set in map"], id="a number as a key"),
    ],
)
def test_what_nobody_reads(body: bytes, sent_as: str, unknown: list[str], faults: list[str]) -> None:
    found = find_faults(Sent(body, yaml=sent_as == "yaml"), unknown, custom=sent_as == "custom")
    assert found.warnings == faults


def test_repeated_keys_of_yaml_as_a_refusal() -> None:
    found = find_faults(Sent(b"a: 1\na: 2\na: 3\n", yaml=True), ["b"], custom=False)
    assert found.strict == (
        'yaml: unmarshal errors:\n  line 2: key "a" already set in map\n  line 3: key "a" already set in map, unknown field "b"'
    )


@pytest.mark.parametrize(
    ("body", "text"), [(b"", "<empty>"), (b'{"a":1}', '{"a":1}'), (b"{" + b"x" * 40, "{" + "x" * 29 + " ..."), (b"ab", "6162")]
)
def test_a_body_in_a_message(body: bytes, text: str) -> None:
    assert summary(body) == text
