"""What can be read from the text of an expression without compiling it: the variables and fields that it names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_LITERAL = re.compile(r"""[rRbB]{0,2}("{3}.*?"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')""", re.DOTALL)
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
RESERVED = frozenset(
    {"as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop", "namespace"}
    | {"null", "package", "return", "true", "var", "void", "while"}
)


def escape(name: str) -> str | None:
    """A property's name as rules write it (`a__dash__b`), or None where no rule can reach it."""
    if name in RESERVED:
        return f"__{name}__"
    parts = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
    escaped = re.sub(r"__|[.\-/]", lambda found: parts[found[0]], name)
    return escaped if re.fullmatch(_NAME, escaped) else None


def blank_literals(expression: str) -> str:
    """The expression with its string literals blanked out, all else at its place."""
    return _LITERAL.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), expression)


def mentions(expression: str, variable: str) -> bool:
    return re.search(rf"(?<![\w.]){variable}\b", blank_literals(expression)) is not None


@dataclass(frozen=True, slots=True)
class Step:
    """One `.field` behind a variable: its name, and where its dot and its last letter stand."""

    name: str
    start: int
    end: int


def chains(expression: str, variable: str) -> Iterator[tuple[int, list[Step]]]:
    """Where a variable stands, each with the fields selected from it: `self.a.b.size()` gives a and b."""
    plain = blank_literals(expression)
    for found in re.finditer(rf"(?<![\w.]){variable}\b((?:\s*\.\s*\??\s*{_NAME}(?!\w))*)(\s*\()?", plain):
        offset = found.start(1)
        steps = [
            Step(step[1], offset + step.start(), offset + step.end())
            for step in re.finditer(rf"\.\s*\??\s*({_NAME})", found[1])
        ]
        yield found.start(), steps[:-1] if found[2] else steps


def fields_used(expression: str, variable: str) -> frozenset[str] | None:
    """The fields that an expression reads of a variable, or None where it may read the whole."""
    first = [steps[0].name if steps else None for _, steps in chains(expression, variable)]
    return None if None in first else frozenset(name for name in first if name)


def undefined_field(expression: str, variable: str, *, known: Callable[[list[str]], bool]) -> str | None:
    """The compiler's complaint on the first field that `known` (asked with the path so far) denies, if any."""
    for _, steps in chains(expression, variable):
        for count, step in enumerate(steps, 1):
            if not known([one.name for one in steps[:count]]):
                return complaint(expression, step.start, f"undefined field '{step.name}'")
    return None


def complaint(expression: str, place: int, text: str) -> str:
    """A compiler's message at a place in the expression, laid out as the library lays out its own."""
    line = expression.count("\n", 0, place)
    column = place - (expression.rfind("\n", 0, place) + 1)
    shown = expression.split("\n")[line]
    return f"ERROR: <input>:{line + 1}:{column + 1}: {text}\n | {shown}\n | {'.' * column}^"
