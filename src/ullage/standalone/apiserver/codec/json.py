"""Bodies of requests: JSON into plain values, within bounds, with the errors that Go's decoders would give.

Every path of the server walks objects, so depth and number of values are bounded here, once for all of them: what is accepted
can be read, patched and deleted later. kube-apiserver goes 10,000 deep; nothing that people write comes near either bound.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Any

import msgspec

MAX_BODY = 3 * 1024 * 1024
MAX_DEPTH = 200  # of lists and objects in each other
MAX_STORED_DEPTH = 180  # of an object without its managedFields, which mirror it: what is read can be sent back
MAX_VALUES = 100_000  # each costs up to 200 bytes, in every copy that is made on the way

# Tried once for each run of digits, not at each digit of it: a million digits without an exponent end the search.
_HUGE = re.compile(rb"(?<!\d)-?\d++(\.\d++)?[eE][+-]?\d{3,}")
_BYTE = re.compile(r"\(byte (\d+)\)")
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_BRACKET = re.compile(rb"[\[\]{}]")


class BadBody(ValueError):
    """The text behind `json parse error:` or `yaml:`."""


class BadNumber(BadBody):
    """A number that no type can hold: to Go the body was read, and could not be decoded."""


class BodyTooLarge(Exception):
    """A body that costs more than one request may, however well it reads: a 413."""


def too_many_values() -> BodyTooLarge:
    return BodyTooLarge(f"limit is {MAX_VALUES} values")


def check_size(body: bytes) -> None:
    """Refuses JSON that would become too many values, or nest too deeply, before it does."""
    brackets = body.count(b"{") + body.count(b"[")
    if brackets <= MAX_DEPTH and brackets + body.count(b",") < MAX_VALUES:
        return
    if body.count(b'"') - body.count(b'\\"') > 4 * MAX_VALUES + 2:  # a value has at most two strings, its key and itself
        raise too_many_values()
    bare = _STRING.sub(b"", body)
    depth = 0
    for bracket in islice(_BRACKET.finditer(bare), 2 * MAX_VALUES):
        depth += 1 if bracket[0] in b"[{" else -1
        if depth > MAX_DEPTH:
            raise BadBody("exceeded max depth")
    filled = bare.count(b"{") + bare.count(b"[") - bare.count(b"{}") - bare.count(b"[]")
    if filled + bare.count(b",") >= MAX_VALUES:
        raise too_many_values()


def depth_of(value: Any) -> int:
    """How deep lists and objects nest."""
    depth, level = 0, [value]
    while level := [item for item in level if isinstance(item, (dict, list))]:
        depth += 1
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else item)]
    return depth


def check_stored_depth(obj: dict[str, Any], text: bytes) -> None:
    """Refuses an object that could not be sent back once it is stored. `text` is what it was read from: most are flat."""
    if text.count(b"{") + text.count(b"[") + text.count(b"\n") <= MAX_STORED_DEPTH:
        return
    meta = obj.get("metadata")
    bare = {**obj, "metadata": {**meta, "managedFields": None}} if isinstance(meta, dict) else obj
    if depth_of(bare) > MAX_STORED_DEPTH:
        raise BadBody("exceeded max depth")


def parse_json(body: bytes) -> Any:
    """One JSON value. Bytes that are not UTF-8 become replacement characters, as in Go."""
    check_size(body)
    try:
        return msgspec.json.decode(body)
    except UnicodeDecodeError:
        return parse_json(body.decode("utf-8", "replace").encode())
    except RecursionError:
        raise BadBody("exceeded max depth") from None
    except msgspec.DecodeError as error:
        if "out of range" in str(error) and (number := _HUGE.search(body)):
            raise BadNumber(f"json: cannot unmarshal number {number[0].decode()} into Go value of type float64") from None
        raise BadBody(_json_complaint(body, str(error))) from None


def _json_complaint(body: bytes, text: str) -> str:
    if "truncated" in text or not body.strip():
        return "unexpected end of JSON input"
    place = _BYTE.search(text)
    if place is None:
        return text[:1].lower() + text[1:]
    char = body[int(place[1]) : int(place[1]) + 1].decode("latin-1")
    return _misspelt(body) or f"invalid character {go_char(char)} looking for beginning of value"


def _misspelt(body: bytes) -> str:
    """A body that begins like `null`, `true` or `false` and goes on otherwise."""
    text = body.strip()
    word = next((word for word in (b"null", b"true", b"false") if text[:1] == word[:1]), b"")
    for found, expected in zip(text, word, strict=False):
        if found != expected:
            return f"invalid character {go_char(chr(found))} in literal {word.decode()} (expecting {go_char(chr(expected))})"
    return ""


def go_char(char: str) -> str:
    """One character as Go's %q prints it."""
    if char in "'\\":
        return f"'\\{char}'"
    quoted = char if char.isprintable() and char.isascii() else f"\\u{ord(char):04x}"
    return f"'{quoted}'"
