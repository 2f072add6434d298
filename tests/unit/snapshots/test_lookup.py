"""Which claims hold a snapshot, and which snapshot a claim leads to."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.snapshots.controllers.cluster import World, fails
from tests.unit.snapshots.objects import DELETED, PROTOTYPE, restoring_claim, snapshot
from ullage.errors import Uncertain
from ullage.kube.builtin.core import CLAIMS
from ullage.kube.cache.indexer import Key
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.data_source import DataSource, snapshot_key, waits_for

COPY = Key("team", "copy")
HELD = DataSource(GA.snapshots.group, "team", "snap")


async def test_only_a_claim_whose_restore_was_begun_holds_its_snapshot() -> None:
    world = World().everything()
    world.storage.before = fails(Uncertain("no answer"))
    async with world.process() as process:
        restoring = process.volumes.restoring
        await process.current()
        assert restoring(HELD) == []
        await process.look()
        await process.current()
        assert restoring(HELD) == [COPY]
        assert restoring(HELD._replace(group=PROTOTYPE)) == []
        assert restoring(HELD._replace(namespace="other")) == []
        await process.rest()
        assert restoring(HELD) == []


@pytest.mark.parametrize(
    ("changed", "holds"),
    [
        pytest.param({}, True, id="a claim without a volume"),
        pytest.param({"creation_timestamp": DELETED}, True, id="one that was made in the second of the deletion"),
        pytest.param({"creation_timestamp": "2026-01-01T00:05:01Z"}, False, id="one that was made after it"),
        pytest.param({"deletion_timestamp": DELETED}, False, id="one that is going itself"),
        pytest.param({"spec": {"volume_name": "pvc-1"}}, False, id="one that has its volume"),
    ],
)
def test_which_claims_still_wait_for_a_snapshot_that_is_to_go(changed: dict[str, Any], holds: bool) -> None:
    going = snapshot(meta={"deletion_timestamp": DELETED}).meta
    assert waits_for(restoring_claim(**changed), going) is holds


async def test_a_claim_leads_to_the_snapshot_that_it_holds() -> None:
    world = World().everything()
    claim = await world.api.find(CLAIMS, "copy", "team")
    assert list(snapshot_key(claim, GA.snapshots.group)) == [Key("team", "snap")]
    assert list(snapshot_key(claim, "another.example.com")) == []
