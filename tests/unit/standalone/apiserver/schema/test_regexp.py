"""Patterns of users: RE2's meaning, Go's words for what is wrong, and an end in time."""

from __future__ import annotations

import pytest

from ullage.standalone.apiserver.schema import regexp
from ullage.standalone.apiserver.schema.cel import program as cel


@pytest.mark.parametrize(
    ("pattern", "complaint"),
    [
        pytest.param("(", "missing closing ): `(`", id="an open group"),
        pytest.param("a)", "unexpected ): `a)`", id="a closed group that is not open"),
        pytest.param("[a", "missing closing ]: `[a`", id="an open class"),
        pytest.param("a**", "invalid nested repetition operator: `**`", id="two repetitions"),
        pytest.param("*a", "missing argument to repetition operator: `*`", id="a repetition of nothing"),
        pytest.param("a{1001}", "invalid repeat count: `{1001}`", id="a repetition beyond a thousand"),
        pytest.param("(?=a)", "invalid or unsupported Perl syntax: `(?=`", id="a look ahead"),
        pytest.param(r"\8", r"invalid escape sequence: `\8`", id="a reference back"),
        pytest.param(r"a\C", r"invalid escape sequence: `\C`", id="a single byte"),
        pytest.param("[z-a]", "invalid character class range: `z-a`", id="a range backwards"),
        pytest.param("a\\", "trailing backslash at end of expression: ``", id="a backslash at the end"),
        pytest.param("(?P<n", "invalid named capture: `(?P<n`", id="an open name"),
    ],
)
def test_a_bad_pattern(pattern: str, complaint: str) -> None:
    assert regexp.error_of(pattern) == f"error parsing regexp: {complaint}"
    assert not regexp.matcher(pattern)("a")


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        pytest.param("b", "abc", True, id="a pattern may stand anywhere"),
        pytest.param("^a$", "a\n", False, id="a dollar is the very end"),
        pytest.param("a.c", "a\nc", False, id="a dot is no line break"),
        pytest.param(r"^\d$", "\u0663", False, id="digits are ASCII"),
        pytest.param(r"^\w$", "é", False, id="letters are ASCII"),
        pytest.param("^.$", "é", True, id="a dot is a character, not a byte"),
        pytest.param("^.$", "\U0001f600", True, id="also beyond 16 bits"),
        pytest.param(r"^\pL$", "é", True, id="a property"),
        pytest.param("(?i)^AB$", "ab", True, id="a flag"),
        pytest.param("^[[:alpha:]]$", "x", True, id="a named class"),
        pytest.param(r"\\C", "\\C", True, id="a backslash before a C"),
        pytest.param("a{,2}", "a{,2}", True, id="braces that are literal"),
    ],
)
def test_a_pattern(pattern: str, text: str, found: bool) -> None:
    assert regexp.matcher(pattern)(text) is found


@pytest.mark.timeout(15)
@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        pytest.param("^(a+)+$", "a" * 29 + "b", id="repetitions inside repetitions"),
        pytest.param("^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 1_000_000, id="a pattern that other engines try for ever"),
        pytest.param("^(a|aa)*$", "a" * 1_000_000 + "b", id="alternatives that overlap"),
        pytest.param("(a|b)*a(a|b){200}c", "abbab" * 600_000, id="more states than can be remembered"),
        pytest.param("a.{900}c", "ab" * 1_500_000, id="a long distance"),
    ],
)
def test_no_pattern_takes_long(pattern: str, text: str) -> None:
    assert not regexp.matcher(pattern)(text)
    rule = cel.compile_rule("self.text.find(self.pattern) == ''", {"self": "dyn"})
    assert rule.evaluate({"self": {"text": text[-200_000:], "pattern": pattern}}) in (
        True,
        cel.Failure("the text is too long for the pattern"),
    )


def test_thousands_of_patterns_are_not_all_kept() -> None:
    matchers = [regexp.matcher(f"^a{number}$") for number in range(2_000)]
    assert [number for number, matches in enumerate(matchers) if matches("a7")] == [7]
    assert regexp.kept() <= 64


def test_a_rule_finds_all() -> None:
    rule = cel.compile_rule("self.findAll('[0-9]+', 2) == ['1', '22'] && self.findAll('é') == ['é']", {"self": "string"})
    assert rule.evaluate({"self": "1 22 333 é"}) is True
