"""What is known of a place outlives the process that asked."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.projects.sizes.recorded import ANSWERS, filled
from ullage.errors import BadInput
from ullage.projects.sizes.catalogue import Known, Place
from ullage.projects.sizes.codec import read, write

NOON = datetime(2026, 11, 16, 12, 0, 0, 250_000, tzinfo=UTC)
ALLOWED = "cpu up to 100k, memory and storage up to 1Ei, with '-' for what is not said, are needed"


@pytest.mark.parametrize("provider", sorted(ANSWERS))
def test_every_provider_s_flavours_are_read_as_they_were_written(provider: str) -> None:
    known = filled(Place(provider)).known(Place(provider))
    assert known.flavours
    assert read(json.loads(json.dumps(write(known))), path="spec") == known


def test_a_document_that_people_can_read() -> None:
    place = Place("openstack")
    known = (
        filled(place).failed(place, "timed out", at=NOON).failed(place, "no route", at=NOON + timedelta(hours=1)).known(place)
    )
    written = write(known)
    assert written == {
        "source": "test",
        "refreshed": "2026-11-16T20:00:00.000000Z",
        "flavours": {"m1.small": "1 2Gi 20Gi", "v1.small": "2 4Gi -"},
        "failure": {"since": "2026-11-16T12:00:00.250000Z", "last": "2026-11-16T13:00:00.250000Z", "reason": "no route"},
    }
    assert read(written, path="spec") == known


def test_flavours_are_in_order_whoever_named_them_first() -> None:
    lines = {"b": "1 1Gi -", "a": "2 1Gi -"}
    assert list(write(read({"flavours": lines}, path="spec"))["flavours"]) == ["a", "b"]


def test_nothing_is_known_of_an_empty_document() -> None:
    assert read({}, path="spec") == Known()
    assert read(write(Known()), path="spec") == Known()


def test_names_that_differ_in_case_alone_are_two_flavours() -> None:
    assert set(read({"flavours": {"a": "1 1Gi -", "A": "2 1Gi -"}}, path="spec").flavours) == {"a", "A"}


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ([], "spec (a list of 0): an object is needed"),
        ({"flavours": []}, "spec.flavours (a list of 0): an object is needed"),
        ({"flavours": {"a": 1}}, f"spec.flavours[a] 1: {ALLOWED}"),
        ({"flavours": {"a": "1 1Gi"}}, f"spec.flavours[a] 1 1Gi: {ALLOWED}"),
        ({"flavours": {"a": "1 1Gi  -"}}, f"spec.flavours[a] 1 1Gi  -: {ALLOWED}"),
        ({"flavours": {"a": "1 1Gi - 5"}}, f"spec.flavours[a] 1 1Gi - 5: {ALLOWED}"),
        ({"flavours": {"a": f"{'0' * 300}1 1Gi -"}}, f"spec.flavours[a] {'0' * 40}…: {ALLOWED}"),
        ({"flavours": {"a": "1 1Gi lots"}}, f"spec.flavours[a] 1 1Gi lots: {ALLOWED}"),
        ({"flavours": {"a": "-1 1Gi -"}}, f"spec.flavours[a] -1 1Gi -: {ALLOWED}"),
        ({"flavours": {"a": "1 2Ei -"}}, f"spec.flavours[a] 1 2Ei -: {ALLOWED}"),
        ({"flavours": {"a": "9" * 300}}, f"spec.flavours[a] {'9' * 40}…: {ALLOWED}"),
        (
            {"flavours": {str(number): "1 1Gi -" for number in range(5001)}},
            "spec.flavours of 5001 flavours: at most 5000 are allowed",
        ),
        ({"refreshed": "yesterday"}, "spec.refreshed yesterday: a time such as 2026-11-16T20:00:00Z is needed"),
        ({"failure": {}}, "spec.failure.since (missing): a time such as 2026-11-16T20:00:00Z is needed"),
        ({"failure": "x"}, "spec.failure x: an object is needed"),
    ],
)
def test_what_cannot_be_read_names_its_field(document: object, text: str) -> None:
    with pytest.raises(BadInput) as error:
        read(document, path="spec")
    assert str(error.value) == text


def test_a_large_region_is_small() -> None:
    known = read({"flavours": {f"family{number}.24xlarge": "96 393216Mi -" for number in range(800)}}, path="spec")
    assert len(json.dumps(write(known))) < 32 << 10
