"""What a master does next about the grants of a project: a named case for each rule."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

import pytest

from tests.unit.projects.escrow.world import BEGIN, Master, Seed, World
from ullage.ledger.amounts import Amounts, BadAmount, Cell, Wanted
from ullage.projects.escrow.division import Holder, first_in_line
from ullage.projects.escrow.seeds import NO_LEDGER, SeedLedger
from ullage.projects.escrow.steps import HOLD, Carry, Record, Seeds, Step, drained, look_again, next_steps
from ullage.projects.escrow.terms import Escrow, Part, Share
from ullage.quantity import Quantity

CPU = Cell("machines", "cpu")
MEMORY = Cell("machines", "memory")


def cpu(count: int) -> Quantity:
    return Quantity.of(count)


def share(
    target: int | None, granted: int | None = None, *, change: int = 5, reached: int = 0, turn: float | None = None
) -> Share:
    """`granted` as much as the target unless it is said; -1: without a limit. `turn`: so many seconds ago."""
    if target is None:
        return Share(change, reached)
    given = None if granted == -1 else cpu(target if granted is None else granted)
    moment = None if turn is None else BEGIN - timedelta(seconds=turn)
    return Share(change, reached, {"cpu": Part(given, cpu(target))}, moment)


def seed(
    limit: int | None, used: int = 0, *, wants: int = 0, since: float = 0, change: int = 5, whole: int = 100, why: str = ""
) -> SeedLedger:
    """What it shows; reached, unless `why` says why not. `since`: it asked so many seconds ago."""
    asked = BEGIN - timedelta(seconds=since)
    return SeedLedger(
        change=change,
        limits={} if limit is None else {CPU: cpu(limit)},
        grants={} if limit is None else {CPU: cpu(whole)},
        taken=Amounts({"cpu": cpu(used)}),
        demand={"cpu": Wanted(cpu(wants), asked, asked)} if wants else {},
        unreached=why or ("more is used" if limit is not None and used > limit else ""),
    )


def decided(shares: dict[str, Share], seeds: Seeds, quota: int | None = 100, **more: object) -> tuple[Step, ...]:
    whole = {} if quota is None else {"cpu": cpu(quota)}
    draining = more.get("draining", ())
    assert isinstance(draining, tuple)
    return next_steps(Escrow(shares), whole, seeds, now=BEGIN, draining=draining)


def told(steps: tuple[Step, ...]) -> dict[str, str]:
    """What the record would say: `target of granted @change`."""
    (step,) = steps
    assert isinstance(step, Record)
    made = {}
    for name, one in step.escrow.shares.items():
        part = one.parts.get("cpu")
        made[name] = f"{part.target} of {part.granted} @{one.change}" if part else f"no limit @{one.change}"
    return made


HELD = {"a": share(40), "b": share(60)}


@pytest.mark.parametrize(
    ("shares", "seeds", "quota", "expected"),
    [
        pytest.param({}, {"a": NO_LEDGER}, 100, {"a": "100 of None @1"}, id="a single seed gets all"),
        pytest.param(
            {},
            {"a": seed(0, change=0, why="nothing was counted"), "b": NO_LEDGER},
            100,
            {"a": "50 of None @1", "b": "50 of None @1"},
            id="a ledger that the hook for the copy made is told as much as none",
        ),
        pytest.param(
            {},
            {"a": NO_LEDGER, "b": NO_LEDGER, "c": NO_LEDGER},
            100,
            {"a": "34 of None @1", "b": "33 of None @1", "c": "33 of None @1"},
            id="a first quota is spread in whole cores",
        ),
        pytest.param(
            {},
            {"a": NO_LEDGER, "b": NO_LEDGER, "c": NO_LEDGER},
            2,
            {"a": "1 of None @1", "b": "1 of None @1", "c": "0 of None @1"},
            id="one more seed than room",
        ),
        pytest.param(
            {"a": share(None), "b": share(None)},
            {"a": seed(None, 30), "b": seed(None, 10)},
            100,
            {"a": "60 of None @6", "b": "40 of None @6"},
            id="what is used comes first, and what is free is spread",
        ),
        pytest.param(
            {"a": share(None), "b": share(None)},
            {"a": seed(None, 90), "b": seed(None, 30)},
            100,
            {"a": "75 of None @6", "b": "25 of None @6"},
            id="a first quota below use is accepted, and cut in proportion",
        ),
        pytest.param(
            {},
            {"a": seed(20, 20), "b": seed(80)},
            100,
            {"a": "20 of None @6", "b": "40 of None @6"},
            id="who comes with a limit gets no more at first: another may have the rest until it is told",
        ),
        pytest.param(
            {"a": share(40, -1), "b": share(60, -1)},
            {"a": seed(40), "b": seed(60)},
            100,
            {"a": "40 of 40 @5", "b": "60 of 60 @5"},
            id="what is reached is what is granted, and the number stays",
        ),
        pytest.param(
            HELD, {"a": seed(40), "b": seed(60)}, 120, {"a": "60 of 60 @6", "b": "60 of 60 @6"}, id="a quota is raised"
        ),
        pytest.param(
            HELD,
            {"a": seed(40), "b": seed(60, 50)},
            80,
            {"a": "15 of 40 @6", "b": "60 of 60 @6"},
            id="a quota is lowered: targets fall, grants wait",
        ),
        pytest.param(
            HELD,
            {"a": seed(40, 40), "b": seed(60, 60)},
            50,
            {"a": "20 of 40 @6", "b": "30 of 60 @6"},
            id="a quota is lowered below use",
        ),
        pytest.param(HELD, {"a": seed(40), "b": seed(60)}, 0, {"a": "0 of 40 @6", "b": "0 of 60 @6"}, id="a quota of nothing"),
        pytest.param(
            HELD, {"a": seed(40), "b": seed(60)}, None, {"a": "no limit @6", "b": "no limit @6"}, id="a quota is removed"
        ),
        pytest.param(
            HELD,
            {"a": seed(40, 40), "b": seed(60, 20)},
            100,
            None,
            id="a full seed that nobody asks gets nothing",
        ),
        pytest.param(
            HELD,
            {"a": seed(40, 40, wants=41), "b": seed(60, 20)},
            100,
            {"a": "40 of 40 @5", "b": "39 of 60 @6"},
            id="whoever asks has to wait until somebody gives",
        ),
        pytest.param(
            {"a": share(40), "b": share(39, 60)},
            {"a": seed(40, 40, wants=41), "b": seed(39, 20)},
            100,
            {"a": "61 of 61 @6", "b": "39 of 39 @5"},
            id="what came back goes to whoever asked, with his part of the free room",
        ),
        pytest.param(
            {"a": share(40), "b": share(39, 60)},
            {"a": seed(40, 40, wants=41), "b": seed(39, 20, why="nobody has counted")},
            100,
            None,
            id="what is on its way back is nobody's",
        ),
        pytest.param(
            {"a": share(40), "b": share(39, 60)},
            {"a": seed(40, 40, wants=90), "b": seed(39, 20, why="nobody has counted")},
            100,
            None,
            id="who is just giving something back is not asked for more: he would never be done",
        ),
        pytest.param(
            {"a": share(40), "b": share(30, -1)},
            {"a": seed(40, 40, wants=50), "b": seed(30, why="nobody has counted")},
            100,
            None,
            id="nobody gets more while somebody may be without a limit",
        ),
        pytest.param(
            {"a": share(3), "b": share(2, -1)},
            {"a": seed(3, 1, whole=5), "b": seed(2, 2, wants=3, whole=5, why="nobody has counted")},
            5,
            {"a": "2 of 3 @6", "b": "2 of None @5"},
            id="who may be without a limit is told no more before others have given it",
        ),
        pytest.param(
            {"a": share(2), "b": share(2, -1)},
            {"a": seed(2, 1, whole=5), "b": seed(2, 2, wants=3, whole=5, why="nobody has counted")},
            5,
            {"a": "2 of 2 @5", "b": "3 of None @6"},
            id="who may be without a limit is told more where nobody may have it",
        ),
        pytest.param(
            {"a": share(50, 100), "b": share(50, -1)},
            {"a": seed(50, why="nobody has counted"), "b": seed(50, why="nobody has counted"), "new": seed(None, 4, change=0)},
            100,
            {"a": "32 of 100 @6", "b": "32 of None @6", "new": "4 of None @1"},
            id="a seed that comes in is told what it uses, and no more while others may have it",
        ),
        pytest.param(
            {"a": share(30, 60), "b": share(20)},
            {"a": seed(30, 50, whole=50), "b": seed(20, 5, whole=50)},
            50,
            {"a": "30 of 60 @5", "b": "5 of 20 @6"},
            id="nobody may grow while more is used than there is",
        ),
        pytest.param(
            {"a": share(30, 60), "b": share(5)},
            {"a": seed(30, 40, whole=50), "b": seed(5, 5, whole=50)},
            50,
            {"a": "40 of 60 @6", "b": "5 of 5 @5"},
            id="a target rises again to what the seed may have anyway, once use fits",
        ),
        pytest.param(
            {"a": share(50, turn=10), "b": share(50)},
            {"a": seed(50), "b": seed(50, 50)},
            60,
            {"a": "5 of 50 @6", "b": "50 of 50 @6"},
            id="where the quota falls, also he gives way who has just had his turn",
        ),
        pytest.param(
            {"a": share(40), "b": share(39, 60)},
            {"a": seed(40, 40, wants=41), "b": None},
            100,
            None,
            id="a seed that is not seen keeps its grant",
        ),
        pytest.param(
            HELD, {"a": seed(40, 40, wants=41), "b": None}, 100, None, id="nothing is taken from a seed that is not seen"
        ),
        pytest.param(
            HELD,
            {"a": seed(40, 10), "b": None},
            80,
            {"a": "20 of 40 @6", "b": "60 of 60 @5"},
            id="others give way to one that is not seen",
        ),
        pytest.param(
            HELD,
            {"a": seed(40), "b": seed(60), "new": NO_LEDGER},
            100,
            {"a": "40 of 40 @5", "b": "60 of 60 @5", "new": "0 of None @1"},
            id="a seed is added: it is told to admit nothing before it asks",
        ),
        pytest.param(
            {**HELD, "new": share(0)},
            {"a": seed(40, 5), "b": seed(60, 5), "new": seed(0, wants=2)},
            100,
            {"a": "35 of 40 @6", "b": "34 of 60 @6", "new": "0 of 0 @5"},
            id="an added seed asks for the first time",
        ),
        pytest.param(
            HELD, {"a": seed(40), "b": seed(60), "dark": None}, 100, None, id="a seed that was never seen holds up nobody"
        ),
        pytest.param(
            {**HELD, "gone": share(0)},
            {"a": seed(40), "b": seed(60)},
            100,
            {"a": "40 of 40 @5", "b": "60 of 60 @5"},
            id="a seed that was removed and has nothing is forgotten",
        ),
        pytest.param(
            {"a": share(40), "gone": share(10)},
            {"a": seed(40, whole=50)},
            50,
            None,
            id="a seed that was removed and has something is not",
        ),
    ],
)
def test_what_is_recorded(shares: dict[str, Share], seeds: Seeds, quota: int | None, expected: dict[str, str] | None) -> None:
    found = decided(shares, seeds, quota)
    assert (told(found) if found else None) == expected


def test_who_may_be_without_a_limit_is_told_no_more_while_another_has_not_heard_of_its_own() -> None:
    shares = {"a": share(2, -1), "b": share(2, -1)}
    b = seed(2, 2, wants=3, whole=5, why="nobody has counted")
    (step,) = decided(shares, {"a": seed(3, 1, whole=5, change=4), "b": b}, 5)
    assert isinstance(step, Carry)
    assert step.seed == "a"
    heard = decided(shares, {"a": seed(2, 1, whole=5, why="nobody has counted"), "b": b}, 5)
    assert told(heard) == {"a": "2 of None @5", "b": "3 of None @6"}


def test_without_a_quota_nothing_is_recorded_or_carried() -> None:
    assert decided({}, {"a": NO_LEDGER, "b": None}, None) == ()


def test_a_limit_that_nobody_recorded_goes_where_there_is_no_quota() -> None:
    seeds = {"a": seed(10)}
    found = decided({}, seeds, None)
    while isinstance(found[0], Record):
        escrow = found[0].escrow
        found = next_steps(escrow, {}, seeds, now=BEGIN)
    assert found == (Carry(seed="a", number=6, limits={}, grants={}),)


def test_a_quota_is_not_negative() -> None:
    with pytest.raises(BadAmount, match=r"cpu -1: an amount is not negative"):
        decided(HELD, {}, -1)


# --- carrying --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seeds", "carried"),
    [
        pytest.param({"a": seed(30, change=4), "b": seed(60)}, ["a 5: 40 of 100"], id="a raise that was recorded is carried"),
        pytest.param({"a": seed(40, change=3), "b": seed(60)}, ["a 5: 40 of 100"], id="a seed that is behind is told again"),
        pytest.param({"a": seed(40), "b": seed(60)}, [], id="nothing is told twice"),
        pytest.param({"a": None, "b": seed(50, change=4)}, ["b 5: 60 of 100"], id="nothing is sent where nobody is seen"),
    ],
)
def test_what_is_carried(seeds: Seeds, carried: list[str]) -> None:
    found = [step for step in decided(HELD, seeds) if isinstance(step, Carry)]
    assert [f"{one.seed} {one.number}: {one.limits[CPU]} of {one.grants[CPU]}" for one in found] == carried


def test_a_seed_learns_that_the_whole_is_another() -> None:
    """Else it asks for no more than the whole of before. With a number of its own, since it is a change."""
    found = decided({"a": share(40), "b": share(60)}, {"a": seed(40), "b": seed(60, whole=90)})
    assert told(found) == {"a": "40 of 40 @5", "b": "60 of 60 @6"}


# --- what the record cannot explain ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("had", "shows", "expected"),
    [
        pytest.param(
            share(10, reached=5), seed(10, change=3), "10 of 10 @6", id="a seed restored from a backup gets a new number"
        ),
        pytest.param(share(10, reached=5), seed(50, change=3), "10 of 50 @6", id="what a restored seed has counts as granted"),
        pytest.param(share(10), seed(50, change=4), "10 of 50 @6", id="a seed has more than it was ever granted"),
        pytest.param(share(10, reached=5), NO_LEDGER, "10 of None @6", id="a ledger was deleted: nothing limits the seed"),
        pytest.param(
            share(10), seed(30, change=9), "10 of 30 @10", id="the master was restored: the seed knows a later change"
        ),
        pytest.param(share(10), seed(30), "10 of 30 @6", id="another change has the same number"),
        pytest.param(
            share(10, 40), seed(5), "10 of 40 @6", id="another change with the same number is not what was waited for"
        ),
    ],
)
def test_what_a_seed_has_is_believed_and_it_is_told_again_with_a_new_number(
    had: Share, shows: SeedLedger, expected: str
) -> None:
    others: dict[str, Share] = {"b": share(90)}
    found = decided({"a": had, **others}, {"a": shows, "b": seed(90, 90)})
    assert told(found)["a"] == expected
    assert isinstance(found[0], Record)
    after = next_steps(found[0].escrow, {"cpu": cpu(100)}, {"a": shows, "b": seed(90, 90)}, now=BEGIN)
    assert [type(step) for step in after] == [Carry], "the same view is not strange a second time"


def test_nobody_gets_more_while_a_seed_has_what_it_should_not() -> None:
    shares = {"a": share(10, 60, change=6), "b": share(80)}
    assert decided(shares, {"a": seed(60, change=3, why="counting"), "b": seed(80, 80, wants=85)}) == (
        Carry(seed="a", number=6, limits={CPU: cpu(10)}, grants={CPU: cpu(100)}),
    )


# --- leaving ---------------------------------------------------------------------------------------------------------


def test_a_seed_that_leaves_keeps_what_it_uses_and_gets_no_more() -> None:
    found = decided(HELD, {"a": seed(40, 40, wants=50), "b": seed(60, 7, wants=70)}, draining=("b",))
    assert told(found) == {"a": "40 of 40 @5", "b": "7 of 60 @6"}


def test_a_dead_seed_s_unused_grant_is_free_once_somebody_says_that_it_is_dead() -> None:
    escrow = drained(Escrow(HELD), "b", taken=Amounts({"cpu": cpu(20)}))
    assert escrow.shares["b"] == replace(share(20, change=6), drained=True)
    assert told(next_steps(escrow, {"cpu": cpu(100)}, {"a": seed(40, 40), "b": None}, now=BEGIN))["a"] == "80 of 80 @6"
    back = told(next_steps(escrow, {"cpu": cpu(100)}, {"a": seed(40, 40), "b": seed(60, 50)}, now=BEGIN))
    assert back == {"a": "40 of 40 @5", "b": "50 of 60 @8"}


def test_a_drained_seed_keeps_no_more_than_it_was_granted() -> None:
    assert drained(Escrow(HELD), "b", taken=Amounts({"cpu": cpu(99)})).shares["b"] == replace(share(60), drained=True)
    assert drained(Escrow(HELD), "nobody", taken=Amounts()) == Escrow(HELD)


# --- whose turn is it? -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shares", "seeds", "expected"),
    [
        pytest.param(
            {"a": share(45), "b": share(45), "c": share(10)},
            {"a": seed(45, 45, wants=50, since=5), "b": seed(45, 45, wants=50, since=9), "c": seed(10, 4)},
            {"a": "45 of 45 @5", "b": "45 of 45 @5", "c": "4 of 10 @6"},
            id="both ask, and what is free is on its way",
        ),
        pytest.param(
            {"a": share(45), "b": share(45), "c": share(4)},
            {"a": seed(45, 45, wants=50, since=5), "b": seed(45, 45, wants=50, since=9), "c": seed(4, 4)},
            {"a": "46 of 46 @6", "b": "50 of 50 @6", "c": "4 of 4 @5"},
            id="who has asked for longer comes first",
        ),
        pytest.param(
            {"a": share(45, turn=70), "b": share(45), "c": share(4)},
            {"a": seed(45, 45, wants=50, since=90), "b": seed(45, 45, wants=50, since=9), "c": seed(4, 4)},
            {"a": "50 of 50 @6", "b": "46 of 46 @6", "c": "4 of 4 @5"},
            id="the time counts from the last turn",
        ),
        pytest.param(
            {"a": share(50), "b": share(45), "c": share(5)},
            {"a": seed(50, 0, wants=100, since=900), "b": seed(45, 45, wants=46), "c": seed(5, 5)},
            {"a": "49 of 50 @6", "b": "45 of 45 @5", "c": "5 of 5 @5"},
            id="a demand that cannot be met does not keep others waiting",
        ),
        pytest.param(
            {"a": share(50), "b": share(50)},
            {"a": seed(50, 10, wants=95, since=900), "b": seed(50, 50, wants=95)},
            {"a": "10 of 50 @6", "b": "50 of 50 @5"},
            id="who does not use what he got gives way, also if nobody can be satisfied",
        ),
        pytest.param(
            {"a": share(96), "b": share(4)},
            {"a": seed(96, 92, wants=104, since=5), "b": seed(4, 4, wants=104)},
            {"a": "92 of 96 @6", "b": "4 of 4 @5"},
            id="what does not do for all goes to one: halves may be of use to nobody",
        ),
        pytest.param(
            {"a": share(50), "b": share(45)},
            {"a": seed(50, 45, wants=55, since=9), "b": seed(45, 45, wants=50)},
            {"a": "55 of 55 @6", "b": "45 of 45 @5"},
            id="who waits longest and can be satisfied goes before all others, although he has some room",
        ),
        pytest.param(
            {"a": share(50), "b": share(45)},
            {"a": seed(50, 45, wants=56, since=9), "b": seed(45, 45, wants=50)},
            {"a": "50 of 50 @5", "b": "50 of 50 @6"},
            id="who cannot be satisfied does not",
        ),
        pytest.param(
            {"a": share(50, turn=59), "b": share(50)},
            {"a": seed(50, 10), "b": seed(50, 50, wants=60)},
            None,
            id="who has just had his turn is left alone",
        ),
        pytest.param(
            {"a": share(50, turn=60), "b": share(50)},
            {"a": seed(50, 10), "b": seed(50, 50, wants=60)},
            {"a": "25 of 50 @6", "b": "50 of 50 @5"},
            id="but not for longer than a minute",
        ),
        pytest.param(
            {"a": share(50, turn=-3600), "b": share(50)},
            {"a": seed(50, 10), "b": seed(50, 50, wants=60)},
            {"a": "25 of 50 @6", "b": "50 of 50 @5"},
            id="a turn in the future, by another clock, protects nobody",
        ),
        pytest.param(
            {"a": share(50), "b": share(50)},
            {"a": seed(50, 50), "b": seed(50, 50, wants=10**9)},
            None,
            id="what is used is taken from nobody, whatever is wanted",
        ),
    ],
)
def test_who_asks_gets_what_is_not_used(shares: dict[str, Share], seeds: Seeds, expected: dict[str, str] | None) -> None:
    found = decided(shares, seeds)
    assert (told(found) if found else None) == expected


def test_it_is_known_when_to_look_again() -> None:
    assert look_again(Escrow({"a": share(50, turn=20), "b": share(50, turn=50)}), now=BEGIN) == BEGIN + timedelta(seconds=10)
    assert look_again(Escrow({"a": share(50, turn=60), "b": share(50)}), now=BEGIN) is None
    assert look_again(Escrow({"a": share(50, turn=-3600)}), now=BEGIN) is None, "a clock that was wrong"


# --- interrupted at every step ---------------------------------------------------------------------------------------

Transition = Callable[[World], None]


def raise_quota(world: World) -> None:
    world.set_quota(cpu=16)


def lower_quota(world: World) -> None:
    world.set_quota(cpu=8)


def lower_quota_below_use(world: World) -> None:
    world.set_quota(cpu=3)


def remove_quota(world: World) -> None:
    world.set_quota()


def limit_another_resource(world: World) -> None:
    world.set_quota(cpu=12, memory=9)


def ask(world: World) -> None:
    while world.create("seed-1", cpu=1, memory=1):
        pass


def add_seed(world: World) -> None:
    world.add_seed("seed-9")


def leave(world: World) -> None:
    world.draining.add("seed-0")


def restore(world: World) -> None:
    """To before it was told anything."""
    world.restore("seed-0", Seed())


def played(world: World, count: int) -> bool:
    """So many steps, by a master that sees everything and dies after them. Whether there were as many."""
    master = Master()
    while True:
        world.read(master)
        for name, one in world.seeds.items():
            one.count()
            world.look(master, name)
        world.decide(master)
        if not master.steps:
            return False
        while master.steps:
            if not count:
                return True
            world.act(master)
            count -= 1


@pytest.mark.parametrize(
    "transition",
    [raise_quota, lower_quota, lower_quota_below_use, remove_quota, limit_another_resource, ask, add_seed, leave, restore],
)
def test_every_interrupted_prefix_is_safe_and_another_master_goes_on_from_there(transition: Transition) -> None:
    world = World({"cpu": 12}, seeds=3)
    world.settle()
    for name in world.seeds:
        assert world.create(name, cpu=2, memory=2)
    transition(world)
    count, more = 0, True
    while more:
        branch = deepcopy(world)
        more = played(branch, count)
        for name in branch.seeds:  # everybody takes what he can get at this moment
            for _ in range(20):
                branch.create(name, cpu=1, memory=1)
        branch.settle()
        branch.check_rest()
        for one in branch.seeds.values():
            one.machines.clear()
        branch.wait(61)
        branch.settle()
        if branch.quota:
            branch.fill(Random(count).choice, cpu=1, memory=1)
        count += 1
    assert count > 2


# --- how much is moved for how much ----------------------------------------------------------------------------------


def test_one_seed_that_grows_to_the_whole_asks_ever_more_seldom() -> None:
    """A hundred machines, one by one, where a third fits: not a change for each."""
    world = World({"cpu": 100}, seeds=3)
    world.settle()
    assert world.fill(lambda seeds: seeds[0], cpu=1) <= 20
    assert world.total("cpu") == 100


def test_seeds_that_grow_in_turn_leave_no_room_stranded() -> None:
    world = World({"cpu": 100}, seeds=3)
    world.settle()
    assert world.fill(Random(7).choice, cpu=1) <= 40
    assert world.total("cpu") == 100


def test_two_that_want_the_same_last_room_do_not_take_it_from_each_other_all_the_time() -> None:
    """Neither can use it: both want four, and three are free. In ten minutes it goes to and fro, once a minute at most."""
    world = World({"cpu": 11}, seeds=2)
    world.settle()
    for name in world.seeds:
        assert world.create(name, cpu=4)
    before, had = world.records, set()
    for _ in range(600):
        for name in world.seeds:
            assert not world.create(name, cpu=4)
        world.settle()
        had |= {name for name, one in world.seeds.items() if one.limit("cpu") == cpu(7)}
        world.wait(1)
    assert had == set(world.seeds), "each had his turn"
    assert world.records - before <= 2 * 10 + 4


def test_two_that_each_have_what_the_other_lacks_do_not_swap_it_for_ever() -> None:
    """One has the last free CPU, the other the last free memory, and both ask for a machine all the time."""
    world = World({"cpu": 5, "memory": 5 * 2**30}, seeds=2)
    world.settle()
    world.create("seed-0", cpu=2)
    world.create("seed-0", memory=3 * 2**30)
    world.create("seed-1", cpu=2)
    world.create("seed-1", memory=2**30)
    world.settle()
    assert [str(seed.limit(name)) for seed in world.seeds.values() for name in ("cpu", "memory")] == ["3", "3Gi", "2", "2Gi"]
    for _ in range(180):
        if any(world.create(name, cpu=1, memory=2**30) for name in world.seeds):
            return
        world.settle()
        world.wait(1)
    raise AssertionError(f"three minutes, and nobody got both: {world.escrow.written()}")


def test_a_demand_that_is_never_used_does_not_keep_a_neighbour_waiting_for_ever() -> None:
    """Somebody on one seed asks for everything all the time and uses nothing; somebody on another makes machines."""
    world = World({"cpu": 20}, seeds=2)
    world.settle()
    made = minutes = 0
    while made < 19:
        for _ in range(4):
            world.create("seed-0", cpu=20)
            made += world.create("seed-1", cpu=1)
            world.settle()
            world.wait(15)
        minutes += 1
        assert minutes <= 60, f"{made} machines in an hour"


def test_a_storm_on_all_seeds_ends_with_all_room_used() -> None:
    """Four hundred want a CPU each, of a hundred; every seed is asked for all that it could ever get."""
    world = World({"cpu": 100}, seeds=3)
    world.settle()
    seconds = 0
    while world.total("cpu") < 100:
        for name in world.seeds:
            for _ in range(133):
                if not world.create(name, cpu=1):
                    world.create(name, cpu=100 - world.seeds[name].taken["cpu"].value())
                    break
        world.settle()
        world.wait(5)
        seconds += 5
        assert seconds <= 120, f"{world.total('cpu')} of 100 in two minutes"


def test_a_quota_that_flaps_comes_to_rest() -> None:
    world = World({"cpu": 100}, seeds=3)
    for count in range(200):
        world.set_quota(cpu=50 + 50 * (count % 2))
        played(world, count % 4)
    world.settle()
    world.check_rest()


def test_the_time_is_only_compared_with_times_of_the_record_and_of_demands() -> None:
    """No clock of its own: the same facts at another time, and nobody's turn in between, give the same steps."""
    seeds: Seeds = {"a": seed(40, 40, wants=41), "b": seed(60, 20)}

    def at(now: datetime) -> tuple[Step, ...]:
        return next_steps(Escrow(HELD), {"cpu": cpu(100)}, seeds, now=now)

    assert at(BEGIN) == at(BEGIN + 100 * HOLD)


# --- the last room, in parts -----------------------------------------------------------------------------------------


def test_who_was_just_given_one_part_of_what_he_asked_for_is_first_in_line_for_the_other() -> None:
    long_ago, now = BEGIN - timedelta(minutes=5), BEGIN
    cpus = [
        Holder(granted=4, target=4, used=4, wanted=5, waiting=long_ago),
        Holder(granted=5, target=5, used=4, waiting=now, held=True),
    ]
    memory = [
        Holder(granted=5, target=5, used=4),
        Holder(granted=4, target=4, used=4, wanted=5, waiting=now, held=True),
    ]
    assert first_in_line([9, 9], [cpus, memory]) == 1
    assert first_in_line([9, 9], [[replace(one, held=False) for one in some] for some in (cpus, memory)]) == 0


@pytest.mark.parametrize("number", [45, 325, 505])
def test_the_last_machine_finds_room_though_its_parts_lie_with_different_seeds(number: int) -> None:
    random = Random(number)
    quota = random.randint(8, 24)
    world = World({"cpu": quota, "memory": quota}, seeds=random.randint(3, 5))
    for _ in range(random.randint(2, 6)):
        world.create(random.choice(sorted(world.seeds)), cpu=random.randint(0, 3), memory=random.randint(0, 3))
        if random.random() < 0.4:
            world.settle()
    world.settle()
    world.storm(most=12, cpu=1, memory=1)
