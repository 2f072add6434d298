from __future__ import annotations

import asyncio
import gc

import pytest

from ullage.standalone.apiserver.limits import memory
from ullage.standalone.apiserver.limits.memory import MANY, Trimmer


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When it was collected, and so returned."""
    found: list[float] = []

    def collect() -> int:
        found.append(asyncio.get_running_loop().time())
        return 0

    monkeypatch.setattr(memory, "TRIM_SECONDS", 0.0)
    monkeypatch.setattr(gc, "collect", collect)
    return found


async def test_a_large_one_that_ends_is_returned_by_itself(collected: list[float]) -> None:
    Trimmer().part(large=True)
    await asyncio.sleep(0.01)
    assert len(collected) == 1


async def test_small_ones_are_returned_when_there_were_many(collected: list[float]) -> None:
    trimmer = Trimmer()
    for _ in range(MANY - 1):
        trimmer.part(large=False)
    await asyncio.sleep(0.01)
    assert not collected

    trimmer.part(large=False)
    await asyncio.sleep(0.01)
    assert len(collected) == 1


async def test_those_that_end_together_are_returned_at_once_and_counted_anew_after_it(collected: list[float]) -> None:
    trimmer = Trimmer()
    for _ in range(3 * MANY):
        trimmer.part(large=False)
    await asyncio.sleep(0.01)
    assert len(collected) == 1

    trimmer.part(large=False)
    await asyncio.sleep(0.01)
    assert len(collected) == 1
