"""The library's error texts in the words of kube-apiserver."""

from __future__ import annotations

import re

from ullage.standalone.apiserver.schema.regexp import in_go_words

# The library's words on the left, those of kube-apiserver on the right.
_WORDING: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r'Key not found in map : "?(.*?)"?$'), r"no such key: \1"),
    (re.compile(r"divide by zero"), "division by zero"),
    (re.compile(r"cannot convert string to int"), "type conversion error from 'string' to 'int'"),
    (
        re.compile(r"String to (Timestamp|Duration) conversion failed"),
        r"type conversion error from 'string' to 'google.protobuf.\1'",
    ),
    (re.compile(r"Index error: index=(-?\d+) size=\d+"), r"index out of bounds: \1"),
    (re.compile(r"No matching overloads found.*|Applying SELECT to non-message type"), "no such overload"),
)
_COMPILER_WORDING: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"expression of type '(.*?)' cannot be the operand of a select operation"),
        r"type '\1' does not support field selection",
    ),
    (re.compile(r"\bgoogle\.protobuf\.Timestamp\b(?=.*'\n)"), "timestamp"),
    (re.compile(r"\bgoogle\.protobuf\.Duration\b(?=.*'\n)"), "duration"),
    (re.compile(r"\bnull_type\b"), "null"),
)
_STATUS = re.compile(r"^[A-Z_]+: ")


def reword_compiler(text: str) -> str:
    """What is said of an expression that does not compile."""
    for pattern, words in _COMPILER_WORDING:
        text = pattern.sub(words, text)
    return text


def reword(text: str) -> str:
    """What is said of an expression that fails while it runs."""
    text = _STATUS.sub("", text)
    _, bad_pattern, complaint = text.partition("invalid regular expression: ")
    if bad_pattern:
        return in_go_words(complaint, "")
    for pattern, words in _WORDING:
        if (found := pattern.search(text)) is not None:
            return found.expand(words)
    return text
