"""Long lists go out in pieces, as they are stored: whoever does not read them holds nothing of the server's."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.unit.standalone.apiserver.server_kit import Kit, request, running_kit
from ullage.standalone.apiserver.handlers.reads import Reader
from ullage.standalone.apiserver.limits.pieces import PIECE, pieces
from ullage.standalone.apiserver.request.answers import Answer, Stream

MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


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
    reader = Reader(kit.store, kit.clock)
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
async def test_metadata_of_a_long_list_is_as_of_a_short_one(kit: Kit, accept: str, member: str) -> None:
    long = await listed(kit, accept=accept)
    asked = request("GET", f"{MAPS}?limit=1", accept=accept)
    short = await Reader(kit.store, kit.clock).list_objects(asked, kit.resource("configmaps"))
    assert isinstance(short, Answer)
    one = msgspec.json.decode(short.body)
    assert long[member][:1] == one[member]
    assert {key for key in long if long[key] == one.get(key)} >= {"kind", "apiVersion"}
