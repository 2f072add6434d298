"""Signed stamps: good for the Machine that they were made for, and for nothing else."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.unit.projects.machines.builders import KEYS, LARGE, NOW, SMALL, coming, later, machine, size, spec, stamped
from ullage.ledger.amounts import Amounts
from ullage.projects.machines.facts import MachineFacts
from ullage.projects.machines.signatures import (
    FRESH,
    LONGEST_TAKES,
    SKEW,
    BadSigningKey,
    Signed,
    SigningKeys,
    Valid,
    Wrong,
    sign_bound,
    sign_new,
    stamp_text,
    verify,
    verify_create,
)

NEXT = SigningKeys(b"n" * 32, b"k" * 32)
NEW = sign_new(coming(), SMALL, KEYS, now=NOW)
BOUND = sign_bound(machine(), SMALL, KEYS, now=NOW)


def reason(facts: MachineFacts, keys: SigningKeys = KEYS) -> str:
    verdict = verify(facts, keys)
    return verdict.reason if isinstance(verdict, Wrong) else "valid"


# --- what is good ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "amounts",
    [
        pytest.param(SMALL, id="of all three"),
        pytest.param(size("0", "0", "20Gi"), id="of one resource alone"),
        pytest.param(Amounts(), id="nothing"),
        pytest.param(size("1500m", "16G", "1e3"), id="in other units"),
    ],
)
def test_a_bound_stamp_says_what_was_signed(amounts: Amounts) -> None:
    verdict = verify(stamped(machine(), sign_bound(machine(), amounts, KEYS, now=NOW)), KEYS)
    assert verdict == Valid(amounts=amounts, form="bound", issued=int(NOW.timestamp()))
    assert verdict.settled
    assert verdict.takes.account("machines") == amounts


def test_a_new_machine_has_its_stamp_before_it_has_name_and_uid() -> None:
    verdict = verify(stamped(machine(), NEW), KEYS)
    assert isinstance(verdict, Valid)
    assert (verdict.amounts, verdict.form, verdict.settled) == (SMALL, "new", False)


def test_a_new_machine_with_a_name_of_its_own_has_one_too() -> None:
    signed = sign_new(coming(name="db", generate_name=""), SMALL, KEYS, now=NOW)
    assert reason(stamped(machine(name="db", generate_name=""), signed)) == "valid"


def test_the_annotations_are_short_and_readable() -> None:
    assert BOUND.takes == '{"machines":{"cpu":"2","memory":"4Gi","storage":"20Gi"}}'
    assert BOUND.signature.startswith("v1:bound:1794830400:")
    assert len(BOUND.signature) == 84


def test_of_a_long_beginning_of_a_name_the_api_server_keeps_58_characters() -> None:
    beginning = "w" * 80
    signed = sign_new(coming(generate_name=beginning), SMALL, KEYS, now=NOW)
    assert reason(stamped(machine(name="w" * 58 + "abcde", generate_name=beginning), signed)) == "valid"
    assert reason(stamped(machine(name="w" * 57 + "-abcde", generate_name=beginning), signed)) == "NotSigned"


def test_a_spec_that_the_api_gives_back_in_another_way_is_the_same() -> None:
    sent = {"b": 25.0, "a": {"y": None, "x": 1}}
    signed = sign_new(coming(provider_spec=sent), SMALL, KEYS, now=NOW)
    assert reason(stamped(machine(provider_spec={"a": {"x": 1}, "b": 25}), signed)) == "valid"


# --- what is copied --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("signed", [pytest.param(NEW, id="new"), pytest.param(BOUND, id="bound")])
@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"cluster": "c-2"}, id="in another cluster"),
        pytest.param({"provider_spec": spec("l")}, id="with a larger flavour"),
        pytest.param({"provider_spec": None}, id="without a provider spec"),
        pytest.param({"takes": stamp_text(size("1"))}, id="with a smaller amount"),
        pytest.param({"takes": stamp_text(LARGE)}, id="with a larger amount"),
        pytest.param({"takes": " " + NEW.takes}, id="with a blank before its amounts"),
    ],
)
def test_a_stamp_is_good_for_nothing_else(signed: Signed, other: dict[str, Any]) -> None:
    assert reason(replace(stamped(machine(), signed), **other)) == "NotSigned"


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"uid": "u-2"}, id="another uid under the same name"),
        pytest.param({"uid": "u-2", "name": "web-fghij"}, id="another machine"),
        pytest.param({"uid": ""}, id="no uid"),
    ],
)
def test_a_bound_stamp_is_good_for_one_uid(other: dict[str, Any]) -> None:
    assert reason(replace(stamped(machine(), BOUND), **other)) == "NotSigned"


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"namespace": "default"}, id="another namespace"),
        pytest.param({"name": "db-abcde"}, id="a name with another beginning"),
        pytest.param({"generate_name": "db-", "name": "db-abcde"}, id="another beginning"),
        pytest.param({"generate_name": ""}, id="no beginning"),
        pytest.param({"generate_name": "", "name": "web-"}, id="the beginning as a name"),
    ],
)
def test_a_new_stamp_is_good_for_its_name(other: dict[str, Any]) -> None:
    assert reason(replace(stamped(machine(), NEW), **other)) == "NotSigned"


def test_one_form_is_not_taken_for_the_other() -> None:
    facts = machine(takes=BOUND.takes, signature=BOUND.signature.replace("bound", "new"))
    assert reason(facts) == "NotSigned"
    assert reason(machine(takes=NEW.takes, signature=NEW.signature.replace("new", "bound"))) == "NotSigned"


def test_the_time_of_issue_is_signed() -> None:
    for signed in (NEW, BOUND):
        assert reason(machine(takes=signed.takes, signature=signed.signature.replace(":17", ":18"))) == "NotSigned"


def test_parts_cannot_be_moved_from_one_field_to_the_next() -> None:
    """As they could if the fields were put behind each other without anything between them."""
    signed = sign_bound(machine(cluster="c-1", uid="1u"), SMALL, KEYS, now=NOW)
    assert reason(stamped(machine(cluster="c-11", uid="u"), signed)) == "NotSigned"


# --- age -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("created", "found"),
    [
        pytest.param(NOW, "valid", id="at once"),
        pytest.param(NOW + FRESH, "valid", id="just in time"),
        pytest.param(NOW + FRESH + timedelta(seconds=1), "NotFresh", id="a second too late"),
        pytest.param(NOW + timedelta(days=300), "NotFresh", id="copied to a machine of next year"),
        pytest.param(NOW - SKEW, "valid", id="the clock of the API server is behind"),
        pytest.param(NOW - SKEW - timedelta(seconds=1), "NotFresh", id="copied to a machine that was there before"),
        pytest.param(None, "NotFresh", id="no date"),
    ],
)
def test_a_new_stamp_is_for_a_machine_that_is_made_at_that_time(created: datetime | None, found: str) -> None:
    assert reason(stamped(machine(created=created), NEW)) == found


def test_a_bound_stamp_does_not_age() -> None:
    assert reason(stamped(machine(created=NOW - timedelta(days=900)), BOUND)) == "valid"


def test_in_admission_the_date_of_creation_is_ours() -> None:
    claimed = stamped(machine(created=NOW), NEW)
    assert isinstance(verify_create(claimed, KEYS, now=later(10)), Valid)
    verdict = verify_create(claimed, KEYS, now=later(3600))
    assert isinstance(verdict, Wrong)
    assert verdict.reason == "NotFresh"


# --- what is no stamp ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("marks", "found", "said"),
    [
        pytest.param({"takes": None}, "Missing", "metadata.annotations[ullage.io/takes]: it is missing", id="no amounts"),
        pytest.param(
            {"signature": None}, "Missing", "metadata.annotations[ullage.io/takes-signature]: it is missing", id="no signature"
        ),
        pytest.param(
            {"takes": "x" * (LONGEST_TAKES + 1)},
            "TooLong",
            "metadata.annotations[ullage.io/takes]: it has 1025 characters, more than 1024",
            id="amounts of hostile length",
        ),
        pytest.param(
            {"signature": "v1:bound:1:" + "a" * 250_000},
            "Malformed",
            "metadata.annotations[ullage.io/takes-signature]: it is no signature of ours: v1:FORM:ISSUED:CODE",
            id="a signature of hostile length",
        ),
        pytest.param({"signature": ""}, "Malformed", None, id="an empty signature"),
        pytest.param({"signature": BOUND.signature + "\n"}, "Malformed", None, id="a line end behind it"),
        pytest.param({"signature": BOUND.signature.upper()}, "Malformed", None, id="capital letters"),
        pytest.param({"signature": BOUND.signature.replace("v1", "v2")}, "Malformed", None, id="a version that is to come"),
        pytest.param(
            {"signature": BOUND.signature.replace(":1", ":01")}, "Malformed", None, id="a time with a nought before it"
        ),
        pytest.param({"signature": BOUND.signature.replace(":17", ":\u0661\u0667")}, "Malformed", None, id="other digits"),
        pytest.param({"takes": "\ud800"}, "Unreadable", None, id="half a character"),
        pytest.param(
            {"takes": "{}"},
            "NotSigned",
            "metadata.annotations[ullage.io/takes-signature]: it is not of this Machine, this cluster, this provider spec"
            " and these amounts",
            id="other amounts",
        ),
    ],
)
def test_what_is_no_stamp_of_ours_is_wrong(marks: dict[str, Any], found: str, said: str | None) -> None:
    verdict = verify(replace(stamped(machine(), BOUND), **marks), KEYS)
    assert isinstance(verdict, Wrong)
    assert verdict.reason == found
    assert said is None or verdict.message == said


def test_a_provider_spec_that_cannot_be_read_makes_no_exception() -> None:
    nested: Any = 1
    for _ in range(20_000):
        nested = [nested]
    assert reason(stamped(machine(provider_spec=nested), BOUND)) == "Unreadable"


def test_what_is_not_there_cannot_be_bound() -> None:
    with pytest.raises(ValueError, match="has no uid"):
        sign_bound(coming(), SMALL, KEYS, now=NOW)


# --- keys ------------------------------------------------------------------------------------------------------------


def test_a_key_is_changed_without_a_moment_in_which_a_stamp_is_wrong() -> None:
    old, new = b"k" * 32, b"n" * 32
    steps = [SigningKeys(old), SigningKeys(old, new), SigningKeys(new, old), SigningKeys(new)]
    for signing, reading in itertools.pairwise(steps):  # replicas that are one step apart
        for signer, reader in ((signing, reading), (reading, signing), (reading, reading)):
            assert reason(stamped(machine(), sign_bound(machine(), SMALL, signer, now=NOW)), reader) == "valid"


def test_what_the_other_key_signed_is_to_be_signed_anew() -> None:
    verdict = verify(stamped(machine(), BOUND), NEXT)
    assert isinstance(verdict, Valid)
    assert verdict.renew
    assert not verdict.settled


def test_a_key_that_is_gone_signs_nothing_any_more() -> None:
    assert reason(stamped(machine(), BOUND), SigningKeys(b"n" * 32)) == "NotSigned"
    assert reason(stamped(machine(), BOUND), SigningKeys(b"n" * 32, b"o" * 32)) == "NotSigned"


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        pytest.param((b"",), "a key that signs stamps has 32 bytes at least, not 0", id="empty"),
        pytest.param((b"k" * 31,), "a key that signs stamps has 32 bytes at least, not 31", id="short"),
        pytest.param((b"k" * 32, b"n"), "a key that signs stamps has 32 bytes at least, not 1", id="the other is short"),
        pytest.param(
            (b"k" * 32, b"k" * 32), "the key that signs stamps and the other one that is accepted are the same", id="one"
        ),
    ],
)
def test_keys_that_are_none_are_refused(keys: tuple[bytes, ...], said: str) -> None:
    with pytest.raises(BadSigningKey) as raised:
        SigningKeys(*keys)
    assert str(raised.value) == said


def test_a_key_is_not_shown() -> None:
    assert "kkk" not in repr(KEYS)
    assert "kkk" not in repr(NEXT)
