"""Which snapshot a claim is to be filled from."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.snapshots.objects import GA, PROTOTYPE, reference, restoring_claim
from ullage.snapshots.data_source import DataSource, data_source_of, snapshot_keys


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        pytest.param({"data_source_ref": reference()}, DataSource(GA, "team", "snap"), id="dataSourceRef of the GA group"),
        pytest.param(
            {"data_source_ref": reference(PROTOTYPE)},
            DataSource(PROTOTYPE, "team", "snap"),
            id="dataSourceRef of the prototype",
        ),
        pytest.param(
            {"data_source_ref": None, "data_source": reference()},
            DataSource(GA, "team", "snap"),
            id="dataSource of the GA group",
        ),
        pytest.param(
            {"data_source_ref": None, "data_source": reference(PROTOTYPE)}, None, id="dataSource of the prototype is none"
        ),
        pytest.param(
            {"data_source_ref": reference(namespace="other")}, DataSource(GA, "other", "snap"), id="one in another namespace"
        ),
        pytest.param({"data_source_ref": None}, None, id="no source at all"),
        pytest.param({"data_source_ref": reference(None, kind="PersistentVolumeClaim")}, None, id="a clone"),
        pytest.param({"data_source_ref": reference(None)}, None, id="a VolumeSnapshot of no group"),
        pytest.param({"data_source_ref": reference("populators.example.com")}, None, id="somebody else's VolumeSnapshot"),
        pytest.param(
            {"data_source_ref": reference("populators.example.com"), "data_source": reference()},
            None,
            id="dataSourceRef counts where both are there",
        ),
    ],
)
def test_the_snapshot_that_a_claim_wants(spec: dict[str, Any], wanted: DataSource | None) -> None:
    assert data_source_of(restoring_claim(spec=spec)) == wanted


def test_claims_are_found_by_the_snapshot_of_their_own_namespace_only() -> None:
    assert list(snapshot_keys(restoring_claim())) == [f"{GA}/team/snap"]
    assert list(snapshot_keys(restoring_claim(spec={"data_source_ref": reference(namespace="other")}))) == []
