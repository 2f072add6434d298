"""What a driver's gRPC code means to whoever called it."""

from __future__ import annotations

import grpc
import pytest

from ullage.errors import NotNow, UllageError, Uncertain
from ullage.snapshots.backends.base import NO_SECRETS, Secrets
from ullage.snapshots.backends.csi.errors import Refused, hidden, translated

MEANINGS: dict[str, type[UllageError]] = {
    "CANCELLED": Uncertain,
    "DEADLINE_EXCEEDED": Uncertain,
    "UNAVAILABLE": Uncertain,
    "RESOURCE_EXHAUSTED": Uncertain,
    "ABORTED": Uncertain,
    "INVALID_ARGUMENT": Refused,
    "NOT_FOUND": Refused,
    "ALREADY_EXISTS": Uncertain,
    "OUT_OF_RANGE": Refused,
    "UNIMPLEMENTED": Refused,
    "FAILED_PRECONDITION": NotNow,
    "PERMISSION_DENIED": NotNow,
    "UNAUTHENTICATED": NotNow,
    "INTERNAL": NotNow,
    "UNKNOWN": NotNow,
    "DATA_LOSS": NotNow,
}


def test_every_code_has_a_meaning() -> None:
    assert {code.name for code in grpc.StatusCode} - {"OK"} == set(MEANINGS)


@pytest.mark.parametrize(("code", "meaning"), MEANINGS.items())
def test_a_code_becomes_the_error_that_says_what_is_known(code: str, meaning: type[UllageError]) -> None:
    error = translated(code, "the pool is gone", what="driver d: CreateSnapshot s", secrets=NO_SECRETS)
    assert type(error) is meaning
    assert str(error) == f"driver d: CreateSnapshot s: {code}: the pool is gone"


def test_a_driver_without_words_leaves_its_code() -> None:
    assert str(translated("ABORTED", " \n", what="driver d: Probe", secrets=NO_SECRETS)) == "driver d: Probe: ABORTED"


def test_a_stack_trace_is_cut_off() -> None:
    error = translated("INTERNAL", "x" * 5000, what="driver d: Probe", secrets=NO_SECRETS)
    assert len(str(error)) < 1100
    assert str(error).endswith("x…")


@pytest.mark.parametrize(
    ("values", "text", "shown"),
    [
        pytest.param({"password": "hunter2"}, "login hunter2 failed", "login (hidden) failed", id="a secret is hidden"),
        pytest.param(
            {"a": "key", "b": "key-and-more"}, "key-and-more or key", "(hidden) or (hidden)", id="the longer of two goes first"
        ),
        pytest.param({"empty": ""}, "as it was", "as it was", id="an empty one hides nothing"),
    ],
)
def test_secrets_do_not_show(values: dict[str, str], text: str, shown: str) -> None:
    assert hidden(text, Secrets(values)) == shown
    assert all(value not in repr(Secrets(values)) for value in values.values() if value)
