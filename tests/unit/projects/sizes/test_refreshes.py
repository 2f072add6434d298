"""Who is asked for sizes next, and how often."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ullage.projects.controllers.catalogue_refresh_rules import RefreshPlan, Schedule, due, plan
from ullage.projects.sizes.catalogue import Catalogue, Place

NOON = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
AWS = Place("aws", region="eu-central-1", credential="a")

answered = Catalogue().refreshed(AWS, {}, source="x", at=NOON)


def failing(since: datetime, last: datetime) -> Catalogue:
    return answered.failed(AWS, "x", at=since).failed(AWS, "x", at=last)


@pytest.mark.parametrize(
    ("catalogue", "wanted", "then"),
    [
        pytest.param(Catalogue(), True, NOON, id="what was never asked is asked at once"),
        pytest.param(Catalogue(), False, NOON, id="where machines are, too"),
        pytest.param(answered, False, NOON + 6 * HOUR, id="every six hours"),
        pytest.param(answered, True, NOON + MINUTE, id="for a flavour that was not there, after a minute"),
        pytest.param(failing(NOON, NOON), False, NOON + 30 * SECOND, id="after the first failure, after half a minute"),
        pytest.param(failing(NOON, NOON), True, NOON + 30 * SECOND, id="no sooner for a flavour"),
        pytest.param(failing(NOON - 5 * MINUTE, NOON), True, NOON + 5 * MINUTE, id="then as long as it has failed already"),
        pytest.param(failing(NOON - 9 * HOUR, NOON), True, NOON + HOUR, id="and never longer than an hour"),
        pytest.param(
            Catalogue().refreshed(AWS, {}, source="x", at=NOON + HOUR), True, NOON + MINUTE, id="a clock was set back"
        ),
        pytest.param(
            Catalogue().failed(AWS, "x", at=NOON + HOUR), True, NOON + 30 * SECOND, id="a clock was set back after a failure"
        ),
    ],
)
def test_when_a_place_is_asked_again(catalogue: Catalogue, wanted: bool, then: datetime) -> None:
    assert due(catalogue.known(AWS), NOON, wanted=wanted) == then


def test_a_plan_says_whom_to_ask_and_when_to_plan_again() -> None:
    other = Place("hetzner")
    assert plan(answered, in_use=[AWS], wanted=[other], now=NOON + HOUR) == RefreshPlan((other,), 5 * HOUR)
    assert plan(answered, in_use=[AWS], wanted=[AWS], now=NOON + HOUR) == RefreshPlan((AWS,), None)
    assert plan(answered, in_use=[], wanted=[], now=NOON + 9 * HOUR) == RefreshPlan((), None)


def test_what_is_asked_for_in_bulk_takes_turns_and_holds_nobody_else_up() -> None:
    made_up = [Place("aws", region=f"a{number:04}", credential="a") for number in range(1000)]
    neighbours = [Place("aws", region="eu-central-1", credential=f"n{number}") for number in range(50)]
    found = plan(answered, in_use=[AWS], wanted=[*made_up, *neighbours], now=NOON + 6 * HOUR)
    assert set(neighbours) < set(found.places)
    assert [place for place in found.places if place.credential == "a"] == [AWS, made_up[0]]
    assert found.wait == Schedule().pace


def test_a_tenant_who_makes_up_a_region_with_every_try_costs_a_few_calls_a_minute() -> None:
    catalogue, calls, now = answered, 0, NOON
    for number in range(360):  # an hour of one plan every ten seconds
        wanted = [Place("aws", region=f"r{number}-{one}", credential="a") for one in range(100)]
        for place in plan(catalogue, in_use=[AWS], wanted=wanted, now=now).places:
            calls += 1
            catalogue = catalogue.failed(place, "no such region", at=now)
        now += Schedule().pace
    assert calls == 360 * Schedule().each
    assert len(catalogue.places) < 30


def test_a_flavour_that_does_not_exist_is_asked_for_once_a_minute_at_most() -> None:
    catalogue, calls, now = answered, 0, NOON
    for _ in range(3600):
        for place in plan(catalogue, in_use=[AWS], wanted=[AWS], now=now).places:
            calls += 1
            catalogue = catalogue.refreshed(place, {}, source="x", at=now)
        now += SECOND
    assert calls == 59
