"""Regular expressions of users: RE2's syntax and Go's complaints, in time and memory that have bounds.

RE2 never tries one way after the other, as Python's `re` does. But where the states of a pattern are too many to remember, it
follows all of them at each character; so what a text may cost is bounded, too: by its length times the pattern's size.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final

import re2

_MOST_MEMORY: Final = 4 * 1024 * 1024  # bytes of one pattern, with what it remembers while it matches
_MOST_COMPILED: Final = 64  # patterns that are kept ready
MOST_STEPS: Final = 150_000_000  # characters times instructions of the pattern: half a second at the worst

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = _MOST_MEMORY

# RE2's words for a fault, and Go's.
_GO_WORDS: Final = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "unexpected )": "unexpected )",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "bad repetition operator": "invalid nested repetition operator",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid named capture group": "invalid named capture",
    "trailing \\": "trailing backslash at end of expression",
}
_ONE_BYTE = re.compile(r"(?<!\\)(?:\\\\)*(\\C)")  # RE2 takes it, Go does not


class BadPattern(ValueError):
    """A pattern that cannot be used; the text is Go's."""


class TooCostly(ValueError):
    """A text that is too long for its pattern."""


def in_go_words(complaint: str, pattern: str) -> str:
    """What RE2 says of a pattern (`missing ): (`), as Go says it."""
    if complaint.startswith("pattern too large"):
        return f"error parsing regexp: expression too large: `{pattern}`"
    for words, go in _GO_WORDS.items():
        if complaint.startswith(words):
            return f"error parsing regexp: {go}: `{complaint.removeprefix(words).removeprefix(': ')}`"
    words, _, rest = complaint.partition(": ")
    return f"error parsing regexp: {words}: `{rest}`"


def compiled(pattern: str) -> Any:
    """The pattern for texts in UTF-8. Raises `BadPattern`."""
    if (found := _ONE_BYTE.search(pattern)) is not None:
        raise BadPattern(f"error parsing regexp: invalid escape sequence: `{found[1]}`")
    try:
        return re2.compile(pattern.encode(), _OPTIONS)
    except re2.error as error:
        [complaint] = error.args
        raise BadPattern(in_go_words(complaint.decode(), pattern)) from None


_kept = lru_cache(maxsize=_MOST_COMPILED)(compiled)


def error_of(pattern: str) -> str | None:
    """Why a pattern cannot be used, in Go's words; None where it can."""
    try:
        compiled(pattern)
    except BadPattern as error:
        return str(error)
    return None


def searched(program: Any, text: str) -> bytes:
    """The text as bytes, if it is not too long for the pattern. Raises `TooCostly`."""
    encoded = text.encode()
    if len(encoded) * program.programsize > MOST_STEPS:
        raise TooCostly("the text is too long for the pattern")
    return encoded


def matcher(pattern: str) -> Callable[[str], bool]:
    """A predicate: does the pattern occur in a text? A pattern that cannot be read matches nothing, nor does a text that is
    too long for it. The compiled pattern is not held: a definition may have thousands."""

    def matches(text: str) -> bool:
        try:
            program = _kept(pattern)
            return program.search(searched(program, text)) is not None
        except (BadPattern, TooCostly):
            return False

    return matches


def occurrences(pattern: str, text: str) -> Iterator[str]:
    """What the pattern finds in a text, one after the other. Raises `BadPattern` and `TooCostly`."""
    program = compiled(pattern)
    for found in program.finditer(searched(program, text)):
        yield found[0].decode("utf-8", "replace")


def kept() -> int:
    """How many compiled patterns are kept."""
    return _kept.cache_info().currsize
