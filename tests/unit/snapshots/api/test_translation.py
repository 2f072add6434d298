"""What both APIs have to be able to say: whatever state is asked for is what is read afterwards, and is written once."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.snapshots.api.objects import CSI_SAMPLE, EBS_SAMPLE, GA_SAMPLE, HOSTPATH_SAMPLE, Json, Sample, applied, read
from ullage.kube.crds.definitions import crd_of, undocumented
from ullage.kube.kinds import Kind, Meta
from ullage.kube.objects import MESSAGE_LIMIT
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.prototype.translation import PROTOTYPE
from ullage.snapshots.model import CREATING, NODE, SOURCE, Change, Dialect, Problem, Record, Ref, Snapshot, State

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
CUT = datetime(2026, 5, 1, 11, 59, 58, 123456, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)

SAMPLES = [
    pytest.param(GA_SAMPLE, id="ga"),
    pytest.param(CSI_SAMPLE, id="prototype, csi"),
    pytest.param(HOSTPATH_SAMPLE, id="prototype, hostPath"),
    pytest.param(EBS_SAMPLE, id="prototype, EBS"),
]
DIALECTS = [pytest.param(GA, id="ga"), pytest.param(PROTOTYPE, id="prototype")]


def to_the_second(state: State) -> State:
    """Times in VolumeSnapshots, and everywhere in the prototype, have no fractions."""
    return replace(state, cut=state.cut.replace(microsecond=0) if state.cut else None)


def sayable(state: State, dialect: Dialect[Any, Any]) -> State:
    """What the API has a place for: the GA one has none for what a snapshot waits for."""
    return replace(state, waiting=None) if dialect.name == "ga" else state


words = st.from_regex(r"[A-Z][A-Za-z]{0,20}", fullmatch=True).filter(lambda word: word not in {"BeingTaken", "BeingStored"})
problems = st.builds(Problem, words, st.text(max_size=60))
FIRST, LAST = datetime(1971, 1, 1, tzinfo=UTC).replace(tzinfo=None), datetime(2200, 1, 1, tzinfo=UTC).replace(tzinfo=None)
cuts = st.none() | st.datetimes(min_value=FIRST, max_value=LAST, timezones=st.just(UTC))
sizes = st.none() | st.integers(min_value=0, max_value=2**60)


@st.composite
def states(draw: st.DrawFn) -> State:
    ready, problem = draw(st.booleans()), draw(st.none() | problems)
    waiting = None if ready or problem else draw(st.none() | problems)
    return State(cut=draw(cuts), ready=ready, restore_size=draw(sizes), problem=problem, waiting=waiting)


# --- the state that was asked for ------------------------------------------------------------------------------------


@pytest.mark.parametrize("sample", SAMPLES)
@given(first=states(), second=states(), records=st.tuples(*[st.sampled_from(["", "snapcontent-1", "snapdata-1"])] * 2))
def test_a_snapshot_says_what_it_was_told_to_say(sample: Sample, first: State, second: State, records: tuple[str, str]) -> None:
    dialect, body = sample.dialect, sample.snapshot
    for state, record in zip((first, second), records, strict=True):
        state = replace(state, record=record)
        body = applied(body, dialect.snapshot_change(read(dialect.snapshots, body), state, now=NOW))
        obj = read(dialect.snapshots, body)
        assert dialect.read_snapshot(obj).state == sayable(to_the_second(state), dialect)
        assert not dialect.snapshot_change(obj, state, now=LATER), "a second write of the same has nothing to say"
        assert not dialect.snapshot_change(obj, dialect.read_snapshot(obj).state, now=LATER)


@pytest.mark.parametrize("sample", SAMPLES)
@given(first=states(), second=states())
def test_a_record_says_what_it_was_told_to_say(sample: Sample, first: State, second: State) -> None:
    dialect, body = sample.dialect, sample.record
    for state, handle in ((first, ""), (second, "shot-1"), (first, "shot-1")):
        state = replace(state, handle=handle)
        body = applied(body, dialect.record_change(read(dialect.records, body), state, now=NOW))
        obj = read(dialect.records, body)
        wanted = state if dialect.name == "ga" else to_the_second(state)
        assert dialect.read_record(obj).state == sayable(wanted, dialect)
        assert not dialect.record_change(obj, state, now=LATER)
        assert not dialect.record_change(obj, dialect.read_record(obj).state, now=LATER)


@pytest.mark.parametrize("sample", SAMPLES)
def test_only_what_changed_is_written(sample: Sample) -> None:
    dialect, state = sample.dialect, State(record="one", cut=CUT, restore_size=2**30)
    body = applied(sample.snapshot, dialect.snapshot_change(read(dialect.snapshots, sample.snapshot), state, now=NOW))
    change = dialect.snapshot_change(read(dialect.snapshots, body), replace(state, ready=True), now=LATER)
    assert change.main is None
    assert change.status is not None
    assert set(change.status["status"]) == ({"readyToUse"} if dialect.name == "ga" else {"phase", "conditions"})


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_problem_that_is_put_right_is_no_longer_said(sample: Sample) -> None:
    dialect, bad = sample.dialect, State(problem=Problem("ClaimNotBound", "claim team/data is Pending"))
    body = applied(sample.snapshot, dialect.snapshot_change(read(dialect.snapshots, sample.snapshot), bad, now=NOW))
    assert "claim team/data is Pending" in str(body["status"])
    body = applied(body, dialect.snapshot_change(read(dialect.snapshots, body), State(record="one"), now=LATER))
    assert "claim team/data is Pending" not in str(body["status"])
    assert "error" not in body["status"]


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_message_without_end_is_cut(sample: Sample) -> None:
    dialect, state = sample.dialect, State(problem=Problem("TooMuch", "x" * (MESSAGE_LIMIT + 1)))
    body = applied(sample.record, dialect.record_change(read(dialect.records, sample.record), state, now=NOW))
    found = dialect.read_record(read(dialect.records, body)).state.problem
    assert found is not None
    assert len(found.message) <= MESSAGE_LIMIT
    assert not dialect.record_change(read(dialect.records, body), state, now=LATER)


# --- new records -----------------------------------------------------------------------------------------------------


def snapshot(uid: str = "0b9f8f1e-0000-4000-8000-000000000000") -> Snapshot:
    return Snapshot(meta=Meta(name="snap", namespace="team", uid=uid), claim="data")


def record(dialect: Dialect[Any, Any], driver: str, **more: Any) -> Record:
    annotations = {SOURCE: "vol-1", CREATING: "true"}
    meta = Meta(name=dialect.record_name(snapshot()), annotations=annotations, labels={"ullage.io/volume": "pv-1"})
    wanted = Record(
        meta=meta,
        ref=Ref("team", "snap", snapshot().meta.uid),
        driver=driver,
        volume="vol-1",
        volume_name="pv-1",
        volume_mode="Filesystem",
        class_name="gold",
    )
    return replace(wanted, **more)


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({}, id="plain"),
        pytest.param({"node": "node-7"}, id="on one node"),
        pytest.param({"secret": Ref("kube-system", "keys")}, id="with a secret for its deletion"),
        pytest.param({"class_name": "", "volume_mode": "", "volume_name": "pv-1"}, id="with little known"),
    ],
)
@pytest.mark.parametrize("driver", ["csi.example.com", "ebs.csi.aws.com", "kubernetes.io/aws-ebs", "ullage.io/hostpath"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_new_record_reads_as_what_it_was_made_from(dialect: Dialect[Any, Any], driver: str, more: Json) -> None:
    wanted = record(dialect, driver, **more)
    body = dialect.new_record(wanted)
    found = dialect.read_record(read(dialect.records, body))
    assert replace(found, meta=wanted.meta) == wanted
    assert found.meta.finalizers == (dialect.record_finalizer,)
    assert found.meta.labels == wanted.meta.labels
    assert wanted.meta.annotations.items() <= found.meta.annotations.items()
    assert (NODE in found.meta.annotations) == bool(wanted.node)
    assert found.begun, "it is written before the storage system is asked"
    assert "" not in found.meta.annotations.values()
    sent = msgspec.json.decode(msgspec.json.encode(msgspec.convert(body, dialect.records.type)))
    assert sent["spec"] == body["spec"], "handles that are empty are there all the same"


@pytest.mark.parametrize(
    ("dialect", "name"),
    [
        pytest.param(GA, "snapcontent-0b9f8f1e-0000-4000-8000-000000000000", id="ga"),
        pytest.param(PROTOTYPE, "snapdata-0b9f8f1e-0000-4000-8000-000000000000", id="prototype"),
    ],
)
def test_the_name_of_a_record_follows_from_the_snapshot(dialect: Dialect[Any, Any], name: str) -> None:
    assert dialect.record_name(snapshot()) == name


# --- imports ---------------------------------------------------------------------------------------------------------


def by_hand(sample: Sample, **spec: Any) -> Json:
    ref = {"namespace": "team", "name": "snap"}
    return {"metadata": {"name": "old-backup"}, "spec": {**sample.record["spec"], "volumeSnapshotRef": ref, **spec}}


IMPORTS = [
    pytest.param(GA_SAMPLE, by_hand(GA_SAMPLE, source={"snapshotHandle": "shot-9"}), "csi.example.com", id="ga"),
    pytest.param(
        CSI_SAMPLE,
        by_hand(CSI_SAMPLE, csiVolumeSnapshotSource={"driver": "csi.example.com", "snapshotHandle": "shot-9"}),
        "csi.example.com",
        id="prototype, csi",
    ),
    pytest.param(
        HOSTPATH_SAMPLE,
        by_hand(HOSTPATH_SAMPLE, hostPath={"snapshot": "shot-9"}),
        "ullage.io/hostpath",
        id="prototype, hostPath",
    ),
    pytest.param(
        EBS_SAMPLE,
        by_hand(EBS_SAMPLE, awsElasticBlockStore={"snapshotId": "shot-9"}),
        "kubernetes.io/aws-ebs",
        id="prototype, EBS",
    ),
]


@pytest.mark.parametrize(("sample", "body", "driver"), IMPORTS)
def test_a_record_made_by_hand_is_an_import(sample: Sample, body: Json, driver: str) -> None:
    found = sample.dialect.read_record(read(sample.dialect.records, body))
    assert (found.imported, found.handle, found.driver, found.volume) == ("shot-9", "shot-9", driver, "")
    assert found.ref == Ref("team", "snap")
    assert not found.begun


@pytest.mark.parametrize(("sample", "body", "driver"), IMPORTS)
def test_an_import_is_bound_once(sample: Sample, body: Json, driver: str) -> None:
    dialect, ref = sample.dialect, Ref("team", "snap", "uid-snap")
    change = dialect.record_binding(read(dialect.records, body), ref, class_name="gold")
    assert change.main is not None
    assert change.main["spec"]["volumeSnapshotRef"] == {"uid": "uid-snap"}
    assert change.status is None
    bound = read(dialect.records, applied(body, change))
    assert dialect.read_record(bound).ref == ref
    assert dialect.read_record(bound).class_name == "gold"
    assert dialect.record_binding(bound, ref, class_name="gold") == Change()
    assert dialect.record_binding(bound, ref) == Change(), "a class that is not named is left"


@pytest.mark.parametrize(("sample", "body", "driver"), IMPORTS)
def test_an_import_that_was_found_is_still_one(sample: Sample, body: Json, driver: str) -> None:
    dialect, state = sample.dialect, State(handle="shot-9", cut=CUT, ready=True, restore_size=4096)
    found = dialect.read_record(
        read(dialect.records, applied(body, dialect.record_change(read(dialect.records, body), state, now=NOW)))
    )
    assert (found.imported, found.state.handle, found.state.ready) == ("shot-9", "shot-9", True)


# --- the kinds -------------------------------------------------------------------------------------------------------

KINDS: list[Kind[Any]] = [GA.snapshots, GA.records, GA.classes, PROTOTYPE.snapshots, PROTOTYPE.records]


@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.name) for kind in KINDS])
def test_every_field_is_explained_and_nothing_unknown_is_kept(kind: Kind[Any]) -> None:
    definition = crd_of(kind)
    assert undocumented(definition) == []
    assert "x-kubernetes-preserve-unknown-fields" not in str(definition)
    assert "nullable" not in str(definition)
    assert definition["metadata"]["annotations"]["api-approved.kubernetes.io"], "the API server asks for it under k8s.io"


def test_the_short_names_of_the_two_apis_do_not_clash() -> None:
    names = [name for kind in KINDS for name in kind.short_names]
    assert sorted(names) == ["vs", "vsc", "vsclass", "vsclasses", "vscs"]
