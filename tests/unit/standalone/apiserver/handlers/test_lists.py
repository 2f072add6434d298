"""Long lists go out in pieces, as they are stored: whoever does not read them holds nothing of the server's."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.unit.standalone.apiserver.server_kit import Kit, request, running_kit
from ullage.standalone.apiserver.handlers.reads import Reader, wanted
from ullage.standalone.apiserver.limits.deliveries import Deliveries
from ullage.standalone.apiserver.limits.pieces import PIECE, pieces
from ullage.standalone.apiserver.request.answers import Answer, Stream
from ullage.standalone.apiserver.request.negotiation import Want, dump

MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
PARTIAL_ONE = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize(
    ("parts", "sizes"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([b"a", b"b"], [2], id="small parts go together"),
        pytest.param([b"a" * PIECE], [PIECE], id="a part of just the size goes whole"),
        pytest.param([b"a" * (PIECE + 1)], [PIECE, 1], id="one byte more is cut"),
        pytest.param([b"a", b"b" * (2 * PIECE), b"c"], [1, PIECE, PIECE, 1], id="a large part goes alone"),
        pytest.param([b"a" * 40_000] * 3, [40_000] * 3, id="parts that do not fit together go one by one"),
        pytest.param([memoryview(b"a" * (PIECE + 5))[2:]], [PIECE, 3], id="a part may be a view of another"),
    ],
)
def test_pieces(parts: list[bytes], sizes: list[int]) -> None:
    found = list(pieces(parts))
    assert [len(piece) for piece in found] == sizes
    assert b"".join(found) == b"".join(parts)


def test_a_part_is_not_made_before_its_turn() -> None:
    made = []

    def parts() -> Any:
        for number in range(3):
            made.append(number)
            yield b"x" * (PIECE + 1)

    found = pieces(parts())
    next(found)
    assert made == [0]


@pytest.fixture
async def kit(tmp_path: Path) -> AsyncIterator[Kit]:
    async with running_kit(tmp_path, work=False) as found:
        for number in range(3):
            data = {"text": str(number) * 500_000}
            await found.create("configmaps", f"map-{number}", namespace="default", data=data, metadata={"labels": {"a": "b"}})
        yield found


async def listed(kit: Kit, query: str = "", accept: str = "application/json") -> Any:
    """A long list, put together again."""
    reader = Reader(kit.store, kit.clock, Deliveries())
    answer = await reader.list_objects(request("GET", MAPS + query, accept=accept), kit.resource("configmaps"))
    assert isinstance(answer, Stream)
    found = [piece async for piece in answer.chunks]
    assert max(map(len, found)) <= PIECE
    return json.loads(b"".join(found))


async def test_a_long_list_is_the_list(kit: Kit) -> None:
    found = await listed(kit)
    assert found["kind"] == "ConfigMapList"
    assert [item["data"]["text"][:1] for item in found["items"]] == ["0", "1", "2"]
    assert all("kind" not in item and len(item["data"]["text"]) == 500_000 for item in found["items"])


async def test_a_long_list_in_yaml_is_json_which_is_yaml(kit: Kit) -> None:
    assert await listed(kit, accept="application/yaml") == await listed(kit)


async def test_a_long_table_carries_the_objects(kit: Kit) -> None:
    found = await listed(kit, "?includeObject=Object", TABLE)
    assert (found["kind"], found["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert [column["name"] for column in found["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert [row["cells"][:2] for row in found["rows"]] == [["map-0", 1], ["map-1", 1], ["map-2", 1]]
    assert [row["object"]["kind"] for row in found["rows"]] == ["ConfigMap"] * 3


@pytest.mark.parametrize(("accept", "member"), [(TABLE, "rows"), (PARTIAL, "items")])
async def test_metadata_of_a_long_list_is_as_of_a_short_one(
    kit: Kit, accept: str, member: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = await listed(kit, accept=accept)
    monkeypatch.setattr("ullage.standalone.apiserver.handlers.lists.WHOLE", 1 << 20)
    asked = request("GET", f"{MAPS}?limit=1", accept=accept)
    short = await Reader(kit.store, kit.clock, Deliveries()).list_objects(asked, kit.resource("configmaps"))
    assert isinstance(short, Answer)
    one = msgspec.json.decode(short.body)
    assert long[member][:1] == one[member]
    assert {key for key in long if long[key] == one.get(key)} >= {"kind", "apiVersion"}


@pytest.mark.parametrize(
    ("accept", "query"),
    [
        pytest.param("application/json", "", id="itself"),
        pytest.param(TABLE, "", id="a Table of its metadata"),
        pytest.param(TABLE, "?includeObject=Object", id="a Table with it"),
        pytest.param(PARTIAL_ONE, "", id="its metadata"),
    ],
)
async def test_a_long_object_is_as_a_short_one(kit: Kit, accept: str, query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    deliveries = Deliveries()
    reader = Reader(kit.store, kit.clock, deliveries)
    asked, maps = request("GET", f"{MAPS}/map-1{query}", accept=accept), kit.resource("configmaps")
    long = reader.get(asked, maps)
    assert isinstance(long, Stream)
    found = [piece async for piece in long.chunks]
    assert max(map(len, found)) <= PIECE
    assert deliveries.held == 0
    monkeypatch.setattr("ullage.standalone.apiserver.handlers.lists.WHOLE", 1 << 20)
    short = reader.get(asked, maps)
    assert isinstance(short, Answer)
    assert json.loads(b"".join(found)) == json.loads(short.body)


@pytest.mark.parametrize(
    ("path", "accept", "at_least"),
    [
        pytest.param(f"{MAPS}/map-1", "application/json", 500_000, id="an object, which may be gone meanwhile"),
        pytest.param(f"{MAPS}/map-1", TABLE, 1_000_000, id="a Table of it"),
        pytest.param(MAPS, TABLE, 1_000_000, id="a row of a long Table"),
    ],
)
async def test_what_is_made_for_one_client_counts_until_it_is_taken(kit: Kit, path: str, accept: str, at_least: int) -> None:
    deliveries = Deliveries()
    reader = Reader(kit.store, kit.clock, deliveries)
    asked, maps = request("GET", path, accept=accept), kit.resource("configmaps")
    answer = await reader.list_objects(asked, maps) if path == MAPS else reader.get(asked, maps)
    assert isinstance(answer, Stream)
    assert deliveries.held == 0, "nothing is made before its turn"
    held = []
    async for _ in answer.chunks:
        held.append(deliveries.held)
    assert at_least <= max(held) < at_least + 10_000
    assert deliveries.held == 0


async def test_objects_of_a_list_do_not_count_since_all_lists_share_them(kit: Kit) -> None:
    deliveries = Deliveries()
    answer = await Reader(kit.store, kit.clock, deliveries).list_objects(request("GET", MAPS), kit.resource("configmaps"))
    assert isinstance(answer, Stream)
    assert [deliveries.held async for _ in answer.chunks if deliveries.held] == []


async def test_the_answer_to_a_large_create_is_201(kit: Kit) -> None:
    maps = kit.resource("configmaps")
    entry = kit.store.get(maps.storage, "default", "map-1")
    assert entry is not None
    asked = request("POST", MAPS)
    answer = Reader(kit.store, kit.clock, Deliveries()).one(asked, maps, entry, want=wanted(asked, maps), code=201)
    assert isinstance(answer, Stream)
    assert answer.code == 201
    await answer.chunks.aclose()


def test_a_table_in_yaml_that_is_long_is_json() -> None:
    """It is JSON where it comes from a dict, too: a short list may make a long Table."""
    table = {"rows": [{"cells": ["a" * 100]}] * 3_000}
    want = Want("application/yaml")
    assert json.loads(dump(table, want)) == table
    assert dump({"rows": []}, want) == b"rows: []\n"
