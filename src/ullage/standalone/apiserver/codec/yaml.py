"""YAML bodies: one document into plain JSON values, or the reason why it cannot be.

The document is put together here, event by event, and not by a library's loader: aliases count as what they stand for, so that
a few hundred bytes cannot become gigabytes; depth, values and text have bounds; keys become strings as they do on
kube-apiserver; and a large document lets other threads run while it is read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from ullage.standalone.apiserver.codec.json import (
    MAX_BODY,
    MAX_DEPTH,
    MAX_VALUES,
    BadBody,
    BodyTooLarge,
    depth_of,
    parse_json,
    too_many_values,
)
from ullage.standalone.apiserver.codec.yaml_scalars import MERGE, Scalar, go_syntax, json_number, key_text, resolve

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_BAD_MERGE: Final = "yaml: map merge requires map or sequence of maps as the value"
# Aliases may make up nearly all of a small document and little of a large one: go-yaml's own bounds.
_SMALL, _LARGE = 400_000, 4_000_000
_SURROGATE: Final = b"\\ud"  # half a character: JSON takes two of them for one, YAML refuses each


@dataclass(frozen=True, slots=True)
class YamlDocument:
    value: Any
    repeated: list[str]  # keys that stand twice in one mapping, in the words of go-yaml


def parse_yaml(body: bytes) -> Any:
    """The first document of a body; the others are not looked at."""
    if body.lstrip()[:1] == b"{" and _SURROGATE not in body.lower():
        try:
            return parse_json(body)  # which is YAML too, and read more quickly
        except BadBody:
            pass
    return read_yaml(body).value


def read_yaml(body: bytes) -> YamlDocument:
    try:
        return _Composer().compose(body)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadBody(f"yaml: {_complaint(error)}") from None


def _complaint(error: Exception) -> str:
    problem = getattr(error, "problem", None) or getattr(error, "reason", None)
    if not problem:
        return next(iter(str(error).splitlines()), "malformed")
    marks = (getattr(error, "context_mark", None), getattr(error, "problem_mark", None))
    line = next((mark.line for mark in marks if mark and mark.line), 0)
    line += bool(line) and isinstance(error, yaml.scanner.ScannerError)
    return f"line {line}: {problem}" if line else str(problem)


@dataclass(slots=True)
class _Entry:
    """One key of a mapping. The key is what go-yaml sees, before it becomes a string."""

    key: Scalar
    value: Any
    line: int


@dataclass(slots=True)
class _Anchor:
    """What an alias stands for, and how much that is."""

    value: Any
    line: int
    nodes: int
    text: int
    entries: list[_Entry] | None = None


@dataclass(slots=True)
class _Open:
    """A collection whose end has not been seen."""

    mapping: bool
    anchor: str | None
    line: int
    nodes: int  # how many were counted before it
    text: int
    items: list[Any] = field(default_factory=list)
    entries: dict[tuple[type, Scalar], _Entry] = field(default_factory=dict)
    maps: list[list[_Entry] | None] = field(default_factory=list)  # of a sequence that is merged: its mappings
    key: Any = None
    has_key: bool = False
    merges: bool = False  # the value that comes next is merged into this mapping


class _Composer:
    def __init__(self) -> None:
        self._open: list[_Open] = []
        self._anchors: dict[str, _Anchor | None] = {}  # None while the value is open
        self._nodes = 0  # go-yaml's count of what it decodes, keys and aliases included
        self._aliased = 0
        self._text = 0
        self._root: Any = None
        self._repeated: list[str] = []
        self._unfit = ""  # why the document is no JSON: told when nothing is wrong with it as YAML

    def compose(self, body: bytes) -> YamlDocument:
        for event in _events(body):
            if isinstance(event, yaml.ScalarEvent):
                self._scalar(event)
            elif isinstance(event, yaml.CollectionStartEvent):
                self._begin(event)
            elif isinstance(event, yaml.CollectionEndEvent):
                self._end()
            elif isinstance(event, yaml.AliasEvent):
                self._alias(event)
        if self._unfit:
            raise BadBody(self._unfit)
        return YamlDocument(self._root, self._repeated)

    # --- events ---

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        merge = event.value == MERGE and event.implicit[0] and self._awaits_key()
        value = MERGE if merge else resolve(event.value, event.tag, plain=bool(event.implicit[0]))
        line = _line(event)
        self._count(1, len(event.value))
        if event.anchor:
            self._anchors[event.anchor] = _Anchor(value, line, 1, len(event.value))
        if merge:
            self._open[-1].merges = True
            return
        if isinstance(value, float) and not self._awaits_key():
            value = self._number(value)
        self._add(value, line, None)

    def _begin(self, event: yaml.CollectionStartEvent) -> None:
        if len(self._open) >= MAX_DEPTH:
            raise BadBody(f"yaml: exceeded max depth of {MAX_DEPTH}")
        self._count(1, 0)
        if event.anchor:
            self._anchors[event.anchor] = None
        mapping = isinstance(event, yaml.MappingStartEvent)
        self._open.append(_Open(mapping, event.anchor, _line(event), self._nodes - 1, self._text))

    def _end(self) -> None:
        done = self._open.pop()
        entries = list(done.entries.values()) if done.mapping else None
        value = self._object(done) if done.mapping else done.items
        if done.anchor:
            size = self._nodes - done.nodes
            self._anchors[done.anchor] = _Anchor(value, done.line, size, self._text - done.text, entries)
        if self._open and self._open[-1].merges:
            self._merge(done.maps if entries is None else [entries])
            return
        self._add(value, done.line, entries)

    def _alias(self, event: yaml.AliasEvent) -> None:
        name = event.anchor
        if name not in self._anchors:
            raise BadBody(f"yaml: unknown anchor '{name}' referenced")
        target = self._anchors[name]
        if target is None:
            raise BadBody(f"yaml: anchor '{name}' value contains itself")
        self._aliased += target.nodes
        self._count(target.nodes + 1, target.text)
        _check_depth(target.value, len(self._open))
        if self._open and self._open[-1].merges:
            self._merge([target.entries])
            return
        value = target.value
        if isinstance(value, float) and not self._awaits_key():
            value = self._number(value)
        self._add(_copy(value), target.line, target.entries)

    # --- values ---

    def _count(self, nodes: int, text: int) -> None:
        self._nodes += nodes
        self._text += text
        if self._aliased > 100 and self._nodes > 1000 and self._aliased / self._nodes > _allowed(self._nodes):
            raise BadBody("yaml: document contains excessive aliasing")
        if self._nodes > 2 * MAX_VALUES:  # keys are counted, too
            raise too_many_values()
        if self._text > MAX_BODY:
            raise BodyTooLarge(f"limit is {MAX_BODY}")

    def _awaits_key(self) -> bool:
        return bool(self._open) and self._open[-1].mapping and not self._open[-1].has_key and not self._open[-1].merges

    def _add(self, value: Any, line: int, entries: list[_Entry] | None) -> None:
        if not self._open:
            self._root = value
            return
        parent = self._open[-1]
        if not parent.mapping:
            parent.items.append(value)
            if len(self._open) > 1 and self._open[-2].merges:
                parent.maps.append(entries)
        elif parent.merges:
            raise BadBody(_BAD_MERGE)
        elif not parent.has_key:
            if isinstance(value, (dict, list)):
                raise BadBody(f"yaml: invalid map key: {go_syntax(value)}")
            parent.key, parent.has_key = value, True
        else:
            parent.has_key = False
            self._set(parent, _Entry(parent.key, value, line))

    def _set(self, parent: _Open, entry: _Entry) -> None:
        identity = (type(entry.key), entry.key)
        if identity in parent.entries:
            self._repeated.append(f"line {entry.line}: key {go_syntax(entry.key)} already set in map")
        parent.entries[identity] = entry

    def _merge(self, maps: list[list[_Entry] | None]) -> None:
        parent = self._open[-1]
        parent.merges = False
        for entries in reversed(maps):  # the first one wins
            if entries is None:
                raise BadBody(_BAD_MERGE)
            for entry in entries:
                self._set(parent, _Entry(entry.key, _copy(entry.value), entry.line))

    def _object(self, done: _Open) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for entry in done.entries.values():
            name = key_text(entry.key)
            if name is None:
                kind = "%!s(<nil>)" if entry.key is None else "uint64"
                text = f"unsupported map key of type: {kind}, key: {go_syntax(entry.key)}, value: {go_syntax(entry.value)}"
                self._unfit = self._unfit or text
                continue
            found[name] = entry.value
        return found

    def _number(self, value: float) -> int | float:
        if math.isfinite(value):
            return json_number(value)
        self._unfit = self._unfit or f"json: unsupported value: {go_syntax(value)}"
        return value


def _events(body: bytes) -> Iterator[yaml.Event]:
    for event in yaml.parse(body, Loader=_LOADER):
        if isinstance(event, yaml.DocumentEndEvent):
            return
        if isinstance(event, yaml.DocumentStartEvent) and event.version not in (None, (1, 1)):
            raise BadBody("yaml: found incompatible YAML document")
        yield event


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 0


def _allowed(nodes: int) -> float:
    """Which part of a document may come from aliases."""
    if nodes <= _SMALL:
        return 0.99
    return max(0.10, 0.99 - 0.89 * (nodes - _SMALL) / (_LARGE - _SMALL))


def _check_depth(value: Any, below: int) -> None:
    if isinstance(value, (dict, list)) and below and depth_of(value) + below > MAX_DEPTH:
        raise BadBody(f"yaml: exceeded max depth of {MAX_DEPTH}")


def _copy(value: Any) -> Any:
    """A value of its own for every alias: what is done to one place must not show in another."""
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value
