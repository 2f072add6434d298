"""What is set about user clusters that are followed."""

from __future__ import annotations

import pytest

from tests.unit.cli.test_command import call
from ullage.admission.caller_limits import CallerLimits
from ullage.app.cluster_options import MEMORY, RATE, REVIEWS, caller_limits, read_limits
from ullage.errors import BadInput
from ullage.kube.read_limits import MIB, ReadLimits


def test_what_is_not_said_is_as_the_limits_have_it() -> None:
    assert read_limits(MEMORY, RATE) == ReadLimits()
    assert caller_limits(REVIEWS) == CallerLimits()


def test_what_was_set_is_in_the_limits() -> None:
    found = read_limits("1Gi", "2Mi")
    assert (found.held, found.rate, found.burst) == (1024 * MIB, 2 * MIB, 8 * MIB)
    assert caller_limits(7).reviews == 7


@pytest.mark.parametrize(
    ("memory", "rate", "text"),
    [
        pytest.param("many", RATE, "--cluster-memory many: an amount of bytes from 1Mi to 1Ti is allowed", id="no amount"),
        pytest.param("", RATE, "--cluster-memory (empty): an amount of bytes", id="nothing"),
        pytest.param("0", RATE, "--cluster-memory 0: an amount of bytes", id="none"),
        pytest.param(MEMORY, "1k", "--cluster-rate 1k: an amount of bytes", id="too slow"),
        pytest.param(MEMORY, "2Ti", "--cluster-rate 2Ti: an amount of bytes", id="too fast"),
    ],
)
def test_amounts_that_cannot_be_are_refused(memory: str, rate: str, text: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_limits(memory, rate)
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize("reviews", [0.0, -1.0, float("nan"), float("inf"), 1e9])
def test_a_number_of_reviews_that_cannot_be_is_refused(reviews: float) -> None:
    with pytest.raises(BadInput, match=r"--cluster-reviews .*: reviews a second from 1 to 1000000 are allowed"):
        caller_limits(reviews)


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("controller", ["--cluster-memory", "256Mi", "--cluster-rate", "16Mi"]),
        ("webhook", ["--cluster-reviews", "200", "256Mi"]),
    ],
)
def test_the_defaults_are_in_the_help(command: str, shown: list[str]) -> None:
    text = call(command, "--help").stdout
    assert [word for word in shown if word not in text] == []
