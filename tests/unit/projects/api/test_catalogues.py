"""MachineCatalogue: explained, structural, and what people may write into it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from ullage.kube.crds.definitions import crd_of, undocumented
from ullage.projects.api.catalogues import CATALOGUES, CatalogueShown, MachineCatalogue
from ullage.projects.sizes.catalogue import MOST_FLAVOURS, Catalogue, Flavour, Place
from ullage.projects.sizes.stored import is_manual, shown_of, written
from ullage.projects.sizes.units import MOST_BYTES, MOST_CPU
from ullage.standalone.apiserver.crd.rules import default_crd, validate_crd
from ullage.standalone.apiserver.schema.custom import CustomSchema, compile_custom
from ullage.times import read_time

Json = dict[str, Any]
NOW = read_time("2026-11-18T06:00:00Z")


@cache
def schema() -> CustomSchema:
    return compile_custom(crd_of(CATALOGUES)["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


def catalogue(flavours: Json, **spec: Any) -> Json:
    return {
        "apiVersion": "ullage.io/v1alpha1",
        "kind": "MachineCatalogue",
        "metadata": {"name": "x"},
        "spec": {"provider": "vsphere", **spec},
        "data": {"source": "manual", "flavours": flavours},
    }


def test_it_is_explained_and_structural() -> None:
    crd = crd_of(CATALOGUES)
    assert undocumented(crd) == []
    default_crd(crd)
    assert [str(error) for error in validate_crd(crd)] == []


def test_what_kubectl_get_shows() -> None:
    usual = [column.name for column in CATALOGUES.columns if not column.priority]
    assert usual == ["Provider", "Region", "Flavours", "Refreshed", "Failing", "Age"]


@pytest.mark.parametrize("line", ["2 2Gi -", "- - 20Gi", "500m 1.5Gi 25G", "96 384Gi 3600G", "- - -"])
def test_a_line_has_cpu_memory_and_storage(line: str) -> None:
    assert schema().validate(catalogue({"a": line})) == []


@pytest.mark.parametrize("line", ["", "2", "2 2Gi", "2 2Gi - -", "2  2Gi", "two 2Gi -", "-1 2Gi -", "2 2GB -", "2 2Gi -\n"])
def test_anything_else_is_refused_when_it_is_written(line: str) -> None:
    assert len(schema().validate(catalogue({"a": line}))) == 1


def test_a_place_without_a_provider_is_refused() -> None:
    assert schema().validate(catalogue({}, provider="")) != []


def test_the_place_stays() -> None:
    [rule] = CATALOGUES.rules
    assert (rule.path, rule.rule) == ("spec", "self == oldSelf")


def test_all_that_a_place_may_have_fits_into_an_object() -> None:
    assert NOW is not None
    place = Place("aws", "eu-central-1", "kubermatic/credential-aws-abcdefghij")
    flavour = Flavour(MOST_CPU, MOST_BYTES, MOST_BYTES)
    flavours = {f"a-name-as-long-as-the-longest-of-all-clouds-{number:05}": flavour for number in range(MOST_FLAVOURS + 1)}
    known = Catalogue().refreshed(place, flavours, source="DescribeInstanceTypes", at=NOW).failed(place, "x" * 10_000, at=NOW)
    data, shown = written(known.known(place))
    assert shown.flavours == MOST_FLAVOURS
    assert len(msgspec.json.encode(data)) < 512 << 10  # etcd takes three times as much
    assert len(data.failure.reason if data.failure else "") == 300
    found = catalogue({}) | {"data": msgspec.to_builtins(data)}
    assert schema().validate(found) == []
    assert msgspec.convert(found, type=MachineCatalogue).data == data


def test_the_manifest_of_the_how_to_is_taken() -> None:
    text = (Path(__file__).parents[4] / "docs/how-to/machine-sizes.md").read_text()
    [manifest] = [block for block in text.split("```text\n") if block.startswith("apiVersion:")]
    given = yaml.safe_load(manifest.partition("```")[0])
    assert schema().validate(given) == []
    found = msgspec.convert(given, type=MachineCatalogue)
    assert is_manual(found)
    assert shown_of(found) == CatalogueShown(flavours=2)
