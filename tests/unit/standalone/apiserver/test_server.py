"""The composition: who holds a data directory, and that one failing part does not end the others."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.standalone.apiserver.server_kit import Kit, eventually, running_kit
from ullage.standalone.apiserver.server import locked
from ullage.standalone.apiserver.settings import Settings
from ullage.standalone.apiserver.status import ApiError


@pytest.fixture
async def kit(tmp_path: Path) -> AsyncIterator[Kit]:
    async with running_kit(tmp_path) as found:
        yield found


class TestLock:
    def test_only_one_holds_a_directory_and_says_who(self, tmp_path: Path) -> None:
        settings = Settings(tmp_path / "data")
        with locked(settings):
            assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
            with pytest.raises(BlockingIOError), locked(settings):
                pass
            assert json.loads((tmp_path / "data" / "lock").read_text())["pid"] == os.getpid()
        with locked(settings):
            pass

    def test_whoever_reads_it_while_it_changes_hands_finds_it_whole(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lock, write = tmp_path / "lock", os.pwrite
        lock.write_text(json.dumps({"pid": 1234567, "started": "2026-01-01T00:00:00Z", "and": "more"}))
        seen = []

        def observed(*args: Any) -> int:
            seen.append(json.loads(lock.read_text())["pid"])
            return write(*args)

        monkeypatch.setattr(os, "pwrite", observed)
        with locked(Settings(tmp_path)):
            seen.append(json.loads(lock.read_text())["pid"])
        assert seen == [1234567, os.getpid()]


class TestHousekeeping:
    async def test_history_that_cannot_be_dropped_is_dropped_later_and_nothing_else_suffers(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sleep = asyncio.sleep

        async def quickly(seconds: float) -> None:
            await sleep(min(seconds, 0.001))

        async with running_kit(tmp_path, work=False) as kit:
            kit.database.failing_compactions = 1
            monkeypatch.setattr("ullage.standalone.apiserver.server.asyncio.sleep", quickly)
            working = asyncio.create_task(kit.server.work())

            def later(condition: Callable[[], bool]) -> bool:
                kit.clock.advance(100)
                return condition()

            await eventually(lambda: later(lambda: kit.database.failing_compactions == 0))
            await eventually(lambda: later(lambda: kit.store.compacted > 0))
            await kit.namespace("n")
            await eventually(lambda: kit.get("serviceaccounts", "default", namespace="n") is not None)
            assert not working.done()
            working.cancel()
            with pytest.raises(asyncio.CancelledError):
                await working

    async def test_a_webhook_that_refuses_everything_does_not_keep_the_server_from_starting(self, kit: Kit) -> None:
        await kit.delete("clusterroles", "edit")

        async def refuse(attrs: Any) -> list[str]:
            raise ApiError(500, "InternalError", "failed calling webhook: connection refused")

        kit.server.webhooks.validate = refuse  # type: ignore[method-assign]
        await kit.server.bootstrap(6443)
        assert kit.get("clusterroles", "edit") is None
        del kit.server.webhooks.validate
        await kit.server.bootstrap(6443)
        assert kit.get("clusterroles", "edit") is not None
