"""CEL, as Kubernetes uses it: the rules of custom resources and the match conditions of webhooks.

The expressions run in the `cel-expr-python` library. This module adds Kubernetes' own functions (see `library`), the
wording of errors, and what the library cannot take from Python: an optional `oldSelf`.

An expression is checked once with the types of its variables, then compiled a second time with DYN ones, since only the
checker can be taught that numbers of all types have one order. The library has no types for objects: to the checker, too,
they are maps of DYN. Whoever knows an object's schema checks its fields' names with `undefined_field` and stands
typed variables in for its scalar fields (see `values.typed`); what comes out of lists of objects stays DYN, so
that a wrong type there shows only when the rule runs. The cost of a rule is not estimated, but counted (see `loops`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings

from ullage.standalone.apiserver.schema.cel.library import extension
from ullage.standalone.apiserver.schema.cel.loops import (
    CALL,
    LIGHT_CHARS,
    TOO_MANY_STEPS,
    Budget,
    Exhausted,
    LoopError,
    Part,
    Run,
    called,
    running,
    take_apart,
    weigh,
)
from ullage.standalone.apiserver.schema.cel.syntax import chains
from ullage.standalone.apiserver.schema.regexp import in_go_words

# The library's error texts in the words of kube-apiserver.


# The library's words on the left, those of kube-apiserver on the right.
_WORDING: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r'Key not found in map : "?(.*?)"?$'), r"no such key: \1"),
    (re.compile(r"divide by zero"), "division by zero"),
    (re.compile(r"cannot convert string to int"), "type conversion error from 'string' to 'int'"),
    (
        re.compile(r"String to (Timestamp|Duration) conversion failed"),
        r"type conversion error from 'string' to 'google.protobuf.\1'",
    ),
    (re.compile(r"Index error: index=(-?\d+) size=\d+"), r"index out of bounds: \1"),
    (re.compile(r"No matching overloads found.*|Applying SELECT to non-message type"), "no such overload"),
)
_COMPILER_WORDING: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"expression of type '(.*?)' cannot be the operand of a select operation"),
        r"type '\1' does not support field selection",
    ),
    (re.compile(r"\bgoogle\.protobuf\.Timestamp\b(?=.*'\n)"), "timestamp"),
    (re.compile(r"\bgoogle\.protobuf\.Duration\b(?=.*'\n)"), "duration"),
    (re.compile(r"\bnull_type\b"), "null"),
)
_STATUS = re.compile(r"^[A-Z_]+: ")


def reword_compiler(text: str) -> str:
    """What is said of an expression that does not compile."""
    for pattern, words in _COMPILER_WORDING:
        text = pattern.sub(words, text)
    return text


def reword(text: str) -> str:
    """What is said of an expression that fails while it runs."""
    text = _STATUS.sub("", text)
    _, bad_pattern, complaint = text.partition("invalid regular expression: ")
    if bad_pattern:
        return in_go_words(complaint, "")
    for pattern, words in _WORDING:
        if (found := pattern.search(text)) is not None:
            return found.expand(words)
    return text


TYPES: dict[str, Any] = {
    "bool": cel.Type.BOOL,
    "int": cel.Type.INT,
    "double": cel.Type.DOUBLE,
    "string": cel.Type.STRING,
    "bytes": cel.Type.BYTES,
    "timestamp": cel.Type.TIMESTAMP,
    "duration": cel.Type.DURATION,
    "list": cel.Type.List(cel.Type.DYN),
    "map": cel.Type.Map(cel.Type.STRING, cel.Type.DYN),
    "dyn": cel.Type.DYN,
}
TYPES |= {f"list<{kind}>": cel.Type.List(TYPES[kind]) for kind in ("bool", "int", "double", "string")}
TYPES |= {f"map<{kind}>": cel.Type.Map(cel.Type.STRING, TYPES[kind]) for kind in ("bool", "int", "double", "string")}
_NUMBERS = {"int": cel.Type.INT, "double": cel.Type.DOUBLE, "uint": cel.Type.UINT}
_ORDER = ("_<_", "_<=_", "_>_", "_>=_")
CONDITION_VARIABLES = {"object": "dyn", "oldObject": "dyn", "request": "dyn"}
_OLD = "__old"  # holds the old value, or nothing, where the rule sees an optional


_LIGHT_VALUES = 1_000  # so few that it is quick to hand them to the library
_Fields = Mapping[str, Any] | None


class CelError(ValueError):
    """An expression that does not compile; the text is the compiler's, with the place marked."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What an expression gives when it cannot be evaluated: a value, since one failed rule must not hide the others."""

    message: str


OUT_OF_BUDGET = Failure("operation cancelled: actual cost limit exceeded")


@dataclass(frozen=True, slots=True)
class Program:
    """One compiled expression."""

    source: str
    result: str  # the type that it is known to have: BOOL, STRING, DYN, ...
    _run: Any
    _parts: Part
    _compile: Callable[[str, tuple[str, ...]], Any]  # a part of it, with the names of the variables that loops add

    def evaluate(self, variables: Mapping[str, Any], budget: Budget | None = None) -> Any:
        """The plain value, or a `Failure`. Variables that the expression does not name may be left out.

        Of objects only what the expression reads is handed over. What it costs is taken from the budget, if one is given.
        """
        budget = budget or Budget()
        data = {name: _pruned(value, self._fields(name)) for name, value in variables.items()}
        try:
            values, chars = weigh(data)
            if self._parts.loops and (values > _LIGHT_VALUES or chars > LIGHT_CHARS):
                return self._in_parts(data, budget)
            budget.charge(values + chars // 200 + 30)
            try:
                return _plain(self._run, data)
            except LoopError as error:
                if TOO_MANY_STEPS not in str(error):
                    return Failure(reword(str(error)))
                return self._in_parts(data, budget)
        except Exhausted:
            return OUT_OF_BUDGET

    def _in_parts(self, data: Mapping[str, Any], budget: Budget) -> Any:
        def call(text: str, used: Mapping[str, Any]) -> Any:
            added = tuple(sorted(name for name in used if name not in data))
            return _plain(self._compile(text, added), used)

        run = Run(budget, call, lambda source, name, value: _pruned(value, _fields_of(source, name)))
        try:
            found = running(run, lambda: run.evaluate(self._parts, data))
        except LoopError as error:
            found = Failure(reword(str(error)))
        return OUT_OF_BUDGET if run.exhausted else found

    def _fields(self, variable: str) -> _Fields:
        return _fields_of(self.source, variable)


def _plain(run: Any, data: Mapping[str, Any]) -> Any:
    """The result of a compiled expression as Python's own value. Raises `LoopError`."""
    try:
        found = run(data=data)
        if found.type() == cel.Type.ERROR:
            raise LoopError(str(found.value()))
        return found.plain_value()
    except LoopError:
        raise
    except (RuntimeError, TypeError, ValueError) as error:
        raise LoopError(str(error)) from error


def _pruned(value: Any, fields: _Fields) -> Any:
    """What is read of a value. Only maps have fields that can be left out."""
    if fields is None or type(value) is not dict:
        return value
    return {name: _pruned(value[name], below) for name, below in fields.items() if name in value}


@lru_cache(maxsize=1024)
def _fields_of(expression: str, variable: str) -> _Fields:
    """The fields that an expression reads of a variable, and of them; None where it may read the whole."""
    if variable == _OLD:
        return None
    found: dict[str, Any] = {}
    for _, steps in chains(expression, variable):
        if not steps:
            return None
        here = found
        for place, step in enumerate(steps, 1):
            below = here.setdefault(step.name, {})
            if below is None:
                break
            if place == len(steps):
                here[step.name] = None
            here = below
    return found


@lru_cache(maxsize=256)
def _environment(variables: tuple[tuple[str, str], ...], *, checking: bool, loops: bool = False) -> Any:
    extensions = [ext_strings.ExtStrings(2), ext_optional.ExtOptional()]  # as in Kubernetes: no `math`, no `reverse`
    if any(name == _OLD for name, _ in variables):
        extensions.append(ext_bindings.ExtBindings())  # users' rules may not have `cel.bind`; our wrapping of them needs it
    declared = {name: TYPES[kind] for name, kind in variables}
    added = [extension(), _comparisons()] if checking else [extension(), _calls()] if loops else [extension()]
    return cel.NewEnv(variables=declared, extensions=[*extensions, *added])


def _calls() -> Any:
    """The function that stands in for a loop (see `loops`)."""
    overload = cel.Overload(CALL, cel.Type.DYN, [cel.Type.INT, TYPES["list"]], False, called)
    return cel.CelExtension("loops", [cel.FunctionDecl(CALL, [overload])])


def _comparisons() -> Any:
    """Orders between numbers of different types. The runtime has them, but would not hear of them twice."""
    pairs = [(a, b) for a in _NUMBERS for b in _NUMBERS if a != b]
    return cel.CelExtension(
        "comparisons",
        [
            cel.FunctionDecl(
                name, [cel.Overload(f"{name}_{a}_{b}", cel.Type.BOOL, [_NUMBERS[a], _NUMBERS[b]], False) for a, b in pairs]
            )
            for name in _ORDER
        ],
    )


def _compiled(expression: str, variables: Mapping[str, str], *, checking: bool = False, loops: bool = False) -> Any:
    try:
        return _environment(tuple(variables.items()), checking=checking, loops=loops).compile(expression)
    except RuntimeError as error:
        text = str(error).removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")
        raise CelError(reword_compiler(text)) from error


def check(expression: str, variables: Mapping[str, str]) -> str:
    """The type of an expression over variables of the kinds in `TYPES`: BOOL, STRING, DYN... Raises `CelError`."""
    return str(_compiled(expression, variables, checking=True).return_type().name())


def compile_rule(expression: str, variables: Mapping[str, str]) -> Program:
    """An expression over variables of the kinds in `TYPES`. Raises `CelError`."""
    return _program(expression, check(expression, variables), _loose(variables), wrap="({}\n)")


def compile_optional_old(expression: str, variables: Mapping[str, str]) -> Program:
    """A rule whose `oldSelf` is an optional: evaluate it with `optional_old(...)` among the variables."""
    result = check(expression, {**variables, "oldSelf": "dyn"})  # the message must not show the wrapping below
    return _program(expression, result, {**_loose(variables), _OLD: "map"}, wrap=f"cel.bind(oldSelf, {_OLD}.?value, ({{}}\n))")


def _program(expression: str, result: str, variables: Mapping[str, str], *, wrap: str) -> Program:
    def wrapped(text: str) -> str:
        before, _, behind = wrap.partition("{}")
        return f"{before}{text}{behind}"

    @lru_cache(maxsize=64)
    def compile_part(text: str, added: tuple[str, ...]) -> Any:
        try:
            return _compiled(wrapped(text), {**variables, **dict.fromkeys(added, "dyn")}, loops=True).eval
        except CelError as error:  # the whole compiled: what is wrong can only be a type, which no longer shows
            raise LoopError(f"No matching overloads found: {error}") from error

    return Program(expression, result, _compiled(wrapped(expression), variables).eval, take_apart(expression), compile_part)


def _loose(variables: Mapping[str, str]) -> dict[str, str]:
    """The kinds that values must be declared with to be taken from Python at all; all others run as DYN."""
    return {name: kind if kind in ("timestamp", "duration") else "dyn" for name, kind in variables.items()}


def optional_old(value: Any, *, present: bool) -> dict[str, Any]:
    return {_OLD: {"value": value} if present else {}}


def compile_condition(expression: str) -> Program:
    """A webhook's match condition: `object`, `oldObject` and `request` are known, an authorizer is not."""
    program = compile_rule(expression, CONDITION_VARIABLES)
    if program.result not in ("BOOL", "DYN"):
        raise CelError("must evaluate to bool")
    return program
