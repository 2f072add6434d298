"""Every rule about limits in flight stands for an interleaving in which one is passed without it; here is each of them.

As in `test_weakened.py`, a script is played with the rules as they are, and with one rule weakened. In each of them 2 fit once
a limit was set, and a thing of 4 is asked for after the API has answered that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from tests.unit.ledger.limit_world import LimitWorld
from tests.unit.ledger.world import EXPIRY, JARS, KIND
from ullage.ledger import amounts as attempts
from ullage.ledger import book as booking
from ullage.ledger import fold as folding
from ullage.ledger.amounts import LimitAttempt, LimitId, Limits, limit_on
from ullage.ledger.fold import Live
from ullage.ledger.limiting import in_flight as setting
from ullage.ledger.limiting import noticing
from ullage.ledger.limiting.in_flight import LimitChange, LimitView, SeenLimits

Script = Callable[[LimitWorld], None]


# --- the scripts -----------------------------------------------------------------------------------------------------


def no_cache_shows_it(world: LimitWorld) -> None:
    world.commit_limit(world.set_limit("one", all=2))
    world.ask("b", 4, world.deciders[0])


def cache_folds_before_the_create_commits(world: LimitWorld) -> None:
    first = world.set_limit("one", all=2)
    world.fold_limits(world.deciders[0])
    world.commit_limit(first)
    world.ask("b", 4, world.deciders[0])


def cache_is_at_the_version_that_is_changed(world: LimitWorld) -> None:
    seen_by_all(world, {"all": 8})
    lower = world.set_limit("one", all=2)
    world.fold_limits(world.deciders[0])
    world.commit_limit(lower)
    world.ask("b", 4, world.deciders[0])


def another_process_has_seen_it(world: LimitWorld) -> None:
    """And a controller that was stalled carries what there was before."""
    first, second = world.deciders
    world.commit_limit(world.set_limit("one", all=2))
    world.follow(first)
    world.fold_limits(first)
    world.carry(at=0)
    world.ask("b", 4, second)


def stalled_controller_carries_old_limits(world: LimitWorld) -> None:
    world.commit_limit(world.set_limit("one", all=2))
    world.follow(world.deciders[0])
    world.fold_limits(world.deciders[0])
    world.carry(at=0)
    world.ask("b", 4, world.deciders[0])


def live_read_too_early(world: LimitWorld) -> None:
    first, decider = world.set_limit("one", all=2), world.deciders[0]
    world.look(decider)
    world.wait(EXPIRY - 20)
    world.look(decider)
    world.fold_limits(decider)
    world.commit_limit(first)
    world.ask("b", 4, decider)


def booked_again_when_the_first_had_expired(world: LimitWorld) -> None:
    seen_by_all(world, {"all": 8})
    decider = world.deciders[0]
    world.set_limit("one", all=2, lost=True)
    world.look(decider)
    world.wait(EXPIRY + 1)
    late = world.set_limit("one", all=2)
    world.look(decider)
    world.fold_limits(decider)
    world.commit_limit(late)
    world.ask("b", 4, decider)


def live_read_of_what_no_cache_shows(world: LimitWorld) -> None:
    decider = world.deciders[0]
    world.commit_limit(world.set_limit("one", all=2))
    world.look(decider)
    world.wait(EXPIRY + 1)
    world.look(decider)
    world.fold_limits(decider)
    world.ask("b", 4, decider)


def two_changes_of_one_version(world: LimitWorld) -> None:
    seen_by_all(world, {"all": 8})
    lower = world.set_limit("one", all=2)
    world.set_limit("one", all=6)
    world.commit_limit(lower)
    world.ask("b", 4, world.deciders[0])


def one_lowers_while_the_other_raises(world: LimitWorld) -> None:
    """The first is admitted again, on the copy that the second has made."""
    seen_by_all(world, {"all": 3})
    lower, higher = world.set_limit("one", all=2), world.set_limit("one", all=20)
    world.commit_limit(higher)
    world.follow(world.deciders[0])
    world.fold_limits(world.deciders[0])
    world.commit_limit(lower, again=True)
    world.commit_limit(world.limits_flying[-1])
    world.ask("b", 4, world.deciders[0])


def object_of_another_uid_is_shown(world: LimitWorld) -> None:
    seen_by_all(world, {"all": 8})
    world.delete_limit("one")
    again = world.set_limit("one", all=2)
    world.fold_limits(world.deciders[0])
    world.commit_limit(again)
    world.ask("b", 4, world.deciders[0])


def each_shelf_beside_one_of_its_own(world: LimitWorld) -> None:
    world.commit_limit(world.set_limit("one", a=8))
    world.commit_limit(world.set_limit("two", each=2))
    world.ask("ax", 4, world.deciders[0])


def lower_on_one_account_and_higher_on_another(world: LimitWorld) -> None:
    seen_by_all(world, {"all": 5, "a": 1})
    world.commit_limit(world.set_limit("one", all=2, a=9))
    world.carry(at=0)
    world.ask("b", 4, world.deciders[0])


def nothing_was_counted(world: LimitWorld) -> None:
    world.make_ledger("ax")
    world.commit_limit(world.set_limit("one", all=6))
    world.ask("b", 4, world.deciders[0])
    counted(world)


def counted_by_a_cache_that_is_behind(world: LimitWorld) -> None:
    world.make_ledger("ax")
    world.commit_limit(world.set_limit("one", all=6))
    for kind in (KIND, JARS):
        world.fold(0, by=world.deciders[0], kind=kind)
    world.ask("b", 4, world.deciders[0])
    counted(world)


def counted(world: LimitWorld) -> None:
    for kind in (KIND, JARS):
        world.fold(by=world.deciders[0], kind=kind)


def seen_by_all(world: LimitWorld, sizes: dict[str, int]) -> None:
    world.commit_limit(world.set_limit("one", sizes=sizes))
    for decider in world.deciders:
        world.follow(decider)
        world.fold_limits(decider)


# --- the weakenings --------------------------------------------------------------------------------------------------

_in_force, _settled, _merged, _lowered = (
    attempts.in_force,
    setting.settled,
    setting.merged_limits,
    setting.lowered,
)


def nothing_is_in_flight(carried: Limits, shown: Limits, in_flight: Mapping[LimitId, LimitAttempt]) -> Limits:
    return _in_force(carried, shown, {})


def nothing_is_shown(carried: Limits, shown: Limits, in_flight: Mapping[LimitId, LimitAttempt]) -> Limits:
    return _in_force(carried, {}, in_flight)


def absent_is_gone(one: LimitId, *, view: LimitView | None, live: Live | None) -> int | None:
    return 0 if view is not None and view.get(one.key) is None else _settled(one, view=view, live=live)


def no_version_is_said(one: LimitId, *, view: LimitView | None, live: Live | None) -> int | None:
    return 0 if live is not None else _settled(one, view=view, live=live)


def same_version_is_newer(one: LimitId, seen: SeenLimits) -> bool:
    return seen.uid == one.uid and (one.on_version is None or seen.version >= one.on_version)


def any_uid(one: LimitId, seen: SeenLimits) -> bool:
    return one.on_version is None or seen.version > one.on_version


def newest_limits(before: LimitAttempt | None, limits: Limits, stamp: int) -> LimitAttempt:
    return LimitAttempt(limits, stamp)


def first_stamp(before: LimitAttempt | None, limits: Limits, stamp: int) -> LimitAttempt:
    return LimitAttempt(limits, before.booked if before else stamp)


def only_lower_ones(change: LimitChange) -> Limits:
    return {cell: limit for cell, limit in _lowered(change).items() if limit_on(change.old, cell) is not None}


def nothing_where_one_is_raised(change: LimitChange) -> Limits:
    raised = any((before := change.old.get(cell)) is not None and limit > before for cell, limit in change.now.items())
    return {} if raised else _lowered(change)


def once_for_one_uid(change: LimitChange) -> Limits:
    """What was booked on an older version is taken for booked."""
    return {} if change.on_version == 2 else _lowered(change)


def cell_by_cell(layers: Iterable[Limits]) -> Limits:
    found: dict[Any, Any] = {}
    for layer in layers:
        for cell, limit in layer.items():
            found[cell] = min(limit, found.get(cell, limit))
    return found


WEAKENINGS = [
    pytest.param(no_cache_shows_it, "in_force", nothing_is_in_flight, id="a limit in flight does not hold"),
    pytest.param(no_cache_shows_it, "lowered", only_lower_ones, id="a first limit is not booked"),
    pytest.param(cache_folds_before_the_create_commits, "settled", absent_is_gone, id="what a cache does not show is gone"),
    pytest.param(
        cache_is_at_the_version_that_is_changed, "is_newer", same_version_is_newer, id="the version that is changed settles it"
    ),
    pytest.param(object_of_another_uid_is_shown, "is_newer", any_uid, id="any object of the name settles it"),
    pytest.param(
        another_process_has_seen_it, "unseen", lambda book, views: (), id="a process decides that has not seen what others have"
    ),
    pytest.param(
        stalled_controller_carries_old_limits,
        "in_force",
        nothing_is_shown,
        id="what is seen does not hold, only what is carried",
    ),
    pytest.param(
        live_read_too_early,
        "expired",
        lambda book, first_seen, now, expiry: book.attempts(),
        id="a live read settles what has not expired",
    ),
    pytest.param(
        live_read_of_what_no_cache_shows, "settled", no_version_is_said, id="a live read does not say what has to be seen"
    ),
    pytest.param(
        booked_again_when_the_first_had_expired, "merged_limits", first_stamp, id="a merge does not start the wait anew"
    ),
    pytest.param(
        two_changes_of_one_version, "merged_limits", newest_limits, id="a merge keeps the newest limits, not the lowest"
    ),
    pytest.param(one_lowers_while_the_other_raises, "lowered", once_for_one_uid, id="an object is booked once"),
    pytest.param(
        each_shelf_beside_one_of_its_own, "lowest", cell_by_cell, id="a limit of its own is out of the reach of others"
    ),
    pytest.param(nothing_was_counted, "uncounted", lambda book, charge, needed: (), id="what was not counted is given away"),
    pytest.param(
        counted_by_a_cache_that_is_behind,
        "may_be_counted",
        lambda book, kind, shows_all: True,
        id="the first count is of a cache that does not show all",
    ),
    pytest.param(
        lower_on_one_account_and_higher_on_another,
        "lowered",
        nothing_where_one_is_raised,
        id="a change that raises one limit lowers none",
    ),
]


@pytest.mark.parametrize(("script", "rule", "by"), WEAKENINGS)
def test_limits_hold_where_a_weaker_rule_lets_them_be_passed(
    script: Script, rule: str, by: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = LimitWorld()
    script(world)
    world.check_sums()
    world.settle_limits()
    world.check_limits_rest()

    for module in (attempts, booking, folding, noticing, setting):
        if hasattr(module, rule):
            monkeypatch.setattr(module, rule, by)
    with pytest.raises(AssertionError, match="are used"):
        script(LimitWorld())
