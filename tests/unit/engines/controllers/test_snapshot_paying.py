"""Snapshots of engines that pay: measured before they are taken, by the engine itself, and refused where they do not fit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from tests.unit.engines.world import MIB, NS, FakeEngine, World
from tests.unit.snapshots.charged_api import ChargedApi, amount_of, stamp
from ullage.engines.api import ENGINE_SNAPSHOTS
from ullage.errors import Impossible, NotNow, Uncertain
from ullage.kube.errors import Conflict, TooManyRequests
from ullage.ledger.charging.stamps import FREE, STAMP


def charged(
    *, limit: int = 10 * MIB, stamped: str = "", attached: bool = True, head: int = 2 * MIB
) -> tuple[World, FakeEngine]:
    world = World(api=ChargedApi(limit, ENGINE_SNAPSHOTS))
    engine = world.volume(attached=attached)
    engine.grow(head)
    world.ask()
    world.api.edit(ENGINE_SNAPSHOTS, "snap", NS, merge={"metadata": {"annotations": {STAMP: stamped or stamp(4 * MIB)}}})
    return world, engine


def takes(world: World) -> int:
    found = world.snapshot()
    return amount_of(found.metadata.annotations) if found is not None else 0


@pytest.mark.parametrize(
    ("head", "limit"),
    [
        pytest.param(8 * MIB, 10 * MIB, id="a volume that has doubled since is paid for"),
        pytest.param(MIB, 10 * MIB, id="one that has less than was thought pays less"),
        pytest.param(10 * MIB, 10 * MIB, id="exactly full is allowed"),
        pytest.param(4 * MIB, 10 * MIB, id="one that is as it was costs no write"),
    ],
)
@pytest.mark.parametrize("attached", [True, False], ids=["attached", "detached"])
async def test_a_snapshot_pays_for_what_the_head_has_when_it_is_taken(head: int, limit: int, attached: bool) -> None:
    world, engine = charged(limit=limit, head=head, attached=attached)
    await world.live(world.ready)
    assert takes(world) == head
    assert engine.taken == ["snap"]
    assert len(world.api.stamps) == (head != 4 * MIB)  # type: ignore[attr-defined]


async def test_one_byte_over_is_refused_and_the_engine_is_not_asked_for_it() -> None:
    world, engine = charged(limit=10 * MIB, head=10 * MIB + 1)
    await world.live(lambda: world.condition("Failed") == "SnapshotSpaceExceeded")
    assert world.error() == (
        "a snapshot of the volume takes 10.01Mi by now, which does not fit: snapshots/namespace storage: "
        f"asked {10 * MIB + 1}, used 0, limit {10 * MIB}"
    )
    assert takes(world) == 0
    assert "create" not in engine.calls
    found = world.snapshot()
    assert found is not None
    assert not found.status.requested_time
    assert "SnapshotFailed" in world.told.reasons
    looks = engine.calls.count("list")
    world.api.limit = 100 * MIB  # type: ignore[attr-defined]
    world.ask("next")
    await world.live(partial(world.ready, "next"))
    assert engine.taken == ["next"]  # it is not tried again, also when there is room
    assert looks


async def test_one_that_somebody_else_pays_for_is_not_measured() -> None:
    world, engine = charged(limit=0, stamped=str(FREE), head=8 * MIB)
    await world.live(world.ready)
    assert engine.taken == ["snap"]
    assert world.api.stamps == []  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "unreadable",
    [
        pytest.param("nonsense", id="no JSON"),
        pytest.param('{"snapshots/namespace":{"storage":"-1"}}', id="less than nothing"),
    ],
)
async def test_one_whose_stamp_cannot_be_read_fails_and_says_so(unreadable: str) -> None:
    """Somebody wrote there while no webhook was asked. Nobody knows which accounts it would be booked on."""
    world, engine = charged(stamped=unreadable)
    await world.live(lambda: bool(world.condition("Failed")))
    assert "metadata.annotations[ullage.io/takes]" in world.error()
    assert "create" not in engine.calls
    assert world.api.stamps == []  # type: ignore[attr-defined]


async def test_an_engine_is_asked_once_whether_it_has_a_snapshot_for_each_time_it_is_to_take_it() -> None:
    world, engine = charged()
    busy = iter([NotNow("busy"), NotNow("busy")])

    def refuse(call: str) -> None:
        if call == "create" and (error := next(busy, None)) is not None:
            raise error

    engine.before = refuse
    await world.live(world.ready)
    assert (engine.calls.count("create"), engine.calls.count("has")) == (3, 3)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(TooManyRequests("the ledger is busy", code=429), id="told to try again"),
        pytest.param(Conflict("it has changed", code=409), id="somebody else wrote to it"),
    ],
)
async def test_an_answer_that_is_no_refusal_is_asked_for_again(answer: Exception) -> None:
    world, engine = charged()
    world.api.answers = [answer]  # type: ignore[attr-defined]
    await world.live(world.ready)
    assert takes(world) == 2 * MIB
    assert engine.taken == ["snap"]


@pytest.mark.parametrize(
    ("error", "paid"),
    [
        pytest.param(Impossible("the engine cannot"), 0, id="after a final answer nothing is paid for"),
        pytest.param(NotNow("busy"), 0, id="nor when it is given up"),
        pytest.param(Uncertain("no answer"), 2 * MIB, id="what may have been taken stays booked"),
    ],
)
async def test_what_is_given_up_costs_nothing(error: Exception, paid: int) -> None:
    world, engine = charged()

    def refuse(call: str) -> None:
        if call == "create":
            raise error

    engine.before = refuse
    await world.live(lambda: bool(world.condition("Failed")))
    assert takes(world) == paid


async def test_what_may_have_been_taken_is_never_lowered() -> None:
    """The engine took it and the answer was lost. By now its head is empty."""
    world, engine = charged(head=8 * MIB)
    engine.after = _lost("create")
    await world.live(world.ready)
    assert world.api.stamps == [8 * MIB]  # type: ignore[attr-defined]
    assert engine.taken == ["snap"]


async def test_what_was_taken_is_not_refused_for_what_the_volume_has_written_since() -> None:
    world, engine = charged(head=8 * MIB)
    lost = _lost("create")

    def after(call: str) -> None:
        if call == "create":
            engine.grow(11 * MIB)
        lost(call)

    def unseen(call: str) -> None:
        if call == "limits" and engine.calls.count("has") < 3:  # a part of every look: its Engine does not show it yet
            raise Uncertain("nobody sees what it has")

    engine.before, engine.after = unseen, after
    await world.live(world.ready)
    assert world.api.stamps == [8 * MIB]  # type: ignore[attr-defined]


async def test_what_was_asked_for_and_not_taken_is_measured_again_and_only_raised() -> None:
    world, engine = charged(head=8 * MIB)
    sizes = iter([9 * MIB, MIB])

    def away(call: str) -> None:
        if call == "create" and (size := next(sizes, 0)):
            engine.grow(size)
            raise NotNow("busy")

    engine.before = away
    await world.live(world.ready)
    assert world.api.stamps == [8 * MIB, 9 * MIB]  # type: ignore[attr-defined]


def _lost(call: str) -> Callable[[str], None]:
    left = [call]

    def after(done: str) -> None:
        if done in left:
            left.remove(done)
            raise Uncertain("no answer")

    return after


@pytest.mark.parametrize("head", [pytest.param(8 * MIB, id="taken"), pytest.param(11 * MIB, id="refused")])
async def test_a_process_may_die_before_and_after_every_effect(head: int) -> None:
    moment = 0
    while True:
        moment += 1
        world, engine = charged(head=head)
        world.api.fuse.blows_at = moment
        fits = head <= 10 * MIB
        await world.live(partial(_over, world, fits=fits))
        assert engine.taken == (["snap"] if fits else []), world.api.fuse.log
        assert takes(world) == (head if fits else 0), world.api.fuse.log
        if world.api.fuse.passed < moment:
            return


def _over(world: World, *, fits: bool) -> bool:
    return world.ready() if fits else world.condition("Failed") == "SnapshotSpaceExceeded"
