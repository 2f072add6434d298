"""CEL as Kubernetes uses it. The expressions and what becomes of them were tried on a kube-apiserver 1.36."""

from __future__ import annotations

from typing import Any

import pytest

from ullage.standalone.apiserver.schema.cel import program as cel
from ullage.standalone.apiserver.schema.cel import syntax

TRUE = [
    "quantity('1.5Gi').isGreaterThan(quantity('1Gi'))",
    "quantity('1') == quantity('1000m')",
    "!isQuantity('x') && isQuantity('1Ki')",
    "quantity('1k').asInteger() == 1000 && !quantity('1500m').isInteger()",
    "quantity('1').add(quantity('2')).compareTo(quantity('3')) == 0",
    "quantity('1').add(2).asInteger() == 3",
    "quantity('5').sub(2).asApproximateFloat() == 3.0",
    "self.find('[b-c]+') == 'bc' && self.find('z') == ''",
    "'123 456'.findAll('[0-9]+') == ['123', '456']",
    "'123 456'.findAll('[0-9]+', 1) == ['123']",
    "[1, 2, 3].isSorted() && !['b', 'a'].isSorted()",
    "[1, 2].sum() == 3 && [1.5, 2.0].sum() == 3.5 && [].sum() == 0",
    "[3, 1].min() == 1 && ['a', 'c'].max() == 'c'",
    "[1, 2, 1].indexOf(1) == 0 && [1, 2, 1].lastIndexOf(1) == 2 && ['a'].indexOf('z') == -1",
    "self.indexOf('c') == 2 && self.lastIndexOf('a') == 0",
    "isURL('https://a:80/x?y=z') && !isURL('x')",
    "url('https://a:80/x').getScheme() == 'https' && url('https://a:80/x').getHost() == 'a:80'",
    "url('https://a:80/x').getHostname() == 'a' && url('https://a:80/x').getPort() == '80'",
    "url('https://a/x%20y').getEscapedPath() == '/x%20y'",
    "url('https://a/?k=a&k=b&l=c').getQuery() == {'k': ['a', 'b'], 'l': ['c']}",
    "isIP('1.2.3.4') && ip('1.2.3.4').family() == 4 && ip('127.0.0.1').isLoopback() && ip('::').isUnspecified()",
    "!ip.isCanonical('::FFFF') && string(ip('1.2.3.4')) == '1.2.3.4'",
    "cidr('10.0.0.0/8').containsIP('10.1.1.1') && !cidr('10.0.0.0/8').containsIP(ip('11.1.1.1'))",
    "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && cidr('10.0.0.0/8').prefixLength() == 8",
    "cidr('10.1.1.1/8').masked() == cidr('10.0.0.0/8') && cidr('10.0.0.0/8').ip() == ip('10.0.0.0')",
    "semver('1.2.3').isGreaterThan(semver('1.2.0')) && !isSemver('1.0') && semver('1.2.3').major() == 1",
    "semver('1.0.0-a').compareTo(semver('1.0.0')) == -1",
    "sets.contains([1, 2], [1]) && !sets.intersects([1], [2]) && sets.equivalent([1, 1], [1])",
    "lists.range(2) == [0, 1] && [2, 1].sort() == [1, 2] && [1, 1].distinct() == [1] && [1, 2].slice(0, 1) == [1]",
    "self.upperAscii() == 'ABC' && self.split('b') == ['a', 'c'] && ['a', 'b'].join(',') == 'a,b'",
    "self.matches('^[a-z]+$') && strings.quote('a') == '\"a\"' && [1, 2].first().value() == 1",
    "n < 1.5 && 2.5 > n",
]


@pytest.mark.parametrize("expression", TRUE)
def test_this_holds(expression: str) -> None:
    program = cel.compile_rule(expression, {"self": "string", "n": "int"})
    assert program.evaluate({"self": "abc", "n": 1}) is True


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        pytest.param("{'a': 1}['b'] == 1", "no such key: b", id="a key that is not there"),
        pytest.param("object.b == 1", "no such key: b", id="a field that is not there"),
        pytest.param("1/0 == 1", "division by zero", id="division by zero"),
        pytest.param("1%0 == 1", "modulus by zero", id="the rest of it"),
        pytest.param("[1][3] == 1", "index out of bounds: 3", id="an index too far"),
        pytest.param("9223372036854775807 + 1 > 0", "integer overflow", id="a number too large"),
        pytest.param("int(self) == 1", "type conversion error from 'string' to 'int'", id="a word as a number"),
        pytest.param("dyn(self) + 1 == 2", "no such overload", id="a sum of a word and a number"),
        pytest.param("quantity('1500m').asInteger() == 1", "cannot convert value to integer", id="half a unit"),
        pytest.param("[1].filter(x, x > 2).min() == 0", "min called on empty list", id="the least of nothing"),
        pytest.param(
            "quantity(self).isInteger()",
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            id="a word as a quantity",
        ),
        pytest.param(
            "url(self).getPort() == ''",
            'URL parse error during conversion from string: parse "abc": invalid URI for request',
            id="a word as a URL",
        ),
        pytest.param(
            "ip(self).family() == 4",
            'IP Address "abc" parse error during conversion from string: ParseAddr("abc"): unable to parse IP',
            id="a word as an address",
        ),
        pytest.param("self.matches(self + '(')", "error parsing regexp: missing closing ): `abc(`", id="a broken pattern"),
    ],
)
def test_what_cannot_be_evaluated_is_a_value_that_says_why(expression: str, message: str) -> None:
    program = cel.compile_rule(expression, {"self": "string", "object": "dyn"})
    assert program.evaluate({"self": "abc", "object": {"a": 1}}) == cel.Failure(message)


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        pytest.param(
            "foo > 1",
            "ERROR: <input>:1:1: undeclared reference to 'foo' (in container '')\n | foo > 1\n | ^",
            id="an unknown name",
        ),
        pytest.param(
            "self > 1",
            "ERROR: <input>:1:6: found no matching overload for '_>_' applied to '(string, int)'\n | self > 1\n | .....^",
            id="types that do not go together",
        ),
        pytest.param(
            "self.foo",
            "ERROR: <input>:1:5: type 'string' does not support field selection\n | self.foo\n | ....^",
            id="a field of a text",
        ),
        pytest.param(
            "self == null",
            "ERROR: <input>:1:6: found no matching overload for '_==_' applied to '(string, null)'\n | self == null\n | .....^",
            id="a text that might be null",
        ),
    ],
)
def test_what_does_not_compile_is_refused_in_the_servers_words(expression: str, told: str) -> None:
    with pytest.raises(cel.CelError) as caught:
        cel.compile_rule(expression, {"self": "string"})
    assert str(caught.value) == told


@pytest.mark.parametrize(
    "expression", ["math.greatest([1, 2]) == 2", "cel.bind(x, 1, x == 1)", "self.reverse() == 'cba'", "authorizer.path('/x')"]
)
def test_what_kubernetes_lacks_is_not_there(expression: str) -> None:
    with pytest.raises(cel.CelError, match="undeclared reference"):
        cel.compile_rule(expression, {"self": "string"})


@pytest.mark.parametrize(
    ("old", "outcome"),
    [
        pytest.param({"present": True, "value": 3}, True, id="the old value is there"),
        pytest.param({"present": True, "value": 4}, False, id="it is there and differs"),
        pytest.param({"present": False, "value": None}, False, id="there is none"),
    ],
)
def test_an_optional_old_value(old: dict[str, Any], outcome: bool) -> None:
    program = cel.compile_optional_old("oldSelf.hasValue() && oldSelf.value() == self // a remark", {"self": "int"})
    assert program.evaluate({"self": 3, **cel.optional_old(old["value"], present=old["present"])}) is outcome


@pytest.mark.parametrize(
    ("expression", "outcome"),
    [
        pytest.param("request.userInfo.username != 'root'", True, id="who asks"),
        pytest.param("oldObject == null || oldObject.a < object.a", True, id="no old object"),
        pytest.param(
            "object.metadata.name.startsWith('kube-')", cel.Failure("no such key: metadata"), id="a field that is missing"
        ),
    ],
)
def test_a_match_condition_knows_request_and_objects(expression: str, outcome: Any) -> None:
    variables = {"object": {"a": 1}, "oldObject": None, "request": {"userInfo": {"username": "me"}}}
    assert cel.compile_condition(expression).evaluate(variables) == outcome


def test_a_match_condition_is_a_yes_or_no() -> None:
    with pytest.raises(cel.CelError, match="must evaluate to bool"):
        cel.compile_condition("'yes'")


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("namespace", "__namespace__"),
        ("a-b", "a__dash__b"),
        ("a.b/c", "a__dot__b__slash__c"),
        ("x__y", "x__underscores__y"),
        ("plain", "plain"),
        ("$ref", None),
        ("1st", None),
    ],
)
def test_names_are_escaped_as_rules_write_them(name: str, written: str | None) -> None:
    assert syntax.escape(name) == written


@pytest.mark.parametrize(
    ("expression", "fields"),
    [
        pytest.param("self.a > 1 && has(self.b.c)", {"a", "b"}, id="fields"),
        pytest.param("self.a.size() > 1", {"a"}, id="a method is no field"),
        pytest.param("size(self) > 1 && self.a", None, id="the whole"),
        pytest.param("self.size() > 1", None, id="a method of the whole"),
        pytest.param("x.self.a && 'self' == \"self.b\"", set(), id="other things of that name"),
        pytest.param("myself.a", set(), id="a longer name"),
    ],
)
def test_the_fields_that_an_expression_reads(expression: str, fields: set[str] | None) -> None:
    assert syntax.fields_used(expression, "self") == fields
