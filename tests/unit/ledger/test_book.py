"""What fits, what is refused and with which numbers; how folds settle what was booked. Interleavings: `test_weakened.py`."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.unit.ledger.world import BEGIN, EXPIRY, KIND, TOTAL, Folder, World, key, takes
from ullage.ledger.accounts import available, passed
from ullage.ledger.amounts import NOTHING, Amounts, Takings, parse_limits
from ullage.ledger.anew import emptied
from ullage.ledger.book import NOT_YET, Attempt, Book, Charge, Crowd, Observed, Over, Refusal, book
from ullage.ledger.fold import clusters_in, without_clusters
from ullage.ledger.keys import key_of, source_of
from ullage.ledger.limiting.noticing import with_limits
from ullage.ledger.readiness import ready, waiting, with_needed, with_positions
from ullage.ledger.refusals import crowd_text, refusal_text
from ullage.quantity import Quantity

Written = dict[str, dict[str, str]]
MACHINES = "machines.cluster.k8s.io"


def opened(limits: Written, used: Written | None = None) -> Book:
    """A book with limits, and with something counted."""
    observed = {KIND: Observed(1, BEGIN, Takings.parse(used))} if used else {}
    return with_limits(Book.of(limits={}, observed=observed), parse_limits(limits), BEGIN)


def creation(name: str, now: Written, *, dry_run: bool = False, past_limit: bool = False) -> Charge:
    return Charge(key=key(name), uid="u1", now=Takings.parse(now), dry_run=dry_run, past_limit=past_limit)


def change(name: str, old: Written, now: Written, *, version: int = 1) -> Charge:
    return Charge(key=key(name), uid="u1", on_version=version, old=Takings.parse(old), now=Takings.parse(now))


def space(amount: str) -> Written:
    return {"snapshots/namespace": {"storage": amount}}


# --- what fits -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "used", "charge", "fits"),
    [
        pytest.param(space("10Gi"), space("9Gi"), creation("a", space("1Gi")), True, id="exactly full is allowed"),
        pytest.param(space("10Gi"), space("9Gi"), creation("a", space("1073741825")), False, id="one byte over is refused"),
        pytest.param({}, space("9Gi"), creation("a", space("1Ei")), True, id="no limit refuses nothing"),
        pytest.param(space("0"), {}, creation("a", space("1")), False, id="a limit of zero allows none"),
        pytest.param(space("0"), {}, creation("a", {}), True, id="what takes nothing fits under a limit of zero"),
        pytest.param(space("1Gi"), {}, creation("a", {"machines": {"cpu": "99"}}), True, id="another account is not touched"),
        pytest.param(space("5Gi"), space("9Gi"), creation("a", space("1")), False, id="a limit below use refuses growth"),
        pytest.param(
            space("5Gi"), space("9Gi"), change("a", space("3Gi"), space("2Gi")), True, id="shrinking is allowed past the limit"
        ),
        pytest.param(
            space("5Gi"), space("9Gi"), change("a", space("3Gi"), space("3Gi")), True, id="an equal update is allowed too"
        ),
        pytest.param(space("5Gi"), space("9Gi"), change("a", space("3Gi"), {}), True, id="a delete is allowed"),
        pytest.param(
            space("10Gi"), space("9Gi"), change("a", space("3Gi"), space("4Gi")), True, id="an update asks for its growth only"
        ),
        pytest.param(
            space("10Gi"), space("9Gi"), change("a", space("3Gi"), space("5Gi")), False, id="an update that grows too much"
        ),
        pytest.param(
            {"machines": {"cpu": "4", "memory": "4Gi"}},
            {"machines": {"cpu": "9", "memory": "1Gi"}},
            change("a", {"machines": {"cpu": "9", "memory": "1Gi"}}, {"machines": {"cpu": "9", "memory": "2Gi"}}),
            True,
            id="one resource is past its limit and another grows",
        ),
        pytest.param(
            space("10Gi"),
            space("9Gi"),
            creation("a", space("5Gi"), past_limit=True),
            True,
            id="growth that has happened is booked past the limit",
        ),
    ],
)
def test_what_fits(limits: Written, used: Written, charge: Charge, fits: bool) -> None:
    before = opened(limits, used)
    after, refusal = book(before, charge, BEGIN)
    assert (refusal is None) == fits
    if not fits:
        assert after is before, "a refusal books nothing"


@pytest.mark.parametrize(
    "charge",
    [
        pytest.param(creation("a", space("1Gi"), dry_run=True), id="a dry run that fits"),
        pytest.param(creation("a", space("99Gi"), dry_run=True), id="a dry run that does not fit"),
        pytest.param(change("a", space("2Gi"), space("1Gi")), id="an update that shrinks"),
        pytest.param(change("a", space("2Gi"), space("2Gi")), id="an update that changes no amount"),
        pytest.param(change("a", space("2Gi"), {}), id="a delete"),
        pytest.param(creation("a", {}), id="a create that takes nothing"),
    ],
)
def test_what_is_not_booked(charge: Charge) -> None:
    before = opened(space("10Gi"))
    assert book(before, charge, BEGIN)[0] is before


def test_a_dry_run_is_decided_like_any_other() -> None:
    before = opened(space("10Gi"))
    _, refusal = book(before, creation("a", space("11Gi"), dry_run=True), BEGIN)
    assert refusal == Refusal((over("snapshots/namespace", "storage", asked="11Gi", used="0", reserved="0", limit="10Gi"),))


def test_a_charge_is_booked_on_all_its_accounts_or_on_none() -> None:
    limits = {"snapshots/namespace": {"storage": "10Gi"}, "snapshots/vm/db": {"storage": "2Gi"}}
    asks = {"snapshots/namespace": {"storage": "3Gi"}, "snapshots/vm/db": {"storage": "3Gi"}}
    before = opened(limits)
    after, refusal = book(before, creation("a", asks), BEGIN)
    assert after is before
    assert isinstance(refusal, Refusal)
    assert [one.account for one in refusal.over] == ["snapshots/vm/db"]
    fitting, _ = book(before, creation("a", {**asks, "snapshots/vm/db": {"storage": "2Gi"}}), BEGIN)
    assert fitting.reserved.written() == {"snapshots/namespace": {"storage": "3Gi"}, "snapshots/vm/db": {"storage": "2Gi"}}


def test_accounts_without_a_limit_are_booked_too() -> None:
    after, _ = book(opened({}), creation("a", space("3Gi")), BEGIN)
    assert after.reserved == Takings.parse(space("3Gi"))


def test_a_retry_of_the_same_name_does_not_pay_twice_even_at_the_limit() -> None:
    world = World(all=5)
    assert world.create("a", 5, lost=True)
    retried = world.create("a", 5)
    assert retried, "the first try holds the room that the second one needs"
    assert world.book.reserved[TOTAL] == Quantity.of(5)
    assert world.create("b", 1) is None
    assert world.commit(retried)
    world.fold()
    assert world.book.used[TOTAL] == Quantity.of(5)


def test_a_larger_retry_pays_the_difference() -> None:
    world = World(all=5)
    world.create("a", 3)
    world.create("a", 5)
    assert world.book.reserved[TOTAL] == Quantity.of(5)
    assert world.create("a", 6) is None


# --- merging ---------------------------------------------------------------------------------------------------------


def test_an_update_merges_into_the_attempt_of_its_object() -> None:
    before, _ = book(opened(space("10Gi")), creation("a", space("5Gi")), BEGIN)
    after, _ = book(before, change("a", space("1Gi"), space("3Gi"), version=7), BEGIN)
    (attempt,) = after.pending[key("a")].attempts.values()
    assert attempt == Attempt(Takings.parse(space("5Gi")), before.last + 1, 7), "larger amounts, newer version, later time"


def test_a_create_that_is_booked_again_leaves_an_update_an_update() -> None:
    before, _ = book(opened({}), change("a", space("1Gi"), space("3Gi"), version=7), BEGIN)
    after, _ = book(before, creation("a", space("3Gi")), BEGIN)
    assert after.pending[key("a")].attempts["u1"].on_version == 7


def another(name: str, amount: str, uid: str) -> Charge:
    return replace(creation(name, space(amount)), uid=uid)


@pytest.mark.parametrize(
    ("charges", "uids"),
    [
        pytest.param([another("a", "1Gi", "u1")], {"u1": "1Gi"}, id="a first create stays as it is"),
        pytest.param([another("a", "1Gi", "u1"), another("a", "1Gi", "u1")], {"u1": "1Gi"}, id="a create that is asked again"),
        pytest.param(
            [another("a", "5Gi", "u1"), another("a", "1Gi", "u2")], {"": "5Gi"}, id="two become one without a uid, the larger"
        ),
        pytest.param(
            [another("a", "1Gi", "u1"), another("a", "5Gi", "u2"), another("a", "2Gi", "u3"), another("a", "2Gi", "u1")],
            {"": "5Gi"},
            id="so do all that follow, whether they were there before or not",
        ),
        pytest.param(
            [change("a", space("1Gi"), space("7Gi")), another("a", "1Gi", "u2")],
            {"u1": "7Gi", "u2": "1Gi"},
            id="an update of another object stays as it is",
        ),
        pytest.param(
            [change("a", space("1Gi"), space("7Gi")), another("a", "1Gi", "u2"), another("a", "1Gi", "u3")],
            {"u1": "7Gi", "": "1Gi"},
            id="an update of another object is not among those who become one",
        ),
        pytest.param(
            [another("a", "1Gi", "u1"), another("a", "1Gi", "u2"), change("a", space("1Gi"), space("2Gi"))],
            {"": "1Gi", "u1": "2Gi"},
            id="an update has its own uid, whatever became of its create",
        ),
        pytest.param([another("a", "1Gi", "u1"), another("b", "1Gi", "u2")], {"u1": "1Gi", "u2": "1Gi"}, id="names stay apart"),
    ],
)
def test_creates_of_one_name_are_one_attempt(charges: list[Charge], uids: dict[str, str]) -> None:
    state = opened({})
    for number, charge in enumerate(charges):
        state, refusal = book(state, charge, BEGIN + timedelta(seconds=number))
        assert refusal is None
    attempts = {uid: one for slot in state.pending.values() for uid, one in slot.attempts.items()}
    assert {uid: one.takes for uid, one in attempts.items()} == {uid: Takings.parse(space(size)) for uid, size in uids.items()}
    assert max(one.booked for one in attempts.values()) == state.last, "the latest time"
    assert state.held == len(uids)


def test_no_two_bookings_have_the_same_time() -> None:
    state = opened({})
    for skew in (0, 0, -100, 0, 5):
        state, _ = book(state, creation(f"n{state.last}", space("1Gi")), BEGIN + timedelta(seconds=skew))
    times = [one.booked for one in state.attempts()]
    assert len(set(times)) == 5
    assert times == sorted(times)
    assert state.last == times[-1]


# --- refusals --------------------------------------------------------------------------------------------------------


def over(account: str, resource: str, **numbers: str) -> Over:
    amounts: dict[str, Any] = {name: Quantity.parse(text) for name, text in numbers.items()}
    return Over(account=account, resource=resource, **amounts)


def test_a_refusal_names_every_limit_with_all_its_numbers_and_the_next_step() -> None:
    limits = {
        "compute/vms": {"cpu": "8", "memory": "32Gi"},
        "snapshots/namespace": {"storage": "80Gi", "snapshots": "10"},
        "snapshots/vm/db": {"storage": "20Gi"},
    }
    used = {"compute/vms": {"cpu": "7500m"}, "snapshots/namespace": {"storage": "60Gi", "snapshots": "10"}}
    state, _ = book(opened(limits, used), creation("b", space("5Gi")), BEGIN)
    asks = {
        "compute/vms": {"cpu": "1", "memory": "1Gi"},
        "snapshots/namespace": {"storage": "30Gi", "snapshots": "1"},
        "snapshots/vm/db": {"storage": "30Gi"},
    }
    _, refusal = book(state, creation("a", asks), BEGIN)
    assert isinstance(refusal, Refusal)
    assert refusal.over[3] == over("snapshots/namespace", "storage", asked="30Gi", used="60Gi", reserved="5Gi", limit="80Gi")
    assert refusal_text(refusal, next_step="ullage prune vm/db --need 15Gi") == (
        "does not fit: snapshots/vm/db storage: asked 30Gi, used 0, reserved 0, limit 20Gi, over by 10Gi; "
        "compute/vms cpu: asked 1 core, used 7.5 cores, reserved 0, limit 8 cores, over by 0.5 cores; "
        "snapshots/namespace snapshots: asked 1, used 10, reserved 0, limit 10, over by 1; "
        "snapshots/namespace storage: asked 30Gi, used 60Gi, reserved 5Gi, limit 80Gi, over by 15Gi. "
        "Next: ullage prune vm/db --need 15Gi"
    )


def test_what_the_same_object_has_reserved_is_not_counted_as_asked() -> None:
    """The create is not counted yet: its room is reserved, and the update asks for the difference."""
    state, _ = book(opened(space("10Gi")), creation("a", space("8Gi")), BEGIN)
    _, refusal = book(state, change("a", space("8Gi"), space("11Gi")), BEGIN)
    assert refusal == Refusal((over("snapshots/namespace", "storage", asked="3Gi", used="0", reserved="8Gi", limit="10Gi"),))
    assert refusal.over[0].over == Quantity.parse("1Gi")


# --- limits ----------------------------------------------------------------------------------------------------------


def test_a_limit_below_use_is_accepted_and_shows() -> None:
    state = with_limits(opened(space("10Gi"), space("9Gi")), parse_limits(space("5Gi")), BEGIN)
    assert passed(state) == (over("snapshots/namespace", "storage", asked="0", used="9Gi", reserved="0", limit="5Gi"),)
    assert not passed(with_limits(state, parse_limits(space("9Gi")), BEGIN))
    assert not passed(with_limits(state, {}, BEGIN)), "without a limit nothing is past it"


def test_growth_that_has_happened_shows_as_past_the_limit() -> None:
    state, refusal = book(opened(space("10Gi"), space("9Gi")), creation("a", space("5Gi"), past_limit=True), BEGIN)
    assert refusal is None
    assert [str(one.over) for one in passed(state)] == ["4Gi"]


def test_available_is_what_still_fits() -> None:
    state = opened(
        {"machines": {"cpu": "8", "memory": "4Gi", "pods": "3"}}, {"machines": {"cpu": "2", "memory": "5Gi", "disk": "1"}}
    )
    state, _ = book(state, creation("a", {"machines": {"cpu": "1500m"}}), BEGIN)
    assert available(state, "machines") == Amounts.parse({"cpu": "4500m", "pods": "3"})
    assert available(state, "machines")["memory"] == Quantity.of(0), "never less than nothing"
    assert not available(state, "compute/vms")


# --- as many as are held ---------------------------------------------------------------------------------------------


def crowded() -> Book:
    """Two attempts, one of them of the object a at its seventh version."""
    state, _ = book(opened(space("10Gi")), change("a", space("1Gi"), space("2Gi"), version=7), BEGIN)
    state, _ = book(state, creation("b", space("1Gi")), BEGIN + timedelta(seconds=5))
    return state


@pytest.mark.parametrize(
    ("charge", "answer"),
    [
        pytest.param(creation("c", space("1Gi")), Crowd(2, BEGIN), id="another object is not taken on"),
        pytest.param(replace(creation("a", space("1Gi")), uid="other"), Crowd(2, BEGIN), id="nor a create beside an update"),
        pytest.param(
            replace(creation("b", space("1Gi")), uid="other"), None, id="another create of a name makes nothing larger"
        ),
        pytest.param(change("a", space("2Gi"), space("3Gi"), version=8), None, id="what merges makes nothing larger"),
        pytest.param(change("c", space("2Gi"), space("1Gi")), None, id="what does not grow is not held"),
        pytest.param(
            creation("c", space("1Gi"), dry_run=True), Crowd(2, BEGIN), id="a dry run is told what the request is told"
        ),
        pytest.param(
            replace(change("a", space("2Gi"), space("3Gi"), version=8), dry_run=True), None, id="a dry run of what merges"
        ),
    ],
)
def test_no_more_attempts_are_held_than_may_be(charge: Charge, answer: Crowd | None) -> None:
    state, moment = crowded(), BEGIN + timedelta(seconds=9)
    after, said = book(state, charge, moment, most=2)
    assert said == answer
    assert after.held == 2
    assert said is None or after is state, "nothing was booked"
    assert book(state, charge, moment, most=3)[1] is None


def test_growth_that_has_happened_is_booked_however_many_others_are_held() -> None:
    state, grown = crowded(), replace(change("c", space("1Gi"), space("9Gi")), past_limit=True)
    after, said = book(state, grown, BEGIN, most=2)
    assert said is None
    assert after.reserved == Takings.parse(space("10Gi"))
    assert (after.held, after.grown) == (3, 1)
    theirs = creation("d", {"machines": {"cpu": "1"}})
    assert book(after, theirs, BEGIN, most=3)[1] is None, "nor does it take a place of theirs"


def test_growth_that_has_happened_is_held_in_places_of_its_own() -> None:
    """So that 30,000 stamps that are written anew do not make an object that etcd refuses."""
    state, moments = opened({}), [BEGIN + timedelta(seconds=number) for number in range(4)]
    for number, moment in enumerate(moments[:2]):
        state, said = book(state, creation(f"n{number}", space("1Gi"), past_limit=True), moment, most=9, most_grown=2)
        assert said is None
    late = creation("late", space("1Gi"), past_limit=True)
    assert book(state, late, moments[2], most=9, most_grown=2) == (state, Crowd(2, BEGIN))
    merges = replace(change("n0", space("1Gi"), space("5Gi")), past_limit=True)
    assert book(state, merges, moments[2], most=9, most_grown=2)[1] is None, "what merges makes nothing larger"
    state, said = book(state, creation("theirs", space("1Gi")), moments[2], most=9, most_grown=2)
    assert said is None, "others have theirs"
    assert book(state, late, moments[3], most=9, most_grown=2)[1] == Crowd(2, BEGIN)


def test_a_merge_takes_no_further_place() -> None:
    state, _ = book(opened({}), creation("a", space("1Gi")), BEGIN)
    state, _ = book(state, replace(change("a", space("1Gi"), space("2Gi")), past_limit=True), BEGIN)
    assert (state.held, state.grown) == (1, 0), "it stays in the place where it began"


def test_what_does_not_fit_is_told_that_first() -> None:
    _, refusal = book(crowded(), creation("c", space("11Gi")), BEGIN, most=2)
    assert isinstance(refusal, Refusal), "to wait would not help"


def test_a_ledger_that_holds_more_than_it_may_lets_merges_in_and_nothing_else() -> None:
    """As after an upgrade that holds fewer."""
    state = crowded()
    assert book(state, change("a", space("2Gi"), space("3Gi"), version=8), BEGIN, most=1)[1] is None
    assert book(state, creation("c", space("1Gi")), BEGIN, most=1)[1] == Crowd(2, BEGIN)


def test_a_crowd_is_told_how_many_and_since_when() -> None:
    assert crowd_text(Crowd(2000, BEGIN)) == (
        "2000 requests have room reserved and are not counted yet, the earliest since 2026-01-01T00:00:00Z; that is as many as"
        " a ledger holds. Try again: room is made as they are counted, or expire"
    )


# --- readiness -------------------------------------------------------------------------------------------------------

LATER = BEGIN + timedelta(seconds=60)
SOURCES = frozenset({KIND, MACHINES})


def counted(view: int, *kinds: str) -> dict[str, Observed]:
    return {kind: Observed(view, BEGIN, NOTHING) for kind in kinds}


@pytest.mark.parametrize(
    ("observed", "exact_from", "left"),
    [
        pytest.param({}, {}, (MACHINES, KIND), id="nothing was counted"),
        pytest.param(counted(9, *SOURCES), {}, (MACHINES, KIND), id="a request may still be on its way"),
        pytest.param(counted(9, KIND), {KIND: 9, MACHINES: 9}, (MACHINES,), id="a kind is missing"),
        pytest.param(counted(8, *SOURCES), {KIND: 9, MACHINES: 9}, (MACHINES, KIND), id="counted before the last one ended"),
        pytest.param(counted(9, *SOURCES), {KIND: 9, MACHINES: 9}, (), id="counted after the last request that was not seen"),
        pytest.param(counted(9, *SOURCES), {KIND: 9, MACHINES: 10}, (MACHINES,), id="one kind was counted too early"),
        pytest.param(counted(9, *SOURCES), {KIND: 9}, (MACHINES,), id="of one kind it is not known from where on"),
    ],
)
def test_ready_when_every_kind_was_counted_after_the_first_limit(
    observed: dict[str, Observed], exact_from: dict[str, int], left: tuple[str, ...]
) -> None:
    state = with_positions(with_limits(Book.of(limits={}, observed=observed), parse_limits(space("1Gi")), BEGIN), exact_from)
    assert waiting(state, SOURCES) == left
    assert ready(state, SOURCES) == (not left)


def test_a_source_that_was_said_to_be_needed_is_waited_for_by_those_who_do_not_know_it() -> None:
    state = with_needed(exact(), {f"{MACHINES}/far"})
    assert waiting(state, SOURCES) == (f"{MACHINES}/far",)
    later = with_positions(state, {f"{MACHINES}/far": 3})
    assert waiting(later, SOURCES) == (), "known, and asked for by those who know it"
    assert waiting(later, SOURCES | {f"{MACHINES}/far"}) == (f"{MACHINES}/far",)


def test_a_first_limit_has_what_is_needed_of_other_clusters_counted_anew() -> None:
    state = with_positions(exact(), {f"{MACHINES}/far": 3})
    for anew in (
        with_limits(state, parse_limits({**space("1Gi"), "machines": {"cpu": "1"}}), LATER),
        emptied(state, set(), LATER),
    ):
        assert anew.exact_from == {f"{MACHINES}/far": NOT_YET}


def test_a_cluster_that_was_removed_leaves_nothing_behind_and_nothing_else_goes() -> None:
    far, near = f"{KIND}/far", f"{KIND}/near"
    state, _ = book(opened(space("10Gi")), creation("a", space("1Gi")), BEGIN)
    for cluster in ("far", "near"):
        charge = replace(creation("b", space("2Gi")), key=key_of(KIND, cluster=cluster, namespace="lab", name="b"))
        state, refusal = book(state, charge, BEGIN)
        assert refusal is None
    sums = Takings.parse(space("1Gi"))
    counts = {source: Observed(5, BEGIN, sums) for source in (KIND, far, near)}
    whole = Book.of(
        limits=state.limits,
        observed=counts,
        pending=state.pending,
        last=state.last,
        exact_from={KIND: 1, far: 2, near: NOT_YET},
    )
    left = without_clusters(whole, {"far"})
    assert clusters_in(whole) == {"far", "near"}
    assert clusters_in(left) == {"near"}
    assert left.observed == {KIND: counts[KIND], near: counts[near]}
    assert left.exact_from == {KIND: 1, near: NOT_YET}
    assert left.pending == {key: slot for key, slot in whole.pending.items() if "/far/" not in key}
    anew = Book.of(limits=left.limits, observed=left.observed, pending=left.pending)
    assert (left.used, left.reserved, left.held) == (anew.used, anew.reserved, anew.held)
    assert without_clusters(left, {"far"}) is left


def exact() -> Book:
    state = with_limits(Book.of(limits={}, observed=counted(9, *SOURCES)), parse_limits(space("1Gi")), BEGIN)
    return with_positions(state, {KIND: 5, MACHINES: 9})


@pytest.mark.parametrize(
    ("limits", "still_ready"),
    [
        pytest.param(space("2Gi"), True, id="another amount"),
        pytest.param({}, True, id="no limit any more"),
        pytest.param({"snapshots/namespace": {"storage": "1Gi", "snapshots": "5"}}, True, id="another resource of the account"),
        pytest.param({**space("1Gi"), "machines": {"cpu": "1"}}, False, id="a first limit on an account"),
    ],
)
def test_only_a_first_limit_on_an_account_starts_the_wait(limits: Written, still_ready: bool) -> None:
    assert ready(with_limits(exact(), parse_limits(limits), LATER), SOURCES) == still_ready


def test_a_limit_that_went_and_came_again_is_a_first_one() -> None:
    again = with_limits(with_limits(exact(), {}, LATER), parse_limits(space("1Gi")), LATER)
    assert not ready(again, SOURCES)


def test_a_position_that_is_known_stays() -> None:
    """A later one is as true, and would have everybody wait for another count."""
    assert with_positions(exact(), {KIND: 7}).exact_from == {KIND: 5, MACHINES: 9}


def test_limits_that_did_not_change_are_the_same_book() -> None:
    state = opened(space("1Gi"))
    assert with_limits(state, parse_limits(space("1Gi")), LATER) is state


def test_every_wait_has_a_time_of_its_own_whatever_clocks_say() -> None:
    """Whoever waits tells by it whether there is a newer first limit to wait for."""
    first = with_limits(Book.of(limits={}), parse_limits(space("1Gi")), BEGIN)
    more = {**space("1Gi"), "machines": {"cpu": "1"}}
    for moment in (BEGIN, BEGIN - timedelta(hours=1)):
        second = with_limits(first, parse_limits(more), moment)
        assert first.since is not None
        assert second.since is not None
        assert second.since > first.since
    assert emptied(first, set(), BEGIN).since != first.since


def test_an_emptied_book_keeps_its_limits_and_waits_again() -> None:
    state, _ = book(opened(space("10Gi"), space("2Gi")), creation("a", space("1Gi")), BEGIN)
    empty = emptied(state, {KIND}, LATER)
    assert (empty.limits, empty.observed, empty.pending) == (state.limits, {}, {})
    assert not empty.used
    assert not empty.reserved
    assert (empty.since, empty.exact_from) == (LATER, {})
    assert empty.last == state.last, "no booking gets a time that another had"
    assert (empty.epochs.last, empty.epochs.begun) == (1, {KIND: 1}), "who was held up folds nothing of before"


# --- folds -----------------------------------------------------------------------------------------------------------


def test_what_was_made_moves_from_reserved_to_used() -> None:
    world = World(all=5)
    world.commit(world.create("a", 3))
    assert (world.book.used[TOTAL], world.book.reserved[TOTAL]) == (Quantity.of(0), Quantity.of(3))
    world.fold()
    assert (world.book.used[TOTAL], world.book.reserved[TOTAL]) == (Quantity.of(3), Quantity.of(0))
    assert world.book.observed[KIND].view == world.revision


def test_a_view_that_is_older_changes_nothing() -> None:
    world = World(all=5)
    world.commit(world.create("a", 3))
    world.fold()
    before = world.book
    world.fold(at=0)
    assert world.book is before


def test_what_never_committed_costs_nothing_after_expiry() -> None:
    world, folder = World(all=5), Folder()
    world.create("a", 5, lost=True)
    world.look(folder)
    world.wait(EXPIRY)
    world.look(folder)
    world.fold(by=folder)
    assert world.create("b", 1) is None, "at expiry it is still held"
    world.wait(0.001)
    world.look(folder)
    world.fold(by=folder)
    assert world.create("b", 5)


def test_expiry_runs_from_the_first_sight_of_each_folder() -> None:
    world, late = World(all=5), Folder()
    world.create("a", 5, lost=True)
    world.wait(EXPIRY + 1)
    world.look(late)
    assert late.live == {}
    world.wait(EXPIRY + 1)
    world.look(late)
    assert len(late.live) == 1


def test_an_expired_update_goes_once_the_view_has_its_object() -> None:
    world, folder = World(all=9), Folder()
    world.commit(world.create("a", 2))
    world.fold()
    world.update("a", 6, lost=True)
    assert world.book.reserved[TOTAL] == Quantity.of(4)
    world.look(folder)
    world.wait(EXPIRY + 1)
    world.look(folder)
    world.fold(by=folder)
    assert world.book.attempts() == []
    assert world.book.used == takes("a", 2)


def test_what_never_committed_costs_nothing_after_expiry_without_any_view() -> None:
    """The watch of an idle kind may be a minute behind."""
    world, folder = World(all=5), Folder()
    world.create("a", 5, lost=True)
    world.look(folder)
    world.wait(EXPIRY + 1)
    world.look(folder)
    world.forget_lost(folder)
    assert world.book.observed == {}
    assert world.create("b", 5)


def test_what_is_in_the_sums_already_is_not_reserved_after_expiry_without_any_view() -> None:
    """Whoever reads names may have a view that is older than the sums, and fold nothing."""
    world, folder = World(all=9), Folder()
    world.commit(world.create("a", 2))
    world.update("a", 6, lost=True)
    world.fold()
    world.look(folder)
    world.wait(EXPIRY + 1)
    world.look(folder)
    world.forget_lost(folder)
    assert world.book.attempts() == []
    assert world.book.used == takes("a", 2)


def test_what_was_counted_under_a_name_stays_when_an_attempt_is_lost() -> None:
    world, folder = World(all=9), Folder()
    world.commit(world.create("a", 2))
    world.fold()
    world.create("a", 5, lost=True)
    world.look(folder)
    world.wait(EXPIRY + 1)
    world.update("a", 6)
    world.look(folder)
    assert world.book.reserved == takes("a", 6), "with a create of the name on its way nothing counts as counted"
    world.forget_lost(folder)
    assert [one.uid for one in world.book.attempts()] == ["uid-1"]
    assert world.book.reserved == takes("a", 6), "until a view says so"
    world.fold()
    assert world.book.reserved == takes("a", 4)


def test_a_read_is_about_the_booking_that_had_expired() -> None:
    """Whoever books again for the same object is waited for anew, whatever was read before."""
    world, folder = World(all=5), Folder()
    world.create("a", 5, lost=True)
    world.look(folder)
    world.wait(EXPIRY + 1)
    world.look(folder)
    [(one, _)] = folder.live.items()
    charge = Charge(key=one.key, uid=one.uid, now=takes("a", 5))
    world.book, _ = book(world.book, charge, world.now())
    before = world.book
    world.forget_lost(folder)
    assert world.book is before


def test_creates_of_one_name_go_only_by_a_read_that_began_after_expiry() -> None:
    """Whichever of them was made, seen or deleted: it says nothing about the others."""
    world, folder = World(all=9), Folder()
    first, second = world.create("a", 2), world.create("a", 3)
    world.commit(first)
    world.look(folder)
    world.fold(by=folder)
    assert [one.uid for one in world.book.attempts()] == [""]
    assert world.book.reserved == takes("a", 1), "the first is counted, and the second may take its place"
    world.commit(second)
    world.delete("a")
    world.fold(by=folder)
    assert [one.uid for one in world.book.attempts()] == [""]
    assert world.book.reserved == takes("a", 3)
    world.wait(EXPIRY + 1)
    world.look(folder)
    world.forget_lost(folder)
    assert world.book.attempts() == []


def test_creates_of_one_name_go_once_the_view_has_what_is_there() -> None:
    world, folder = World(all=9), Folder()
    world.commit(world.create("a", 2))
    early = world.revision - 1
    for _ in range(3):
        world.create("a", 3)
    world.look(folder)
    world.wait(EXPIRY + 1)
    world.look(folder)
    world.forget_lost(folder)
    world.fold(at=early, by=folder)
    assert [one.uid for one in world.book.attempts()] == [""], "something is there, and this view does not have it"
    world.fold(by=folder)
    assert world.book.attempts() == []
    assert world.book.used == takes("a", 2)


def test_who_creates_a_name_that_exists_again_and_again_locks_nobody_out() -> None:
    world = World(most=3, all=10)
    world.commit(world.create("a", 2))
    world.fold()
    for _ in range(50):
        world.create("a", 2)
        world.fold()
    assert world.book.held == 1
    assert world.create("b", 8)


def test_an_attempt_whose_object_was_seen_to_go_goes_at_once() -> None:
    world = World(all=9)
    world.commit(world.create("a", 2))
    world.delete("a")
    world.fold()
    assert world.book.attempts() == []


def test_room_that_a_deletion_freed_is_given_out_once() -> None:
    world = World(all=2)
    world.commit(world.create("a", 2))
    world.fold()
    world.delete("a")
    assert world.create("b", 2) is None, "nobody has seen it go"
    world.fold()
    assert world.create("b", 2)
    assert world.create("c", 1) is None


@pytest.mark.parametrize(
    ("made", "source"),
    [
        pytest.param(key_of(KIND, namespace="lab", name="a"), KIND, id="an object of this cluster"),
        pytest.param(key_of(MACHINES, cluster="c1", namespace="n", name="m"), f"{MACHINES}/c1", id="of another cluster"),
        pytest.param(key_of("nodes", name="n"), "nodes", id="in no namespace and no group"),
    ],
)
def test_each_key_is_counted_where_it_is_watched(made: str, source: str) -> None:
    assert source_of(made) == source
