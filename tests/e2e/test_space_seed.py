"""The test plan of the document on snapshot space, case by case and under its numbers, with a megabyte for each gigabyte.

Cases 6 and 7, about roles, are in `test_rest.py`: they are about who may call its actions.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from .apart import IS_BORROWED
from .engine_scene import MIB, EngineScene, eventually
from .snapshot_scene import BOTH, Dialect
from .space_scene import CREATED, FORBIDDEN, GI, QUOTA, Json, Tenant, space_scene

pytestmark = [
    pytest.mark.skipif(IS_BORROWED, reason="a borrowed cluster has a world of its own"),
    pytest.mark.slow,
    pytest.mark.timeout(300),
]


FILLED = pytest.mark.parametrize("percent", [10, 50, 100], ids=lambda percent: f"{percent}-percent")


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineScene]:
    with space_scene(tmp_path_factory.mktemp("space")) as made:
        yield made


@pytest.fixture
def tenant(scene: EngineScene) -> Tenant:
    return Tenant(scene)


@pytest.mark.parametrize(
    ("limits", "field"),
    [
        pytest.param(
            {"namespaceTotalSnapshotSizeQuota": "ten"},
            "spec.snapshotLimit.namespaceTotalSnapshotSizeQuota",
            id="the namespace's is no number",
        ),
        pytest.param(
            {"namespaceTotalSnapshotSizeQuota": -1},
            "spec.snapshotLimit.namespaceTotalSnapshotSizeQuota",
            id="the namespace's is negative",
        ),
        pytest.param(
            {"namespaceTotalSnapshotSizeQuota": 0.5},
            "spec.snapshotLimit.namespaceTotalSnapshotSizeQuota",
            id="the namespace's is less than a byte",
        ),
        pytest.param(
            {"vmTotalSnapshotSizeQuota": {"db": "ten"}},
            "spec.snapshotLimit.vmTotalSnapshotSizeQuota.db",
            id="a VM's is no number",
        ),
        pytest.param(
            {"vmTotalSnapshotSizeQuota": {"db": -1}},
            "spec.snapshotLimit.vmTotalSnapshotSizeQuota.db",
            id="a VM's is negative",
        ),
    ],
)
def test_case_1_a_limit_that_is_no_amount_is_refused(tenant: Tenant, limits: Json, field: str) -> None:
    """As a quantity (`10Gi`, and what cannot be read as one) it comes through the actions: `test_rest.py`."""
    answer = tenant.api.call(
        "POST",
        tenant.quotas,
        {
            "apiVersion": "harvesterhci.io/v1beta1",
            "kind": "ResourceQuota",
            "metadata": {"name": QUOTA},
            "spec": {"snapshotLimit": limits},
        },
    )
    assert (answer.code, answer.reason) == (422, "Invalid"), answer.raw
    assert field in answer.message
    assert tenant.api.get(f"{tenant.quotas}/{QUOTA}").code == 404


@FILLED
def test_case_2_a_limit_on_a_vm_with_two_volumes(tenant: Tenant, percent: int) -> None:
    tenant.claim("first", 10 * GI)
    tenant.claim("second", 20 * GI)
    tenant.machine("vm", "first", "second")
    both, full = ("first", "second"), 30 * GI * percent // 100

    tenant.fill(*both, percent=percent)
    tenant.backup("one", "vm")
    tenant.fill(*both, percent=percent)
    tenant.backup("two", "vm", type="backup")  # nobody has set a limit yet
    tenant.limit(vms={"vm": full})  # below what is there: accepted
    eventually("all of it is shown", lambda: tenant.usage_of("vm") == 2 * full)
    eventually("that it is past the limit is shown", lambda: tenant.condition("WithinQuota") == "False")

    tenant.fill(*both, percent=percent)
    refused = tenant.ask_backup("three", "vm")
    assert refused.code == FORBIDDEN, refused.raw
    for said in ("snapshots/vm/vm", f"limit {full // MIB}Mi", f"used {2 * full // MIB}Mi"):
        assert said in refused.message
    assert tenant.api.get(f"{tenant.backups}/three").code == 404

    tenant.delete_backups("one", "two")
    eventually("nothing is left", lambda: tenant.usage_of("vm") == 0)
    assert tenant.members() == {}
    tenant.backup("four", "vm")
    eventually("it is shown", lambda: tenant.usage_of("vm") == full)
    assert tenant.usage() == full
    eventually("exactly full is within the limit", lambda: tenant.condition("WithinQuota") == "True")


@FILLED
def test_case_4_a_limit_on_a_namespace_with_a_vm(tenant: Tenant, percent: int) -> None:
    tenant.claim("disk", 10 * GI)
    tenant.machine("vm", "disk")
    full = 10 * GI * percent // 100
    tenant.limit(namespace=full)

    tenant.fill("disk", percent=percent)
    tenant.backup("one", "vm")
    eventually("it is shown", lambda: tenant.usage() == full)
    tenant.fill("disk", percent=percent)
    refused = tenant.ask_backup("two", "vm")
    assert refused.code == FORBIDDEN, refused.raw
    assert "snapshots/namespace" in refused.message

    tenant.delete_backups("one")
    eventually("nothing is left", lambda: tenant.usage() == 0)
    tenant.backup("three", "vm")
    eventually("it is shown", lambda: tenant.usage() == full)


@FILLED
@pytest.mark.parametrize("dialect", BOTH, ids=lambda dialect: dialect.name)
def test_case_5_a_limit_on_a_namespace_with_a_volume(tenant: Tenant, dialect: Dialect, percent: int) -> None:
    tenant.claim("disk", 10 * GI)
    tenant.scene.pod(tenant.namespace, "disk")
    tenant.attached("disk")
    full = 10 * GI * percent // 100
    tenant.limit(namespace=full)

    tenant.fill("disk", percent=percent)
    tenant.snapshot("one", "disk", dialect)
    eventually("it is shown", lambda: tenant.usage() == full)
    tenant.fill("disk", percent=percent)
    refused = tenant.ask_snapshot("two", "disk", dialect)
    assert refused.code == FORBIDDEN, refused.raw
    assert "snapshots/namespace" in refused.message

    tenant.delete_snapshot("one", dialect)
    eventually("nothing is left", lambda: tenant.usage() == 0)
    tenant.snapshot("three", "disk", dialect)
    eventually("it is shown", lambda: tenant.usage() == full)


def test_a_snapshot_of_an_unchanged_volume_costs_nothing_and_is_allowed_at_the_limit(tenant: Tenant) -> None:
    tenant.claim("disk", 10 * GI)
    tenant.scene.pod(tenant.namespace, "disk")
    tenant.attached("disk")
    tenant.limit(namespace=10 * GI)
    tenant.fill("disk")
    tenant.snapshot("one", "disk")
    volume, _ = tenant.volumes["disk"]
    eventually("the head is empty again", lambda: tenant.head(volume) == 0)
    tenant.snapshot("two", "disk")
    eventually("it is shown", lambda: tenant.usage() == 10 * GI)


def test_a_volume_that_was_rewritten_can_be_snapshotted_again(tenant: Tenant) -> None:
    """What a removed snapshot has is written anew: the next one has each block once, and takes no more than the first."""
    volume = tenant.claim("disk", 32 * MIB)
    tenant.scene.pod(tenant.namespace, "disk")
    tenant.attached("disk")
    tenant.limit(namespace=10 * MIB)
    tenant.write(6 * MIB, "disk")
    tenant.snapshot("one", "disk")
    tenant.write(6 * MIB, "disk")
    tenant.delete_snapshot("one")
    eventually("nothing is left", lambda: tenant.usage() == 0)
    tenant.snapshot("two", "disk")
    eventually("it is shown", lambda: tenant.usage() == 6 * MIB)
    tenant.write(6 * MIB, "disk")
    assert tenant.ask_snapshot("three", "disk").code == FORBIDDEN
    tenant.delete_snapshot("two")
    tenant.write(8 * MIB, "disk")
    tenant.snapshot("four", "disk")
    eventually("it is shown", lambda: tenant.usage() == 8 * MIB)
    eventually("that is all there is", lambda: sum(one.size for one in tenant.scene.chain(volume).values()) == 8 * MIB)


def test_a_volume_that_was_never_attached_costs_what_is_in_it(tenant: Tenant) -> None:
    """Nothing, and not its capacity."""
    volume = tenant.claim("disk", 32 * MIB)
    tenant.limit(namespace=MIB)
    eventually("its engine shows that it is empty", lambda: tenant.scene.get("engines", f"{volume}-e-0"))
    eventually("it is known", lambda: (tenant.scene.get("engines", f"{volume}-e-0") or {}).get("status", {}).get("snapshots"))
    tenant.snapshot("one", "disk")
    eventually("it costs nothing", lambda: tenant.usage() == 0)


def restored(tenant: Tenant) -> str:
    """A volume of engines that is made from the second of two snapshots, with 6Mi and 4Mi. It was never attached."""
    volume = tenant.claim("disk", 32 * MIB)
    tenant.scene.pod(tenant.namespace, "disk")
    tenant.attached("disk")
    tenant.write(6 * MIB, "disk")
    tenant.snapshot("one", "disk")
    for offset in range(10 * MIB, 14 * MIB, MIB):
        tenant.scene.write(volume, offset, os.urandom(MIB))
    eventually("the head shows it", lambda: tenant.head(volume) == 4 * MIB)
    tenant.snapshot("two", "disk")
    reference = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "two"}
    copy = tenant.claim("copy", 32 * MIB, dataSourceRef=reference)
    eventually(
        "its engine shows it", lambda: (tenant.scene.get("engines", f"{copy}-e-0") or {}).get("status", {}).get("snapshots")
    )
    return copy


def test_a_restored_volume_that_was_never_attached_costs_what_the_whole_chain_has(tenant: Tenant) -> None:
    restored(tenant)
    tenant.limit(namespace=20 * MIB - 1)
    eventually("the source's are counted", lambda: tenant.usage() == 10 * MIB)
    refused = tenant.ask_snapshot("three", "copy")
    assert refused.code == FORBIDDEN, refused.raw
    assert "asked 10Mi" in refused.message
    tenant.limit(namespace=20 * MIB)
    tenant.snapshot("three", "copy")
    eventually("all of it is shown, and once", lambda: tenant.usage() == 20 * MIB)


def test_what_a_restored_volume_was_made_with_counts_once_when_it_is_attached(tenant: Tenant) -> None:
    restored(tenant)
    tenant.limit(namespace=20 * MIB)
    tenant.api.delete(f"/api/v1/namespaces/{tenant.namespace}/pods/db")
    tenant.scene.pod(tenant.namespace, "copy", name="other")
    tenant.attached("copy")
    eventually("what it was made with has an object, which pays", lambda: tenant.usage() == 20 * MIB)
    tenant.snapshot("three", "copy")
    tenant.scene.write(tenant.volumes["copy"][0], 0, os.urandom(MIB))
    eventually("the head shows it", lambda: tenant.head(tenant.volumes["copy"][0]) == MIB)
    assert tenant.usage() == 20 * MIB
    refused = tenant.ask_snapshot("four", "copy")
    assert refused.code == FORBIDDEN, refused.raw
    assert "asked 1Mi" in refused.message


@FILLED
def test_case_5_on_directories(tenant: Tenant, percent: int) -> None:
    """Each snapshot is a copy of all files, and is asked for with what a copy takes at most."""
    scene, size = tenant.scene.base, 10 * GI
    files = scene.files(scene.claim(tenant.namespace, "data", size=str(size)))
    amount = size * percent // 100
    limit = amount + 64 * 1024  # and its directory
    tenant.limit(namespace=limit)

    (files / "file").write_bytes(os.urandom(amount))
    tenant.snapshot("one", "data")
    eventually("it is shown", lambda: amount <= tenant.usage() <= limit)
    (files / "file").write_bytes(os.urandom(amount))
    refused = tenant.ask_snapshot("two", "data")
    assert refused.code == FORBIDDEN, refused.raw
    assert "snapshots/namespace" in refused.message

    tenant.delete_snapshot("one")
    eventually("nothing is left", lambda: tenant.usage() == 0)
    tenant.snapshot("three", "data")
    eventually("it is shown", lambda: amount <= tenant.usage() <= limit)


def test_one_byte_over_is_refused_and_says_by_how_much(tenant: Tenant) -> None:
    tenant.claim("disk", 10 * GI)
    tenant.scene.pod(tenant.namespace, "disk")
    tenant.attached("disk")
    tenant.fill("disk")
    tenant.limit(namespace=10 * GI - 1)
    refused = tenant.ask_snapshot("one", "disk")
    assert refused.code == FORBIDDEN, refused.raw
    assert "1 byte" in refused.message
    tenant.limit(namespace=10 * GI)
    assert tenant.ask_snapshot("one", "disk").code == CREATED
