"""Label and field selectors: reading their texts, telling what matches.

Every watch and list filters through these, and webhooks, quotas and services name their objects by them, so they parse once
into values whose `matches` is cheap. Errors carry the words of kube-apiserver, which users search for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from json import dumps
from typing import Any

from ullage.names import SUBDOMAIN, SUBDOMAIN_SENTENCE

_TOKEN = re.compile(r"[ \t\r\n]*(==|!=|[=!(),<>]|[^ \t\r\n=!(),<>]+)")
_SYMBOLS = frozenset({"=", "==", "!=", "!", "(", ")", ",", "<", ">"})
_OPERATORS = frozenset({"=", "==", "!=", "in", "notin", "<", ">"})
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")

_NAME_SENTENCE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_SENTENCE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


class SelectorError(ValueError):
    """A selector that cannot be read; the message is the one that kube-apiserver gives."""


def subdomain_faults(name: str) -> list[str]:
    """What is wrong with an RFC 1123 subdomain."""
    faults = ["must be no more than 253 bytes"] if len(name.encode()) > 253 else []
    return faults if SUBDOMAIN.fullmatch(name) else [*faults, SUBDOMAIN_SENTENCE]


def key_faults(key: str) -> list[str]:
    """What is wrong with a label's or annotation's key: a name, perhaps with a DNS prefix before a slash."""
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        return [f"a valid label key {_NAME_SENTENCE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    faults = []
    if slash:
        faults = [f"prefix part {fault}" for fault in subdomain_faults(prefix)] if prefix else ["prefix part must be non-empty"]
    if not name:
        faults.append("name part must be non-empty")
    elif len(name.encode()) > 63:
        faults.append("name part must be no more than 63 bytes")
    if not _NAME.fullmatch(name):
        faults.append(f"name part {_NAME_SENTENCE}")
    return faults


def value_faults(value: str) -> list[str]:
    """What is wrong with a label's value."""
    faults = ["must be no more than 63 bytes"] if len(value.encode()) > 63 else []
    return faults if _VALUE.fullmatch(value) else [*faults, _VALUE_SENTENCE]


@dataclass(frozen=True, slots=True)
class Requirement:
    """One term of a label selector. `operator` is as it is written; `exists` and `!` have no values."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "=" | "==" | "in":
                return value in self.values
            case "!=" | "notin":
                return value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
        if value is None or not _INTEGER.fullmatch(value):
            return False
        bound = int(next(iter(self.values)))
        return int(value) > bound if self.operator == ">" else int(value) < bound

    def __str__(self) -> str:
        match self.operator:
            case "exists":
                return self.key
            case "!":
                return f"!{self.key}"
            case "in" | "notin":
                return f"{self.key} {self.operator} ({','.join(sorted(self.values))})"
        return f"{self.key}{self.operator}{next(iter(self.values))}"


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All of its requirements must hold. Without any it matches everything."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False  # an absent selector object, unlike an empty one, matches nothing

    @classmethod
    def parse(cls, text: str) -> LabelSelector:
        """Reads `a=b,c in (d,e),!f`."""
        requirements = sorted(_Parser(text).requirements(), key=lambda requirement: requirement.key)
        return cls(tuple(requirements))

    @classmethod
    def of(cls, selector: Mapping[str, Any] | None) -> LabelSelector:
        """Reads the object form, `{matchLabels, matchExpressions}`."""
        if selector is None:
            return NOTHING
        found = [Requirement(key, "=", frozenset((value,))) for key, value in (selector.get("matchLabels") or {}).items()]
        for term in selector.get("matchExpressions") or ():
            operator = _WRITTEN.get(term.get("operator"))
            if operator is None:
                raise SelectorError(f"{dumps(term.get('operator'))} is not a valid label selector operator")
            found.append(_checked(term.get("key", ""), operator, frozenset(term.get("values") or ())))
        return cls(tuple(sorted(found, key=lambda requirement: requirement.key)))

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        if self.nothing:
            return False
        found = labels or {}
        return all(requirement.matches(found) for requirement in self.requirements)

    def __bool__(self) -> bool:
        """Whether it leaves anything out."""
        return self.nothing or bool(self.requirements)

    def __str__(self) -> str:
        return ",".join(str(requirement) for requirement in self.requirements)


NOTHING = LabelSelector(nothing=True)
EVERYTHING = LabelSelector()
_WRITTEN = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


def _checked(key: str, operator: str, values: frozenset[str]) -> Requirement:
    """A requirement whose key and values are fit for labels."""
    if faults := key_faults(key):
        raise SelectorError(f"<nil>: Invalid value: {_quoted(key)}: {'; '.join(faults)}")
    errors = []
    if operator in ("in", "notin") and not values:
        errors.append("values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty")
    elif operator in ("exists", "!") and values:
        shown = dumps(sorted(values), ensure_ascii=False, separators=(",", ":"))
        errors.append(f"values: Invalid value: {shown}: values set must be empty for exists and does not exist")
    for index, value in enumerate(sorted(values)):
        if operator in ("<", ">") and not _INTEGER.fullmatch(value):
            errors.append(
                f"values[{index}]: Invalid value: {_quoted(value)}: for 'Gt', 'Lt' operators, the value must be an integer"
            )
        if faults := value_faults(value):
            errors.append(f"values[{index}][{key}]: Invalid value: {_quoted(value)}: {'; '.join(faults)}")
    if errors:
        raise SelectorError(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")
    return Requirement(key, operator, values)


def _quoted(text: str) -> str:
    return dumps(text, ensure_ascii=False)


class _Parser:
    """Recursive descent over the tokens of a label selector. The empty token is the end of the text."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = [*_TOKEN.findall(text), ""]
        self.at = 0

    def next(self) -> str:
        token = self.tokens[self.at]
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    @property
    def peek(self) -> str:
        return self.tokens[self.at]

    def requirements(self) -> Iterator[Requirement]:
        if self.peek and not _begins(self.peek):
            raise SelectorError(f"found '{self.peek}', expected: !, identifier, or 'end of string'")
        while self.peek:
            try:
                yield self.requirement()
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            if (token := self.next()) not in ("", ","):
                raise SelectorError(f"found '{token}', expected: ',' or 'end of string'")
            if token and not _begins(self.peek):
                raise SelectorError(f"found '{self.peek}', expected: identifier after ','")

    def requirement(self) -> Requirement:
        absent = self.peek == "!"
        if absent:
            self.next()
        key = self.identifier()
        if absent or self.peek in ("", ","):
            return _checked(key, "!" if absent else "exists", frozenset())
        _checked(key, "exists", frozenset())  # a bad key is reported before what follows it
        operator = self.next()
        if operator not in _OPERATORS:
            raise SelectorError(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")
        return _checked(key, operator, self.values() if operator in ("in", "notin") else self.exact_value())

    def identifier(self) -> str:
        if _is_word(token := self.next()):
            return token
        raise SelectorError(f"found '{token}', expected: identifier")

    def exact_value(self) -> frozenset[str]:
        return frozenset((self.identifier() if self.peek not in ("", ",") else "",))

    def values(self) -> frozenset[str]:
        """`(a, b)`. A comma with nothing beside it stands for the empty value."""
        if (token := self.next()) != "(":
            raise SelectorError(f"found '{token}' expected: '('")
        if self.peek not in (",", ")") and not _is_word(self.peek):
            raise SelectorError(f"found '{self.peek}', expected: ',', ')' or identifier")
        found: set[str] = set()
        while True:
            found.add(self.next() if _is_word(self.peek) else "")
            if (token := self.next()) == ")":
                return frozenset(found)
            if token != ",":
                raise SelectorError(f"found '{token}', expected: ',' or ')'")


def _is_word(token: str) -> bool:
    return bool(token) and token not in _SYMBOLS


def _begins(token: str) -> bool:
    return token == "!" or _is_word(token)


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """`spec.nodeName=a`, or `!=` where `equal` is false."""

    field: str
    value: str
    equal: bool = True

    def __str__(self) -> str:
        escaped = re.sub(r"([\\,=])", r"\\\1", self.value)
        return f"{self.field}{'=' if self.equal else '!='}{escaped}"


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """All of its terms must hold. Which fields a kind can be selected by is the reader's to check: see `fields`."""

    terms: tuple[FieldTerm, ...] = ()

    @classmethod
    def parse(cls, text: str) -> FieldSelector:
        """Reads `a.b=c,d!=e`. A backslash escapes a comma, an equals sign or itself in a value."""
        parts = sorted(part for part in re.findall(r"(?:\\.|[^\\,]|\\$)+", text, re.DOTALL) if part)
        return cls(tuple(_field_term(text, part) for part in parts))

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(term.field for term in self.terms)

    def exact(self, field: str) -> str | None:
        """The one value that the field must have, where the selector says so: the way to look up instead of scan."""
        return next((term.value for term in self.terms if term.equal and term.field == field), None)

    def matches(self, field_of: Callable[[str], str]) -> bool:
        """`field_of` gives a field's text; absent fields are empty."""
        return all((field_of(term.field) == term.value) == term.equal for term in self.terms)

    def __bool__(self) -> bool:
        """Whether it leaves anything out."""
        return bool(self.terms)

    def __str__(self) -> str:
        return ",".join(str(term) for term in self.terms)


def field_text(obj: Mapping[str, Any], path: str) -> str:
    """The text of the field at a dotted path, empty where there is none."""
    found: Any = obj
    for key in path.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    if found is None:
        return ""
    return str(found).lower() if isinstance(found, bool) else str(found)


def _field_term(text: str, part: str) -> FieldTerm:
    match = re.match(r"(.*?)(!=|==|=)(.*)", part, re.DOTALL)
    if match is None:
        raise SelectorError(f"invalid selector: '{text}'; can't understand '{part}'")
    return FieldTerm(match[1], _unescaped(match[3]), equal=match[2] != "!=")


def _unescaped(value: str) -> str:
    found = []
    letters = iter(value)
    for letter in letters:
        if letter == "\\":
            letter = next(letters, "")
            if letter not in ("\\", ",", "="):
                raise SelectorError(f"invalid field selector: invalid escape sequence: \\{letter}")
        elif letter == "=":
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(letter)}")
        found.append(letter)
    return "".join(found)
