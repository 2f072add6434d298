"""Which claims a VM uses, and which VMs use a claim."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from tests.unit.snapshots.memory_api import MemoryApi
from tests.unit.vms.builders import CLOUD_INIT, IMAGE, NAMESPACE, claim_volume, data_volume, machine, machine_body
from ullage.kube.client.client import Client
from ullage.kube.slices import Part, Wiring
from ullage.vms.api.machines import INSTANCES, VIRTUAL_MACHINES
from ullage.vms.claims import claims_of
from ullage.vms.lookup import MachineLookup, machine_lookup


@pytest.mark.parametrize(
    ("volumes", "claims"),
    [
        pytest.param((), (), id="no disk at all"),
        pytest.param((claim_volume("b"), claim_volume("a")), ("b", "a"), id="claims in the order of the VM"),
        pytest.param((data_volume("a"),), ("a",), id="a DataVolume has a claim of its own name"),
        pytest.param((IMAGE, CLOUD_INIT, claim_volume("a")), ("a",), id="images and cloud-init have none"),
        pytest.param((claim_volume("a", "x"), claim_volume("a", "y")), ("a",), id="a claim behind two disks counts once"),
        pytest.param((claim_volume(""), {"name": "x", "persistentVolumeClaim": None}), (), id="a disk that names nothing"),
    ],
)
def test_the_claims_of_a_vm(volumes: tuple[dict[str, Any], ...], claims: tuple[str, ...]) -> None:
    assert claims_of(machine(*volumes)) == claims


async def test_a_claim_leads_to_the_vms_that_use_it_now() -> None:
    api = MemoryApi()
    api.put(VIRTUAL_MACHINES, machine_body(claim_volume("shared"), name="one"))
    api.put(VIRTUAL_MACHINES, machine_body(claim_volume("shared"), claim_volume("own"), name="two"))
    wiring = Wiring(cast(Client, api))
    lookups: list[MachineLookup] = wiring.made(
        Part(make=lambda given: [given.shared(machine_lookup)], watches=(VIRTUAL_MACHINES, INSTANCES))
    )
    (lookup,) = lookups
    running = asyncio.create_task(lookup.machines.run())
    try:
        await lookup.machines.reached(api.version)
        assert {one.metadata.name for one in lookup.using(NAMESPACE, "shared")} == {"one", "two"}
        assert [one.metadata.name for one in lookup.using(NAMESPACE, "own")] == ["two"]
        assert lookup.using("other", "shared") == []
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
