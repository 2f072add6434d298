"""A driver for each test that breaks it, one for all that do not, and backends that do not wait long."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tests.csi_driver.calls import GIB
from tests.csi_driver.running import NAME
from ullage.snapshots.backends.base import NO_SECRETS, Creation, Restoration, Secrets, VolumeHandle
from ullage.snapshots.backends.csi.backend import CsiBackend


@asynccontextmanager
async def backend_at(
    path: Path, *, driver: str = NAME, timeout: float = 30.0, connect_timeout: float = 10.0
) -> AsyncIterator[CsiBackend]:
    async with await CsiBackend.open(path, driver=driver, timeout=timeout, connect_timeout=connect_timeout) as backend:
        yield backend


def creation(volume: str, name: str = "", *, secrets: Secrets = NO_SECRETS, **parameters: str) -> Creation:
    """Of a snapshot whose name no other test has."""
    return Creation(
        name=name or f"snapshot-{uuid.uuid4()}", volume=VolumeHandle(handle=volume), parameters=parameters, secrets=secrets
    )


def restoration(snapshot: str, name: str = "", *, size: int = GIB, block: bool = False) -> Restoration:
    return Restoration(name=name or f"pvc-{uuid.uuid4()}", snapshot=snapshot, size=size, block=block)


async def until(check: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(30):
        while True:
            if await check():
                return
            await asyncio.sleep(0.02)
