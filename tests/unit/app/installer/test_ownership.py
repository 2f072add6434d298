"""What a purge may delete of kinds that other snapshotters use too."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ullage.app.installer.outcomes import Outcome, plan
from ullage.app.installer.uninstaller import UNKNOWN, Ownership
from ullage.snapshots.api.ga.translation import GA

Json = dict[str, Any]
OURS = {"ullage.io/creating": "true"}


def content(name: str, driver: str, **meta: Any) -> Any:
    spec = {"driver": driver, "deletionPolicy": "Delete", "volumeSnapshotRef": {"namespace": "shop", "name": "s"}}
    return msgspec.convert({"metadata": {"name": name, **meta}, "spec": {**spec, "source": {}}}, GA.records.type)


def snapshot(record: str = "", **meta: Any) -> Any:
    spec = {"source": {"persistentVolumeClaimName": "data"}}
    status = {"boundVolumeSnapshotContentName": record} if record else {}
    return msgspec.convert(
        {"metadata": {"name": "s", "namespace": "shop", **meta}, "spec": spec, "status": status}, GA.snapshots.type
    )


def class_of(driver: str) -> Any:
    return msgspec.convert({"metadata": {"name": "c"}, "driver": driver, "deletionPolicy": "Delete"}, GA.classes.type)


RECORDS = [content("ours", "csi.ours", annotations=OURS), content("import", "csi.ours"), content("theirs", "csi.theirs")]


@pytest.mark.parametrize(
    ("kind", "obj", "stranger"),
    [
        pytest.param(GA.records, RECORDS[0], "", id="a record with a mark"),
        pytest.param(GA.records, RECORDS[1], "", id="another of the same driver"),
        pytest.param(GA.records, RECORDS[2], "csi.theirs", id="one of another driver"),
        pytest.param(GA.snapshots, snapshot("ours"), "", id="a snapshot of ours"),
        pytest.param(GA.snapshots, snapshot("theirs"), "csi.theirs", id="one of another driver"),
        pytest.param(
            GA.snapshots,
            snapshot("theirs", labels={"ullage.io/volume": "x"}),
            "csi.theirs",
            id="one of another driver that its user marked as ours",
        ),
        pytest.param(GA.snapshots, snapshot(labels={"ullage.io/volume": "x"}), "", id="one with a mark and no record yet"),
        pytest.param(GA.snapshots, snapshot(), UNKNOWN, id="one that nobody has looked at"),
        pytest.param(GA.classes, class_of("csi.ours"), "", id="a class of our driver"),
        pytest.param(GA.classes, class_of("ullage.io/hostpath"), "", id="a class of our own driver"),
        pytest.param(GA.classes, class_of("csi.theirs"), "csi.theirs", id="a class of another driver"),
    ],
)
def test_whose_it_is(kind: Any, obj: Any, stranger: str) -> None:
    assert Ownership.of(GA, RECORDS).stranger(kind, obj) == stranger


def test_whoever_purges_can_name_a_driver() -> None:
    assert Ownership.of(GA, RECORDS, drivers=["csi.theirs"]).stranger(GA.records, RECORDS[2]) == ""


@pytest.mark.parametrize(
    ("names", "told"),
    [
        pytest.param(["a"], "1 role", id="one"),
        pytest.param(["a", "b"], "2 roles", id="two"),
    ],
)
def test_a_plan_counts_in_words(names: list[str], told: str) -> None:
    assert plan([Outcome("deleted", "role", name) for name in names]) == [f"  delete      {told}: {', '.join(names)}"]


def test_a_plan_knows_the_plurals_of_the_kinds_that_have_odd_ones() -> None:
    kinds = ("validatingadmissionpolicy", "volumesnapshotclass")
    said = plan([Outcome("deleted", kind, name) for kind in kinds for name in "ab"])
    assert said == ["  delete      2 validatingadmissionpolicies: a, b", "  delete      2 volumesnapshotclasses: a, b"]


def test_a_plan_tells_how_many_go_and_what_stays() -> None:
    going = [Outcome("deleted", "volumesnapshot", f"shop/s{number}") for number in range(7)]
    assert plan([*going, Outcome("left alone", "namespace", "ullage-system", "not ours")]) == [
        "  delete      7 volumesnapshots: shop/s0, shop/s1, shop/s2, shop/s3, shop/s4 and 2 more",
        "  left alone  namespace/ullage-system  (not ours)",
    ]
