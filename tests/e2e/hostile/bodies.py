"""Bodies of up to 3 MiB that cost more to read than they cost to send."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

from .handlers import Handler

LIMIT: Final = 3 << 20
YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"


@dataclass(frozen=True, slots=True)
class Body:
    id: str
    make: Callable[[Handler], bytes]
    media: str = "application/json"
    headers: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.id


def _object(handler: Handler, rest: str) -> bytes:
    """JSON of what the handler expects, with something added at its end."""
    head = {"apiVersion": handler.api_version, "kind": handler.kind, "metadata": {"name": handler.name}}
    return f"{json.dumps(head)[:-1]}, {rest}}}".encode()


def _yaml(handler: Handler, rest: str) -> bytes:
    head = f"apiVersion: {handler.api_version}\nkind: {handler.kind}\nmetadata:\n  name: {handler.name}\n"
    return (head + rest).encode()


def _wrapped(before: str, unit: str, after: str) -> Callable[[Handler], bytes]:
    """An object whose member repeats a unit until the body is full."""

    def make(handler: Handler) -> bytes:
        room = LIMIT - 400 - len(before) - len(after)
        return _object(handler, before + unit * (room // len(unit.encode())) + after)

    return make


def _yaml_wrapped(before: str, unit: str, after: str = "") -> Callable[[Handler], bytes]:
    def make(handler: Handler) -> bytes:
        room = LIMIT - 400 - len(before) - len(after)
        return _yaml(handler, before + unit * (room // len(unit.encode())) + after)

    return make


def _raw(data: Callable[[], bytes]) -> Callable[[Handler], bytes]:
    kept = cache(data)
    return lambda handler: kept()


def _nested(depth: int, *, opening: str = '{"a":', closing: str = "}") -> Callable[[Handler], bytes]:
    return lambda handler: _object(handler, '"data": ' + opening * depth + "1" + closing * depth)


@cache
def _many_keys(count: int, value: str) -> str:
    return ",".join(f'"key-{number}":{value}' for number in range(count))


@cache
def _same_keys() -> str:
    return ",".join(['"twice":1'] * (LIMIT // 10 - 100))


@cache
def _yaml_keys(form: str, size: int) -> str:
    return "".join(form.format(number) for number in range(LIMIT // size - 100))


def _aliases(width: int, depth: int) -> str:
    """Lists of lists of the same list: `width` to the power of `depth` values."""
    lines = ["data:", "  l0: &l0 [x,x,x,x,x,x,x,x,x]"]
    lines += [f"  l{n}: &l{n} [{','.join([f'*l{n - 1}'] * width)}]" for n in range(1, depth)]
    return "\n".join(lines) + "\n"


def _merged(depth: int) -> str:
    lines = ["data:", "  m0: &m0 {a: b}"]
    lines += [f"  m{n}: &m{n} {{<<: [{','.join([f'*m{n - 1}'] * 9)}], k{n}: v}}" for n in range(1, depth)]
    return "\n".join(lines) + "\n"


JSON_BODIES: Final = (
    Body("a string that fills it", _wrapped('"data": {"a": "', "x", '"}')),
    Body("a string of escapes", _wrapped('"data": {"a": "', "\\u0041", '"}')),
    Body("a string of quotes and backslashes", _wrapped('"data": {"a": "', '\\"\\\\', '"}')),
    Body("a string of astral characters", _wrapped('"data": {"a": "', "\\ud83d\\ude00", '"}')),
    Body("a million small numbers", _wrapped('"data": {"a": [', "0,", "0]}")),
    Body("a million empty objects", _wrapped('"data": {"a": [', "{},", "{}]}")),
    Body("unknown members of objects in a list", _wrapped('"data": [', '{"u":1},', "{}]")),
    Body("a hundred thousand unknown fields", lambda handler: _object(handler, _many_keys(150_000, "1"))),
    Body("a hundred thousand data keys", lambda handler: _object(handler, f'"data": {{{_many_keys(150_000, chr(34) * 2)}}}')),
    Body(
        "a hundred thousand labels",
        lambda handler: _object(
            handler, f'"metadata": {{"name": "{handler.name}", "labels": {{{_many_keys(150_000, chr(34) * 2)}}}}}'
        ),
    ),
    Body(
        "a hundred thousand finalizers",
        lambda handler: _object(
            handler,
            f'"metadata": {{"name": "{handler.name}", "finalizers": [{",".join([chr(34) + "a/b" + chr(34)] * 400_000)}]}}',
        ),
    ),
    Body("one key three hundred thousand times", lambda handler: _object(handler, f'"data": {{{_same_keys()}}}')),
    Body("unknown keys that are all the same", lambda handler: _object(handler, _same_keys())),
    Body("objects, 500 deep", _nested(500)),
    Body("objects, 9,000 deep", _nested(9_000)),
    Body("objects, 400,000 deep", _nested(400_000)),
    Body("lists, 9,000 deep", _nested(9_000, opening="[", closing="]")),
    Body("lists, a million deep", _nested(1_000_000, opening="[", closing="]")),
    Body("lists that never close", lambda handler: _object(handler, '"data": ' + "[" * (LIMIT - 400))[:-1]),
    Body("a number of a million digits", _wrapped('"data": {"a": ', "9", "}")),
    Body("a fraction of a million digits", _wrapped('"data": {"a": 0.', "9", "}")),
    Body("a number with a great exponent", lambda handler: _object(handler, '"data": {"a": 1e999999999}')),
    Body("numbers too great, many times", _wrapped('"data": {"a": [', "1e400,", "0]}")),
    Body(
        "bytes that are not UTF-8", lambda handler: _object(handler, '"data": {"a": "')[:-1] + b"\xff" * (LIMIT - 400) + b'"}}'
    ),
    Body("a name that fills it", lambda handler: _object(handler, f'"metadata": {{"name": "{"n" * (LIMIT - 400)}"}}')),
    Body("a kind that fills it", lambda handler: _object(handler, f'"kind": "{"K" * (LIMIT - 400)}"')),
    Body("a member's name that fills it", lambda handler: _object(handler, f'"data": {{"{"k" * (LIMIT - 400)}": 1}}')),
    Body("white space", _raw(lambda: b" " * LIMIT)),
    Body("zeros", _raw(lambda: b"\0" * LIMIT)),
    Body("one byte too many", _raw(lambda: b"{" + b" " * LIMIT)),
)

YAML_BODIES: Final = (
    Body("aliases of aliases", lambda handler: _yaml(handler, _aliases(9, 12)), YAML),
    Body("a few aliases, often", lambda handler: _yaml(handler, _aliases(30, 5)), YAML),
    Body("merge keys of merge keys", lambda handler: _yaml(handler, _merged(9)), YAML),
    Body(
        "a big value and many aliases of it",
        lambda handler: _yaml(handler, "data:\n  a: &a " + "x" * 1_000_000 + "\n  b: [" + "*a," * 600_000 + "*a]\n"),
        YAML,
    ),
    Body("an anchor in itself", lambda handler: _yaml(handler, "data: &a [*a]\n"), YAML),
    Body("a hundred thousand anchors", lambda handler: _yaml(handler, "data:\n" + _yaml_keys("  k{0}: &a{0} v\n", 28)), YAML),
    Body("small numbers, one a line", _yaml_wrapped("data:\n  a:\n", "  - 1\n"), YAML),
    Body("small numbers in a flow", _yaml_wrapped("data: {a: [", "1,", "1]}\n"), YAML),
    Body("empty mappings in a flow", _yaml_wrapped("data: {a: [", "{},", "1]}\n"), YAML),
    Body("a hundred thousand keys", lambda handler: _yaml(handler, "data:\n" + _yaml_keys("  k{0}: v\n", 14)), YAML),
    Body("a hundred thousand unknown fields in YAML", lambda handler: _yaml(handler, _yaml_keys("k{0}: v\n", 12)), YAML),
    Body("lists in lists, as dashes", _yaml_wrapped("data:\n  ", "- "), YAML),
    Body("lists in lists, as brackets", _yaml_wrapped("data: ", "["), YAML),
    Body("mappings in mappings, as braces", _yaml_wrapped("data: ", "{a: "), YAML),
    Body("questions in questions", _yaml_wrapped("data:\n  ", "? "), YAML),
    Body("a plain scalar of many lines", _yaml_wrapped("data:\n  a: x\n", "   y\n"), YAML),
    Body("a quoted scalar of many lines", _yaml_wrapped('data:\n  a: "x', " \n ", '"\n'), YAML),
    Body("a block of blank lines", _yaml_wrapped("data:\n  a: |\n", "\n"), YAML),
    Body("comments", _yaml_wrapped("data: {}\n", "#\n"), YAML),
    Body("documents", _yaml_wrapped("data: {}\n", "---\n"), YAML),
    Body("tags", _yaml_wrapped("data:\n  a: [", "!!str 1,", "1]\n"), YAML),
    Body("tags of one's own", _yaml_wrapped("data:\n  a: [", "!x 1,", "1]\n"), YAML),
    Body("directives", _raw(lambda: b"%YAML 1.1\n" + b"%TAG !a! b\n" * (LIMIT // 12) + b"---\n{}\n"), YAML),
    Body("base 60", _yaml_wrapped("data:\n  a: 1", ":59"), YAML),
    Body("a number of a million digits in YAML", _yaml_wrapped("data:\n  a: ", "9"), YAML),
    Body("a hexadecimal number that fills it", _yaml_wrapped("data:\n  a: 0x", "f"), YAML),
    Body("underscores in a number", _yaml_wrapped("data:\n  a: 1", "_"), YAML),
    Body("times", _yaml_wrapped("data:\n  a:\n", "  - 2001-12-14t21:59:43.10-05:00\n"), YAML),
    Body("binary", _yaml_wrapped("data:\n  a: !!binary ", "A"), YAML),
    Body(
        "keys that are numbers, dates and lists",
        lambda handler: _yaml(handler, "data:\n  1: a\n  2001-01-01: b\n  .inf: c\n  [1, 2]: d\n  {a: b}: e\n  ~: f\n"),
        YAML,
    ),
    Body("sets and ordered maps", lambda handler: _yaml(handler, "data:\n  a: !!set {x, y}\n  b: !!omap [x: 1]\n"), YAML),
    Body("UTF-16", lambda handler: _yaml(handler, "data: {a: " + "x" * 1_000_000 + "}").decode().encode("utf-16"), YAML),
    Body("a colon and a space in one line", _yaml_wrapped("data: ", "a: "), YAML),
    Body("tabs", _yaml_wrapped("data:\n", "\t\n"), YAML),
    Body("JSON as YAML that is broken at its end", lambda handler: _wrapped('"data": {"a": [', "0,", "0]")(handler), YAML),
)


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _envelope(handler: Handler, raw: bytes, *, content: bytes = b"") -> bytes:
    """`runtime.Unknown`: type, raw bytes, and how these are said to be encoded."""
    kind = _field(1, handler.api_version.encode()) + _field(2, handler.kind.encode())
    return b"k8s\0" + _field(1, kind) + _field(2, raw) + (_field(3, content) if content else b"")


@cache
def _deep_message(depth: int) -> bytes:
    data = b""
    for _ in range(depth):
        data = _field(1, data)
        if len(data) > LIMIT - 200:
            break
    return data


@cache
def _labels_message() -> bytes:
    entries = [_field(11, _field(1, str(number).encode()) + _field(2, b"")) for number in range(100_000)]
    return _field(1, b"made") + b"".join(entries)


PROTOBUF_BODIES: Final = (
    Body("messages in messages", lambda handler: _envelope(handler, _deep_message(20_000)), PROTOBUF),
    Body("metadata a million times", lambda handler: _envelope(handler, _field(1, b"") * ((LIMIT - 200) // 2)), PROTOBUF),
    Body("empty map entries", lambda handler: _envelope(handler, _field(2, b"") * ((LIMIT - 200) // 2)), PROTOBUF),
    Body("unknown fields of protobuf", lambda handler: _envelope(handler, b"\xf8\x07\x01" * ((LIMIT - 200) // 3)), PROTOBUF),
    Body("a varint without end", lambda handler: _envelope(handler, b"\x08" + b"\xff" * (LIMIT - 200)), PROTOBUF),
    Body("groups without end", lambda handler: _envelope(handler, b"\x0b" * (LIMIT - 200)), PROTOBUF),
    Body("a length that lies", lambda handler: _envelope(handler, b"\x0a" + _varint(2**62)), PROTOBUF),
    Body("a label map of a hundred thousand", lambda handler: _envelope(handler, _field(1, _labels_message())), PROTOBUF),
    Body("an envelope of envelopes", lambda handler: b"k8s\0" + _deep_message(20_000), PROTOBUF),
    Body(
        "an envelope that says YAML",
        lambda handler: _envelope(handler, _yaml(handler, _aliases(9, 12)), content=b"application/yaml"),
        PROTOBUF,
    ),
    Body("only the magic number", _raw(lambda: b"k8s\0"), PROTOBUF),
    Body("zeros as protobuf", _raw(lambda: b"k8s\0" + b"\0" * (LIMIT - 4)), PROTOBUF),
)


OTHER_BODIES: Final = (
    Body(
        "compressed zeros, which nobody asked for",
        _raw(lambda: gzip.compress(b" " * (1 << 30), 1)[:LIMIT]),
        headers=("Content-Encoding: gzip",),
    ),
    Body("a media type that fills a header", _raw(lambda: b"{}"), "application/json;" + "a=b;" * 15_000),
    Body("CBOR", _raw(lambda: b"\x9f" * LIMIT), "application/cbor"),
    Body("a form", _raw(lambda: b"a=b&" * (LIMIT // 4)), "application/x-www-form-urlencoded"),
    Body("nothing", _raw(lambda: b"")),
)

ALL: Final = (*JSON_BODIES, *YAML_BODIES, *PROTOBUF_BODIES, *OTHER_BODIES)
