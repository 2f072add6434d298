"""The quota object: explained to the last field, and readable as Harvester's clients write it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from ullage.kube.crds.definitions import crd_of, undocumented
from ullage.space.api import HARVESTER_QUOTAS, ResourceQuota, ResourceQuotaStatus, SnapshotLimitStatus


def test_every_field_is_explained() -> None:
    assert undocumented(crd_of(HARVESTER_QUOTAS)) == []


@pytest.mark.parametrize(
    ("spec", "namespace", "vms"),
    [
        pytest.param({}, UNSET, {}, id="an empty spec"),
        pytest.param({"snapshotLimit": {}}, UNSET, {}, id="no limit, as Harvester's clients write zero"),
        pytest.param({"snapshotLimit": {"namespaceTotalSnapshotSizeQuota": 0}}, 0, {}, id="zero that is written out"),
        pytest.param(
            {"snapshotLimit": {"namespaceTotalSnapshotSizeQuota": 5, "vmTotalSnapshotSizeQuota": {"db": 3}}},
            5,
            {"db": 3},
            id="both limits",
        ),
    ],
)
def test_what_harvesters_clients_write_is_read(spec: dict[str, Any], namespace: object, vms: dict[str, int]) -> None:
    found = msgspec.convert({"metadata": {"name": "default-resource-quota"}, "spec": spec}, type=ResourceQuota)
    limit = found.spec.snapshot_limit
    assert (limit.namespace_total_snapshot_size_quota, limit.vm_total_snapshot_size_quota) == (namespace, vms)


def test_a_usage_of_nothing_is_written_out_and_one_that_was_not_counted_is_absent() -> None:
    empty = ResourceQuotaStatus(snapshot_limit_status=SnapshotLimitStatus())
    assert msgspec.to_builtins(empty) == {
        "snapshotLimitStatus": {"namespaceTotalSnapshotSizeUsage": 0, "vmTotalSnapshotSizeUsage": {}}
    }
    assert msgspec.to_builtins(ResourceQuotaStatus()) == {}
