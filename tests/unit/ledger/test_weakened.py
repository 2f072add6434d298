"""Every rule of the ledger stands for an interleaving that overshoots without it; here is each of them.

A script is played twice: with the rules as they are, where nothing passes its limit, and with one rule weakened by a line,
where something does. A random walk finds some of these once in thousands, so each is written down.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.unit.ledger.world import BEGIN, EXPIRY, FAR, TOTAL, Folder, World
from ullage.ledger import amounts
from ullage.ledger import book as booking
from ullage.ledger import fold as folding
from ullage.ledger.amounts import NOTHING, Takings
from ullage.ledger.book import MOST_ATTEMPTS, NO_UID, Attempt, AttemptId, Book, Charge, Over, Slot
from ullage.ledger.fold import Live, LiveReads, Seen, View

Script = Callable[[World], None]


# --- the scripts: in each of them 10 fit, and things that do not fit together are tried ------------------------------


def two_that_fit_singly(world: World) -> None:
    first, second = world.create("a", 8), world.create("b", 8)
    world.commit(first)
    world.commit(second)


def only_the_shelf_is_full(world: World) -> None:
    world.limit(s=4)
    world.commit(world.create("s", 5))


def stale_update_of_a_deleted_object_then_a_create_of_that_name(world: World) -> None:
    world.commit(world.create("a", 8))
    world.delete("a")
    world.fold()
    world.update("a", 9)
    again, other = world.create("a", 9), world.create("b", 9)
    world.commit(again)
    world.commit(other)


def admission_on_a_stale_copy_then_on_a_fresh_one(world: World) -> None:
    world.commit(world.create("a", 8))
    world.commit(world.update("a", 2))
    world.fold()
    world.commit(world.update("a", 9, copy=0), again=True)
    rerun, other = world.flying[-1], world.create("b", 7)
    world.commit(rerun)
    world.commit(other)


def create_of_a_name_that_seems_to_exist(world: World) -> None:
    world.commit(world.create("a", 5))
    world.fold()
    again = world.create("a", 5)
    world.delete("a")
    world.fold()
    world.commit(world.create("b", 10))
    world.commit(again)


def update_before_its_create_was_counted(world: World) -> None:
    world.commit(world.create("a", 2))
    grown = world.update("a", 8)
    world.fold()
    world.commit(world.create("b", 8))
    world.commit(grown)


def second_update_before_the_first_was_counted(world: World) -> None:
    world.commit(world.create("a", 2))
    world.fold()
    world.commit(world.update("a", 3))
    grown = world.update("a", 8)
    world.fold()
    world.commit(world.create("b", 7))
    world.commit(grown)


def large_update_then_a_small_one(world: World) -> None:
    world.commit(world.create("a", 1))
    world.fold()
    large = world.update("a", 8)
    world.update("a", 2)
    world.commit(world.create("b", 8))
    world.commit(large)


def large_create_then_a_small_one(world: World) -> None:
    large = world.create("a", 8)
    world.create("a", 2)
    world.commit(world.create("b", 8))
    world.commit(large)


def large_create_then_a_small_update(world: World) -> None:
    world.commit(world.create("a", 1))
    world.fold()
    large = world.create("a", 8)
    world.update("a", 2)
    world.commit(world.create("b", 7))
    world.delete("a")
    world.commit(large)


def update_while_its_fold_is_at_the_same_version(world: World) -> None:
    world.commit(world.create("a", 1))
    grown = world.update("a", 8)
    world.fold()
    world.commit(world.create("b", 9))
    world.commit(grown)


def stalled_replica_folds(world: World) -> None:
    world.commit(world.create("a", 8))
    world.fold()
    world.fold(at=0)
    world.commit(world.create("b", 8))


def older_view_shows_the_object_before_it_shrank(world: World) -> None:
    world.commit(world.create("a", 5))
    world.fold()
    world.commit(world.update("a", 2))
    grown = world.update("a", 5)
    world.fold(at=1)
    world.fold()
    world.commit(world.create("b", 8))
    world.commit(grown)


def two_creates_of_one_name(world: World) -> None:
    """The first is made, seen and deleted; then the second, still on its way, is made."""
    first, second = world.create("a", 8), world.create("a", 8)
    world.commit(first)
    world.fold()
    world.delete("a")
    world.fold()
    world.commit(world.create("b", 8))
    world.commit(second)


def create_beside_an_update_that_is_in(world: World) -> None:
    world.commit(world.create("a", 1))
    world.fold()
    second = world.create("a", 8)
    world.commit(world.update("a", 2))
    world.fold()
    world.delete("a")
    world.fold()
    world.commit(world.create("b", 8))
    world.commit(second)


def two_creates_expired_and_one_was_made(world: World) -> None:
    folder = Folder()
    first = world.create("a", 8)
    world.create("a", 8, lost=True)
    world.commit(first)
    _look_until_expired(world, folder)
    world.forget_lost(folder)
    world.commit(world.create("b", 8))


def create_again_when_the_first_had_expired(world: World) -> None:
    folder = Folder()
    world.create("a", 8, lost=True)
    world.create("a", 8, lost=True)
    world.look(folder)
    world.wait(EXPIRY + 1)
    late = world.create("a", 8)
    world.look(folder)
    world.forget_lost(folder)
    world.commit(world.create("b", 8))
    world.commit(late)


def view_of_the_object_that_the_next_one_replaces(world: World) -> None:
    world.commit(world.create("a", 5))
    world.fold()
    world.delete("a")
    second = world.create("a", 5)
    world.fold(at=1)
    world.fold()
    world.commit(world.create("b", 10))
    world.commit(second)


def counted_object_goes_while_the_next_is_on_its_way(world: World) -> None:
    world.commit(world.create("a", 5))
    world.fold()
    second = world.create("a", 5)
    world.fold()
    world.delete("a")
    world.fold()
    world.commit(world.create("b", 10))
    world.commit(second)


def fold_before_the_commit(world: World) -> None:
    late = world.create("a", 8)
    world.fold()
    world.commit(world.create("b", 8))
    world.commit(late)


def expired_and_made_but_not_in_the_view(world: World) -> None:
    folder = Folder()
    world.commit(world.create("a", 8))
    _look_until_expired(world, folder)
    world.fold(at=0, by=folder)
    world.commit(world.create("b", 8))


def view_of_another_kind(world: World) -> None:
    """Whose position is far ahead: it says nothing about this kind."""
    folder = Folder()
    world.commit(world.create("a", 8))
    _look_until_expired(world, folder)
    world.fold_view(Empty(position=99), kind="jars.example.com", by=folder)
    world.commit(world.create("b", 8))


def live_read_too_early(world: World) -> None:
    folder = Folder()
    late = world.create("a", 8)
    world.look(folder)
    world.wait(EXPIRY - 20)
    world.look(folder)
    world.fold(by=folder)
    world.commit(world.create("b", 8))
    world.commit(late)


def live_read_too_early_and_no_view(world: World) -> None:
    folder = Folder()
    late = world.create("a", 8)
    world.look(folder)
    world.wait(EXPIRY - 20)
    world.look(folder)
    world.forget_lost(folder)
    world.commit(world.create("b", 8))
    world.commit(late)


def committed_after_the_server_stood_still(world: World) -> None:
    """Its time runs anew when the server goes on, and so does the wait for it."""
    folder = Folder()
    world.create("a", 8)
    world.look(folder)
    world.wait(30)
    world.stall(EXPIRY)
    late = world.flying[-1]
    world.look(folder)
    world.forget_lost(folder)
    world.commit(world.create("b", 8))
    world.commit(late)


def expired_and_made_and_no_view(world: World) -> None:
    folder = Folder()
    world.commit(world.create("a", 8))
    _look_until_expired(world, folder)
    world.forget_lost(folder)
    world.commit(world.create("b", 8))


def made_since_the_sums_and_no_view(world: World) -> None:
    folder = Folder()
    world.commit(world.create("b", 2))
    world.fold()
    world.commit(world.create("a", 8))
    _look_until_expired(world, folder)
    world.forget_lost(folder)
    world.commit(world.create("c", 8))


def create_lost_while_an_update_of_the_name_is_on_its_way(world: World) -> None:
    folder = Folder()
    world.commit(world.create("a", 1))
    world.fold()
    world.create("a", 2, lost=True)
    world.look(folder)
    world.wait(EXPIRY + 1)
    grown = world.update("a", 8)
    world.look(folder)
    world.forget_lost(folder)
    world.commit(world.create("b", 8))
    world.commit(grown)


def booked_on_a_late_clock_and_no_view(world: World) -> None:
    folder = Folder()
    late = world.create("a", 8, skew=-2 * EXPIRY)
    world.look(folder)
    world.forget_lost(folder)
    world.commit(world.create("b", 8))
    world.commit(late)


def booked_on_a_clock_that_is_late(world: World) -> None:
    folder = Folder()
    late = world.create("a", 8, skew=-2 * EXPIRY)
    world.look(folder)
    world.fold(by=folder)
    world.commit(world.create("b", 8))
    world.commit(late)


def booked_again_when_the_first_had_expired(world: World) -> None:
    folder = Folder()
    world.commit(world.create("a", 1))
    world.fold()
    world.update("a", 8, lost=True)
    world.look(folder)
    world.wait(EXPIRY + 1)
    late = world.update("a", 8)
    world.look(folder)
    world.fold(by=folder)
    world.commit(world.create("b", 8))
    world.commit(late)


def moved_to_a_full_shelf(world: World) -> None:
    world.limit(s=4)
    world.commit(world.create("a", 5))
    world.fold()
    world.commit(world.update("a", 5, place="s"))


def cluster_that_cannot_be_reached(world: World) -> None:
    folder = Folder()
    world.commit(world.create("f", 8))
    world.fold(kind=FAR)
    world.ask_removed(folder)
    world.drop_removed(folder)
    world.commit(world.create("b", 8))


def position_of_another_cluster(world: World) -> None:
    """Which is far ahead: the object that was made there is in no sum of it."""
    folder = Folder()
    world.commit(world.create("c", 1))
    world.fold()
    world.remove_cluster()
    world.add_cluster()
    world.commit(world.create("f", 8))
    _look_until_expired(world, folder)
    world.forget_lost(folder)
    world.commit(world.create("b", 8))


def object_of_less_than_nothing(world: World) -> None:
    world.slip_in("a", -90)
    world.fold()
    world.commit(world.create("b", 100))
    world.delete("a")


def growth_while_the_ledger_is_crowded(world: World) -> None:
    """The bytes are there; only whether the book knows of them is to be decided."""
    world.commit(world.create("a", 2))
    world.fold()
    world.create("b", 1, lost=True)
    world.most = 1
    world.swell("a", 8)
    world.commit(world.update("a", 8, past_limit=True))
    world.fold()
    world.most = MOST_ATTEMPTS
    world.commit(world.create("c", 7))


def stalled_replica_folds_what_a_backup_has_undone(world: World) -> None:
    """Its view is at a position that the server has passed again since."""
    stalled = Folder()
    world.list_anew(stalled)
    world.commit(world.create("a", 8))
    world.delete("a")
    for _ in range(3):
        world.slip_in("z", 0)
    world.fold()
    world.restore(1)
    world.notice()
    world.fold()
    world.fold(at=3, by=stalled)
    world.commit(world.create("b", 8))


def stalled_leader_takes_the_server_for_restored(world: World) -> None:
    stalled = Folder()
    world.list_anew(stalled)
    world.commit(world.create("a", 8))
    world.fold()
    world.notice(latest=0)
    world.fold(at=0, by=stalled)
    world.commit(world.create("b", 8))


def _look_until_expired(world: World, folder: Folder) -> None:
    world.look(folder)
    world.wait(EXPIRY + 1)
    world.look(folder)


@dataclass(frozen=True)
class Empty:
    """A view of a kind of which there is nothing."""

    position: int
    sums: Takings = NOTHING
    epoch: int = 0

    def get(self, key: str) -> Seen | None:
        return None

    def gone(self, uid: str) -> bool:
        return False


# --- the weakenings --------------------------------------------------------------------------------------------------

_merged, _exceeded, _in, _settled, _folded, _without_lost = (
    booking.merged,
    booking.exceeded,
    folding.is_in,
    folding.is_settled,
    folding._folded,
    folding.without_lost,
)


def first_account_only(book: Book, charge: Charge) -> tuple[Over, ...]:
    return tuple(one for one in _exceeded(book, charge) if one.account == TOTAL.account)


def keeps_what_was_counted(slot: Slot) -> Takings:
    return slot.counted


def does_not_lower_what_was_counted(slot: Slot, charge: Charge) -> Takings:
    return slot.counted if slot.attempts else charge.old


def skips_creates_of_what_was_there(charge: Charge) -> bool:
    """uid-2 is, in the script, the create of a name that another object still has."""
    return charge.uid != "uid-2" and not charge.now <= charge.old


Before = Sequence[Attempt]


def only_the_whole_may_grow(charge: Charge) -> bool:
    return charge.now[TOTAL] > charge.old[TOTAL]


def create_stays_a_create(before: Before, charge: Charge, stamp: int) -> Attempt:
    return replace(_merged(before, charge, stamp), on_version=before[0].on_version if before else charge.on_version)


def newest_amounts(before: Before, charge: Charge, stamp: int) -> Attempt:
    return replace(_merged(before, charge, stamp), takes=charge.now)


def first_stamp(before: Before, charge: Charge, stamp: int) -> Attempt:
    return replace(_merged(before, charge, stamp), booked=before[0].booked if before else stamp)


def last_attempt(slot: Slot) -> Takings:
    return list(slot.attempts.values())[-1].takes.beyond(slot.counted) if slot.attempts else NOTHING


def amounts_decide(uid: str, attempt: Attempt, seen: Seen | None) -> bool:
    return seen is not None and seen.uid == uid and attempt.takes <= seen.takes


def any_uid(uid: str, attempt: Attempt, seen: Seen | None) -> bool:
    return seen is not None and (attempt.on_version is None or seen.version > attempt.on_version)


def what_is_seen_settles_all_creates(uid: str, attempt: Attempt, seen: Seen | None) -> bool:
    return _in(uid, attempt, seen) or (seen is not None and uid == NO_UID)


def another_uid_is_absent(uid: str, live: Live) -> bool:
    return live.uid != uid


def same_version_is_newer(uid: str, attempt: Attempt, seen: Seen | None) -> bool:
    return seen is not None and seen.uid == uid and (attempt.on_version is None or seen.version >= attempt.on_version)


def all_attempts_go_together(key: str, slot: Slot, **facts: Any) -> Slot | None:
    after = _folded(key, slot, **facts)
    return after if after and len(after.attempts) == len(slot.attempts) else None


def all_of_a_name_are_lost_together(book: Book, live: LiveReads) -> Book:
    after = _without_lost(book, live)
    whole = {key: slot for key, slot in after.pending.items() if len(slot.attempts) == len(book.pending[key].attempts)}
    return Book.of(limits=book.limits, observed=book.observed, pending=whole, last=book.last)


def what_was_counted_only_rises(key: str, slot: Slot, **facts: Any) -> Slot | None:
    after = _folded(key, slot, **facts)
    return Slot(after.attempts, after.counted | slot.counted) if after else None


def absent_is_gone(uid: str, attempt: Attempt, *, seen: Seen | None, view: View, live: Live | None) -> bool:
    return seen is None or _settled(uid, attempt, seen=seen, view=view, live=live)


def seen_through_a_silence(
    book: Book, first_seen: Mapping[AttemptId, float], now: float, **_: object
) -> dict[AttemptId, float]:
    return {one: first_seen.get(one, now) for one in book.attempts()}


def first_seen_when_booked(book: Book, first_seen: object, now: float, **_: object) -> dict[AttemptId, float]:
    return {one: one.booked / 1000 - BEGIN.timestamp() for one in book.attempts()}


def growth_waits_like_all_others(book: Book, tried: Book, *, most: int, most_grown: int) -> bool:
    return tried.held > max(book.held, most)


def always(*facts: object, **more: object) -> bool:
    return True


def never(*facts: object, **more: object) -> bool:
    return False


@dataclass(frozen=True)
class Weakening:
    """One rule, replaced. A rule that one module has imported from another is replaced in both."""

    rule: str
    by: Callable[..., Any]

    def apply(self, patch: pytest.MonkeyPatch) -> None:
        for module in (amounts, booking, folding):
            if hasattr(module, self.rule):
                patch.setattr(module, self.rule, self.by)


def weaker(script: Script, rule: str, by: Callable[..., Any], *, id: str) -> Any:
    return pytest.param(script, Weakening(rule, by), id=id)


WEAKENINGS = [
    weaker(two_that_fit_singly, "cost", lambda slot: NOTHING, id="what is on its way costs nothing"),
    weaker(only_the_shelf_is_full, "exceeded", first_account_only, id="only one of the accounts is tested"),
    weaker(
        stale_update_of_a_deleted_object_then_a_create_of_that_name,
        "counted_at_create",
        keeps_what_was_counted,
        id="a create keeps what was counted under its name",
    ),
    weaker(
        admission_on_a_stale_copy_then_on_a_fresh_one,
        "counted_at_update",
        does_not_lower_what_was_counted,
        id="an update keeps what was counted from a stale copy",
    ),
    weaker(
        create_of_a_name_that_seems_to_exist,
        "grows",
        skips_creates_of_what_was_there,
        id="a create is not booked because the name exists",
    ),
    weaker(
        update_before_its_create_was_counted,
        "merged",
        create_stays_a_create,
        id="a create that an update merged into stays a create",
    ),
    weaker(second_update_before_the_first_was_counted, "merged", create_stays_a_create, id="a merge keeps the older version"),
    weaker(large_update_then_a_small_one, "merged", newest_amounts, id="a merge keeps the newest amounts, not the largest"),
    weaker(booked_again_when_the_first_had_expired, "merged", first_stamp, id="a merge does not start the wait anew"),
    weaker(large_create_then_a_small_update, "cost", last_attempt, id="a key costs its last attempt, not its largest"),
    weaker(
        large_create_then_a_small_one,
        "merged",
        newest_amounts,
        id="creates of one name take the newest amounts, not the largest",
    ),
    weaker(
        create_again_when_the_first_had_expired,
        "merged",
        first_stamp,
        id="another create of a name does not start the wait anew",
    ),
    weaker(
        two_creates_of_one_name,
        "is_in",
        what_is_seen_settles_all_creates,
        id="an object that is seen settles all creates of its name",
    ),
    weaker(
        two_creates_expired_and_one_was_made,
        "is_absent",
        another_uid_is_absent,
        id="creates of one name go though what one of them made is in no view",
    ),
    weaker(stalled_replica_folds, "is_older", never, id="an older view is folded"),
    weaker(
        stalled_replica_folds_what_a_backup_has_undone,
        "is_of_another_epoch",
        never,
        id="a view of before the backup is folded, whose position the server has passed again",
    ),
    weaker(
        stalled_leader_takes_the_server_for_restored,
        "is_of_another_epoch",
        never,
        id="who begins a new epoch brings an old view with it",
    ),
    weaker(older_view_shows_the_object_before_it_shrank, "is_in", amounts_decide, id="amounts say whether an attempt is in"),
    weaker(view_of_the_object_that_the_next_one_replaces, "is_in", any_uid, id="any object of the name settles an attempt"),
    weaker(
        update_while_its_fold_is_at_the_same_version,
        "is_in",
        same_version_is_newer,
        id="the version that an update is for settles it",
    ),
    weaker(create_beside_an_update_that_is_in, "_folded", all_attempts_go_together, id="attempts of one name go together"),
    weaker(
        counted_object_goes_while_the_next_is_on_its_way,
        "_folded",
        what_was_counted_only_rises,
        id="what is counted under a key does not go down with the view",
    ),
    weaker(fold_before_the_commit, "is_settled", absent_is_gone, id="what is not in the view counts as gone"),
    weaker(
        expired_and_made_but_not_in_the_view,
        "is_lost",
        always,
        id="an expired attempt goes though the view has not reached its object",
    ),
    weaker(view_of_another_kind, "source_of", lambda key: "jars.example.com", id="a fold of one kind settles those of another"),
    weaker(
        live_read_too_early,
        "expired",
        lambda book, first_seen, now, expiry: book.attempts(),
        id="a live read settles what has not expired",
    ),
    weaker(booked_on_a_clock_that_is_late, "still_seen", first_seen_when_booked, id="expiry runs from the booker's clock"),
    weaker(
        committed_after_the_server_stood_still,
        "still_seen",
        seen_through_a_silence,
        id="time counts in which the API server did not answer",
    ),
    weaker(
        live_read_too_early_and_no_view,
        "expired",
        lambda book, first_seen, now, expiry: book.attempts(),
        id="without a view, a live read settles what has not expired",
    ),
    weaker(
        booked_on_a_late_clock_and_no_view,
        "still_seen",
        first_seen_when_booked,
        id="without a view, expiry runs from the booker's clock",
    ),
    weaker(
        expired_and_made_and_no_view,
        "is_absent",
        always,
        id="without a view, an expired attempt goes though its object is there",
    ),
    weaker(
        made_since_the_sums_and_no_view,
        "reached",
        lambda book, key: 99,
        id="without a view, an expired attempt goes though its object is in no sum",
    ),
    weaker(
        create_lost_while_an_update_of_the_name_is_on_its_way,
        "without_lost",
        all_of_a_name_are_lost_together,
        id="without a view, attempts of one name go together",
    ),
    weaker(
        moved_to_a_full_shelf,
        "grows",
        only_the_whole_may_grow,
        id="what moves to another account and is no larger is not asked for",
    ),
    weaker(
        cluster_that_cannot_be_reached,
        "is_removed",
        lambda cluster, removed: bool(cluster),
        id="a cluster that nobody has removed is dropped",
    ),
    weaker(
        position_of_another_cluster,
        "source_of",
        lambda key: key.split("/")[0],
        id="a position of one cluster says something about another",
    ),
    weaker(object_of_less_than_nothing, "refuse_negative", lambda amounts: None, id="an amount may be negative"),
    weaker(
        growth_while_the_ledger_is_crowded,
        "is_crowded",
        growth_waits_like_all_others,
        id="growth that has happened waits until the ledger is less crowded",
    ),
]


@pytest.mark.parametrize(("script", "weakening"), WEAKENINGS)
def test_the_rules_hold_where_a_weaker_one_overshoots(
    script: Script, weakening: Weakening, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(all=10)
    script(world)
    world.check()
    world.check_sums()
    world.settle(Folder())
    world.check_rest()

    weakening.apply(monkeypatch)
    weakened = World(all=10)
    script(weakened)
    with pytest.raises(AssertionError, match="are used"):
        weakened.check()
