"""What may be changed on a Machine, and what becomes of its stamp."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.projects.machines.builders import (
    KEYS,
    LARGE,
    NOW,
    SMALL,
    coming,
    later,
    machine,
    size,
    size_of,
    spec,
    stamped,
)
from ullage.ledger.amounts import Amounts
from ullage.ledger.charging.stamps import STAMP
from ullage.projects.machines.facts import MachineFacts
from ullage.projects.machines.signatures import (
    SIGNATURE,
    Signed,
    SigningKeys,
    Valid,
    sign_bound,
    sign_new,
    verify,
)
from ullage.projects.machines.updates import create_fault, marks_fault, marks_on_create, marks_on_update, update_fault

NEXT = SigningKeys(b"n" * 32, b"k" * 32)
OLD = stamped(machine(), sign_bound(machine(), SMALL, KEYS, now=NOW))
FRESH = stamped(machine(), sign_new(coming(), SMALL, KEYS, now=NOW))
UNREADABLE: Any = "\ud800"


def marks_of(facts: MachineFacts) -> dict[str, str | None]:
    return {STAMP: facts.takes, SIGNATURE: facts.signature}


def with_marks(facts: MachineFacts, marks: Any) -> MachineFacts:
    return replace(facts, takes=marks[STAMP], signature=marks[SIGNATURE])


def signed(amounts: Amounts, *, keys: SigningKeys = KEYS, **fields: Any) -> Signed:
    return sign_bound(machine(**fields), amounts, keys, now=later(60))


# --- create ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(coming(), id="without a stamp"),
        pytest.param(coming(takes='{"machines":{"cpu":"0"}}'), id="with amounts of its own"),
        pytest.param(coming(takes=OLD.takes, signature=OLD.signature), id="with the stamp of another machine"),
        pytest.param(
            stamped(coming(), sign_new(coming(), size("1"), KEYS, now=NOW)), id="with a stamp from before a flavour grew"
        ),
        pytest.param(stamped(coming(), sign_new(coming(), SMALL, KEYS, now=later(-600))), id="with a stamp of long ago"),
    ],
)
def test_a_new_machine_is_stamped_whatever_it_was_sent_with(sent: MachineFacts) -> None:
    marks = marks_on_create(sent, SMALL, KEYS, now=NOW)
    assert marks == sign_new(coming(), SMALL, KEYS, now=NOW).marks()
    stored = with_marks(machine(), marks)
    assert create_fault(stored, SMALL, KEYS, now=later(1)) is None


def test_a_hook_that_is_asked_again_changes_nothing() -> None:
    named = coming(name="db", generate_name="")
    first = with_marks(named, marks_on_create(named, SMALL, KEYS, now=NOW))
    assert marks_on_create(first, SMALL, KEYS, now=later(5)) == marks_of(first)
    assert marks_on_create(first, LARGE, KEYS, now=later(5)) != marks_of(first)


def test_without_a_size_there_is_no_stamp() -> None:
    sent = coming(takes=OLD.takes, signature=OLD.signature)
    assert marks_on_create(sent, None, KEYS, now=NOW) == {STAMP: None, SIGNATURE: None}
    assert create_fault(machine(), None, KEYS, now=NOW) is None


@pytest.mark.parametrize(
    ("stored", "known", "said"),
    [
        pytest.param(
            machine(),
            SMALL,
            "metadata.annotations[ullage.io/takes]: it is missing; another webhook changes the Machine, or its stamp",
            id="another webhook took it off",
        ),
        pytest.param(
            FRESH,
            LARGE,
            'metadata.annotations[ullage.io/takes]: it is {"machines":{"cpu":"2","memory":"4Gi","storage":"20Gi"}}, and the'
            ' size is {"machines":{"cpu":"4","memory":"8Gi","storage":"40Gi"}} by now',
            id="the catalogue has changed between the phases",
        ),
        pytest.param(
            FRESH,
            None,
            "metadata.annotations[ullage.io/takes]: its size is not known, and another webhook stamps it",
            id="stamped although nobody knows the size",
        ),
        pytest.param(
            replace(FRESH, provider_spec=spec("l")),
            LARGE,
            "metadata.annotations[ullage.io/takes-signature]: it is not of this Machine, this cluster, this provider spec and"
            " these amounts; another webhook changes the Machine, or its stamp",
            id="another webhook changed the flavour behind ours",
        ),
    ],
)
def test_what_changes_between_the_phases_is_not_admitted(stored: MachineFacts, known: Amounts | None, said: str) -> None:
    assert create_fault(stored, known, KEYS, now=later(1)) == said


# --- updates: what they may change -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("new", "said"),
    [
        pytest.param(OLD, None, id="nothing"),
        pytest.param(replace(OLD, takes=None, signature="mine"), None, id="the stamp, which is put back elsewhere"),
        pytest.param(replace(OLD, provider_spec=spec("m", sshPublicKeys=["b"])), None, id="a key"),
        pytest.param(replace(OLD, provider_spec=spec("m2")), None, id="another flavour of the same size"),
        pytest.param(
            replace(OLD, provider_spec=spec("l")),
            "spec.providerSpec: Machine web-abcde would take cpu 4 cores instead of 2 cores, memory 8Gi instead of 4Gi, storage"
            " 40Gi instead of 20Gi; a server keeps the size that it was made with. Next: change the MachineDeployment, which"
            " replaces its machines, or create another Machine and delete this one",
            id="a larger flavour",
        ),
        pytest.param(
            replace(OLD, provider_spec=spec("s")),
            "spec.providerSpec: Machine web-abcde would take cpu 1 core instead of 2 cores, memory 2Gi instead of 4Gi, storage"
            " 10Gi instead of 20Gi; a server keeps the size that it was made with. Next: change the MachineDeployment, which"
            " replaces its machines, or create another Machine and delete this one",
            id="a smaller flavour",
        ),
        pytest.param(
            replace(OLD, provider_spec=spec("xl")),
            "spec.providerSpec: whether the change leaves what Machine web-abcde takes as it is cannot be told, since a size is"
            " not known, and the project has a quota. It is being looked up. Next: try again in a minute",
            id="an unknown flavour",
        ),
    ],
)
def test_only_an_update_that_changes_what_it_costs_is_refused(new: MachineFacts, said: str | None) -> None:
    assert update_fault(OLD, new, KEYS, size_of=size_of, limited=True) == said


def test_without_a_quota_an_unknown_flavour_is_no_reason() -> None:
    assert update_fault(OLD, replace(OLD, provider_spec=spec("xl")), KEYS, size_of=size_of, limited=False) is None
    assert update_fault(OLD, replace(OLD, provider_spec=spec("l")), KEYS, size_of=size_of, limited=False) is not None


@pytest.mark.parametrize("flavour", [pytest.param("xl", id="unknown"), pytest.param("m", id="known")])
def test_a_machine_whose_stamp_is_wrong_can_lose_its_finalizers(flavour: str) -> None:
    old = machine(provider_spec=spec(flavour), signature="mine")
    assert update_fault(old, old, KEYS, size_of=size_of, limited=True) is None
    assert marks_fault(old, old, KEYS) is None


def test_what_it_costs_is_what_it_is_stamped_with() -> None:
    """The flavour has grown since; the server has not, and another of the old size is as good."""
    old = stamped(machine(provider_spec=spec("l")), sign_bound(machine(provider_spec=spec("l")), SMALL, KEYS, now=NOW))
    assert update_fault(old, replace(old, provider_spec=spec("m")), KEYS, size_of=size_of, limited=True) is None
    grown = replace(old, provider_spec=spec("l", sshPublicKeys=["b"]))
    assert update_fault(old, grown, KEYS, size_of=size_of, limited=True) is None, "it costs what the spec of before does"
    after = with_marks(grown, marks_on_update(old, grown, KEYS, now=later(60), size_of=size_of))
    found = verify(after, KEYS)
    assert isinstance(found, Valid)
    assert found.amounts == SMALL
    assert update_fault(old, replace(old, provider_spec=spec("s")), KEYS, size_of=size_of, limited=True) is not None


def test_without_a_stamp_it_is_what_the_spec_costs() -> None:
    old = machine()
    assert update_fault(old, replace(old, provider_spec=spec("m2")), KEYS, size_of=size_of, limited=True) is None
    assert update_fault(old, replace(old, provider_spec=spec("l")), KEYS, size_of=size_of, limited=True) is not None


# --- updates: the stamp ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"takes": None, "signature": None}, id="taken off"),
        pytest.param({"signature": None}, id="the signature taken off"),
        pytest.param({"takes": '{"machines":{"cpu":"0"}}'}, id="edited"),
        pytest.param({"signature": "v1:bound:1794830401:" + "0" * 64}, id="forged"),
        pytest.param({"takes": FRESH.takes, "signature": FRESH.signature}, id="the first one put back"),
        pytest.param(
            {"takes": signed(LARGE, uid="u-2").takes, "signature": signed(LARGE, uid="u-2").signature},
            id="another machine's",
        ),
        pytest.param(
            {"takes": signed(size("1")).takes, "signature": signed(size("1")).signature},
            id="one of its own that says less",
        ),
    ],
)
def test_what_a_person_does_to_the_stamp_is_put_back(given: dict[str, Any]) -> None:
    new = replace(OLD, **given)
    assert marks_on_update(OLD, new, KEYS, now=later(60), size_of=size_of) == marks_of(OLD)
    fault = marks_fault(OLD, new, KEYS)
    assert fault is not None
    assert fault.endswith(": another webhook changes it; only Ullage may")
    assert fault.startswith("metadata.annotations[ullage.io/takes")


@pytest.mark.parametrize(
    ("old", "given", "keys"),
    [
        pytest.param(FRESH, signed(SMALL), KEYS, id="bound when it is there"),
        pytest.param(OLD, signed(LARGE), KEYS, id="raised"),
        pytest.param(OLD, signed(SMALL, keys=NEXT), NEXT, id="signed with the next key"),
        pytest.param(machine(), signed(SMALL), KEYS, id="sized since it had none"),
        pytest.param(machine(signature="mine"), signed(SMALL), KEYS, id="sized since it was wrong"),
    ],
)
def test_what_our_controller_writes_stands(old: MachineFacts, given: Signed, keys: SigningKeys) -> None:
    new = stamped(old, given)
    assert marks_on_update(old, new, keys, now=later(60), size_of=size_of) == given.marks()
    assert marks_fault(old, new, keys) is None


def test_a_new_spec_of_the_same_cost_gets_a_stamp_of_its_own() -> None:
    new = replace(OLD, provider_spec=spec("m2"))
    after = with_marks(new, marks_on_update(OLD, new, KEYS, now=later(60), size_of=size_of))
    verdict = verify(after, KEYS)
    assert isinstance(verdict, Valid)
    assert (verdict.amounts, verdict.form) == (SMALL, "bound")
    assert marks_fault(OLD, after, KEYS) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(OLD, replace(OLD, provider_spec=spec("l")), id="one that costs more"),
        pytest.param(OLD, replace(OLD, provider_spec=spec("s")), id="one that costs less"),
        pytest.param(OLD, replace(OLD, provider_spec=spec("xl")), id="one that nobody knows"),
        pytest.param(FRESH, replace(FRESH, provider_spec=spec("m2")), id="one of the same cost, before it was bound"),
        pytest.param(machine(), machine(provider_spec=spec("m2")), id="one of the same cost, without a stamp"),
    ],
)
def test_the_hook_binds_nothing_that_was_not_bound_to_the_same_amounts(old: MachineFacts, new: MachineFacts) -> None:
    """Whoever knows the path of the webhook can send it any old and new object: it must not sign what he makes up."""
    assert marks_on_update(old, new, KEYS, now=later(60), size_of=size_of) == marks_of(old)


def test_a_made_up_uid_is_not_believed() -> None:
    """The stored object says which one it is; the new one may say anything."""
    new = replace(stamped(OLD, signed(LARGE, uid="u-2")), uid="u-2")
    assert marks_on_update(OLD, new, KEYS, now=later(60), size_of=size_of) == marks_of(OLD)


def test_a_spec_that_cannot_be_signed_for_leaves_the_stamp_as_it_is() -> None:
    new = replace(OLD, provider_spec=UNREADABLE)
    assert marks_on_update(OLD, new, KEYS, now=later(60), size_of=lambda found: SMALL) == marks_of(OLD)
