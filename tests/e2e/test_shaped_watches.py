"""Watches that send rows or metadata: their bookmarks are of the same shape, and old kinds warn in their headers, too."""

from __future__ import annotations

from .api import Api, Json

TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
METADATA = {"Accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}
STREAM = "?timeoutSeconds=20&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
ENDED = {"k8s.io/initial-events-end": "true"}


def events(api: Api, path: str, headers: dict[str, str], count: int) -> list[Json]:
    with api.watch(f"{path}{STREAM}", headers=headers) as watch:
        return watch.take(count)


def test_a_bookmark_of_a_table_is_a_row_of_empty_cells(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/secrets"
    api.create(path, {"metadata": {"name": "a"}})
    added, bookmark = events(api, path, TABLE, 2)
    assert (added["type"], added["object"]["rows"][0]["cells"][0]) == ("ADDED", "a")
    table = bookmark["object"]
    assert (bookmark["type"], table["kind"], table["columnDefinitions"]) == ("BOOKMARK", "Table", None)
    row = table["rows"][0]
    assert row["cells"] == ["", "", 0, "<unknown>"]
    assert row["object"]["metadata"]["annotations"] == ENDED
    assert row["object"]["metadata"]["resourceVersion"] == table["metadata"]["resourceVersion"]


def test_a_bookmark_alone_brings_the_columns(api: Api, namespace: str) -> None:
    (bookmark,) = events(api, f"/api/v1/namespaces/{namespace}/secrets", TABLE, 1)
    assert [column["name"] for column in bookmark["object"]["columnDefinitions"]] == ["Name", "Type", "Data", "Age"]


def test_a_bookmark_of_metadata_is_metadata(api: Api, namespace: str) -> None:
    (bookmark,) = events(api, f"/api/v1/namespaces/{namespace}/secrets", METADATA, 1)
    assert (bookmark["type"], bookmark["object"]["kind"]) == ("BOOKMARK", "PartialObjectMetadata")
    assert bookmark["object"]["metadata"]["annotations"] == ENDED


def test_a_watch_warns_in_its_headers(api: Api, namespace: str) -> None:
    with api.watch(f"/api/v1/namespaces/{namespace}/endpoints?timeoutSeconds=1") as watch:
        assert "v1 Endpoints is deprecated" in watch.response.headers["Warning"]
