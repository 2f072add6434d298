"""Our own patterns and comparisons over the worst texts and lists of a tenant: none takes more than linear time.

A quadratic step takes minutes here, so the timeout tells it apart on any machine.
"""

from __future__ import annotations

from typing import Any

import pytest

from ullage.quantity import Quantity, QuantityError
from ullage.selectors import key_faults, subdomain_faults, value_faults
from ullage.standalone.apiserver.codec.json import BadBody, parse_json
from ullage.standalone.apiserver.kinds.strategies import STRATEGIES
from ullage.standalone.apiserver.kinds.strategies.base import changes
from ullage.standalone.apiserver.schema import formats
from ullage.standalone.apiserver.tables.jsonpath import MOST_FOUND, JsonPathError, compile_path

pytestmark = pytest.mark.timeout(20)

LONG = 300_000
TEXTS = {
    "digits and a letter": "1" * LONG + "!",
    "a fraction and a letter": "0." + "1" * LONG + "!",
    "letters": "a" * LONG + "!",
    "labels": "a." * LONG + "!",
    "dashes": "a" + "-" * LONG,
    "seconds": "1s" * LONG + "!",
    "spaces": "1" + " " * LONG + "x",
    "colons": "1:" * LONG,
    "escapes": "http://a/" + "%" * LONG,
    "a period": "P" + "1" * LONG + "X",
    "hours": "1 hour " * LONG + "x",
    "addresses": "a@" * LONG,
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_a_text_that_is_nearly_right(text: str) -> None:
    with pytest.raises(QuantityError):
        Quantity.parse(text)
    for faults in (key_faults, subdomain_faults, value_faults):
        assert faults(text)
    for accepts in formats.STRINGS.values():
        accepts(text)


def test_a_number_that_is_too_large_behind_many_digits() -> None:
    with pytest.raises(BadBody, match="1e999"):
        parse_json(b'["' + b"1" * LONG + b'", 1e999]')


def test_a_pod_with_thousands_of_tolerations_changes() -> None:
    def pod(*, reverse: bool, count: int = 20_000) -> dict[str, Any]:
        tolerations = [{"key": f"k{number}", "operator": "Exists"} for number in range(count)]
        return {"metadata": {"name": "a"}, "spec": {"tolerations": tolerations[::-1] if reverse else tolerations}}

    update = STRATEGIES[("", "Pod")].validate_update
    assert update(pod(reverse=True), pod(reverse=False)) == []
    [error] = update(pod(reverse=False, count=19_999), pod(reverse=False))
    assert error.field == "spec"


def test_the_difference_of_large_objects_is_told_in_part() -> None:
    old = {"l": [{"name": f"v{number % 90}"} for number in range(50_000)]}
    new = {"l": [*old["l"][:20_000], {"name": "x"}, *old["l"][20_001::-1]]}
    told = changes(old, new)
    assert '"x"' in told
    assert len(told) < 500_000


def test_descents_through_one_tree() -> None:
    deep: Any = 1
    for _ in range(300):
        deep = {"a": deep}
    assert len(compile_path("..a..a..a..a").find(deep)) <= MOST_FOUND
    assert len(compile_path("..a").find(deep)) == 300


def test_a_filter_with_many_spaces() -> None:
    with pytest.raises(JsonPathError):
        compile_path("[?(@.a" + " " * LONG + "')]")
    assert compile_path('[?(@.a  ==  "x y")].b').find([{"a": "x y", "b": 1}, {"a": "z", "b": 2}]) == [1]
