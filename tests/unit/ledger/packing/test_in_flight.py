"""Limits in flight as one string: what is written is read again, and nothing else is."""

from __future__ import annotations

import pytest

from ullage.ledger.amounts import Cell, LimitAttempt, LimitId
from ullage.ledger.packing import in_flight
from ullage.ledger.packing.in_flight import InFlight, decode, encode
from ullage.ledger.packing.strings import PackedError
from ullage.quantity import Quantity

KEY = "snapshotlimits.ullage.io//lab/few"
LIMITS = {Cell("snapshot-count/claim/*", "snapshots"): Quantity.of(0), Cell("compute/vms", "cpu"): Quantity.parse("1500m")}


def test_what_is_written_is_read_again() -> None:
    found = InFlight(
        {LimitId(KEY, "one", None): LimitAttempt(LIMITS, 17), LimitId(KEY, "one", 4): LimitAttempt({}, 18)},
        {"snapshotlimits.ullage.io": 12},
    )
    text = encode(found)
    assert decode(text, ledger="ns-lab") == found
    assert encode(decode(text, ledger="ns-lab")) == text


def test_nothing_is_the_empty_string() -> None:
    assert encode(InFlight()) == ""
    assert decode("", ledger="ns-lab") == InFlight()


def test_how_far_objects_are_seen_stays_without_attempts() -> None:
    found = InFlight({}, {"namespaces": 3})
    assert decode(encode(found), ledger="ns-lab") == found


@pytest.mark.parametrize("text", ["1", "2abc", "1!!!!", encode(InFlight({}, {"namespaces": 3}))[:-4]])
def test_anything_else_names_the_ledger(text: str) -> None:
    with pytest.raises(PackedError, match=r"ledger ns-lab: status\.limitsInFlight"):
        decode(text, ledger="ns-lab")


def test_an_attempt_that_comes_twice_is_refused() -> None:
    twice = {LimitId(KEY, "one", None): LimitAttempt(LIMITS, 17), LimitId(KEY, "two", None): LimitAttempt(LIMITS, 18)}
    text = encode(InFlight(twice))
    assert len(decode(text, ledger="ns-lab").attempts) == 2
    columns = in_flight._PACKING.unpack(text, lambda one: one, ledger="ns-lab")
    doubled = in_flight._PACKING.pack(([*columns.attempts, columns.attempts[0]], []))
    with pytest.raises(PackedError, match="comes twice"):
        decode(doubled, ledger="ns-lab")
