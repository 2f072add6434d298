"""What is next about one project, beside the steps of the escrow: seeds that are dead, quotas that go, limits without one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.projects.builders import NOW, details, meta, quota, usage
from ullage.ledger.amounts import Amounts, Cell
from ullage.projects.api.kkp import Seed
from ullage.projects.api.quotas import ResourceQuotaStatus, SeedUsage
from ullage.projects.controllers.quota_escrow_rules import (
    EscrowFacts,
    Forget,
    last_taken,
    last_usage,
    left_by,
    lifted,
    seconds_of_doubt,
    steps,
    untold,
)
from ullage.projects.escrow.divisions import OF_CLUSTERS
from ullage.projects.escrow.record import record_patch
from ullage.projects.escrow.seeds import SeedLedger
from ullage.projects.escrow.steps import Carry, Record
from ullage.projects.escrow.terms import Escrow, Part, Share
from ullage.projects.names import ACCOUNT, CLUSTER_ESCROW, DRAINED, DRAINING, MAX_CLUSTERS
from ullage.projects.seed_marks import is_dead, is_draining
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


@pytest.mark.parametrize(
    ("granted", "first", "later", "gone", "kept"),
    [
        pytest.param(60, 50, 40, False, 50, id="what was reserved there stays reserved"),
        pytest.param(60, 60, 40, False, 60, id="also where there was nothing to give back"),
        pytest.param(60, 50, 0, True, 0, id="its machines are said to be gone, too"),
    ],
)
def test_a_dead_seed_is_drained_once_and_lowered_again_only_where_its_machines_are_gone(
    granted: int, first: int, later: int, gone: bool, kept: int
) -> None:
    """While its ledger is in memory that says what is used and reserved; after a restart the status says what is used."""
    record, seen = Escrow({"eu": share(50), "us": share(granted)}), {"eu": ledger(50), "us": None}
    for taken, marked in ((first, frozenset[str]()), (later, frozenset({"us"}) if gone else frozenset[str]())):
        dead = {"us": Amounts({"cpu": cpu(taken)})}
        record = at_rest(record, lambda found, dead=dead, gone=marked: facts(found, seen, dead=dead, gone=gone))  # type: ignore[misc]
    assert record.shares["us"].parts["cpu"].granted == cpu(kept)


def test_a_dead_seed_that_was_heard_of_since_is_drained_by_what_it_used_then() -> None:
    dead = {"us": Amounts({"cpu": cpu(4)})}
    record = at_rest(HALVES, lambda found: facts(found, {"eu": ledger(5), "us": None}, dead=dead))
    assert record.shares["us"].drained
    back = ledger(4, change=record.shares["us"].change, used=1)
    record = at_rest(record, lambda found: facts(found, {"eu": ledger(5), "us": back}, dead=dead, draining=frozenset({"us"})))
    assert not record.shares["us"].drained
    record = at_rest(record, lambda found: facts(found, {"eu": ledger(5), "us": None}, dead={"us": Amounts({"cpu": cpu(1)})}))
    assert record.shares["us"].parts["cpu"].granted == cpu(1)


def test_what_a_drained_seed_may_have_of_a_resource_that_was_limited_later_is_what_it_used() -> None:
    """It has had no limit of that, and holds up everybody until it is known to have one."""
    drained = Share(2, 1, {"cpu": Part(cpu(3), cpu(3)), "memory": Part(None, cpu(0))}, drained=True)
    dead = {"us": Amounts({"cpu": cpu(1), "memory": cpu(7)})}
    (step,) = steps(facts(Escrow({"us": drained}), {"us": None}, dead=dead), now=NOW)
    assert isinstance(step, Record)
    assert step.escrow.shares["us"].parts == {"cpu": Part(cpu(3), cpu(3)), "memory": Part(cpu(7), cpu(7))}


def test_what_seeds_take_of_the_number_of_clusters_is_kept_in_the_record() -> None:
    """For nobody else has it when a seed is dead. What machines take is in the status, and moves too often to be kept."""
    cell = Cell(ACCOUNT, "clusters")
    counted = SeedLedger(
        change=1, limits={cell: cpu(4)}, grants={cell: cpu(4)}, taken=Amounts({"clusters": cpu(3)}), unreached=""
    )
    record = Escrow({"eu": Share(1, reached=1, parts={"clusters": Part(cpu(4), cpu(4))})})

    def seen(found: Escrow, ledger: SeedLedger | None = counted) -> EscrowFacts:
        written = record_patch(found, CLUSTER_ESCROW)["metadata"]["annotations"]
        whole = quota(annotations={MAX_CLUSTERS: "4", **written})
        return EscrowFacts(quota=whole, record=found, seeds={"eu": ledger}, division=OF_CLUSTERS)

    record = at_rest(record, seen)
    assert record.shares["eu"].taken == {"clusters": cpu(3)}
    assert Escrow.parse(record.written()) == record
    assert last_taken(record, "eu") == Amounts({"clusters": cpu(3)})
    assert last_taken(record, "us") is None
    assert steps(seen(record), now=NOW) == (), "it is written where it has changed"
    assert at_rest(record, lambda found: seen(found, None)) == record, "of one that is not seen it stays"


def at_rest(record: Escrow, seen: Callable[[Escrow], EscrowFacts]) -> Escrow:
    """The record when it is not written any more."""
    for _ in range(9):
        found = steps(seen(record), now=NOW)
        if not found or not isinstance(found[0], Record):
            return record
        record = found[0].escrow
    raise AssertionError(f"it is written again and again: {record.written()}")


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


@pytest.mark.parametrize(("projects", "seconds"), [(0, 1), (500, 1), (10_000, 20)])
def test_the_more_projects_wait_for_a_watch_the_longer_each_waits(projects: int, seconds: float) -> None:
    assert seconds_of_doubt(projects) == seconds


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
