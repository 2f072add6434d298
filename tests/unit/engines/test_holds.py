"""Holds as annotations, and as words."""

from __future__ import annotations

import pytest

from ullage.engines import holds
from ullage.engines.holds import Hold
from ullage.kube.kinds import Meta

NIGHTLY = Hold(id="1", kind="VolumeSnapshot", namespace="team", name="nightly", kept_by="VolumeSnapshotContent/snapcontent-1")
WRITTEN = '{"kind":"VolumeSnapshot","namespace":"team","name":"nightly","keptBy":"VolumeSnapshotContent/snapcontent-1"}'


def test_a_hold_is_read_back_as_it_was_written() -> None:
    assert holds.annotations_of([NIGHTLY]) == {"hold.ullage.io/1": WRITTEN}
    assert holds.holds_of(Meta(annotations={"hold.ullage.io/1": WRITTEN, "ullage.io/driver": "x"})) == (NIGHTLY,)


@pytest.mark.parametrize("text", ["", "keep", "[]", '{"name": 1}', '{"name":"x"}', "{"])
def test_whatever_else_stands_there_holds_too_and_is_never_taken_off(text: str) -> None:
    meta = Meta(annotations={"hold.ullage.io/me": text})
    (found,) = holds.holds_of(meta)
    assert str(found) == f"hold.ullage.io/me: {text or '(no text)'}"
    assert holds.unneeded(meta, {}) == ()


@pytest.mark.parametrize(
    ("put", "take", "change"),
    [
        pytest.param([NIGHTLY], [], None, id="what is there already is not written"),
        pytest.param([], [], None, id="nothing to do"),
        pytest.param([], [NIGHTLY], {"hold.ullage.io/1": None}, id="a hold is taken off"),
        pytest.param([], [Hold(id="2", kept_by="x/y")], None, id="one that is not there need not be"),
        pytest.param(
            [Hold(id="2", kind="K", namespace="n", name="m", kept_by="x/y")],
            [],
            {"hold.ullage.io/2": '{"kind":"K","namespace":"n","name":"m","keptBy":"x/y"}'},
            id="a second one is put on",
        ),
    ],
)
def test_what_is_written(put: list[Hold], take: list[Hold], change: object) -> None:
    found = holds.change(Meta(annotations={"hold.ullage.io/1": WRITTEN}), put=put, take=take)
    assert found == (None if change is None else {"metadata": {"annotations": change}})


def test_holders_in_a_sentence() -> None:
    many = [Hold(id=str(number), kind="VolumeSnapshot", namespace="t", name=str(number), kept_by="x/y") for number in range(7)]
    named = ", ".join(f"VolumeSnapshot t/{number}" for number in range(5))
    assert holds.listed(many) == f"{named} and 2 more"
    assert holds.listed([NIGHTLY, NIGHTLY]) == "VolumeSnapshot team/nightly"
