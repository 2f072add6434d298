"""A VM that is backed up every hour has thousands of backups in the end: what one look at them costs grows with their number,
and no faster. Counted, not timed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.snapshots.memory_api import MemoryApi
from tests.unit.space.controllers.follow.test_targets import TEAM, engine, volume
from ullage.kube.builtin import core
from ullage.kube.slices import Part, Wiring
from ullage.ledger.charging.stamps import FREE, PLAN, STAMP
from ullage.snapshots.api.ga.translation import GA
from ullage.space.accounts import stamp_for
from ullage.space.controllers.follow import payers
from ullage.space.controllers.follow.controller import Follower, payers_by
from ullage.space.controllers.follow.lookup import Lookup, Side, make_lookup, watches
from ullage.space.controllers.follow.targets import BACKUP, VOLUME, Target
from ullage.vms.api.backups import VM_BACKUPS

SIZE = 1024
PLAIN = "csi.example.com"
LONGHORN = "driver.longhorn.io"


def backed_up(count: int, driver: str) -> MemoryApi:
    """A claim `disk` with so many backups, each with one snapshot of it."""
    api, names = MemoryApi(), [f"s-{number:03}" for number in range(count)]
    if driver == LONGHORN:
        volume(api, engine("e-0", {f"snapshot-uid-{name}": SIZE for name in names}))
    else:
        api.put(core.CLAIMS, {"metadata": {"name": "disk", "namespace": TEAM}})
    for name in names:
        marks = {STAMP: str(stamp_for(SIZE)), PLAN: f'{{"disk":{SIZE}}}'}
        spec: Any = {"source": {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "db"}}
        meta: Any = {"name": f"b-{name}", "namespace": TEAM, "annotations": marks}
        api.put(VM_BACKUPS, {"metadata": meta, "spec": spec, "status": {"readyToUse": True}})
        owner = {"apiVersion": VM_BACKUPS.api_version, "kind": VM_BACKUPS.kind, "name": f"b-{name}", "uid": f"uid-b-{name}"}
        meta = {"name": name, "namespace": TEAM, "annotations": {STAMP: str(FREE)}}
        meta["ownerReferences"] = [{**owner, "controller": True}]
        api.put(GA.snapshots, {"metadata": meta, "spec": {"source": {"persistentVolumeClaimName": "disk"}}})
        handle = f"snap://vol/snapshot-uid-{name}" if driver == LONGHORN else f"shot-{name}"
        spec = {
            "volumeSnapshotRef": {"namespace": TEAM, "name": name, "uid": f"uid-{name}"},
            "driver": driver,
            "source": {"volumeHandle": "vol"},
            "deletionPolicy": "Delete",
        }
        status = {"snapshotHandle": handle, "creationTime": 1767225605000000000, "restoreSize": SIZE}
        api.put(GA.records, {"metadata": {"name": f"snapcontent-uid-{name}"}, "spec": spec, "status": status})
    return api


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often something was asked for, and how much came of it."""
    found: Counter[str] = Counter()

    def counted(owner: Any, name: str) -> None:
        real: Callable[..., Any] = getattr(owner, name)

        def ask(*given: Any, **more: Any) -> Any:
            answer = real(*given, **more)
            found[name] += len(answer) if isinstance(answer, list) else 1
            return answer

        monkeypatch.setattr(owner, name, ask)

    for name in ("of_claim", "of_backup", "records_for", "records_in", "records_with", "snapshot_of"):
        counted(Side, name)
    for name in ("backups_planning", "machines_using", "engines_of"):
        counted(Lookup, name)
    counted(payers, "payer_of")
    return found


async def cost(count: int, driver: str, target: Target, calls: Counter[str]) -> int:
    """Of one look, where all is as it should be."""
    api = backed_up(count, driver)
    wiring, made = Wiring(api), list[Follower]()  # type: ignore[arg-type]

    def make(given: Wiring) -> list[Any]:
        lookup = make_lookup(given, backups=True)
        made.append(Follower(given, lookup, payers_by(lookup, lambda ledger, cell: False)))
        return []

    wiring.made(Part(make=make, watches=watches(backups=True)))
    tasks = [asyncio.create_task(one.run()) for one in wiring.caches]
    try:
        async with asyncio.timeout(30.0):
            for cache in wiring.caches:
                await cache.reached(api.version)
        calls.clear()
        await made[0].reconcile(target)
        assert [one for one in api.fuse.log if one.startswith("patch")] == [], "all is as it should be"
        return sum(calls.values())
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize(
    ("driver", "target"),
    [
        pytest.param(PLAIN, Target(GA.name, TEAM, "s-000"), id="a snapshot"),
        pytest.param(PLAIN, Target(BACKUP, TEAM, "b-s-000"), id="a backup"),
        pytest.param(LONGHORN, Target(VOLUME, "", "vol"), id="a volume of engines"),
        pytest.param(LONGHORN, Target(BACKUP, TEAM, "b-s-000"), id="a backup of engines' volumes"),
    ],
)
async def test_four_times_the_backups_are_four_times_the_work(driver: str, target: Target, calls: Counter[str]) -> None:
    few = await cost(10, driver, target, calls)
    many = await cost(40, driver, target, calls)
    assert few, "something was counted"
    assert many <= 4 * few, (few, many, calls)
