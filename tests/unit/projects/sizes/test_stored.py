"""Between objects and what is known: the same place has the same name, and what people say goes first."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.unit.projects.sizes.recorded import ASKED, filled
from ullage.kube.kinds import Meta
from ullage.names import is_subdomain
from ullage.projects.api.catalogues import CatalogueData, CatalogueFailure, CatalogueSpec, MachineCatalogue
from ullage.projects.sizes.catalogue import Catalogue, Flavour, FlavourKey, Known, Place
from ullage.projects.sizes.stored import (
    FlavourLines,
    catalogue_name,
    empty_catalogue,
    known_of,
    merged,
    place_of,
    shown_of,
    written,
)
from ullage.quantity import Quantity
from ullage.times import timestamp

AWS = Place("aws", "eu-central-1", "kubermatic/credential-aws-x")
SMALL = Flavour(Quantity.of(2), Quantity.parse("2Gi"))


def made(name: str, flavours: dict[str, str], *, source: str = "", provider: str = "aws", **data: Any) -> MachineCatalogue:
    given = CatalogueData(source=source, flavours=flavours, **data)
    return MachineCatalogue(metadata=Meta(name=name), spec=CatalogueSpec(provider=provider), data=given)


def test_a_name_tells_the_place_and_is_its_alone() -> None:
    places = [
        AWS,
        Place("aws", "eu-central-1"),
        Place("aws", "eu-central-2", AWS.credential),
        Place("aws", "eu-central-1", AWS.credential, "https://x"),
        Place("aws", "EU-central-1", AWS.credential),
        Place("aws", "x" * 63, "y" * 500, "https://" + "z" * 400),
    ]
    found = [catalogue_name(place) for place in places]
    assert len(set(found)) == len(places)
    assert all(is_subdomain(name) and len(name) <= 100 for name in found)
    assert found[0].startswith("aws-eu-central-1-kubermatic-credential-aws-x-")


def test_what_is_written_is_read_back() -> None:
    known = filled(AWS).failed(AWS, "timed out", at=ASKED + timedelta(hours=1)).known(AWS)
    data, shown = written(known)
    found = msgspec.structs.replace(empty_catalogue(AWS, wanted=""), data=data)
    assert place_of(found) == AWS
    assert known_of(found) == known
    assert merged((found,)).flavours == known.flavours
    assert (merged((found,)).refreshed, merged((found,)).failure) == (known.refreshed, known.failure)
    assert shown.flavours == 2


def test_lines_are_read_when_they_are_asked_for_and_bad_ones_are_not_there() -> None:
    lines = FlavourLines({"good": "2 2Gi -", "bad": "2 2Gi 9999Ei"})
    assert lines.get("good") == SMALL
    assert lines.get("bad") is None
    assert lines.get("none") is None
    assert len(lines) == 2


def test_what_people_say_goes_before_what_the_provider_says() -> None:
    told = made("a", {"s": "1 1Gi -", "t": "4 4Gi -"}, source="call", refreshed=timestamp(ASKED))
    mine = made("b", {"s": "2 2Gi -"}, source="manual")
    for objects in ((told, mine), (mine, told)):
        known = merged(objects)
        assert known.flavours["s"] == SMALL
        assert known.flavours["t"] == Flavour(Quantity.of(4), Quantity.parse("4Gi"))
        assert (known.source, known.refreshed) == ("call", ASKED)


def test_azure_s_names_are_found_in_whatever_case_people_write_them() -> None:
    known = merged((made("a", {"Standard_B2s": "2 2Gi -"}, source="manual", provider="azure"),))
    assert Catalogue({Place("azure"): known}).find(FlavourKey(Place("azure", "westeurope", "x/y"), "STANDARD_B2S")) == SMALL


@pytest.mark.parametrize(
    ("place", "found"),
    [
        pytest.param(Place("vsphere"), True, id="for the provider"),
        pytest.param(Place("vsphere", "r", endpoint="https://e"), True, id="for all credentials of a region"),
        pytest.param(Place("vsphere", "r", "ns/a", "https://e"), True, id="for the very place"),
        pytest.param(Place("vsphere", "q"), False, id="for another region"),
        pytest.param(Place("vsphere", "r", "ns/b", "https://e"), False, id="for another credential"),
        pytest.param(Place("nutanix"), False, id="for another provider"),
    ],
)
def test_whom_a_catalogue_that_is_written_by_hand_is_for(place: Place, found: bool) -> None:
    catalogue = Catalogue({place: Known({"template x": SMALL})})
    assert (catalogue.find(FlavourKey(Place("vsphere", "r", "ns/a", "https://e"), "template x")) == SMALL) is found


def test_the_nearest_place_answers() -> None:
    wide, near = Flavour(storage=Quantity.of(1)), Flavour(storage=Quantity.of(2))
    catalogue = Catalogue({Place("aws"): Known({"a": wide, "b": wide}), AWS: Known({"a": near})})
    assert catalogue.find(FlavourKey(AWS, "a")) == near
    assert catalogue.find(FlavourKey(AWS, "b")) == wide


def test_what_is_wrong_with_what_people_wrote_is_shown() -> None:
    assert shown_of(made("a", {"s": "2 2Gi -"}, source="manual")).problem == ""
    shown = shown_of(made("a", {"s": "2 2Gi -", "t": "2 2Gi 9999Ei"}, source="manual"))
    assert shown.flavours == 2
    assert shown.problem.startswith("data.flavours[t] 2 2Gi 9999Ei: cpu up to ")


def test_times_that_cannot_be_read_take_no_size_away() -> None:
    failure = CatalogueFailure(since="yesterday", last="today")
    known = merged((made("a", {"s": "2 2Gi -"}, failure=failure),))
    assert known.flavours["s"] == SMALL
    assert known.failure is None
