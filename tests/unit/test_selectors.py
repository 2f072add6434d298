"""Selectors, held against what kube-apiserver 1.36 answered to the same texts."""

from __future__ import annotations

import itertools
import re
import tracemalloc
from typing import Any

import pytest

from ullage.selectors import FieldSelector, LabelSelector, SelectorError, field_text, key_faults, subdomain_faults, value_faults

LABELS = {"app": "db", "tier": "gold", "size": "5"}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        pytest.param("", True, id="nothing asked matches everything"),
        pytest.param("  ", True, id="spaces ask nothing"),
        pytest.param("app=db", True, id="equal"),
        pytest.param("app==db", True, id="two equals signs mean one"),
        pytest.param("app = web", False, id="another value"),
        pytest.param("zone=", False, id="an empty value is not an absent label"),
        pytest.param("app!=web", True, id="unequal"),
        pytest.param("zone!=web", True, id="an absent label is unequal to everything"),
        pytest.param("app in (web, db)", True, id="one of several"),
        pytest.param("app in(web)", False, id="none of them"),
        pytest.param("app notin (web)", True, id="not among them"),
        pytest.param("zone notin (web)", True, id="an absent label is not among them"),
        pytest.param("app", True, id="the label is there"),
        pytest.param("!app", False, id="the label must not be there"),
        pytest.param("! zone", True, id="a label that is not there"),
        pytest.param("size>4", True, id="greater"),
        pytest.param("size<5", False, id="not less"),
        pytest.param("app>1", False, id="a label that is no number is never greater"),
        pytest.param("app=db,tier=lead", False, id="every term must hold"),
        pytest.param("app,!zone,tier!=lead,size in (5,6)", True, id="many terms"),
        pytest.param("in in (in)", False, id="in may be a key and a value"),
    ],
)
def test_label_selector_matches(text: str, matches: bool) -> None:
    assert LabelSelector.parse(text).matches(LABELS) is matches


def test_empty_parentheses_ask_for_the_empty_value() -> None:
    assert LabelSelector.parse("a in ()").matches({"a": ""})
    assert LabelSelector.parse("a in (x,)").matches({"a": ""})
    assert not LabelSelector.parse("a in (,)").matches({"a": "x"})


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        pytest.param("b=1, a", "a,b=1", id="sorted by key"),
        pytest.param("a in (y,x,x)", "a in (x,y)", id="values sorted and once"),
        pytest.param("a notin(x),!b,c>1,d!=e", "a notin (x),!b,c>1,d!=e", id="every operator"),
    ],
)
def test_label_selector_text(text: str, canonical: str) -> None:
    assert str(LabelSelector.parse(text)) == canonical


NAME = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a=b,", "found '', expected: identifier after ','", id="a comma at the end"),
        pytest.param(",a", "found ',', expected: !, identifier, or 'end of string'", id="a comma at the start"),
        pytest.param("a,,b", "found ',', expected: identifier after ','", id="two commas"),
        pytest.param("a=b c", "found 'c', expected: ',' or 'end of string'", id="two values"),
        pytest.param("a in x", "unable to parse requirement: found 'x' expected: '('", id="no parenthesis"),
        pytest.param("a in (x", "unable to parse requirement: found '', expected: ',' or ')'", id="an open parenthesis"),
        pytest.param("a in (b))", "found ')', expected: ',' or 'end of string'", id="one parenthesis too many"),
        pytest.param("a in (a b)", "unable to parse requirement: found 'b', expected: ',' or ')'", id="no comma between"),
        pytest.param(
            "a>x",
            'unable to parse requirement: values[0]: Invalid value: "x": '
            "for 'Gt', 'Lt' operators, the value must be an integer",
            id="greater than a word",
        ),
        pytest.param("a>=1", "unable to parse requirement: found '=', expected: identifier", id="greater or equal"),
        pytest.param("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt", id="two words"),
        pytest.param("a===b", "unable to parse requirement: found '=', expected: identifier", id="three equals signs"),
        pytest.param("!a=b", "found '=', expected: ',' or 'end of string'", id="absent and equal"),
        pytest.param("!", "unable to parse requirement: found '', expected: identifier", id="nothing to be absent"),
        pytest.param("=b", "found '=', expected: !, identifier, or 'end of string'", id="no key"),
        pytest.param("-a=b", f'unable to parse requirement: <nil>: Invalid value: "-a": {NAME}', id="a bad key"),
        pytest.param(
            "kubernetes.io/=x",
            f'unable to parse requirement: <nil>: Invalid value: "kubernetes.io/": name part must be non-empty; {NAME}',
            id="a prefix without a name",
        ),
        pytest.param(
            "a=" + "x" * 64,
            f'unable to parse requirement: values[0][a]: Invalid value: "{"x" * 64}": must be no more than 63 bytes',
            id="a value that is too long",
        ),
    ],
)
def test_bad_label_selector(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        LabelSelector.parse(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        pytest.param(None, False, id="an absent selector matches nothing"),
        pytest.param({}, True, id="an empty selector matches everything"),
        pytest.param({"matchLabels": {"app": "db"}}, True, id="a label"),
        pytest.param({"matchLabels": {"app": "db", "tier": "x"}}, False, id="one label of two"),
        pytest.param({"matchExpressions": [{"key": "app", "operator": "In", "values": ["db"]}]}, True, id="In"),
        pytest.param({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]}, False, id="NotIn"),
        pytest.param({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True, id="Exists"),
        pytest.param({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False, id="DoesNotExist"),
    ],
)
def test_selector_object(selector: dict[str, Any] | None, matches: bool) -> None:
    assert LabelSelector.of(selector).matches(LABELS) is matches


def test_selector_object_with_an_unknown_operator_is_refused() -> None:
    with pytest.raises(SelectorError, match='"Like" is not a valid label selector operator'):
        LabelSelector.of({"matchExpressions": [{"key": "a", "operator": "Like"}]})


def test_selector_object_in_without_values_is_refused() -> None:
    with pytest.raises(SelectorError, match="values set can't be empty"):
        LabelSelector.of({"matchExpressions": [{"key": "a", "operator": "In"}]})


POD = {"metadata": {"name": "a,b=c"}, "spec": {"nodeName": "n1", "hostNetwork": True}}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        pytest.param("", True, id="nothing asked"),
        pytest.param(",", True, id="only a comma"),
        pytest.param("spec.nodeName=n1,", True, id="a comma at the end is forgiven"),
        pytest.param("spec.nodeName==n2", False, id="another value"),
        pytest.param("spec.nodeName!=n2", True, id="unequal"),
        pytest.param("status.phase=", True, id="an absent field is empty"),
        pytest.param("spec.hostNetwork=true", True, id="a truth value"),
        pytest.param(r"metadata.name=a\,b\=c", True, id="escapes"),
        pytest.param("spec.nodeName=n1,status.phase=Running", False, id="every term must hold"),
    ],
)
def test_field_selector_matches(text: str, matches: bool) -> None:
    assert FieldSelector.parse(text).matches(lambda path: field_text(POD, path)) is matches


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a.b", "invalid selector: 'a.b'; can't understand 'a.b'", id="no operator"),
        pytest.param("a=b,!c", "invalid selector: 'a=b,!c'; can't understand '!c'", id="the second term"),
        pytest.param(r"a=b\x", r"invalid field selector: invalid escape sequence: \x", id="an unknown escape"),
        pytest.param("a=b\\", "invalid field selector: invalid escape sequence: \\", id="a backslash at the end"),
        pytest.param("a=b=c", "invalid field selector: unescaped character in value: 61", id="an equals sign in a value"),
    ],
)
def test_bad_field_selector(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        FieldSelector.parse(text)
    assert str(caught.value) == message


def test_field_selector_tells_its_fields_and_exact_values() -> None:
    selector = FieldSelector.parse(r"spec.nodeName!=x,metadata.name=a\,b")
    assert selector.fields == ("metadata.name", "spec.nodeName")
    assert selector.exact("metadata.name") == "a,b"
    assert selector.exact("spec.nodeName") is None
    assert str(selector) == r"metadata.name=a\,b,spec.nodeName!=x"


@pytest.mark.parametrize(
    ("key", "faults"),
    [
        pytest.param("app", [], id="a plain key"),
        pytest.param("example.com/App_1.x", [], id="a prefixed key"),
        pytest.param("/a", ["prefix part must be non-empty"], id="an empty prefix"),
        pytest.param("x" * 64, ["name part must be no more than 63 bytes"], id="a long name"),
        pytest.param("", ["name part must be non-empty", NAME], id="an empty key"),
    ],
)
def test_label_keys(key: str, faults: list[str]) -> None:
    assert key_faults(key) == faults


def test_label_values() -> None:
    assert value_faults("") == []
    assert value_faults("A_b.c-1") == []
    assert value_faults("-a")[0].startswith("a valid label must be an empty string or consist of")
    assert value_faults("a\n") != []


@pytest.mark.parametrize("size", range(7))
def test_subdomains_are_labels_with_single_dots_between_them(size: int) -> None:
    label = re.compile("[a1]([-a1]*[a1])?")
    for letters in itertools.product("a1.-A", repeat=size):
        name = "".join(letters)
        assert (not subdomain_faults(name)) == all(label.fullmatch(part) for part in name.split(".")), name


def test_a_long_subdomain_takes_no_memory() -> None:
    name = "a." * 1_000_000 + "a"
    tracemalloc.start()
    try:
        assert subdomain_faults(name) == ["must be no more than 253 bytes"]
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
