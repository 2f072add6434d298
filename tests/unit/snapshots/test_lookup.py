"""Which claims hold a snapshot, and which snapshot a claim leads to."""

from __future__ import annotations

from tests.unit.snapshots.controllers.cluster import World, fails
from tests.unit.snapshots.objects import PROTOTYPE
from ullage.errors import Uncertain
from ullage.kube.builtin.core import CLAIMS
from ullage.kube.cache.indexer import Key
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.data_source import DataSource, snapshot_key

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


async def test_a_claim_leads_to_the_snapshot_that_it_holds() -> None:
    world = World().everything()
    claim = await world.api.find(CLAIMS, "copy", "team")
    assert list(snapshot_key(claim, GA.snapshots.group)) == [Key("team", "snap")]
    assert list(snapshot_key(claim, "another.example.com")) == []
