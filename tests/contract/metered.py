"""Directories of this machine behind meters, for the contract: whoever times calls changes nothing about them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.contract import hostpath
from tests.contract.systems import System
from ullage.clock import SystemClock
from ullage.snapshots.backends.metered import MeteredBackend


@asynccontextmanager
async def start(directory: Path) -> AsyncIterator[System]:
    async with hostpath.start(directory) as system:
        system.backend = MeteredBackend(system.backend, lambda *_: None, clock=SystemClock())
        yield system
