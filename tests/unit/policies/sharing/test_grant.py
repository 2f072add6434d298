"""Shares: what another namespace gets, what it may do with it, and that the data goes with the last who has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.unit.policies.sharing.scene import HANDLE, Scene
from ullage.kube.cache.indexer import Key
from ullage.kube.crds.definitions import crd_of, undocumented
from ullage.kube.errors import Forbidden, Invalid
from ullage.kube.kinds import Meta
from ullage.policies.sharing.api import MOST_TARGETS, SHARES, SnapshotShare
from ullage.policies.sharing.controllers import share_grant_rules as rules
from ullage.policies.sharing.model import FINALIZER, SHARED_FROM
from ullage.snapshots.binding import misbound
from ullage.snapshots.model import SHARED_BY
from ullage.standalone.apiserver.schema.custom import compile_custom

Json = dict[str, Any]


@pytest.fixture(params=["ga", "prototype"])
def scene(request: pytest.FixtureRequest) -> Scene:
    return Scene(dialect=request.param)


def shared(scene: Scene) -> list[str]:
    return [name for name in ("test", "other") if (one := scene.snapshot(name)) is not None and one.state.ready]


# --- granting --------------------------------------------------------------------------------------------------------


async def test_a_namespace_that_is_named_gets_a_snapshot_of_the_same_data(scene: Scene) -> None:
    scene.share("test")
    await scene.live()
    there = scene.snapshot("test")
    assert there is not None
    assert there.state.ready
    (record,) = [one for one in scene.records() if one.ref.namespace == "test"]
    assert (record.handle, record.imported, record.policy, record.ref.uid) == (HANDLE, HANDLE, "Delete", there.meta.uid)
    assert record.meta.annotations[SHARED_BY] == "grant"
    assert there.meta.annotations[SHARED_FROM] == "shop/golden"
    assert scene.state("test") == ("Shared", "")
    status = scene.status()
    assert (status["sourceUID"], status["shared"]) == ("source-uid", 1)
    assert scene.snapshot("other") is None, "without a grant nothing crosses"
    if scene.dialect == "ga":
        assert record.volume_mode == "Block"


async def test_namespaces_are_chosen_by_labels_those_that_come_later_too(scene: Scene) -> None:
    scene.namespace("test", team="qa")
    scene.namespace("shop", team="qa")
    scene.share(targets={"matchLabels": {"team": "qa"}}, name="copy")
    await scene.live()
    assert scene.snapshot("test", "copy") is not None
    assert scene.snapshot("shop", "copy") is None, "never its own"
    scene.namespace("other", team="qa")
    await scene.live()
    assert scene.snapshot("other", "copy") is not None
    assert scene.status()["shared"] == 2


async def test_no_targets_is_nobody(scene: Scene) -> None:
    scene.share(targets={})
    await scene.live()
    assert shared(scene) == []


async def test_nothing_is_given_before_the_source_is_ready(scene: Scene) -> None:
    scene.api.edit(scene.kinds.records, scene.records()[0].meta.name, merge={"status": None})
    scene.share("test")
    await scene.live()
    assert shared(scene) == []
    assert scene.state("test") == ("Waiting", "VolumeSnapshot shop/golden is not ready yet")
    scene.source()
    await scene.live()
    assert shared(scene) == ["test"]


async def test_a_forged_status_of_the_source_gives_nothing(scene: Scene) -> None:
    """Whoever may write a snapshot names the record of somebody else."""
    victim = scene.records()[0].meta.name
    field = "boundVolumeSnapshotContentName" if scene.dialect == "ga" else "snapshotDataName"
    spec = {"source": {"persistentVolumeClaimName": "x"}} if scene.dialect == "ga" else {"persistentVolumeClaimName": "x"}
    meta = {"name": "forged", "namespace": "other"}
    scene.api.put(scene.kinds.snapshots, {"metadata": meta, "spec": spec, "status": {field: victim, "readyToUse": True}})
    scene.share("test", source={"namespace": "other", "name": "forged"})
    await scene.live()
    assert shared(scene) == []
    assert scene.state("test")[0] == "Waiting"


async def test_what_another_snapshotter_deletes_is_not_given(scene: Scene) -> None:
    """It would delete the data with the first who deletes, and nobody else would have it."""
    scene.served = ("b.example.com", "a.example.com")
    scene.share("test")
    await scene.live()
    assert scene.snapshot("test") is None
    assert len(scene.records()) == 1
    assert scene.state("test") == (
        "Waiting",
        "VolumeSnapshot shop/golden is of driver csi.example.com, whose snapshots are not deleted by Ullage (it serves "
        "a.example.com, b.example.com): its data would go with the first who deletes it. Name the driver: ullage controller "
        "--driver csi.example.com=…",
    )
    assert scene.status()["conditions"][0]["reason"] == "DriverNotManaged"


async def test_of_a_driver_that_was_handed_to_another_snapshotter_nothing_is_taken_back_unasked(scene: Scene) -> None:
    """To delete a record that was just made would have the other one delete the source's data."""
    scene.share("test")
    async with scene.process() as process:
        while len(scene.records()) == 1:
            await process.look()
    scene.served = ()
    await scene.live()
    assert len(scene.records()) == 2
    assert (scene.state("test")[0], scene.data) == ("Waiting", {HANDLE})
    assert "(it serves none)" in scene.state("test")[1]


async def test_more_namespaces_than_there_may_be_take_nothing_from_those_that_have_it() -> None:
    names = [f"n-{number:03}" for number in range(MOST_TARGETS + 1)]
    share = msgspec.convert(
        {
            "metadata": {"name": "grant", "uid": "share-uid"},
            "spec": {"source": {"namespace": "shop", "name": "golden"}, "targets": {"matchLabels": {"team": "qa"}}},
        },
        SnapshotShare,
    )
    there = [Meta(name=name, uid=f"uid-{name}", labels={"team": "qa"}) for name in names]
    first = rules.granted_to(share, there[1:])
    share = replace(share, status=rules.planned(share, first, uid="source-uid"))
    assert set(rules.granted_to(share, there)) == set(names[1:]), "one that comes later, and is before them by name, gets none"
    assert set(rules.granted_to(share, there[:-1])) == set(names[:-1]), "where one has gone there is room"
    again = replace(there[1], uid="another")
    assert set(rules.granted_to(share, [there[0], again, *there[2:]])) == {names[0], *names[2:]}, "another of the name is new"


async def test_a_record_that_was_given_binds_to_nobody_else(scene: Scene) -> None:
    scene.share("test")
    await scene.live()
    (record,) = [one for one in scene.records() if one.ref.namespace == "test"]
    named = (
        {"source": {"volumeSnapshotContentName": record.meta.name}}
        if scene.dialect == "ga"
        else {"snapshotDataName": record.meta.name}
    )
    for namespace, name in (("other", "golden"), ("test", "second")):
        scene.api.put(scene.kinds.snapshots, {"metadata": {"name": name, "namespace": namespace}, "spec": named})
        thief = scene.snapshot(namespace, name)
        assert thief is not None
        problem = misbound(record, thief)
        assert problem is not None
        assert problem.reason == "RecordMisbound"
    await scene.live()
    assert shared(scene) == ["test"]
    assert not [one for one in scene.records() if one.ref.namespace == "other"]


async def test_a_name_that_is_taken_is_told_and_left_alone(scene: Scene) -> None:
    spec = {"source": {"persistentVolumeClaimName": "x"}} if scene.dialect == "ga" else {"persistentVolumeClaimName": "x"}
    scene.api.put(scene.kinds.snapshots, {"metadata": {"name": "golden", "namespace": "test"}, "spec": spec})
    scene.share("test")
    await scene.live()
    assert scene.state("test") == ("Refused", "VolumeSnapshot golden exists there already, and is another one")
    scene.api.remove(SHARES, "grant")
    await scene.live()
    there = scene.snapshot("test")
    assert there is not None
    assert there.meta.deletion_timestamp is None, "what a tenant has of the name stays"


async def test_a_namespace_without_room_is_told_so_and_others_get_it(scene: Scene) -> None:
    def full(what: str) -> None:
        if what == f"create {scene.kinds.snapshots.name} golden" and not shared(scene):
            raise Forbidden("snapshots of namespace other may take 1Gi", code=403)

    scene.share("other", "test")
    scene.api.refuse = full
    async with scene.process() as process:
        for _ in range(4):
            await process.look()
            scene.play()
    assert scene.state("other") == ("Refused", "snapshots of namespace other may take 1Gi")
    assert "ShareRefused" in scene.told.reasons
    scene.api.refuse = lambda what: None
    await scene.live()
    assert shared(scene) == ["test", "other"]


async def test_another_source_of_the_name_is_not_given(scene: Scene) -> None:
    scene.share("test")
    await scene.live()
    scene.delete("shop")
    await scene.live()
    scene.source(uid="later", handle="handle-2")
    scene.api.edit(SHARES, "grant", merge={"spec": {"targets": {"namespaces": ["test", "other"]}}})
    await scene.live()
    assert shared(scene) == ["test"]
    assert "not the one any more that was granted" in scene.state("other")[1]


async def test_another_namespace_of_the_name_gets_nothing(scene: Scene) -> None:
    scene.share("test")
    await scene.live()
    scene.delete("test")
    await scene.live()
    scene.namespace("test", uid="another-tenant")
    await scene.live()
    assert shared(scene) == []
    assert HANDLE in scene.data


async def test_a_namespace_that_takes_the_place_of_one_without_room_gets_nothing(scene: Scene) -> None:
    def full(what: str) -> None:
        if what == f"create {scene.kinds.snapshots.name} golden":
            raise Forbidden("no room", code=403)

    scene.share("test")
    scene.api.refuse = full
    await scene.live()
    assert scene.state("test") == ("Refused", "no room")
    scene.namespace("test", uid="another-tenant")
    scene.api.refuse = lambda what: None
    await scene.live()
    assert shared(scene) == []
    assert [one.ref.namespace for one in scene.records()] == ["shop"]


# --- the data --------------------------------------------------------------------------------------------------------


async def test_what_the_consumer_deletes_is_not_given_again_and_the_source_keeps_its_data(scene: Scene) -> None:
    scene.share("test")
    await scene.live()
    scene.delete("test")
    await scene.live()
    assert scene.snapshot("test") is None
    assert scene.state("test")[0] == "Removed"
    assert [one.ref.namespace for one in scene.records()] == ["shop"]
    assert HANDLE in scene.data


async def test_the_source_may_go_and_the_data_stays_for_those_who_have_it(scene: Scene) -> None:
    scene.share("test", "other")
    await scene.live()
    scene.delete("shop")
    await scene.live()
    assert scene.snapshot("shop") is None
    assert shared(scene) == ["test", "other"]
    assert HANDLE in scene.data
    scene.delete("test")
    await scene.live()
    assert HANDLE in scene.data
    scene.delete("other")
    await scene.live()
    assert scene.data == set(), "the last one takes it along"
    assert scene.records() == []


async def test_who_is_taken_out_of_the_grant_loses_it(scene: Scene) -> None:
    scene.share("test", "other")
    await scene.live()
    scene.api.edit(SHARES, "grant", merge={"spec": {"targets": {"namespaces": ["other"]}}})
    await scene.live()
    assert shared(scene) == ["other"]
    assert [one["namespace"] for one in scene.status()["targets"]] == ["other"]
    assert HANDLE in scene.data


@pytest.mark.parametrize("source_first", [True, False])
async def test_a_share_that_is_deleted_takes_everything_back(scene: Scene, source_first: bool) -> None:
    scene.share("test", "other")
    await scene.live()
    found = scene.api.body(SHARES, "grant")
    assert found is not None
    assert found["metadata"]["finalizers"] == [FINALIZER]
    if source_first:
        scene.delete("shop")
        await scene.live()
    scene.api.remove(SHARES, "grant")
    await scene.live()
    assert shared(scene) == []
    assert scene.api.bodies(SHARES) == []
    assert (HANDLE in scene.data) is not source_first
    assert len(scene.records()) == (0 if source_first else 1)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"source": {"namespace": "../vic", "name": "golden"}}, id="no namespace can be called so"),
        pytest.param({"targets": {"namespaces": ["test", "../other"]}}, id="nor a target"),
        pytest.param({"name": "a..b"}, id="nor a snapshot"),
    ],
)
async def test_a_share_that_was_stored_with_a_bad_name_is_finalized_where_the_server_does_not_ratchet(
    spec: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene()
    scene.share("test", **spec)
    schema = compile_custom(crd_of(SHARES)["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    assert schema.validate(scene.api.body(SHARES, "grant")), "the schema refuses what is stored"
    scene.api.edit(
        SHARES, "grant", merge={"metadata": {"finalizers": [FINALIZER], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    )
    store = scene.api._store

    def checked(place: Any, body: Json, event: str) -> Json:
        if place.kind == SHARES.kind and (faults := schema.validate(body)):
            raise Invalid(str(faults[0]), code=422)
        return store(place, body, event)

    monkeypatch.setattr(scene.api, "_store", checked)
    await scene.live()
    assert scene.api.bodies(SHARES) == []


async def test_what_is_being_taken_back_is_looked_at_again(scene: Scene) -> None:
    """The record goes before the snapshot does, and after that nothing tells which share a snapshot is of."""
    scene.share("test")
    await scene.live()
    scene.api.remove(SHARES, "grant")
    async with scene.process() as process:
        await process.look()
        assert await process.again() is not None
        scene.play()
        assert await process.again() is not None


async def test_data_that_is_to_be_retained_is_retained_and_no_record_is_left() -> None:
    scene = Scene()
    scene.source(policy="Retain")
    scene.share("test")
    await scene.live()
    scene.api.remove(SHARES, "grant")
    await scene.live()
    assert [one.ref.namespace for one in scene.records()] == ["shop"]
    assert HANDLE in scene.data


async def test_a_source_that_goes_while_it_is_being_given_gives_nothing(scene: Scene) -> None:
    """After the record is made, and before anybody has a snapshot of it."""
    scene.share("test")

    def goes(what: str) -> None:
        if what.startswith(f"create {scene.kinds.records.name}"):
            scene.delete("shop")

    scene.api.refuse = goes
    await scene.live()
    scene.api.refuse = lambda what: None
    await scene.live()
    assert scene.snapshot("test") is None
    assert scene.records() == []
    assert scene.data == set()


async def test_the_api_is_asked_about_the_source_before_anybody_gets_a_snapshot_of_it(scene: Scene) -> None:
    """The cache has not seen yet that it goes."""
    scene.share("test")
    async with scene.process() as process:
        await process.look()
        scene.play()
        await process.current()
        scene.delete("shop")
        await process.shares.reconcile(Key("", "grant"))
        assert scene.snapshot("test") is None
    await scene.live()
    assert (scene.records(), scene.data) == ([], set())


async def test_what_was_made_before_a_kill_and_deleted_after_it_is_not_given_again(scene: Scene) -> None:
    for blows_at in range(1, 40):
        one = Scene(dialect=scene.dialect)
        one.share("test")
        killed = await one.live(blows_at=blows_at)
        await one.live()
        one.delete("test")
        await one.live()
        assert (one.snapshot("test"), one.state("test")[0]) == (None, "Removed"), blows_at
        if not killed:
            return
    raise AssertionError("the last try should have lived to its end")


ACTIONS: list[tuple[str, Callable[[Scene], None]]] = [
    ("the grant stands", lambda scene: None),
    ("the source goes", lambda scene: scene.delete("shop")),
    ("the grant goes", lambda scene: scene.api.remove(SHARES, "grant")),
]


@pytest.mark.parametrize(("what", "then"), ACTIONS, ids=[name for name, _ in ACTIONS])
async def test_a_kill_at_any_moment_leaks_nothing_and_loses_nothing(
    scene: Scene, what: str, then: Callable[[Scene], None]
) -> None:
    for blows_at in range(1, 40):
        one = Scene(dialect=scene.dialect)
        one.share("test", "other")
        killed = await one.live(blows_at=blows_at)
        then(one)
        await one.live()
        await one.live()
        has = set(shared(one))
        records = {record.ref.namespace for record in one.records()}
        stands = {"the grant stands": {"shop"}, "the source goes": set(), "the grant goes": {"shop"}}[what]
        assert records == has | stands, (what, blows_at)
        assert (HANDLE in one.data) is bool(records), (what, blows_at)
        assert has == {"the grant stands": {"test", "other"}, "the grant goes": set()}.get(what, has), (what, blows_at)
        if not killed:
            return
    raise AssertionError("the last try should have lived to its end")


def test_every_field_is_explained() -> None:
    assert undocumented(crd_of(SHARES)) == []
    assert not SHARES.namespaced
