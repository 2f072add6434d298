"""A command line as steps that can be played: `sh -c` with `&&` and `;`, and output into a file. Pure.

The words are only ever read: no shell sees them. What would need one is refused, and says so.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ullage.errors import Terminal

SHELLS: Final = frozenset({"sh", "bash", "ash", "dash"})
ABILITIES: Final = "no containers are run here: true, false, echo, sleep, sync, cat, touch, tee and fsfreeze can be played"
NOT_FOUND: Final = 127
MISUSED: Final = 2
MOST_STEPS: Final = 100
_EXPANDED: Final = frozenset("$`*?[~{\\")  # what a shell would turn into something else
_JOINS: Final = ("&&", ";")
_INTO: Final = (">", ">>")
_PUNCTUATION: Final = frozenset("();<>|&")


class CannotPlay(Terminal):
    """A command that cannot be played; `exit_code` is what a shell would give for it."""

    def __init__(self, problem: str, exit_code: int = NOT_FOUND) -> None:
        super().__init__(f"{problem}; {ABILITIES}")
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class ScriptStep:
    words: tuple[str, ...]
    only_after_success: bool = False
    into: str = ""  # the file that its output goes to; empty: to whoever asked
    append: bool = False


def parse_script(command: Sequence[str]) -> tuple[ScriptStep, ...]:
    """The steps of a command, in order. Raises CannotPlay."""
    if not command or not command[0]:
        raise CannotPlay("no command")
    if posixpath.basename(command[0]) not in SHELLS:
        return (ScriptStep(tuple(command)),)
    if len(command) != 3 or command[1] not in ("-c", "-ec", "-ce"):
        raise CannotPlay(f"{shlex.join(command[:4])}: only sh -c with one text is read", MISUSED)
    return _steps(command[2])


def _steps(text: str) -> tuple[ScriptStep, ...]:
    lexer = shlex.shlex(text.replace("\n", " ; "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        found = list(lexer)
    except ValueError as error:
        raise CannotPlay(f"{text[:100]!r}: {error}", MISUSED) from error
    steps: list[ScriptStep] = []
    words: list[str] = []
    join = ";"
    for word in (*found, ";"):
        if word in _JOINS:
            if words:
                steps.append(_step(words, only_after_success=join == "&&"))
            words, join = [], word
        elif word in _INTO or not set(word) & (_PUNCTUATION | _EXPANDED):
            words.append(word)
        else:
            raise CannotPlay(f"{word[:100]!r} needs a shell", MISUSED)
    if len(steps) > MOST_STEPS:
        raise CannotPlay(f"{len(steps)} commands, and {MOST_STEPS} are allowed", MISUSED)
    return tuple(steps) or (ScriptStep(("true",)),)


def _step(words: Sequence[str], *, only_after_success: bool) -> ScriptStep:
    marks = [index for index, word in enumerate(words) if word in _INTO]
    if not marks:
        return ScriptStep(tuple(words), only_after_success)
    where = marks[0]
    if len(marks) > 1 or where == 0 or where != len(words) - 2:
        raise CannotPlay(f"{shlex.join(words)[:100]}: output goes to one file, named last", MISUSED)
    return ScriptStep(tuple(words[:where]), only_after_success, words[-1], words[where] == ">>")
