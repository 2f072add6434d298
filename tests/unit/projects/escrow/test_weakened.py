"""Every rule of the escrow stands for a sequence that overshoots without it; here is each of them.

A script is played twice: with the rules as they are, where the quota holds, and with one rule weakened, where it does not.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.projects.escrow.world import Master, Seed, World
from ullage.projects.escrow import division, steps
from ullage.projects.escrow.steps import Carry

Script = Callable[[World], None]
ONE, TWO = "seed-0", "seed-1"


def fill(world: World) -> None:
    """Whatever a seed admits now."""
    for seed in world.seeds:
        while world.create(seed, cpu=1):
            pass


def look(world: World, master: Master) -> None:
    for seed in world.seeds:
        world.look(master, seed)


def goes_on(world: World, master: Master) -> None:
    """With what it has seen. It acts until it has to look at the record again."""
    world.read(master)
    world.decide(master)
    while master.steps:
        world.act(master)


def asks_for_all(world: World, seed: str) -> None:
    """It uses what it has, and wants the rest of the 10."""
    while world.create(seed, cpu=1):
        pass
    world.create(seed, cpu=10 - len(world.seeds[seed].machines))


# --- the scripts: in each of them two seeds have 5 CPUs of 10 --------------------------------------------------------


def a_master_was_held_up_with_a_raise_in_its_hands(world: World) -> None:
    asks_for_all(world, ONE)
    stalled, leader = world.masters
    carries: list[Carry] = []
    while not any(one.seed == ONE for one in carries):
        look(world, leader)
        goes_on(world, leader)
        world.seeds[TWO].count()
        look(world, stalled)
        world.read(stalled)
        world.decide(stalled)
        carries = [step for step in stalled.steps if isinstance(step, Carry)]
    world.settle()
    while world.seeds[ONE].machines:
        world.delete(ONE)
    world.wait(61)
    asks_for_all(world, TWO)
    world.settle()
    while stalled.steps:
        world.act(stalled)
    fill(world)


def a_seed_never_heard_that_it_has_less(world: World) -> None:
    asks_for_all(world, TWO)
    leader = world.masters[0]
    look(world, leader)
    world.seeds[ONE].cut_off = True
    for _ in range(5):
        goes_on(world, leader)
    fill(world)


def a_seed_used_more_before_it_heard(world: World) -> None:
    asks_for_all(world, TWO)
    leader = world.masters[0]
    look(world, leader)
    goes_on(world, leader)
    for _ in range(5):
        world.create(ONE, cpu=1)
    goes_on(world, leader)  # the first seed hears of it
    fill(world)
    for _ in range(3):
        look(world, leader)
        goes_on(world, leader)
    fill(world)


def two_masters_give_the_same_room(world: World) -> None:
    world.set_quota(cpu=12)
    first, second = world.masters
    for master in (first, second):
        world.read(master)
        look(world, master)
    for master, seed in ((first, ONE), (second, TWO)):
        for _ in range(6):
            world.create(seed, cpu=1)
        world.look(master, seed)
        world.decide(master)
    for master, count in ((first, 1), (second, 2)):
        for _ in range(count):
            if master.steps:
                world.act(master)
    fill(world)


def a_seed_that_nobody_sees_uses_what_it_has(world: World) -> None:
    world.seeds[ONE].cut_off = True
    asks_for_all(world, TWO)
    for _ in range(3):
        look(world, world.masters[0])
        goes_on(world, world.masters[0])
    fill(world)


# --- the rules, each weakened ----------------------------------------------------------------------------------------


def any_number(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Seed, "takes", lambda seed, number: True)


def not_heard(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(steps, "is_reached", lambda share, seen: seen.change <= share.change)


def only_heard(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(steps, "is_reached", lambda share, seen: seen.change == share.change)


def carried_first(patch: pytest.MonkeyPatch) -> None:
    decide = World.decide

    def decided(world: World, master: Master) -> None:
        world.carries_first = True
        decide(world, master)

    patch.setattr(World, "decide", decided)


def nobody_is_waited_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(division.Holder, "use", property(lambda holder: holder.used or 0))
    patch.setattr(division.Holder, "fixed", False)
    patch.setattr(steps, "_noticed", lambda share, seen: steps._settled(share))


def promised_is_given(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(division, "_within", lambda whole, holders, wished: [(wish, wish) for wish in wished])
    patch.setattr(steps, "_is_strange", lambda share, seen: False)  # it would notice what the record cannot explain


RULES = [
    pytest.param(a_master_was_held_up_with_a_raise_in_its_hands, any_number, id="a seed takes only higher numbers"),
    pytest.param(a_seed_never_heard_that_it_has_less, not_heard, id="a grant falls only when the seed has heard of it"),
    pytest.param(a_seed_used_more_before_it_heard, only_heard, id="a grant falls only when no more is used"),
    pytest.param(two_masters_give_the_same_room, carried_first, id="a raise is recorded before it is carried"),
    pytest.param(a_seed_that_nobody_sees_uses_what_it_has, nobody_is_waited_for, id="a seed that is not seen keeps its grant"),
    pytest.param(a_seed_used_more_before_it_heard, promised_is_given, id="nothing is given that may still be with somebody"),
]


@pytest.mark.parametrize("script", [*dict.fromkeys(rule.values[0] for rule in RULES)])
def test_with_all_rules_the_quota_holds_and_can_be_used_up(script: Script) -> None:
    world = World({"cpu": 10}, seeds=2)
    world.settle()
    script(world)
    world.settle()
    world.check_rest()
    world.fill(lambda seeds: seeds[-1], cpu=1)
    assert world.total("cpu") == world.quota["cpu"].value()


@pytest.mark.parametrize(("script", "weaken"), RULES)
def test_without_one_rule_the_quota_is_passed(
    script: Script, weaken: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World({"cpu": 10}, seeds=2)
    world.settle()
    weaken(monkeypatch)
    monkeypatch.setattr(World, "check_raise", lambda world, new, quota: None)  # they would tell before it happens
    monkeypatch.setattr(World, "explained", lambda world, resource: True)
    with pytest.raises(AssertionError, match=r"cpu: \d+ used, 1\d allowed"):
        script(world)
