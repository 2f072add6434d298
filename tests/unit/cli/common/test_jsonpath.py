"""Templates of -o jsonpath= and -o custom-columns=. What kubectl prints for the same was looked up with kubectl 1.36."""

from __future__ import annotations

from typing import Any

import pytest

from ullage.cli.common.jsonpath import cell, custom_columns, parse, path, rendered
from ullage.errors import BadInput

ONE: dict[str, Any] = {
    "metadata": {"name": "a", "labels": {"app.kubernetes.io/name": "db"}},
    "spec": {"size": 3, "on": True, "tags": ["x", "y", "z"]},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Error", "status": "False"}]},
}
LIST: dict[str, Any] = {"items": [ONE, {"metadata": {"name": "b"}}]}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        pytest.param("{.metadata.name}", "a", id="a field"),
        pytest.param(".metadata.name", "a", id="a path without braces"),
        pytest.param("metadata.name", "a", id="a path without a dot"),
        pytest.param("{$.metadata.name}", "a", id="from the root"),
        pytest.param("name={.metadata.name}!", "name=a!", id="text around it"),
        pytest.param("{.spec.size} {.spec.on}", "3 true", id="numbers and truths"),
        pytest.param("{.spec.tags[*]}", "x y z", id="all of a list"),
        pytest.param("{.spec.tags[0]}{.spec.tags[-1]}{.spec.tags[9]}", "xz", id="one of a list, from either end, or none"),
        pytest.param("{.spec.tags}", '["x","y","z"]', id="a list whole"),
        pytest.param(r"{.metadata.labels.app\.kubernetes\.io/name}", "db", id="a key with dots"),
        pytest.param("{.metadata.labels['app.kubernetes.io/name']}", "db", id="a key in quotes"),
        pytest.param('{.status.conditions[?(@.type=="Ready")].status}', "True", id="those that equal"),
        pytest.param("{.status.conditions[?(@.type!='Ready')].status}", "False", id="those that do not"),
        pytest.param("{.status.conditions[?(@.status)].type}", "Ready Error", id="those that have it"),
        pytest.param("{.spec.ghost.name}", "", id="what is missing is nothing"),
    ],
)
def test_one_object(template: str, text: str) -> None:
    assert rendered(parse("-o", template), ONE) == text


def test_a_list_line_by_line() -> None:
    template = '{range .items[*]}{.metadata.name}{"\\t"}{.spec.size}{"\\n"}{end}'
    assert rendered(parse("-o", template), LIST) == "a\t3\nb\t\n"


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        pytest.param("", "no template", id="nothing"),
        pytest.param("{.a", "a brace without its other", id="an open brace"),
        pytest.param("{range .items[*]}{.a}", "{range} without {end}", id="an open range"),
        pytest.param("{.a}{end}", "{end} without {range}", id="an end of nothing"),
        pytest.param("{.a[?(@.b>3)]}", "not a path, from ", id="a comparison that is not known"),
        pytest.param("{..name}", "not a path, from '..name' on", id="at any depth"),
    ],
)
def test_what_is_not_understood_is_refused(template: str, problem: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse("--output", template)
    assert problem in str(caught.value)


def test_columns() -> None:
    found = custom_columns("-o", "NAME:.metadata.name,TAGS:.spec.tags[*],NONE:.ghost")
    assert [(name, cell(of.of(ONE))) for name, of in found] == [("NAME", "a"), ("TAGS", "x,y,z"), ("NONE", "<none>")]


@pytest.mark.parametrize("given", ["", "NAME", "NAME:", ":.a", "NAME:.a,"])
def test_what_is_no_column(given: str) -> None:
    with pytest.raises(BadInput, match="NAME:PATH,… is allowed"):
        custom_columns("--output", given)


def test_a_path_of_nothing_is_the_object() -> None:
    assert path("-o", "@").of(ONE) == [ONE]
