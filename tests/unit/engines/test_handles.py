"""Handles of Longhorn's snapshots, and the sizes of its volumes."""

from __future__ import annotations

import pytest

from ullage.engines.handles import ALIGNMENT, SnapshotHandle, aligned


@pytest.mark.parametrize(
    ("text", "handle"),
    [
        pytest.param("snap://vol-1/s.1", SnapshotHandle("vol-1", "s.1"), id="a volume and a snapshot"),
        pytest.param("snap://vol/a/b", SnapshotHandle("vol", "a/b"), id="the names are not checked here"),
        pytest.param("snap://vol", None, id="no snapshot"),
        pytest.param("bs://vol/s", None, id="a backup"),
        pytest.param("vol/s", None, id="no prefix"),
        pytest.param("", None, id="empty"),
    ],
)
def test_a_handle_is_parsed(text: str, handle: SnapshotHandle | None) -> None:
    assert SnapshotHandle.parse(text) == handle
    assert handle is None or str(handle) == text


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        pytest.param(1, ALIGNMENT, id="one byte takes a whole step"),
        pytest.param(ALIGNMENT, ALIGNMENT, id="a multiple stays"),
        pytest.param(ALIGNMENT + 1, 2 * ALIGNMENT, id="one byte more takes the next"),
    ],
)
def test_sizes_are_rounded_up(size: int, expected: int) -> None:
    assert aligned(size) == expected
