"""Words that all commands print alike."""

from __future__ import annotations

import pytest

from ullage.cli.common.text import free, free_bytes
from ullage.quantity import Quantity

GIB = 2**30


@pytest.mark.parametrize(
    ("amount", "said"),
    [
        pytest.param(2 * GIB, "2Gi", id="what is left"),
        pytest.param(2 * GIB - 1, "1.99Gi", id="never more than there is"),
        pytest.param(0, "0", id="exactly full"),
        pytest.param(-1, "1 byte over", id="one byte too many"),
        pytest.param(-2 * GIB, "2Gi over", id="by how much it is passed"),
        pytest.param(None, "-", id="there is no limit"),
    ],
)
def test_what_is_free_of_a_limit_on_bytes(amount: int | None, said: str) -> None:
    assert free_bytes(amount) == said


@pytest.mark.parametrize(("amount", "said"), [("1500m", "1.5 cores"), ("-250m", "0.25 cores over")])
def test_what_is_free_of_another_limit(amount: str, said: str) -> None:
    assert free("cpu", Quantity.parse(amount)) == said
