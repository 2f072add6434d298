"""Tables as kubectl receives them. The rows and columns in `data/` were recorded from kube-apiserver 1.36."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ullage.standalone.apiserver.kinds.resources import Column, Resource
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.request.negotiation import Want, negotiate, parse_include
from ullage.standalone.apiserver.status import ApiError
from ullage.standalone.apiserver.tables.ages import age, human, parse_time
from ullage.standalone.apiserver.tables.table import partial, partial_list, render

DATA = Path(__file__).parent / "data"
NOW = datetime(2026, 11, 15, 14, 0, tzinfo=UTC)
ROWS: list[Json] = [msgspec.json.decode(line) for line in (DATA / "table_rows.jsonl").read_bytes().splitlines()]
COLUMNS: dict[str, list[list[Any]]] = msgspec.json.decode((DATA / "table_columns.json").read_bytes())
CUSTOM: Json = msgspec.json.decode((DATA / "custom_columns.json").read_bytes())


def resource(group: str, version: str, plural: str, **more: Any) -> Resource:
    return Resource(group, version, plural, plural.rstrip("s"), plural.title(), namespaced=True, **more)


def custom(*columns: Column) -> Resource:
    return resource("example.com", "v1", "widgets", custom={}, columns=columns)


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=f"{row['resource']} {row['object']['metadata']['name']}") for row in ROWS]
)
def test_a_row_reads_as_kube_apiserver_prints_it(row: Json) -> None:
    kind = resource(row["group"], row["version"], row["resource"])
    now = parse_time(row["now"])
    assert now is not None
    table = render(kind, [row["object"]], now=now, include="None", list_meta={})
    assert table["rows"] == [
        {"cells": row["cells"], **({"conditions": row["conditions"]} if "conditions" in row else {}), "object": None}
    ]


@pytest.mark.parametrize("key", [pytest.param(key, id=f"columns of {key}") for key in COLUMNS if key != "/componentstatuses"])
def test_columns_are_those_of_kube_apiserver(key: str) -> None:
    group, plural = key.split("/")
    table = render(resource(group, "v1", plural), [], now=NOW, list_meta={})
    found = [[c["name"], c["type"], c["format"], c["priority"]] for c in table["columnDefinitions"]]
    assert found == COLUMNS[key]


@pytest.mark.parametrize(
    "key", [pytest.param(key, id=f"columns of {key} are described") for key in COLUMNS if "runtimeclasses" not in key]
)
def test_every_reference_to_a_description_leads_somewhere(key: str) -> None:
    group, plural = key.split("/")
    table = render(resource(group, "v1", plural), [], now=NOW, list_meta={})
    assert all(column["description"] for column in table["columnDefinitions"])
    assert not any(column["description"].startswith("io.k8s.") for column in table["columnDefinitions"])


FRESH = {"date", "ct", "string-d", "date-d"}  # these depend on when they were recorded


@pytest.mark.parametrize(
    ("kind", "path", "cells"),
    [
        pytest.param(kind, path, cells, id=f"{kind} column {path} ({name})")
        for name, kind, path, cells in CUSTOM["columns"]
        if name not in FRESH and name != "ostar"  # the order of a map's values is anyone's guess
    ],
)
def test_a_custom_column_reads_as_kube_apiserver_prints_it(kind: str, path: str, cells: list[Any]) -> None:
    table = render(custom(Column("X", kind, json_path=path)), CUSTOM["objects"], now=NOW, list_meta={})
    assert [row["cells"][1] for row in table["rows"]] == cells


def test_a_custom_date_column_is_an_age() -> None:
    obj = {"metadata": {"name": "x"}, "spec": {"d": "2026-11-12T09:00:00Z"}}
    table = render(custom(Column("D", "date", json_path=".spec.d")), [obj], now=NOW, list_meta={})
    assert table["rows"][0]["cells"] == ["x", "3d5h"]


def test_a_custom_kind_without_columns_shows_name_and_age() -> None:
    table = render(custom(), [{"metadata": {"name": "x", "creationTimestamp": "2026-11-15T13:59:00Z"}}], now=NOW, list_meta={})
    assert [(c["name"], c["type"]) for c in table["columnDefinitions"]] == [("Name", "string"), ("Age", "date")]
    assert table["rows"][0]["cells"] == ["x", "60s"]


def test_an_unreadable_path_makes_the_kind_fall_back_to_default_columns() -> None:
    table = render(custom(Column("Ok", json_path=".spec.x"), Column("Bad", json_path=".spec[")), [], now=NOW, list_meta={})
    assert [c["name"] for c in table["columnDefinitions"]] == ["Name", "Age"]


def test_a_custom_column_without_description_names_its_path() -> None:
    table = render(custom(Column("Size", json_path=".spec.size", priority=1)), [], now=NOW, list_meta={})
    assert table["columnDefinitions"][1] == {
        "name": "Size",
        "type": "string",
        "format": "",
        "description": "Custom resource definition column (in JSONPath format): .spec.size",
        "priority": 1,
    }


OBJECT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": "7"}, "data": {"k": "v"}}


@pytest.mark.parametrize(
    ("include", "carried"),
    [
        pytest.param("None", None, id="None leaves the object out"),
        pytest.param("Object", OBJECT, id="Object carries all of it"),
        pytest.param(
            "Metadata",
            {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": OBJECT["metadata"]},
            id="Metadata carries its metadata",
        ),
    ],
)
def test_a_row_carries_what_was_asked_for(include: Any, carried: Json | None) -> None:
    table = render(resource("", "v1", "configmaps"), [OBJECT], now=NOW, include=include, list_meta={"resourceVersion": "7"})
    assert table["metadata"] == {"resourceVersion": "7"}
    assert table["rows"] == [{"cells": ["a", 1, "<unknown>"], "object": carried}]


def test_later_tables_of_a_watch_have_no_headers() -> None:
    table = render(resource("", "v1", "configmaps"), [OBJECT], now=NOW, headers=False, list_meta={})
    assert table["columnDefinitions"] is None


def test_metadata_of_a_list() -> None:
    found = partial_list([OBJECT], list_meta={"resourceVersion": "9"})
    assert found["kind"] == "PartialObjectMetadataList"
    assert found["metadata"] == {"resourceVersion": "9"}
    assert found["items"] == [partial(OBJECT)]
    assert "data" not in found["items"][0]


MINUTE, HOUR, DAY = 60, 3600, 86400
# fmt: off
AGES = {
    -5: "<invalid>", -1: "0s", 0: "0s", 59: "59s", 60: "60s", 119: "119s", 120: "2m", 121: "2m1s", 599: "9m59s",
    600: "10m", 601: "10m", HOUR: "60m", 3 * HOUR - 1: "179m", 3 * HOUR: "3h", 3 * HOUR + 60: "3h1m", 5 * HOUR + 59: "5h",
    8 * HOUR - 1: "7h59m", 8 * HOUR: "8h", 2 * DAY - 1: "47h", 2 * DAY: "2d", 2 * DAY + HOUR: "2d1h", 8 * DAY - 1: "7d23h",
    8 * DAY: "8d", 730 * DAY - 1: "729d", 730 * DAY: "2y", 731 * DAY: "2y1d", 2920 * DAY - 1: "7y364d", 2920 * DAY: "8y",
    100 * 365 * DAY: "100y",
}
# fmt: on


@pytest.mark.parametrize(("seconds", "shown"), [pytest.param(s, t, id=f"{s} seconds is {t}") for s, t in AGES.items()])
def test_durations(seconds: int, shown: str) -> None:
    assert human(seconds) == shown
    stamp = (NOW - timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")
    assert age({"metadata": {"creationTimestamp": stamp}}, NOW) == shown


META = "g=meta.k8s.io;v=v1"


@pytest.mark.parametrize(
    ("accept", "want"),
    [
        pytest.param("", Want(), id="no header is JSON"),
        pytest.param("*/*", Want(), id="anything is JSON"),
        pytest.param("application/yaml", Want("application/yaml"), id="YAML"),
        pytest.param("application/yaml, application/json", Want("application/yaml"), id="the first of equals wins"),
        pytest.param("application/json;q=0.1,application/yaml;q=0.9", Want("application/yaml"), id="the higher quality wins"),
        pytest.param("application/xml, application/json", Want(), id="unknown types are passed over"),
        pytest.param("text/html, application/xml;q=0.9, */*;q=0.8", Want(), id="a browser gets JSON"),
        pytest.param("application/json;stream=watch", Want(), id="the stream parameter does no harm"),
        pytest.param("application/json;pretty=1", Want(pretty=True), id="pretty is remembered"),
        pytest.param(
            f"application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;{META}beta1,application/json",
            Want("application/json", "Table", "meta.k8s.io", "v1"),
            id="kubectl gets a Table",
        ),
        pytest.param(
            f"application/json; as=Table; {META}",
            Want("application/json", "Table", "meta.k8s.io", "v1"),
            id="blanks do no harm",
        ),
        pytest.param(
            f"application/yaml;as=Table;{META}", Want("application/yaml", "Table", "meta.k8s.io", "v1"), id="a Table in YAML"
        ),
        pytest.param(
            f"application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;{META},application/json;as=PartialObjectMetadata;{META}",
            Want("application/json", "PartialObjectMetadata", "meta.k8s.io", "v1"),
            id="the garbage collector's wish for protobuf is passed over",
        ),
        pytest.param(f"application/json;as=Foo;{META},application/json", Want(), id="an unknown conversion is passed over"),
    ],
)
def test_accept(accept: str, want: Want) -> None:
    assert negotiate(accept) == want


@pytest.mark.parametrize(
    ("accept", "watch", "accepted"),
    [
        pytest.param("application/vnd.kubernetes.protobuf", False, "application/json, application/yaml", id="protobuf only"),
        pytest.param("text/html", False, "application/json, application/yaml", id="HTML only"),
        pytest.param("application/*", False, "application/json, application/yaml", id="half a wildcard"),
        pytest.param("application/json;as=Table", False, "application/json, application/yaml", id="a Table of no group"),
        pytest.param("application/json;as=Table;g=x;v=v1", False, "application/json, application/yaml", id="a foreign Table"),
        pytest.param("application/yaml", True, "application/json;stream=watch", id="a watch in YAML"),
    ],
)
def test_what_cannot_be_served_is_406(accept: str, watch: bool, accepted: str) -> None:
    with pytest.raises(ApiError) as raised:
        negotiate(accept, watch=watch)
    assert (raised.value.code, raised.value.reason) == (406, "NotAcceptable")
    assert raised.value.message == f"only the following media types are accepted: {accepted}"


def test_metadata_of_one_is_not_metadata_of_many() -> None:
    with pytest.raises(ApiError, match="but the requested object is a list"):
        Want("application/json", "PartialObjectMetadata").check("*core.NamespaceList", is_list=True)
    with pytest.raises(ApiError, match="but the requested object is not a list"):
        Want("application/json", "PartialObjectMetadataList").check("*core.Namespace", is_list=False)
    Want("application/json", "Table").check("*core.Namespace", is_list=False)


def test_include_object_takes_three_words() -> None:
    assert parse_include("") == "Metadata"
    with pytest.raises(ApiError) as raised:
        parse_include("Foo")
    assert raised.value.message == (
        'Unable to convert to Table as requested: includeObject: Invalid value: "Foo": '
        "must be 'Metadata', 'Object', 'None', or empty"
    )
