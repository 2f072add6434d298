"""Bodies of requests: JSON and YAML into plain values, with the errors that Go's decoders would give."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import yaml

MAX_DEPTH = 10_000  # as deep as Go's JSON decoder goes

_HUGE = re.compile(rb"-?\d+(\.\d+)?[eE][+-]?\d{3,}")
_BYTE = re.compile(r"\(byte (\d+)\)")


class BadBody(ValueError):
    """The text behind `json parse error:` or `yaml:`."""


class BadNumber(BadBody):
    """A number that no type can hold: to Go the body was read, and could not be decoded."""


def parse_json(body: bytes) -> Any:
    """One JSON value. Bytes that are not UTF-8 become replacement characters, as in Go."""
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


def parse_yaml(body: bytes) -> Any:
    """One YAML document; JSON is YAML, and the quicker way to read it."""
    if body.lstrip()[:1] == b"{":
        try:
            return parse_json(body)
        except BadBody:
            pass  # perhaps it is YAML in flow style
    try:
        _check_depth(body)
        return msgspec.yaml.decode(body)
    except (msgspec.DecodeError, yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise BadBody(_yaml_complaint(error)) from None


def _check_depth(body: bytes) -> None:
    """Refuses documents that nest too deeply or contain themselves: the parser behind recurses in C, and would not survive."""
    depth = 0
    open_anchors: list[str | None] = []
    for event in yaml.parse(body, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            open_anchors.append(event.anchor)
            if depth > MAX_DEPTH // 10:
                raise BadBody("exceeded max depth")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
            open_anchors.pop()
        elif isinstance(event, yaml.AliasEvent) and event.anchor in open_anchors:
            raise BadBody(f"anchor '{event.anchor}' value contains itself")


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _yaml_complaint(error: Exception) -> str:
    problem = getattr(error, "problem", None)
    if problem:
        marks = (getattr(error, "context_mark", None), getattr(error, "problem_mark", None))
        line = next((mark.line for mark in marks if mark and mark.line), 0)
        line += bool(line) and isinstance(error, yaml.scanner.ScannerError)
        return f"line {line}: {problem}" if line else str(problem)
    return next(iter(str(error).splitlines()), "malformed")


def duplicate_fields(body: bytes, *, in_yaml: bool = False) -> list[str]:
    """Paths of keys that stand twice in one object. Only the last value of such a key counts."""
    if in_yaml:
        return list(_yaml_duplicates(body))
    twice: list[tuple[int, str]] = []
    kept: list[dict[str, Any]] = []  # so that no two objects have one id

    def gather(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            seen: set[str] = set()
            for key, _ in pairs:
                if key in seen:
                    twice.append((id(found), key))
                seen.add(key)
            kept.append(found)
        return found

    try:
        root = json.loads(body, object_pairs_hook=gather)
    except (ValueError, RecursionError):
        return []
    if not twice:
        return []
    return list(_paths(root, "", set(twice)))


def _paths(value: Any, prefix: str, twice: set[tuple[int, str]]) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            path = f"{prefix}.{key}" if prefix else key
            if (id(value), key) in twice:
                yield path
            yield from _paths(item, path, twice)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _paths(item, f"{prefix}[{index}]", twice)


def _yaml_duplicates(body: bytes) -> Iterator[str]:
    stack: list[tuple[str, set[str] | None]] = []  # path of each open collection; its keys so far, if it is a mapping
    key: str | None = None
    for event in yaml.parse(body, Loader=_LOADER):
        if isinstance(event, yaml.CollectionEndEvent):
            stack.pop()
            key = None
            continue
        if not isinstance(event, yaml.NodeEvent):
            continue
        prefix, keys = stack[-1] if stack else ("", None)
        if keys is not None and key is None:
            key = getattr(event, "value", "")
            path = f"{prefix}.{key}" if prefix else key
            if key in keys:
                yield path
            keys.add(key)
            continue
        path = f"{prefix}.{key}" if prefix and key else key or prefix
        if isinstance(event, yaml.CollectionStartEvent):
            stack.append((path, set() if isinstance(event, yaml.MappingStartEvent) else None))
        key = None


def summary(body: bytes) -> str:
    """A body in an error message: its beginning, or in hexadecimal where it does not look like JSON."""
    if not body:
        return "<empty>"
    text = body.decode("utf-8", "replace") if body[:1] == b"{" else body.hex()
    limit = 30 if body[:1] == b"{" else 60
    return text if len(text) <= limit else f"{text[:limit]} ..."
