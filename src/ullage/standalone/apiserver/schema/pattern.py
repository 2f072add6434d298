"""Regular expressions in the syntax of Go's RE2, which is what a schema's `pattern` is written in.

Most patterns mean the same to Python's `re`, which is much the faster; those that may not go to the RE2 inside the CEL library.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from ullage.standalone.apiserver import cel

# Character classes by name or property, flags, lookaround, absolute anchors, braces that may be literal: ask RE2.
_FOREIGN = re.compile(r"\[\[?:|\\[pPzZACQExX]|\(\?(?!:)|\{,|\+\+|\*\+|\?\+|\\[0-9]")
_END = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\$", re.DOTALL)
_PROBE = cel.compile_rule("text.matches(pattern)", {"text": "string", "pattern": "string"})


def error_of(pattern: str) -> str | None:
    """Why RE2 does not take a pattern, in Go's words; None where it does."""
    found = _PROBE.evaluate({"text": "", "pattern": pattern})
    return found.message if isinstance(found, cel.Failure) else None


@cache
def matcher(pattern: str) -> Callable[[str], object]:
    """A predicate: does the pattern occur in a text? A pattern that cannot be read matches nothing."""
    if _FOREIGN.search(pattern) is None:
        try:
            # Python's `$` also stands before a final line break, RE2's does not.
            return re.compile(_END.sub(lambda found: r"\Z" if found[0] == "$" else found[0], pattern), re.ASCII).search
        except re.error:
            pass
    return lambda text: _PROBE.evaluate({"text": text, "pattern": pattern}) is True
