"""What is next about one project, beside the steps of the escrow: seeds that are dead, quotas that go, limits without one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.projects.builders import NOW, details, meta, quota, usage
from ullage.ledger.amounts import Amounts, Cell
from ullage.projects.api.kkp import Seed
from ullage.projects.api.quotas import ResourceQuotaStatus, SeedUsage
from ullage.projects.controllers.quota.escrow.rules import (
    EscrowFacts,
    Forget,
    is_dead,
    is_draining,
    last_usage,
    left_by,
    lifted,
    steps,
    untold,
)
from ullage.projects.escrow.record import record_patch
from ullage.projects.escrow.seeds import SeedLedger
from ullage.projects.escrow.steps import Carry, Record
from ullage.projects.escrow.terms import Escrow, Part, Share
from ullage.projects.names import ACCOUNT, DRAINED, DRAINING
from ullage.quantity import Quantity

CELL = Cell(ACCOUNT, "cpu")


def cpu(count: int) -> Quantity:
    return Quantity.of(count)


def share(granted: int, *, change: int = 1) -> Share:
    return Share(change, reached=change, parts={"cpu": Part(cpu(granted), cpu(granted))})


def ledger(limit: int | None, *, change: int = 1, used: int = 0) -> SeedLedger:
    limits = {} if limit is None else {CELL: cpu(limit)}
    grants = {} if limit is None else {CELL: cpu(10)}
    return SeedLedger(change=change, limits=limits, grants=grants, taken=Amounts({"cpu": cpu(used)}), unreached="")


def facts(record: Escrow, seeds: dict[str, SeedLedger | None], *, deleting: bool = False, **more: Any) -> EscrowFacts:
    annotations = record_patch(record)["metadata"]["annotations"] if record.shares else {}
    whole = quota(limits=details(cpu=10), annotations=annotations, deleting=deleting)
    return EscrowFacts(quota=whole, record=record, seeds=seeds, **more)


HALVES = Escrow({"eu": share(5), "us": share(5)})


def seed(**annotations: str) -> Seed:
    return Seed(metadata=meta("us", annotations=annotations))


def test_what_a_dead_seed_does_not_use_is_recorded_as_free_once() -> None:
    dead = {"us": Amounts({"cpu": cpu(2)})}
    seen: dict[str, SeedLedger | None] = {"eu": ledger(5), "us": None}
    (step,) = steps(facts(HALVES, seen, dead=dead), now=NOW)
    assert isinstance(step, Record)
    assert step.escrow.shares["us"].parts == {"cpu": Part(cpu(2), cpu(2))}
    assert step.escrow.shares["eu"] == HALVES.shares["eu"], "first that, and then the others"
    (step,) = steps(facts(step.escrow, seen, dead=dead), now=NOW)
    assert isinstance(step, Record)
    assert {name: str(one.parts["cpu"].granted) for name, one in step.escrow.shares.items()} == {"eu": "8", "us": "2"}


def test_a_seed_that_is_heard_of_is_not_dead_whatever_somebody_says() -> None:
    seen: dict[str, SeedLedger | None] = {"eu": ledger(5), "us": ledger(5, used=4)}
    assert steps(facts(HALVES, seen, dead={"us": Amounts()}), now=NOW) == ()


def test_a_quota_that_goes_is_forgotten_when_all_seeds_know_that_they_have_no_limit() -> None:
    going = facts(HALVES, {"eu": ledger(5), "us": ledger(5)}, deleting=True)
    (step,) = steps(going, now=NOW)
    assert isinstance(step, Record)
    free = step.escrow
    assert [one.parts for one in free.shares.values()] == [{}, {}]
    told = ledger(None, change=2)
    carried = steps(facts(free, {"eu": ledger(5), "us": told}, deleting=True), now=NOW)
    assert carried == (Carry(seed="eu", number=2, limits={}, grants={}),)
    assert steps(facts(free, {"eu": told, "us": None}, deleting=True), now=NOW) == (), "one cannot be asked: it is waited for"
    assert steps(facts(free, {"eu": told, "us": told}, deleting=True), now=NOW) == (Forget(),)
    # Of one that was removed nothing is left in the record of a quota without limits.
    (step,) = steps(facts(free, {"eu": told}, deleting=True), now=NOW)
    assert isinstance(step, Record)
    assert step.escrow.shares.keys() == {"eu"}
    assert steps(facts(step.escrow, {"eu": told}, deleting=True), now=NOW) == (Forget(),)


def test_a_quota_that_goes_without_a_record_is_left_alone() -> None:
    assert steps(facts(Escrow(), {"eu": ledger(None)}, deleting=True), now=NOW) == ()


def test_who_has_not_heard_of_the_record_yet() -> None:
    record = Escrow({name: share(5, change=3) for name in "abcd"})
    assert untold(record, {"a": ledger(5, change=3), "b": ledger(5, change=2), "c": None, "e": None}) == ["b", "c"]


def test_limits_without_a_quota_are_lifted_with_the_next_number() -> None:
    seen: dict[str, SeedLedger | None] = {"eu": ledger(5, change=7), "us": ledger(None, change=9), "asia": None}
    assert lifted(seen) == [Carry(seed="eu", number=8, limits={}, grants={})]


@pytest.mark.parametrize(
    ("found", "draining", "dead"),
    [
        pytest.param(seed(), False, False, id="one like others"),
        pytest.param(seed(**{DRAINING: "true"}), True, False, id="one that is to leave"),
        pytest.param(seed(**{DRAINING: "false"}), False, False, id="one that is not to leave"),
        pytest.param(Seed(metadata=meta("us", deleting=True)), True, False, id="one whose object is being deleted"),
        pytest.param(seed(**{DRAINED: "true"}), True, True, id="a dead one"),
        pytest.param(seed(**{DRAINED: "gone"}), True, True, id="a dead one without machines"),
        pytest.param(seed(**{DRAINED: "perhaps"}), False, False, id="no word that is known"),
    ],
)
def test_which_seeds_leave_and_which_are_dead(found: Seed, draining: bool, dead: bool) -> None:
    assert (is_draining(found), is_dead(found)) == (draining, dead)


def test_a_dead_seed_keeps_what_it_used_last_unless_its_machines_are_gone() -> None:
    last = Amounts({"cpu": cpu(3)})
    assert left_by(seed(**{DRAINED: "true"}), last=last) == last
    assert left_by(seed(**{DRAINED: "true"}), last=None) is None
    assert left_by(seed(**{DRAINED: "gone"}), last=last) == Amounts()


def test_what_a_seed_said_last() -> None:
    status = ResourceQuotaStatus(
        seeds=(
            SeedUsage(name="a", usage=usage("3")),
            SeedUsage(name="b"),
            SeedUsage(name="c", usage=usage("many")),
        )
    )
    assert last_usage(status, "a") == Amounts({"cpu": cpu(3)})
    assert [last_usage(status, name) for name in ("b", "c", "d")] == [None] * 3
