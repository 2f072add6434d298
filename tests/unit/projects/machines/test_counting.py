"""What a Machine counts, whatever is done to its stamp."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.projects.machines.builders import KEYS, LARGE, NOW, SMALL, coming, later, machine, size, spec, stamped
from ullage.ledger.amounts import Amounts
from ullage.projects.machines.counting import Counted, Remembered, Resize, count, remember, sized_anew
from ullage.projects.machines.facts import MachineFacts
from ullage.projects.machines.signatures import SigningKeys, sign_bound, sign_new, verify

BOUND = stamped(machine(), sign_bound(machine(), SMALL, KEYS, now=NOW))
RAISED = stamped(machine(), sign_bound(machine(), LARGE, KEYS, now=later(60)))
NEW = stamped(machine(), sign_new(coming(), SMALL, KEYS, now=NOW))


def counted(facts: MachineFacts, remembered: Remembered | None = None, *, keys: SigningKeys = KEYS) -> Counted | Resize:
    return count(facts, verify(facts, keys), remembered=remembered)


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        pytest.param(BOUND, Counted(SMALL), id="a bound stamp"),
        pytest.param(NEW, Counted(SMALL, bind=True), id="a new one, which is to be bound"),
        pytest.param(RAISED, Counted(LARGE), id="one that was raised"),
    ],
)
def test_a_valid_stamp_is_what_it_counts(facts: MachineFacts, found: Counted) -> None:
    assert counted(facts) == found


def test_what_another_key_signed_counts_and_is_signed_again() -> None:
    assert counted(BOUND, keys=SigningKeys(b"n" * 32, b"k" * 32)) == Counted(SMALL, bind=True)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        pytest.param(machine(), "Missing", id="it has none"),
        pytest.param(replace(BOUND, signature="mine"), "Malformed", id="it is forged"),
        pytest.param(replace(BOUND, uid="u-2"), "NotSigned", id="it was copied from another machine"),
        pytest.param(replace(BOUND, cluster="c-2"), "NotSigned", id="it was copied from another cluster"),
        pytest.param(replace(BOUND, provider_spec=spec("s")), "NotSigned", id="the provider spec is another one"),
        pytest.param(replace(NEW, created=later(9000)), "NotFresh", id="it was made for a machine of earlier"),
    ],
)
def test_a_wrong_stamp_is_sized_anew_and_alarmed(facts: MachineFacts, reason: str) -> None:
    found = counted(facts)
    assert isinstance(found, Resize)
    assert (found.reason, found.alarm, found.at_least) == (reason, True, Amounts())


@pytest.mark.parametrize(
    ("facts", "remembered", "alarm"),
    [
        pytest.param(machine(created=later(-1)), None, False, id="it was there before us"),
        pytest.param(machine(created=NOW), None, True, id="it came when the webhook was asked"),
        pytest.param(machine(created=None), None, True, id="nobody knows when it came"),
        pytest.param(machine(created=later(-1)), Remembered("u-1", SMALL), True, id="it had one, and somebody took it off"),
        pytest.param(replace(BOUND, created=later(-1), uid="u-2"), None, True, id="it was there before us, with a forged one"),
    ],
)
def test_nobody_is_told_of_machines_that_were_there_before_us(
    facts: MachineFacts, remembered: Remembered | None, alarm: bool
) -> None:
    found = count(facts, verify(facts, KEYS), remembered=remembered, asked_since=NOW)
    assert isinstance(found, Resize)
    assert found.alarm == alarm


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(BOUND, id="an earlier stamp is put back"),
        pytest.param(NEW, id="the first stamp is put back"),
        pytest.param(machine(), id="the stamp is taken off"),
        pytest.param(machine(provider_spec=spec("s")), id="the spec is exchanged for a smaller one, and the stamp taken off"),
        pytest.param(
            stamped(machine(), sign_bound(machine(), size("8", "1Gi", "1Gi"), KEYS, now=NOW)),
            id="one that says more of one resource and less of another",
        ),
    ],
)
def test_what_a_machine_counts_never_goes_down(facts: MachineFacts) -> None:
    found = counted(facts, Remembered("u-1", LARGE))
    assert isinstance(found, Resize)
    assert (found.alarm, found.at_least) == (True, LARGE)
    assert sized_anew(found, size("1", "2Gi", "10Gi")) == LARGE
    assert remember(facts, found) == Remembered("u-1", LARGE)


def test_a_lowered_stamp_is_named_as_such() -> None:
    found = counted(BOUND, Remembered("u-1", LARGE))
    assert isinstance(found, Resize)
    assert (found.reason, found.message) == ("Lowered", "its stamp says less than it did: an earlier one was put back")


def test_another_machine_of_the_name_owes_nothing_to_the_one_before() -> None:
    assert counted(BOUND, Remembered("u-0", LARGE)) == Counted(SMALL)
    assert remember(BOUND, Counted(SMALL)) == Remembered("u-1", SMALL)


@pytest.mark.parametrize(
    ("found", "known", "stamp"),
    [
        pytest.param(Counted(SMALL, bind=True), SMALL, SMALL, id="as it was"),
        pytest.param(Counted(SMALL, bind=True), LARGE, LARGE, id="the flavour has grown between the phases"),
        pytest.param(Counted(LARGE, bind=True), SMALL, LARGE, id="the flavour has shrunk, and the server has not"),
        pytest.param(Counted(SMALL, bind=True), None, SMALL, id="the flavour is not known any more"),
        pytest.param(Counted(Amounts(), bind=True), None, Amounts(), id="it takes nothing, and that is known"),
        pytest.param(Resize(reason="Missing", message=""), SMALL, SMALL, id="sized for the first time"),
        pytest.param(Resize(reason="Missing", message=""), None, None, id="nobody knows anything"),
        pytest.param(Resize(reason="Missing", message="", at_least=SMALL), None, SMALL, id="what it was stays"),
        pytest.param(
            Resize(reason="Missing", message="", at_least=size("8", "1Gi", "1Gi")),
            SMALL,
            size("8", "4Gi", "20Gi"),
            id="the larger of each",
        ),
    ],
)
def test_what_it_is_stamped_with_anew(found: Counted | Resize, known: Amounts | None, stamp: Amounts | None) -> None:
    assert sized_anew(found, known) == stamp
