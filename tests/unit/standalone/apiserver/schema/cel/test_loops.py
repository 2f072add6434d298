"""Loops of rules over much data: what they give, and that they end."""

from __future__ import annotations

from typing import Any

import pytest

from ullage.standalone.apiserver.kinds.strategies.admission.policy_expressions import Scope
from ullage.standalone.apiserver.schema.cel import program as cel
from ullage.standalone.apiserver.schema.cel.loops import Budget, take_apart

NUMBERS = list(range(110))
PADDING = "x" * 5_000  # enough text for the loops to be taken apart


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("self.l.all(x, self.l.all(y, x + y >= 0))", True, id="every pair of 110 items"),
        pytest.param("self.l.all(x, self.l.exists(y, x == y))", True, id="each is found"),
        pytest.param("self.l.all(x, self.l.exists_one(y, x == y))", True, id="each is found once"),
        pytest.param("self.l.exists(x, self.l.all(y, x > y))", False, id="none is above all"),
        pytest.param("self.l.map(x, self.l.filter(y, y < x).size()).exists(n, n == 109)", True, id="lists of lists"),
        pytest.param("self.l.filter(x, self.l.exists(y, y == x + 1)).size() == 109", True, id="a filter"),
        pytest.param(
            "self.l.map(x, x > 100, x * 2) == [202,204,206,208,210,212,214,216,218]", True, id="a map with a condition"
        ),
        pytest.param("has(self.none) && self.none.all(x, x)", False, id="a loop that is not reached"),
        pytest.param(
            "has(self.none) ? self.none.all(x, x) : self.l.all(x, self.l.all(y, y >= 0))", True, id="a loop in a branch"
        ),
        pytest.param("self.m.all(k, self.m[k] == k)", True, id="the keys of a map"),
        pytest.param(
            "'a,b'.split(',').all(x, x in ['a', 'b']) && self.l.all(x, self.l.all(y, true))", True, id="literals with commas"
        ),
        pytest.param("self.l.all(x, self.l.all(y, 1 / (x - 200) < 1 && [x].all(z, z == x)))", True, id="three deep"),
        pytest.param("self.l.all(x, x / 0 == 1 || x == 5) || true", True, id="an error that does not matter"),
        pytest.param("self.l.all(x, x == 109 ? false : 1 / 0 == 1)", False, id="one item decides, others fail"),
        pytest.param("self.l.exists(x, x == 109 ? true : 1 / 0 == 1)", True, id="one item is enough, others fail"),
        pytest.param("self.l.all(x, 1 / (x - 3) < 99)", cel.Failure("division by zero"), id="an error that matters"),
        pytest.param("self.none.all(x, true)", cel.Failure("no such key: none"), id="a list that is not there"),
        pytest.param("self.t.all(x, true)", cel.Failure("no such overload"), id="a loop over no list"),
        pytest.param("self.l.all(x, self.o.n.all(y, y + x >= 0))", True, id="a list below a field"),
        pytest.param("self.l.all(self, self >= 0)", True, id="an item that takes the name of a variable"),
    ],
)
@pytest.mark.parametrize("padding", ["", PADDING], ids=["whole", "in parts"])
def test_a_loop(expression: str, expected: Any, padding: str) -> None:
    value = {"l": NUMBERS, "m": {"a": "a", "b": "b"}, "t": "t", "o": {"n": [1, 2]}, "padding": padding}
    also = "&& self.padding != '-'" if expected is False else "|| self.padding == '-'"  # so that the padding is read
    rule = cel.compile_rule(f"({expression}) {also}", {"self": "dyn"})
    assert rule.evaluate({"self": value}) == expected


def test_the_old_value_inside_loops() -> None:
    rule = cel.compile_optional_old("self.all(x, self.all(y, x + y >= oldSelf.orValue(3)))", {"self": "dyn"})
    assert rule.evaluate({"self": [1] * 200, **cel.optional_old(2, present=True)}) is True
    assert rule.evaluate({"self": [1] * 200, **cel.optional_old(None, present=False)}) is False


LONG = [f"v{number}" for number in range(100_000)]


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("self.l.all(x, self.l.all(y, x == y || true))", id="pairs of a hundred thousand"),
        pytest.param("self.l.all(x, self.l.exists_one(y, x == y))", id="is there none twice"),
        pytest.param("self.l.all(x, !self.text.contains(x + '-'))", id="every item is looked for in a long text"),
        pytest.param("self.l.all(x, self.text.size() > 0)", id="the length of a long text, again and again"),
        pytest.param("self.l.map(x, self.text + x).size() > 0", id="a long text for every item"),
        pytest.param("self.l.all(x, !self.text.matches(x + '$'))", id="every item is a pattern"),
        pytest.param("lists.range(1000000000).size() > 0", id="a billion numbers"),
    ],
)
def test_a_loop_that_would_take_long_ends(expression: str) -> None:
    rule = cel.compile_rule(expression, {"self": "dyn"})
    found = rule.evaluate({"self": {"l": LONG, "text": "x" * 2_000_000}})
    assert found == cel.OUT_OF_BUDGET or (isinstance(found, cel.Failure) and "lists.range" in found.message)


def test_a_budget_is_shared() -> None:
    rule = cel.compile_rule("self.all(x, x >= 0)", {"self": "dyn"})
    budget = Budget(100_000)  # an item and its step cost three
    assert rule.evaluate({"self": list(range(20_000))}, budget) is True
    assert rule.evaluate({"self": list(range(20_000))}, budget) == cel.OUT_OF_BUDGET


def test_only_what_is_read_counts() -> None:
    rule = cel.compile_rule("object.metadata.name == 'a' && !has(object.spec.x)", {"object": "dyn"})
    assert rule.evaluate({"object": {"metadata": {"name": "a"}, "data": LONG, "spec": {"y": LONG}}}) is True


def test_an_expression_is_taken_apart_at_its_outermost_loops() -> None:
    part = take_apart("a.b(1)[0].filter(x, x).map(y, y.all(z, z)) == [1, 2].map(v, v) && 'x.all(a, b)' != ''")
    assert part.text == "__loop(0, []) == __loop(1, []) && 'x.all(a, b)' != ''"
    assert [(loop.kind, loop.variable, loop.body.text) for loop in part.loops] == [
        ("map", "y", " __loop(0, [y])"),
        ("map", "v", " v"),
    ]
    assert part.loops[0].receiver.text == "__loop(0, [])"


def test_the_expressions_of_a_policy_share_a_budget() -> None:
    scope = Scope({"object": {"data": list(range(100_000))}}, {"large": "object.data.exists(x, x > 90000)"})
    assert scope.evaluate("variables.large") is True
    assert scope.evaluate("object.data.all(x, x >= 0)") == cel.OUT_OF_BUDGET
