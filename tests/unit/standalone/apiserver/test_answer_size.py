"""An answer stays short, however long and however wrong the request was."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ullage.standalone.apiserver.go_text import MOST_TEXT, go_text
from ullage.standalone.apiserver.status import FieldError, bad_request, duplicate, invalid, invalid_value, required

MIB = 1024 * 1024


@pytest.mark.parametrize(
    "errors",
    [
        pytest.param([invalid_value("spec.a", "x" * MIB, "no")] * 3, id="long strings"),
        pytest.param([duplicate("spec.a", {"k": "x" * MIB})], id="a long map"),
        pytest.param([required(f"spec.list[{n}].name") for n in range(100_000)], id="a hundred thousand faults"),
        pytest.param([FieldError("FieldValueInvalid", "k" * MIB, "Invalid value")] * 9, id="long paths"),
    ],
)
def test_an_invalid_object(errors: list[FieldError]) -> None:
    refusal = invalid("", "Pod", "a", errors)
    assert refusal.message.startswith('Pod "a" is invalid: ')
    assert len(msgspec.json.encode(refusal.status())) < 2.5 * MIB
    assert refusal.details is not None
    assert 1 <= len(refusal.details["causes"]) <= 1_000


def test_a_few_faults_are_told_whole() -> None:
    errors = [invalid_value(f"spec.list[{n}]", "x" * 200, "no") for n in range(500)]
    refusal = invalid("", "Pod", "a", errors)
    assert refusal.message == f'Pod "a" is invalid: [{", ".join(map(str, errors))}]'
    assert refusal.details is not None
    assert len(refusal.details["causes"]) == 500


def test_a_message() -> None:
    assert len(bad_request("x" * MIB).message) < MIB / 2


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(list(range(2_000_000)), id="a list of two million numbers"),
        pytest.param({str(n): {} for n in range(300_000)}, id="a map of many keys"),
        pytest.param([["x" * MIB]], id="a string of a MiB"),
    ],
)
@pytest.mark.timeout(10)
def test_values_in_messages_end_somewhere(value: Any) -> None:
    text = go_text(value)
    assert len(text) == MOST_TEXT + 3
    assert text.endswith("...")
