"""Which snapshots make room: the oldest that may, no more than it takes, and none where it would not do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.ledger.amounts import NOTHING, Cell, Takings, Waiter, total
from ullage.ledger.book import Attempt, Book, Observed, Slot
from ullage.policies.counts.choice import (
    HELD_UP,
    SPARED,
    STUCK,
    UNFINISHED,
    Candidate,
    Choice,
    choose,
    choose_for,
    lacking,
    spared,
    why_kept,
)
from ullage.quantity import ZERO, Quantity

NOW = datetime(2026, 1, 1, tzinfo=UTC)
A, B, ALL = Cell("count/a", "n"), Cell("count/b", "n"), Cell("count/all", "n")


def amounts(**taken: int) -> Takings:
    cells = {"a": A, "b": B, "all": ALL}
    return Takings({cells[name]: Quantity.of(number) for name, number in taken.items()})


def one(name: str, *, going: bool = False, kept: str = "", **takes: int) -> Candidate:
    return candidate(name, created=name, takes=amounts(**takes), going=going, kept=kept)


def candidate(name: str, **more: Any) -> Candidate:
    return Candidate(key=f"kind//ns/{name}", name=name, uid=f"uid-{name}", version="1", **more)


def lack(**missing: int) -> Mapping[Cell, Quantity]:
    return amounts(**missing).cells


def names(found: tuple[Candidate, ...]) -> list[str]:
    return [each.name for each in found]


def test_the_oldest_that_helps_goes_first() -> None:
    there = [one("3", a=1), one("1", b=1), one("2", a=1)]
    assert names(choose(lack(a=1), there).delete) == ["2"]
    assert names(choose(lack(a=2), there).delete) == ["2", "3"]


def test_what_is_going_makes_room_already() -> None:
    there = [one("1", a=1), one("2", a=1, going=True, kept="protected, and going all the same")]
    found = choose(lack(a=1), there)
    assert (names(found.delete), names(found.going)) == ([], ["2"])


def test_where_too_little_may_go_nothing_does() -> None:
    there = [one("1", a=1, b=1), one("2", a=1, kept="x")]
    found = choose(lack(a=2, b=1), there)
    assert (found.delete, found.short, found.helps) == ((), (A,), False)


def test_one_that_another_has_made_superfluous_stays() -> None:
    """The first is taken for one account, the second for both: then the first was not needed."""
    there = [one("1", a=1), one("2", a=1, b=1)]
    assert names(choose(lack(a=1, b=1), there).delete) == ["2"]


def test_where_several_do_not_go_the_others_are_left_alone() -> None:
    rest = [one("3", a=1), one("4", a=1, kept=UNFINISHED), one("5", a=1, kept="x"), one("6", a=1, going=True)]
    held = [one("1", a=1, kept=HELD_UP), one("2", a=1, kept=HELD_UP), one("0", a=1, kept=STUCK)]
    assert spared([*held, *rest]) == [*held, *rest], "one may be stuck for a reason of its own"
    stuck = [one("0", a=1, kept=STUCK), one("1", a=1, kept=STUCK)]
    assert [each.kept for each in spared([*stuck, *rest])] == [STUCK, STUCK, SPARED, SPARED, "x", ""]


def test_why_so_little_may_go_is_counted() -> None:
    there = [one("1", a=1, kept="x"), one("2", a=1, kept="x"), one("3", b=1, kept="y"), one("4", a=1, kept="z")]
    assert why_kept(there, [A]) == "2 are x, 1 is z"


candidates = st.lists(
    st.builds(
        lambda age, going, kept, a, b: (age, going, kept, a, b),
        st.integers(0, 5),
        st.booleans(),
        st.sampled_from(["", "", "protected"]),
        st.integers(0, 3),
        st.integers(0, 3),
    ),
    max_size=8,
).map(
    lambda rows: [
        candidate(str(n), created=str(age), takes=amounts(a=a, b=b), going=going, kept=kept)
        for n, (age, going, kept, a, b) in enumerate(rows)
    ]
)
wants = st.builds(lambda a, b: amounts(a=a, b=b).cells, st.integers(0, 8), st.integers(0, 8))


@given(wants, candidates)
def test_whatever_there_is(wanted: Mapping[Cell, Quantity], there: list[Candidate]) -> None:
    found = choose(wanted, there)
    assert not any(each.kept or each.going for each in found.delete), "nothing that is kept, and nothing twice"
    going = total(each.takes for each in there if each.going)
    freed = going + total(each.takes for each in found.delete)
    if found.helps:
        assert all(freed[cell] >= amount for cell, amount in wanted.items()), "it does"
        for each in found.delete:
            rest = going + total(other.takes for other in found.delete if other is not each)
            assert any(rest[cell] < amount for cell, amount in wanted.items()), "each is needed"
            younger = [other for other in there if other.age > each.age and other in found.delete]
            assert each not in younger
    else:
        assert not found.delete, "nothing goes in vain"
        most = going + total(each.takes for each in there if not each.kept and not each.going)
        assert any(most[cell] < wanted[cell] for cell in found.short)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2), st.integers(0, 2)), max_size=8),
    candidates,
    st.integers(0, 12),
    st.integers(0, 12),
)
def test_for_whoever_waits(rows: list[tuple[int, int, int]], there: list[Candidate], most_a: int, most_b: int) -> None:
    waiting = {f"w//n/{n}": Waiter(amounts(a=a, b=b), since, since) for n, (since, a, b) in enumerate(rows)}
    used = total(each.takes for each in there)
    book = Book.of(limits={A: Quantity.of(most_a), B: Quantity.of(most_b)}, observed={"kind": Observed(1, NOW, used)})
    choice, served = choose_for(book, waiting, there)
    for cell in book.limits:
        assert sum(bool(waiting[key].takes[cell].nanos) for key in served) <= 1, "of each limit one at a time"
    asked = total(waiting[key].takes for key in served)
    left = [each for each in there if not each.going and each not in choice.delete]
    after = total(each.takes for each in left) + asked
    for cell, limit in book.limits.items():
        if asked[cell] > ZERO:
            assert after[cell] <= limit, "all who are served fit once those have gone"
    if not served:
        assert not choice.delete
    assert not any(each.kept for each in choice.delete)


def test_however_many_wait_candidates_are_put_in_order_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 100 who wait, each is chosen for together with those before him: that must not be 100 times the work."""
    claims = [Cell(f"count/{n}", "n") for n in range(100)]
    each = [Takings({cell: Quantity.of(1)}) for cell in claims]
    there = [candidate(f"{n}-{age}", created=str(age), takes=takes) for n, takes in enumerate(each) for age in range(20)]
    waiting = {f"w//n/{n}": Waiter(each[n], n, n) for n in range(100)}
    book = Book.of(
        limits={cell: Quantity.of(20) for cell in claims},
        observed={"kind": Observed(1, NOW, total(one.takes for one in there))},
    )
    looks: Counter[str] = Counter()

    def age(self: Candidate) -> tuple[str, str]:
        looks[self.key] += 1
        return self.created, self.key

    monkeypatch.setattr(Candidate, "age", property(age))
    choice, served = choose_for(book, waiting, there)
    assert (len(choice.delete), len(served)) == (100, 100)
    untouched = [one.key for one in there if int(one.created) > 1]
    assert {looks[key] for key in untouched} == {1}


def test_what_is_lacking_is_what_the_limits_would_be_passed_by() -> None:
    book = Book.of(limits={A: Quantity.of(5)}, observed={"kind": Observed(1, NOW, amounts(a=4, b=4))})
    assert lacking(book, amounts(a=1, b=9)) == {}
    assert lacking(book, amounts(a=3)) == {A: Quantity.of(2)}


def test_nothing_is_deleted_for_what_is_reserved() -> None:
    """Nothing may come of it; and who waits is served when it is free, or there."""
    observed = {"kind": Observed(1, NOW, amounts(a=2))}
    slot = Slot({"u": Attempt(amounts(a=2), 1, None)}, NOTHING)
    book = Book.of(limits={A: Quantity.of(4)}, observed=observed, pending={"kind//n/vetoed": slot})
    assert lacking(book, amounts(a=1)) == {}
    waiting = {"kind//n/w": Waiter(amounts(a=3), 0, 0)}
    assert choose_for(book, waiting, [one("1", a=1), one("2", a=1)]) == (Choice(), ())
