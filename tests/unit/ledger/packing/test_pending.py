"""The compact string of what is pending: exact, small, and refused where it is not what was written."""

from __future__ import annotations

import base64
import contextlib
import uuid
import zlib
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.ledger.amounts import NOTHING, Cell, Takings
from ullage.ledger.book import MOST_ATTEMPTS, MOST_GROWN, Attempt, Slot
from ullage.ledger.keys import key_of
from ullage.ledger.packing.pending import decode, encode
from ullage.ledger.packing.strings import PackedError
from ullage.quantity import Format, Quantity

NIL = "00000000-0000-0000-0000-000000000000"
UIDS = st.one_of(st.uuids().map(str), st.text("uid-0123456789", min_size=1), st.sampled_from(["", NIL]))
QUANTITIES = st.builds(Quantity, st.integers(1, 10**24), st.sampled_from(Format))
CELLS = st.builds(Cell, st.sampled_from(["a", "b/c"]), st.sampled_from(["cpu", "storage"]))
TAKINGS = st.dictionaries(CELLS, QUANTITIES, max_size=4).map(Takings)
ATTEMPTS = st.builds(Attempt, TAKINGS, st.integers(0, 2**50), st.none() | st.integers(0, 2**63 - 1), st.booleans())
SLOTS = st.builds(Slot, st.dictionaries(UIDS, ATTEMPTS, min_size=1, max_size=3), TAKINGS)
KEYS = st.builds(
    lambda kind, cluster, namespace, name: key_of(kind, cluster=cluster, namespace=namespace, name=name),
    st.sampled_from(["pods", "snapshots.longhorn.io"]),
    st.sampled_from(["", "c1"]),
    st.sampled_from(["", "lab"]),
    st.text("ab-.", min_size=1, max_size=5),
)


@given(st.dictionaries(KEYS, SLOTS, max_size=6))
def test_what_is_written_is_read(pending: dict[str, Slot]) -> None:
    text = encode(pending)
    assert decode(text, ledger="ns-lab") == pending
    assert encode(dict(reversed(pending.items()))) == text, "the same attempts give the same string"
    assert text.isascii()
    assert not set(text) & set('<>&"\\+/= '), "nothing that JSON, YAML or a URL would have to escape"


def test_amounts_stay_as_they_were_written() -> None:
    takes = Takings({Cell("a", "memory"): Quantity.parse("1Gi"), Cell("a", "disk"): Quantity.parse("1073741824")})
    read = decode(encode({"k///a": Slot({"u": Attempt(takes, 1, None)}, NOTHING)}), ledger="x")
    assert read["k///a"].attempts["u"].takes.written() == takes.written()


def test_none_is_the_empty_string() -> None:
    assert encode({}) == ""
    assert decode("", ledger="x") == {}


def test_five_hundred_attempts_stay_small() -> None:
    """As many different virtual machines as a busy namespace has, names as the API server generates them."""
    pending = {}
    for number in range(500):
        uid = uuid.uuid5(uuid.NAMESPACE_DNS, str(number))
        size = Quantity.parse("10Gi")
        cells = [Cell("snapshots/namespace", "storage"), Cell(f"snapshots/vm/vm-{number % 40}", "storage")]
        key = key_of("volumesnapshots.snapshot.storage.k8s.io", namespace="team-a", name=f"nightly-{uid.hex[:5]}")
        takes = Takings(dict.fromkeys(cells, size))
        pending[key] = Slot({str(uid): Attempt(takes, 1_767_225_600_000 + number * 7, None)}, NOTHING)
    assert len(encode(pending)) <= 20 * 1024


@pytest.mark.parametrize(
    "uids",
    [
        pytest.param(["", "8d3b2f5e-9b7c-4d38-8a52-6f1b1f0f5a11"], id="none, and one"),
        pytest.param(["", NIL], id="none, and one of zeros"),
    ],
)
def test_an_attempt_without_a_uid_is_read_as_one(uids: list[str]) -> None:
    attempts = {uid: Attempt(NOTHING, number, None) for number, uid in enumerate(uids)}
    assert decode(encode({"k///a": Slot(attempts, NOTHING)}), ledger="x")["k///a"].attempts == attempts


def test_attempts_without_a_uid_do_not_make_the_others_larger() -> None:
    random = Random(1)
    made = [str(uuid.UUID(int=random.getrandbits(128))) for _ in range(500)]
    without = {f"k//n/{number}": Slot({uid: Attempt(NOTHING, 1, None)}, NOTHING) for number, uid in enumerate(made)}
    one_less = {**without, "k//n/0": Slot({"": Attempt(NOTHING, 1, None)}, NOTHING)}
    assert len(encode(one_less)) <= len(encode(without))


def test_as_many_as_are_held_stay_far_below_what_etcd_takes_whatever_their_names() -> None:
    """Names as long as may be, with nothing in common; each object is in a namespace's account and in one of its own."""
    letters, random = "abcdefghijklmnopqrstuvwxyz0123456789", Random(1)
    pending = {}
    for number in range(MOST_ATTEMPTS + MOST_GROWN):
        name, other = ("".join(random.choices(letters, k=253)) for _ in range(2))
        cells = [Cell("snapshots/namespace", "storage"), Cell(f"snapshots/vm/{other}", "storage")]
        takes = Takings(dict.fromkeys(cells, Quantity.of(random.randrange(1, 2**50))))
        uid = str(uuid.UUID(int=random.getrandbits(128)))
        key = key_of("volumesnapshots.snapshot.storage.k8s.io", namespace="team-a", name=name)
        pending[key] = Slot(
            {uid: Attempt(takes, 1_767_225_600_000 + number * 7, random.getrandbits(40), number < MOST_GROWN)}, NOTHING
        )
    assert len(encode(pending)) < 1.4 * 2**20


# --- what is refused -------------------------------------------------------------------------------------------------


def columns(**changes: Any) -> str:
    """A valid string, with columns changed."""
    made = {
        "cells": [["a", "cpu"]],
        "amounts": [[[0, "1"]]],
        "places": ["pods//lab"],
        "keys": [[0, "a", 0, 1]],
        "uids": ["u"],
        "earliest": 5,
        "booked": [0],
        "takes": [0],
        "versions": [None],
        "grown": [],
    }
    return packed(list({**made, **changes}.values()))


def packed(value: object, *, tail: bytes = b"", version: str = "2") -> str:
    stream = zlib.compress(msgspec.msgpack.encode(value)) + tail
    return version + base64.urlsafe_b64encode(stream).decode().rstrip("=")


def test_the_valid_string_of_these_tests_is_valid() -> None:
    one = Takings({Cell("a", "cpu"): Quantity.of(1)})
    assert decode(columns(), ledger="x") == {"pods//lab/a": Slot({"u": Attempt(one, 5, None)}, one)}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("0" + columns()[1:], id="a version that is not known"),
        pytest.param(" " + columns(), id="a space before it"),
        pytest.param(columns() + "\n", id="a line break after it"),
        pytest.param("2", id="a version and nothing else"),
        pytest.param("2!!!!", id="no base64"),
        pytest.param("2AAAA", id="no stream"),
        pytest.param(columns()[:-4], id="cut off"),
        pytest.param(packed([]), id="no columns"),
        pytest.param(packed({}), id="no array"),
        pytest.param(packed([1], tail=b"x"), id="bytes after the stream"),
        pytest.param(columns(more=[]), id="one column too many"),
        pytest.param(columns(amounts=[[[0, "1 "]]]), id="no quantity"),
        pytest.param(columns(amounts=[[[0, "-1"]]]), id="an amount of less than nothing"),
        pytest.param(columns(amounts=[[[1, "1"]]]), id="a cell that is not there"),
        pytest.param(columns(amounts=[[[-1, "1"]]]), id="a negative index"),
        pytest.param(columns(keys=[[1, "a", 0, 1]]), id="a place that is not there"),
        pytest.param(columns(keys=[[0, "a", 1, 1]]), id="an amount that is not there"),
        pytest.param(columns(keys=[[0, "a", 0, 2]]), id="fewer attempts than a key has"),
        pytest.param(columns(keys=[]), id="attempts of no key"),
        pytest.param(columns(keys=[[0, "a", 0, 0], [0, "b", 0, 1]]), id="a key without attempts"),
        pytest.param(
            columns(keys=[[0, "a", 0, 1]] * 2, uids=["u", "v"], booked=[0, 0], takes=[0, 0], versions=[None] * 2),
            id="a key twice",
        ),
        pytest.param(
            columns(keys=[[0, "a", 0, 2]], uids=["u", "u"], booked=[0, 0], takes=[0, 0], versions=[None] * 2), id="a uid twice"
        ),
        pytest.param(columns(uids=b"x" * 15), id="a uid that is cut off"),
        pytest.param(columns(versions=[]), id="a column that is short"),
        pytest.param(columns(grown=[1]), id="growth of an attempt that is not there"),
        pytest.param(columns(grown=[0, 0]), id="growth that comes twice"),
        pytest.param(columns(versions=["7"]), id="a version that is no number"),
    ],
)
def test_any_other_string_is_an_error_that_names_the_ledger(text: str) -> None:
    with pytest.raises(PackedError, match=r"ledger ns-lab: status\.pending cannot be read: .+ledger rebuild ns-lab"):
        decode(text, ledger="ns-lab")


def test_an_amount_of_less_than_nothing_is_named() -> None:
    with pytest.raises(PackedError, match=r"a\.cpu -90: an amount is not negative"):
        decode(columns(amounts=[[[0, "-90"]]]), ledger="ns-lab")


@given(st.text())
def test_whatever_is_given_nothing_else_is_raised(text: str) -> None:
    with contextlib.suppress(PackedError):
        assert encode(decode(text, ledger="x")) == text


def test_a_string_that_inflates_without_end_is_refused() -> None:
    bomb = zlib.compress(b"\0" * (32 << 20))
    with pytest.raises(PackedError):
        decode("2" + base64.urlsafe_b64encode(bomb).decode().rstrip("="), ledger="x")
