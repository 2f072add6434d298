"""What is known of flavours stays known, and shows its age."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ullage.projects.sizes.catalogue import MOST_FLAVOURS, MOST_UNANSWERED, Catalogue, Flavour, FlavourKey, Place
from ullage.quantity import Quantity

NOON = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
AWS = Place("aws", region="eu-central-1", credential="a")
SMALL = Flavour(Quantity.of(1), Quantity.parse("1Gi"))
LARGE = Flavour(Quantity.of(8), Quantity.parse("32Gi"))

known = Catalogue().refreshed(AWS, {"s": SMALL, "l": LARGE}, source="DescribeInstanceTypes", at=NOON)


def find(catalogue: Catalogue, name: str, place: Place = AWS) -> Flavour | None:
    return catalogue.find(FlavourKey(place, name))


def test_a_catalogue_knows_what_it_was_told_and_where() -> None:
    assert find(known, "s") == SMALL
    assert find(known, "x") is None
    for other in (Place("aws", region="eu-west-1", credential="a"), Place("aws", region="eu-central-1", credential="b")):
        assert find(known, "s", other) is None


def test_a_catalogue_is_a_value() -> None:
    known.refreshed(AWS, {"s": LARGE}, source="x", at=NOON + HOUR)
    known.failed(AWS, "x", at=NOON)
    assert find(known, "s") == SMALL
    assert known.known(AWS).failure is None


def test_a_newer_answer_replaces_what_it_names_and_leaves_what_was_withdrawn() -> None:
    later = known.refreshed(AWS, {"s": LARGE, "n": SMALL}, source="again", at=NOON + HOUR)
    assert {name: find(later, name) for name in "sln"} == {"s": LARGE, "l": LARGE, "n": SMALL}
    assert later.known(AWS).refreshed == NOON + HOUR
    assert later.known(AWS).source == "again"


def test_an_answer_that_was_overtaken_changes_nothing() -> None:
    assert known.refreshed(AWS, {"s": LARGE}, source="slow", at=NOON - HOUR) == known


def test_what_was_withdrawn_goes_where_there_is_no_room_for_it() -> None:
    many = {f"n{number}": SMALL for number in range(MOST_FLAVOURS - 1)}
    later = known.refreshed(AWS, many, source="x", at=NOON + HOUR)
    assert len(later.known(AWS).flavours) == MOST_FLAVOURS
    assert all(find(later, name) for name in many)
    assert len([name for name in "sl" if find(later, name)]) == 1


def test_a_refresh_that_fails_takes_nothing_away_and_is_told_since_it_began() -> None:
    failing = known.failed(AWS, "timed out", at=NOON + HOUR).failed(AWS, "no route", at=NOON + 2 * HOUR)
    assert find(failing, "s") == SMALL
    found = failing.known(AWS)
    assert found.refreshed == NOON
    assert found.failure is not None
    assert (found.failure.since, found.failure.last) == (NOON + HOUR, NOON + 2 * HOUR)
    assert found.state(NOON + 3 * HOUR) == (
        "2 flavours from DescribeInstanceTypes, 3h old; refreshing fails since 2026-11-16T13:00:00Z: no route"
    )


def test_a_refresh_that_succeeds_ends_the_failure() -> None:
    healed = known.failed(AWS, "timed out", at=NOON).refreshed(AWS, {}, source="x", at=NOON + HOUR)
    assert healed.known(AWS).failure is None
    assert find(healed, "s") == SMALL


def test_a_place_that_never_answered() -> None:
    failing = Catalogue().failed(AWS, "forbidden", at=NOON)
    assert find(failing, "s") is None
    assert failing.known(AWS).age(NOON) is None
    assert failing.known(AWS).state(NOON) == "nothing is known yet; refreshing fails since 2026-11-16T12:00:00Z: forbidden"


@pytest.mark.parametrize(
    ("passed", "text"),
    [
        (timedelta(), "0s"),
        (timedelta(seconds=119), "119s"),
        (timedelta(minutes=2), "2m"),
        (timedelta(hours=47, minutes=59), "47h"),
        (timedelta(days=8), "8d"),
        (-HOUR, "0s"),
    ],
)
def test_the_age_of_sizes_is_told(passed: timedelta, text: str) -> None:
    assert known.known(AWS).state(NOON + passed) == f"2 flavours from DescribeInstanceTypes, {text} old"


def test_azure_s_names_have_no_case_and_those_of_others_have() -> None:
    azure = Place("azure", region="westeurope")
    catalogue = known.refreshed(azure, {"Standard_B2s": SMALL}, source="x", at=NOON)
    assert find(catalogue, "standard_B2S", azure) == SMALL
    assert find(catalogue, "S") is None


def test_regions_that_were_made_up_fill_no_memory_and_push_nothing_out_that_has_answered() -> None:
    theirs, real = Place("aws", region="theirs", credential="b"), Place("aws", region="real", credential="a")
    catalogue = known.failed(AWS, "timed out", at=NOON).failed(theirs, "timed out", at=NOON)
    for number in range(1000):
        catalogue = catalogue.failed(real, "timed out", at=NOON + number * HOUR)
        catalogue = catalogue.failed(
            Place("aws", region=f"r{number}", credential="a"), "no such region", at=NOON + number * HOUR
        )
    assert find(catalogue, "s") == SMALL
    assert len(catalogue.places) == MOST_UNANSWERED + 2
    assert {theirs, real, Place("aws", region="r999", credential="a")} < set(catalogue.places)
    failure = catalogue.known(real).failure
    assert failure is not None
    assert failure.since == NOON


def test_places_without_machines_go_after_a_while() -> None:
    other, failing = Place("hetzner"), Place("gce")
    catalogue = known.refreshed(other, {"cx22": SMALL}, source="x", at=NOON + 2 * HOUR).failed(failing, "x", at=NOON)
    assert set(catalogue.pruned([AWS], before=NOON + HOUR).places) == {AWS, other}
    assert set(catalogue.pruned([], before=NOON + HOUR).places) == {other}
    assert set(catalogue.pruned([], before=NOON + 2 * HOUR).places) == set()
    assert set(catalogue.failed(AWS, "x", at=NOON + 2 * HOUR).pruned([], before=NOON + HOUR).places) == {AWS, other}
