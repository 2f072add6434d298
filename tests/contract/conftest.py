"""Every test of the contract runs once on each storage system."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from tests.contract import csi, hostpath, longhorn, metered
from tests.contract.systems import Start, System

SYSTEMS: Final[dict[str, Start]] = {
    "hostpath": hostpath.start,
    "csi": csi.start,
    "longhorn": longhorn.start,
    "with its calls timed": metered.start,
}


@pytest_asyncio.fixture(params=SYSTEMS.values(), ids=SYSTEMS.keys())
async def system(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[System]:
    start: Start = request.param
    async with start(tmp_path) as started:
        yield started
