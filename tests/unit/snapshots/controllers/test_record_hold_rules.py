"""Who holds what."""

from __future__ import annotations

from typing import Any

import pytest

from ullage.engines.api import Snapshot as EngineSnapshot
from ullage.engines.api import SnapshotSpec
from ullage.engines.handles import DRIVER
from ullage.kube.kinds import Meta
from ullage.snapshots.controllers.record_hold import HoldFacts, wanted
from ullage.snapshots.model import CREATING, Record, Ref, Snapshot, State

GOING = "2026-01-01T00:05:00Z"
NAME = "snapshot-uid-nightly"


def record(*, going: bool = False, handle: str = f"snap://vol/{NAME}", begun: bool = False, **more: Any) -> Record:
    meta = Meta(
        name="content",
        uid="uid-content",
        deletion_timestamp=GOING if going else None,
        annotations={CREATING: "true"} if begun else {},
    )
    given = {"ref": Ref("team", "nightly", "uid-nightly"), "driver": DRIVER, "volume": "vol", "state": State(handle=handle)}
    return Record(meta=meta, **{**given, **more})


def snapshot(*, going: bool = False, uid: str = "uid-nightly") -> Snapshot:
    meta = Meta(namespace="team", name="nightly", uid=uid, deletion_timestamp=GOING if going else None)
    return Snapshot(meta=meta, claim="db")


def engine_snapshot(*, going: bool = False, volume: str = "vol") -> EngineSnapshot:
    meta = Meta(name=NAME, deletion_timestamp=GOING if going else None)
    return EngineSnapshot(metadata=meta, spec=SnapshotSpec(volume=volume))


BOTH, VOLUME, NEITHER = (True, True), (False, True), (False, False)


@pytest.mark.parametrize(
    ("record", "snapshot", "there", "held"),
    [
        pytest.param(
            record(), snapshot(), engine_snapshot(), BOTH, id="a record that stands holds the snapshot and its volume"
        ),
        pytest.param(record(), None, engine_snapshot(), BOTH, id="also when its VolumeSnapshot is gone, as with policy Retain"),
        pytest.param(
            record(), snapshot(going=True), engine_snapshot(), BOTH, id="a VolumeSnapshot that goes keeps its record for now"
        ),
        pytest.param(
            record(handle="", imported=f"snap://vol/{NAME}"), snapshot(), engine_snapshot(), BOTH, id="an import holds as well"
        ),
        pytest.param(
            record(going=True), snapshot(going=True), engine_snapshot(), NEITHER, id="a record that goes with policy Delete"
        ),
        pytest.param(
            record(going=True), None, engine_snapshot(), NEITHER, id="a record that goes, and whose VolumeSnapshot is gone"
        ),
        pytest.param(
            record(going=True),
            snapshot(uid="uid-later"),
            engine_snapshot(),
            NEITHER,
            id="a later VolumeSnapshot of the name is not it",
        ),
        pytest.param(
            record(going=True),
            snapshot(),
            engine_snapshot(),
            BOTH,
            id="a record that somebody deleted under its VolumeSnapshot",
        ),
        pytest.param(
            record(going=True, policy="Retain"),
            None,
            engine_snapshot(),
            BOTH,
            id="a record that goes with policy Retain, until it has gone",
        ),
        pytest.param(record(), snapshot(), None, NEITHER, id="a snapshot that is lost holds no volume"),
        pytest.param(record(), snapshot(), engine_snapshot(going=True), NEITHER, id="nor does one that is going"),
        pytest.param(record(), snapshot(), engine_snapshot(volume="other"), NEITHER, id="nor one of another volume"),
        pytest.param(
            record(handle="", begun=True), snapshot(), None, VOLUME, id="the volume is held while a snapshot is taken"
        ),
        pytest.param(record(handle=""), snapshot(), None, NEITHER, id="what has not begun holds nothing"),
        pytest.param(record(driver="csi.example.com"), snapshot(), engine_snapshot(), NEITHER, id="another driver's record"),
        pytest.param(record(handle="bs://vol/backup"), snapshot(), engine_snapshot(), NEITHER, id="a backup lies elsewhere"),
    ],
)
def test_who_holds_what(
    record: Record, snapshot: Snapshot | None, there: EngineSnapshot | None, held: tuple[bool, bool]
) -> None:
    facts = HoldFacts(record=record, kind="VolumeSnapshotContent", snapshot=snapshot)
    found = wanted([facts], {NAME: there} if there is not None else {})
    assert (bool(found.snapshots.get(NAME)), bool(found.volume)) == held


def test_a_snapshot_that_two_records_name_is_held_for_both() -> None:
    other = record()
    other = Record(
        meta=Meta(name="import", uid="uid-import"), ref=Ref("other", "copy"), driver=DRIVER, imported=f"snap://vol/{NAME}"
    )
    facts = [HoldFacts(record=one, kind="VolumeSnapshotContent") for one in (record(), other)]
    found = wanted(facts, {NAME: engine_snapshot()})
    assert [str(one) for one in found.snapshots[NAME].values()] == ["VolumeSnapshot team/nightly", "VolumeSnapshot other/copy"]
