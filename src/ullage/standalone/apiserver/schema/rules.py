"""`x-kubernetes-validations`: the CEL rules of a schema, found at their places and run over an object.

Rules on a change (`oldSelf`) run only where the old value is known to be the same thing as the new one: fields of objects,
entries of maps, items of lists with keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.schema.cel import program as cel
from ullage.standalone.apiserver.schema.cel import syntax
from ullage.standalone.apiserver.schema.cel.loops import Budget, Exhausted
from ullage.standalone.apiserver.schema.cel.values import Convert, kind_of, names_field, typed, variable_maker, with_times
from ullage.standalone.apiserver.schema.faults import Fault
from ullage.standalone.apiserver.schema.node import Node, Place
from ullage.standalone.apiserver.schema.prune import MapKey, spell
from ullage.standalone.apiserver.schema.ratchet import Counterparts
from ullage.standalone.apiserver.status import FieldError, show

_NOTHING: Any = object()  # no old value, which is not the same as an old null
_SPENT = "validation failed due to running out of cost budget, no further validation rules will be run"
_PREFIX = {"FieldValueForbidden": "Forbidden", "FieldValueRequired": "Required value"}


@dataclass(frozen=True, slots=True)
class ValidationRule:
    """One compiled rule."""

    source: str
    message: str
    reason: str
    field: str  # behind the place of `self`, where the rule names another one: `.m[key]`
    program: cel.Program
    words: cel.Program | None  # the messageExpression
    optional_old: bool
    on_change: bool  # reads oldSelf
    new: Convert
    old: Convert

    def variables(self, value: Any, old: Any) -> dict[str, Any]:
        found = {"self": self.new(value)}
        if self.optional_old:
            present = old is not _NOTHING and old is not None
            return found | cel.optional_old(self.old(old) if present else None, present=present)
        if self.on_change:
            found["oldSelf"] = self.old(old)
        return found


@dataclass(frozen=True, slots=True)
class RuleNode:
    """A place with rules at or below it."""

    node: Node
    rules: tuple[ValidationRule, ...]
    properties: Mapping[str, RuleNode]
    additional: RuleNode | None
    items: RuleNode | None


def compile_rules(node: Node, *, root: bool = True) -> RuleNode | None:
    """The rules at and below a node; None where there are none. Raises `cel.CelError`."""
    rules = tuple(compile_rule(node, raw, root=root) for raw in node.raw.get("x-kubernetes-validations") or ())
    below = {name: found for name, child in node.properties.items() if (found := compile_rules(child, root=False))}
    additional = compile_rules(node.additional, root=False) if node.additional else None
    items = compile_rules(node.items, root=False) if node.items else None
    if not (rules or below or additional or items):
        return None
    return RuleNode(node, rules, below, additional, items)


def compile_rule(node: Node, raw: Json, *, root: bool) -> ValidationRule:
    """One rule, checked as far as its types are known. Raises `cel.CelError`."""
    source, optional = raw.get("rule", ""), bool(raw.get("optionalOldSelf"))
    on_change = syntax.mentions(source, "oldSelf")
    words = raw.get("messageExpression")
    return ValidationRule(
        source=source,
        message=raw.get("message", ""),
        reason=raw.get("reason") or "FieldValueInvalid",
        field=re.sub(r"\['(.*?)'\]", r"[\1]", raw.get("fieldPath", "")),
        program=_compile(node, source, optional=optional, root=root),
        words=_compile(node, words, optional=optional, root=root) if words else None,
        optional_old=optional,
        on_change=on_change,
        new=variable_maker(node, f"({source})({words or ''})", variable="self", root=root),
        old=variable_maker(node, f"({source})({words or ''})", variable="oldSelf", root=root),
    )


def _compile(node: Node, source: str, *, optional: bool, root: bool) -> cel.Program:
    known = ("self",) if optional else ("self", "oldSelf")
    for variable in known:
        if wrong := syntax.undefined_field(source, variable, known=lambda path: names_field(node, path, root=root)):
            raise cel.CelError(wrong)
    kind = kind_of(node)
    _check_types(node, source, {"self": kind, "oldSelf": "dyn" if optional else kind}, known=known)
    timed = with_times(node, source)
    if optional:
        return cel.compile_optional_old(timed, {"self": kind})
    return cel.compile_rule(timed, {"self": kind, "oldSelf": kind})


def _check_types(node: Node, source: str, variables: dict[str, str], *, known: tuple[str, ...]) -> None:
    stand_in, names = typed(node, source, variables=known)
    try:
        cel.check(stand_in, {**variables, **names})
    except cel.CelError as error:
        text = str(error)
        for ours, theirs in zip(stand_in.split("\n"), source.split("\n"), strict=True):
            text = text.replace(f" | {ours}\n", f" | {theirs}\n")
        raise cel.CelError(text) from None


def run_all(rules: RuleNode, value: Any, *, old: Any = _NOTHING, faults: list[Fault]) -> None:
    """Runs the rules over an object (and the old one, on an update), appending what fails, until the budget is spent."""
    with suppress(Exhausted):  # the last fault says so
        run(rules, value, old=old, faults=faults, budget=Budget())


def run(
    place_rules: RuleNode, value: Any, *, old: Any = _NOTHING, place: Place = None, faults: list[Fault], budget: Budget
) -> None:
    """The same at and below a place. Raises `Exhausted`."""
    if value is None:
        return
    for rule in place_rules.rules:
        if rule.on_change and not rule.optional_old and (old is _NOTHING or old is None):
            continue
        fault = _judge(rule, place_rules.node, value=value, old=old, place=place, budget=budget)
        if fault is not None:
            faults.append(fault)
            if budget.left < 0:
                raise Exhausted
    if type(value) is dict:
        before = old if type(old) is dict else {}
        for key, below in place_rules.properties.items():
            if key in value:
                run(below, value[key], old=before.get(key, _NOTHING), place=(place, key), faults=faults, budget=budget)
        if place_rules.additional is not None:
            for key, item in value.items():
                known = before.get(key, _NOTHING)
                run(place_rules.additional, item, old=known, place=(place, MapKey(key)), faults=faults, budget=budget)
    elif type(value) is list and place_rules.items is not None:
        counterparts = Counterparts(place_rules.node, old) if type(old) is list else None
        for index, item in enumerate(value):
            counterpart = counterparts.find(item) if counterparts is not None else None
            known = _NOTHING if counterpart is None else counterpart
            run(place_rules.items, item, old=known, place=(place, index), faults=faults, budget=budget)


def _judge(rule: ValidationRule, node: Node, *, value: Any, old: Any, place: Place, budget: Budget) -> Fault | None:
    variables = rule.variables(value, old)
    outcome = rule.program.evaluate(variables, budget)
    if outcome is True:
        return None
    if outcome == cel.OUT_OF_BUDGET:
        text = f'Invalid value: "{_type_name(node, value)}": {_SPENT}'
        return Fault(place, FieldError("FieldValueInvalid", spell(place) or "<nil>", text), ratchets=False)
    path = spell(place) + rule.field or "<nil>"
    if isinstance(outcome, cel.Failure):
        error = FieldError("FieldValueInvalid", path, f'Invalid value: "{_type_name(node, value)}": {_blame(rule, outcome)}')
    else:
        error = _refusal(rule, path.removeprefix(".") if place is None else path, value=value, words=_words(rule, variables))
    return Fault(place, error, ratchets=not rule.on_change)


def _type_name(node: Node, value: Any) -> str:
    return node.type or ("string" if isinstance(value, str) else "integer")


def _blame(rule: ValidationRule, failure: cel.Failure) -> str:
    if failure.message == "no such overload":
        text = "call arguments did not match a supported operator, function or macro signature for rule"
        return f"'no such overload': {text}: {rule.source}"
    return f"{failure.message} evaluating rule: {rule.message or rule.source}"


def _words(rule: ValidationRule, variables: Mapping[str, Any]) -> str:
    """The messageExpression's text if it gives a usable one, else the message, else the rule itself."""
    if rule.words is not None:
        found = rule.words.evaluate(variables)
        if isinstance(found, str) and found.strip() and "\n" not in found:
            return found.strip()
    return rule.message or f"failed rule: {rule.source.strip()}"


def _refusal(rule: ValidationRule, path: str, *, value: Any, words: str) -> FieldError:
    if rule.reason == "FieldValueDuplicate":
        return FieldError(rule.reason, path, f"Duplicate value: {show(value)}")
    if rule.reason in _PREFIX:
        return FieldError(rule.reason, path, f"{_PREFIX[rule.reason]}: {words}")
    shown = "" if isinstance(value, (dict, list)) else f"{show(value)}: "
    return FieldError(rule.reason, path, f"Invalid value: {shown}{words}")
