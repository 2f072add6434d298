"""Which claims get a Volume of Longhorn, and what becomes of its PersistentVolume."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.standalone.world import builders
from tests.unit.standalone.world.longhorn import NAME, UID
from ullage.engines.handles import DRIVER
from ullage.kube.builtin.core import CsiVolumeSource
from ullage.standalone.world.controllers import persistent_volume_longhorn_rules as rules
from ullage.standalone.world.controllers.persistent_volume_plans import Delete, Finalize, Provision, Refuse
from ullage.standalone.world.longhorn import PERSISTENT_VOLUME_FINALIZER
from ullage.standalone.world.matching import ClaimFacts
from ullage.standalone.world.model import PROVISIONED_BY, RESTORED_FROM

MIB = 1 << 20


@pytest.mark.parametrize(
    ("asked", "size"),
    [
        pytest.param("2Mi", 2 * MIB, id="a multiple stays"),
        pytest.param("1", 2 * MIB, id="one byte takes a whole unit"),
        pytest.param("3M", 4 * MIB, id="decimal megabytes are rounded up"),
    ],
)
def test_a_volume_is_a_multiple_of_two_mebibytes(asked: str, size: int) -> None:
    assert rules.size_of(builders.claim(size=asked)) == size


LONGHORN = builders.storage_class("fast", provisioner=DRIVER)


@pytest.mark.parametrize(
    ("claim", "found", "plan"),
    [
        pytest.param({}, LONGHORN, Provision(NAME, LONGHORN), id="a claim of the class"),
        pytest.param({"volume_mode": "Block"}, LONGHORN, Provision(NAME, LONGHORN), id="a raw device"),
        pytest.param({}, builders.storage_class(), None, id="a claim of somebody else's class"),
        pytest.param({"data_source": {"kind": "VolumeSnapshot"}}, LONGHORN, None, id="one that wants data waits for it"),
        pytest.param({"going": True}, LONGHORN, None, id="one that is going"),
        pytest.param({"volume_name": "v"}, LONGHORN, None, id="one that has a volume"),
        pytest.param(
            {"selector": {}}, LONGHORN, Refuse("spec.selector: not allowed where volumes are made on demand"), id="a selector"
        ),
    ],
)
def test_who_gets_a_volume(claim: dict[str, Any], found: Any, plan: object) -> None:
    assert rules.plan_provision(builders.claim(**claim), ClaimFacts(storage_class=found)) == plan


def persistent(*, restored: bool = False, handle: str = NAME, held: bool = True, **given: Any) -> Any:
    marks = {PROVISIONED_BY: DRIVER, **({RESTORED_FROM: "s"} if restored else {})}
    csi = CsiVolumeSource(driver=DRIVER, volume_handle=handle)
    given = {"claimed_by": UID, "persistent_volume_reclaim_policy": "Delete", **given}
    found = builders.volume(NAME, annotations=marks, csi=csi, **given)
    return builders.replaced(found, finalizers=(PERSISTENT_VOLUME_FINALIZER,) if held else ())


@pytest.mark.parametrize(
    ("volume", "claim", "plan"),
    [
        pytest.param(persistent(phase="Bound"), builders.claim(), None, id="its claim is there"),
        pytest.param(persistent(phase="Bound"), None, None, id="its phase is not told yet"),
        pytest.param(persistent(phase="Released"), None, Delete(), id="released"),
        pytest.param(
            persistent(phase="Released"), builders.claim(uid=builders.OTHER_UID), Delete(), id="another claim has the name"
        ),
        pytest.param(
            persistent(phase="Released", persistent_volume_reclaim_policy="Retain"), None, None, id="released, but retained"
        ),
        pytest.param(persistent(phase="Released", going=True), None, Finalize(with_data=True), id="going with its data"),
        pytest.param(
            persistent(going=True, persistent_volume_reclaim_policy="Retain"),
            None,
            Finalize(with_data=False),
            id="going without its data",
        ),
        pytest.param(persistent(going=True), builders.claim(), None, id="going, while its claim is there"),
        pytest.param(persistent(going=True, held=False), None, None, id="let go already"),
    ],
)
def test_what_becomes_of_a_persistent_volume(volume: Any, claim: Any, plan: object) -> None:
    assert rules.plan_persistent_volume(volume, claim) == plan


@pytest.mark.parametrize(
    ("volume", "ours"),
    [
        pytest.param(persistent(), True, id="made here"),
        pytest.param(persistent(restored=True), False, id="restored by somebody else"),
        pytest.param(persistent(handle="other"), False, id="stands for another Volume"),
        pytest.param(builders.volume(NAME, ours=True), False, id="a directory"),
    ],
)
def test_which_persistent_volumes_are_ours(volume: Any, ours: bool) -> None:
    assert rules.is_ours(volume) is ours
