r"""The JSONPath of additionalPrinterColumns: fields, keys in quotes, indexes, slices, wildcards, filters, descent.

A path is compiled once, when its CustomResourceDefinition is first shown, into a chain of small functions from values to
values. What is missing yields nothing and never an error: objects come in all states of completeness.

    .spec.size   .metadata.labels.app\.kubernetes\.io/name   .status.conditions[?(@.type=="Ready")].status   .items[-1:]

A quoted key is itself read as a path (`['a.b']` is `.a.b`, `['a\.b']` is the key `a.b`): so does kube-apiserver.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

Step = Callable[[Any], Iterator[Any]]
Operand = Callable[[Any], list[Any]]

_FIELD = re.compile(r"(?:\\.|[^.\[\]\\\s{}])+")
_INTEGER = re.compile(r"-?\d+")
_SLICE = re.compile(r"(-?\d*):(-?\d*)(?::(-?\d*))?")
_FILTER = re.compile(r"""((?:'[^']*'|"[^"]*"|[^=!<>'"])++)(?:(==|!=|<=|>=|<|>)\s*(.+))?""")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


MOST_FOUND = 100_000  # values at any step: two descents through one tree meet each value many times


class JsonPathError(ValueError):
    """A path that cannot be read."""


@dataclass(frozen=True, slots=True)
class JsonPath:
    steps: tuple[Step, ...]

    def find(self, value: Any) -> list[Any]:
        """Every value that the path names, in the document's order."""
        found = [value]
        for step in self.steps:
            found = list(islice((item for each in found for item in step(each)), MOST_FOUND))
        return found


@lru_cache(maxsize=1024)
def compile_path(text: str) -> JsonPath:
    """Reads a path such as `.spec.replicas`. Raises JsonPathError."""
    return JsonPath(tuple(_steps(text)))


def _steps(text: str) -> Iterator[Step]:
    at = 0
    while at < len(text):
        if text[at] == "[":
            end = _closing(text, at)
            yield _bracket(text[at + 1 : end].strip())
            at = end + 1
            continue
        deep = text.startswith("..", at)
        at += 2 if deep else 1 if text[at] == "." else 0
        if deep:
            yield _descend
        if at == len(text) or text[at] == "[":
            continue
        match = _FIELD.match(text, at)
        if match is None:
            raise JsonPathError(f"unexpected {text[at:]!r} in {text!r}")
        yield _every if match.group() == "*" else _field(_unescape(match.group()))
        at = match.end()


def _closing(text: str, start: int) -> int:
    """Where the bracket that opens at `start` ends; brackets in quotes do not count."""
    depth, quote, at = 0, "", start
    while at < len(text):
        char = text[at]
        if char == "\\":
            at += 1
        elif quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "[]":
            depth += 1 if char == "[" else -1
            if not depth:
                return at
        at += 1
    raise JsonPathError(f"unterminated bracket in {text!r}")


def _bracket(inside: str) -> Step:
    if inside == "*":
        return _every
    if inside.startswith("?(") and inside.endswith(")"):
        return _where(inside[2:-1].strip())
    if match := _SLICE.fullmatch(inside):
        bounds = [int(part) if part else None for part in match.groups(default="")]
        if bounds[2] is not None and bounds[2] <= 0:
            raise JsonPathError("the step of a slice must be positive")
        return _slice(slice(*bounds))
    parts = re.findall(r"""'[^']*'|"[^"]*"|[^,\s]+""", inside)
    if not parts:
        raise JsonPathError("empty brackets")
    return _union([_member(part) for part in parts])


def _member(part: str) -> JsonPath:
    if part[0] in "'\"":
        return compile_path("." + part[1:-1])
    if _INTEGER.fullmatch(part):
        return JsonPath((_index(int(part)),))
    raise JsonPathError(f"neither an index nor a quoted key: {part!r}")


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _field(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _index(at: int) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= at < len(value):
            yield value[at]

    return step


def _slice(bounds: slice) -> Step:
    return lambda value: iter(value[bounds]) if isinstance(value, list) else iter(())


def _union(members: list[JsonPath]) -> Step:
    return lambda value: (item for member in members for item in member.find(value))


def _every(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _descend(value: Any) -> Iterator[Any]:
    """The value and everything beneath it."""
    waiting = [value]
    while waiting:
        here = waiting.pop()
        yield here
        waiting.extend(reversed(list(_every(here))))


def _where(text: str) -> Step:
    match = _FILTER.fullmatch(text)
    if match is None or "&&" in text or "||" in text:
        raise JsonPathError(f"unreadable filter {text!r}")
    left = _operand(match.group(1).strip())
    if match.group(2) is None:
        return lambda value: (item for item in _every(value) if left(item))
    holds, right = _COMPARE[match.group(2)], _operand(match.group(3).strip())
    return lambda value: (item for item in _every(value) if _compare(holds, left(item), right(item)))


def _operand(text: str) -> Operand:
    """One side of a filter: a path from the item at hand, or a constant."""
    if text.startswith("@"):
        return compile_path(text[1:]).find
    constant = _constant(text)
    return lambda _item: [constant]


def _constant(text: str) -> Any:
    if len(text) > 1 and text[0] in "'\"" and text[-1] == text[0]:
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    try:
        return float(text)
    except ValueError:
        raise JsonPathError(f"unreadable value {text!r} in a filter") from None


def _compare(holds: Callable[[Any, Any], bool], left: list[Any], right: list[Any]) -> bool:
    """Only like compares with like; a missing side never matches."""
    if not left or not right:
        return False
    one, other = left[0], right[0]
    numbers = all(isinstance(side, (int, float)) and not isinstance(side, bool) for side in (one, other))
    return (numbers or type(one) is type(other)) and not isinstance(one, (dict, list)) and bool(holds(one, other))
