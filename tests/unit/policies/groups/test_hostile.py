"""What somebody can do who may write everything in his own namespace: nothing is left behind that nobody pays for."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.unit.kube.virtual_time import in_virtual_time
from tests.unit.policies.groups.cluster import CUT_AT, TEAM, GroupCluster
from tests.unit.snapshots.memory_api import Json
from ullage.kube.kinds import Meta
from ullage.policies.groups.api import GROUPS, GroupMemberInfo, VolumeGroupSnapshot, VolumeGroupSnapshotContent
from ullage.policies.groups.controllers.group_take_gathering import Gatherer
from ullage.policies.groups.controllers.group_take_members import member_of
from ullage.policies.groups.controllers.group_take_rules import next_step
from ullage.policies.groups.model import BY_DRIVER, CUT_BY, CUTTING, PHASE, member_name
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.ga.types import VOLUME_SNAPSHOTS, VolumeSnapshot
from ullage.snapshots.model import CREATING, GROUP_HANDLE, Record, Ref, State

OWNER: Json = {"apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshot", "name": "one", "uid": "uid-one"}


def made(*, by_driver: bool = False, **rest: Any) -> GroupCluster:
    cluster = GroupCluster(**rest)
    cluster.driver.groups = by_driver
    return cluster


@pytest.mark.parametrize("by_driver", [False, True], ids=["one by one", "in one call"])
def test_a_member_that_somebody_makes_beforehand_is_cut_with_the_others_and_once(by_driver: bool) -> None:
    """Under the right name, for the right claim, and without what holds it."""

    async def main() -> None:
        cluster = made(by_driver=by_driver)
        meta = {"name": member_name("uid-one", "vol-data-1"), "namespace": TEAM, "ownerReferences": [OWNER]}
        cluster.api.put(VOLUME_SNAPSHOTS, {"metadata": meta, "spec": {"source": {"persistentVolumeClaimName": "data-1"}}})
        cluster.ask()
        await cluster.live(cluster.ready)
        assert sorted(cluster.driver.cuts) == ["vol-data-0", "vol-data-1", "vol-data-2"]
        cluster.delete()
        await cluster.live(cluster.clean)

    in_virtual_time(main())


@pytest.mark.parametrize(
    ("record", "fails"),
    [
        pytest.param({"handle": "its-own"}, True, id="it has a snapshot of its own"),
        pytest.param({"notes": {CREATING: "true"}}, True, id="its driver is being asked for one"),
        pytest.param({}, False, id="nothing was begun"),
        pytest.param({"handle": "theirs", "notes": {GROUP_HANDLE: "group"}}, False, id="it was cut with the others"),
    ],
)
def test_the_handle_of_a_member_that_is_cut_alone_is_never_written_over(record: dict[str, Any], fails: bool) -> None:
    """The group fails: then what was made for the member is deleted with it."""
    info = {"volumeHandle": "vol", "snapshotHandle": "theirs", "readyToUse": True}
    content = {
        "metadata": {"name": "c", "annotations": {CUT_BY: BY_DRIVER, PHASE: CUTTING}},
        "spec": {"volumeGroupSnapshotRef": {}, "deletionPolicy": "Delete", "driver": "d", "source": {"volumeHandles": ["vol"]}},
        "status": {"volumeGroupSnapshotHandle": "group", "volumeSnapshotInfoList": [info]},
    }
    meta = {"name": member_name("uid-one", "vol"), "namespace": TEAM, "uid": "u", "ownerReferences": [OWNER]}
    body = {"metadata": meta, "spec": {"source": {"persistentVolumeClaimName": "data"}}}
    snapshot = msgspec.convert(body, VolumeSnapshot)
    member = replace(
        member_of(Meta(uid="uid-one"), "data", "vol", info=msgspec.convert(info, GroupMemberInfo)),
        snapshot=GA.read_snapshot(snapshot),
        seen=snapshot,
        record=Record(
            meta=Meta(name="r", annotations=record.get("notes", {})),
            ref=Ref(TEAM, member_name("uid-one", "vol"), "u"),
            driver="d",
            state=State(handle=record.get("handle", "")),
        ),
    )
    step = next_step(msgspec.convert(content, VolumeGroupSnapshotContent), [member], now=CUT_AT)
    assert (step.failure is not None and step.failure.reason == "CutAlone") is fails
    assert bool(step.handles) is not fails


@pytest.mark.parametrize("by_driver", [False, True], ids=["one by one", "in one call"])
@pytest.mark.parametrize("moment", ["planned", "cut"])
def test_a_group_that_is_torn_off_before_it_is_complete_leaves_nothing_that_nobody_pays_for(
    by_driver: bool, moment: str
) -> None:
    """Its finalizers are taken off, and it is deleted; the garbage collector deletes its members."""

    async def main() -> None:
        cluster = made(by_driver=by_driver)
        cluster.driver.ready = False
        if moment == "planned":
            cluster.api.refuse = lambda what: tear() if what.startswith(f"create {VOLUME_SNAPSHOTS.name}") else None

        def tear() -> None:
            if cluster.group() is not None:
                cluster.api.edit(GROUPS, "one", TEAM, merge={"metadata": {"finalizers": None}})
                cluster.delete()

        cluster.ask()
        await cluster.live(lambda: cluster.group() is None or bool(cluster.driver.names))
        tear()
        await cluster.stay(10)
        for one in cluster.members().values():
            cluster.api.remove(VOLUME_SNAPSHOTS, one["metadata"]["name"], TEAM)
        await cluster.live(cluster.clean)

    in_virtual_time(main())


def test_what_is_complete_stays_though_its_group_is_torn_off() -> None:
    async def main() -> None:
        cluster = made(by_driver=True)
        cluster.ask()
        await cluster.live(cluster.ready)
        cluster.api.edit(GROUPS, "one", TEAM, merge={"metadata": {"finalizers": None}})
        cluster.delete()
        await cluster.stay(120)
        assert cluster.group() is None
        assert len(cluster.driver.names) == 3
        assert cluster.content() is not None

    in_virtual_time(main())


def test_however_many_groups_wait_the_claims_of_a_namespace_are_gone_through_now_and_then_by_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thousand claims: half a second between two looks. Every change of a claim wakes all groups that wait."""
    looks: list[int] = []
    plan = Gatherer.plan

    def counted(self: Gatherer, group: VolumeGroupSnapshot) -> Any:
        looks.append(1)
        return plan(self, group)

    monkeypatch.setattr(Gatherer, "plan", counted)

    async def main() -> None:
        cluster = made(claims=tuple(f"data-{number}" for number in range(1000)))
        for number in range(50):
            cluster.ask(f"group-{number}", selector={"matchLabels": {"app": "none"}})

        async def change() -> None:
            for number in range(100):
                cluster.claim(f"data-{number}")
                await asyncio.sleep(0.1)

        async with cluster.running():
            await change()
        assert 10 <= len(looks) <= 25, "in ten seconds"
        cluster.claim("data-7", labels={"app": "wanted"})
        cluster.ask("wanted", selector={"matchLabels": {"app": "wanted"}})
        await cluster.live(lambda: cluster.ready("wanted"))

    in_virtual_time(main())


@pytest.mark.parametrize(
    ("selector", "says"),
    [
        pytest.param({"matchLabels": {f"k{n}": "v" for n in range(32)}}, "no claim of the namespace", id="32 labels are read"),
        pytest.param(
            {"matchLabels": {f"k{n}": "v" for n in range(33)}}, "33 labels and expressions with 0 values", id="one more"
        ),
        pytest.param(
            {"matchExpressions": [{"key": f"k{n}", "operator": "DoesNotExist"} for n in range(30_000)]},
            "30000 labels and expressions with 0 values",
            id="very many expressions",
        ),
        pytest.param(
            {"matchExpressions": [{"key": "app", "operator": "In", "values": [f"v{n}" for n in range(257)]}]},
            "1 labels and expressions with 257 values",
            id="very many values",
        ),
    ],
)
def test_a_selector_is_held_against_claims_only_where_that_costs_little(selector: dict[str, Any], says: str) -> None:
    async def main() -> None:
        cluster = made()
        cluster.ask(selector=selector)
        await cluster.live(lambda: says in cluster.error())
        assert cluster.members() == {}

    in_virtual_time(main())
