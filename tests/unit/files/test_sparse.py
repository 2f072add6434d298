"""Where a sparse file has data."""

from __future__ import annotations

import os
from pathlib import Path

from ullage.files.sparse import extents

PIECE = 1 << 16


def test_extents_are_data_between_holes(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w+b") as file:
        for at in (1, 3):
            os.pwrite(file.fileno(), b"x" * PIECE, at * PIECE)
        file.truncate(6 * PIECE)
        file.flush()
        assert list(extents(file.fileno())) == [(PIECE, 2 * PIECE), (3 * PIECE, 4 * PIECE)]


def test_a_file_that_is_one_hole_has_none(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w+b") as file:
        file.truncate(PIECE)
        assert list(extents(file.fileno())) == []
