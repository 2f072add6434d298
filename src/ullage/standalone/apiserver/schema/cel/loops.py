"""Loops of CEL expressions (`all`, `exists`, `map`...), run in parts so that their cost is known while they run.

The CEL library ends an expression after 10,000 steps of its loops, copies all data before it starts, and cannot be stopped
in between. So an expression with loops over much data is taken apart: each loop becomes a call back to here, which hands
the library a few items at a time and counts what they cost. What cannot be paid for ends the evaluation, as it does on
kube-apiserver.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

CALL: Final = "__loop"  # the function that a loop is replaced by
ITEMS: Final = "__items"
PER_OBJECT: Final = 400_000  # a unit is a value handed to the library, or 200 characters of text looked at: about 1 µs
_PER_CALL: Final = 4_000
_EACH_CALL: Final = 30
_INNER_LOOPS: Final = 10_000  # what loops inside a loop are taken to cost, which the library runs without counting
LIGHT_CHARS: Final = 4_000  # so little text that 10,000 steps over it are quick
TOO_MANY_STEPS: Final = "Iteration budget exceeded"  # the library's own bound, of 10,000 steps
_CHARS: Final = 200  # that cost as much as one value

_LITERAL = re.compile(r"""[rRbB]{0,2}("{3}.*?"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')""", re.DOTALL)
_MACRO = re.compile(r"\.\s*(all|exists|exists_one|existsOne|map|filter)\s*\(")
_WORD = re.compile(r"[\w\x01]")
_PATH = re.compile(r"\s*[A-Za-z_]\w*(\s*\.\s*[A-Za-z_]\w*)*\s*")
_OPEN: Final = {")": "(", "]": "[", "}": "{"}


class Exhausted(Exception):
    """An evaluation that cannot be paid for."""


class LoopError(ValueError):
    """An error of the expression itself, on its way through the library."""


class Budget:
    """What the rules of one object may cost together."""

    def __init__(self, units: int = PER_OBJECT) -> None:
        self.left = units

    def charge(self, units: int) -> None:
        self.left -= units
        if self.left < 0:
            raise Exhausted


def weigh(value: Any, *, most: int = PER_OBJECT) -> tuple[int, int]:
    """How many values and characters a value has. Looks no further than at `most` values."""
    values = chars = 0
    waiting = [value]
    while waiting and values <= most:
        one = waiting.pop()
        values += 1
        if type(one) is str:
            chars += len(one)
        elif type(one) is dict:
            values += len(one)
            waiting.extend(one.values())
        elif type(one) is list:
            waiting.extend(one)
    return values + len(waiting), chars


def units(value: Any) -> int:
    values, chars = weigh(value)
    return values + chars // _CHARS


@dataclass(frozen=True, slots=True)
class Loop:
    """`receiver.kind(variable, bodies...)`."""

    kind: str
    receiver: Part
    variable: str
    body: Part  # the arguments behind the variable, as they are written


@dataclass(frozen=True, slots=True)
class Part:
    """An expression with its loops replaced by calls."""

    source: str
    text: str
    loops: tuple[Loop, ...]
    path: tuple[str, ...] = ()  # where it is nothing but a variable and fields: they can be followed without the library


def take_apart(source: str, *, variable: str = "") -> Part:
    """`variable` is what the loop around it calls its items."""
    plain = _LITERAL.sub(lambda found: "\x01" * len(found[0]), source)
    loops: list[Loop] = []
    text, done = "", 0
    for start, dot, inside, end in _outermost(plain):
        kind = _MACRO.match(plain, dot)
        comma = plain.find(",", inside)
        if kind is None or not 0 <= comma < end:
            continue
        call = f"{CALL}({len(loops)}, [{variable}])"
        text += source[done:start] + call
        done = end
        name = source[inside:comma].strip()
        loops.append(Loop(kind[1], take_apart(source[start:dot]), name, take_apart(source[comma + 1 : end - 1], variable=name)))
    path = tuple(re.split(r"\s*\.\s*", source.strip())) if _PATH.fullmatch(source) else ()
    return Part(source, text + source[done:], tuple(loops), path)


def _outermost(plain: str) -> Iterator[tuple[int, int, int, int]]:
    """The loops that are in no other: where the receiver starts, the dot, behind the bracket, behind the end."""
    found = []
    for macro in _MACRO.finditer(plain):
        end = _closing(plain, macro.end())
        found.append((_receiver(plain, macro.start()), macro.start(), macro.end(), end))
    last = 0
    for one in sorted(found, key=lambda span: (span[0], -span[3])):
        if one[0] >= last:
            last = one[3]
            yield one


def _closing(plain: str, at: int) -> int:
    depth = 1
    while depth and at < len(plain):
        depth += (plain[at] in "([{") - (plain[at] in ")]}")
        at += 1
    return at


def _receiver(plain: str, at: int) -> int:
    """Where the operand before a dot begins: names, literals, calls, indexes and brackets, joined by dots."""
    while True:
        while at and plain[at - 1].isspace():
            at -= 1
        while at and plain[at - 1] in _OPEN:
            at = _opening(plain, at - 1)
        while at and _WORD.match(plain[at - 1]):
            at -= 1
        before = plain[:at].rstrip()
        if not before.endswith((".", ".?")):
            return at
        at = len(before.removesuffix("?").removesuffix("."))


def _opening(plain: str, at: int) -> int:
    depth = 0
    while at >= 0:
        depth += (plain[at] in ")]}") - (plain[at] in "([{")
        if not depth:
            return at
        at -= 1
    return 0


@dataclass(slots=True)
class Run:
    """One evaluation. `call` hands an expression and its variables to the library and raises `LoopError`."""

    budget: Budget
    call: Callable[[str, Mapping[str, Any]], Any]
    read: Callable[[str, str, Any], Any]  # what an expression reads of a variable's value
    exhausted: bool = False
    frames: list[tuple[Part, Mapping[str, Any], str]] = field(default_factory=list)

    def evaluate(self, part: Part, data: Mapping[str, Any]) -> Any:
        used = self._used(part.text, data)
        self.budget.charge(units(used) + _EACH_CALL)
        return self._enter(part, data, "", text=part.text, used=used)

    def _used(self, text: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """The variables that an expression names, with what it reads of them. Names that begin with `__` are ours."""
        names = _names(text)
        return {name: self.read(text, name, value) for name, value in data.items() if name in names or name.startswith("__")}

    def _enter(self, part: Part, data: Mapping[str, Any], variable: str, *, text: str, used: Mapping[str, Any]) -> Any:
        self.frames.append((part, data, variable))
        try:
            return self.call(text, used)
        finally:
            self.frames.pop()

    def called(self, number: int, items: list[Any]) -> Any:
        """The library reached a loop; `items` is what the loop around it stands at."""
        part, data, variable = self.frames[-1]
        if self.exhausted:  # the library goes on to the next item, in case that one decides
            raise LoopError("out of budget")
        try:
            return self._loop(part.loops[number], {**data, variable: items[0]} if items else data)
        except Exhausted:
            self.exhausted = True
            raise LoopError("out of budget") from None

    def _loop(self, loop: Loop, data: Mapping[str, Any]) -> Any:
        gathered: list[Any] = []
        failure: LoopError | None = None
        for found in self._outcomes(loop, self._items(loop.receiver, data), data):
            if isinstance(found, LoopError):
                if self.exhausted or loop.kind not in ("all", "exists"):
                    raise found
                failure = failure or found  # counts only if no other item decides
            elif loop.kind in ("all", "exists"):
                if found is (loop.kind == "exists"):
                    return found
            else:
                self.budget.charge(units(found))
                gathered += found
        if failure is not None:
            raise failure
        if loop.kind in ("all", "exists"):
            return loop.kind == "all"
        return len(gathered) == 1 if loop.kind in ("exists_one", "existsOne") else gathered

    def _items(self, receiver: Part, data: Mapping[str, Any]) -> list[Any]:
        found = _follow(receiver.path, data) if receiver.path and receiver.path[0] in data else self.evaluate(receiver, data)
        if not isinstance(found, list | dict):
            raise LoopError("No matching overloads found")
        return list(found)

    def _outcomes(self, loop: Loop, items: list[Any], data: Mapping[str, Any]) -> Iterator[Any]:
        """What the library makes of the items, some at a time; a value each, or the `LoopError`."""
        used = self._used(loop.body.source, data)
        whole = bool(loop.body.loops) and weigh(used)[1] <= LIGHT_CHARS and weigh(items)[1] <= LIGHT_CHARS
        used = used if whole else self._used(loop.body.text, data)
        used.pop(loop.variable, None)
        shared, chars = weigh(used)
        place, most = 0, _PER_CALL
        while place < len(items):
            # Loops inside this one are left to the library where their steps are cheap and few enough.
            cost, end = 0, place
            while end < len(items) and end - place < most and cost < _PER_CALL:
                cost += 2 + units(items[end]) + chars // _CHARS  # each step may look at all the text there is
                end += 1
            self.budget.charge(shared + cost + _EACH_CALL + (_INNER_LOOPS if whole else 0))
            found = self._chunk(loop, items[place:end], data, used=used, whole=whole)
            if whole and isinstance(found, LoopError) and TOO_MANY_STEPS in str(found):
                whole, most = end - place > 1, max(1, (end - place) // 4)
                most = most if whole else _PER_CALL
            else:
                yield found
                place = end

    def _chunk(self, loop: Loop, items: list[Any], data: Mapping[str, Any], *, used: Mapping[str, Any], whole: bool) -> Any:
        kind = "filter" if loop.kind in ("exists_one", "existsOne") else loop.kind
        text = f"{ITEMS}.{kind}({loop.variable}, {loop.body.source if whole else loop.body.text})"
        try:
            return self._enter(loop.body, data, loop.variable, text=text, used={**used, ITEMS: items})
        except LoopError as error:
            return error


@lru_cache(maxsize=1024)
def _names(text: str) -> frozenset[str]:
    """Every word of an expression, variables among them."""
    return frozenset(re.findall(r"[A-Za-z_]\w*", text))


def _follow(path: tuple[str, ...], data: Mapping[str, Any]) -> Any:
    here: Any = data
    for step in path:
        if not isinstance(here, Mapping):
            raise LoopError("No matching overloads found")
        if step not in here:
            raise LoopError(f"Key not found in map : {step}")
        here = here[step]
    return here


_RUNNING = threading.local()


def running(run: Run, evaluate: Callable[[], Any]) -> Any:
    """Evaluates with `run` as the one that the library's calls go to, in this thread."""
    before = getattr(_RUNNING, "run", None)
    _RUNNING.run = run
    try:
        return evaluate()
    finally:
        _RUNNING.run = before


def called(number: int, items: list[Any]) -> Any:
    """What the library calls."""
    run: Run = _RUNNING.run
    return run.called(number, items)
