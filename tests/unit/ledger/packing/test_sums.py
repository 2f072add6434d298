"""The compact string of what is counted: exact, small, and refused where it is not what was written."""

from __future__ import annotations

import base64
import contextlib
import zlib
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.ledger.amounts import Cell, Takings
from ullage.ledger.packing.strings import PackedError
from ullage.ledger.packing.sums import Sums, decode, encode
from ullage.quantity import Format, Quantity

QUANTITIES = st.builds(Quantity, st.integers(1, 10**24), st.sampled_from(Format))
CELLS = st.builds(Cell, st.sampled_from(["a", "b/c", "d"]), st.sampled_from(["cpu", "storage"]))
TAKINGS = st.dictionaries(CELLS, QUANTITIES, max_size=4).map(Takings)
SOURCES = st.sampled_from(["pods", "snapshots.longhorn.io", "machines.cluster.k8s.io/c1"])
SUMS = st.builds(Sums, st.dictionaries(SOURCES, TAKINGS), st.frozensets(st.sampled_from(["a", "b/c", "d"])))


@given(SUMS)
def test_what_is_written_is_read(sums: Sums) -> None:
    text = encode(sums)
    assert decode(text, ledger="ns-lab") == sums
    assert encode(Sums(dict(reversed(list(sums.counted.items()))), sums.limited)) == text, "the same sums give the same string"
    assert not set(text) & set('<>&"\\+/= '), "nothing that JSON, YAML or a URL would have to escape"


def test_amounts_stay_as_they_were_written() -> None:
    takes = Takings({Cell("a", "memory"): Quantity.parse("1Gi"), Cell("a", "disk"): Quantity.parse("1073741824")})
    assert decode(encode(Sums({"pods": takes})), ledger="x").counted["pods"].written() == takes.written()


def test_none_is_the_empty_string_and_a_count_of_nothing_is_not() -> None:
    assert encode(Sums({})) == ""
    assert decode("", ledger="x") == Sums({})
    nothing = Sums({"pods": Takings()})
    assert decode(encode(nothing), ledger="x") == nothing


def test_a_thousand_accounts_of_four_kinds_stay_small() -> None:
    random = Random(1)
    cells = [Cell(f"snapshots/vm/machine-{number}", "storage") for number in range(1000)]
    counted = {
        f"kind-{number}": Takings({cell: Quantity.of(random.getrandbits(40), Format.BINARY_SI) for cell in cells})
        for number in range(4)
    }
    assert len(encode(Sums(counted, frozenset(cell.account for cell in cells)))) < 64 * 1024


# --- what is refused -------------------------------------------------------------------------------------------------


def columns(**changes: Any) -> str:
    """A valid string, with columns changed."""
    made = {"accounts": ["a"], "cells": [[0, "cpu"]], "counts": [["pods", [[0, "1"]]]], "limited": [0]}
    return packed(list({**made, **changes}.values()))


def packed(value: object, *, tail: bytes = b"", version: str = "1") -> str:
    stream = zlib.compress(msgspec.msgpack.encode(value)) + tail
    return version + base64.urlsafe_b64encode(stream).decode().rstrip("=")


def test_the_valid_string_of_these_tests_is_valid() -> None:
    one = Takings({Cell("a", "cpu"): Quantity.of(1)})
    assert decode(columns(), ledger="x") == Sums({"pods": one}, frozenset({"a"}))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("0" + columns()[1:], id="a version that is not known"),
        pytest.param(" " + columns(), id="a space before it"),
        pytest.param(columns() + "\n", id="a line break after it"),
        pytest.param("1", id="a version and nothing else"),
        pytest.param("1!!!!", id="no base64"),
        pytest.param("1AAAA", id="no stream"),
        pytest.param(columns()[:-4], id="cut off"),
        pytest.param(packed([]), id="no columns"),
        pytest.param(packed({}), id="no array"),
        pytest.param(packed([1], tail=b"x"), id="bytes after the stream"),
        pytest.param(columns(more=[]), id="one column too many"),
        pytest.param(columns(counts=[["pods", [[0, "1 "]]]]), id="no quantity"),
        pytest.param(columns(counts=[["pods", [[0, "-1"]]]]), id="an amount of less than nothing"),
        pytest.param(columns(counts=[["pods", [[1, "1"]]]]), id="a cell that is not there"),
        pytest.param(columns(cells=[[1, "cpu"]]), id="an account that is not there"),
        pytest.param(columns(limited=[1]), id="a limit on an account that is not there"),
        pytest.param(columns(counts=[["pods", [[-1, "1"]]]]), id="a negative index"),
        pytest.param(columns(counts=[["pods", [[0, "1"], [0, "2"]]]]), id="a sum twice"),
        pytest.param(columns(cells=[[0, "cpu"]] * 2, counts=[["pods", [[0, "1"], [1, "2"]]]]), id="a sum twice, by two cells"),
        pytest.param(columns(counts=[["pods", []], ["pods", []]]), id="a source twice"),
        pytest.param(columns(limited=[0, 0]), id="a limit that was noticed twice"),
    ],
)
def test_any_other_string_is_an_error_that_names_the_ledger(text: str) -> None:
    with pytest.raises(PackedError, match=r"ledger ns-lab: status\.sums cannot be read: .+ledger rebuild ns-lab"):
        decode(text, ledger="ns-lab")


def test_an_amount_of_less_than_nothing_is_named() -> None:
    with pytest.raises(PackedError, match=r"a\.cpu -90: an amount is not negative"):
        decode(columns(counts=[["pods", [[0, "-90"]]]]), ledger="ns-lab")


@given(st.text())
def test_whatever_is_given_nothing_else_is_raised(text: str) -> None:
    with contextlib.suppress(PackedError):
        assert encode(decode(text, ledger="x")) == text


def test_a_string_that_inflates_without_end_is_refused() -> None:
    bomb = zlib.compress(b"\0" * (32 << 20))
    with pytest.raises(PackedError):
        decode("1" + base64.urlsafe_b64encode(bomb).decode().rstrip("="), ledger="x")
