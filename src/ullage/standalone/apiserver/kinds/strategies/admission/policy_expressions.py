"""The expressions of a policy: what they may read, what they must give.

There is no `authorizer` here. An expression that asks it does not compile, and the policy is refused: better than one that
is stored and cannot be held to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from ullage.standalone.apiserver.schema.cel.loops import Budget
from ullage.standalone.apiserver.schema.cel.program import TYPES, CelError, Failure, Program, check, compile_rule
from ullage.standalone.apiserver.schema.cel.syntax import chains, complaint, fields_used, mentions, undefined_field

_OBJECTS = {"object": "dyn", "oldObject": "dyn", "request": "dyn", "namespaceObject": "dyn"}
_ALL = {**_OBJECTS, "params": "dyn", "variables": "map"}
_TYPED = ("request", "namespaceObject")  # to kube-apiserver these are no mere maps, so their fields have types
_KINDS = frozenset(TYPES)
_MISSING = "no such key: "


@lru_cache(maxsize=2048)
def compiled(expression: str) -> Program:
    """Raises CelError."""
    return compile_rule(expression, _ALL)


@dataclass(frozen=True, slots=True)
class Checker:
    """Tells what is wrong with an expression when its policy is written."""

    params: bool  # whether the policy has a paramKind
    variables: Mapping[str, str] | None  # those that may be read here, with their types; None: not even `variables` itself

    def fault(self, expression: str, wanted: str = "") -> str:
        """Why it cannot stand where a value of the type (`bool`, `string`; any if empty) is wanted, or nothing."""
        try:
            found = self.kind(expression)
        except CelError as error:
            return f"compilation failed: {error}"
        if not wanted or found == wanted or (found == "dyn" and any(mentions(expression, name) for name in _TYPED)):
            return ""
        return f"must evaluate to {wanted} but got {found}"

    def kind(self, expression: str) -> str:
        """The type that it is known to have. Raises CelError."""
        known = {**_OBJECTS, **({"params": "dyn"} if self.params else {})}
        self._check_declared(expression)
        if self.variables is None:
            return check(expression, known).lower()
        found = check(expression, {**known, "variables": "map"}).lower()
        variables = self.variables
        if unknown := undefined_field(expression, "variables", known=lambda path: path[0] in variables):
            raise CelError(unknown)
        if found != "dyn":
            return found
        typed = {_flat(name): kind for name, kind in variables.items()}
        return check(_flattened(expression), {**known, **typed, "variables": "map"}).lower()

    def _check_declared(self, expression: str) -> None:
        """The library would complain about the field behind a variable that is not there."""
        for name, declared in (("params", self.params), ("variables", self.variables is not None)):
            place = next((start for start, _ in chains(expression, name)), None)
            if place is not None and not declared:
                raise CelError(complaint(expression, place, f"undeclared reference to '{name}' (in container '')"))

    def with_variable(self, name: str, expression: str) -> Checker:
        """For the expressions behind a variable: it has a type to them, if it could be told."""
        try:
            kind = self.kind(expression)
        except CelError:
            kind = "dyn"
        return Checker(self.params, {**(self.variables or {}), name: kind if kind in _KINDS else "dyn"})


def _flat(name: str) -> str:
    return f"variables__{name}"


def _flattened(expression: str) -> str:
    """The expression with `variables__a` for every `variables.a`: the checker knows types of variables, not of fields."""
    text = expression
    for start, steps in sorted(chains(expression, "variables"), reverse=True, key=lambda found: found[0]):
        if steps:
            text = text[:start] + _flat(steps[0].name) + text[steps[0].end :]
    return text


@dataclass(slots=True)
class Scope:
    """The values that the expressions of one evaluation read. A variable is evaluated when one first asks for it."""

    values: dict[str, Any]
    variables: Mapping[str, str]  # name to expression
    budget: Budget = field(default_factory=Budget)  # of all its expressions together
    _known: dict[str, Any] = field(default_factory=dict)

    def evaluate(self, expression: str) -> Any:
        """The value, or a Failure."""
        try:
            program = compiled(expression)
        except CelError as error:  # stored before it was checked
            return Failure(f"compilation failed: {error}")
        if not mentions(expression, "variables"):
            return program.evaluate(self.values, self.budget)
        names = fields_used(expression, "variables")
        found = {name: self._variable(name) for name in (self.variables if names is None else names) if name in self.variables}
        failed = {name: value for name, value in found.items() if isinstance(value, Failure)}
        usable = {name: value for name, value in found.items() if name not in failed}
        value = program.evaluate({**self.values, "variables": usable}, self.budget)
        return _blamed(value, failed) if isinstance(value, Failure) else value

    def _variable(self, name: str) -> Any:
        if name not in self._known:
            self._known[name] = Failure(f"variable {name} refers to itself")
            self._known[name] = self.evaluate(self.variables[name])
        return self._known[name]


def _blamed(failure: Failure, failed: Mapping[str, Failure]) -> Failure:
    """An expression that missed a variable failed for the variable's reason."""
    name = failure.message.removeprefix(_MISSING)
    if failure.message.startswith(_MISSING) and name in failed:
        return Failure(f'composited variable "{name}" fails to evaluate: {failed[name].message}')
    return failure
