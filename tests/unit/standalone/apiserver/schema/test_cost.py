"""Custom objects as large and as wrong as 3 MiB allow: judged in time that grows with their size alone.

A quadratic step takes minutes here, so the timeout tells it apart on any machine.
"""

from __future__ import annotations

from typing import Any

import pytest

from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.schema.custom import compile_custom
from ullage.standalone.apiserver.schema.faults import MOST_FAULTS

pytestmark = pytest.mark.timeout(20)

MANY = 30_000
KEYED = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
SPENT = "validation failed due to running out of cost budget, no further validation rules will be run"


def schema(**spec: Any) -> Any:
    return compile_custom({"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}})


def items(**more: Any) -> Json:
    return {"type": "array", **KEYED, "items": {"type": "object", "properties": {"name": {"type": "string"}, "n": more}}}


def obj(**spec: Any) -> Json:
    return {"apiVersion": "e/v1", "kind": "E", "metadata": {"name": "a"}, "spec": spec}


def numbered(value: Any) -> list[Json]:
    return [{"name": f"i{number}", "n": value} for number in range(MANY)]


def test_what_was_wrong_before_is_forgiven_item_by_item() -> None:
    kind = schema(l=items(type="integer", maximum=5), other={"type": "string"})
    wrong = [{"name": f"i{number}", "n": 9} for number in range(5_000)]
    assert kind.validate(obj(l=wrong, other="b"), obj(l=wrong[::-1], other="a")) == []
    [error] = kind.validate(obj(l=[*wrong, {"name": "x", "n": 9}]), obj(l=wrong[::-1]))
    assert error.field == "spec.l[5000].n"


def test_the_search_for_faults_ends() -> None:
    kind = schema(l={"type": "array", "items": {"type": "integer"}})
    assert len(kind.validate(obj(l=["x"] * 500_000))) == MOST_FAULTS
    assert len(kind.validate(obj(l=["x"] * 500_000), obj(l=["x"] * 500_000))) == MOST_FAULTS, "not all of it was looked at"


def test_alternatives_with_many_faults_each() -> None:
    wrong = {"type": "array", "items": {"type": "integer"}}
    kind = schema(l={"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": True}, "anyOf": [wrong, wrong]})
    assert len(kind.validate(obj(l=["x"] * 300_000))) == MOST_FAULTS


def test_rules_on_a_change_find_the_old_items() -> None:
    rule = {"rule": "self.n == oldSelf.n", "message": "no change"}
    kind = schema(l={**items(type="integer"), "items": {**items(type="integer")["items"], "x-kubernetes-validations": [rule]}})
    old = numbered(1)[:3_000]
    assert kind.validate(obj(l=old), obj(l=old[::-1])) == []
    assert [error.field for error in kind.validate(obj(l=[{"name": "i7", "n": 2}, *old[8:]]), obj(l=old[::-1]))] == [
        "spec.l[0]"
    ]


def test_rules_end_when_their_budget_is_spent() -> None:
    rule = {"rule": "self.all(x, self.all(y, x.name != y.name || x == y))"}
    kind = schema(l={**items(type="integer"), "x-kubernetes-validations": [rule]})
    assert kind.validate(obj(l=numbered(1)[:20])) == []
    [error] = kind.validate(obj(l=numbered(1)))
    assert str(error) == f'spec.l: Invalid value: "array": {SPENT}'
    [error] = kind.validate(obj(l=numbered(1)), obj(l=numbered(2)))
    assert str(error) == f'spec.l: Invalid value: "array": {SPENT}'


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(lambda: obj(**{f"f{number}": 1 for number in range(200_000)}), id="fields that are not known"),
        pytest.param(lambda: obj(m={f"f{number}": None for number in range(200_000)}), id="nulls in a map"),
    ],
)
def test_pruning_and_defaults(made: Any) -> None:
    kind = schema(m={"type": "object", "additionalProperties": {"type": "string"}})
    value = made()
    kind.default(value)
    kind.prune(value)
    assert len(value["spec"]) <= 1
    assert not value["spec"].get("m")
