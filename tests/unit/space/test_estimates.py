"""What a snapshot would take, as far as the API tells."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ullage.engines.api import Engine, EngineStatus, SnapshotInfo
from ullage.engines.chain import HEAD
from ullage.kube.builtin.core import PersistentVolume, PersistentVolumeClaim
from ullage.kube.kinds import Meta
from ullage.snapshots.model import Record, Ref, State
from ullage.space.estimates import Estimate, VolumeFacts, belong_together, existing_entry, imported, new_snapshot


def claim(**content: Any) -> PersistentVolumeClaim:
    meta = {"name": "disk", "namespace": "team", "uid": "uid-disk"}
    return msgspec.convert({"metadata": meta, **content}, PersistentVolumeClaim)


def volume(*, used: str = "", ref: dict[str, str] | None = None, **spec: Any) -> PersistentVolume:
    meta = {"name": "pv", "annotations": {"ullage.io/used": used} if used else {}}
    return msgspec.convert({"metadata": meta, "spec": {**spec, **({"claimRef": ref} if ref else {})}}, PersistentVolume)


def engine(**sizes: str) -> Engine:
    entries = {name.replace("volume_head", HEAD): SnapshotInfo(size=size) for name, size in sizes.items()}
    return Engine(metadata=Meta(name="e"), status=EngineStatus(snapshots=entries or None))


USED = '{"bytes":700,"at":"2026-01-01T00:00:00Z","by":"measured"}'
BY_LAST = '{"bytes":700,"at":"2026-01-01T00:00:00Z","by":"last-snapshot"}'
ASKS, HAS = {"resources": {"requests": {"storage": "2Ki"}}}, {"capacity": {"storage": "3Ki"}}


@pytest.mark.parametrize(
    ("facts", "wanted"),
    [
        pytest.param(
            VolumeFacts(claim=claim(), volume=volume(used=USED), engine=engine(volume_head="4096")),
            Estimate(4096, "engine-head"),
            id="the engine knows best",
        ),
        pytest.param(
            VolumeFacts(claim=claim(), volume=volume(), engine=engine(volume_head="0")),
            Estimate(0, "engine-head"),
            id="nothing was written since the last one",
        ),
        pytest.param(
            VolumeFacts(claim=claim(), volume=volume(used=USED), engine=engine()),
            Estimate(700, "measured"),
            id="an engine that says nothing, and what was measured last",
        ),
        pytest.param(
            VolumeFacts(claim=claim(spec=ASKS, status=HAS), volume=volume(capacity={"storage": "4Ki"})),
            Estimate(4096, "capacity"),
            id="nobody has measured it: the capacity of the volume",
        ),
        pytest.param(
            VolumeFacts(claim=claim(spec=ASKS, status=HAS), volume=volume(used="{broken")),
            Estimate(3072, "capacity"),
            id="a measure that cannot be read is none; the capacity that the claim has",
        ),
        pytest.param(
            VolumeFacts(claim=claim(spec=ASKS)), Estimate(2048, "capacity"), id="a claim that waits: what it asks for"
        ),
        pytest.param(
            VolumeFacts(claim=claim(status={"capacity": {"storage": "lots"}})), Estimate(0, "unknown"), id="a size that is none"
        ),
        pytest.param(VolumeFacts(), Estimate(0, "unknown"), id="there is no such claim"),
        pytest.param(
            VolumeFacts(claim=claim(), volume=volume(used=BY_LAST, capacity={"storage": "4Ki"})),
            Estimate(700, "last-snapshot", 4096),
            id="what the last one took, and the capacity at most",
        ),
        pytest.param(
            VolumeFacts(claim=claim(), volume=volume(used=BY_LAST, capacity={"storage": "512"})),
            Estimate(512, "last-snapshot", 512),
            id="never more than the capacity",
        ),
        pytest.param(
            VolumeFacts(claim=claim(), volume=volume(used=BY_LAST)),
            Estimate(0, "unknown"),
            id="nothing, where it cannot be told what it takes at most",
        ),
    ],
)
def test_a_new_snapshot_takes_what_is_known_best(facts: VolumeFacts, wanted: Estimate) -> None:
    assert new_snapshot(facts) == wanted


def test_what_is_not_weighed_after_its_cut_is_asked_for_with_a_bound() -> None:
    facts = VolumeFacts(claim=claim(), volume=volume(used=BY_LAST, capacity={"storage": "4Ki"}))
    assert new_snapshot(facts, bound=True) == Estimate(4096, "capacity")
    facts = VolumeFacts(claim=claim(), volume=volume(used=USED, capacity={"storage": "4Ki"}))
    assert new_snapshot(facts, bound=True) == Estimate(700, "measured")


def test_what_the_engine_has_already_takes_its_size_and_before_it_shows_what_was_the_head() -> None:
    facts = VolumeFacts(engine=engine(volume_head="10", rebuild="70"))
    assert existing_entry(facts, "rebuild") == Estimate(70, "engine-size")
    assert existing_entry(facts, "other") == Estimate(10, "engine-head")


def test_what_a_purge_moves_into_a_snapshot_is_counted_with_it() -> None:
    entries = {
        "old": SnapshotInfo(name="old", size="100", removed=True),
        "new": SnapshotInfo(name="new", size="7", parent="old"),
        HEAD: SnapshotInfo(name=HEAD, size="1", parent="new"),
    }
    facts = VolumeFacts(engine=Engine(metadata=Meta(name="e"), status=EngineStatus(snapshots=entries)))
    assert existing_entry(facts, "new") == Estimate(107, "engine-size")
    assert existing_entry(facts, "old") == Estimate(0, "engine-size")


def record(handle: str, size: int | None) -> Record:
    state = State(handle=handle, restore_size=size)
    return Record(meta=Meta(name="r"), ref=Ref("team", "s"), driver="driver.longhorn.io", state=state)


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        pytest.param(record("snap://vol/old", 4096), Estimate(70, "engine-size"), id="the engine has it"),
        pytest.param(record("snap://vol/lost", 4096), Estimate(4096, "restore-size"), id="the engine does not"),
        pytest.param(record("x", None), Estimate(0, "unknown"), id="nothing is known"),
        pytest.param(None, Estimate(0, "unknown"), id="there is no record yet"),
    ],
)
def test_an_import_takes_what_is_there(found: Record | None, wanted: Estimate) -> None:
    assert imported(found, engine(volume_head="10", old="70")) == wanted


@pytest.mark.parametrize(
    ("ref", "together"),
    [
        pytest.param({"namespace": "team", "name": "disk", "uid": "uid-disk"}, True, id="each names the other"),
        pytest.param({"namespace": "other", "name": "disk", "uid": "uid-disk"}, False, id="it is another tenant's"),
        pytest.param(
            {"namespace": "team", "name": "disk", "uid": "uid-of-an-earlier-one"}, False, id="it was an earlier claim's"
        ),
        pytest.param(None, False, id="it is nobody's"),
    ],
)
def test_a_volume_tells_of_a_claim_that_it_names(ref: dict[str, str] | None, together: bool) -> None:
    assert belong_together(claim(spec={"volumeName": "pv"}), volume(ref=ref)) is together
