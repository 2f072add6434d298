"""Stamps of Machines: what was signed reads as it was, and nothing else does."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from hypothesis import assume, given
from hypothesis import strategies as st

from ullage.ledger.amounts import Amounts
from ullage.projects.machines.digests import digest
from ullage.projects.machines.facts import MachineFacts
from ullage.projects.machines.signatures import Signed, SigningKeys, Valid, Wrong, sign_bound, sign_new, verify
from ullage.projects.names import RESOURCES
from ullage.quantity import Quantity

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEYS = SigningKeys(b"1" * 32, b"2" * 32)
OTHERS = SigningKeys(b"3" * 32, b"4" * 32)

WORDS = st.text(min_size=1, max_size=12)
NUMBERS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False))
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=6), inner, max_size=4)),
    max_leaves=12,
)
AMOUNTS = st.fixed_dictionaries(dict.fromkeys(RESOURCES, st.integers(0, 2**70))).map(
    lambda found: Amounts({name: Quantity(nanos) for name, nanos in found.items()})
)


@st.composite
def machines(draw: st.DrawFn) -> MachineFacts:
    beginning = draw(WORDS)
    return MachineFacts(
        cluster=draw(WORDS),
        namespace=draw(WORDS),
        name=beginning + draw(WORDS),
        generate_name=beginning,
        uid=draw(WORDS),
        created=NOW,
        provider_spec=draw(JSON),
    )


@st.composite
def stamped(draw: st.DrawFn) -> MachineFacts:
    machine, amounts = draw(machines()), draw(AMOUNTS)
    if draw(st.booleans()):
        signed = sign_bound(machine, amounts, KEYS, now=NOW)
    else:
        coming = replace(machine, uid="", created=None, name=machine.name if draw(st.booleans()) else "")
        signed = sign_new(coming, amounts, KEYS, now=NOW)
    return with_stamp(machine, signed)


def with_stamp(machine: MachineFacts, signed: Signed) -> MachineFacts:
    return replace(machine, takes=signed.takes, signature=signed.signature)


@given(machines(), AMOUNTS)
def test_what_was_signed_reads_as_it_was(machine: MachineFacts, amounts: Amounts) -> None:
    for signed in (
        sign_bound(machine, amounts, KEYS, now=NOW),
        sign_new(machine, amounts, KEYS, now=NOW),
        sign_new(replace(machine, name="", uid="", created=None), amounts, KEYS, now=NOW),
    ):
        verdict = verify(with_stamp(machine, signed), KEYS)
        assert isinstance(verdict, Valid)
        assert verdict.amounts == amounts


@given(stamped(), st.data())
def test_a_changed_character_of_either_annotation_is_refused(machine: MachineFacts, data: st.DataObject) -> None:
    field = data.draw(st.sampled_from(["takes", "signature"]))
    text: str = getattr(machine, field)
    place = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, 3))
    changed = text[:place] + data.draw(st.text(max_size=3)) + text[place + cut :]
    assume(changed != text)
    forged = replace(machine, takes=changed) if field == "takes" else replace(machine, signature=changed)
    assert isinstance(verify(forged, KEYS), Wrong)


@given(stamped(), machines(), st.sets(st.sampled_from(["cluster", "identity", "provider_spec"]), min_size=1))
def test_on_another_machine_cluster_or_spec_it_is_refused(machine: MachineFacts, other: MachineFacts, parts: set[str]) -> None:
    names = ["uid", "namespace", "name", "generate_name"]
    taken = [name for part in parts for name in (names if part == "identity" else [part])]
    changed = replace(machine, **{name: getattr(other, name) for name in taken})
    assume(
        changed.cluster != machine.cluster
        or digest(changed.provider_spec) != digest(machine.provider_spec)
        or "identity" in parts
    )
    assume("identity" not in parts or (changed.uid != machine.uid and changed.namespace != machine.namespace))
    assert isinstance(verify(changed, KEYS), Wrong)


@given(stamped(), stamped())
def test_halves_of_two_stamps_make_none(one: MachineFacts, other: MachineFacts) -> None:
    assume(one.takes != other.takes)
    assert isinstance(verify(replace(one, takes=other.takes), KEYS), Wrong)
    assert isinstance(verify(replace(one, signature=other.signature), KEYS), Wrong)


@given(stamped())
def test_other_keys_know_nothing_of_it(machine: MachineFacts) -> None:
    assert isinstance(verify(machine, OTHERS), Wrong)


@given(stamped(), st.timedeltas(min_value=timedelta(days=-9000), max_value=timedelta(days=9000)))
def test_only_a_new_stamp_is_of_its_time(machine: MachineFacts, age: timedelta) -> None:
    verdict = verify(replace(machine, created=NOW + age), KEYS)
    form = "bound" if machine.signature and ":bound:" in machine.signature else "new"
    assert isinstance(verdict, Valid) == (form == "bound" or timedelta(seconds=-30) <= age <= timedelta(minutes=3))


@given(st.one_of(st.none(), st.text(max_size=200)), st.one_of(st.none(), st.text(max_size=200)), JSON)
def test_any_annotations_get_an_answer(takes: str | None, signature: str | None, spec: Any) -> None:
    machine = MachineFacts(cluster="c", namespace="n", name="m", provider_spec=spec, takes=takes, signature=signature)
    assert isinstance(verify(machine, KEYS), Wrong)


@given(JSON)
def test_a_digest_outlasts_a_trip_through_the_api(spec: Any) -> None:
    assert digest(msgspec.json.decode(msgspec.json.encode(spec))) == digest(spec)
