"""The one error tree. The class alone says what a caller should do about an error.

    UllageError
    ├── Retryable        try again with backoff: the world may change
    │   ├── Uncertain    it may have happened: look, or ask again under the same name, before anything else is concluded
    │   └── NotNow       nothing happened; it may work later
    └── Terminal         only an edit can help
        ├── Impossible   nothing happened, and nothing will while things are as they are
        └── BadInput     an option or a field that cannot be: names it, shows it, says what is allowed

`Uncertain`, `NotNow` and `Impossible` are what storage systems and volume engines answer with.

Foreign errors are translated into these at the edge where they appear, with `from`.
"""

from __future__ import annotations

from typing import Final


class UllageError(Exception):
    """Anything that goes wrong inside Ullage and has a sentence to say about it."""


class Retryable(UllageError):
    """Try again with backoff: the world may change."""


class Terminal(UllageError):
    """Only an edit can help; on an object it becomes a False condition."""


class Uncertain(Retryable):
    """The call may have had its effect: no answer, or one that does not tell."""

    reason: Final = "Unknown"


class NotNow(Retryable):
    """Nothing happened. What was asked is busy or full, or something that it needs is not there yet."""

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class Impossible(Terminal):
    """Nothing happened, and trying again does not help: only an edit of what is asked for does."""

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class BadInput(Terminal):
    """What was asked for cannot be. One line: where, what was given, what is wrong and what is allowed."""

    def __init__(self, where: str, given: object, problem: str) -> None:
        super().__init__(f"{where} {given}: {problem}")
        self.where = where
        self.given = given
        self.problem = problem
