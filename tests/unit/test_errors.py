"""The error tree: the class says whether to retry, the text says what to change."""

from __future__ import annotations

import pytest

from ullage.errors import BadInput, Retryable, Terminal, UllageError


@pytest.mark.parametrize(
    ("error", "family"),
    [
        pytest.param(Retryable, UllageError, id="what may be retried is an Ullage error"),
        pytest.param(Terminal, UllageError, id="what may not be retried is an Ullage error"),
        pytest.param(BadInput, Terminal, id="bad input is not worth a retry"),
    ],
)
def test_the_tree(error: type[Exception], family: type[Exception]) -> None:
    assert issubclass(error, family)


def test_nothing_is_both_retryable_and_terminal() -> None:
    assert not issubclass(Terminal, Retryable)
    assert not issubclass(Retryable, Terminal)


def test_bad_input_names_the_place_the_value_and_what_is_allowed() -> None:
    assert str(BadInput("--port", 99999, "0 to 65535 is allowed")) == "--port 99999: 0 to 65535 is allowed"
