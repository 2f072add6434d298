"""Which places are asked now, and which go. The walk through time is in test_refresh.py."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ullage.kube.kinds import Meta
from ullage.projects.api.catalogues import WANTED, CatalogueSpec, MachineCatalogue
from ullage.projects.controllers.catalogue_refresh_rules import (
    KEPT_FOR,
    LOOK,
    MOST_AT_ONCE,
    WANTED_FOR,
    RefreshFacts,
    RefreshSteps,
    answered,
    failed,
    is_wanted,
    next_refreshes,
    surplus,
)
from ullage.projects.sizes.catalogue import MOST_UNANSWERED, Catalogue, Failure, Flavour, Known, Place
from ullage.quantity import Quantity
from ullage.times import timestamp

NOW = datetime(2026, 11, 18, 6, tzinfo=UTC)
HOUR = timedelta(hours=1)
SMALL = Flavour(Quantity.of(2), Quantity.parse("2Gi"))


def place(number: int = 0, credential: str = "ns/a") -> Place:
    return Place("aws", f"r-{number:02}", credential)


def found(*, wanted: timedelta | None = None, made: timedelta = timedelta()) -> MachineCatalogue:
    """One that was wanted, and made, so long ago."""
    annotations = {} if wanted is None else {WANTED: timestamp(NOW - wanted)}
    meta = Meta(name="x", annotations=annotations, creation_timestamp=timestamp(NOW - made))
    return MachineCatalogue(metadata=meta, spec=CatalogueSpec(provider="aws"))


def heard(ago: timedelta) -> Known:
    return Known({"s": SMALL}, source="call", refreshed=NOW - ago)


def failing(ago: timedelta, *, since: timedelta | None = None, refreshed: timedelta | None = None) -> Known:
    failure = Failure(since=NOW - (since or ago), last=NOW - ago, reason="down")
    return Known(refreshed=NOW - refreshed if refreshed else None, failure=failure)


def steps(known: dict[Place, tuple[MachineCatalogue, Known]], *, allowed: bool = True, **more: list[Place]) -> RefreshSteps:
    return next_refreshes(
        RefreshFacts(
            Catalogue({one: told for one, (_, told) in known.items()}),
            {one: obj for one, (obj, _) in known.items()},
            allowed=lambda _: allowed,
            running=more.get("running", ()),
            recent=more.get("recent", ()),
        ),
        now=NOW,
    )


@pytest.mark.parametrize(
    ("obj", "known", "wanted"),
    [
        pytest.param(found(), Known(), True, id="one that nobody has asked yet"),
        pytest.param(found(wanted=HOUR), heard(2 * HOUR), True, id="wanted since it was heard of"),
        pytest.param(found(wanted=2 * HOUR), heard(HOUR), False, id="heard of since it was wanted"),
        pytest.param(found(wanted=HOUR / 2), failing(HOUR / 4), True, id="never answered, and wanted lately"),
        pytest.param(found(wanted=WANTED_FOR), failing(HOUR), False, id="never answered, and nobody asks any more"),
        pytest.param(found(wanted=HOUR), failing(HOUR / 2, refreshed=9 * HOUR), False, id="failed since it was wanted"),
    ],
)
def test_what_is_wanted(obj: MachineCatalogue, known: Known, wanted: bool) -> None:
    assert is_wanted(obj, known, now=NOW) is wanted


def test_a_few_are_asked_at_once_and_of_one_credential_fewer() -> None:
    places = {place(number, f"ns/{number % 5}"): (found(), Known()) for number in range(30)}
    chosen = steps(places).ask
    assert len(chosen) == MOST_AT_ONCE
    mine = {place(number): (found(), Known()) for number in range(30)}
    assert len(steps(mine).ask) == 2
    assert len(steps(mine, running=[place(98)]).ask) == 1
    assert steps(mine, running=[place(98), place(99)]).ask == ()
    others = [place(number, f"ns/{number}") for number in range(40, 40 + MOST_AT_ONCE)]
    assert steps(mine, running=others).ask == ()


def test_what_is_being_asked_or_was_just_now_is_not_asked_again() -> None:
    one = {place(): (found(), Known())}
    assert steps(one).ask == (place(),)
    assert steps(one, running=[place()]).ask == ()
    assert steps(one, recent=[place()]).ask == ()


@pytest.mark.parametrize(
    ("obj", "known", "allowed", "goes"),
    [
        pytest.param(found(made=2 * KEPT_FOR), heard(KEPT_FOR), False, True, id="no cluster uses it any more"),
        pytest.param(found(made=2 * KEPT_FOR), heard(KEPT_FOR - HOUR), False, False, id="not for long enough"),
        pytest.param(found(made=2 * KEPT_FOR), heard(2 * KEPT_FOR), True, False, id="a cluster uses it"),
        pytest.param(found(wanted=2 * KEPT_FOR, made=2 * KEPT_FOR), failing(KEPT_FOR), True, True, id="it never answered"),
        pytest.param(found(wanted=HOUR / 2, made=2 * KEPT_FOR), failing(KEPT_FOR), True, False, id="somebody asks again"),
    ],
)
def test_what_goes(obj: MachineCatalogue, known: Known, allowed: bool, goes: bool) -> None:
    assert bool(steps({place(): (obj, known)}, allowed=allowed).remove) is goes


def test_what_is_unused_is_looked_at_again() -> None:
    unused = {place(): (found(made=KEPT_FOR), heard(HOUR))}
    assert steps(unused, allowed=False).wait == LOOK
    assert steps({}).wait is None


def test_an_answer_and_a_failure_leave_what_was_known() -> None:
    had = heard(9 * HOUR)
    new = answered(had, place(), {"t": SMALL}, source="call", at=NOW)
    assert (set(new.flavours), new.refreshed, new.failure) == ({"s", "t"}, NOW, None)
    worse = failed(had, place(), "down", at=NOW)
    assert (worse.flavours, worse.refreshed) == (had.flavours, had.refreshed)
    assert worse.failure == Failure(since=NOW, last=NOW, reason="down")


def test_of_places_that_never_answered_the_oldest_are_too_many() -> None:
    catalogue = Catalogue({place(number): failing((50 - number) * HOUR) for number in range(MOST_UNANSWERED)})
    assert surplus(catalogue, place(0), at=NOW) == ()
    assert surplus(catalogue, place(98), at=NOW) == (place(0),)
    assert surplus(catalogue, place(98, "ns/other"), at=NOW) == ()
