"""A driver's socket that is missing is told, once, and so is that it came."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from ullage.app.backends import WatchedSocket


async def test_a_socket_is_told_of_when_it_is_missing_and_when_it_comes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    path = tmp_path / "csi.sock"
    socket = WatchedSocket(path, owner="csi.example.com")

    def told() -> list[tuple[str, str, str, str]]:
        found = [
            (one.levelname, one.getMessage(), one.__dict__["owner"], one.__dict__["socket"])
            for one in caplog.records
            if one.name == "ullage.app.backends"
        ]
        caplog.clear()
        return found

    async with socket:
        missing = ("WARNING", "a socket is missing: is its owner running?", "csi.example.com", str(path))
        assert told() == [missing]
        socket.look()
        assert told() == []
        path.touch()
        socket.look()
        assert told() == [("INFO", "a socket that was missing is there", "csi.example.com", str(path))]
        path.unlink()
        socket.look()
        assert told() == [missing]


async def test_nothing_is_told_of_one_that_is_there(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    (tmp_path / "csi.sock").touch()
    async with WatchedSocket(tmp_path / "csi.sock", owner="csi.example.com"):
        assert [one for one in caplog.records if one.name == "ullage.app.backends"] == []
