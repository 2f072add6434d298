"""A Volume's limits are not set below what it has: said when they are edited, and not found out later."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.engines.builders import engine, info, volume
from ullage.engines.api import Engine
from ullage.engines.chain import HEAD
from ullage.engines.model import usage_of
from ullage.engines.webhook.hooks import limits_fault

KIB = 1024
HINT = "delete some first: kubectl get snapshots.longhorn.io -n longhorn-system -l longhornvolume=vol"
THREE = engine(
    info("a", children=("b",), size=str(KIB)),
    info("b", parent="a", children=("c",), size=str(KIB)),
    info("c", parent="b", children=(HEAD,), size=str(KIB)),
    info("marked", children=(), size=str(9 * KIB), removed=True),
    info(HEAD, parent="c", size=str(5 * KIB)),
)

EDITS: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("as many as there are", {}, {"snapshot_max_count": 3}, ""),
    (
        "fewer than there are",
        {},
        {"snapshot_max_count": 2},
        f"spec.snapshotMaxCount: 2 is too little: volume vol has 3 snapshots; {HINT}",
    ),
    ("what was too little before may stay", {"snapshot_max_count": 2}, {"snapshot_max_count": 2}, ""),
    ("no limit is the largest", {"snapshot_max_count": 4}, {"snapshot_max_count": 0}, ""),
    ("as much as there is", {}, {"snapshot_max_size": str(3 * KIB)}, ""),
    (
        "one byte less than there is",
        {},
        {"snapshot_max_size": str(3 * KIB - 1)},
        f"spec.snapshotMaxSize: 3Ki is 1 byte too little: the snapshots of volume vol take 3Ki; {HINT}",
    ),
    ("none at all", {"snapshot_max_size": str(4 * KIB)}, {"snapshot_max_size": "0"}, ""),
    ("too little, as before", {"snapshot_max_size": "1"}, {"snapshot_max_size": "1", "node_id": "n"}, ""),
]


@pytest.mark.parametrize(("old", "new", "fault"), [row[1:] for row in EDITS], ids=[row[0] for row in EDITS])
def test_limits_of_a_volume_with_three_snapshots(old: dict[str, Any], new: dict[str, Any], fault: str) -> None:
    found = limits_fault(volume(**old), volume(**new), usage_of(THREE))
    assert ("" if found is None else str(found)) == fault


@pytest.mark.parametrize("seen", [pytest.param(None, id="no engine"), pytest.param(engine(), id="one that said nothing yet")])
def test_where_nothing_is_known_nothing_is_refused(seen: Engine | None) -> None:
    assert limits_fault(volume(), volume(snapshot_max_count=2, snapshot_max_size="1"), usage_of(seen)) is None
