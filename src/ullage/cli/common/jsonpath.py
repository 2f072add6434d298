"""The templates of `-o jsonpath=` and `-o custom-columns=`, as far as people use them with kubectl. Pure.

    {.items[*].metadata.name}   {range .items[*]}{.metadata.name}{"\\n"}{end}   {.status.conditions[?(@.type=="Ready")].status}

A field that is missing gives nothing. What is not understood is refused by name, never guessed at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ullage.errors import BadInput

Step = Callable[[Any], Iterator[Any]]

ALLOWED: Final = (
    'allowed are paths such as {.metadata.name}, {.items[*].spec}, {.a[?(@.b=="c")]}, texts such as {"\\n"}, and '
    "{range .items[*]}…{end}"
)
_PART: Final = re.compile(
    r"""\.(?P<field>(?:[^.\[\]\\(){}'" ]|\\.)+)|\[(?P<index>-?\d+)\]|\[(?P<all>\*)\]|\.(?P<every>\*)"""
    r"""|\[(?P<quote>['"])(?P<key>.*?)(?P=quote)\]"""
    r"""|\[\?\(@(?P<inner>[^=!<>)]*?)\s*(?:(?P<op>==|!=)\s*(?P<value>"[^"]*"|'[^']*'|[^)\s]+)\s*)?\)\]"""
)
_TOKEN: Final = re.compile(r"""\{((?:"[^"]*"|'[^']*'|[^{}"'])*)\}""")


@dataclass(frozen=True, slots=True)
class Text:
    value: str


@dataclass(frozen=True, slots=True)
class Path:
    steps: tuple[Step, ...]

    def of(self, value: Any) -> list[Any]:
        found = [value]
        for step in self.steps:
            found = [each for one in found for each in step(one)]
        return found


@dataclass(frozen=True, slots=True)
class Range:
    over: Path
    body: tuple[Text | Path | Range, ...]


Template = tuple[Text | Path | Range, ...]


def parse(where: str, given: str) -> Template:
    """A template. One without braces is a single path, as for kubectl."""
    if not given.strip():
        raise BadInput(where, "jsonpath=", f"no template; {ALLOWED}")
    text = given if "{" in given else f"{{{given if given.startswith(('.', '[', '$')) else f'.{given}'}}}"
    frames: list[tuple[Path | None, list[Text | Path | Range]]] = [(None, [])]
    place = 0
    for token in _TOKEN.finditer(text):
        _literal(text[place : token.start()], frames[-1][1], where=where, given=given)
        place = token.end()
        inside = token[1].strip()
        if inside == "end":
            over, body = frames.pop()
            if over is None:
                raise BadInput(where, given, "{end} without {range}")
            frames[-1][1].append(Range(over, tuple(body)))
        elif inside.startswith("range "):
            frames.append((path(where, inside.removeprefix("range ").strip()), []))
        elif inside[:1] in ("'", '"'):
            frames[-1][1].append(Text(_unquoted(inside)))
        else:
            frames[-1][1].append(path(where, inside))
    _literal(text[place:], frames[-1][1], where=where, given=given)
    if len(frames) > 1:
        raise BadInput(where, given, "{range} without {end}")
    return tuple(frames[0][1])


def path(where: str, given: str) -> Path:
    rest = given.removeprefix("$").removeprefix("@")
    steps: list[Step] = []
    place = 0
    while place < len(rest) and rest != ".":
        part = _PART.match(rest, place)
        if part is None:
            raise BadInput(where, given or "{}", f"not a path, from {rest[place:]!r} on; {ALLOWED}")
        steps.append(_step(part, where))
        place = part.end()
    return Path(tuple(steps))


def rendered(template: Template, value: Any) -> str:
    return "".join(_pieces(template, value))


def custom_columns(where: str, given: str) -> tuple[tuple[str, Path], ...]:
    """NAME:PATH,NAME:PATH."""
    columns = []
    for one in given.split(",") if given else []:
        name, colon, of = one.partition(":")
        if not (name and colon and of):
            break
        columns.append((name, path(where, of if of.startswith(".") else f".{of}")))
    else:
        if columns:
            return tuple(columns)
    raise BadInput(where, f"custom-columns={given}", "NAME:PATH,… is allowed, such as NAME:.metadata.name,AGE:.status.phase")


def cell(found: Sequence[Any]) -> str:
    return ",".join(_shown(one) for one in found) or "<none>"


# --- inside ----------------------------------------------------------------------------------------------------------


def _literal(text: str, body: list[Text | Path | Range], *, where: str, given: str) -> None:
    if "{" in text or "}" in text:
        raise BadInput(where, given, f"a brace without its other; {ALLOWED}")
    if text:
        body.append(Text(text))


def _pieces(template: Template, value: Any) -> Iterator[str]:
    for one in template:
        match one:
            case Text(text):
                yield text
            case Path():
                yield " ".join(_shown(each) for each in one.of(value))
            case Range(over, body):
                for each in over.of(value):
                    yield from _pieces(body, each)


def _step(part: re.Match[str], where: str) -> Step:
    if part["index"] is not None:
        index = int(part["index"])
        return lambda value: iter(value[index:][:1]) if isinstance(value, list) else iter(())
    if part["all"] or part["every"]:
        return _all
    if part["inner"] is not None:
        return _filter(path(where, part["inner"].strip()), part["op"], part["value"])
    name = part["key"] if part["key"] is not None else re.sub(r"\\(.)", r"\1", part["field"])
    return lambda value: iter((value[name],)) if isinstance(value, dict) and value.get(name) is not None else iter(())


def _all(value: Any) -> Iterator[Any]:
    return iter(value if isinstance(value, list) else value.values() if isinstance(value, dict) else ())


def _filter(inner: Path, op: str | None, wanted: str | None) -> Step:
    def keeps(value: Any) -> bool:
        found = inner.of(value)
        if op is None:
            return bool(found)
        same = any(_shown(one) == _unquoted(wanted or "") for one in found)
        return same if op == "==" else not same

    return lambda value: iter([one for one in _all(value) if keeps(one)])


def _unquoted(given: str) -> str:
    if given[:1] not in ("'", '"'):
        return given
    return re.sub(r"\\([nt\\])", lambda found: {"n": "\n", "t": "\t", "\\": "\\"}[found[1]], given[1:-1])


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
