"""Snapshots that are paid for: the real controllers measure, book and cut on an API in memory that refuses what does not fit,
and die before and after every single effect."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.unit.snapshots import memory_api
from tests.unit.snapshots.charged_api import MIB, ChargedApi, amount_of, stamp
from tests.unit.snapshots.memory_api import DELETED, Json
from tests.unit.snapshots.test_lifecycle import DRIVER, Cluster, both
from ullage.clock import SystemClock
from ullage.errors import Impossible, NotNow, Uncertain
from ullage.kube.builtin import core
from ullage.kube.errors import Conflict, Forbidden, TooManyRequests
from ullage.ledger.charging.methods import CAPACITY
from ullage.ledger.charging.stamps import ESTIMATED_BY, FREE, STAMP
from ullage.ledger.charging.waiting import WAITS, YES
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.model import CUT, HOLD, SIZE, Dialect
from ullage.times import timestamp

BY_LAST: Mapping[str, Any] = {"ullage.io/estimated-by": "last-snapshot", "ullage.io/takes-at-most": str(8 * MIB)}


def charged(
    *,
    limit: int = 10 * MIB,
    stamped: str | None = "",
    admitted: int = 4 * MIB,
    dialect: Any = GA,
    marks: Mapping[str, str] | None = None,
    **notes: str,
) -> Cluster:
    cluster = Cluster(dialect, api=ChargedApi(limit))
    asks = {"resources": {"requests": {"storage": "8Mi"}}}
    cluster.api.edit(core.CLAIMS, "db", "team", merge={"spec": asks})
    ask(cluster, "snap", stamped=stamp(admitted) if stamped == "" else stamped, notes={**notes, **(marks or {})})
    return cluster


def ask(cluster: Cluster, name: str, *, stamped: str | None, notes: Mapping[str, str] | None = None) -> None:
    cluster.ask(name)
    given = {**({STAMP: stamped} if stamped is not None else {}), **(notes or {})}
    cluster.api.edit(cluster.dialect.snapshots, name, "team", merge={"metadata": {"annotations": given}})


def takes(cluster: Cluster, name: str = "snap") -> int:
    return amount_of(cluster.snapshot(name).meta.annotations)


def record(cluster: Cluster) -> Json:
    (found,) = cluster.api.bodies(cluster.dialect.records)
    return found


def notes(cluster: Cluster) -> dict[str, str]:
    found = cluster.api.bodies(cluster.dialect.records)
    return dict(found[0]["metadata"].get("annotations", {})) if found else {}


def refused(cluster: Cluster) -> bool:
    return bool(cluster.problem()) and takes(cluster) == 0 and cluster.free()


def asked(cluster: Cluster) -> int:
    return sum(one.startswith("make ") for one in cluster.api.fuse.log)


@pytest.mark.parametrize(
    ("admitted", "head", "limit", "paid"),
    [
        pytest.param(4 * MIB, 8 * MIB, 10 * MIB, 8 * MIB, id="a volume that has doubled since is paid for"),
        pytest.param(8 * MIB, MIB, 10 * MIB, MIB, id="a volume that has less than was thought pays less"),
        pytest.param(4 * MIB, 10 * MIB, 10 * MIB, 10 * MIB, id="exactly full is allowed"),
        pytest.param(4 * MIB, None, 10 * MIB, 4 * MIB, id="where nobody can tell, it stays what was admitted"),
        pytest.param(4 * MIB, 0, 10 * MIB, 0, id="an empty head costs nothing"),
        pytest.param(4 * MIB, MIB, MIB, MIB, id="it may fall although the limit was lowered below what was admitted"),
    ],
)
async def test_a_snapshot_pays_for_what_its_volume_has_when_it_is_cut(
    admitted: int, head: int | None, limit: int, paid: int
) -> None:
    cluster = charged(limit=limit, admitted=admitted)
    cluster.driver.head = head
    await cluster.live(cluster.done)
    assert takes(cluster) == paid
    assert cluster.driver.made == 1


@both
async def test_one_byte_over_is_refused_before_the_driver_is_asked(dialect: Dialect[Any, Any]) -> None:
    cluster = charged(limit=10 * MIB, admitted=4 * MIB, dialect=dialect)
    cluster.driver.head = 10 * MIB + 1
    await cluster.live(lambda: bool(cluster.problem()))
    problem = cluster.snapshot().state.problem
    assert problem.reason == "SnapshotSpaceExceeded"
    assert problem.message == (
        "a snapshot of the volume takes 10.01Mi by now, which does not fit: snapshots/namespace storage: "
        f"asked {10 * MIB + 1}, used 0, limit {10 * MIB}"
    )
    await cluster.live(cluster.free)
    assert asked(cluster) == 0
    assert "ullage.io/creating" not in notes(cluster)
    assert takes(cluster) == 0  # nothing was cut
    assert "snapshots/namespace" in cluster.snapshot().meta.annotations[STAMP]  # and it can be booked again
    cluster.delete()
    await cluster.live(cluster.gone)
    assert asked(cluster) == 0


def grows(cluster: Cluster, size: int) -> None:
    """Between the measurement and the cut."""
    driver = cluster.driver

    def write() -> None:
        driver.head = size

    driver.before = write


@both
async def test_what_was_written_between_measure_and_cut_is_paid_for(dialect: Dialect[Any, Any]) -> None:
    cluster = charged(limit=10 * MIB, dialect=dialect)
    cluster.driver.head = MIB
    grows(cluster, 9 * MIB)
    await cluster.live(cluster.done)
    assert takes(cluster) == 9 * MIB


@both
async def test_a_cut_that_turned_out_too_large_fails_before_anything_is_told_and_is_deleted(
    dialect: Dialect[Any, Any],
) -> None:
    cluster = charged(limit=10 * MIB, dialect=dialect)
    cluster.driver.head = MIB
    grows(cluster, 35 * MIB)
    await cluster.live(lambda: refused(cluster))
    problem = cluster.snapshot().state.problem
    assert problem.reason == "SnapshotSpaceExceeded"
    assert problem.message.startswith("a snapshot of the volume takes 35Mi by now, which does not fit: ")
    assert not cluster.snapshot().state.ready
    assert "'shot-" not in str(record(cluster)), "no handle was told"
    assert cluster.driver.names == {}, "nothing is left of it"
    assert cluster.api.most <= 10 * MIB  # type: ignore[attr-defined]
    assert "ullage.io/creating" not in notes(cluster)


async def test_where_the_size_of_a_cut_cannot_be_told_the_snapshot_stands() -> None:
    cluster = charged(limit=10 * MIB)
    cluster.driver.head = MIB
    grows(cluster, 35 * MIB)
    cluster.driver.weighing = fails(NotNow("in a moment"), times=100)
    await cluster.live(cluster.done)


# --- what is estimated by the last snapshot ---------------------------------------------------------------------------


@both
@pytest.mark.parametrize("size", [pytest.param(MIB, id="less than estimated"), pytest.param(9 * MIB, id="more than estimated")])
async def test_what_was_estimated_by_the_last_snapshot_is_weighed_after_its_cut(dialect: Dialect[Any, Any], size: int) -> None:
    cluster = charged(dialect=dialect, admitted=2 * MIB, **BY_LAST)
    grows(cluster, size)
    await cluster.live(lambda: cluster.done() and notes(cluster).get(SIZE) == str(size))
    assert takes(cluster) == max(2 * MIB, size), "it is lowered by whoever follows it"


@both
async def test_an_estimate_by_the_last_snapshot_that_is_passed_too_far_fails_the_snapshot(dialect: Dialect[Any, Any]) -> None:
    cluster = charged(dialect=dialect, limit=4 * MIB, admitted=2 * MIB, **BY_LAST)
    grows(cluster, 5 * MIB)
    await cluster.live(lambda: refused(cluster))
    assert cluster.snapshot().state.problem.message.startswith(
        "a snapshot of the volume takes 5Mi by now, which does not fit: "
    )
    assert cluster.driver.names == {}
    assert SIZE not in notes(cluster)
    assert cluster.api.most <= 4 * MIB  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "admitted", [pytest.param(2048, id="a bound that fits"), pytest.param(4096, id="a bound that is booked")]
)
async def test_where_the_driver_does_not_tell_the_blocks_a_bound_is_booked(admitted: int) -> None:
    cluster = charged(limit=4096, admitted=admitted, **BY_LAST)
    await cluster.live(cluster.done)
    assert takes(cluster) == 4096, "the size of a volume that is made from it"


async def test_a_bound_that_does_not_fit_is_no_size_that_was_seen() -> None:
    cluster = charged(limit=4095, admitted=2048, **BY_LAST)
    cluster.driver.weighing = fails(Uncertain("it takes too long"), times=10_000)
    await cluster.live(lambda: refused(cluster))
    told = cluster.snapshot().state.problem.message
    assert told.startswith(
        "the snapshot may take 4Ki, as a volume made from it does, since nothing tells less, which does not fit"
    )
    assert cluster.driver.names == {}


async def test_whoever_edits_a_refused_snapshot_has_it_booked_anew() -> None:
    cluster = charged()
    cluster.driver.head = 11 * MIB
    await cluster.live(lambda: refused(cluster))
    cluster.api.limit = 12 * MIB  # type: ignore[attr-defined]
    cluster.api.edit(GA.snapshots, "snap", "team", merge={"metadata": {"labels": {"try": "again"}}})
    await cluster.live(cluster.done)
    assert takes(cluster) == 11 * MIB


async def test_where_nobody_can_tell_a_refused_snapshot_costs_its_claim_the_next_time() -> None:
    cluster = charged()
    cluster.driver.before = fails(Impossible("the class is wrong"))
    await cluster.live(lambda: bool(cluster.problem()) and takes(cluster) == 0)
    cluster.api.edit(GA.snapshots, "snap", "team", merge={"metadata": {"labels": {"try": "again"}}})
    await cluster.live(cluster.done)
    assert takes(cluster) == 8 * MIB


def fails(error: Exception, times: int = 1) -> Callable[[], None]:
    left = [error] * times

    def outcome() -> None:
        if left:
            raise left.pop()

    return outcome


@pytest.mark.parametrize(
    ("error", "paid"),
    [
        pytest.param(Impossible("no such volume"), 0, id="after a final answer nothing is paid for: nothing was made"),
        pytest.param(NotNow("busy"), 2 * MIB, id="what is tried again stays booked"),
        pytest.param(Uncertain("no answer"), 2 * MIB, id="what may have been made stays booked"),
    ],
)
async def test_what_a_driver_answers_decides_what_is_paid(error: Exception, paid: int) -> None:
    cluster = charged()
    cluster.driver.head = 2 * MIB
    cluster.driver.before = fails(error, times=10_000)
    told = ""

    def said() -> bool:
        nonlocal told
        told = cluster.problem()
        return bool(told) and takes(cluster) == paid

    await cluster.live(said)
    assert str(error) in told


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(TooManyRequests("the ledger is busy", code=429), id="told to try again"),
        pytest.param(Conflict("it has changed", code=409), id="somebody else wrote to the snapshot"),
    ],
)
async def test_an_answer_that_is_no_refusal_is_asked_for_again(answer: Exception) -> None:
    cluster = charged()
    cluster.driver.head = 2 * MIB
    cluster.api.answers = [answer]  # type: ignore[attr-defined]
    await cluster.live(cluster.done)
    assert takes(cluster) == 2 * MIB
    assert cluster.problem() == ""


async def test_a_refusal_that_has_no_numbers_is_shown_and_tried_again() -> None:
    cluster = charged()
    cluster.driver.head = 2 * MIB
    many = Forbidden("17 virtual machines with limits share the claim, and 16 may", code=403)
    cluster.api.answers = [many] * 3  # type: ignore[attr-defined]
    told: set[str] = set()

    def done() -> bool:
        told.add(cluster.problem())
        return cluster.done()

    await cluster.live(done)
    assert f"what it takes cannot be booked: {many}" in told
    assert takes(cluster) == 2 * MIB


async def test_a_stamp_that_cannot_be_read_is_a_problem_of_the_snapshot() -> None:
    """Somebody wrote there while no webhook was asked, and after the record was made."""
    cluster = charged()
    cluster.driver.measured = fails(Uncertain("the engine does not answer"), times=10_000)
    await cluster.live(lambda: "the engine does not answer" in cluster.problem())
    cluster.api.edit(GA.snapshots, "snap", "team", merge={"metadata": {"annotations": {STAMP: "nonsense"}}})
    await cluster.live(lambda: "metadata.annotations[ullage.io/takes]" in cluster.problem())
    assert asked(cluster) == 0


@pytest.mark.parametrize("words", ["nonsense", '{"snapshots/namespace":{"bytes":"-1"}}'])
async def test_a_stamp_that_cannot_be_read_from_the_first_is_a_problem_of_the_snapshot_too(words: str) -> None:
    cluster = charged(stamped=words)
    await cluster.live(lambda: "metadata.annotations[ullage.io/takes]" in cluster.problem())
    assert asked(cluster) == 0


async def test_while_it_cannot_be_measured_the_driver_is_not_asked_and_nothing_is_marked() -> None:
    cluster = charged()
    cluster.driver.head = 2 * MIB
    cluster.driver.measured = fails(Uncertain("the engine does not answer"), times=10_000)
    await cluster.live(lambda: "the engine does not answer" in cluster.problem())
    assert cluster.snapshot().state.problem.reason == "NotAsked"
    assert (asked(cluster), takes(cluster), "ullage.io/creating" in notes(cluster)) == (0, 4 * MIB, False)


@pytest.mark.parametrize(
    ("marks", "head"),
    [
        pytest.param({}, 8 * MIB, id="measured before the cut"),
        pytest.param({ESTIMATED_BY: CAPACITY}, None, id="paid whole, since the driver tells nothing"),
    ],
)
async def test_a_process_may_die_before_and_after_every_effect_and_nothing_is_booked_twice_or_left(
    marks: dict[str, str], head: int | None
) -> None:
    moment = 0
    while True:
        moment += 1
        cluster = charged(limit=8 * MIB, admitted=4 * MIB if head else 8 * MIB, marks=marks)
        cluster.driver.head = head
        cluster.api.fuse.blows_at = moment
        await cluster.live(cluster.done)
        log = cluster.api.fuse.log
        assert cluster.driver.made == 1, log
        assert takes(cluster) == 8 * MIB, log
        assert cluster.api.most <= 8 * MIB, log  # type: ignore[attr-defined]
        cluster.delete()
        await cluster.live(cluster.gone)
        assert cluster.driver.names == {}, log
        if cluster.api.fuse.passed < moment:
            return


async def test_a_refused_snapshot_leaves_nothing_whenever_the_process_dies() -> None:
    moment = 0
    while True:
        moment += 1
        cluster = charged(limit=8 * MIB)
        cluster.driver.head = 8 * MIB + 1
        cluster.api.fuse.blows_at = moment
        await cluster.live(lambda cluster=cluster: refused(cluster))  # type: ignore[misc]
        log = cluster.api.fuse.log
        assert (asked(cluster), cluster.driver.made) == (0, 0), log
        assert "ullage.io/creating" not in notes(cluster), log
        if cluster.api.fuse.passed < moment:
            return


async def test_what_may_have_been_cut_is_never_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver took it and the answer was lost. By now the head is small, since the bytes are in the snapshot."""
    monkeypatch.setattr("ullage.snapshots.controllers.record_sync_before_cut.FRESH_SECONDS", 0.0)
    monkeypatch.setattr("ullage.snapshots.controllers.record_sync_before_cut.REMEMBERED", 0)
    cluster = charged()
    cluster.driver.head = 8 * MIB
    lost = fails(Uncertain("no answer"))

    def after() -> None:
        cluster.driver.head = 4096
        lost()

    cluster.driver.after = after
    await cluster.live(cluster.done)
    assert cluster.api.stamps == [8 * MIB]  # type: ignore[attr-defined]
    assert cluster.api.fuse.log.count("measure vol-1") > 1
    assert cluster.driver.made == 1


async def test_what_may_have_been_cut_and_does_not_fit_any_more_is_undone_and_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ullage.snapshots.controllers.record_sync_before_cut.FRESH_SECONDS", 0.0)
    cluster = charged()
    cluster.driver.head = 8 * MIB

    def grow() -> None:
        if cluster.driver.head == 8 * MIB:
            cluster.driver.head = 11 * MIB
            raise Uncertain("no answer")

    cluster.driver.after = grow
    await cluster.live(lambda: "11Mi by now" in cluster.problem())
    await cluster.live(lambda: takes(cluster) == 0)
    assert cluster.driver.names == {}
    assert "ullage.io/creating" not in notes(cluster)


async def test_what_it_takes_is_written_on_its_record() -> None:
    cluster = charged()
    cluster.driver.head = 2 * MIB
    await cluster.live(lambda: cluster.done() and notes(cluster).get(SIZE) == str(2 * MIB))


@pytest.mark.parametrize(
    ("error", "size"),
    [
        pytest.param(Uncertain("it takes too long"), "2097152", id="it is asked for again"),
        pytest.param(Impossible("it cannot be told"), None, id="a final answer is none"),
    ],
)
async def test_a_size_that_could_not_be_told_at_once(
    error: Exception, size: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ullage.snapshots.controllers.record_sync.WEIGH_SECONDS", 0.01)
    cluster = charged()
    cluster.driver.head = 2 * MIB
    cluster.driver.weighing = fails(error, times=2)
    await cluster.live(
        lambda: cluster.done() and "ullage.io/creating" not in notes(cluster) and notes(cluster).get(SIZE) == size
    )
    assert cluster.problem() == ""


async def test_a_size_that_a_dead_process_did_not_write_down_is_asked_for_again() -> None:
    cluster = charged()
    cluster.driver.head = 2 * MIB
    await cluster.live(lambda: cluster.done() and SIZE in notes(cluster))
    name = record(cluster)["metadata"]["name"]
    died = {SIZE: None, "ullage.io/creating": "true"}
    cluster.api.edit(GA.records, name, merge={"metadata": {"annotations": died}})
    await cluster.live(lambda: notes(cluster).get(SIZE) == str(2 * MIB) and "ullage.io/creating" not in notes(cluster))


@pytest.mark.parametrize(
    ("stamped", "writes"),
    [
        pytest.param(None, ["status", "settled"], id="one that nobody is charged for costs no more than before"),
        pytest.param(str(FREE), ["status", "settled"], id="nor does one that somebody else pays for"),
        pytest.param(stamp(2 * MIB), ["mark", "status", "settled"], id="one that was estimated rightly costs one write more"),
        pytest.param(stamp(MIB), ["stamp", "mark", "status", "settled"], id="any other that pays costs two more"),
    ],
)
async def test_how_many_writes_a_snapshot_costs_its_worker(stamped: str | None, writes: list[str]) -> None:
    cluster = charged(stamped=stamped)
    cluster.driver.head = 2 * MIB
    await cluster.live(lambda: cluster.done() and "ullage.io/creating" not in notes(cluster) and SIZE in notes(cluster))
    name = record(cluster)["metadata"]["name"]
    on_record = [one for one in cluster.api.fuse.log if one == f"patch {GA.records.name} {name}"]
    assert len(on_record) + len(cluster.api.stamps) == len(writes)  # type: ignore[attr-defined]


def remembered(cluster: Cluster) -> int:
    assert cluster.syncer is not None
    return len(cluster.syncer._before_cut._measured)


async def forgotten(cluster: Cluster) -> None:
    async with asyncio.timeout(10.0):
        while remembered(cluster):  # noqa: ASYNC110  nothing is written when it happens, so nothing tells of it
            await asyncio.sleep(0.01)


async def test_that_a_record_was_measured_is_forgotten_when_it_is_cut() -> None:
    """A process lives for months, and measures for every snapshot."""
    cluster = charged()
    cluster.driver.head = 2 * MIB
    async with cluster.running():
        await cluster.api.until(cluster.done)
        assert "measure vol-1" in cluster.api.fuse.log
        await forgotten(cluster)


async def test_that_a_record_was_measured_is_forgotten_when_it_goes_before_it_is_cut() -> None:
    cluster = charged()
    cluster.driver.head = 2 * MIB
    cluster.driver.before = fails(NotNow("busy"), times=10_000)
    async with cluster.running():
        await cluster.api.until(lambda: "busy" in cluster.problem())
        assert remembered(cluster) == 1
        cluster.delete()
        await cluster.api.until(cluster.gone)
        await forgotten(cluster)


async def test_a_snapshot_that_is_paid_whole_is_marked_with_the_write_that_makes_its_record() -> None:
    cluster = charged(admitted=8 * MIB, marks={ESTIMATED_BY: CAPACITY})
    await cluster.live(cluster.done)
    writes = [one.split()[0] for one in cluster.api.fuse.log if GA.records.name in one]
    assert writes == ["create", "patch", "patch"], "made, its status, and the mark off"


@pytest.mark.parametrize(
    ("marks", "amount"),
    [
        pytest.param({}, 8 * MIB, id="it is measured before the cut"),
        pytest.param({ESTIMATED_BY: CAPACITY}, 0, id="nothing is booked yet"),
        pytest.param({ESTIMATED_BY: CAPACITY, WAITS: YES}, 8 * MIB, id="it has a place among those that wait"),
        pytest.param({ESTIMATED_BY: CAPACITY, CUT: HOLD}, 8 * MIB, id="it is cut with others"),
    ],
)
async def test_a_snapshot_that_is_not_paid_whole_is_not_marked_before_it_is_booked(marks: dict[str, str], amount: int) -> None:
    cluster = charged(admitted=amount, marks=marks)
    cluster.driver.measured = fails(NotNow("not yet"), times=10_000)
    async with cluster.running():
        await cluster.api.until(lambda: bool(cluster.api.bodies(cluster.dialect.records)))
        assert "ullage.io/creating" not in notes(cluster)


# --- what pays goes ---------------------------------------------------------------------------------------------------


async def paid(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A snapshot that is ready and pays, deleted a moment ago. No process lowers what it pays."""
    monkeypatch.setattr(memory_api, "DELETED", timestamp(SystemClock().now()))
    cluster = charged()
    cluster.driver.head = MIB
    await cluster.live(cluster.done)
    assert takes(cluster) == MIB
    return cluster


async def test_a_snapshot_goes_with_its_data_in_three_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = await paid(monkeypatch)
    before = len(cluster.api.fuse.log)
    cluster.delete()
    await cluster.live(cluster.gone)
    snapshots, records = GA.snapshots.name, GA.records.name
    writes = [one.split()[:2] for one in cluster.api.fuse.log[before:]]
    assert writes == [["delete", records], ["unmake", "shot-1"], ["patch", records], ["patch", snapshots]]


async def test_a_snapshot_whose_data_another_record_has_waits_until_that_is_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = await paid(monkeypatch)
    ref = {"namespace": "other", "name": "mine", "uid": "uid-mine"}
    handle = next(iter(cluster.driver.names))
    spec = {"volumeSnapshotRef": ref, "deletionPolicy": "Delete", "driver": DRIVER, "source": {"snapshotHandle": handle}}
    cluster.api.put(GA.records, {"metadata": {"name": "mine"}, "spec": spec})
    cluster.delete()
    async with cluster.running():
        await cluster.api.until(lambda: len(cluster.api.bodies(GA.records)) == 1)
        await asyncio.sleep(0.3)
        assert not cluster.gone()
        cluster.api.edit(GA.snapshots, "snap", "team", merge={"metadata": {"annotations": {STAMP: str(FREE)}}})
        await cluster.api.until(cluster.gone)
    assert list(cluster.driver.names) == [handle]


async def test_a_snapshot_whose_record_went_before_this_process_began_waits_until_nothing_is_charged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = await paid(monkeypatch)
    name = record(cluster)["metadata"]["name"]
    cluster.delete()
    cluster.api.edit(GA.records, name, merge={"metadata": {"finalizers": None, "deletionTimestamp": DELETED}})
    async with cluster.running():
        await asyncio.sleep(0.3)
        assert not cluster.gone()
        cluster.api.edit(GA.snapshots, "snap", "team", merge={"metadata": {"annotations": {STAMP: str(FREE)}}})
        await cluster.api.until(cluster.gone)
