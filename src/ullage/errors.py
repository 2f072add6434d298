"""The one error tree. The class alone says what a caller should do about an error.

    UllageError
    ├── Retryable        try again with backoff: the world may change
    └── Terminal         only an edit can help
        └── BadInput     an option or a field that cannot be: names it, shows it, says what is allowed

Foreign errors are translated into these at the edge where they appear, with `from`.
"""

from __future__ import annotations


class UllageError(Exception):
    """Anything that goes wrong inside Ullage and has a sentence to say about it."""


class Retryable(UllageError):
    """Try again with backoff: the world may change."""


class Terminal(UllageError):
    """Only an edit can help; on an object it becomes a False condition."""


class BadInput(Terminal):
    """What was asked for cannot be. One line: where, what was given, what is wrong and what is allowed."""

    def __init__(self, where: str, given: object, problem: str) -> None:
        super().__init__(f"{where} {given}: {problem}")
        self.where = where
        self.given = given
        self.problem = problem
