"""The JSONPath subset of additionalPrinterColumns."""

from __future__ import annotations

from typing import Any

import pytest

from ullage.standalone.apiserver.tables.jsonpath import JsonPathError, compile_path

DOCUMENT = {
    "metadata": {"labels": {"app.kubernetes.io/name": "web", "tier": "front"}},
    "spec": {"size": 3, "a": ["p", "q", "r", "s"], "nested": {"a": {"b": "deep"}}, "nothing": None},
    "list": [{"n": "a", "v": 1, "on": True}, {"n": "b", "v": 2, "on": False, "tag": "]x"}, {"n": "c", "v": 3.5}],
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        pytest.param(".spec.size", [3], id="a field"),
        pytest.param(".spec.nope.deeper", [], id="a missing field names nothing"),
        pytest.param(".spec.size.deeper", [], id="a field of a number names nothing"),
        pytest.param(".spec.nothing", [None], id="a null is something"),
        pytest.param(r".metadata.labels.app\.kubernetes\.io/name", ["web"], id="a key with escaped dots"),
        pytest.param(r".metadata.labels['app\.kubernetes\.io/name']", ["web"], id="a quoted key with escaped dots"),
        pytest.param(".metadata.labels['app.kubernetes.io/name']", [], id="a quoted key with bare dots is a path"),
        pytest.param(".spec['nested.a.b']", ["deep"], id="a quoted path"),
        pytest.param('.spec["size"]', [3], id="double quotes"),
        pytest.param(".metadata.labels['tier','nope']", ["front"], id="several keys"),
        pytest.param(".spec.a[1]", ["q"], id="an index"),
        pytest.param(".spec.a[-1]", ["s"], id="an index from the end"),
        pytest.param(".spec.a[4]", [], id="an index past the end names nothing"),
        pytest.param(".spec.a[-5]", [], id="an index before the start names nothing"),
        pytest.param(".spec.a[0,2]", ["p", "r"], id="several indexes"),
        pytest.param(".spec.a[1:3]", ["q", "r"], id="a slice"),
        pytest.param(".spec.a[-2:]", ["r", "s"], id="the last two"),
        pytest.param(".spec.a[:1]", ["p"], id="up to"),
        pytest.param(".spec.a[::2]", ["p", "r"], id="every second"),
        pytest.param(".spec.a[2:99]", ["r", "s"], id="a slice is clipped"),
        pytest.param(".spec.a[*]", ["p", "q", "r", "s"], id="every item"),
        pytest.param(".metadata.labels.*", ["web", "front"], id="every value"),
        pytest.param(".list[*].n", ["a", "b", "c"], id="a field of every item"),
        pytest.param(".list.n", [], id="a field of a list names nothing"),
        pytest.param("..b", ["deep"], id="descent"),
        pytest.param("..v", [1, 2, 3.5], id="descent through lists"),
        pytest.param('.list[?(@.n=="b")].v', [2], id="a filter on a string"),
        pytest.param(".list[?(@.n == 'b')].v", [2], id="a filter with blanks and single quotes"),
        pytest.param(".list[?(@.v>1)].n", ["b", "c"], id="a filter on more"),
        pytest.param(".list[?(@.v<=2)].n", ["a", "b"], id="a filter on at most"),
        pytest.param(".list[?(@.v==2.0)].n", ["b"], id="numbers are numbers"),
        pytest.param(".list[?(@.n!='a')].n", ["b", "c"], id="a filter on difference"),
        pytest.param(".list[?(@.on)].n", ["a", "b"], id="a filter on presence"),
        pytest.param(".list[?(@.on==true)].n", ["a"], id="a filter on truth"),
        pytest.param(".list[?(@.v=='1')].n", [], id="a number is not a string"),
        pytest.param(".list[?(@.tag==']x')].n", ["b"], id="brackets in quotes are text"),
        pytest.param(".list[?('b'==@.n)].v", [2], id="the constant may come first"),
    ],
)
def test_find(path: str, found: list[Any]) -> None:
    assert compile_path(path).find(DOCUMENT) == found


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(".spec[", id="an open bracket"),
        pytest.param(".spec[]", id="an empty bracket"),
        pytest.param(".a[x]", id="a bare word in brackets"),
        pytest.param(".a[?(@.x==y)]", id="a bare word in a filter"),
        pytest.param(".a[?(@.x==1 && @.y==2)]", id="two conditions"),
        pytest.param(".a[0:2:0]", id="a slice that does not move"),
        pytest.param(".a b", id="a blank"),
        pytest.param("{.a}", id="braces"),
    ],
)
def test_unreadable(path: str) -> None:
    with pytest.raises(JsonPathError):
        compile_path(path)
