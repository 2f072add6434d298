"""What becomes of a restored volume."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.unit.snapshots.objects import DELETED, volume
from ullage.kube.builtin.core import ObjectReference
from ullage.snapshots.controllers.volume_reclaim import Fate, fate_of

DELETE = {"persistent_volume_reclaim_policy": "Delete"}
RETAIN = {"persistent_volume_reclaim_policy": "Retain"}
FREED = {"claim_ref": ObjectReference(namespace="team", name="db")}


@pytest.mark.parametrize(
    ("spec", "deleting", "claimed", "fate"),
    [
        pytest.param(DELETE, True, True, Fate.STAY, id="with a claim it stays, whoever deletes its PersistentVolume"),
        pytest.param(DELETE, False, False, Fate.DISCARD, id="its claim is gone"),
        pytest.param(DELETE | FREED, False, False, Fate.STAY, id="an administrator has freed it"),
        pytest.param(DELETE | FREED, True, False, Fate.DISCARD, id="it was freed, and then deleted"),
        pytest.param(RETAIN, False, False, Fate.STAY, id="it is retained"),
        pytest.param(RETAIN, True, False, Fate.LET_GO, id="it is retained, and its PersistentVolume is deleted"),
    ],
)
def test_the_fate_of_a_volume(spec: dict[str, Any], deleting: bool, claimed: bool, fate: Fate) -> None:
    found = volume(**spec)
    meta = msgspec.structs.replace(found.metadata, deletion_timestamp=DELETED if deleting else None)
    assert fate_of(msgspec.structs.replace(found, metadata=meta), claimed=claimed) is fate
